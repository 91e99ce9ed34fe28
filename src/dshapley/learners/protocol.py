"""What is asked of a learner, and which learner answers for an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

import numpy as np

from dshapley.metrics import Output
from dshapley.points import Array, Bundles, Floats, Points, Table

__all__ = ["Learner", "Query", "learner"]


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of each trained model: an output of one kind for the rows of a test set."""

    X: Table
    y: Array
    output: Output
    classes: Array | None
    """The test set's classes, sorted; None for regression."""

    def codes(self, labels: Array) -> Array:
        """The position of each label in `classes`, -1 where it is not there."""
        assert self.classes is not None
        where = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        return np.where(self.classes[where] == labels, where, -1)

    def targets(self) -> Array:
        """The y that the metric compares with: codes, or as given for plain predictions."""
        return self.y if self.output == "prediction" else self.codes(self.y)

    def spread(self, labels: Array, columns: Array, *, fill: float) -> Array:
        """`columns` (n, len(labels)) moved to the places of their labels, `fill` elsewhere.

        Labels that the test set lacks get columns of their own behind its classes.
        """
        assert self.classes is not None
        codes = self.codes(labels)
        unknown = codes < 0
        codes[unknown] = len(self.classes) + np.arange(unknown.sum())
        wide = np.full((len(columns), len(self.classes) + unknown.sum()), fill)
        wide[:, codes] = columns
        return wide

    def constant(self, y: Array) -> Array:
        """One row of outputs: those of the predictor that says the same of every row.

        The most frequent label (the first of equals), the class frequencies, the mean.
        """
        n = len(self.y)
        if self.classes is None:
            return np.full((1, n), np.mean(y))
        labels, counts = np.unique(y, return_counts=True)
        majority = labels[[counts.argmax()]]
        if self.output == "prediction":
            return np.repeat(majority, n)[np.newaxis]
        if self.output == "label":
            return np.repeat(self.codes(majority), n)[np.newaxis]
        frequencies: Floats = np.tile(counts / counts.sum(), (n, 1))
        return self.spread(labels, frequencies, fill=0.0)[np.newaxis]


class Learner(Protocol):
    """A learning algorithm, as the potential sees it."""

    def outputs(self, S: Points, Z: Points | Bundles, query: Query, seed: int) -> Iterator[Array]:
        """Blocks of rows: the outputs trained on S, then those trained on S + z for each z.

        Trained on nothing, a learner answers `query.constant(query.y)`; on one class,
        `query.constant(S.y)`. Equal (S, z, seed) give equal rows.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What identifies the learner, readable, for a run's manifest."""
        ...

    def accepts_nan(self) -> bool:
        """Whether missing values may stay in X."""
        ...


@singledispatch
def learner(estimator: Any) -> Learner:
    """The learner that answers for `estimator`: refitting, unless its type is registered."""
    from dshapley.learners.refit import Refit

    return Refit(estimator)
