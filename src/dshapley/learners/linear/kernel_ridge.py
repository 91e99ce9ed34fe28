"""Kernel ridge regression without retraining, by bordering the inverse of K + alpha I.

When z is added, the prediction f(t) of the model of S changes by g_z(t) e / s, where

    e = y - f(z),   g_z(t) = k(t, z) - k(t, S) v,   v = (K + alpha I)^-1 k(S, z),
    s = alpha + g_z(z).

K + alpha I need not be positive definite, because some kernels (the sigmoid) are not inner
products. Sets for which it is nearly singular are fitted by scikit-learn.
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
"""The size in bytes of the outputs that are computed together."""

_TABLE = 128 << 20
"""The largest table k(Z, test), in bytes, that is kept between draws."""

_CERTAIN = 1e-9
"""The reciprocal condition number above which a solution is taken to be accurate."""


def family(estimator: Any) -> Family:
    """The family for the parameters of a KernelRidge."""
    if np.ndim(estimator.alpha) != 0:
        raise UnsupportedError("alpha is an array; only a single number has a fast path")
    if not estimator.alpha > 0.0:
        raise UnsupportedError("with alpha=0 the solution is not unique if rows repeat")
    if callable(estimator.kernel):
        raise UnsupportedError("kernel is a function; only kernels by name have a fast path")
    if estimator.kernel == "precomputed":
        raise UnsupportedError("kernel='precomputed' has no fast path")
    if estimator.kernel == "linear":
        return Penalised(float(estimator.alpha), intercept=False)
    return Bordered(estimator)


@dataclass(frozen=True, eq=False)
class Bordered:
    """Kernel ridge regression with the parameters of `estimator`."""

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """Blocks of predictions; see `Family`."""
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
        """(len(A), len(B)) the kernel matrix, computed by scikit-learn."""
        if len(A) == 0 or len(B) == 0:
            return np.empty((len(A), len(B)))
        # Pass None for B = A, as scikit-learn's fit does: the distance of a row to itself is then
        # exactly 0.
        return np.asarray(self.estimator._get_kernel(A, None if A is B else B))

    def _with_Z(self, Z: Sample, asked: Asked) -> tuple[Callable[[slice], Floats], Floats]:
        """A function from a slice of Z to k(z, test), from a table kept if small; and k(z, z)."""
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
            warnings.simplefilter("ignore")  # hide warnings about a nearly singular matrix
            return np.asarray(clone(self.estimator).fit(X, y).predict(asked.X))


def _solver(K: Floats, alpha: float) -> tuple[Callable[[Floats], Floats], bool]:
    """The function Y -> (K + alpha I)^-1 Y, and whether its result is accurate.

    It uses Cholesky if the matrix is positive definite, and LU otherwise. K is overwritten.
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
