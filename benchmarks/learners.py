"""Marginals without retraining: how fast, against scikit-learn's fit + score, and how exact.

One core. Ours is U(S + z) - U(S) for all z of Z together, over the number of z. Theirs is fit +
score on the same S + z. The difference is the largest, over some z, of our marginal from that of a
refit solved to 1e-10.

Two of the three data sets are not part of this repository. `python -m benchmarks.learners FOLDER`
finds them in a folder with `adult.parquet` (48,842 rows; the original columns, target `income`)
and `cifar10_resnet50.npz` (X: 60,000 x 256 features, y, split: 0 for train, 1 for test).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import threadpoolctl
from sklearn.base import clone
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestCentroid

import dshapley as ds
from benchmarks.setting import adult, cifar10, print_table, synthetic

REPEATS = 5
N_COMPARED = 12
"""z that scikit-learn is timed on, and whose marginals are compared."""


@dataclass(frozen=True)
class Case:
    """A learner on some data: which metric, which sizes."""

    name: str
    estimator: Any
    metric: str = "accuracy"
    tight: dict[str, Any] = field(default_factory=dict)
    """Parameters that make a refit exact."""
    smallest: int = 1
    """The smallest k that scikit-learn itself can be trained on."""
    tables: bool = False
    """Whether it makes tables of the database, once it has seen enough of it."""


NEWTON = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 10_000}

TWO_CLASSES = [
    Case("logistic", LogisticRegression(max_iter=1000), tight=NEWTON),
    Case("ridge, r2", Ridge(), "r2"),
    Case("ridge, neg_mse", Ridge(), "neg_mse"),
    Case("ridge classifier", RidgeClassifier()),
    Case("kNN", KNeighborsClassifier(), tables=True),
    Case("kNN by distance", KNeighborsClassifier(weights="distance"), tables=True),
    Case("naive Bayes", GaussianNB()),
    Case("LDA", LinearDiscriminantAnalysis()),
    Case("LDA, shrunk", LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)),
    Case("QDA", QuadraticDiscriminantAnalysis(reg_param=0.1), smallest=500),
    Case("nearest centroid", NearestCentroid()),
    Case("Bernoulli NB", BernoulliNB()),
    Case("linear, r2", LinearRegression(), "r2"),
    Case("kNN numbers, r2", KNeighborsRegressor(), "r2", tables=True),
    Case("kernel ridge, r2", KernelRidge(kernel="rbf"), "r2"),
]

ONE_HOT = [
    *(case for case in TWO_CLASSES if case.name in
      ("logistic", "ridge classifier", "kNN", "naive Bayes", "nearest centroid", "Bernoulli NB")),
    Case("multinomial NB", MultinomialNB()),
]  # fmt: skip

MANY_CLASSES = [
    Case("softmax", LogisticRegression(max_iter=1000), tight={"tol": 1e-10, "max_iter": 100_000}),
    Case("ridge classifier", RidgeClassifier()),
    Case("kNN", KNeighborsClassifier(), tables=True),
    Case("naive Bayes", GaussianNB()),
    Case("nearest centroid", NearestCentroid()),
]


def measure(case: Case, database: ds.Points, test: ds.Points, Z: ds.Points, k: int) -> list[float]:
    """Microseconds a marginal, of ours and of scikit-learn's, and the largest difference."""
    rng = np.random.default_rng(k)
    S = database.sample(k - 1, rng)
    U = ds.potential(case.estimator, test=test, metric=case.metric, retrain="never")
    exact = clone(case.estimator).set_params(**case.tight)
    refit = ds.potential(exact, test=test, metric=case.metric, retrain="always")
    if case.tables:
        for _ in range(5):
            U(database.sample(len(database) // 4, rng))
    some = Z.take(range(N_COMPARED))
    gains = U.marginals(S, Z)
    difference = np.abs(gains[:N_COMPARED] - refit.marginals(S, some)).max()
    ours, theirs = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        U.marginals(S, Z)
        ours.append((time.perf_counter() - start) / len(Z))
        for z in some.take(range(3)):
            T = S + z
            start = time.perf_counter()
            case.estimator.fit(T.X, T.y).score(test.X, test.y)
            theirs.append(time.perf_counter() - start)
    return [1e6 * median(ours), 1e6 * median(theirs), float(difference)]


def table(
    title: str, cases: Sequence[Case], database: ds.Points, test: ds.Points, Z: ds.Points,
    sizes: Sequence[int],
) -> None:  # fmt: skip
    rows = []
    for case in cases:
        ratios = []
        for k in sizes:
            if k < case.smallest:
                continue
            ours, theirs, difference = measure(case, database, test, Z, k)
            ratios.append(theirs / ours)
            rows.append(
                [case.name, str(k), f"{ours:.1f}", f"{theirs:.0f}", f"{ratios[-1]:.0f}x",
                 f"{difference:.0e}" if difference else "0"]
            )  # fmt: skip
        rows.append([case.name, "mean", "", "", f"{geometric_mean(ratios):.0f}x", ""])
    print_table(
        title, ["learner", "k", "dshapley us", "fit + score us", "ratio", "difference"], rows
    )


def main(folder: Path | None = None) -> None:
    warnings.filterwarnings("ignore", module="sklearn")
    with threadpoolctl.threadpool_limits(1):
        database, test = synthetic()
        table(
            "Synthetic data: 100 features, 2 classes, 2,000 test rows, |Z| = 500",
            TWO_CLASSES, database, test, database.take(range(9_500, 10_000)),
            (20, 100, 500, 1000, 2500),
        )  # fmt: skip
        if folder is None:
            print("Adult and CIFAR-10 are left out: name the folder that holds them")
            return
        database, test = adult(folder)
        table(
            f"Adult: {database.X.shape[1]} features, 2 classes, 5,000 test rows, |Z| = 1,000",
            ONE_HOT, database, test, database.take(range(39_000, 40_000)),
            (20, 100, 500, 1000, 2500, 5000),
        )  # fmt: skip
        database, test = cifar10(folder, n_test=2_000)
        table(
            "CIFAR-10: 256 features, 10 classes, 2,000 test rows, |Z| = 1,000",
            MANY_CLASSES, database, test, database.take(range(49_000, 50_000)), (50, 200, 1000),
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
