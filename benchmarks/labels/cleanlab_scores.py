"""cleanlab's side, in an environment of its own.

As its tutorials for tables do: out-of-sample probabilities by `cross_val_predict` with five folds,
then its label quality scores. Extremely randomised trees are the model of its older tutorial. They
did better on the pilot seeds than HistGradientBoostingClassifier, the model of the newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from cleanlab.data_valuation import data_shapley_knn
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from benchmarks.labels.score_files import Array, Method, main


def quality(model: Any) -> Method:
    """Label quality scores from a model's out-of-sample probabilities.

    - "default": `get_label_quality_scores`, whose default method is self-confidence
    - "margin": the same with method="normalized_margin"
    - "issues": the rows of `find_label_issues` first, the most severe first, then the others by
      self-confidence
    """

    def scores(X: Array, y: Array) -> Mapping[str, Array]:
        p = cross_val_predict(model, X, y, cv=5, method="predict_proba")
        default = -get_label_quality_scores(y, p)
        return {
            "default": default,
            "margin": -get_label_quality_scores(y, p, method="normalized_margin"),
            "issues": default + 2.0 * find_label_issues(y, p),
        }

    return scores


def knn_shapley(X: Array, y: Array) -> Mapping[str, Array]:
    """kNN-Shapley with each row tested on the others; k = 10 and the distance are its defaults."""
    return {"value": -np.asarray(data_shapley_knn(y, features=X))}


METHODS = {
    "logistic": quality(LogisticRegression(max_iter=1000)),
    "extra_trees": quality(ExtraTreesClassifier(200, random_state=0)),
    "knn_shapley": knn_shapley,
}

if __name__ == "__main__":
    main("cleanlab", METHODS)
