"""Rows that are there twice, or nearly, and copies whose labels contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points, row_digests

__all__ = ["Copies", "copies", "without_conflicts"]

_CLOSE = 0.01
"""Near copies differ by at most this much in every column, in standard deviations of the column."""
_FEWEST_NUMBERS = 3
"""Columns of numbers in which near copies can be told. In one or two, rows are close by chance."""
_FAR_BELOW = 0.1
"""And by at most this share of the distance that a row usually has from its nearest: in a dense
table all rows have close neighbours, which are no copies.
"""
_SAMPLE = 200
"""Rows that tell the usual distance."""
_MOST, _FEW = 0.5, 4
"""If more of the rows than `_MOST` have a copy and no column has more different values than a
`_FEW`-th of the rows, the columns have few values and copies say nothing.
"""
_APART = 0.5
"""Numbers to predict contradict each other if they differ by this many standard deviations."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Copies:
    """Which rows are copies of each other.

    Attributes
    ----------
    group
        A number that the copies of a row share; -1 for rows without a copy.
    exact
        Whether some other row has exactly the same features.
    conflict
        Whether some copy has a contradicting label: another class, or a number that differs by
        more than half a standard deviation.
    few_values
        Whether most rows have a copy, because the columns have few different values. Then equal
        rows are no copies, and none is named.
    """

    group: NDArray[np.int64]
    exact: NDArray[np.bool_]
    conflict: NDArray[np.bool_]
    few_values: bool = False


def copies(points: Points, *, classes: bool) -> Copies:
    """The exact and near copies among some rows, whose columns are encoded and scaled.

    `classes` says whether their labels are classes or numbers.

    >>> X = [[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [0.5, 3.0], [2.0001, 0.0], [9.0, 9.0],
    ...      [7.0, 5.0], [4.0, 7.0], [8.0, 1.0]]
    >>> found = copies(Points(X, ["a", "b", "b", "a", "b", "a", "b", "a", "b"]),
    ...                classes=True)
    >>> found.group.tolist()
    [0, -1, 0, -1, -1, -1, -1, -1, -1]
    >>> np.flatnonzero(found.exact).tolist(), np.flatnonzero(found.conflict).tolist()
    ([0, 2], [0, 2])
    """
    X = np.asarray(points.X, dtype=np.float64)
    _, first, same = np.unique(row_digests(Points(X)), return_index=True, return_inverse=True)
    joined = _near(X[first])[same]
    _, group, sizes = np.unique(joined, return_inverse=True, return_counts=True)
    alone = sizes[group] == 1
    most_distinct = max((len(np.unique(column)) for column in X.T), default=1)
    if alone.mean() < 1 - _MOST and most_distinct * _FEW <= len(X):
        none = np.zeros(len(X), dtype=bool)
        return Copies(group=np.full(len(X), -1), exact=none, conflict=none.copy(), few_values=True)
    found = np.full(len(X), -1)
    # Groups are numbered in the order of their first rows.
    names, places = np.unique(group[~alone], return_index=True)
    order = np.argsort(places)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    found[~alone] = rank[np.searchsorted(names, group[~alone])]
    return Copies(
        group=found,
        exact=np.bincount(same)[same] > 1,
        conflict=_conflicts(found, points.y, classes=classes),
    )


def without_conflicts(points: Points, *, classes: bool) -> tuple[Points, int]:
    """The rows without copies that contradict most of their copies, and how many these are.

    Where no label has a majority, or labels are numbers, all the copies are left out.
    """
    found = copies(points, classes=classes)
    kept = ~found.conflict
    assert points.y is not None
    if classes:
        for g in np.unique(found.group[found.conflict]).tolist():
            rows = np.flatnonzero(found.group == g)
            labels, counts = np.unique(points.y[rows], return_counts=True)
            if 2 * counts.max() > len(rows):
                kept[rows[points.y[rows] == labels[counts.argmax()]]] = True
    return points.take(kept), int((~kept).sum())


def _near(X: Floats) -> NDArray[np.int64]:
    """A number for each of some different rows, the same for near copies."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(X)
    pairs = [np.empty((0, 2), dtype=np.int64)]
    close = _close(X)
    # Columns of two values are categories: near copies agree in them, so each combination is
    # searched by itself.
    categories = np.array([len(np.unique(column)) <= 2 for column in X.T], dtype=bool)
    numbers = X[:, ~categories]
    if close > 0 and numbers.shape[1] >= _FEWEST_NUMBERS:
        names = row_digests(Points(X[:, categories])) if categories.any() else np.zeros(n)
        for rows in _parts(names):
            pairs.append(rows[_pairs(numbers[rows], close)])
    i, j = np.concatenate(pairs).T
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _parts(names: Array) -> list[NDArray[np.intp]]:
    """The positions of each name that stands more than once."""
    order = np.argsort(names, kind="stable")
    ends = np.flatnonzero(np.diff(names[order])) + 1
    return [rows for rows in np.split(order, ends) if len(rows) > 1]


def _pairs(X: Floats, close: float) -> NDArray[np.intp]:
    from scipy.spatial import KDTree

    found: NDArray[np.intp] = KDTree(X).query_pairs(close, p=np.inf, output_type="ndarray")
    return found


def _close(X: Floats) -> float:
    """The largest difference of near copies; 0 for a table in which none can be told."""
    if len(X) < 3:
        return _CLOSE
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(len(X), min(len(X), _SAMPLE), replace=False))
    nearest = [
        np.partition(cdist(X[part], X, "chebyshev"), 1, axis=1)[:, 1]
        for part in np.array_split(sample, max(1, len(sample) // 20))
    ]
    return min(_CLOSE, _FAR_BELOW * float(np.median(np.concatenate(nearest))))


def _conflicts(group: NDArray[np.int64], y: Array | None, *, classes: bool) -> NDArray[np.bool_]:
    conflict = np.zeros(len(group), dtype=bool)
    if y is None:
        return conflict
    there = np.flatnonzero(group >= 0)
    if classes:
        codes = np.unique(y, return_inverse=True)[1].astype(np.float64)
        least = 0.5
    else:
        codes, least = np.asarray(y, dtype=np.float64), _APART * float(np.std(y))
    low = np.full(group.max(initial=-1) + 1, np.inf)
    high = -low
    np.minimum.at(low, group[there], codes[there])
    np.maximum.at(high, group[there], codes[there])
    conflict[there] = (high - low > least)[group[there]]
    return conflict
