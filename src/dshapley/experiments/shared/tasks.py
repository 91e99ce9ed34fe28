"""A learning task, and the ways to value its points that the paper compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import rankdata

from dshapley.data.datasets import Dataset, divided, load
from dshapley.data.points import Array, Floats, Points
from dshapley.data.tables import read_table
from dshapley.experiments.shared.work import Work
from dshapley.inference.completed import completed
from dshapley.inference.sampled import estimate
from dshapley.learners.by_name import model_from_name
from dshapley.potentials import ModelPotential, potential
from dshapley.running.run import run
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.sizes import power

__all__ = [
    "ALGORITHM_1",
    "INTERPOLATION",
    "WEIGHTED",
    "Task",
    "Valued",
    "exponent",
    "valued",
    "with_own_table",
    "within_classes",
]

ALGORITHM_1, WEIGHTED, INTERPOLATION = "Algorithm 1", "weighted sampling", "interpolation"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, a model, m, and the numbers of points to value and of test rows."""

    data: str
    model: str
    m: int
    n_points: int
    n_test: int
    n_heldout: int
    n_database: int | None = None
    table: tuple[str, str] | None = None
    """A file and its target, for data that is not one of `dshapley.datasets`."""

    @property
    def name(self) -> str:
        """The task in words."""
        return f"{self.data}, {self.model}"

    @cached_property
    def dataset(self) -> Dataset:
        """Database, test set and held-out rows."""
        sizes: dict[str, Any] = {
            "n_database": self.n_database,
            "n_test": self.n_test,
            "n_heldout": self.n_heldout,
        }
        if self.table is None:
            return load(self.data, **sizes)
        path, target = self.table
        return divided(read_table(path), target=target, name=self.data, **sizes)

    @property
    def estimator(self) -> Any:
        """The model."""
        if self.model == "random forest":
            from sklearn.ensemble import RandomForestClassifier

            return RandomForestClassifier(n_estimators=10, random_state=0)
        return model_from_name(self.model.replace(" ", "_"), "classification")

    @property
    def U(self) -> ModelPotential:
        """The potential of the values: accuracy on the test set."""
        return potential(self.estimator, test=self.dataset.test)

    @property
    def heldout_U(self) -> ModelPotential:
        """The potential that values are judged by: accuracy on rows not used for the values."""
        return potential(self.estimator, test=self.dataset.heldout)

    @cached_property
    def Z(self) -> Points:
        """The points to value: the first rows of the database, which are in random order."""
        return self.dataset.database.take(slice(0, self.n_points))

    def training_sets(self, n: int) -> list[np.ndarray[Any, Any]]:
        """The indices of Z in n disjoint training sets of equal size."""
        size = len(self.Z) // n
        return [np.arange(i * size, (i + 1) * size) for i in range(n)]

    def draws(self, work: Work, n: int, *, seed: int, weights: Any = "uniform") -> Draws:
        """The first n draws for the values of Z."""
        design = Design(self.dataset.database, self.m, weights=weights, seed=seed)
        store = work.runs(self.name, seed, str(weights), repr(self))
        return run(self.U, design, self.Z, stop=n, store=store, n_jobs=work.n_jobs)


@dataclass(frozen=True, eq=False)
class Valued:
    """The values that one way found."""

    way: str
    cost: float
    """The cost of training as a share of Algorithm 1's, if the time of a fit is proportional to the
    size of the set, as the paper assumes."""
    values: Floats


def valued(
    task: Task,
    work: Work,
    *,
    draws: int,
    costs: Sequence[float],
    shares: Sequence[float],
    seed: int = 0,
) -> Iterator[Valued]:
    """The values by Algorithm 1, by weighted sampling at some costs, and by interpolation.

    Weighted sampling makes as many draws as Algorithm 1 with weights k^-a, where a makes the sets
    smaller on average by the factor `cost`. Interpolation uses the draws of Algorithm 1, but only
    the marginals of a share p of the points.
    """
    work.say(f"{task.name}: {ALGORITHM_1}")
    baseline = task.draws(work, draws, seed=seed)
    yield Valued(ALGORITHM_1, 1.0, estimate(baseline).values)
    for cost in costs:
        work.say(f"{task.name}: {WEIGHTED}, {cost:.0%} of the cost")
        a = exponent(task.m, cost)
        record = task.draws(work, draws, seed=seed + 1, weights=power(task.m, a))
        spent = float(record.k.sum() / baseline.k.sum())
        yield Valued(WEIGHTED, spent, estimate(record).values)
    for p in shares:
        work.say(f"{task.name}: {INTERPOLATION}, p = {p:g}")
        chosen = np.zeros(len(task.Z), dtype=bool)
        some = np.random.default_rng([seed, len(task.Z)]).permutation(len(task.Z))
        chosen[some[: max(10, round(p * len(task.Z)))]] = True
        measured = estimate(baseline.points(chosen), points=task.Z.take(chosen))
        yield Valued(
            INTERPOLATION, float(chosen.mean()), completed(measured, task.Z, chosen).values
        )


def with_own_table(task: Task, work: Work) -> Task:
    """The task, or its version on the user's table if that replaces the medical one."""
    if work.table is None or task.data != work.medical:
        return task
    path, target = work.table
    return replace(task, data=f"{path.stem} (own)", table=(str(path.resolve()), target))


def within_classes(values: Floats, y: Array) -> Floats:
    """The rank of each value within its class, as a share of the class.

    In this order the classes are removed at the same pace, so that only values within classes
    count: removing a whole class hurts whatever its points are worth.

    >>> within_classes(np.array([5.0, 6.0, 1.0, 2.0]), np.array([0, 0, 1, 1]))
    array([0.5, 1. , 0.5, 1. ])
    """
    found = np.empty(len(values))
    for label in np.unique(y):
        here = y == label
        found[here] = rankdata(values[here]) / here.sum()
    return found


def exponent(m: int, cost: float) -> float:
    """The a for which weights k^-a make sets on average `cost` times as large as uniform weights.

    >>> round(exponent(1000, 0.1), 2)
    1.31
    """

    def excess(a: float) -> float:
        sizes = np.arange(1, m + 1)
        return float(np.log(power(m, a) @ sizes / (cost * sizes.mean())))

    return float(brentq(excess, 0.0, 10.0))
