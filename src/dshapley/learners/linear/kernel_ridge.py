"""Kernel ridge regression without retraining: the bordered inverse of K + alpha I.

With z added, the model f of S moves by g_z(t) e / s, where e = y - f(z) is the residual,

    g_z(t) = k(t, z) - k(t, S) v,   v = (K + alpha I)^-1 k(S, z),   s = alpha + g_z(z).

The matrix need not be positive (a sigmoid is no inner product). Where it is too near to a
singular one for the answer to be certain, scikit-learn is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from dshapley.data.points import Array, Floats
from dshapley.learners.cache import kept
from dshapley.learners.fast import Asked, Family, Sample, UnsupportedError
from dshapley.learners.linear.ridge import Penalised

__all__ = ["family"]

_BLOCK = 1 << 24
"""Bytes of outputs that are computed together."""

_TABLE = 128 << 20
"""The most bytes of a table k(Z, test) that is kept between draws."""

_CERTAIN = 1e-9
"""An inverse condition number above which the solution is right to many digits."""


def family(estimator: Any) -> Family:
    """The family of an estimator's parameters."""
    if np.ndim(estimator.alpha) != 0:
        raise UnsupportedError("alpha is several numbers")
    if not estimator.alpha > 0.0:
        raise UnsupportedError("alpha=0 has no single solution where rows repeat")
    if callable(estimator.kernel):
        raise UnsupportedError("kernel is a function of yours")
    if estimator.kernel == "precomputed":
        raise UnsupportedError("kernel='precomputed' knows no rows")
    if estimator.kernel == "linear":
        return Penalised(float(estimator.alpha), intercept=False)
    return Bordered(estimator)


@dataclass(frozen=True, eq=False)
class Bordered:
    """Kernel ridge regression with the parameters of `estimator`."""

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """Blocks of numbers; see `Family`."""
        solve, certain = _solver(self._kernel(S.X, S.X), float(self.estimator.alpha))
        if len(S) > 0 and not certain:
            yield self._refitted(S.X, S.y, asked)[np.newaxis]
            for z in range(len(Z)):
                yield self._with(S, Z, z, asked)[np.newaxis]
            return
        dual = solve(S.y[:, np.newaxis])[:, 0]
        across = self._kernel(asked.X, S.X)
        f = across @ dual
        if len(S) > 0:
            yield f[np.newaxis]
        with_test, with_itself = self._with_Z(Z, asked)
        step = max(1, _BLOCK // (8 * max(len(f), len(S))))
        for start in range(0, len(Z), step):
            some = slice(start, start + step)
            beside = self._kernel(S.X, Z.X[some])
            v = solve(beside)
            s = with_itself[some] + self.estimator.alpha - np.einsum("ij,ij->j", beside, v)
            pull = (Z.y[some] - dual @ beside) / s
            block = with_test(some) - v.T @ across.T
            block *= pull[:, np.newaxis]
            block += f
            doubtful = np.abs(s) < _CERTAIN * (np.abs(with_itself[some]) + self.estimator.alpha)
            for row in np.flatnonzero(doubtful).tolist():
                block[row] = self._with(S, Z, start + row, asked)
            yield block

    def _kernel(self, A: Floats, B: Floats) -> Floats:
        """(len(A), len(B)) the kernel, as scikit-learn computes it."""
        if len(A) == 0 or len(B) == 0:
            return np.empty((len(A), len(B)))
        # With itself it is asked for as None: then distances from a row to itself are 0.
        return np.asarray(self.estimator._get_kernel(A, None if A is B else B))

    def _with_Z(self, Z: Sample, asked: Asked) -> tuple[Callable[[slice], Floats], Floats]:
        """For some of Z the kernel with the test rows, kept between draws; and k(z, z)."""
        params = sorted(self.estimator.get_params().items(), key=str)
        name = ("kernel", repr(params), asked.query.test.key, Z.points.key)
        if 8 * len(asked.X) * len(Z) <= _TABLE:
            table, diagonal = kept.get(
                name, lambda: (self._kernel(Z.X, asked.X), self._diagonal(Z.X))
            )
            return (lambda some: table[some]), diagonal
        return (lambda some: self._kernel(Z.X[some], asked.X)), self._diagonal(Z.X)

    def _diagonal(self, X: Floats) -> Floats:
        parts = [X[start : start + 32] for start in range(0, len(X), 32)]
        return np.concatenate([np.empty(0), *(self._kernel(x, x).diagonal() for x in parts)])

    def _with(self, S: Sample, Z: Sample, z: int, asked: Asked) -> Floats:
        return self._refitted(np.vstack([S.X, Z.X[z]]), np.append(S.y, Z.y[z]), asked)

    def _refitted(self, X: Floats, y: Floats, asked: Asked) -> Floats:
        from sklearn.base import clone

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a matrix that is singular to rounding
            return np.asarray(clone(self.estimator).fit(X, y).predict(asked.X))


def _solver(K: Floats, alpha: float) -> tuple[Callable[[Floats], Floats], bool]:
    """Y -> (K + alpha I)^-1 Y, and whether that is certain.

    By Cholesky where the matrix is positive, else by elimination.
    """
    if len(K) == 0:
        return (lambda Y: Y), True
    K.flat[:: len(K) + 1] += alpha
    norm = float(np.abs(K).sum(axis=0).max())
    factor, failed = lapack.dpotrf(K, lower=1, clean=0)
    if not failed:
        certain = lapack.dpocon(factor, norm, uplo="L")[0] > _CERTAIN
        return (lambda Y: lapack.dpotrs(factor, Y, lower=1)[0]), certain
    factor, pivots, _ = lapack.dgetrf(K)
    certain = lapack.dgecon(factor, norm)[0] > _CERTAIN
    return (lambda Y: lapack.dgetrs(factor, pivots, Y)[0]), certain
