"""How sure values are of the test set: the same draws, scored without each group of test rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.inference.valuation import estimate
from dshapley.metrics import Metric
from dshapley.potentials import ModelPotential, Potential
from dshapley.sampling.draws import Draws

__all__ = ["Grouped", "influence_of_test", "parted", "widened", "width_of"]

_FEWEST = 4
"""Groups, for a variance between them that is worth having."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """A potential whose answers are vectors: U on the test set, then U without each group of it.

    A model is trained once for all of them. `data_shapley` keeps such answers as columns of the
    record: first those of U, then those without the first group, and so on (`parted`).
    """

    U: ModelPotential
    groups: Array
    """The group of each test row, 0 to G - 1."""

    @classmethod
    def of(cls, U: Potential, *, n_groups: int, seed: int = 0) -> Grouped | None:
        """U with its test rows in random groups; None where U cannot be scored without one."""
        if not isinstance(U, ModelPotential):
            return None
        n = len(U.test)
        n_groups = min(n_groups, n)
        if n_groups < _FEWEST:
            return None
        found = cls(U, np.random.default_rng(seed).permutation(n) % n_groups)
        return found if found._scored() else None

    def _scored(self) -> bool:
        """Whether the metric is defined without each group."""
        if self.U.metric.mean_of_rows:
            return True
        y = self.U.query.y
        n_values = len(np.unique(y)) if self.U.classification else 2
        kept = (y[self.groups != g] for g in range(self.width - 1))
        return all(len(np.unique(rest)) >= n_values for rest in kept)

    @property
    def width(self) -> int:
        """How many answers there are to each question."""
        return 2 + int(self.groups.max())

    def __call__(self, S: Points, /) -> Any:
        """What S is worth on all test rows, and without each group."""
        return self._scores(S, S.take(slice(0)))[0]

    def marginals(self, S: Points, Z: Points | Bundles) -> Floats:
        """The marginals of each z: a row a point, a column an answer."""
        scores = self._scores(S, Z)
        return scores[1:] - scores[0]

    def seeded(self, seed: int) -> Grouped:
        """The same, its learner's randomness fixed by `seed`."""
        return replace(self, U=self.U.seeded(seed))

    def check(self, points: Points, *, name: str) -> None:
        """As U does."""
        self.U.check(points, name=name)

    def describe(self) -> dict[str, Any]:
        """As U does, with the number of groups."""
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
    """A metric that keeps all its answers, and gives each row of outputs its number as a score.

    A learner puts scores where they belong without looking at them, so the numbers come back in
    the places of the points.
    """

    def __init__(self, metric: Metric, groups: Array) -> None:
        self._metric = metric
        self._without = [groups != g for g in range(int(groups.max()) + 1)]
        self._kept: list[Floats] = []
        self._n = 0

    def __call__(self, y: Array, outputs: Array) -> Floats:
        score = self._metric.score
        whole = score(y, outputs)
        if self._metric.mean_of_rows:  # without a group it follows from that group's own
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
        """The answers of these numbers: a row each."""
        found: Floats = np.concatenate(self._kept)[numbers.astype(np.int64)]
        return found


def width_of(U: Potential) -> int:
    """How many numbers U answers with."""
    return int(getattr(U, "width", 1))


def widened(begun: Draws, width: int) -> Draws:
    """The record of no draw, with columns for all answers of a `Grouped` potential."""
    n = begun.marginals.shape[1]
    return replace(
        begun,
        marginals=np.empty((0, n * width), np.float32),
        ids=begun.ids if width == 1 else np.arange(n * width),
        rows=np.tile(begun.rows, width),
    )


def parted(draws: Draws, like: Draws) -> list[Draws]:
    """The records of U and of U without each group, named as in `like`."""
    n = len(like.ids)
    return [
        replace(draws, marginals=draws.marginals[:, i : i + n], ids=like.ids, rows=like.rows)
        for i in range(0, draws.marginals.shape[1], n)
    ]


def influence_of_test(without: list[Draws]) -> Floats:
    """By how much each group of test rows moves each value: squares sum to the variance.

    The delete-group jackknife: G values without one of G groups each.
    """
    values = np.stack([estimate(part).values for part in without])
    n_groups = len(values)
    spread: Floats = (values - values.mean(axis=0)) * np.sqrt((n_groups - 1) / n_groups)
    return spread
