"""Size weights: arrays of probabilities over the set sizes k = 1..m, where k = |S| + 1."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats
from dshapley.errors import MOST_M, InputError, is_whole

__all__ = [
    "LEAST_WEIGHT",
    "PerSize",
    "as_weights",
    "balanced_by_default",
    "bands",
    "by_work",
    "from_stability",
    "per_size",
    "power",
    "shown",
    "uniform",
    "whole_number",
]

LEAST_WEIGHT = 1e-100
"""The least weight of a size. With less, the size is never drawn in practice, and dividing by the
weight could overflow.
"""

_EVENLY = 0.25
"""The share of draws that is spread evenly over the bands, so that each band gets draws early."""

PerSize: TypeAlias = Callable[[int], float] | Sequence[float] | Array | float
"""A number for each size k = 1..m: a function of k, an array of m numbers, or one for all sizes."""


def uniform(m: int) -> Floats:
    """w_k = 1/m, the weights of Algorithm 1.

    >>> uniform(4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    return np.full(whole_number(m), 1.0 / m)


def power(m: int, a: float) -> Floats:
    """w_k proportional to k**-a: small sets are drawn more often (Theorem 3.2 has a = 1).

    >>> power(2, 1.0).round(3)
    array([0.667, 0.333])
    """
    if not np.isfinite(a):
        raise InputError(f"the exponent of the size weights must be a finite number, not {a}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        w = np.arange(1.0, whole_number(m) + 1) ** -float(a)
        w = w / w.sum()
    if not (w >= LEAST_WEIGHT).all():
        raise InputError(
            f"weights k^-{a:g} are so steep that some size up to {m} is never drawn: "
            "give an exponent nearer to 0"
        )
    return w


def from_stability(beta: PerSize, cost: PerSize, *, m: int | None = None) -> Floats:
    """w_k proportional to beta(k) / sqrt(R(k)), the least running time in the bound of appendix E.

    The bound is the product (sum of beta(k)^2 / w_k) (sum of w_k R(k)). By the Cauchy-Schwarz
    inequality it is at least (sum of beta(k) sqrt(R(k)))^2, and these weights attain that minimum.

    Parameters
    ----------
    beta
        The deletion stability, an upper bound on the absolute marginals of size k: a function of
        k, or an array.
    cost
        R(k), the time to evaluate U on k points, in any unit: a function of k, or an array.
    m
        The largest size, needed if beta and cost are both functions.

    >>> from_stability(lambda k: 1 / k, lambda k: k, m=3).round(3)
    array([0.647, 0.229, 0.124])
    """
    lengths = [np.size(part) for part in (beta, cost) if not callable(part) and np.ndim(part)]
    if m is None and not lengths:
        raise InputError("neither beta nor cost is an array, so the sizes are unknown: give m=")
    n = lengths[0] if m is None else whole_number(m)
    stability, seconds = (
        per_size(beta, n, name="beta"),
        per_size(cost, n, name="cost"),
    )
    if (stability <= 0).any() or (seconds <= 0).any():
        raise InputError("beta and cost must be above 0 at every size, or it is never drawn")
    w = stability / np.sqrt(seconds)
    return np.asarray(w / w.sum())


def by_work(m: int, work: PerSize = 1.0) -> Floats:
    """The default weights: w_k proportional to 1 / (k sqrt(work)), with some draws for every size.

    The spread of marginals falls about as 1/k, and weights proportional to spread / sqrt(work)
    reach a given error with the least work (`from_stability`). Adapting the weights to pilot draws
    gains next to nothing and costs the pilot (docs/decisions/0012-one-default.md). A quarter of the
    draws is spread evenly over the `bands`, because the error is only known where sizes have been
    drawn. The weight of k = 1 is halved, because S is then empty and all draws are alike.

    >>> by_work(8).round(2)
    array([0.2 , 0.2 , 0.15, 0.1 , 0.09, 0.07, 0.07, 0.12])
    """
    cost = per_size(work, whole_number(m), name="work")
    if (cost <= 0).any():
        raise InputError("work must be above 0 at every size")
    sizes = np.arange(1.0, m + 1)
    rule = 1 / (sizes * np.sqrt(cost))
    edges = bands(m)
    widths = np.diff(edges)
    even = np.repeat(1 / (len(widths) * widths), widths)
    w = (1 - _EVENLY) * rule / rule.sum() + _EVENLY * even
    w[0] /= 2 if m > 1 else 1
    return np.asarray(w / w.sum())


def balanced_by_default(weights: Any) -> bool:
    """Whether balanced sizes and control variates are used where the caller does not choose.

    They are used for "auto" weights only.
    """
    return isinstance(weights, str) and weights.replace(" ", "") == "auto"


def bands(m: int) -> NDArray[np.int64]:
    """The edges of the bands of sizes: each band is twice as wide as the one before, up to m.

    >>> bands(10).tolist()
    [1, 2, 4, 8, 11]
    """
    starts = 2 ** np.arange(whole_number(m).bit_length())
    return np.append(starts, m + 1)


def per_size(given: PerSize, m: int, *, name: str) -> Floats:
    """A checked array with a number for each k = 1..m; errors call what was given `name`."""
    try:
        numbers = [given(k) for k in range(1, m + 1)] if callable(given) else given
        found = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must give a number for each size 1..{m}: {error}") from None
    if found.ndim == 0:
        found = np.full(m, found)
    if found.shape != (m,):
        raise InputError(f"{name} must hold one number for each size 1..{m}, not {found.shape}")
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0]) + 1
        raise InputError(f"{name}({k}) is {found[k - 1]}: give a finite number of at least 0")
    return found


def as_weights(weights: str | Sequence[float] | Array, m: int) -> Floats:
    """Size weights from a name or an array of m weights.

    The names are "auto" (`by_work`), "uniform" or "algorithm-1", "1/k" or "algorithm-2", and
    "k^-a" such as "k^-0.5". An array must be positive, because a size that is never drawn would
    bias every value, and it must sum to 1.

    >>> as_weights("k^-2", 3).round(2).tolist()
    [0.73, 0.18, 0.08]
    """
    if isinstance(weights, str):
        return _named(weights.replace(" ", ""), m)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (whole_number(m),):
        raise InputError(f"weights must hold one number for each size 1..{m}, not {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any():
        k = int(np.flatnonzero(~(w >= 0) | np.isinf(w))[0]) + 1
        raise InputError(f"the weight of size k = {k} is {w[k - 1]}: give a probability above 0")
    if (w < LEAST_WEIGHT).any():
        k = int(np.flatnonzero(w < LEAST_WEIGHT)[0]) + 1
        raise InputError(
            f"the weight of size k = {k} is {w[k - 1]:g}: that size would never be drawn and "
            "every value would be biased; give each size a positive weight"
        )
    if abs(w.sum() - 1.0) > 1e-6:
        raise InputError(f"the weights sum to {w.sum():.6g}, not 1: divide them by their sum")
    return w / w.sum()


def _named(name: str, m: int) -> Floats:
    if name == "auto":
        return by_work(m)
    if name in ("uniform", "algorithm-1"):
        return uniform(m)
    if name in ("1/k", "algorithm-2"):
        return power(m, 1.0)
    match = re.fullmatch(r"k(?:\^|\*\*)-(\d+(?:\.\d*)?|\.\d+)", name)
    if match is None:
        raise InputError(
            f"unknown weights {name!r}: use auto, uniform (algorithm-1), 1/k (algorithm-2), or "
            "k^-a such as k^-0.5"
        )
    return power(m, float(match.group(1)))


def whole_number(m: Any) -> int:
    """A data set size as an int; an error if it is not a whole number within the limits."""
    if not is_whole(m, least=1, most=MOST_M):
        raise InputError(f"m = {m}: the data set size must be a whole number from 1 to {MOST_M:,}")
    return int(m)


def shown(weights: Floats) -> str:
    """Size weights as text that tells them apart: the first, the last, and a digest of all."""
    digest = hashlib.blake2b(weights.tobytes(), digest_size=8).hexdigest()
    return f"{weights[0]:.4g} (k = 1) ... {weights[-1]:.4g} (k = {len(weights)}), {digest}"
