"""The distance of two tables as distributions: optimal transport, by the package POT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats, Points, as_points
from dshapley.errors import DShapleyError, InputError, nearest, warn

__all__ = ["wasserstein"]


def wasserstein(
    a: Points | tuple[Any, Any],
    b: Points | tuple[Any, Any],
    *,
    label_cost: float = 1.0,
    scale: str | Sequence[float] | Array | None = None,
    max_rows: int = 3000,
    seed: int = 0,
) -> float:
    """The Wasserstein distance W_1 between two tables, each row of a table weighing the same.

    It is the least mean distance d over all ways to move the rows of `a` onto those of `b` (2.2):

        d(z, z') = ||x - x'|| + label_cost [y != y']        for classes (text, whole numbers)
        d(z, z') = ||x - x'|| + label_cost |y - y'|         for y of floating point numbers

    For tables without y there is no label part. The result is exact; it is computed by the
    package POT (`pip install 'dshapley[transport]'`). For `shift_gap`, d must be the metric of
    its beta.

    The tables are treated as the distributions. The distance between two samples of the same
    distribution is therefore above 0, in many dimensions far above it: compare the result with
    the distance between two halves of `a`.

    Parameters
    ----------
    a, b
        Points, or pairs (X, y), with the same columns, all of them numbers and none missing.
    label_cost
        The distance between two classes, or the distance for a difference of 1 in y, in the
        units of X. 0 ignores labels. `inf` is the paper's metric (appendix "Lipschitz
        Stability of RKHS"): rows only move to rows of the same label, and the distance is
        infinite unless each label has the same share in both tables.
    scale
        The divisor of each column of X: an array with one number for each, or "std" for the
        standard deviations over the rows of both tables. By default columns are not divided:
        they count in their own units, and those with large numbers count most.
    max_rows
        A table with more rows (or a label with more rows, if `label_cost` is infinite) is
        represented by this many of them, drawn at random without replacement, and a warning
        says so. The distance is then too large on average. Time and memory grow at least with
        the square of max_rows.
    seed
        The random seed that chooses these rows. Equal tables get equal rows.

    Examples
    --------
    >>> a = Points([[0.0], [1.0]], ["cat", "dog"])
    >>> b = Points([[0.5], [1.5]], ["cat", "dog"])
    >>> wasserstein(a, b)
    0.5
    >>> wasserstein(a, Points(a.X, ["cat", "cat"]), label_cost=3.0)
    1.5
    >>> wasserstein(a, Points(a.X, ["cat", "cat"]), label_cost=float("inf"))
    inf
    """
    A, B = as_points(a, name="a"), as_points(b, name="b")
    _check_columns(A, B)
    if not label_cost >= 0:
        raise InputError(f"label_cost = {label_cost}: give a distance of at least 0")
    X_a, X_b = _scaled(_numbers(A, name="a"), _numbers(B, name="b"), scale)
    limit = int(max_rows)
    if limit < 1:
        raise InputError(f"max_rows = {max_rows}: give a whole number of at least 1")
    y_a, y_b = _both_labels(A, B, label_cost)
    if math.isfinite(label_cost):
        parts = [(np.arange(len(A)), np.arange(len(B)))]
    else:
        parts = _by_label(y_a, y_b)
    if not parts:
        return math.inf
    _warn_of_few(parts, limit)
    total = 0.0
    for i, j in parts:
        share, i, j = len(i) / len(A), _few(i, limit, seed), _few(j, limit, seed)
        d = _distances(X_a[i], X_b[j])
        if math.isfinite(label_cost):
            d += label_cost * _label_distances(y_a[i], y_b[j])
        total += share * _transport(d)
    return total


def _check_columns(A: Points, B: Points) -> None:
    if A.columns != B.columns:
        odd = [c for c in A.columns if c not in B.columns]
        hint = f"b has no column {odd[0]!r} ({nearest(odd[0], B.columns)})" if odd else "reorder b"
        raise InputError(
            f"the {len(A.columns)} columns of a and the {len(B.columns)} of b are not the same "
            f"in the same order: {hint}"
        )


def _both_labels(A: Points, B: Points, label_cost: float) -> tuple[Array, Array]:
    """The labels of both tables, or the same label for every row if labels do not count."""
    if label_cost == 0 or (A.y is None and B.y is None):
        return np.zeros(len(A)), np.zeros(len(B))
    if A.y is None or B.y is None:
        one, other = ("a", "b") if B.y is None else ("b", "a")
        raise InputError(f"{one} has labels and {other} has none: give y for both, or label_cost=0")
    if _kind(A.y) != _kind(B.y):
        raise InputError(
            f"y of a holds {_kind(A.y)} and y of b {_kind(B.y)}: give the same kind in both"
        )
    return A.y, B.y


def _kind(y: Array) -> str:
    return {"U": "text", "f": "floating point numbers"}.get(y.dtype.kind, "whole numbers")


def _numbers(points: Points, *, name: str) -> Floats:
    if isinstance(points.X, np.ndarray):
        kinds = [points.X.dtype.kind] * points.X.shape[1]
    else:
        kinds = [dtype.kind for dtype in points.X.dtypes]
    for column, kind in zip(points.columns, kinds, strict=True):
        if kind not in "biuf":
            raise InputError(
                f"{name}: column {column!r} is not numeric: leave it out, or encode it, for "
                "instance with pandas.get_dummies"
            )
    if isinstance(points.X, np.ndarray):
        X = points.X.astype(np.float64)
    else:
        X = points.X.to_numpy(dtype=np.float64, na_value=np.nan)
    rows, columns = np.nonzero(~np.isfinite(X))
    if len(rows):
        raise InputError(
            f"{name}: column {points.columns[columns[0]]!r} is missing or infinite in row "
            f"{rows[0]}: fill it in or drop the row"
        )
    return X


def _scaled(
    X_a: Floats, X_b: Floats, scale: str | Sequence[float] | Array | None
) -> tuple[Floats, Floats]:
    if scale is None:
        return X_a, X_b
    if isinstance(scale, str):
        if scale != "std":
            raise InputError(f"unknown scale {scale!r}: use 'std', or a number for each column")
        both = np.concatenate([X_a, X_b])
        unit = np.where(np.ptp(both, axis=0) > 0, both.std(axis=0), 1.0)
    else:
        unit = np.asarray(scale, dtype=np.float64)
        if unit.shape != (X_a.shape[1],) or not (np.isfinite(unit) & (unit > 0)).all():
            raise InputError(
                f"scale must hold a number above 0 for each of the {X_a.shape[1]} columns"
            )
    return X_a / unit, X_b / unit


def _by_label(y_a: Array, y_b: Array) -> list[tuple[Array, Array]]:
    """The rows of each label in both tables; none if some label's shares differ."""
    groups = []
    for label in np.unique(np.concatenate([y_a, y_b])):
        i, j = np.flatnonzero(y_a == label), np.flatnonzero(y_b == label)
        if len(i) * len(y_b) != len(j) * len(y_a):
            return []
        groups.append((i, j))
    return groups


def _warn_of_few(parts: list[tuple[Array, Array]], limit: int) -> None:
    most = max(len(rows) for part in parts for rows in part)
    if most > limit:
        warn(
            f"a table of {most} rows is represented by {limit} of them, so the distance is "
            f"approximate and on average too large; max_rows={most} gives the exact distance"
        )


def _few(rows: Array, limit: int, seed: int) -> Array:
    if len(rows) <= limit:
        return rows
    # Both tables use the same seed, so that the distance of equal tables is still 0.
    return np.random.default_rng(seed).choice(rows, limit, replace=False)


def _distances(X_a: Floats, X_b: Floats) -> Floats:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(X_a, X_b), dtype=np.float64)


def _label_distances(y_a: Array, y_b: Array) -> Floats:
    if y_a.dtype.kind == "f":
        return np.abs(y_a[:, np.newaxis] - y_b)
    return (y_a[:, np.newaxis] != y_b).astype(np.float64)


def _transport(d: Floats) -> float:
    """The least mean of d over all couplings of its rows and its columns, by network simplex."""
    try:
        import ot
    except ImportError:
        raise InputError(
            "the Wasserstein distance is computed by the package POT, which is not installed: "
            "pip install 'dshapley[transport]'"
        ) from None
    largest = float(d.max())
    if not math.isfinite(largest):
        raise InputError("the distances between rows are too large to compute: give a scale")
    if largest == 0:
        return 0.0
    a, b = (np.full(n, 1.0 / n) for n in d.shape)
    # The solver's tolerance is absolute, so distances are divided by the largest. POT's default
    # limit of 100,000 steps is too low for tables of several thousand rows.
    cost, log = ot.emd2(a, b, d / largest, numItermax=10**9, log=True)
    if log["warning"] is not None:
        raise DShapleyError(f"POT did not find the Wasserstein distance: {log['warning']}")
    return float(cost) * largest
