"""Cross-fitting: value every row of the database without separate test rows.

Draw t trains models on rows outside fold t mod n, tests them on rows of that fold, and values the
rows outside it. A row's value is the mean over the folds that the row is not in, so a row is never
tested on itself. A large fold is split into parts, and each draw tests on one part.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.folds import N_FOLDS, in_folds
from dshapley.data.points import Bundles, Points, row_digests
from dshapley.errors import InputError
from dshapley.potentials import ModelPotential
from dshapley.sampling.draws import NO_FOLD, Folds

__all__ = ["MOST_TESTED", "CrossFitted", "cross_fitted", "equal_rows", "places_of"]

MOST_TESTED = 1000
"""The most rows that one draw tests on, which bounds the time of a draw. Larger folds are tested on
in parts that take turns.
"""


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """U with the test rows of each fold in turn: made by `cross_fitted`, used by `dshapley.run`."""

    U: ModelPotential
    """The potential with the whole database as its test set."""
    database: Points
    _: KW_ONLY
    rows: NDArray[np.int64]
    """The fold of each row of the database."""
    parts: tuple[tuple[NDArray[np.intp], ...], ...]
    """The parts of each fold: the positions in the database of the rows that are tested on
    together.
    """
    folds: Folds
    """The folds of the points valued."""

    def on(self, t: int, *, test: Points | None = None) -> ModelPotential:
        """U on the test rows of draw t; `test` are these rows, if they are at hand."""
        fold, turn = t % self.folds.n, t // self.folds.n
        part = turn % len(self.parts[fold])
        found = self._made.get((fold, part))
        if found is None:
            if test is None:
                test = self.database.take(self.parts[fold][part])
                test.__dict__["key"] = self.keys[fold][part]
            found = self._made[fold, part] = replace(self.U, test=test)
        return found

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The key of the test rows of each part of each fold."""
        return tuple(
            tuple(self.database.take(places).key for places in parts) for parts in self.parts
        )

    @cached_property
    def _made(self) -> dict[tuple[int, int], ModelPotential]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # The test sets are not sent: each worker makes them from its copy of the database.
        return {**self.__dict__, "keys": self.keys, "_made": {}}

    def outside(self, Z: Points | Bundles, fold: int) -> tuple[NDArray[np.bool_], Points | Bundles]:
        """Which points a draw of this fold values, as a mask, and these points."""
        chosen = self.folds.of != fold
        if not isinstance(Z, Bundles):
            return chosen, Z.take(chosen)
        rows = np.isin(Z.groups, Z.ids[chosen])
        return chosen, Bundles(Z.points.take(rows), Z.groups[rows])

    def valuing(self, of: NDArray[np.int64]) -> CrossFitted:
        """The same folds for other points: `of` has the fold of each, or `NO_FOLD`."""
        return replace(self, folds=Folds(self.folds.n, of))

    def check(self, points: Points, *, name: str) -> None:
        """Check the points as U does."""
        self.U.check(points, name=name)

    def warm_up(self, database: Points, Z: Points | Bundles) -> None:
        """Warm U up for the first draw."""
        self.on(0).warm_up(database, Z)

    def describe(self) -> dict[str, Any]:
        """U's description, with a test set that covers all folds.

        U(empty) is the mean over the first part of each fold.
        """
        digest = hashlib.blake2b(digest_size=12)
        keys = (key.encode() for keys in self.keys for key in keys)
        for part in (*keys, self.rows.tobytes(), self.folds.of.tobytes()):
            digest.update(part)
        parts = [places for parts in self.parts for places in parts]
        n_rows = sum(map(len, parts))
        empty = [self.on(f).empty_value() for f in range(self.folds.n)]
        return {
            **self.on(0).describe(),
            "test": f"{self.folds.n} folds {digest.hexdigest()} ({n_rows} rows)",
            "empty": float(np.mean(empty)),
        }


def cross_fitted(
    U: ModelPotential,
    Z: Points | Bundles,
    *,
    most: int = MOST_TESTED,
    n_folds: int = N_FOLDS,
    seed: int = 0,
) -> CrossFitted:
    """The potential U, cross-fitted to value Z: U's test set is the database, split into folds.

    `in_folds` puts the rows into folds. The rows of a bundle stay in one fold, and so do equal
    rows, unless there are too many of them (`equal_rows`). A point of Z that is a row of the
    database, or equal to one, is in that row's fold. Other points are in no fold.

    Parameters
    ----------
    U
        A potential whose test set is the database: `potential(model, test=database)`.
    Z
        The points or bundles that will be valued.
    most
        The most rows that one draw tests on; larger folds are split into parts.
    n_folds, seed
        The number of folds, and the random seed that deals the rows into them.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from dshapley.potentials import potential
    >>> database = Points(np.arange(20.0)[:, np.newaxis], ["a", "b"] * 10)
    >>> cross = cross_fitted(potential(GaussianNB(), test=database), database)
    >>> np.bincount(cross.folds.of).tolist(), [len(cross.on(t).test) for t in range(5)]
    ([4, 4, 4, 4, 4], [4, 4, 4, 4, 4])
    """
    database = U.test
    places = places_of(Z.points if isinstance(Z, Bundles) else Z, database)
    units = _units(Z, places, equal_rows(database, n_folds))
    rows = in_folds(database, units, n_folds=n_folds, seed=seed)
    n = int(rows.max()) + 1
    of_rows = np.where(places < 0, NO_FOLD, rows[places])
    of = of_rows if isinstance(Z, Points) else _of_bundles(of_rows, Z)
    rng = np.random.default_rng([seed, n])
    parts = []
    for fold in range(n):
        here = np.flatnonzero(rows == fold)
        parts.append(_parts(database, here, math.ceil(len(here) / most), rng))
        for part in parts[-1]:
            try:
                U.check_test(database.take(part), of=database)
            except InputError as error:
                raise InputError(
                    f"cross-fitting: fold {fold + 1} of {n}, {len(part)} rows: {error}; give "
                    "separate test rows (test=, --test)"
                ) from None
    return CrossFitted(U, database, rows=rows, parts=tuple(parts), folds=Folds(n, of))


def _parts(
    database: Points, rows: NDArray[np.intp], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], ...]:
    """The rows dealt into n parts at random, with each label spread evenly over the parts."""
    order = rng.permutation(rows)
    if database.y is not None:
        label = np.unique(database.y, return_inverse=True)[1]
        order = order[np.argsort(label[order], kind="stable")]
    return tuple(np.sort(order[part::n]) for part in range(n))


def places_of(points: Points, database: Points) -> NDArray[np.intp]:
    """The position of each point in the database, or of an equal row; -1 if there is neither."""
    if points.key == database.key:
        return np.arange(len(points))
    if points.source is not None and points.source[0].key == database.key:
        return np.asarray(points.source[1])
    ours, theirs = row_digests(database), row_digests(points)
    known, first = np.unique(ours, return_index=True)
    found = np.minimum(np.searchsorted(known, theirs), len(known) - 1)
    return np.where(known[found] == theirs, first[found], -1)


_MOST_ALIKE = 4
"""If a row has more copies than this on average, the data are discrete, and equal rows are not
copies of each other.
"""


def equal_rows(database: Points, n_folds: int) -> NDArray[np.intp]:
    """A number for each row, the same for equal rows that must be in the same fold.

    A model that was trained on a copy of a test row would answer that row from memory, so copies
    stay together. In a table with few distinct rows, however, equal rows are part of the
    distribution, and folds without some of them would not represent it. There each row is on its
    own.
    """
    _, number, counts = np.unique(row_digests(database), return_inverse=True, return_counts=True)
    if len(counts) * _MOST_ALIKE < len(database):
        return np.arange(len(database))
    # A row that fills much of a fold cannot stay together, such as a blank one; others can.
    alone = (counts * 2 * n_folds > len(database))[number]
    number[alone] = len(counts) + np.arange(int(alone.sum()))
    return np.unique(number, return_inverse=True)[1]


def _units(
    Z: Points | Bundles, places: NDArray[np.intp], equal: NDArray[np.intp]
) -> NDArray[np.intp]:
    """A number for each row of the database, the same for rows that must be in one fold.

    These are equal rows, the rows of a bundle, and the rows of bundles that share a row.
    """
    if not isinstance(Z, Bundles):
        return equal
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    bundle = np.unique(Z.groups, return_inverse=True)[1]
    inside = places >= 0
    n = int(equal.max()) + 1
    ends = equal[places[inside]], n + bundle[inside]
    links = coo_array((np.ones(len(ends[0])), ends), shape=(n + len(Z), n + len(Z)))
    return np.asarray(connected_components(links, directed=False)[1][equal])


def _of_bundles(of_rows: NDArray[np.int64], Z: Bundles) -> NDArray[np.int64]:
    """The fold of each bundle, which is the fold of all its rows."""
    return np.array([of_rows[places].max() for places in Z.members()], dtype=np.int64)
