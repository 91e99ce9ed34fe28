"""The error that comes from the test rows: a delete-group jackknife.

The test rows are put into random groups. The same draws are scored on all test rows and again
without each group, and the spread of the resulting values gives the error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.inference.sampled import estimate
from dshapley.metrics import Metric
from dshapley.potentials import ModelPotential, Potential
from dshapley.sampling.draws import Draws

__all__ = ["Grouped", "influence_of_test", "parted", "widened", "width_of"]

_FEWEST = 4
"""The fewest groups for a useful variance between them."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """A potential with vector results: U on the test set, then U without each group of test rows.

    Each model is trained once for all of them. `data_shapley` keeps the results as columns of the
    record: first those of U, then those without the first group, and so on (see `parted`).
    """

    U: ModelPotential
    groups: Array
    """The group of each test row, 0 to G - 1."""

    @classmethod
    def of(cls, U: Potential, *, n_groups: int, seed: int = 0) -> Grouped | None:
        """U with its test rows in random groups; None if U cannot be scored without some group."""
        if not isinstance(U, ModelPotential):
            return None
        n = len(U.test)
        n_groups = min(n_groups, n)
        if n_groups < _FEWEST:
            return None
        found = cls(U, np.random.default_rng(seed).permutation(n) % n_groups)
        return found if found._scored() else None

    def _scored(self) -> bool:
        """Whether the metric is defined on the rest of the test rows without each group."""
        if self.U.metric.mean_of_rows:
            return True
        y = self.U.query.y
        n_values = len(np.unique(y)) if self.U.classification else 2
        kept = (y[self.groups != g] for g in range(self.width - 1))
        return all(len(np.unique(rest)) >= n_values for rest in kept)

    @property
    def width(self) -> int:
        """The number of results for each set: one for all test rows and one for each group."""
        return 2 + int(self.groups.max())

    def __call__(self, S: Points, /) -> Any:
        """U(S) on all test rows, and without each group."""
        return self._scores(S, S.take(slice(0)))[0]

    def marginals(self, S: Points, Z: Points | Bundles) -> Floats:
        """The marginals of each z: one row for each point, one column for each result."""
        scores = self._scores(S, Z)
        return scores[1:] - scores[0]

    def seeded(self, seed: int) -> Grouped:
        """The same potential with the random seed of its learner fixed."""
        return replace(self, U=self.U.seeded(seed))

    def check(self, points: Points, *, name: str) -> None:
        """Check the points as U does."""
        self.U.check(points, name=name)

    def describe(self) -> dict[str, Any]:
        """U's description, with the number of groups."""
        return {**self.U.describe(), "test groups": self.width - 1}

    def _scores(self, S: Points, Z: Points | Bundles) -> Floats:
        tally = _Tally(self.U.metric, self.groups)
        query = replace(self.U.query, metric=replace(self.U.metric, score=tally))
        counted = replace(self.U, metric=query.metric, empty=None)
        counted.__dict__["query"] = query
        scores = tally.at(counted._scores(S, Z))
        if len(S) == 0 and self.U.empty is not None:
            scores[0] = self.U.empty
        return scores


class _Tally:
    """A metric that keeps all its results and returns the number of each row as its score.

    A learner moves scores to the places of the points without using them, so the numbers tell
    which kept result belongs to which point.
    """

    def __init__(self, metric: Metric, groups: Array) -> None:
        self._metric = metric
        self._without = [groups != g for g in range(int(groups.max()) + 1)]
        self._kept: list[Floats] = []
        self._n = 0

    def __call__(self, y: Array, outputs: Array) -> Floats:
        score = self._metric.score
        whole = score(y, outputs)
        if self._metric.mean_of_rows:  # the score without a group follows from the group's score
            n = len(y)
            parts = [
                (n * whole - (~rest).sum() * score(y[~rest], outputs[:, ~rest])) / rest.sum()
                for rest in self._without
            ]
        else:
            parts = [score(y[rest], outputs[:, rest]) for rest in self._without]
        self._kept.append(np.stack([whole, *parts], axis=1))
        numbers = np.arange(self._n, self._n + len(whole), dtype=np.float64)
        self._n += len(whole)
        return numbers

    def at(self, numbers: Floats) -> Floats:
        """The results with these numbers, one row for each."""
        found: Floats = np.concatenate(self._kept)[numbers.astype(np.int64)]
        return found


def width_of(U: Potential) -> int:
    """The number of results that U gives for each set."""
    return int(getattr(U, "width", 1))


def widened(begun: Draws, width: int) -> Draws:
    """The empty record with a column for each result of a `Grouped` potential."""
    n = begun.marginals.shape[1]
    return replace(
        begun,
        marginals=np.empty((0, n * width), np.float32),
        ids=begun.ids if width == 1 else np.arange(n * width),
        rows=np.tile(begun.rows, width),
    )


def parted(draws: Draws, like: Draws) -> list[Draws]:
    """The records of U and of U without each group, with the names of `like`."""
    n = len(like.ids)
    return [
        replace(draws, marginals=draws.marginals[:, i : i + n], ids=like.ids, rows=like.rows)
        for i in range(0, draws.marginals.shape[1], n)
    ]


def influence_of_test(without: list[Draws]) -> Floats:
    """How far each group of test rows moves each value; the sum of squares is the variance.

    This is the delete-group jackknife over G values, each without one of the G groups.
    """
    values = np.stack([estimate(part).values for part in without])
    n_groups = len(values)
    spread: Floats = (values - values.mean(axis=0)) * np.sqrt((n_groups - 1) / n_groups)
    return spread
