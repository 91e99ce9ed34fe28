"""Two sides' values of the same points: whether order and sum agree, with error bars."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dshapley.points import Floats

__all__ = ["ape", "ceiling", "corrected", "error_of_sum", "rank_correlation"]

_HIDDEN = 0.3
"""Where noise lets no higher rank correlation through, nothing can be said of the order."""

_SIMULATIONS = 200


def rank_correlation(a: Floats, b: Floats, confidence: float) -> tuple[float, float, float]:
    """Spearman's, with the interval of Bonett and Wright (2000).

    >>> [round(end, 2) for end in rank_correlation(np.arange(6.0), np.arange(6.0), 0.95)]
    [1.0, 0.62, 1.0]
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    n = len(a)
    if n < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan, math.nan, math.nan
    r = float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
    most = 1 - 6 / (n * (n**2 - 1))  # half of the way to the next that n points can have
    inside = min(max(r, -most), most)
    half = float(ndtri((1 + confidence) / 2)) * math.sqrt((1 + r**2 / 2) / (n - 3))
    low, high = (math.tanh(math.atanh(inside) + sign * half) for sign in (-1, 1))
    return r, min(low, r), max(high, r)


def ceiling(sides: tuple[Floats, Floats], errors: tuple[Floats, Floats]) -> float:
    """The rank correlation that errors leave, on average, where both sides agree.

    That of one thing with itself, with each side's errors added to it. Values have heavy tails, so
    that it is no function of variances alone: it is simulated, in the shape of the better known
    side.
    """
    from scipy.stats import rankdata

    n = len(sides[0])
    known = [_share_known(values, error) for values, error in zip(sides, errors, strict=True)]
    if n < 4 or not min(known) > 0:
        return math.nan if n < 4 or np.isnan(known).any() else 0.0
    best = sides[int(np.argmax(known))]
    truth = (best - best.mean()) / best.std()
    rng = np.random.default_rng(0)
    ranks = []
    for share, error in zip(known, errors, strict=True):
        size = math.sqrt(1 / share - 1) * error / max(_rms(error), np.finfo(float).tiny)
        seen = truth + size * rng.normal(size=(_SIMULATIONS, n))
        ranked = rankdata(seen, axis=1)
        ranks.append((ranked - ranked.mean()) / ranked.std(axis=1, keepdims=True))
    return float((ranks[0] * ranks[1]).mean())


def _share_known(values: Floats, errors: Floats) -> float:
    """The share of the values' variance that is no error."""
    spread = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return max(1 - _rms(errors) ** 2 / spread, 0.0) if spread > 0 else 0.0


def _rms(errors: Floats) -> float:
    return float(np.sqrt((errors**2).mean()))


def corrected(r: tuple[float, float, float], ceiling: float) -> tuple[float, float, float]:
    """The rank correlation over its ceiling; nothing where noise lets too little through."""
    if not ceiling >= _HIDDEN:
        return math.nan, math.nan, math.nan
    corrected = [min(max(end / ceiling, -1.0), 1.0) for end in r]
    return corrected[0], corrected[1], corrected[2]


def error_of_sum(stderr: Floats, total: dict[str, Any], offered: int) -> float:
    """The error of the sum of some values of a list: as related as all of the list are on average.

    At most the sum of the errors.
    """
    n, known = len(stderr), total["stderr"]
    if known is None:
        return math.nan
    alone = float((stderr**2).sum())
    if n == offered:
        return float(known)
    own = offered * float(total["error_of_differences"] or 0.0) ** 2
    # The variance of all is that of each on its own, and offered^2 times the common part.
    common = max(float(known) ** 2 - own, 0.0) / offered**2
    return math.sqrt(min(alone + n**2 * common, float(stderr.sum()) ** 2))


def ape(
    sums: tuple[float, float], errors: tuple[float, float], half: float, tolerance: float
) -> tuple[tuple[float, float, float], float]:
    """The absolute percentage error with its interval, and the error of the signed one."""
    listed, own = sums
    if not listed > 0:
        return (math.nan, math.nan, math.nan), math.nan
    signed = 1 - own / listed
    # Of 1 - own / listed, where both have errors.
    error = math.hypot(errors[1], own / listed * errors[0]) / listed
    reach = half * error + tolerance / listed
    low, high = signed - reach, signed + reach
    nearest_0 = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return (abs(signed), nearest_0, max(abs(low), abs(high))), error
