"""Several metrics in one run: its processor time against one metric alone, and a run for each.

`python -m benchmarks.several_metrics`, on embedded and made-up data, with one process. Each ratio
is the median of those of alternating runs. `one` is the first metric alone, `dearest` the metric
that takes longest alone, and `each` a run for every metric.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_regression

import dshapley as ds
from dshapley.data.datasets import adult_sample
from dshapley.data.points import Points
from dshapley.data.tables import prepare

RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Case:
    """A learner, its metrics and its data."""

    name: str
    rows: Points
    model: str
    metrics: list[str]
    draws: int
    m: int | None = None
    retrain: Any = "auto"

    def seconds(self, metric: Any) -> float:
        """The processor time of one run by a metric, or by a list of metrics."""
        begun = time.process_time()
        ds.value(
            self.rows, model=self.model, metric=metric, m=self.m, stop=self.draws, n_jobs=1,
            fitting=ds.Fitting(retrain=self.retrain),
        )  # fmt: skip
        return time.process_time() - begun


def cases() -> list[Case]:
    """The learners on data of a few hundred rows."""
    adult = prepare(adult_sample(), target="income", task="classification").database
    adult = adult.take(np.arange(600))
    X, y = load_digits(return_X_y=True)
    digits = Points(X[:300] / 16, y[:300])
    numbers = Points(*make_regression(1000, 40, noise=100.0, random_state=0))
    few = adult.take(np.arange(120))
    three = ["accuracy", "roc_auc", "brier"]
    return [
        Case(name="logistic", rows=adult, model="logistic", metrics=three, draws=30),
        Case(name="softmax", rows=digits, model="logistic", metrics=three, draws=15),
        Case(name="ridge", rows=numbers, model="ridge", metrics=["r2", "neg_mse"], draws=60),
        Case(name="naive Bayes", rows=adult, model="naive_bayes", metrics=three, draws=30),
        Case(name="kNN", rows=adult, model="knn", metrics=three, draws=30),
        Case(name="forest", rows=few, model="forest", metrics=three, draws=4, m=100),
        Case(
            name="naive Bayes, retrained", rows=few, model="naive_bayes", metrics=three, draws=4,
            m=100, retrain="always",
        ),
    ]  # fmt: skip


def main() -> None:
    """Print a line for each case."""
    for case in cases():
        case.seconds(case.metrics)  # compiles
        times = []
        for _ in range(RUNS):
            together = case.seconds(case.metrics)
            times.append([together, *(case.seconds(metric) for metric in case.metrics)])
        one = median(row[0] / row[1] for row in times)
        dearest = median(row[0] / max(row[1:]) for row in times)
        each = median(row[0] / sum(row[1:]) for row in times)
        alone = ", ".join(
            f"{metric} {median(column):.2f} s"
            for metric, column in zip(case.metrics, list(zip(*times, strict=True))[1:], strict=True)
        )
        print(
            f"{case.name}: {len(case.metrics)} metrics {median(row[0] for row in times):.2f} s "
            f"({alone}); x {one:.2f} of one, x {dearest:.2f} of the dearest, x {each:.2f} of each",
            flush=True,
        )


if __name__ == "__main__":
    main()
