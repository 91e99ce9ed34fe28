"""Which learner answers for an estimator."""

from __future__ import annotations

import importlib
from functools import singledispatch
from typing import Any

from dshapley.learners.fast import Fast, UnsupportedError
from dshapley.learners.protocol import Learner
from dshapley.learners.refit import Refit

__all__ = ["FAMILIES", "learner"]

FAMILIES: dict[str, str] = {
    "AdaBoostClassifier": "trees.boosting",
    "BernoulliNB": "bayes.naive_bayes",
    "DecisionTreeClassifier": "trees.forest",
    "DecisionTreeRegressor": "trees.forest",
    "ExtraTreesClassifier": "trees.forest",
    "ExtraTreesRegressor": "trees.forest",
    "RandomForestClassifier": "trees.forest",
    "RandomForestRegressor": "trees.forest",
    "GaussianNB": "bayes.naive_bayes",
    "GradientBoostingClassifier": "trees.boosting",
    "GradientBoostingRegressor": "trees.boosting",
    "LinearDiscriminantAnalysis": "bayes.discriminant",
    "QuadraticDiscriminantAnalysis": "bayes.quadratic",
    "NearestCentroid": "bayes.centroid",
    "MultinomialNB": "bayes.naive_bayes",
    "KNeighborsClassifier": "neighbours.nearest",
    "KNeighborsRegressor": "neighbours.nearest",
    "KernelRidge": "linear.kernel_ridge",
    "LinearRegression": "linear.ridge",
    "Ridge": "linear.ridge",
    "RidgeClassifier": "linear.ridge",
    "LogisticRegression": "logistic.learner",
}
"""scikit-learn's estimators that need no refitting -> the module of their family."""


@singledispatch
def learner(estimator: Any) -> Learner:
    """The learner that answers for `estimator`.

    Without retraining where its very type is known (a subclass may do anything) and its
    parameters are supported, and by refitting otherwise. `learner.register` adds your own.
    """
    kind = type(estimator)
    if not kind.__module__.startswith("sklearn.") or kind.__name__ not in FAMILIES:
        return Refit(estimator)
    # The families need scikit-learn and numba, which take long to import: only when asked for.
    module = importlib.import_module(f"dshapley.learners.{FAMILIES[kind.__name__]}")
    try:
        _check_parameters(estimator)
        return Fast(estimator, module.family(estimator))
    except UnsupportedError as unsupported:
        return Refit(estimator, reason=f"{kind.__name__}: {unsupported}")


def _check_parameters(estimator: Any) -> None:
    """Leave an estimator that scikit-learn itself refuses to its own error message."""
    try:
        estimator._validate_params()
    except ValueError as error:
        raise UnsupportedError(str(error)) from error
