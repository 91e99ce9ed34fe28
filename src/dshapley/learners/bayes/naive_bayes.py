"""Naive Bayes without retraining: GaussianNB, BernoulliNB and MultinomialNB.

The joint log likelihood of a class is linear in x, or for GaussianNB in (x^2, x). A point z changes
only the statistics of its own class, the priors and, for GaussianNB, the variance added to all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.cache import kept
from dshapley.learners.classes import Classes
from dshapley.learners.decisions import (
    Case,
    Coefficients,
    Models,
    answers,
    rounding,
)
from dshapley.learners.fast import Asked, Family, Sample, Scored, UnsupportedError
from dshapley.learners.kernels import inlined, kernel

__all__ = ["family"]


def family(estimator: Any) -> Family:
    """The family for GaussianNB, BernoulliNB or MultinomialNB."""
    if type(estimator).__name__ == "BernoulliNB" and not isinstance(estimator.alpha, Real):
        raise UnsupportedError(
            "scikit-learn adds an array alpha of BernoulliNB to its class counts"
        )
    return NaiveBayes(estimator)


@dataclass(frozen=True)
class NaiveBayes:
    """GaussianNB, BernoulliNB or MultinomialNB."""

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        case = Case(estimator=self.estimator, S=S, Z=Z, asked=asked)
        make = _gaussian if type(self.estimator).__name__ == "GaussianNB" else _counted
        models = asked.once("models", lambda: make(self.estimator, S, asked))
        # Refit if parameters do not fit the classes or features, for scikit-learn's own error.
        return case.all_refitted() if models is None else answers(case, models)


# --- normal features


def _gaussian(estimator: Any, S: Sample, asked: Asked) -> Models | None:
    """The models of GaussianNB; None if its priors do not fit these classes."""
    priors = None
    if estimator.priors is not None:
        priors = np.asarray(estimator.priors, dtype=np.float64)
        if len(priors) != asked.n_classes or not np.isclose(priors.sum(), 1.0) or priors.min() < 0:
            return None
    centre, T = kept.get(("squares", asked.query.test.key), lambda: _squares(asked.X))
    rows = Sample(S.X - centre, S.y, S.points)
    return _Gaussian(
        classes=Classes(rows, asked.n_classes, priors),
        centre=centre,
        T=T,
        smoothing=estimator.var_smoothing,
    )


def _squares(X: Floats) -> tuple[Floats, Floats]:
    """The mean of the test rows, and (x^2, x, 1) for the centred rows x.

    Centring keeps the squares small, and with them the rounding errors.
    """
    centre = X.mean(axis=0)
    X = X - centre
    return centre, np.hstack([X**2, X, np.ones((len(X), 1))])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Gaussian:
    """The decision value of class c at x, its joint log likelihood.

    It is log prior - sum over features of ((x - mean)^2 / v + log(2 pi v)) / 2. Here v is the
    variance of the class plus `smoothing` times the largest variance of a feature over all rows.
    """

    classes: Classes
    centre: Floats
    T: Floats
    """(x^2, x, 1) for the centred test rows x."""
    smoothing: float

    @cached_property
    def _all(self) -> tuple[Floats, Floats]:
        """The mean of all rows of S, and the sums of squares around it."""
        X = self.classes.S.X
        mean = X.mean(axis=0)
        return mean, ((X - mean) ** 2).sum(axis=0)

    @cached_property
    def _squares(self) -> Floats:
        """(c, d) sums of squares within classes; zeros for a class that S lacks."""
        mine = np.arange(self.classes.n_classes)[:, None] == self.classes.S.y
        return mine @ self.classes.within**2

    def alone(self) -> Coefficients:
        nobody = np.empty((1, self._squares.shape[1])), np.array([-1])
        largest = self._all[1].max(keepdims=True) / len(self.classes.S)
        return self._coefficients(*nobody, largest, self.classes.priors())

    def with_each(self, X: Floats, y: Array) -> Coefficients:
        X, n = X - self.centre, len(self.classes.S)
        mean, squares = self._all
        largest = _largest(X, mean, squares, float(n)) / (n + 1.0)
        return self._coefficients(X, y, largest, self.classes.priors_with_each(y))

    def _coefficients(self, X: Floats, y: Array, largest: Floats, priors: Floats) -> Coefficients:
        """The coefficients of (x^2, x, 1), with each row of X added to its class y.

        A row with y = -1 is added to no class, which gives the model of S.
        """
        c, d = self._squares.shape
        W = np.empty((len(X), c, 2 * d + 1))
        _fill(W, X, y, self.classes.means, self._squares, self.classes.n, self.smoothing * largest)
        W[:, :, -1] += np.log(priors) - 0.5 * d * np.log(2.0 * np.pi)
        return Coefficients(W, np.full(len(X), rounding(2 * d + len(self.classes.S))))


@kernel
def _largest(X: Floats, mean: Floats, squares: Floats, n: float) -> Floats:
    """For each row z of X, the largest sum of squares of a feature around the mean of S + z."""
    largest = np.empty(len(X))
    share = n / (n + 1.0)
    for i in range(len(X)):
        most = 0.0
        for j in range(X.shape[1]):
            most = max(most, squares[j] + share * (X[i, j] - mean[j]) ** 2)
        largest[i] = most
    return largest


@inlined
def _log_of_product(halves: Floats) -> float:
    """The sum of log(-2 h) over `halves`.

    It multiplies numbers until they might overflow or underflow, and takes one logarithm for each
    product, because logarithms are slow.
    """
    total, product = 0.0, 1.0
    for half in halves:
        product *= -2.0 * half
        if not 1e-150 < product < 1e150:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@kernel
def _fill(
    W: Floats, X: Floats, y: Array, means: Floats, squares: Floats, n: Floats, added: Floats
) -> None:
    """Fill W with (-1/(2v), mean/v, -sum of (mean^2/v + log v)/2) for each z and class."""
    d = X.shape[1]
    for i in range(len(X)):
        for c in range(len(means)):
            here = W[i, c]
            total = 0.0
            if c == y[i]:
                n_new = n[c] + 1.0
                for j in range(d):
                    moved = X[i, j] - means[c, j]
                    mean = means[c, j] + moved / n_new
                    v = (squares[c, j] + n[c] / n_new * moved**2) / n_new + added[i]
                    precision = 1.0 / v
                    here[j] = -0.5 * precision
                    here[d + j] = mean * precision
                    total += mean * mean * precision
            else:
                share = 1.0 / max(n[c], 1.0)
                for j in range(d):
                    precision = 1.0 / (squares[c, j] * share + added[i])
                    here[j] = -0.5 * precision
                    here[d + j] = means[c, j] * precision
                    total += means[c, j] * here[d + j]
            here[2 * d] = 0.5 * (_log_of_product(here[:d]) - total)


# --- counted features


def _alpha(estimator: Any, d: int) -> Floats | None:
    """(d,) the smoothing of each feature; None if `alpha` is not valid for d features."""
    alpha = np.asarray(estimator.alpha, dtype=np.float64)
    if not isinstance(estimator.alpha, Real) and (len(alpha) != d or alpha.min() < 0.0):
        return None
    if not estimator.force_alpha:
        alpha = np.maximum(alpha, 1e-10)
    return np.broadcast_to(alpha, d)


def _counted(estimator: Any, S: Sample, asked: Asked) -> Models | None:
    """The models of BernoulliNB or MultinomialNB; None if parameters do not fit the data."""
    alpha, c = _alpha(estimator, S.X.shape[1]), asked.n_classes
    prior = None if estimator.fit_prior else np.full(c, 1.0 / c)
    if estimator.class_prior is not None:
        prior = np.asarray(estimator.class_prior, dtype=np.float64)
    if alpha is None or (prior is not None and len(prior) != c):
        return None
    bernoulli = type(estimator).__name__ == "BernoulliNB"
    threshold = estimator.binarize if bernoulli else None
    return _Counted(
        classes=Classes(S, c, prior),
        asked=asked,
        alpha=alpha,
        threshold=threshold,
        bernoulli=bernoulli,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Counted:
    """The decision value of class c at x, its joint log likelihood.

    - Multinomial: log prior + sum over features of x log p, where p is the smoothed share of the
      feature in the counts of the class.
    - Bernoulli: log prior + sum over features of x log p + (1 - x) log(1 - p), where p is the
      smoothed share of the rows of the class that have the feature.
    """

    classes: Classes
    asked: Asked
    alpha: Floats
    threshold: float | None
    bernoulli: bool

    def _read(self, X: Floats) -> Floats:
        return X if self.threshold is None else (self.threshold < X).astype(np.float64)

    @cached_property
    def T(self) -> Floats:
        """(x, 1) for the test rows x, binarized for Bernoulli if there is a threshold."""
        X = self._read(self.asked.X)
        return np.hstack([X, np.ones((len(X), 1))])

    @cached_property
    def _features(self) -> Floats:
        """(c, d) the feature counts of each class of S."""
        return self.classes.sums(self._read(self.classes.S.X))

    @cached_property
    def _negative(self) -> bool:
        return not self.bernoulli and bool((self.classes.S.X < 0.0).any())

    def alone(self) -> Coefficients:
        W = self._coefficients(self._features, self.classes.n)[None]
        W[:, :, -1] += np.log(self.classes.priors())
        return Coefficients(W, self._error(np.zeros((1, 1))))

    def with_each(self, X: Floats, y: Array) -> Coefficients:
        counted = self._features[y] + self._read(X)
        W = np.tile(self._coefficients(self._features, self.classes.n), (len(X), 1, 1))
        W[np.arange(len(X)), y] = self._coefficients(counted, self.classes.n[y] + 1.0)
        W[:, :, -1] += np.log(self.classes.priors_with_each(y))
        return Coefficients(W, self._error(X))

    def _coefficients(self, counted: Floats, n: Floats) -> Floats:
        """(r, d + 1) the coefficients of (x, 1) without the prior, by scikit-learn's formulas."""
        smoothed = counted + self.alpha
        if not self.bernoulli:
            logs = np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True))
            return np.hstack([logs, np.zeros((len(logs), 1))])
        logs = np.log(smoothed) - np.log(n[:, None] + 2.0 * self.alpha)
        absent = np.log(1.0 - np.exp(logs))
        return np.hstack([logs - absent, absent.sum(axis=1, keepdims=True)])

    def _error(self, X: Floats) -> Floats:
        """The rounding errors of the models; infinite if scikit-learn refuses negative counts."""
        refused = np.full(len(X), self._negative)
        if not self.bernoulli:
            refused |= (X < 0.0).any(axis=1)
        return np.where(refused, np.inf, rounding(X.shape[1] + len(self.classes.S)))
