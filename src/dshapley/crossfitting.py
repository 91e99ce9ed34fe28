"""Cross-fitting: every row of the database is valued, on test rows that it is not among.

Draw t tests models on rows of fold t mod n, trains them on rows of the other folds, and values the
rows of these. A row's value is the mean over the folds that it is not in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.draws import NO_FOLD, Folds
from dshapley.errors import InputError
from dshapley.folds import N_FOLDS, in_folds
from dshapley.points import Array, Bundles, Points
from dshapley.potentials import ModelPotential

__all__ = ["MOST_TESTED", "CrossFitted", "cross_fitted"]

MOST_TESTED = 1000
"""Of the rows of a fold that models are tested on: more take time and tell little."""


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """U on the test rows of each fold in turn. Made by `cross_fitted`; for `dshapley.run`."""

    U: ModelPotential
    """With all of the database as its test set."""
    database: Points
    rows: NDArray[np.int64]
    """The fold of each row of the database."""
    tested: tuple[NDArray[np.intp], ...]
    """Of each fold the places of its test rows in the database."""
    folds: Folds
    """Of the points valued."""

    def on(self, fold: int) -> ModelPotential:
        """U on the test rows of this fold."""
        found = self._parts.get(fold)
        if found is None:
            test = self.database.take(self.tested[fold])
            test.__dict__["key"] = self.keys[fold]
            found = self._parts[fold] = replace(self.U, test=test)
        return found

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """What each fold's test rows are known by."""
        return tuple(self.database.take(places).key for places in self.tested)

    @cached_property
    def _parts(self) -> dict[int, ModelPotential]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # A worker makes test sets of the database, which it has: they need not travel.
        return {**self.__dict__, "keys": self.keys, "_parts": {}}

    def outside(self, Z: Points | Bundles, fold: int) -> tuple[NDArray[np.bool_], Points | Bundles]:
        """Which points a draw of this fold values, and these."""
        chosen = self.folds.of != fold
        if not isinstance(Z, Bundles):
            return chosen, Z.take(chosen)
        rows = np.isin(Z.groups, Z.ids[chosen])
        return chosen, Bundles(Z.points.take(rows), Z.groups[rows])

    def check(self, points: Points, *, name: str) -> None:
        """As U does."""
        self.U.check(points, name=name)

    def warm_up(self, database: Points, Z: Points | Bundles) -> None:
        """As U does, on the first fold."""
        self.on(0).warm_up(database, Z)

    def describe(self) -> dict[str, Any]:
        """As U does; the test set is that of all folds, and U(empty) their mean."""
        digest = hashlib.blake2b(digest_size=12)
        for part in (*map(str.encode, self.keys), self.rows.tobytes(), self.folds.of.tobytes()):
            digest.update(part)
        n_rows = sum(map(len, self.tested))
        return {
            **self.on(0).describe(),
            "test": f"{self.folds.n} folds {digest.hexdigest()} ({n_rows} rows)",
            "empty": float(np.mean([self.on(f).empty_value() for f in range(self.folds.n)])),
        }


def cross_fitted(
    U: ModelPotential,
    Z: Points | Bundles,
    *,
    most: int = MOST_TESTED,
    n_folds: int = N_FOLDS,
    seed: int = 0,
) -> CrossFitted:
    """U on test rows of folds of its test set, which here is the database, to value Z.

    Rows are put into folds by `in_folds`. A point of Z that is a row of the database is in the fold
    of that row, and so is one that is equal to such a row; others are in none. The rows of a bundle
    are kept in one fold.

    Parameters
    ----------
    U
        A potential whose test set is the database: `potential(model, test=database)`.
    Z
        The points or bundles that will be valued.
    most
        Of a fold at most so many rows are tested on, chosen at random.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from dshapley.potentials import potential
    >>> database = Points(np.arange(20.0)[:, np.newaxis], ["a", "b"] * 10)
    >>> cross = cross_fitted(potential(GaussianNB(), test=database), database)
    >>> np.bincount(cross.folds.of).tolist(), [len(cross.on(f).test) for f in range(5)]
    ([4, 4, 4, 4, 4], [4, 4, 4, 4, 4])
    """
    database = U.test
    places = _places(Z.points if isinstance(Z, Bundles) else Z, database)
    rows = in_folds(database, _bundles(Z, places, len(database)), n_folds=n_folds, seed=seed)
    n = int(rows.max()) + 1
    of_rows = np.where(places < 0, NO_FOLD, rows[places])
    of = of_rows if isinstance(Z, Points) else _of_bundles(of_rows, Z)
    rng = np.random.default_rng([seed, n])
    tested = []
    for fold in range(n):
        here = np.flatnonzero(rows == fold)
        some = np.sort(rng.permutation(here)[:most])
        try:
            U.check_test(database.take(some), of=database)
        except InputError as error:
            raise InputError(
                f"cross-fitting: fold {fold + 1} of {n}, {len(some)} rows: {error}; bring test "
                "rows of your own (test=, --test)"
            ) from None
        tested.append(some)
    return CrossFitted(U, database, rows, tuple(tested), Folds(n, of))


def _places(points: Points, database: Points) -> NDArray[np.intp]:
    """Where each point is in the database, or an equal row; -1 for none."""
    if points.key == database.key:
        return np.arange(len(points))
    if points.source is not None and points.source[0].key == database.key:
        return np.asarray(points.source[1])
    ours, theirs = _digests(database), _digests(points)
    known, first = np.unique(ours, return_index=True)
    found = np.minimum(np.searchsorted(known, theirs), len(known) - 1)
    return np.where(known[found] == theirs, first[found], -1)


def _digests(points: Points) -> NDArray[np.uint64]:
    """A number for each row, the same for equal rows of whatever types."""
    import pandas as pd

    frame = pd.DataFrame(points.X)
    columns: dict[int, Any] = {}
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        is_number = column.dtype.kind in "biuf"
        columns[j] = column.astype(float if is_number else str).to_numpy()
    y = np.zeros(len(points)) if points.y is None else points.y
    columns[-1] = y.astype(float if y.dtype.kind in "biuf" else str).astype(object)
    found = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False)
    return np.asarray(found, dtype=np.uint64)


def _bundles(Z: Points | Bundles, places: NDArray[np.intp], n: int) -> Array | None:
    """For each row of the database the bundle it is in, a number; None where there are none."""
    if not isinstance(Z, Bundles):
        return None
    number = np.unique(Z.groups, return_inverse=True)[1]
    inside = places >= 0
    found = len(Z) + np.arange(n)
    found[places[inside]] = number[inside]
    return np.asarray(found)


def _of_bundles(of_rows: NDArray[np.int64], Z: Bundles) -> NDArray[np.int64]:
    """The fold of each bundle: that of its rows, which is one."""
    return np.array([of_rows[places].max() for places in Z.members()], dtype=np.int64)
