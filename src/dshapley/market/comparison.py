"""Comparing two sides' sums of the values of the same points, with intervals."""

from __future__ import annotations

import math
from typing import Any

from dshapley.data.points import Floats

__all__ = ["ape", "error_of_sum"]


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
