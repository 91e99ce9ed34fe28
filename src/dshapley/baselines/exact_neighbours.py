"""Exact distributional values for nearest neighbours, by a closed form instead of draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from dshapley.data.points import Array, Floats, Points, as_points
from dshapley.errors import InputError
from dshapley.inference.valuation import Valuation
from dshapley.running.workers import Result, results

__all__ = ["knn_values"]

_BLOCK = 32
"""The number of test rows in one task: their distances to 50,000 points take 13 MB."""


@overload
def knn_values(
    database: Points | tuple[Any, Any],
    *,
    test: Points | tuple[Any, Any],
    points: Points | tuple[Any, Any] | None = ...,
    n_neighbors: int = ...,
    m: int,
    n_jobs: int | None = ...,
) -> Valuation: ...


@overload
def knn_values(
    database: Points | tuple[Any, Any],
    *,
    test: Points | tuple[Any, Any],
    points: Points | tuple[Any, Any] | None = ...,
    n_neighbors: int = ...,
    m: Sequence[int],
    n_jobs: int | None = ...,
) -> list[Valuation]: ...


def knn_values(
    database: Points | tuple[Any, Any],
    *,
    test: Points | tuple[Any, Any],
    points: Points | tuple[Any, Any] | None = None,
    n_neighbors: int = 5,
    m: int | Sequence[int],
    n_jobs: int | None = None,
) -> Valuation | list[Valuation]:
    r"""The exact distributional value of each point for soft-label nearest neighbours.

    The potential is the mean over the test points of the share of right labels among the K
    nearest points of S, where a missing neighbour counts as wrong:

        U(S) = mean over j of (1/K) * (number of i <= min(K, |S|) with y_(i) = y_j),  U(empty) = 0

    Let M be the number of points in the database, r the number of them that are as near to x_j as
    z or nearer, and

        A(r) = E[min(N, K)] / (m r / M),  N ~ Binomial(m, r / M),  A(0) = 1,

    which is the mean over k = 1..m of P[fewer than K of k - 1 draws are among these r]. Then

        value(z) = mean over j of (1/K) ([y_z = y_j] A(r)
                   - sum over ranks i > r of (A(i - 1) - A(i)) s_i),

    where s_i is 1 if the database point of rank i has the label y_j, else 0.

    Distances are Euclidean, summed from the differences of the columns. Ties follow the rule of the
    fast path of `KNeighborsClassifier`: z comes after the rows of S at its distance (its own copies
    in S are such rows), and the rows of S are in the order in which they were drawn. So each
    database point of a tie is equally likely to be the one that z pushes out, and s_i is the share
    of the label y_j among the database points that tie with rank i. A value depends neither on the
    order of the database nor on which other points are valued. Equal rows always tie.

    Parameters
    ----------
    database, test, points
        As for `dshapley.value` [default of points: those of the database].
    n_neighbors
        K.
    m
        The data set size, or several of them, which cost little more. With several, a list of
        valuations is returned.
    n_jobs
        The number of workers, as for `dshapley.run`; it does not change the values at all.

    Examples
    --------
    >>> B = Points([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> knn_values(B, test=B, n_neighbors=1, m=2).values.round(3).tolist()
    [0.444, 0.444, 0.278]
    """
    B = as_points(database, name="database")
    T = as_points(test, name="test")
    Z = B if points is None else as_points(points, name="points")
    for name, part in (("database", B), ("test", T), ("points", Z)):
        _check(part, B, name=name)
    sizes = [int(size) for size in np.atleast_1d(m)]
    if n_neighbors < 1 or min(sizes, default=0) < 1:
        raise InputError(f"n_neighbors = {n_neighbors}, m = {m}: give numbers of at least 1")
    tables = np.stack([_nearer(len(B), size, n_neighbors) for size in sizes])
    total = np.zeros((len(sizes), len(Z)))
    n_blocks = -(-len(T) // _BLOCK)
    with results(
        _Block(database=B, test=T, points=Z, tables=tables), range(n_blocks), n_jobs
    ) as blocks:
        for shares in blocks:  # in order, so that the sum does not depend on the workers
            total += shares.marginals
    values = total / (n_neighbors * len(T))
    ones, none = np.ones(len(Z), dtype=np.int64), np.zeros(len(Z))
    valuations = [
        Valuation(values=row, stderr=none, m=size, n_draws=1, ids=Z.ids, rows=ones)
        for row, size in zip(values, sizes, strict=True)
    ]
    return valuations[0] if np.ndim(m) == 0 else valuations


def _nearer(M: int, m: int, K: int) -> Floats:
    """A(r) for r = 0..M.

    It is the mean over n = 0..m-1 of P[Bin(n, p) < K]. The sum over n of P[Bin(n, p) = j] is the
    probability that the (j+1)-th success comes within m trials, divided by p. The sum over j < K
    of that probability, P[Bin(m, p) > j], is E[min(Bin(m, p), K)].
    """
    from scipy.special import bdtrc

    p = np.arange(1, M + 1) / M
    expected = np.sum([bdtrc(j, m, p) for j in range(min(K, m))], axis=0)
    return np.concatenate([[1.0], expected / (m * p)])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Block:
    """The task of one worker: the gain of each z on one block of test points, for each m."""

    database: Points
    test: Points
    points: Points
    tables: Floats

    def __call__(self, t: int) -> Result:
        some = self.test.take(slice(t * _BLOCK, (t + 1) * _BLOCK))
        assert some.y is not None
        assert self.database.y is not None
        assert self.points.y is not None
        X = _floats(some)
        to_database = _distances(X, _floats(self.database))
        same = self.points is self.database
        to_points = to_database if same else _distances(X, _floats(self.points))
        steps = self.tables[:, :-1] - self.tables[:, 1:]
        gains = np.zeros((len(self.tables), len(self.points)))
        behind = np.zeros((len(self.tables), len(self.database) + 1))
        for y, near, far in zip(some.y, to_database, to_points, strict=True):
            order = np.argsort(near)
            nearest = near[order]
            starts, ends = _ties(nearest)
            right = self.database.y[order] == y
            counts = np.concatenate([[0], np.cumsum(right)])
            shares = (counts[ends] - counts[starts]) / (ends - starts)
            # behind[:, r] is the probability that a z of rank r pushes out a right label.
            behind[:, :-1] = np.cumsum((steps * shares)[:, ::-1], axis=1)[:, ::-1]
            if same:  # the ranks of z are known, and `right` is in their order
                gains[:, order] += right * self.tables[:, ends] - behind[:, ends]
            else:
                r = np.searchsorted(nearest, far, side="right")
                gains += (self.points.y == y) * self.tables[:, r] - behind[:, r]
        return Result(len(some), gains)


def _ties(nearest: Floats) -> tuple[Array, Array]:
    """For each of the sorted distances, how many are smaller and how many are at most equal."""
    last = np.append(nearest[1:] != nearest[:-1], True)
    if last.all():
        ranks = np.arange(len(nearest) + 1)
        return ranks[:-1], ranks[1:]
    ends = np.flatnonzero(last) + 1
    sizes = np.diff(ends, prepend=0)
    return np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)


def _distances(X: Floats, other: Floats) -> Floats:
    """(len(X), len(other)) distances, each of which depends only on its two rows, bit for bit."""
    # Imported late, since it loads numba.
    from dshapley.learners.neighbours.distances import named_distance

    return named_distance("euclidean", 2, {}).between(X, other)


def _floats(points: Points) -> Array:
    # Always in C order, since compiled loops may sum other layouts in a different order.
    return np.ascontiguousarray(points.X, dtype=np.float64)


def _check(part: Points, database: Points, *, name: str) -> None:
    if part.y is None:
        raise InputError(f"{name} has no labels: give y")
    if part.X.shape[1] != database.X.shape[1]:
        raise InputError(
            f"{name} has {part.X.shape[1]} columns but the database has {database.X.shape[1]}"
        )
    if not np.isfinite(_floats(part)).all():
        raise InputError(f"{name} has missing or infinite values: fill them in")
