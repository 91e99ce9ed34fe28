"""Confidence intervals for values and ranks, from values and the influence of each draw on them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats
from dshapley.errors import InputError

__all__ = [
    "BetweenFolds",
    "Freedom",
    "anytime_quantile",
    "bonferroni_quantile",
    "check_confidence",
    "rank_bounds",
    "simultaneous_quantile",
    "spearman",
    "spread_of",
    "standard_ranks",
    "stderr_of_differences",
    "student_quantile",
    "top_probability",
    "variance_limit",
]

_SIMULATIONS = 2000
_FEW = 3
"""With at most so many influences about one mean, their fourth moment cannot be estimated."""
_TIGHTEST = 1000
"""The number of draws at which a confidence sequence is narrowest."""
_ROUNDING = 1e-18
"""The relative variance between equal values that rounding errors of sums can cause."""
_FARTHEST = 8.0
"""The largest normal quantile whose tail probability a float distinguishes from 0."""


def check_confidence(confidence: float) -> None:
    """Raise an error if this is not a confidence between 0 and 1."""
    if not isinstance(confidence, int | float | np.number) or not 0 < confidence < 1:
        raise InputError("a confidence lies between 0 and 1, such as 0.95")


class Freedom:
    """The degrees of freedom of standard errors, from squared influences (Welch, Satterthwaite).

    If a variance V is estimated with the variance W, it has 2 V^2 / W degrees of freedom. Two are
    subtracted because W is an estimate too. The result is pooled over the points, whose errors are
    alike.

    >>> rng = np.random.default_rng(0)
    >>> normal = rng.normal(size=(50, 400))
    >>> alike = Freedom()
    >>> alike.add((normal - normal.mean(axis=0)) ** 2, np.zeros(50, dtype=np.intp))
    >>> 45 < alike.found <= 49
    True
    """

    def __init__(self) -> None:
        self._sum = self._n = 0.0
        self._most = 1.0

    def add(self, squares: Floats, groups: NDArray[np.intp]) -> None:
        """Add these points: one column of squared influences for each.

        `groups` says which influences are deviations from the same mean. Influences with a group
        below 0 are ignored.
        """
        order = np.argsort(groups, kind="stable")
        order = order[np.searchsorted(groups[order], 0) :]
        _, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
        # Normal influences have these degrees of freedom.
        self._most = max(self._most, float((counts - 1).sum()))
        ordered, sizes = squares[order], counts[:, np.newaxis]
        within = np.add.reduceat(ordered, starts, axis=0)
        fourth = np.add.reduceat(ordered**2, starts, axis=0)
        # Few influences are assumed to be normal; for many, the fourth moment is estimated.
        normal = 2 * within**2 / (sizes + 1)
        tails = (fourth - within**2 / sizes) * sizes / np.maximum(sizes - 1, 1)
        uncertain = np.where(sizes <= _FEW, normal, tails).sum(axis=0)
        variance = within.sum(axis=0)
        known = variance > 0
        self._sum += float((uncertain[known] / variance[known] ** 2).sum())
        self._n += int(known.sum())

    @property
    def found(self) -> float:
        """The degrees of freedom of all points added; infinite if no errors were added."""
        if self._n == 0:
            return math.inf
        mean = self._sum / self._n
        return min(max(2 / mean - 2, 1.0), self._most) if mean > 0 else self._most


class BetweenFolds:
    """The variance of cross-fitted values between folds, pooled over the points.

    A single point has too few folds for an estimate. The test rows of a fold move many points
    together, so the pooled variance has as many degrees of freedom as a few independent points
    would give. Their number follows from how different the movements of the folds are.

    >>> rng = np.random.default_rng(0)
    >>> folds = BetweenFolds(rng.normal(size=(5, 1000)))
    >>> round(folds.variance / 5, 1), folds.freedom > 100
    (1.0, True)
    """

    def __init__(self, by_fold: Floats) -> None:
        """`by_fold` is the amount by which each fold (row) moves each value (column)."""
        self._products = by_fold @ by_fold.T
        self._n = by_fold.shape[1]

    @property
    def variance(self) -> float:
        """The mean variance of a value; 0 without folds."""
        return float(np.trace(self._products)) / max(self._n, 1)

    @property
    def direction(self) -> Floats:
        """The unit vector of the proportions in which the folds move the points together."""
        return np.asarray(np.linalg.eigh(self._products)[1][:, -1])

    @property
    def freedom(self) -> float:
        """The degrees of freedom of the variance."""
        q = len(self._products) - 1
        total = float(np.trace(self._products))
        if q < 1 or total <= 0:
            return math.inf
        # For q rows of p independent normals, `even` is (q p + 2) / (q + p + 1) on average; this
        # is solved for p.
        even = total**2 / float((self._products**2).sum())
        p = (even * (q + 1) - 2) / max(q - even, 1e-3)
        return q * max(p, 1.0)


def student_quantile(p: float, freedom: float) -> float:
    """The p quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, p))


def variance_limit(freedom: float, confidence: float = 0.95) -> float:
    """The upper confidence limit of a variance, as a multiple of its estimate.

    >>> round(variance_limit(10.0), 2), variance_limit(math.inf)
    (2.54, 1.0)
    """
    from scipy.special import chdtri

    if not math.isfinite(freedom):
        return 1.0
    return freedom / float(chdtri(freedom, confidence))


def bonferroni_quantile(confidence: float, n: int, freedom: float) -> float:
    """The quantile for n simultaneous two-sided intervals, however their errors are correlated.

    >>> [round(bonferroni_quantile(0.95, n, 10**6), 2) for n in (1, 100)]
    [1.96, 3.48]
    """
    return student_quantile(1 - (1 - confidence) / (2 * max(n, 1)), freedom)


def anytime_quantile(
    n: int, confidence: float, *, n_points: int = 1, freedom: float = math.inf
) -> float:
    """How many standard errors an interval needs to hold at every number of draws at once.

    This is Robbins' normal mixture, sqrt(2 (1 + 1/c) log(sqrt(c + 1) / alpha)) with c = n rho^2: an
    asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Annals of
    Statistics 2024, theorem 2.2, and 2.5 for variances that change). For all points at once,
    alpha = (1 - confidence) / n_points. rho makes the sequence narrowest at 1,000 draws; it is
    little wider for ten times as many or as few. If the standard error has few degrees of
    `freedom`, the quantile is widened as Student's t is.

    >>> round(anytime_quantile(1000, 0.95), 2), round(anytime_quantile(100, 0.95), 2)
    (3.04, 3.86)
    """
    alpha = (1 - confidence) / n_points
    narrowest = -2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))
    c = narrowest * n / _TIGHTEST
    quantile = math.sqrt(2 * (1 + 1 / c) * (0.5 * math.log(c + 1) - math.log(alpha)))
    return _widened(quantile, freedom)


def simultaneous_quantile(
    influences: Iterable[Floats], confidence: float, *, freedom: float, seed: int = 0
) -> float:
    """How many standard errors the largest error of all values stays below, with this confidence.

    This is the Gaussian multiplier bootstrap, widened for few draws as Student's t is relative to
    the normal distribution. `influences` are blocks of shape (draws, points).
    """
    rng = np.random.default_rng(seed)
    worst = np.zeros(_SIMULATIONS)
    multipliers: Floats | None = None
    for influence in influences:
        if multipliers is None:
            multipliers = rng.normal(size=(_SIMULATIONS, len(influence)))
        stderr = np.sqrt((influence**2).sum(axis=0))
        noisy = stderr > 0
        errors = np.abs(multipliers @ (influence[:, noisy] / stderr[noisy]))
        worst = np.maximum(worst, errors.max(axis=1, initial=0.0))
    return _widened(float(np.quantile(worst, confidence)), freedom)


def _widened(quantile: float, freedom: float) -> float:
    """The quantile of Student's t with the same tail probability as this normal quantile."""
    from scipy.special import ndtr, stdtrit

    if not math.isfinite(freedom) or quantile <= 0:
        return quantile
    same = min(quantile, _FARTHEST)
    return quantile * float(-stdtrit(freedom, float(ndtr(-same)))) / same


def stderr_of_differences(influences: Iterable[tuple[NDArray[np.intp], Floats]], n: int) -> Floats:
    """The standard error of the difference of each of n values from their mean."""
    blocks = list(influences)
    common = np.sum([block.sum(axis=1) for _, block in blocks], axis=0)[:, np.newaxis] / n
    found = np.empty(n)
    for columns, block in blocks:
        found[columns] = np.sqrt(((block - common) ** 2).sum(axis=0))
    return found


def rank_bounds(
    values: Floats, influence: Floats, quantile: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The smallest and largest possible rank of each value.

    Two values are taken to differ if their difference exceeds `quantile` times its standard error.

    >>> rank_bounds(np.array([3.0, 1.0, 1.1]), np.full((1, 3), [0.1, 0.2, 0.3]), 2.0)
    (array([1, 2, 2]), array([1, 3, 3]))
    """
    n = len(values)
    variance = (influence**2).sum(axis=0)
    best, worst = np.ones(n, np.int64), np.full(n, n, np.int64)
    width = max(1, 2**24 // max(n, 1))
    for start in range(0, n, width):
        block = slice(start, start + width)
        covariance = influence[:, block].T @ influence
        spread = variance[block, np.newaxis] + variance - 2 * covariance
        reach = quantile * np.sqrt(np.maximum(spread, 0.0))
        gap = values - values[block, np.newaxis]
        best[block] += (gap > reach).sum(axis=1)
        worst[block] -= (gap < -reach).sum(axis=1)
    return best, worst


def spread_of(values: Floats) -> float:
    """The variance of values between points; 0 if they differ by rounding errors only.

    >>> spread_of(np.array([0.1 + 0.2, 0.3])), spread_of(np.array([1.0, 3.0]))
    (0.0, 1.0)
    """
    spread = float(values.var())
    return 0.0 if spread <= _ROUNDING * float((values**2).mean()) else spread


def standard_ranks(values: Floats) -> Floats:
    """Ranks less their mean, with square sum 1: the product of two of them is Spearman's r.

    The last axis is over the points.

    >>> standard_ranks(np.array([3.0, 1.0, 2.0])).round(2)
    array([ 0.71, -0.71,  0.  ])
    """
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=-1)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    length = np.sqrt((ranks**2).sum(axis=-1, keepdims=True))
    return np.asarray(ranks / np.where(length > 0, length, 1.0))


def spearman(a: Floats, b: Floats) -> float:
    """Spearman's rank correlation; NaN if all values of one side are equal."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(standard_ranks(a) @ standard_ranks(b))


def top_probability(values: Floats, stderr: Floats, share: float, *, seed: int = 0) -> Floats:
    """The probability that each value is among the largest `share` of the values.

    This is empirical Bayes: true values are taken to be normal, with the variance of the estimates
    minus that of their errors.
    """
    n = len(values)
    n_top = max(1, round(share * n))
    if not np.isfinite(stderr).all():  # the errors are unknown, for example after one draw
        return np.full(n, np.nan)
    spread = max(spread_of(values) * n / max(n - 1, 1) - float((stderr**2).mean()), 0.0)
    if spread == 0:  # the points cannot be distinguished
        return np.full(n, n_top / n)
    mean = values.mean()
    kept = spread / (spread + stderr**2)
    centre, sd = mean + kept * (values - mean), np.sqrt(kept) * stderr
    rng = np.random.default_rng(seed)
    counts = np.zeros(n)
    for _ in range(_SIMULATIONS):
        sample = centre + sd * rng.normal(size=n)
        counts[np.argpartition(-sample, n_top - 1)[:n_top]] += 1
    return counts / _SIMULATIONS
