"""Size weights: arrays of probabilities over k = 1..m, where k = |S| + 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dshapley.errors import InputError
from dshapley.points import Array, Floats

__all__ = ["as_weights", "power", "uniform"]


def uniform(m: int) -> Floats:
    """w_k = 1/m: Algorithm 1.

    >>> uniform(4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    return np.full(_size(m), 1.0 / m)


def power(m: int, a: float) -> Floats:
    """w_k proportional to k**-a: small sets more often (Theorem 3.2 has a = 1).

    >>> power(2, 1.0).round(3)
    array([0.667, 0.333])
    """
    if not np.isfinite(a):
        raise InputError(f"the exponent of the size weights must be a number, not {a}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        w = np.arange(1.0, _size(m) + 1) ** -float(a)
        w = w / w.sum()
    if not (w > 0).all():
        raise InputError(f"weights k^-{a:g} are so steep that some size up to {m} is never drawn")
    return w


def as_weights(weights: str | Sequence[float] | Array, m: int) -> Floats:
    """Size weights from "uniform", "1/k", "k^-a" (such as "k^-0.5"), or an array of m weights.

    An array must be positive, since a size that is never drawn would bias every value, and sum
    to 1.

    >>> as_weights("k^-2", 3).round(2).tolist()
    [0.73, 0.18, 0.08]
    """
    if isinstance(weights, str):
        return _named(weights.replace(" ", ""), m)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (_size(m),):
        raise InputError(f"weights must hold one number for each size 1..{m}, not {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any():
        k = int(np.flatnonzero(~(w >= 0) | np.isinf(w))[0]) + 1
        raise InputError(f"the weight of size k = {k} is {w[k - 1]}: weights are probabilities")
    if (w == 0).any():
        k = int(np.flatnonzero(w == 0)[0]) + 1
        raise InputError(
            f"the weight of size k = {k} is 0: that size would never be drawn and every value "
            "would be biased; give each size a positive weight"
        )
    if abs(w.sum() - 1.0) > 1e-6:
        raise InputError(f"the weights sum to {w.sum():.6g}, not 1: divide them by their sum")
    return w / w.sum()


def _named(name: str, m: int) -> Floats:
    if name == "uniform":
        return uniform(m)
    if name == "1/k":
        return power(m, 1.0)
    match = re.fullmatch(r"k(?:\^|\*\*)-(\d+(?:\.\d*)?|\.\d+)", name)
    if match is None:
        raise InputError(f"unknown weights {name!r}: use uniform, 1/k, or k^-a such as k^-0.5")
    return power(m, float(match.group(1)))


def _size(m: Any) -> int:
    if (
        not isinstance(m, int | float | np.integer | np.floating)
        or not np.isfinite(m)
        or int(m) != m
        or m < 1
    ):
        raise InputError(f"m = {m}: the data set size must be a whole number, 1 or more")
    return int(m)
