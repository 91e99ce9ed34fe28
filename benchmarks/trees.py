"""Trees, forests and boosting: how fast, how like scikit-learn's, and what coupling saves.

One core, 500 test rows. Ours is U(S + z) - U(S) for all z of Z together, over the number of z.
Theirs is fit + score on the same S + z. The three tables are not part of this repository:
`python -m benchmarks.trees FOLDER` finds `covertype.parquet` (target `Cover_Type`),
`diabetes130.parquet` (target `readmitted`, categories as codes, two classes) and
`sensorless_drive.parquet` (target `class`) there.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import threadpoolctl
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import dshapley as ds
from benchmarks.setting import TARGETS, print_table, table_of

SIZES = (100, 500)
SPEED: list[tuple[str, Any, str, int]] = [
    ("random forest", RandomForestClassifier(), "covertype", 100),
    ("extra-trees", ExtraTreesClassifier(), "covertype", 100),
    ("decision tree", DecisionTreeClassifier(), "covertype", 100),
    ("AdaBoost", AdaBoostClassifier(), "diabetes130", 50),
    ("AdaBoost", AdaBoostClassifier(), "covertype", 50),
    ("gradient boosting", GradientBoostingClassifier(), "diabetes130", 20),
    ("gradient boosting", GradientBoostingClassifier(), "sensorless_drive", 10),
]
"""(name, estimator, data, |Z|)"""

ALIKE: list[tuple[str, Any, int]] = [
    ("random forest", RandomForestClassifier(), 200),
    ("extra-trees", ExtraTreesClassifier(), 200),
    ("decision tree", DecisionTreeClassifier(), 200),
    ("AdaBoost", AdaBoostClassifier(), 200),
    ("gradient boosting", GradientBoostingClassifier(), 20),
]
"""(name, estimator, seeds)"""

N_SEEDS = 60
N_PERMUTATIONS = 100


def speed(folder: Path) -> None:
    rows = []
    for name, estimator, data, n_points in SPEED:
        database, test = table_of(folder, data, n_test=500)
        Z = database.take(range(n_points))
        U = ds.potential(estimator, test=test, retrain="never")
        for k in SIZES:
            S = database.take(range(1000, 1000 + k - 1))
            U.marginals(S, Z.take(range(1)))  # warm
            ours, theirs = [], []
            for repeat in range(3):
                start = time.perf_counter()
                U.marginals(S, Z)
                ours.append((time.perf_counter() - start) / len(Z))
                T = S + Z.take([repeat])
                start = time.perf_counter()
                clone(estimator).fit(T.X, T.y).score(test.X, test.y)
                theirs.append(time.perf_counter() - start)
            a, b = 1e3 * median(ours), 1e3 * median(theirs)
            rows.append([name, data, str(k), f"{a:.2f}", f"{b:.1f}", f"{b / a:.0f}x"])
    print_table(
        "Speed: milliseconds a marginal, 500 test rows",
        ["learner", "data", "k", "dshapley", "fit + score", "ratio"], rows,
    )  # fmt: skip


def alike(folder: Path) -> None:
    """The same training sets for both, another one and another random state each time."""
    rows = []
    for name, estimator, n_seeds in ALIKE:
        for data in TARGETS:
            database, test = table_of(folder, data, n_test=500)
            fast = ds.potential(estimator, test=test, retrain="never")
            refit = ds.potential(estimator, test=test, retrain="always")
            for k in SIZES:
                n = n_seeds if k == SIZES[0] or n_seeds > 100 else n_seeds // 2
                scores = np.empty((n, 2))
                for seed in range(n):
                    S = database.sample(k, np.random.default_rng(seed))
                    scores[seed] = fast.seeded(seed)(S), refit.seeded(seed)(S)
                ours, theirs = scores.T
                gap, error = (ours - theirs).mean(), (ours - theirs).std(ddof=1) / np.sqrt(n)
                rows.append([
                    name, data, str(k), str(n), f"{ours.mean():.4f}", f"{theirs.mean():.4f}",
                    f"{gap:+.4f} +- {error:.4f}", f"{ours.std(ddof=1):.4f}",
                    f"{theirs.std(ddof=1):.4f}", f"{np.mean(ours == theirs):.0%}",
                ])  # fmt: skip
    print_table(
        "Alike: test accuracy over training sets and seeds",
        ["learner", "data", "k", "seeds", "dshapley", "scikit-learn", "difference",
         "spread", "theirs", "equal"], rows,
    )  # fmt: skip


def coupling(folder: Path) -> None:
    """The variance over seeds of one marginal, the mean over z; S and z fixed."""
    database, test = table_of(folder, "covertype", n_test=500)
    Z = database.take(range(20))
    rows = []
    for name, estimator in (
        ("random forest", RandomForestClassifier()),
        ("extra-trees", ExtraTreesClassifier()),
    ):
        U = ds.potential(estimator, test=test, retrain="never")
        for k in SIZES:
            S = database.take(range(1000, 1000 + k - 1))
            coupled = np.array([U.seeded(seed).marginals(S, Z) for seed in range(N_SEEDS)])
            apart = np.array([
                U.seeded(seed).marginals(S, Z) + U.seeded(seed)(S) - U.seeded(10**6 + seed)(S)
                for seed in range(N_SEEDS)
            ])  # fmt: skip
            a, b = coupled.var(axis=0, ddof=1).mean(), apart.var(axis=0, ddof=1).mean()
            refit = ds.potential(estimator, test=test, retrain="always")
            few = Z.take(range(3))
            theirs = np.array([refit.seeded(seed).marginals(S, few) for seed in range(20)])
            c = theirs.var(axis=0, ddof=1).mean()
            rows.append(
                [name, str(k), f"{a:.2e}", f"{b:.2e}", f"{c:.2e}", f"{b / a:.1f}x", f"{c / a:.1f}x"]
            )
    print_table(
        "Coupling: variance of a marginal over random states (covertype)",
        ["learner", "k", "coupled", "other seeds", "scikit-learn, same random_state",
         "saved", "saved to scikit-learn"], rows,
    )  # fmt: skip


def permutations(folder: Path) -> None:
    """TMC-Shapley of 200 points with a forest, on two processes."""
    database, test = table_of(folder, "covertype", n_test=500)
    U = ds.potential(RandomForestClassifier(), test=test)
    start = time.perf_counter()
    points = database.take(range(200))
    found = ds.data_shapley.tmc(U, points, permutations=N_PERMUTATIONS, tolerance=0.0, n_jobs=2)
    minutes = (time.perf_counter() - start) / 60
    print(
        f"TMC-Shapley of 200 points of covertype, a forest of 100 trees, {N_PERMUTATIONS} "
        f"permutations, none cut, two processes: {minutes:.1f} minutes; the values add up to "
        f"{found.values.sum():.3f}"
    )


def main(folder: Path) -> None:
    warnings.filterwarnings("ignore", module="sklearn")
    with threadpoolctl.threadpool_limits(1):
        speed(folder)
        coupling(folder)
        permutations(folder)
        alike(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
