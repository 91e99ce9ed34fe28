"""Intervals for values and ranks, from values and the influence of each draw on them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError
from dshapley.points import Floats

__all__ = [
    "anytime_quantile",
    "bonferroni_quantile",
    "check_confidence",
    "rank_bounds",
    "simultaneous_quantile",
    "stderr_of_differences",
    "student_quantile",
    "top_probability",
]

_SIMULATIONS = 2000
_TIGHTEST = 1000
"""The number of draws at which a confidence sequence is narrowest."""


def check_confidence(confidence: float) -> None:
    """An error for people where this is no confidence."""
    if not isinstance(confidence, int | float | np.number) or not 0 < confidence < 1:
        raise InputError("a confidence lies between 0 and 1, such as 0.95")


def student_quantile(p: float, freedom: int) -> float:
    """Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, p))


def bonferroni_quantile(confidence: float, n: int, freedom: int) -> float:
    """Two-sided, for n intervals at once, whatever their errors have in common.

    >>> [round(bonferroni_quantile(0.95, n, 10**6), 2) for n in (1, 100)]
    [1.96, 3.48]
    """
    return student_quantile(1 - (1 - confidence) / (2 * max(n, 1)), freedom)


def anytime_quantile(n: int, confidence: float, *, n_points: int = 1) -> float:
    """How many standard errors an interval needs to hold at every number of draws at once.

    Robbins' normal mixture, sqrt(2 (1 + 1/c) log(sqrt(c + 1) / alpha)) with c = n rho^2: an
    asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Annals of
    Statistics 2024, theorem 2.2; 2.5 for variances that change, as between a pilot and the rest).
    alpha = (1 - confidence) / n_points, for all points at once. rho makes it narrowest at 1,000
    draws; it hardly widens for ten times as many or as few.

    >>> round(anytime_quantile(1000, 0.95), 2), round(anytime_quantile(100, 0.95), 2)
    (3.04, 3.86)
    """
    alpha = (1 - confidence) / n_points
    narrowest = -2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))
    c = narrowest * n / _TIGHTEST
    return math.sqrt(2 * (1 + 1 / c) * (0.5 * math.log(c + 1) - math.log(alpha)))


def simultaneous_quantile(
    influences: Iterable[Floats], confidence: float, *, freedom: int, seed: int = 0
) -> float:
    """How many standard errors the largest error of all values is below, with this confidence.

    The Gaussian multiplier bootstrap, widened for few draws as Student's t is against the normal.
    `influences` are blocks of (draws, points).
    """
    from scipy.special import ndtr, ndtri

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
    quantile = float(np.quantile(worst, confidence))
    level = float(ndtr(quantile))
    if quantile == 0 or level == 1:
        return quantile
    return quantile * student_quantile(level, freedom) / float(ndtri(level))


def stderr_of_differences(influences: Iterable[Floats]) -> Floats:
    """The standard error of each value's difference from the mean of all."""
    blocks = list(influences)
    n = sum(block.shape[1] for block in blocks)
    common = np.sum([block.sum(axis=1) for block in blocks], axis=0)[:, np.newaxis] / n
    return np.concatenate([np.sqrt(((block - common) ** 2).sum(axis=0)) for block in blocks])


def rank_bounds(
    values: Floats, influence: Floats, quantile: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the largest rank of each value, if differences beyond the quantile are real.

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


def top_probability(values: Floats, stderr: Floats, share: float, *, seed: int = 0) -> Floats:
    """The probability of each value to be among the largest share, given estimates with errors."""
    n = len(values)
    n_top = max(1, round(share * n))
    if not np.isfinite(stderr).all():  # a single draw says nothing
        return np.full(n, np.nan)
    spread = max(float(values.var(ddof=1)) - float((stderr**2).mean()), 0.0) if n > 1 else 0.0
    if spread == 0:  # nothing tells the points apart
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
