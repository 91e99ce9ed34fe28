"""Models by name, for the command line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from dshapley.data.targets import Task
from dshapley.errors import InputError, nearest

__all__ = ["MODELS", "model_from_name"]

MODELS: dict[str, dict[Task, tuple[str, dict[str, Any]]]] = {
    "logistic": {"classification": ("linear_model:LogisticRegression", {"max_iter": 1000})},
    "ridge": {
        "classification": ("linear_model:RidgeClassifier", {}),
        "regression": ("linear_model:Ridge", {}),
    },
    "linear": {"regression": ("linear_model:LinearRegression", {})},
    "knn": {
        "classification": ("neighbors:KNeighborsClassifier", {}),
        "regression": ("neighbors:KNeighborsRegressor", {}),
    },
    "naive_bayes": {"classification": ("naive_bayes:GaussianNB", {})},
    "svm": {
        "classification": ("svm:SVC", {}),
        "regression": ("svm:SVR", {}),
    },
    "tree": {
        "classification": ("tree:DecisionTreeClassifier", {}),
        "regression": ("tree:DecisionTreeRegressor", {}),
    },
    "forest": {
        "classification": ("ensemble:RandomForestClassifier", {}),
        "regression": ("ensemble:RandomForestRegressor", {}),
    },
    "adaboost": {
        "classification": ("ensemble:AdaBoostClassifier", {}),
        "regression": ("ensemble:AdaBoostRegressor", {}),
    },
    "boosting": {
        "classification": ("ensemble:GradientBoostingClassifier", {}),
        "regression": ("ensemble:GradientBoostingRegressor", {}),
    },
}
"""name -> task -> (class in scikit-learn, parameters that differ from scikit-learn's defaults)."""

_DEFAULT: dict[Task, str] = {"classification": "logistic", "regression": "ridge"}


def model_from_name(name: str, task: Task) -> Any:
    """The estimator for the task: a known name, "auto", or "module:factory".

    >>> model_from_name("forest", "regression")
    RandomForestRegressor()
    """
    if ":" in name:
        return _imported(name)
    name = _DEFAULT[task] if name == "auto" else name
    if name not in MODELS:
        raise InputError(
            f"unknown model {name!r}: {nearest(name, MODELS)} "
            "For a model of your own, give module:factory"
        )
    if task not in MODELS[name]:
        raise InputError(f"model {name!r} does not support {task}: try {_DEFAULT[task]!r}")
    where, parameters = MODELS[name][task]
    module, kind = where.split(":")
    return getattr(importlib.import_module(f"sklearn.{module}"), kind)(**parameters)


def _imported(name: str) -> Any:
    """The result of `module:factory`; the module may be in the current folder."""
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise InputError(
            f"--model {name}: module {module_name!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        raise InputError(f"--model {name}: {module_name} has no {attribute!r}")
    made = getattr(module, attribute)
    if isinstance(made, type) or not hasattr(made, "fit"):
        try:
            made = made()
        except (Exception, SystemExit) as error:  # a user's factory may raise anything
            raise InputError(f"--model {name} failed: {type(error).__name__}: {error}") from error
    return made
