"""Quadratic discriminant analysis without retraining.

Adding z to S changes the mean and the covariance of the class of z only. Let that class have n
rows, and let x and w be a test row and z, less the class mean, in the eigenvectors of the class
covariance. Then the new covariance is D + rho w w' with a diagonal D, the new mean is w/(n+1), and

    (x - w/(n+1))' (D + rho w w')^-1 (x - w/(n+1)) = sum of (x - w/(n+1))^2 / D
        - rho (w' D^-1 (x - w/(n+1)))^2 / (1 + rho w' D^-1 w).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.classes import Classes
from dshapley.learners.decisions import Bools, Case, rounding
from dshapley.learners.fast import Asked, Family, Sample, Scored, UnsupportedError

__all__ = ["family"]

_VALUES = 200_000
"""The number of decision values in a block, small enough for the processor's cache."""

_EPSILON = float(np.finfo(np.float64).eps)


def family(estimator: Any) -> Family:
    """The family for QuadraticDiscriminantAnalysis."""
    if not hasattr(estimator, "solver"):
        raise UnsupportedError("this version of scikit-learn estimates covariances differently")
    if estimator.covariance_estimator is not None:
        raise UnsupportedError("a covariance_estimator must be fitted again for every set")
    if estimator.shrinkage == "auto":
        raise UnsupportedError("shrinkage='auto' is estimated again for every set")
    if estimator.solver == "svd" and estimator.shrinkage is not None:
        raise UnsupportedError("solver='svd' does not support shrinkage")
    return Quadratic(estimator)


@dataclass(frozen=True)
class Quadratic:
    """Both solvers of quadratic discriminant analysis.

    They shrink the covariance towards the identity matrix or a multiple of it.
    """

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        case = Case(estimator=self.estimator, S=S, Z=Z, asked=asked)
        priors = self.estimator.priors
        if priors is not None:
            priors = np.asarray(priors, dtype=np.float64)
            if len(priors) != asked.n_classes:
                yield from case.all_refitted()
                return
        models = asked.once("models", lambda: _Models(case, Classes(S, asked.n_classes, priors)))
        for start, stop in case.blocks(len(asked.X) * asked.n_classes, _VALUES):
            block = partial(models.block, start, stop)
            values, noise, sure = asked.once("values", block, (start, stop))
            outputs, settled = case.outputs(values, noise)
            yield from case.settled(start, outputs, settled & sure)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Shape:
    """The scatter of one class of S, and the test rows in the coordinates of its eigenvectors."""

    V: Floats
    """The eigenvectors."""
    L: Floats
    """The eigenvalues."""
    mean: Floats
    rows: Floats
    """The test rows, less the class mean, in the coordinates V."""
    n: int
    """The number of rows of S in this class."""


@dataclass(frozen=True, eq=False)
class _Models:
    """The decision value of class c at x.

    It is log prior - ((x - mean)' C^-1 (x - mean) + log det C) / 2, with C the class covariance.
    """

    case: Case
    classes: Classes

    @cached_property
    def _shapes(self) -> list[_Shape]:
        S, X = self.classes.S, self.case.asked.X
        shapes = []
        for c, mean in enumerate(self.classes.means):
            A = self.classes.within[S.y == c]
            L, V = np.linalg.eigh(A.T @ A)
            shapes.append(
                _Shape(V=V, L=np.maximum(L, 0.0), mean=mean, rows=(X - mean) @ V, n=len(A))
            )
        return shapes

    def _spectrum(self, L: Floats, trace: Floats, n: int) -> tuple[Floats, float]:
        """(r, d) the eigenvalues D of the regularised covariance, and the factor of the scatter.

        `L` and `trace` are the eigenvalues and the traces of the scatter of a class with n rows.
        The factor is what each rank-one part of the scatter is multiplied by in the covariance.
        """
        estimator = self.case.estimator
        if estimator.solver == "svd":
            keep, add = 1.0 - estimator.reg_param, np.full(len(trace), estimator.reg_param)
        else:
            shrinkage = estimator.shrinkage or 0.0
            keep, add = 1.0 - shrinkage, shrinkage * trace / (n * len(L))
        return keep * L / n + add[:, None], keep / n

    def _condition(self, D: Floats, n: int) -> Floats:
        """(r,) condition numbers of the covariances, infinite if the rank may not be full.

        Models with an infinite condition are refitted, so that scikit-learn's own rank check and
        error message apply.
        """
        low, high = D.min(axis=1), D.max(axis=1)
        enough = n > 1 and (self.case.estimator.solver != "svd" or n >= D.shape[1])
        clear = low > self.case.estimator.tol * (1.0 + 1e-6) + 1e-12 * high
        return np.where(clear & enough, high / low, np.inf)

    @cached_property
    def _base(self) -> tuple[Floats, Floats]:
        """(c, n) decision values of the classes of S, without priors, and condition numbers."""
        values, conditions = [], []
        for shape in self._shapes:
            n = max(shape.n, 1)
            D, _ = self._spectrum(shape.L, shape.L.sum(keepdims=True), n)
            values.append(-0.5 * ((shape.rows**2 / D).sum(axis=1) + np.log(D).sum()))
            conditions.append(self._condition(D, shape.n)[0])
        return np.stack(values), np.array(conditions)

    def block(self, start: int, stop: int) -> tuple[Floats, Floats, Bools]:
        """Decision values (r, c, n), bounds (r, n) on their rounding errors, and certain models.

        Model 0 is that of S if it can be trained; the models of S + z follow.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            base, conditions = self._base
            values = np.tile(base, (stop - start, 1, 1))
            condition = np.tile(conditions, (stop - start, 1))
            rows = np.arange(max(start - self.case.trainable, 0), stop - self.case.trainable)
            X, y = self.case.Z.X[rows], self.case.Z.y[rows]
            priors = self.classes.priors_with_each(y)
            first = stop - start - len(rows)
            if first:
                priors = np.concatenate([self.classes.priors(), priors])
            for c, shape in enumerate(self._shapes):
                some = np.flatnonzero(y == c)
                if len(some):
                    at = first + some
                    values[at, c], condition[at, c] = self._added(shape, X[some])
            values += np.log(priors)[:, :, None]
        worst = condition.max(axis=1)
        worst[~np.isfinite(values).all(axis=(1, 2))] = np.inf
        sure = np.isfinite(worst)
        values[~sure] = 0.0
        error = rounding(len(self.classes.S)) + 4.0 * _EPSILON * np.where(sure, worst, 0.0)
        return values, error[:, None] * np.abs(values).max(axis=1), sure

    def _added(self, shape: _Shape, X: Floats) -> tuple[Floats, Floats]:
        """(r, n) decision values of a class with each row of X added, and condition numbers."""
        n, w = shape.n, (X - shape.mean) @ shape.V
        growth = n / (n + 1.0) * (w**2).sum(axis=1)
        D, factor = self._spectrum(shape.L, shape.L.sum() + growth, n + 1)
        rho = factor * n / (n + 1.0)
        sloped, shift = w / D, w / (n + 1.0)
        stretch = 1.0 + rho * (w * sloped).sum(axis=1)
        if self.case.estimator.solver == "svd":
            squares = ((shape.rows**2) @ (1.0 / D[0]))[None]
        else:
            squares = (1.0 / D) @ (shape.rows**2).T
        along = sloped @ shape.rows.T
        constant = (shift**2 / D).sum(axis=1)
        constant += np.log(D).sum(axis=1) + np.log(stretch)
        values = along * (1.0 / (n + 1.0))
        values -= 0.5 * (squares + constant[:, None])
        along -= (sloped * shift).sum(axis=1)[:, None]
        along *= along
        along *= (0.5 * rho / stretch)[:, None]
        values += along
        return values, self._condition(D, n + 1)
