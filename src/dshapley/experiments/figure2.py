"""Figure 2: how well cheaper values recover those of Algorithm 1, for several models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.experiments.removing import smoke_tasks
from dshapley.experiments.tasks import (
    ALGORITHM_1,
    INTERPOLATION,
    WEIGHTED,
    Task,
    valued,
    with_own_table,
)
from dshapley.experiments.work import Claim, Rows, Scale, Work
from dshapley.plots import new_figure
from dshapley.points import Floats
from dshapley.valuation import estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Recovery of Algorithm 1's values by cost"
PAPER = (
    "The optimizations provide a smooth trade-off between computational cost and recovery (R2 "
    "with Algorithm 1's values), across every model type (section 3.3, Figure 2)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.3, "small": 2, "full": 1_500}

_BOOTSTRAPS = 400
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Setting:
    """Tasks, and how well their values are found."""

    tasks: tuple[Task, ...]
    draws: int
    costs: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.02)
    shares: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.02)


def _tasks(*models: str, **sizes: Any) -> tuple[Task, ...]:
    return tuple(Task("adult", model, **sizes) for model in models)


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(smoke_tasks("logistic", "knn")[:2], 60, costs=(0.5, 0.1), shares=(0.5, 0.2)),
    "small": Setting(
        _tasks(
            *("logistic", "ridge", "naive bayes", "knn"),
            **{"m": 500, "n_points": 1_000, "n_test": 1_000, "n_heldout": 0},
        ),
        draws=400,
    ),
    "full": Setting(
        _tasks(
            *("logistic", "ridge", "naive bayes", "knn", "random forest"),
            **{"m": 5_000, "n_points": 5_000, "n_test": 5_000, "n_heldout": 0},
        ),
        draws=2_000,
    ),
}


def run(scale: Scale | Work) -> Rows:
    """R2 of the values with Algorithm 1's, by task, way and cost, with its standard error."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    rows = []
    for task in setting.tasks:
        task = with_own_table(task, work)
        work.say(f"{task.name}: the values to recover")
        target = estimate(task.draws(work, setting.draws, seed=0)).values
        options: dict[str, Any] = {
            "draws": setting.draws,
            "costs": setting.costs,
            "shares": setting.shares,
        }
        # Of other draws than the values to recover: their errors have nothing in common.
        for way in valued(task, work, **options, seed=100):
            r2, samples = _r2(way.values, target)
            about = {"data": task.data, "model": task.model, "way": way.way, "cost": way.cost}
            rows.append({**about, "r2": r2, "stderr": samples.std(ddof=1)})
    return pd.DataFrame(rows)


def _r2(values: Floats, target: Floats) -> tuple[float, Floats]:
    """The squared correlation, and what it is for points drawn again with replacement."""
    rng = np.random.default_rng(0)
    again = rng.integers(len(values), size=(_BOOTSTRAPS, len(values)))
    samples = np.array([np.corrcoef(values[i], target[i])[0, 1] ** 2 for i in again])
    return float(np.corrcoef(values, target)[0, 1] ** 2), samples


def check(rows: Rows) -> list[Claim]:
    """R2 rises with cost, for each model and each way."""
    found = []
    for (data, model, way), here in rows.groupby(["data", "model", "way"], sort=False):
        if way not in (WEIGHTED, INTERPOLATION):
            continue
        line = here.sort_values("cost")
        low, high = line.iloc[0], line.iloc[-1]
        text = (
            f"{data}, {model}: {way} recovers more at {high.cost:.0%} of the cost than at "
            f"{low.cost:.0%} (R2 {high.r2:.2f}, {low.r2:.2f})"
        )
        by, error = high.r2 - low.r2, 1.96 * np.hypot(low.stderr, high.stderr)
        found.append(Claim(text, float(by), float(by - error), float(by + error)))
    return found


def plot(rows: Rows) -> Figure:
    """A panel a task: R2 by the share of Algorithm 1's cost."""
    tasks = list(rows.groupby(["data", "model"], sort=False))
    n_columns = 2
    figure, axes = new_figure(-(-len(tasks) // n_columns), n_columns, sharey=True)
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for ((data, model), here), axis in zip(tasks, axes.flat, strict=False):
        ceiling = here[here.way == ALGORITHM_1].r2.iloc[0]
        axis.axhline(ceiling, color="black", linewidth=1, label="Algorithm 1, other draws")
        for way, marker in ((WEIGHTED, "o"), (INTERPOLATION, "s")):
            line = here[here.way == way].sort_values("cost")
            axis.errorbar(line.cost, line.r2, line.stderr, marker=marker, label=way, capsize=2)
        axis.set(title=f"{data}, {model}", xscale="log", xlim=(0.015, 1.1), ylim=(0, 1.02))
        axis.set_xlabel("share of the cost")
        axis.set_xticks(_TICKS, [f"{tick:.0%}" for tick in _TICKS])
        axis.minorticks_off()
    for row in axes:
        row[0].set_ylabel("R2 with Algorithm 1's values")
    axes[0, 0].legend(fontsize=8)
    return figure
