"""Out-of-bag evidence: what the models of a run say of the points that they were not trained on.

The model of S is trained in every draw. Asked about the points that are not in S, it gives the
probability of every label. Wrong labels are improbable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array

__all__ = ["UNKNOWN", "Evidence"]

UNKNOWN = -1
"""The code of a label that the database lacks."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """The answers of models, one row for each draw that was asked and one column for each point."""

    t: NDArray[np.int64]
    """The draws that were asked, ascending."""
    answers: NDArray[np.float32]
    """The probability of each of `labels`, along the last axis; for regression one number, y minus
    the prediction. NaN where the model was trained on the point.
    """
    labels: Array
    """The classes of the database, sorted; empty for regression."""
    codes: NDArray[np.int64]
    """The position in `labels` of each point's label, or `UNKNOWN`; empty for regression."""

    @staticmethod
    def none(n_points: int, labels: Array, codes: NDArray[np.int64]) -> Evidence:
        """No answers yet."""
        return Evidence(
            t=np.empty(0, np.int64),
            answers=np.empty((0, n_points, max(len(labels), 1)), np.float32),
            labels=labels,
            codes=codes,
        )

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def given(self) -> NDArray[np.float32]:
        """(draws, points) the probability of the label that the point has, 0 for an `UNKNOWN` one;
        for regression the residual.
        """
        if not len(self.labels):
            return self.answers[..., 0]
        own = self.answers[:, np.arange(len(self.codes)), self.codes.clip(min=0)]
        return np.where((self.codes == UNKNOWN) & ~np.isnan(own), np.float32(0), own)

    def of_draws(self, t: NDArray[np.int64]) -> Evidence:
        """The answers of these draws only."""
        return self.take(np.isin(self.t, t))

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Evidence:
        """Some of the answers."""
        return replace(self, t=self.t[rows], answers=self.answers[rows])

    def points(self, chosen: NDArray[np.bool_]) -> Evidence:
        """The answers about some of the points."""
        codes = self.codes[chosen] if len(self.codes) else self.codes
        return replace(self, answers=self.answers[:, chosen], codes=codes)
