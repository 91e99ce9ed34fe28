"""Choose the learner for an estimator."""

from __future__ import annotations

import importlib
from functools import singledispatch
from typing import Any

from dshapley.learners.fast import Fast, UnsupportedError
from dshapley.learners.protocol import Learner
from dshapley.learners.refit import Refit

__all__ = ["FAMILY_MODULES", "learner"]

FAMILY_MODULES: dict[str, str] = {
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
"""The scikit-learn estimators with a fast learner -> the module of their family."""


@singledispatch
def learner(estimator: Any) -> Learner:
    """The learner for `estimator`.

    It does not retrain if the estimator is of exactly a known type (a subclass may do anything)
    with supported parameters; otherwise it retrains. `learner.register` adds learners of your own.
    """
    kind = type(estimator)
    if not kind.__module__.startswith("sklearn.") or kind.__name__ not in FAMILY_MODULES:
        return Refit(estimator)
    # Import a family only when it is needed: scikit-learn and numba take long to import.
    module = importlib.import_module(f"dshapley.learners.{FAMILY_MODULES[kind.__name__]}")
    try:
        _check_parameters(estimator)
        return Fast(estimator, module.family(estimator))
    except UnsupportedError as unsupported:
        return Refit(estimator, reason=f"{kind.__name__}: {unsupported}")


def _check_parameters(estimator: Any) -> None:
    """Raise an UnsupportedError for parameters that scikit-learn refuses.

    The estimator is then retrained, so that the user sees scikit-learn's own error message.
    """
    try:
        estimator._validate_params()
    except ValueError as error:
        raise UnsupportedError(str(error)) from error
