"""Point removal for a task, in the order of the values of each way: for several figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.baselines.curves import removal
from dshapley.experiments.shared.tasks import (
    ALGORITHM_1,
    INTERPOLATION,
    WEIGHTED,
    Task,
    Valued,
    valued,
    with_own_table,
    within_classes,
)
from dshapley.experiments.shared.work import Claim, Rows, Work
from dshapley.plots.figure import new_figure, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["RANDOM", "Setting", "claims", "figure", "rows_of", "smoke_tasks"]

RANDOM = "random"
WITHIN = f"{ALGORITHM_1} within classes"
"""An order that removes as many of each class at each step, so that only the values count."""
TRACKING = (0.5, 0.8)
"""The shares of Algorithm 1's effect that a tenth of its cost must have to track it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Tasks, and how precisely their points are valued and judged."""

    tasks: tuple[Task, ...]
    draws: int
    """The draws of each way except interpolation, which uses those of Algorithm 1."""
    costs: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05)
    shares: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05)
    sets: int = 8
    """The number of disjoint training sets that points are removed from."""
    repeats: int = 10
    """The number of random orders for each training set."""
    fractions: tuple[float, ...] = tuple(np.linspace(0, 0.5, 11).round(3).tolist())


def rows_of(setting: Setting, work: Work) -> Rows:
    """Accuracy on held-out rows, by task, way, cost, training set and fraction removed."""
    import pandas as pd

    parts = []
    for task in setting.tasks:
        task = with_own_table(task, work)
        by_value = valued(
            task, work, draws=setting.draws, costs=setting.costs, shares=setting.shares
        )
        baseline = next(by_value)
        order = within_classes(baseline.values, np.asarray(task.Z.y))
        ways = [Valued(RANDOM, 0.0, np.zeros(0)), baseline, Valued(WITHIN, 1.0, order), *by_value]
        for way in ways:
            key = ("removal", task.name, way.way, round(way.cost, 4), repr(task), repr(setting))
            parts.append(work.rows(partial(_curves, setting, task, way, work), *key))
    return pd.concat(parts, ignore_index=True)


def _curves(setting: Setting, task: Task, way: Valued, work: Work) -> Rows:
    import pandas as pd

    work.say(f"{task.name}: removing, {way.way}")
    U, parts = task.heldout_U, []
    for i, rows in enumerate(task.training_sets(setting.sets)):
        points = task.Z.take(rows)
        is_random = way.way == RANDOM
        curve = removal(
            U,
            points,
            np.zeros(len(points)) if is_random else way.values[rows],
            fractions=setting.fractions,
            repeats=setting.repeats - 1 if is_random else 0,
            seed=i,
            n_jobs=work.n_jobs,
        )
        # All values of the random way are 0, so its order by value is one more random order.
        scores = np.vstack([curve.scores, curve.random]).mean(axis=0)
        parts.append(pd.DataFrame({"set": i, "fraction": curve.fractions, "accuracy": scores}))
    about: dict[str, Any] = {
        "data": task.data,
        "model": task.model,
        "way": way.way,
        "cost": round(way.cost, 4),
        "constant": majority_share(task.dataset.heldout.y),
    }
    return pd.concat(parts, ignore_index=True).assign(**about)[[*about, *parts[0].columns]]


def claims(rows: Rows) -> list[Claim]:
    """The claims that removing by value hurts more than at random, even at 10 % of the cost.

    The intervals are over training sets, for fixed draws and fixed held-out rows.
    """
    found = []
    for (data, model), here in rows.groupby(["data", "model"], sort=False):
        drops = _drops(here)
        full = drops[ALGORITHM_1, 1.0]
        for (way, cost), drop in drops.items():
            at = "" if way in (ALGORITHM_1, WITHIN) else f" at {cost:.0%} of the cost"
            text = f"{data}, {model}: {way}{at} hurts more than random removal"
            found.append(Claim.of(text, drop))
        for way, share in product((WEIGHTED, INTERPOLATION), TRACKING):
            cost = min((c for w, c in drops if w == way), key=lambda c: abs(np.log(c / 0.1)))
            text = (
                f"{data}, {model}: {way} at {cost:.0%} of the cost hurts at least "
                f"{share:.0%} as much as {ALGORITHM_1}"
            )
            found.append(Claim.of(text, drops[way, cost] - share * full))
    return found


def _drops(rows: Rows) -> dict[tuple[str, float], np.ndarray]:
    """By way and cost, how far accuracy is below that of random removal in each training set."""
    means = rows[rows.fraction > 0].groupby(["way", "cost", "set"], sort=False).accuracy.mean()
    random = means[RANDOM, 0.0]
    ways = means.drop(RANDOM).groupby(level=["way", "cost"], sort=False)
    return {key: (random - part.droplevel([0, 1])).to_numpy() for key, part in ways}


def figure(rows: Rows) -> Figure:
    """One row for each task, with a panel of weighted sampling and one of interpolation."""
    tasks = list(rows.groupby(["data", "model"], sort=False))
    drawn, axes = new_figure(len(tasks), 2, sharey="row")
    for ((data, model), here), panels in zip(tasks, axes, strict=True):
        for axis, way in zip(panels, (WEIGHTED, INTERPOLATION), strict=True):
            _panel(axis, here, way)
            axis.set(title=f"{data}, {model}: {way}", xlabel="fraction of the points removed")
        panels[0].set_ylabel("accuracy on held-out rows")
    return drawn


def _panel(axis: Axes, rows: Rows, way: str) -> None:
    order = [ALGORITHM_1, way, WITHIN, RANDOM]
    lines = list(rows[rows.way.isin(order)].groupby(["way", "cost"], sort=False))
    lines.sort(key=lambda line: (order.index(line[0][0]), -line[0][1]))
    style: dict[str, Any]
    shades = iter(np.linspace(0.35, 0.85, max(len(lines) - 3, 1)))
    for (name, cost), line in lines:
        by_fraction = line.groupby("fraction").accuracy
        mean, error = by_fraction.mean(), by_fraction.sem()
        if name == RANDOM:
            style = {"color": "0.45", "linestyle": "--", "label": "random"}
        elif name == ALGORITHM_1:
            style = {"color": "black", "label": "Algorithm 1 (100 %)"}
        elif name == WITHIN:
            style = {"color": "black", "linestyle": "-.", "linewidth": 1, "label": WITHIN}
        else:
            style = {"color": shade(next(shades)), "label": f"{cost:.0%}"}
        axis.plot(mean.index, mean, **style)
        axis.fill_between(
            mean.index, mean - error, mean + error, color=style["color"], alpha=0.15, linewidth=0
        )
    axis.axhline(rows.constant.iloc[0], color="0.6", linewidth=0.8, label="constant predictor")
    axis.legend(fontsize=7, title="share of the cost", title_fontsize=7, loc="best")


def majority_share(y: Any) -> float:
    """The accuracy of predicting the most frequent class."""
    return float(np.unique(np.asarray(y), return_counts=True)[1].max() / len(y))


def smoke_tasks(*models: str) -> tuple[Task, ...]:
    """Small tasks on data that comes with the package and with scikit-learn."""
    sizes: dict[str, Any] = {"m": 30, "n_points": 64, "n_test": 100, "n_heldout": 100}
    data = ("adult_sample", "breast_cancer")
    return tuple(Task(data=name, model=model, **sizes) for name in data for model in models)
