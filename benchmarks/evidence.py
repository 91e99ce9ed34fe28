"""What label evidence costs: the time of a run with it over that of the same run without.

`python -m benchmarks.evidence`, on embedded data, with one process. Medians of alternating runs.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np
from sklearn.datasets import load_digits

import dshapley as ds
from dshapley.data.datasets import adult_sample
from dshapley.data.points import Points
from dshapley.data.tables import prepare
from dshapley.sampling.witness import Witness

RUNS = 5


def seconds(rows: Points, model: str, draws: int, *, asked: bool) -> float:
    """The time of one run; without evidence if nobody is asked."""
    options: dict[str, Any] = {"model": model, "stop": draws, "n_jobs": 1}
    none = mock.patch.object(Witness, "of", staticmethod(lambda *_, **__: None))
    begun = time.perf_counter()
    if asked:
        ds.value(rows, **options)
    else:
        with none:
            ds.value(rows, **options)
    return time.perf_counter() - begun


def main() -> None:
    """Print a line for each case."""
    adult = prepare(adult_sample(), target="income", task="classification").database
    X, y = load_digits(return_X_y=True)
    digits = Points(X[:600] / 16, y[:600])
    cases = [
        ("Adult, logistic", adult, "logistic", 150),
        ("Adult, logistic, a long run", adult, "logistic", 1500),
        ("Adult, naive Bayes", adult, "naive_bayes", 150),
        ("Adult, nearest neighbours", adult, "knn", 150),
        ("digits, logistic, ten classes", digits, "logistic", 60),
    ]
    for name, rows, model, draws in cases:
        seconds(rows, model, draws, asked=True)  # compiles
        pairs = [
            (seconds(rows, model, draws, asked=True), seconds(rows, model, draws, asked=False))
            for _ in range(RUNS if draws < 1000 else 2)
        ]
        with_it, without = np.median(pairs, axis=0)
        print(f"{name}: {draws} draws, {without:.2f} s without evidence, x {with_it / without:.2f}")


if __name__ == "__main__":
    main()
