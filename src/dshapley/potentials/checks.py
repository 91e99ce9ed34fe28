"""Points and metrics that no model could be trained or scored on: errors before the first draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshapley.data.points import Array, Points
from dshapley.errors import InputError
from dshapley.metrics import Metric

__all__ = [
    "check_columns",
    "check_finite",
    "check_labels",
    "check_metric",
    "check_numbers",
    "check_test",
]


def check_columns(points: Points, test: Points, *, name: str) -> None:
    """Both are arrays or both data frames, with the same columns."""
    if isinstance(points.X, np.ndarray) != isinstance(test.X, np.ndarray):
        raise InputError(f"{name} and test must both be arrays or both be data frames")
    if points.X.shape[1] != test.X.shape[1]:
        raise InputError(
            f"{name} has {points.X.shape[1]} columns but the test set has {test.X.shape[1]}"
        )
    if points.columns != test.columns:
        ours = next(a for a, b in zip(points.columns, test.columns, strict=True) if a != b)
        raise InputError(f"{name} and test have other columns, or in another order: see {ours!r}")


def check_finite(points: Points, *, name: str, nan_allowed: bool) -> None:
    """No infinite number; none missing, unless the model takes them."""
    X = points.X
    if isinstance(X, np.ndarray):
        if X.dtype.kind not in "fc":
            return
        missing, infinite = np.isnan(X).any(axis=0), np.isinf(X).any(axis=0)
    else:
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        missing = np.array([bool(column.isna().any()) for column in columns])
        infinite = np.array(
            [column.dtype.kind == "f" and bool(np.isinf(column).any()) for column in columns]
        )
    for bad, what in ((infinite, "infinity"), (missing & (not nan_allowed), "NaN")):
        if bad.any():
            column = points.columns[int(np.flatnonzero(bad)[0])]
            raise InputError(
                f"{name} has {what} in column {column}"
                + (f" and {bad.sum() - 1} more" if bad.sum() > 1 else "")
                + ": fill it in, or use an estimator that accepts it, such as a pipeline with an "
                "imputer"
            )


def check_numbers(points: Points, *, name: str) -> None:
    """A fast learner reads columns of numbers only."""
    for j, column in enumerate(points.columns):
        part = points.X[:, j] if isinstance(points.X, np.ndarray) else points.X.iloc[:, j]
        try:
            np.asarray(part, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{name}: column {column} holds more than numbers ({error}): encode it, or give a "
                "pipeline that does"
            ) from error


def check_labels(y: Array, test: Array, *, name: str, classification: bool) -> None:
    """Labels are of the kind that the task and the test set ask for."""
    if not classification and y.dtype.kind not in "iufb":
        raise InputError(f"{name}: a regressor needs numbers for y, not {y.dtype}")
    if classification and y.dtype.kind == "f" and (y != np.round(y)).any():
        raise InputError(
            f"{name}: y holds fractions, which are no class labels: use a regressor, or cut y "
            "into classes"
        )
    if (y.dtype.kind in "US") != (test.dtype.kind in "US"):
        raise InputError(
            f"the labels of {name} are {'text' if y.dtype.kind in 'US' else 'numbers'} and those "
            "of the test set are not: give both in one kind"
        )


def check_metric(metric: Metric, estimator: Any, *, classification: bool) -> None:
    """The metric and the model are for the same task, and the model gives what it reads."""
    task = "classification" if classification else "regression"
    kind = type(estimator).__name__
    if metric.task not in (task, "any"):
        raise InputError(f"{metric.name} is a metric for {metric.task}, but {kind} does {task}")
    if not classification and metric.output != "prediction":
        raise InputError(f"{metric.name} scores classes, but {kind} does regression")
    if not hasattr(estimator, "predict"):
        return  # some estimators get their methods by being fitted
    if metric.output == "probability" and not hasattr(estimator, "predict_proba"):
        raise InputError(f"{metric.name} needs probabilities, which {kind} does not give")
    if metric.output == "score" and not any(
        hasattr(estimator, name) for name in ("predict_proba", "decision_function")
    ):
        raise InputError(f"{metric.name} needs scores, which {kind} does not give")


def check_test(metric: Metric, y: Array, *, classification: bool) -> None:
    """The metric says something of these test labels."""
    if metric.output == "score" and len(np.unique(y)) < 2:
        raise InputError(f"{metric.name} is not defined on a test set of one class")
    if not classification and len(np.unique(y)) < 2:
        raise InputError("the test set's y is constant: no regression can be scored on it")
