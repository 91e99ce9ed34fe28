"""Supplementary figure 1: point removal for two tasks and three learning algorithms."""

from __future__ import annotations

from typing import Any

from dshapley.experiments.shared.removing import Setting, claims, figure, rows_of, smoke_tasks
from dshapley.experiments.shared.tasks import Task
from dshapley.experiments.shared.work import Rows, Scale, Work

TITLE = "Point removal, three other learning algorithms"
PAPER = (
    "Weighted sampling and interpolation, each by itself, are faster by an order of magnitude "
    "with no qualitative change (appendix F, supplementary figure 1)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.3, "small": 4.5, "full": 350}

MODELS = ("knn", "naive bayes", "random forest")
"""Our choice: the paper does not name its three algorithms."""


def _tasks(m: int, *, n_points: int, n_test: int) -> tuple[Task, ...]:
    adult: dict[str, Any] = {"n_points": n_points, "n_test": n_test, "n_heldout": 3_842}
    medical: dict[str, Any] = {"n_points": min(n_points, 7_000), "n_test": 500, "n_heldout": 500}
    sizes = {"adult": adult, "physionet2012": medical}
    return tuple(
        Task(data=data, model=model, m=m, **sizes[data]) for model in MODELS for data in sizes
    )


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        tasks=smoke_tasks("knn", "ridge"), draws=60, costs=(0.2,), shares=(0.3,), sets=4
    ),
    "small": Setting(
        tasks=_tasks(200, n_points=800, n_test=1_000), draws=600, costs=(0.1,), shares=(0.1,)
    ),
    "full": Setting(
        tasks=_tasks(1_000, n_points=8_000, n_test=5_000),
        draws=1_000,
        costs=(0.2, 0.1),
        shares=(0.2, 0.1),
    ),
}


def run(scale: Scale | Work) -> Rows:
    """The rows behind the figure."""
    work = Work.of(scale)
    return rows_of(work.choose(SETTINGS), work)


plot, check = figure, claims
