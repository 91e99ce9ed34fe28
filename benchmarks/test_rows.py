"""What errors that include the test rows cost: the time of a run with them over that without.

`python -m benchmarks.test_rows`, on embedded and made-up data, with one process and its processor
time. Medians of alternating runs. Only the first draws are scored on groups of test rows, so long
runs cost less.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
from sklearn.datasets import load_digits, make_regression

import dshapley as ds
from dshapley.data.datasets import adult_sample
from dshapley.data.points import Points
from dshapley.data.tables import prepare
from dshapley.sampling.test_groups import TestGroups

RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Case:
    """A learner and a metric on some data."""

    name: str
    rows: Points
    model: str
    metric: str
    draws: int
    retrain: Any = "auto"
    m: int | None = None

    def seconds(self, *, asked: bool) -> float:
        """The time of one run, with the groups of test rows or without them."""
        n = len(self.rows) // 2
        options: dict[str, Any] = {
            "model": self.model, "metric": self.metric, "m": self.m, "stop": self.draws,
            "test": self.rows.take(np.arange(n, len(self.rows))), "n_jobs": 1,
            "fitting": ds.Fitting(retrain=self.retrain),
        }  # fmt: skip
        none = mock.patch.object(TestGroups, "of_rows", staticmethod(lambda *_, **__: None))
        begun = time.process_time()
        if asked:
            ds.value(self.rows.take(np.arange(n)), **options)
        else:
            with none:
                ds.value(self.rows.take(np.arange(n)), **options)
        return time.process_time() - begun


def cases() -> list[Case]:
    """The learners, each with a quick and a dear metric, for runs of 100 draws."""
    adult = prepare(adult_sample(), target="income", task="classification").database
    adult = adult.take(np.arange(1000))
    X, y = load_digits(return_X_y=True)
    digits = Points(X[:600] / 16, y[:600])
    numbers = Points(*make_regression(1000, 40, noise=100.0, random_state=0))
    few = adult.take(np.arange(300))
    return [
        *(
            Case(name=name, rows=adult, model=name, metric=metric, draws=100)
            for name in ("logistic", "knn")
            for metric in ("accuracy", "brier", "roc_auc")
        ),
        Case(name="naive Bayes", rows=adult, model="naive_bayes", metric="accuracy", draws=100),
        Case(name="softmax", rows=digits, model="logistic", metric="accuracy", draws=40),
        Case(name="softmax", rows=digits, model="logistic", metric="roc_auc", draws=40),
        *(
            Case(name="ridge", rows=numbers, model="ridge", metric=metric, draws=100)
            for metric in ("r2", "neg_mse")
        ),
        Case(name="forest", rows=few, model="forest", metric="accuracy", draws=32, m=100),
        Case(
            name="naive Bayes, retrained", rows=few, model="naive_bayes", metric="accuracy",
            draws=32, m=100, retrain="always",
        ),
    ]  # fmt: skip


def main() -> None:
    """Print a line for each case."""
    for case in cases():
        case.seconds(asked=True)  # compiles
        pairs = [(case.seconds(asked=True), case.seconds(asked=False)) for _ in range(RUNS)]
        ratio = median(with_them / without for with_them, without in pairs)
        without = median(pair[1] for pair in pairs)
        what = f"{case.name}, {case.metric}: {case.draws} draws"
        print(f"{what}, {without:.2f} s without, x {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
