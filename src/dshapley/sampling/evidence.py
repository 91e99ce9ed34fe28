"""Out-of-bag evidence: what the models of a run say of the points that they were not trained on.

The model of S is trained in every draw. Asked about the points that are not in S, it gives the
probability of the label that each point has. Wrong labels are improbable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array

__all__ = ["Evidence"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """The answers of models, one row for each draw that was asked and one column for each point."""

    t: NDArray[np.int64]
    """The draws that were asked, ascending."""
    given: NDArray[np.float32]
    """The probability of the label that the point has; for regression y minus the prediction. NaN
    where the model was trained on the point.
    """
    guess: NDArray[np.int16]
    """The position in `labels` of the most probable label; -1 where the model was trained on the
    point, and for regression.
    """
    labels: Array
    """The classes of the database, sorted; empty for regression."""

    @staticmethod
    def none(n_points: int, labels: Array) -> Evidence:
        """No answers yet."""
        return Evidence(
            t=np.empty(0, np.int64),
            given=np.empty((0, n_points), np.float32),
            guess=np.empty((0, n_points), np.int16),
            labels=labels,
        )

    def __len__(self) -> int:
        return len(self.t)

    def of_draws(self, t: NDArray[np.int64]) -> Evidence:
        """The answers of these draws only."""
        return self.take(np.isin(self.t, t))

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Evidence:
        """Some of the answers."""
        return Evidence(
            t=self.t[rows], given=self.given[rows], guess=self.guess[rows], labels=self.labels
        )

    def points(self, chosen: NDArray[np.bool_]) -> Evidence:
        """The answers about some of the points."""
        return Evidence(
            t=self.t, given=self.given[:, chosen], guess=self.guess[:, chosen], labels=self.labels
        )
