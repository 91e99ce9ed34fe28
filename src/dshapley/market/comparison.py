"""Comparing two sides' values of the same points: their order and their sum, with intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dshapley.data.points import Floats
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.uncertainty import student_quantile
from dshapley.inference.valuation import Valuation

__all__ = [
    "FEWEST",
    "ape",
    "corrected",
    "error_of_sum",
    "halves_correlation",
    "influence_of_draws",
    "rank_correlation",
    "reliability",
    "with_interval",
]

_HIDDEN = 0.3
"""The least ceiling at which a rank correlation without noise is given."""

_HALVES = 40
"""How often draws are split into random halves."""
FEWEST = 20
"""The least number of draws whose halves are compared."""


def rank_correlation(
    a: Floats, b: Floats, confidence: float, extra: float = 0.0, freedom: float = math.inf
) -> tuple[float, float, float]:
    """Spearman's rank correlation with its interval.

    It is NaN for fewer than four points, or if all values of one side are equal.


    >>> [round(end, 2) for end in rank_correlation(np.arange(6.0), np.arange(6.0), 0.95)]
    [1.0, 0.62, 1.0]
    """
    from scipy.stats import rankdata

    if len(a) < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan, math.nan, math.nan
    r = float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
    return with_interval(r, len(a), confidence, extra, freedom)


def with_interval(
    r: float, n: int, confidence: float, extra: float = 0.0, freedom: float = math.inf
) -> tuple[float, float, float]:
    """The rank correlation r of n points with the interval of Bonett and Wright (2000).

    `extra` is a variance of Fisher's z that is not due to the choice of points, and `freedom`
    has the degrees of freedom of that variance.
    """
    from scipy.special import ndtri

    # A correlation of 1 has no finite z, so r is limited to half a step below the next possible
    # value, which two swapped neighbours have.
    most = 1 - 6 / (n * (n**2 - 1))
    inside = min(max(r, -most), most)
    p = (1 + confidence) / 2
    of_points = float(ndtri(p)) * math.sqrt((1 + r**2 / 2) / (n - 3))
    half = math.hypot(of_points, student_quantile(p, freedom) * math.sqrt(extra))
    low, high = (math.tanh(math.atanh(inside) + sign * half) for sign in (-1, 1))
    return r, min(low, r), max(high, r)


def reliability(valuation: Valuation) -> float:
    """The rank correlation to expect between these values and those of as many other draws.

    It is the correlation between random halves of the draws, corrected to all draws by the formula
    of Spearman and Brown. Errors that shift or scale all values together do not change ranks, so
    they do not count as noise.
    """
    values = valuation.values
    if not isinstance(valuation, SampledValuation):  # the share of the variance that is not noise
        spread = float(values.var(ddof=1)) if len(values) > 1 else 0.0
        noise = float((valuation.stderr**2).mean())
        return max(1 - noise / spread, 0.0) if spread > 0 else 0.0
    influence = influence_of_draws(valuation)
    return halves_correlation(values, [influence]) if len(influence) >= FEWEST else math.nan


def influence_of_draws(valuation: Valuation) -> Floats:
    """The influence of each draw on each value: (draws, points)."""
    return valuation.influence()


def halves_correlation(values: Floats, influences: list[Floats]) -> float:
    """The reliability of values with errors of these influences; NaN with fewer than 4 points."""
    if len(values) < 4:
        return math.nan
    # The draws of sign +1 are one half. Its estimate is as far above that of all draws as the other
    # half's is below it.
    rng = np.random.default_rng(0)
    moved = np.zeros((_HALVES, len(values)))
    for part in influences:
        moved += rng.choice([-1.0, 1.0], size=(_HALVES, len(part))) @ part
    r = np.mean([rank_correlation(values + d, values - d, 0.95)[0] for d in moved])
    return float(2 * r / (1 + r)) if r > 0 else 0.0


def corrected(r: tuple[float, float, float], ceiling: float) -> tuple[float, float, float]:
    """The rank correlation divided by its ceiling; NaN if the ceiling is too low."""
    if not ceiling >= _HIDDEN:
        return math.nan, math.nan, math.nan
    corrected = [min(max(end / ceiling, -1.0), 1.0) for end in r]
    return corrected[0], corrected[1], corrected[2]


def error_of_sum(stderr: Floats, total: dict[str, Any], offered: int) -> float:
    """The standard error of the sum of some values of a list, at most the sum of their errors.

    Their errors are assumed to be as correlated as those of the whole list are on average.
    """
    n, known = len(stderr), total["stderr"]
    if known is None:
        return math.nan
    if n == offered:
        return float(known)
    # The variance of the sum of all is `offered` times the own part of each and offered^2 times
    # the common part.
    own = float(total["error_of_differences"] or 0.0) ** 2
    common = max(float(known) ** 2 - offered * own, 0.0) / offered**2
    return math.sqrt(min(n * own + n**2 * common, float(stderr.sum()) ** 2))


def ape(
    sums: tuple[float, float], errors: tuple[float, float], half: float, tolerance: float
) -> tuple[tuple[float, float, float], float]:
    """The absolute percentage error with its interval, and its error before taking |.|."""
    listed, own = sums
    if not listed > 0:
        return (math.nan, math.nan, math.nan), math.nan
    signed = 1 - own / listed
    # The standard error of 1 - own / listed, by the delta method.
    error = math.hypot(errors[1], own / listed * errors[0]) / listed
    reach = half * error + tolerance / listed
    low, high = signed - reach, signed + reach
    nearest_0 = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return (abs(signed), nearest_0, max(abs(low), abs(high))), error
