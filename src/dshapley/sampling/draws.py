"""The record of a run: which sets were drawn, and what every point added to each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.sampling.provenance import About
from dshapley.sampling.sizes import bands

__all__ = ["NO_FOLD", "Anchor", "Draws", "Folds"]


_ANCHOR = ("reference", "chain", "controls")


@dataclass(frozen=True, eq=False)
class Anchor:
    """What the efficiency anchor needs of each draw."""

    reference: Floats
    """The mean marginal of points drawn from the database, for the same S."""
    chain: Floats
    """In some draws U of nested sets of 0, 1, 3, 7, ..., m points, else NaN: a column a set.

    The sizes are `dshapley.sizes.bands(m) - 1`: where a band of sizes begins.
    """
    controls: Floats
    """What S's labels say in advance: a column each of `dshapley.sampling.controls.Controls`."""


NO_FOLD = -1
"""For a point that is not a row of the database: every draw values it."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Of a cross-fitted run: draw t tests on fold t mod n, and values the points outside of it."""

    n: int
    of: NDArray[np.int64]
    """The fold of each point, or `NO_FOLD`."""

    def of_draws(self, t: NDArray[np.int64]) -> NDArray[np.int64]:
        """The fold that each of these draws tests on."""
        return t % self.n

    def valued(self, t: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which draws (rows) value which points (columns)."""
        return self.of_draws(t)[:, np.newaxis] != self.of

    def points(self, chosen: NDArray[np.bool_]) -> Folds:
        """The folds of some of the points."""
        return Folds(self.n, self.of[chosen])


@dataclass(frozen=True, eq=False, kw_only=True)
class Draws:
    """The raw marginals of a run: row i holds U(S + z) - U(S) of draw t[i] for every z.

    Nothing in it is derived; `estimate` and all else are functions of it.
    """

    t: NDArray[np.int64]
    k: NDArray[np.int64]
    marginals: NDArray[np.float32]
    weights: Floats
    """The probability of each size k = 1..m."""
    ids: Array
    """The name of each point valued: of each column of `marginals`."""
    rows: NDArray[np.int64]
    """How many rows each point has: 1, or the size of a bundle."""
    about: About = field(default_factory=About)
    """What the run is and where it came from, as kept in a run folder's manifest."""
    seconds: Floats | None = None
    """How long each draw took."""
    balanced: bool = False
    """Whether the sizes are a balanced sequence."""
    anchor: Anchor | None = None
    folds: Folds | None = None
    """Of a cross-fitted run, which draw valued which points; the other marginals are NaN."""

    @staticmethod
    def none(
        Z: Points | Bundles,
        *,
        weights: Floats,
        balanced: bool = False,
        controls: int | None = None,
        folds: Folds | None = None,
        about: About | None = None,
    ) -> Draws:
        """The record of a run that is yet to begin; with so many `controls` it has an anchor."""
        empty = None
        if controls is not None:
            n_sets = len(bands(len(weights)))
            empty = Anchor(np.empty(0), np.empty((0, n_sets)), np.empty((0, controls)))
        return Draws(
            t=np.empty(0, np.int64),
            k=np.empty(0, np.int64),
            marginals=np.empty((0, len(Z)), np.float32),
            weights=weights,
            ids=np.asarray(Z.ids),
            rows=Z.sizes if isinstance(Z, Bundles) else np.ones(len(Z), dtype=np.int64),
            about=about or About(),
            seconds=np.empty(0),
            balanced=balanced,
            anchor=empty,
            folds=folds,
        )

    @property
    def m(self) -> int:
        """The largest size k."""
        return len(self.weights)

    def __len__(self) -> int:
        return len(self.t)

    def first(self, n: int) -> Draws:
        """The first n draws, as a view."""
        return self.take(slice(n))

    def take(self, where: slice | NDArray[np.bool_]) -> Draws:
        """Some of the draws."""
        return self.of({name: column[where] for name, column in self.columns().items()})

    def points(self, chosen: NDArray[np.bool_]) -> Draws:
        """The record of some of the points only: as if the others had not been valued."""
        return replace(
            self,
            marginals=self.marginals[:, chosen],
            ids=self.ids[chosen],
            rows=self.rows[chosen],
            folds=None if self.folds is None else self.folds.points(chosen),
        )

    def parts(self) -> list[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
        """Points that were valued in the same draws, and these: one part but for cross-fitting."""
        everyone = np.arange(self.marginals.shape[1])
        if self.folds is None:
            return [(everyone, np.ones(len(self), dtype=bool))]
        tested = self.folds.of_draws(self.t)
        return [
            (np.flatnonzero(self.folds.of == fold), tested != fold)
            for fold in np.unique(self.folds.of).tolist()
        ]

    @property
    def all_valued(self) -> bool:
        """Whether there are draws, and each point was valued by one."""
        return all(bool(chosen.any()) for _, chosen in self.parts())

    def columns(self) -> dict[str, Array]:
        """What there is of each draw, by name: a row a draw."""
        columns: dict[str, Array] = {"t": self.t, "k": self.k, "marginals": self.marginals}
        if self.seconds is not None:
            columns["seconds"] = self.seconds
        if self.anchor is not None:
            columns |= {name: getattr(self.anchor, name) for name in _ANCHOR}
        return columns

    def of(self, columns: Mapping[str, Array]) -> Draws:
        """The record of the same run with these columns."""
        plain: dict[str, Any] = {n: part for n, part in columns.items() if n not in _ANCHOR}
        if self.anchor is None:
            return replace(self, **plain)
        return replace(self, **plain, anchor=Anchor(*(columns[name] for name in _ANCHOR)))
