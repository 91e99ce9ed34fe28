"""The interface between a potential and a learner: `Query` and `Learner`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points, Table
from dshapley.metrics import Metric, Output

__all__ = ["Learner", "Query", "scores_by_each"]


@dataclass(frozen=True, eq=False)
class Query:
    """The question to each trained model: its score, by one metric, on one test set."""

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
        """The labels of the test rows."""
        assert self.test.y is not None
        return self.test.y

    @property
    def output(self) -> Output:
        """The kind of output that the metric needs."""
        return self.metric.output

    def score(self, outputs: Array) -> Floats:
        """One score for each row of `outputs`, which must be of the kind `self.output`."""
        return self.metric.score(self.targets, outputs)

    @cached_property
    def numbers(self) -> Floats:
        """X as a contiguous array of float64."""
        return np.ascontiguousarray(self.X, dtype=np.float64)

    def codes(self, labels: Array) -> Array:
        """The position of each label in `classes`; -1 for a label that the test set lacks."""
        assert self.classes is not None
        where = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        return np.where(self.classes[where] == labels, where, -1)

    @cached_property
    def targets(self) -> Array:
        """What the metric compares with: y itself for predictions, else the class codes."""
        return self.y if self.output == "prediction" else self.codes(self.y)

    def spread(self, labels: Array, columns: Array, *, fill: float) -> Array:
        """Move the columns of `columns` (..., len(labels)) to the positions of their labels.

        All other entries are `fill`. Labels that the test set lacks get columns after its classes.
        """
        assert self.classes is not None
        codes = self.codes(labels)
        unknown = codes < 0
        codes[unknown] = len(self.classes) + np.arange(unknown.sum())
        wide = np.full((*columns.shape[:-1], len(self.classes) + unknown.sum()), fill)
        wide[..., codes] = columns
        return wide

    def constant(self, y: Array) -> Array:
        """One row of outputs of the constant predictor, which gives every test row the same output.

        The output is the mean of y for regression. For classification it is the most frequent label
        (the first in sorted order if there is a tie) or the class frequencies.
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
    """A learning algorithm, as the potential sees it.

    A method `scores_by_each(S, Z, queries, seed)` is optional (see the function of that name).
    """

    def scores(self, S: Points, Z: Points | Bundles, query: Query, seed: int) -> Floats:
        """The score of the model trained on S, then that of the model trained on S + z for each z.

        A learner without training rows must output `query.constant(query.y)`; a learner whose
        training rows have one class, `query.constant(S.y)`. `query.score` turns outputs into
        scores. Equal (S, z, seed) must give equal scores.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What identifies the learner, in readable form, for the manifest of a run."""
        ...

    def work(self, k: Floats) -> Floats:
        """The approximate work of a marginal of set size k, for each k, in any unit.

        The work is counted, not timed, so that one call draws the same sizes on every machine.
        """
        ...

    def accepts_nan(self) -> bool:
        """Whether X may contain missing values."""
        ...


def scores_by_each(
    learner: Learner, S: Points, Z: Points | Bundles, queries: Sequence[Query], seed: int
) -> Floats:
    """(1 + |Z|, q) what `learner.scores` returns for each of q queries of one test set.

    A learner that can train its models once for all queries has a method of this name. Each column
    must equal, bit for bit, what `scores` returns for its query. Other learners are asked q times.
    """
    if len(queries) > 1 and hasattr(learner, "scores_by_each"):
        found: Floats = learner.scores_by_each(S, Z, queries, seed)
        return found
    return np.column_stack([learner.scores(S, Z, query, seed) for query in queries])
