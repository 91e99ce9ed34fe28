"""What the refit path costs over bare scikit-learn: fit + score on the same S + z, one core."""

from __future__ import annotations

from typing import Any

import numpy as np
import threadpoolctl
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dshapley as ds
from benchmarks.setting import alternate, print_table, synthetic

N_POINTS = 50


def bare(model: Any, S: ds.Points, Z: ds.Points, test: ds.Points) -> list[float]:
    """The loop a person would write."""
    scores = []
    for i in range(-1, len(Z)):
        X = np.concatenate([S.X, Z.X[i : i + 1]]) if i >= 0 else S.X
        assert S.y is not None
        assert Z.y is not None
        y = np.concatenate([S.y, Z.y[i : i + 1]]) if i >= 0 else S.y
        scores.append(model.fit(X, y).score(test.X, test.y))
    return scores


def main() -> None:
    database, test = synthetic()
    Z = database.take(range(9_000, 9_000 + N_POINTS))
    rows = []
    models = {
        "logistic": LogisticRegression(),
        "naive Bayes": GaussianNB(),
        "tree": DecisionTreeClassifier(max_depth=3),
    }
    with threadpoolctl.threadpool_limits(1):
        for name, model in models.items():
            U = ds.potential(model, test=test, retrain="always")
            for k in (20, 100, 500, 1000, 2500):
                S = database.take(range(k - 1))

                def ours(U: ds.Potential = U, S: ds.Points = S) -> object:
                    return ds.marginals(U, S, Z)

                def theirs(model: Any = model, S: ds.Points = S) -> object:
                    return bare(model, S, Z, test)

                mine, plain = alternate(ours, theirs, repeats=7)
                each = 1e6 / (N_POINTS + 1)
                rows.append(
                    [name, str(k), f"{mine * each:.0f}", f"{plain * each:.0f}",
                     f"{mine / plain - 1:+.1%}"]
                )  # fmt: skip
    print_table(
        "Refitting: microseconds a marginal (100 features, 2,000 test rows, one core)",
        ["model", "k", "dshapley", "scikit-learn", "overhead"],
        rows,
    )


if __name__ == "__main__":
    main()
