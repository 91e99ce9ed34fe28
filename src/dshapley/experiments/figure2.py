"""Figure 2: how well cheaper values recover the values of Algorithm 1, for several models."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.experiments.shared.removing import smoke_tasks
from dshapley.experiments.shared.tasks import (
    ALGORITHM_1,
    INTERPOLATION,
    WEIGHTED,
    Task,
    valued,
)
from dshapley.experiments.shared.work import Claim, Rows, Scale, Work
from dshapley.inference.sampled import estimate
from dshapley.plots.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Recovery of Algorithm 1's values by cost"
PAPER = (
    "The optimizations provide a smooth trade-off between computational cost and recovery (R2 "
    "with Algorithm 1's values), across every model type (section 3.3, Figure 2)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.3, "small": 6, "full": 450}

_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Setting:
    """Tasks, and how precisely their points are valued."""

    tasks: tuple[Task, ...]
    _: KW_ONLY
    draws: int
    repetitions: int
    """How often everything is repeated with different draws."""
    costs: tuple[float, ...] = (0.5, 0.2, 0.05, 0.02)
    shares: tuple[float, ...] = (0.5, 0.2, 0.05, 0.02)


def _tasks(*models: str, **sizes: Any) -> tuple[Task, ...]:
    return tuple(Task(data="adult", model=model, **sizes) for model in models)


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        smoke_tasks("logistic", "knn")[:2],
        draws=60,
        repetitions=3,
        costs=(0.5, 0.1),
        shares=(0.5, 0.2),
    ),
    "small": Setting(
        _tasks(
            *("logistic", "ridge", "naive bayes", "knn"),
            **{"m": 500, "n_points": 1_000, "n_test": 1_000, "n_heldout": 0},
        ),
        draws=300,
        repetitions=4,
    ),
    "full": Setting(
        _tasks(
            *("logistic", "ridge", "naive bayes", "knn"),
            **{"m": 5_000, "n_points": 5_000, "n_test": 5_000, "n_heldout": 0},
        ),
        draws=2_000,
        repetitions=4,
    ),
}


def run(scale: Scale | Work) -> Rows:
    """R2 with the values of Algorithm 1, by task, repetition, way and cost."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    parts = []
    for task in setting.tasks:
        for i in range(setting.repetitions):
            make = partial(_repetition, setting, task, i, work)
            parts.append(work.rows(make, "recovery", task.name, i, repr(setting)))
    return pd.concat(parts, ignore_index=True)


def _repetition(setting: Setting, task: Task, i: int, work: Work) -> Rows:
    import pandas as pd

    work.say(f"{task.name}, repetition {i + 1} of {setting.repetitions}: the values to recover")
    target = estimate(task.draws(work, setting.draws, seed=1000 * i)).values
    options: dict[str, Any] = {
        "draws": setting.draws,
        "costs": setting.costs,
        "shares": setting.shares,
    }
    rows = []
    # The seed differs from that of the values to recover, so that their errors are independent.
    for way in valued(task, work, **options, seed=1000 * i + 100):
        about = {"data": task.data, "model": task.model, "repetition": i}
        r2 = float(np.corrcoef(way.values, target)[0, 1] ** 2)
        rows.append({**about, "way": way.way, "cost": way.cost, "r2": r2})
    found = pd.DataFrame(rows)
    # The cost that was asked for: the draws of a repetition meet it only approximately.
    found["level"] = [1.0, *setting.costs, *setting.shares]
    return found


def check(rows: Rows) -> list[Claim]:
    """The claim that R2 rises with cost, for each model and way, by the slopes of repetitions."""
    found = []
    for (data, model, way), here in rows.groupby(["data", "model", "way"], sort=False):
        if way == ALGORITHM_1:
            continue
        slopes = [
            np.polyfit(np.log10(line.cost), line.r2, 1)[0] for _, line in here.groupby("repetition")
        ]
        ends = here.groupby("level").r2.mean().sort_index()
        text = (
            f"{data}, {model}: {way} recovers more the more it costs (R2 {ends.iloc[0]:.2f} at "
            f"{ends.index[0]:.0%} of the cost, {ends.iloc[-1]:.2f} at {ends.index[-1]:.0%}; by "
            "the slope for a factor of ten)"
        )
        found.append(Claim.of(text, np.array(slopes)))
    return found


def plot(rows: Rows) -> Figure:
    """One panel for each task: R2 against the share of Algorithm 1's cost."""
    tasks = list(rows.groupby(["data", "model"], sort=False))
    n_columns = 2
    figure, axes = new_figure(-(-len(tasks) // n_columns), n_columns, sharey=True)
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for ((data, model), here), axis in zip(tasks, axes.flat, strict=False):
        ceiling = here[here.way == ALGORITHM_1].r2.mean()
        axis.axhline(ceiling, color="black", linewidth=1, label="Algorithm 1, other draws")
        for way, marker in ((WEIGHTED, "o"), (INTERPOLATION, "s")):
            by_level = here[here.way == way].groupby("level").r2
            mean, error = by_level.mean(), by_level.sem()
            axis.errorbar(mean.index, mean, error, marker=marker, label=way, capsize=2)
        axis.set(title=f"{data}, {model}", xscale="log", xlim=(0.015, 1.1), ylim=(0, 1.02))
        axis.set_xlabel("share of the cost")
        axis.set_xticks(_TICKS, [f"{tick:.0%}" for tick in _TICKS])
        axis.minorticks_off()
    for row in axes:
        row[0].set_ylabel("R2 with Algorithm 1's values")
    axes[0, 0].legend(fontsize=8)
    return figure
