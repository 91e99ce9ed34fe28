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
    "AdaBoostClassifier": "boosting",
    "BernoulliNB": "naive_bayes",
    "DecisionTreeClassifier": "forest",
    "DecisionTreeRegressor": "forest",
    "ExtraTreesClassifier": "forest",
    "ExtraTreesRegressor": "forest",
    "RandomForestClassifier": "forest",
    "RandomForestRegressor": "forest",
    "GaussianNB": "naive_bayes",
    "GradientBoostingClassifier": "boosting",
    "GradientBoostingRegressor": "boosting",
    "LinearDiscriminantAnalysis": "discriminant",
    "QuadraticDiscriminantAnalysis": "quadratic",
    "NearestCentroid": "centroid",
    "MultinomialNB": "naive_bayes",
    "KNeighborsClassifier": "nearest",
    "KNeighborsRegressor": "nearest",
    "KernelRidge": "kernel_ridge",
    "LinearRegression": "ridge",
    "Ridge": "ridge",
    "RidgeClassifier": "ridge",
    "LogisticRegression": "logistic",
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
