"""Linear discriminant analysis without retraining, for the solvers "lsqr" and "eigen".

The covariance within classes is C = sum over c of prior_c (scatter_c / n_c), which is shrunken to
(1 - s) C + s trace(C) / d I. For all z of one class, the covariance of S + z is a common matrix
plus a matrix of rank one and, with shrinkage, a multiple of I. So one eigendecomposition serves all
z of a class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.classes import Classes, given_priors, times
from dshapley.learners.decisions import Case, Coefficients, answers, rounding
from dshapley.learners.fast import Asked, Sample, Scored

__all__ = ["Shrunk"]

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Shrunk:
    """The solvers "lsqr" and "eigen", which agree if the covariance has full rank."""

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        case = Case(estimator=self.estimator, S=S, Z=Z, asked=asked)
        fits, priors = given_priors(self.estimator, asked)
        if not fits:
            return case.all_refitted()
        shrinkage = float(self.estimator.shrinkage or 0.0)
        models = _Models(case, Classes(S, asked.n_classes, priors), shrinkage)
        # The scores of three or more classes have other coefficients than the other kinds.
        same = asked.n_classes == 2
        return answers(case, asked.once("models", lambda: models) if same else models, shared=same)


@dataclass(frozen=True, eq=False)
class _Models:
    """The decision value of class c at x is x' P mean - mean' P mean / 2 + log prior.

    P is the inverse of the shrunken covariance.
    """

    case: Case
    classes: Classes
    shrinkage: float

    @cached_property
    def _centre(self) -> Floats:
        """The point that is subtracted from x and the means.

        It changes the decision values of all classes of a row by the same amount. So it is the mean
        of S, for accuracy, unless rows are compared with each other; then it is the origin, as in
        scikit-learn.
        """
        if self.case.asked.kind == "score" and self.classes.n_classes > 2:
            return np.zeros(self.case.asked.X.shape[1])
        return self.classes.S.X.mean(axis=0)

    @cached_property
    def T(self) -> Floats:
        """(x, 1) for the centred test rows x."""
        X = self.case.asked.X - self._centre
        return np.hstack([X, np.ones((len(X), 1))])

    @cached_property
    def _scatters(self) -> Floats:
        """(c, d, d) the scatter of each class of S around its mean."""
        parts = [self.classes.within[self.classes.S.y == c] for c in range(self.classes.n_classes)]
        return np.stack([part.T @ part for part in parts])

    def _eigen(self, n: Floats, priors: Floats) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the sum over classes of prior / n times their scatter.

        `n` are the class sizes of S, or of S + z with the scatters of S.
        """
        weights = np.where(n > 0.0, priors / np.maximum(n, 1.0), 0.0)
        L, V = np.linalg.eigh(np.einsum("c,cij->ij", weights, self._scatters))
        return np.maximum(L, 0.0), V

    def alone(self) -> Coefficients:
        priors = self.classes.priors()
        L, V = self._eigen(self.classes.n, priors[0])
        means = (self.classes.means - self._centre)[np.newaxis]
        none = np.zeros((1, len(L)))
        return self._coefficients(L, V, none, np.zeros(1), means, priors, len(self.classes.S))

    def with_each(self, X: Floats, y: Array) -> Coefficients:
        d, c, n = X.shape[1], self.classes.n_classes, self.classes.n
        v = X - self.classes.means[y]
        means = self.classes.means_with_each(self.classes.means - self._centre, v, y)
        priors = self.classes.priors_with_each(y)
        rho = n[y] / (n[y] + 1.0) * priors[np.arange(len(y)), y] / (n[y] + 1.0)
        rows = 1 if c == 2 else c
        W, error = np.empty((len(X), rows, d + 1)), np.empty(len(X))
        for k in np.unique(y):
            some = y == k
            L, V = self._eigen(n + (np.arange(c) == k), priors[some][0])
            found = self._coefficients(
                L, V, v[some] @ V, rho[some], means[some], priors[some], len(self.classes.S) + 1
            )
            W[some], error[some] = found.W, found.error
        return Coefficients(W, error)

    def _coefficients(
        self, L: Floats, V: Floats, v: Floats, rho: Floats, means: Floats, priors: Floats, n: int
    ) -> Coefficients:
        """The coefficients for the covariance V (L + rho v v') V' before shrinking.

        v is given in the coordinates V.
        """
        s, d = self.shrinkage, len(L)
        trace = L.sum() + rho * (v**2).sum(axis=1)
        D, rho = (1.0 - s) * L + (s * trace / d)[:, None], (1.0 - s) * rho
        two = means.shape[1] == 2
        a = times(means[:, 1:] - means[:, :1] if two else means, V)
        W = a / D[:, None]
        sloped = v / D
        shrink = rho / (1.0 + rho * (v * sloped).sum(axis=1))
        W -= shrink[:, None, None] * np.einsum("rcd,rd->rc", W, v)[..., None] * sloped[:, None]
        W = times(W, V.T)
        logs = np.log(priors)
        if two:
            constant = (logs[:, 1] - logs[:, 0])[:, None]
            constant -= 0.5 * np.einsum("rcd,rd->rc", W, means[:, 0] + means[:, 1])
        else:
            constant = logs - 0.5 * np.einsum("rcd,rcd->rc", W, means)
        condition = trace / D.min(axis=1)
        error = rounding(n + d) + 16.0 * _EPSILON * condition
        error[~(condition < 1e10) | (n <= means.shape[1])] = np.inf
        return Coefficients(np.concatenate([W, constant[..., None]], axis=2), error)
