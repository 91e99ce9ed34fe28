"""The record of a run: which sets were drawn, and the marginal of every point for each set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.evidence import Evidence
from dshapley.sampling.provenance import About
from dshapley.sampling.sizes import bands
from dshapley.sampling.test_influence import TestInfluence

__all__ = ["NO_FOLD", "ControlVariates", "Draws", "Folds"]


_CONTROL_VARIATES = ("reference", "nested", "label_controls")


@dataclass(frozen=True, eq=False)
class ControlVariates:
    """The columns of a record that control variates need: one row for each draw.

    `dshapley.inference.estimation` says how they lower the error of the values.
    """

    reference: Floats
    """The mean marginal of the reference sample, for the set S of the draw."""
    nested: Floats
    """U of nested sets of 0, 1, 3, 7, ..., m points, one column for each; NaN in most draws.

    The sizes of the nested sets are `dshapley.sizes.bands(m) - 1`. The difference of two
    neighbouring columns estimates the sum of the reference's mean marginals over one band of sizes.
    """
    label_controls: Floats
    """The `dshapley.sampling.controls.LabelControls` of S, one column for each."""


NO_FOLD = -1
"""The fold of a point that is not a row of the database: every draw values the point."""


@dataclass(frozen=True, eq=False)
class Folds:
    """The folds of a cross-fitted run: draw t tests on fold t mod n and values the other points."""

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
class Draws(NotebookDisplay):
    """The raw marginals of a run: row i holds U(S + z) - U(S) of draw t[i] for every point z.

    The record holds measurements only. Values, errors and ranks are computed from it.
    """

    t: NDArray[np.int64]
    k: NDArray[np.int64]
    marginals: NDArray[np.float32]
    weights: Floats
    """The probability of each size k = 1..m."""
    ids: Array
    """The name of each point valued, in the order of the columns of `marginals`."""
    rows: NDArray[np.int64]
    """The number of rows of each point: 1, or the size of a bundle."""
    about: About = field(default_factory=About)
    """What the run is and where it came from: the contents of the run folder's manifest."""
    seconds: Floats | None = None
    """The time that each draw took."""
    balanced: bool = False
    """Whether the set sizes are a balanced sequence (see `Design`)."""
    control_variates: ControlVariates | None = None
    """What control variates need; None where the run did not keep it."""
    folds: Folds | None = None
    """The folds of a cross-fitted run. A point's marginal is NaN in draws that test on its fold."""
    evidence: Evidence | None = None
    """What models say of the points that they were not trained on; None if they were not asked."""
    test_influence: TestInfluence | None = None
    """How far groups of test rows move the marginals; None if the run did not keep it."""

    @staticmethod
    def none(
        Z: Points | Bundles,
        *,
        weights: Floats,
        balanced: bool = False,
        n_label_controls: int | None = None,
        folds: Folds | None = None,
        asked: Evidence | None = None,
        about: About | None = None,
    ) -> Draws:
        """An empty record: no draws yet.

        `n_label_controls` is the number of columns of `ControlVariates.label_controls`; None for a
        record without control variates. `asked` is evidence without answers; None for a record
        without evidence.
        """
        empty = None
        if n_label_controls is not None:
            n_sets = len(bands(len(weights)))
            empty = ControlVariates(
                np.empty(0), np.empty((0, n_sets)), np.empty((0, n_label_controls))
            )
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
            control_variates=empty,
            folds=folds,
            evidence=asked,
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
        """The record of some of the points only, as if the other points had not been valued."""
        return replace(
            self,
            marginals=self.marginals[:, chosen],
            ids=self.ids[chosen],
            rows=self.rows[chosen],
            folds=None if self.folds is None else self.folds.points(chosen),
            evidence=None if self.evidence is None else self.evidence.points(chosen),
            test_influence=None
            if self.test_influence is None
            else self.test_influence.points(chosen),
        )

    def parts(self) -> list[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
        """The points grouped by the draws that valued them: (columns, draws) for each group.

        There is one group, except in a cross-fitted run, where there is one for each fold.
        """
        everyone = np.arange(self.marginals.shape[1])
        if self.folds is None:
            return [(everyone, np.ones(len(self), dtype=bool))]
        tested = self.folds.of_draws(self.t)
        return [
            (np.flatnonzero(self.folds.of == fold), tested != fold)
            for fold in np.unique(self.folds.of).tolist()
        ]

    @property
    def judges_labels(self) -> bool:
        """Whether models were asked about the labels of classes."""
        return self.evidence is not None and len(self.evidence.labels) > 0

    @property
    def all_valued(self) -> bool:
        """Whether every point was valued by at least one draw."""
        return all(bool(chosen.any()) for _, chosen in self.parts())

    def columns(self) -> dict[str, Array]:
        """The arrays of the record by name; each has one row for each draw."""
        columns: dict[str, Array] = {"t": self.t, "k": self.k, "marginals": self.marginals}
        if self.seconds is not None:
            columns["seconds"] = self.seconds
        if self.control_variates is not None:
            columns |= {name: getattr(self.control_variates, name) for name in _CONTROL_VARIATES}
        return columns

    def of(self, columns: Mapping[str, Array]) -> Draws:
        """The record of the same run with these columns, and with the evidence of their draws."""
        evidence = None if self.evidence is None else self.evidence.of_draws(columns["t"])
        of_test = self.test_influence
        if of_test is not None:
            of_test = of_test.of_draws(columns["t"])
        plain: dict[str, Any] = {
            n: part for n, part in columns.items() if n not in _CONTROL_VARIATES
        }
        if self.control_variates is None:
            return replace(self, **plain, evidence=evidence, test_influence=of_test)
        return replace(
            self,
            **plain,
            evidence=evidence,
            test_influence=of_test,
            control_variates=ControlVariates(*(columns[name] for name in _CONTROL_VARIATES)),
        )
