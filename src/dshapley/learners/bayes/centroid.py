"""Nearest centroid without retraining.

Adding z to S changes the centroid of the class of z and the deviations within classes. The squared
distances of x to two centroids differ by a linear function of x, so a few coefficients for each
class describe a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.classes import Classes
from dshapley.learners.decisions import Case, Coefficients, answers, rounding
from dshapley.learners.fast import Asked, Family, Sample, Scored, UnsupportedError

__all__ = ["family"]

_EPSILON = float(np.finfo(np.float64).eps)


def family(estimator: Any) -> Family:
    """The family for NearestCentroid."""
    if estimator.metric != "euclidean":
        raise UnsupportedError(f"metric={estimator.metric!r} does not use means as centroids")
    return NearestCentroid(estimator)


@dataclass(frozen=True)
class NearestCentroid:
    """Nearest centroid with the Euclidean metric, with or without shrunken centroids."""

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        case, c = Case(estimator=self.estimator, S=S, Z=Z, asked=asked), asked.n_classes
        given = self.estimator.priors
        prior: Floats | None = None
        if isinstance(given, str):
            prior = np.full(c, 1.0 / c) if given == "uniform" else None
        else:
            prior = np.asarray(given, dtype=np.float64)
            if len(prior) != c or prior.min() < 0.0:
                return case.all_refitted()
            if not np.isclose(prior.sum(), 1.0):
                prior = prior / prior.sum()
        shrink = self.estimator.shrink_threshold
        return answers(case, _Models(case, Classes(S, c, prior), shrink), shared=False)


@dataclass(frozen=True, eq=False)
class _Models:
    """The decision value of class c at x is 2 log prior - |(x - centroid) / s|^2.

    Here s holds the standard deviations within classes. For labels with equal priors, scikit-learn
    takes the nearest centroid, so s = 1 and the prior is left out.
    """

    case: Case
    classes: Classes
    shrink: float | None

    @cached_property
    def _squared(self) -> bool:
        """Whether T includes x^2, which is the same for all classes and only matters across rows.

        Rows are compared with each other in scores of three or more classes.
        """
        return self.case.asked.kind == "score" and self.classes.n_classes > 2

    @cached_property
    def _centre(self) -> Floats:
        return self.classes.S.X.mean(axis=0)

    @cached_property
    def T(self) -> Floats:
        """(x, 1), or (x^2, x, 1), for the centred test rows x."""
        X = self.case.asked.X - self._centre
        parts = [X**2] if self._squared else []
        return np.hstack([*parts, X, np.ones((len(X), 1))])

    @cached_property
    def _squares(self) -> Floats:
        """(d,) sums of squares within classes."""
        return (self.classes.within**2).sum(axis=0)

    def alone(self) -> Coefficients:
        S = self.classes.S
        means = (self.classes.means - self._centre)[np.newaxis]
        flat = np.array([bool((np.ptp(S.X, axis=0) == 0.0).all())])
        return self._coefficients(
            means, np.zeros((1, S.X.shape[1])), self._squares[np.newaxis], self.classes.priors(),
            self.classes.n[np.newaxis], flat,
        )  # fmt: skip

    def with_each(self, X: Floats, y: Array) -> Coefficients:
        S, n_y = self.classes.S, self.classes.n[y][:, None]
        v = X - self.classes.means[y]
        means = self.classes.means_with_each(self.classes.means - self._centre, v, y)
        squares = self._squares + n_y / (n_y + 1.0) * v**2
        if (self._squares == 0.0).any():  # scikit-learn may get a tiny variance here, not 0: refit
            squares[(squares == 0.0) & ~self.classes.unmoved(X, y)] = np.nan
        counts = np.tile(self.classes.n, (len(X), 1))
        counts[np.arange(len(X)), y] += 1.0
        flat = ((S.X[0] == X) & (np.ptp(S.X, axis=0) == 0.0)).all(axis=1)
        overall = (X - self._centre) / (len(S) + 1.0)
        priors = self.classes.priors_with_each(y)
        return self._coefficients(means, overall, squares, priors, counts, flat)

    def _coefficients(
        self, means: Floats, overall: Floats, squares: Floats, priors: Floats, counts: Floats,
        flat: Array,
    ) -> Coefficients:  # fmt: skip
        """The coefficients for these statistics; scikit-learn refuses models marked `flat`."""
        r, c, d = means.shape
        n = int(counts[0].sum())
        s = np.sqrt(squares / (n - c)) if n > c else np.full(squares.shape, np.nan)
        centroids = means
        if self.shrink:
            centroids = _shrunken(means, overall, s, counts, self.shrink)
        weights = np.where(s == 0.0, 1.0, 1.0 / s**2)
        terms = 2.0 * np.log(priors)
        if self.case.asked.kind == "label":
            even = np.isclose(priors, 1.0 / c).all(axis=1)
            weights[even], terms[even] = 1.0, 0.0
        W = np.empty((r, c, self.T.shape[1]))
        if self._squared:
            W[:, :, :d] = -weights[:, None]
        W[:, :, -d - 1 : -1] = 2.0 * centroids * weights[:, None]
        W[:, :, -1] = terms - (centroids**2 * weights[:, None]).sum(axis=2)
        return Coefficients(W, np.where(flat | self._far(weights), np.inf, rounding(d + n)))

    def _far(self, weights: Floats) -> Array:
        """(r,) models in which rounding affects scikit-learn itself, which does not centre rows."""
        size = np.abs(self.classes.S.X).max(axis=0) ** 2
        lost = 4.0 * _EPSILON * (weights * size).sum(axis=1)
        if self.case.asked.kind == "label":
            lost /= 1e2 * (weights * (self._squares / len(self.classes.S))).sum(axis=1) + 1e-300
        return ~(lost < 1e-9)


def _shrunken(means: Floats, overall: Floats, s: Floats, counts: Floats, by: float) -> Floats:
    """Centroids shrunken towards the overall mean: soft thresholding by `by` deviations."""
    n = counts.sum(axis=1, keepdims=True)
    scale = (
        np.sqrt(1.0 / counts - 1.0 / n)[:, :, None]
        * (s + np.median(s, axis=1, keepdims=True))[:, None]
    )
    apart = means - overall[:, None]
    kept = np.maximum(np.abs(apart) - by * scale, 0.0)
    return np.where(scale == 0.0, np.nan, overall[:, None] + np.sign(apart) * kept)
