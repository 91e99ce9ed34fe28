"""Data Shapley values within one set: random subsets beside TMC-Shapley, seconds to one error."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from benchmarks.setting import print_table, synthetic

MODELS: list[tuple[Any, int, int]] = [
    (LogisticRegression(), 15, 300),
    (RandomForestClassifier(n_estimators=10, random_state=0), 30, 150),
    (AdaBoostClassifier(n_estimators=10, random_state=0), 15, 100),
]
"""(model, permutations, subsets): about as long."""


def main() -> None:
    database, test = synthetic()
    points = database.take(range(200))
    rows = []
    for model, n_permutations, n_subsets in MODELS:
        U = ds.potential(model, test=test)
        ds.data_shapley.sampled(U, points, draws=2)  # warm
        costs = []
        for tolerance in (0.01, 0.0):
            began = time.perf_counter()
            found = ds.data_shapley.tmc(
                U, points, permutations=n_permutations, tolerance=tolerance, patience=10
            )
            costs.append(_cost(found, time.perf_counter() - began))
        began = time.perf_counter()
        found = ds.data_shapley.sampled(U, points, draws=n_subsets)
        subsets = _cost(found, time.perf_counter() - began)
        ratios = [f"{cost / subsets:.3g}" for cost in costs]
        rows.append([type(model).__name__, *(f"{c:.3g}" for c in (*costs, subsets)), *ratios])
    print_table(
        "Data Shapley of 200 points: seconds to a standard error of 0.001, by the error so far",
        ["model", "TMC, cut at 0.01", "never cut", "subsets", "cut / subsets", "uncut / subsets"],
        rows,
    )


def _cost(found: ds.Valuation, seconds: float) -> float:
    """Seconds until the root mean square of the errors is 0.001: they fall as 1 / sqrt(time)."""
    return seconds * float((np.asarray(found.stderr) ** 2).mean()) / 0.001**2


if __name__ == "__main__":
    main()
