"""Which models are asked for out-of-bag evidence, about which points, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.sampling.crossfitting import equal_rows, places_of
from dshapley.sampling.evidence import UNKNOWN, Evidence

__all__ = ["Witness"]

_LEAST_SHARE = 0.25
"""Only sets of at least this share of m - 1 rows give evidence: models of few rows know little."""
_ENOUGH = 150
"""About this many models are asked. More would hardly change their mean."""
_N_FOLDS = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Witness:
    """Which draws are asked, about which points, and what their answers are compared with."""

    points: Points
    labels: Array
    codes: NDArray[np.int64]
    """See `Evidence.codes`."""
    of_database: NDArray[np.intp]
    """A number for each row of the database, the same for copies of a row."""
    of_points: NDArray[np.intp]
    """The number of each point's row; -1 if it is no row of the database."""
    least: int
    """The fewest rows of a set that is asked."""
    before: int
    """Draws from this one on are not asked."""

    @staticmethod
    def of(
        database: Points, points: Points, weights: Floats, *, classification: bool
    ) -> Witness | None:
        """The witness of a run; None if its points have no labels."""
        if database.y is None or points.y is None or len(points) == 0:
            return None
        labels = np.unique(database.y) if classification else np.empty(0)
        codes = np.empty(0, np.int64)
        if len(labels):
            codes = np.searchsorted(labels, points.y).clip(max=len(labels) - 1)
            codes = np.where(labels[codes] == points.y, codes, UNKNOWN)
        # By features alone: a model that was trained on (x, a) has seen x, whatever its label now.
        features = Points(database.X)
        equal, places = equal_rows(features, _N_FOLDS), places_of(Points(points.X), features)
        least = max(1, int(np.ceil(_LEAST_SHARE * (len(weights) - 1))))
        often = float(weights[least:].sum())
        return Witness(
            points=points,
            labels=labels,
            codes=codes,
            of_database=equal,
            of_points=np.where(places < 0, -1, equal[places]),
            least=least,
            before=int(np.ceil(_ENOUGH / often)) if often > 0 else 0,
        )

    def nothing(self) -> Evidence:
        """The evidence of no draws."""
        return Evidence.none(len(self.points), self.labels, self.codes)

    def asks(self, t: int, size: int) -> bool:
        """Whether draw t, with a set of this size, is asked."""
        return t < self.before and size >= self.least

    def unseen(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which points are neither among these rows of the database, nor copies of one."""
        return ~np.isin(self.of_points, self.of_database[rows])

    def answer(self, outputs: Floats, unseen: NDArray[np.bool_]) -> NDArray[np.float32]:
        """A row of `Evidence.answers`, from what a model says of all points.

        `outputs` has a probability for each label of `labels`, or for regression a prediction.
        """
        assert self.points.y is not None
        if not len(self.labels):
            outputs = (self.points.y - outputs)[:, np.newaxis]
        found = outputs.astype(np.float32)
        found[~unseen] = np.nan
        return found
