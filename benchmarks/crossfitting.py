"""How often intervals of cross-fitted values hold the values that fresh test rows give.

For each of some databases of Adult, 200 rows each: values by cross-fitting, and those of a run that
tests on 4,000 other rows. The 95 % intervals of the first, with the second's own error added, are
compared with the second; so are the stated reliabilities with the squared correlations.

`python -m benchmarks.crossfitting FOLDER` finds `adult.parquet` in FOLDER (see
`benchmarks.learners`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import dshapley as ds
from benchmarks.setting import adult, print_table

ROWS, M, TESTED = 200, 50, 4000
DRAWS, LONG = 600, 1200
SETTINGS = [
    ("logistic regression, accuracy", LogisticRegression(max_iter=1000), "accuracy"),
    ("logistic regression, log_score", LogisticRegression(max_iter=1000), "log_score"),
    ("nearest neighbours, accuracy", KNeighborsClassifier(), "accuracy"),
]
LOWEST = 0.25
"""The share of the rows, those of the lowest values, that are looked at by themselves too."""


def one(database: ds.Points, fresh: ds.Points, model: Any, metric: str, seed: int) -> list[float]:
    """Of one database: coverage of all rows and the lowest, with errors of the draws alone too."""
    options = {"model": model, "metric": metric, "m": M, "progress": False}
    found = ds.value(database, **options, stop=DRAWS, seed=seed)
    exact = ds.value(database, test=fresh, **options, stop=LONG, seed=seed + 10**6)
    lowest = found.values <= np.quantile(found.values, LOWEST)
    covered = []
    for valuation in (found, found.of_draws):
        low, high = valuation.interval(0.95)
        reach = np.hypot((high - low) / 2, 2 * exact.stderr)
        held = np.abs(found.values - exact.values) <= reach
        covered += [held.mean(), held[lowest].mean()]
    squared = np.corrcoef(found.values, exact.values)[0, 1] ** 2
    return [*covered, found.reliability, squared]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--databases", type=int, default=40)
    args = parser.parse_args()
    everything, held_out = adult(args.folder)
    fresh = held_out.take(slice(0, TESTED))
    order = np.random.default_rng(0).permutation(len(everything))
    databases = [everything.take(order[i * ROWS : (i + 1) * ROWS]) for i in range(args.databases)]
    rows = []
    for name, model, metric in SETTINGS:
        found = joblib.Parallel(n_jobs=-1)(
            joblib.delayed(one)(database, fresh, model, metric, seed)
            for seed, database in enumerate(databases)
        )
        rows.append([name, *(f"{x:.3f}" for x in np.mean(found, axis=0))])
    print_table(
        f"Adult, {args.databases} databases of {ROWS} rows, m = {M}, {DRAWS} draws: share of the "
        f"95 % intervals that hold the value with {TESTED:,} fresh test rows",
        ["model, metric", "all rows", "lowest quarter", "of the draws: all rows", "lowest quarter",
         "reliability stated", "squared correlation"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
