"""Nearest neighbours without retraining: KNeighborsClassifier and KNeighborsRegressor.

If z is nearer to a test row than its K-th neighbour in S, z replaces that neighbour; otherwise
nothing changes. Ties at the K-th place, which scikit-learn does not specify, go to earlier rows of
S, and to z last. One cached table lists the nearest rows of the database for each test row, and a
draw walks down each list until it has found K rows of S. Another caches the distances of Z to the
test rows. The results equal, bit for bit, those without the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.learners.cache import kept
from dshapley.learners.fast import Asked, Family, Sample, UnsupportedError
from dshapley.learners.flips import as_labels
from dshapley.learners.kernels import inlined, kernel
from dshapley.learners.neighbours.distances import Distance, named_distance

__all__ = ["family"]

_LISTS = 128 << 20
"""The largest size, in bytes, of the table of lists."""

_ROWS = 256 << 20
"""The largest size, in bytes, of the table of distances of Z."""

_BLOCK = 1 << 24
"""The size, in bytes, of a block of outputs or distances."""

_LONGEST = 1024
"""The largest length of a list.

A draw that needs more steps has so few rows that computing its distances is cheaper.
"""


_STEP = 10
"""The cost of a step down a list, in units of a difference of two numbers."""


def family(estimator: Any) -> Family:
    """The family for an estimator's parameters; `algorithm` does not change its results."""
    if not isinstance(estimator.n_neighbors, int | np.integer) or estimator.n_neighbors < 1:
        raise UnsupportedError(f"n_neighbors={estimator.n_neighbors!r} is not a number of rows")
    if estimator.weights not in ("uniform", "distance", None):
        raise UnsupportedError("weights is a function")
    measure = named_distance(estimator.metric, estimator.p, estimator.metric_params or {})
    return Nearest(int(estimator.n_neighbors), estimator.weights == "distance", measure)


# --- the neighbours of each test row


class _Neighbours(NamedTuple):
    """For each of n test rows its K nearest rows of S, nearest first."""

    places: NDArray[np.int64]
    """(n, K) positions in S."""
    distances: Floats
    """(n, K)"""

    @staticmethod
    def empty(n: int, K: int) -> _Neighbours:
        return _Neighbours(np.empty((n, K), dtype=np.int64), np.empty((n, K)))


class _Lists(NamedTuple):
    """For each test row the nearest rows of the database and their distances, nearest first."""

    rows: Array
    gaps: Floats


def _neighbours(distance: Distance, S: Sample, asked: Asked, K: int) -> _Neighbours:
    found = _Neighbours.empty(len(asked.X), K)
    everyone = np.arange(len(asked.X), dtype=np.int64)
    source = S.points.source
    lists = None
    # Only about one of |B| / |S| rows in a list is in S, so K neighbours take K |B| / |S| steps.
    if source and _STEP * K * len(source[0]) < len(S) ** 2 * S.X.shape[1]:
        lists = _lists(distance, source[0], asked, len(S))
    if source is None or lists is None:
        _directly(distance, S, asked, everyone, found)
        return found
    order = np.argsort(source[1], kind="stable")
    starts = np.searchsorted(source[1][order], np.arange(len(source[0]) + 1))
    left_open = np.empty(len(everyone), dtype=np.bool_)
    _walk(lists, starts, order, len(source[0]), found, left_open)
    if left_open.any():
        _directly(distance, S, asked, everyone[left_open], found)
    return found


def _lists(distance: Distance, database: Points, asked: Asked, size: int) -> _Lists | None:
    """The lists for the database, or None while they are not worth making."""
    name = (distance.name, asked.query.test.key, database.key)
    with kept.lock:
        (spent,) = kept.get(("spent", name), lambda: (np.zeros(1, dtype=np.int64),))
        spent[0] += size
        if not _worth_a_table(spent[0], database):
            return None
        return _Lists(*kept.get(("lists", name), lambda: _make_lists(distance, database, asked.X)))


def _worth_a_table(spent: int, database: Points) -> bool:
    """Whether draws have computed as many distances as the table needs.

    Each draw might be the last one, so the table is made only when its cost has already been spent.
    """
    return spent >= len(database)


def _make_lists(distance: Distance, database: Points, test: Floats) -> _Lists:
    n, size = len(test), len(database)
    length = max(1, min(size, _LONGEST, _LISTS // (12 * n)))
    rows, distances = np.empty((n, length), dtype=np.int32), np.empty((n, length))
    X = np.ascontiguousarray(database.X, dtype=np.float64)
    step = max(1, _BLOCK // (8 * size))
    for start in range(0, n, step):
        some = slice(start, start + step)
        gaps = distance.between(test[some], X)
        nearest = np.argpartition(gaps, length - 1, axis=1)[:, :length]
        gaps = np.take_along_axis(gaps, nearest, axis=1)
        order = np.argsort(gaps, axis=1)
        rows[some] = np.take_along_axis(nearest, order, axis=1)
        distances[some] = np.take_along_axis(gaps, order, axis=1)
    return _Lists(rows, distances)


def _directly(distance: Distance, S: Sample, asked: Asked, rows: Array, found: _Neighbours) -> None:
    """Find the neighbours of these test rows by computing their distances to all rows of S."""
    step = max(1, _BLOCK // (64 * max(len(S), 1)))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        gaps = distance.between(asked.X[some], S.X)
        _select(gaps, some, found)


@kernel
def _select(gaps: Floats, rows: Array, found: _Neighbours) -> None:
    places, distances = found
    K = places.shape[1]
    for i in range(len(rows)):
        j = rows[i]
        for place in range(gaps.shape[1]):
            gap = gaps[i, place]
            if place >= K and not gap < distances[j, K - 1]:
                continue
            q = min(place, K - 1)
            while q > 0 and distances[j, q - 1] > gap:
                distances[j, q] = distances[j, q - 1]
                places[j, q] = places[j, q - 1]
                q -= 1
            distances[j, q] = gap
            places[j, q] = place


@kernel
def _walk(
    lists: _Lists, starts: Array, members: Array, size: int, found: _Neighbours, left_open: Array
) -> None:
    """Find the neighbours of each test row by walking down its list.

    Row b of the database is in S at the positions members[starts[b]:starts[b+1]]. `left_open` marks
    test rows whose list ended too early.
    """
    (rows, gaps), (places, distances) = lists, found
    K = places.shape[1]
    length = rows.shape[1]
    for j in range(len(rows)):
        count, i = 0, 0
        while count < K and i < length:
            gap, first = gaps[j, i], count
            # Take all rows at the same distance together, because earlier rows of S come first.
            while i < length and gaps[j, i] == gap:
                b = rows[j, i]
                for m in range(starts[b], starts[b + 1]):
                    place = members[m]
                    if count == K and place > places[j, K - 1]:
                        continue
                    q = min(count, K - 1)
                    while q > first and places[j, q - 1] > place:
                        places[j, q] = places[j, q - 1]
                        q -= 1
                    places[j, q] = place
                    count = min(count + 1, K)
                i += 1
            for q in range(first, count):
                distances[j, q] = gap
        # Rows beyond the end of the list may have the same distance as its last row.
        left_open[j] = count < K or (i == length and length < size)


_Gaps: TypeAlias = Callable[[slice], tuple[Floats, Array]]
"""A function that returns, for a slice of Z, a table of distances and the rows to use in it."""


class _Entering(NamedTuple):
    """A block of the points Z."""

    table: Floats
    """Distances to the test rows; it may have rows for other points too."""
    rows: Array
    """The row of the table for each point."""
    y: Array


def _from_Z(distance: Distance, Z: Sample, asked: Asked) -> _Gaps:
    """A function that returns, for a slice of Z, a table of distances and the rows to use in it."""
    n = len(asked.X)
    root, places = Z.points.source or (Z.points, np.arange(len(Z)))
    if 8 * n * len(Z) > _ROWS:
        return lambda some: (distance.between(Z.X[some], asked.X), np.arange(len(Z.X[some])))
    name = ("rows", distance.name, asked.query.test.key, root.key)

    def make() -> tuple[Array, Array]:
        return np.full(len(root), -1), np.empty((0, n))

    with kept.lock:
        where, table = kept.get(name, make)
        missing, first = np.unique(places[where[places] < 0], return_index=True)
        if len(missing):
            if 8 * n * (len(table) + len(missing)) > _ROWS:
                where, table = make()
                missing, first = np.unique(places, return_index=True)
            else:
                first = np.flatnonzero(where[places] < 0)[first]
            where, old = where.copy(), table
            where[missing] = len(old) + np.arange(len(missing))
            table = np.empty((len(old) + len(missing), n))
            table[: len(old)] = old
            _fill(distance, Z.X[first], asked.X, table[len(old) :])
            kept.get(name, lambda: (where, table), anew=True)
    rows = where[places]
    return lambda some: (table, rows[some])


def _fill(distance: Distance, A: Floats, B: Floats, out: Floats) -> None:
    step = max(1, _BLOCK // (8 * len(B)))
    for start in range(0, len(A), step):
        out[start : start + step] = distance.between(A[start : start + step], B)


# --- their votes


class _Votes(NamedTuple):
    """The votes of the neighbours of each test row.

    `sums` is (n, c) with the weight of each class or, for regression, (n, 2) with the sums of w y
    and of w. `zero` marks test rows with a neighbour at distance 0, which overrules all others.
    """

    sums: Floats
    zero: NDArray[np.bool_]


class _Standing(NamedTuple):
    """The state of each test row with S alone."""

    edge: Floats
    """z becomes a neighbour if it is nearer than this."""
    base: Array
    """The outputs without z."""
    others: _Votes
    """The votes of the neighbours that remain when z becomes one."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """K nearest neighbours, each with one vote or, if `weighted`, with 1 / distance votes."""

    K: int
    weighted: bool
    distance: Distance

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """Blocks of labels, probabilities or numbers, for S and for every S + z; see `Family`."""
        K = min(self.K, len(S))
        found = asked.once("neighbours", lambda: _neighbours(self.distance, S, asked, K))
        base = _said(self._votes(found, K, S, asked).sums, asked)
        if len(S) > 0 if asked.kind == "number" else len(np.unique(S.y)) == asked.n_classes:
            yield _shares(base[np.newaxis].copy())
        if len(Z) == 0:
            return
        full = K == self.K  # z replaces the K-th neighbour; if S has fewer than K rows, z is added
        edge = found.distances[:, -1] if full else np.full(len(asked.X), np.inf)
        standing = _Standing(edge, base, self._votes(found, K - 1 if full else K, S, asked))
        gaps = _from_Z(self.distance, Z, asked)
        step = max(1, _BLOCK // (base.nbytes + 8 * len(base)))
        for start in range(0, len(Z), step):
            some = slice(start, start + step)
            if asked.kind == "label":
                yield self._with(Z, some, gaps, standing, asked)
                continue
            make = partial(self._with, Z, some, gaps, standing, asked)
            yield asked.once("shares", make, start)

    def _with(
        self, Z: Sample, some: slice, gaps: _Gaps, standing: _Standing, asked: Asked
    ) -> Array:
        """The outputs for S + z, for each z of a slice of Z."""
        new = _Entering(*gaps(some), Z.y[some])
        out = np.empty((len(new.y), *standing.base.shape), dtype=standing.base.dtype)
        self._enter(new, standing, asked, out)
        return _shares(out)

    def _votes(self, found: _Neighbours, K: int, S: Sample, asked: Asked) -> _Votes:
        """The votes of the first K neighbours."""
        y, gaps = S.y[found.places[:, :K]], found.distances[:, :K]
        if not self.weighted:
            weights, zero = np.ones(gaps.shape), np.zeros(len(gaps), dtype=np.bool_)
        else:
            with np.errstate(divide="ignore", over="ignore"):
                weights = 1.0 / gaps
            zero = np.asarray(np.isinf(weights).any(axis=1))
            weights[zero] = np.isinf(weights[zero]).astype(np.float64)
        if asked.kind == "number":
            return _Votes(np.column_stack([(weights * y).sum(axis=1), weights.sum(axis=1)]), zero)
        sums = np.zeros((len(y), asked.n_classes))
        _count(y, weights, sums)
        return _Votes(sums, zero)

    def _enter(self, new: _Entering, standing: _Standing, asked: Asked, out: Array) -> None:
        """Fill `out` with the outputs for S + z, for each z of the block `new`."""
        if asked.kind == "label" and not self.weighted:
            _swap(new, standing, _with_one_more(standing.others.sums, out.dtype), out)
            return
        fill = {"number": _enter_numbers, "label": _enter_labels}.get(asked.kind, _enter_votes)
        fill(new, standing, self.weighted, out)


def _said(sums: Floats, asked: Asked) -> Array:
    """The outputs for these votes: means, the first of the best classes, or the votes themselves.

    `_shares` turns votes into probabilities later.
    """
    if asked.kind == "number":
        with np.errstate(invalid="ignore"):  # without neighbours the mean is NaN
            return np.asarray(sums[:, 0] / sums[:, 1])
    if asked.kind == "label":
        return as_labels(sums.argmax(axis=1), asked.n_classes)
    return sums


def _shares(block: Array) -> Array:
    """Votes (r, n, c) as shares of their sum; other outputs as they are.

    The division is not done in a kernel: there 3 / 5 may be rounded differently in different
    places, so that equal shares would no longer tie.
    """
    if block.ndim == 3:
        block /= block.sum(axis=2, keepdims=True)
    return block


def _with_one_more(sums: Floats, dtype: Any) -> Array:
    """(c, n) the class that wins at each test row if class c gets one more vote."""
    most, winner = sums.max(axis=1), sums.argmax(axis=1)
    raised, classes = sums + 1.0, np.arange(sums.shape[1])
    even = np.where(raised == most[:, np.newaxis], np.minimum(classes, winner[:, np.newaxis]), -1)
    found = np.where(even >= 0, even, winner[:, np.newaxis])
    found = np.where(raised > most[:, np.newaxis], classes, found)
    return np.ascontiguousarray(found.T, dtype=dtype)


@kernel
def _count(y: Array, weights: Floats, sums: Floats) -> None:
    for j in range(y.shape[0]):
        for q in range(y.shape[1]):
            sums[j, y[j, q]] += weights[j, q]


@kernel
def _swap(new: _Entering, standing: _Standing, entered: Array, out: Array) -> None:
    (table, rows, y), edge, base = new, standing.edge, standing.base
    for i in range(len(rows)):
        gaps, won, block = table[rows[i]], entered[y[i]], out[i]
        for j in range(len(edge)):
            block[j] = won[j] if gaps[j] < edge[j] else base[j]


@inlined
def _weight(gap: float, zero: bool, weighted: bool) -> tuple[float, float]:
    """The factor for the votes of the other neighbours, and the weight of z's vote."""
    if not weighted:
        return 1.0, 1.0
    weight = 1.0 / gap if gap > 0.0 else np.inf
    if weight == np.inf:
        return (1.0 if zero else 0.0), 1.0
    return 1.0, (0.0 if zero else weight)


@kernel
def _enter_labels(new: _Entering, standing: _Standing, weighted: bool, out: Array) -> None:
    (table, rows, y), (edge, base, (sums, zero)) = new, standing
    for i in range(len(rows)):
        for j in range(len(edge)):
            gap = table[rows[i], j]
            if not gap < edge[j]:
                out[i, j] = base[j]
                continue
            others, weight = _weight(gap, zero[j], weighted)
            best, most = 0, -1.0
            for c in range(sums.shape[1]):
                votes = others * sums[j, c] + (weight if c == y[i] else 0.0)
                if votes > most:
                    best, most = c, votes
            out[i, j] = best


@kernel
def _enter_votes(new: _Entering, standing: _Standing, weighted: bool, out: Array) -> None:
    (table, rows, y), (edge, base, (sums, zero)) = new, standing
    for i in range(len(rows)):
        for j in range(len(edge)):
            gap = table[rows[i], j]
            if not gap < edge[j]:
                out[i, j] = base[j]
                continue
            others, weight = _weight(gap, zero[j], weighted)
            for c in range(sums.shape[1]):
                out[i, j, c] = others * sums[j, c] + (weight if c == y[i] else 0.0)


@kernel
def _enter_numbers(new: _Entering, standing: _Standing, weighted: bool, out: Array) -> None:
    (table, rows, y), (edge, base, (sums, zero)) = new, standing
    for i in range(len(rows)):
        for j in range(len(edge)):
            gap = table[rows[i], j]
            if not gap < edge[j]:
                out[i, j] = base[j]
                continue
            others, weight = _weight(gap, zero[j], weighted)
            total = others * sums[j, 1] + weight
            out[i, j] = (others * sums[j, 0] + weight * y[i]) / total
