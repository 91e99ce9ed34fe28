"""What is asked of a learner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points, Table
from dshapley.metrics import Metric, Output

__all__ = ["Learner", "Query"]


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of each trained model: its score, by one metric, on a test set."""

    test: Points
    metric: Metric
    classes: Array | None
    """The test set's classes, sorted; None for regression."""

    @property
    def X(self) -> Table:
        """The rows of the test set."""
        return self.test.X

    @property
    def y(self) -> Array:
        """Their labels."""
        assert self.test.y is not None
        return self.test.y

    @property
    def output(self) -> Output:
        """The kind of output that the metric wants."""
        return self.metric.output

    def score(self, outputs: Array) -> Floats:
        """One score for each row of outputs, of the kind that the metric wants."""
        return self.metric.score(self.targets, outputs)

    @cached_property
    def numbers(self) -> Floats:
        """X as numbers, for learners that compute with it."""
        return np.ascontiguousarray(self.X, dtype=np.float64)

    def codes(self, labels: Array) -> Array:
        """The position of each label in `classes`, -1 where it is not there."""
        assert self.classes is not None
        where = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        return np.where(self.classes[where] == labels, where, -1)

    @cached_property
    def targets(self) -> Array:
        """The y that the metric compares with: codes, or as given for plain predictions."""
        return self.y if self.output == "prediction" else self.codes(self.y)

    def spread(self, labels: Array, columns: Array, *, fill: float) -> Array:
        """`columns` (..., len(labels)) moved to the places of their labels, `fill` elsewhere.

        Labels that the test set lacks get columns of their own behind its classes.
        """
        assert self.classes is not None
        codes = self.codes(labels)
        unknown = codes < 0
        codes[unknown] = len(self.classes) + np.arange(unknown.sum())
        wide = np.full((*columns.shape[:-1], len(self.classes) + unknown.sum()), fill)
        wide[..., codes] = columns
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

    def scores(self, S: Points, Z: Points | Bundles, query: Query, seed: int) -> Floats:
        """The score trained on S, then the one trained on S + z for each z.

        Trained on nothing, a learner's outputs are `query.constant(query.y)`; on one class,
        `query.constant(S.y)`. `query.score` makes scores of outputs. Equal (S, z, seed) give
        equal scores.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What identifies the learner, readable, for a run's manifest."""
        ...

    def work(self, k: Floats) -> Floats:
        """About how much work a marginal of size k takes, for each k, in any unit.

        Counted, not timed, so that the same call draws the same sizes on every machine.
        """
        ...

    def accepts_nan(self) -> bool:
        """Whether missing values may stay in X."""
        ...
