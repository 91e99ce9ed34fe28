"""pyDVL's side, in the environment of `make bench-peers`: Data-OOB and kNN-Shapley."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydvl.valuation import DataOOBValuation, Dataset, KNNShapleyValuation
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.labels.score_files import Array, Method, main

N_NEIGHBOURS = 5
"""The default of scikit-learn's classifier; 10 was a little worse on the pilot seeds."""


def data_oob(bagged: Any) -> Method:
    """Data-OOB with its default score, the share of out-of-bag models that give the label."""

    def scores(X: Array, y: Array) -> Mapping[str, Array]:
        valuation = DataOOBValuation(bagged.fit(X, y)).fit(Dataset(X, y))
        return {"value": -np.asarray(valuation.result.values)}

    return scores


def knn_shapley(X: Array, y: Array) -> Mapping[str, Array]:
    """kNN-Shapley. It needs test rows: each fifth of the rows in turn, with its noisy labels.

    A row's value is its mean over the four fifths that it is not in.
    """
    values = np.zeros(len(y))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        valuation = KNNShapleyValuation(
            KNeighborsClassifier(N_NEIGHBOURS), Dataset(X[test], y[test]), progress=False
        )
        values[train] += valuation.fit(Dataset(X[train], y[train])).result.values
    return {"value": -values / 4}


METHODS = {
    "oob_logistic": data_oob(
        BaggingClassifier(LogisticRegression(max_iter=1000), 60, random_state=0)
    ),
    "oob_forest": data_oob(RandomForestClassifier(300, random_state=0)),
    "knn_shapley": knn_shapley,
}

if __name__ == "__main__":
    main("pydvl", METHODS)
