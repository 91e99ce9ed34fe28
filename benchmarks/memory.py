"""The peak memory of one draw: |Z| = 5,000, 5,000 test rows, k = 5,000, 100 features.

Each learner in a process of its own, whose whole memory is counted: Python, the libraries and the
data too.
"""

from __future__ import annotations

import multiprocessing
import resource
from typing import Any

import numpy as np

import dshapley as ds
from benchmarks.learners import MANY_CLASSES, TWO_CLASSES, Case
from benchmarks.setting import print_table

N, N_FEATURES = 5_000, 100


def peak(case: Case, n_classes: int, answer: Any) -> None:
    """The peak memory of this process, in MB, after all marginals of one draw."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3 * N, N_FEATURES))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=3 * N), np.linspace(-1, 1, n_classes - 1))
    parts = [ds.Points(X[i * N : (i + 1) * N], y[i * N : (i + 1) * N]) for i in range(3)]
    database, Z, test = parts
    U = ds.potential(case.estimator, test=test, metric=case.metric, retrain="never")
    U.marginals(database.take(range(N - 1)), Z)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    rows = []
    processes = multiprocessing.get_context("spawn")
    for n_classes, cases in ((2, TWO_CLASSES), (10, MANY_CLASSES[:1])):
        for case in cases:
            answer = processes.Queue()
            child = processes.Process(target=peak, args=(case, n_classes, answer))
            child.start()
            rows.append([case.name, str(n_classes), f"{answer.get():.0f}"])
            child.join()
    print_table(
        "Peak memory of a draw (|Z|, test rows and k 5,000 each; 100 features)",
        ["learner", "classes", "MB"],
        rows,
    )


if __name__ == "__main__":
    main()
