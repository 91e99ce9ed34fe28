"""A scaler within every set, once on the database, and the bare model: time of a marginal."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dshapley as ds
from benchmarks.setting import alternate, print_table, synthetic

MODELS: list[Any] = [
    LogisticRegression(max_iter=1000),
    RidgeClassifier(),
    GaussianNB(),
    KNeighborsClassifier(),
    RandomForestClassifier(20),
]
SIZES = (10, 100, 500)
_FEW = 10  # marginals that are refitted


def main() -> None:
    database, test = synthetic()
    Z = database.take(range(1000, 1500))
    rows = []
    for model in MODELS:
        pipeline = make_pipeline(StandardScaler(), model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that each is slow
            ways = {
                "each": ds.potential(pipeline, test=test),
                "once": ds.potential(pipeline, test=test, preprocess="once", database=database),
                "bare": ds.potential(model, test=test),
            }
        for k in SIZES:
            S = database.take(range(k - 1))
            each, once = alternate(
                partial(ways["each"].marginals, S, Z.take(range(_FEW))),
                partial(ways["once"].marginals, S, Z),
                repeats=3,
            )
            again, bare = alternate(
                partial(ways["once"].marginals, S, Z),
                partial(ways["bare"].marginals, S, Z),
                repeats=3,
            )
            each, once, bare = each / _FEW, min(once, again) / len(Z), bare / len(Z)
            micro = [f"{1e6 * seconds:,.0f}" for seconds in (each, once, bare)]
            rows.append([type(model).__name__, str(k), *micro, f"{each / once:.0f}"])
    print_table(
        "Pipelines: microseconds a marginal",
        ["model", "k", "each", "once", "bare model", "each / once"],
        rows,
    )


if __name__ == "__main__":
    main()
