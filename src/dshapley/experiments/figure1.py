"""Figure 1: point removal with logistic regression, on Adult and on a medical table."""

from __future__ import annotations

from typing import Any

from dshapley.experiments.shared.removing import Setting, claims, figure, rows_of, smoke_tasks
from dshapley.experiments.shared.tasks import Task
from dshapley.experiments.shared.work import Rows, Scale, Work

TITLE = "Point removal, logistic regression"
PAPER = (
    "Removing points of high value causes a sharp decrease in accuracy on both tasks, even with "
    "the most aggressive weighted sampling and interpolation (section 3.3, Figure 1)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.2, "small": 3, "full": 120}

_ADULT: dict[str, Any] = {"data": "adult", "model": "logistic", "n_heldout": 3_842}
_MEDICAL: dict[str, Any] = {"data": "physionet2012", "model": "logistic", "n_heldout": 500}

SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(tasks=smoke_tasks("logistic"), draws=60, costs=(0.2,), shares=(0.3,), sets=4),
    "small": Setting(
        tasks=(
            Task(**_ADULT, m=1_000, n_points=1_600, n_test=2_000),
            Task(**_MEDICAL, m=500, n_points=1_600, n_test=500),
        ),
        draws=600,
    ),
    # The paper has a database of 40,000 rows with m = 5,000, and 9,000 patients (here 7,000) with
    # m = 1,000.
    "full": Setting(
        tasks=(
            Task(**_ADULT, m=5_000, n_points=40_000, n_test=5_000),
            Task(**_MEDICAL, m=1_000, n_points=7_000, n_test=500),
        ),
        draws=1_000,
    ),
}


def run(scale: Scale | Work) -> Rows:
    """The rows behind the figure."""
    work = Work.of(scale)
    return rows_of(work.choose(SETTINGS), work)


plot, check = figure, claims
