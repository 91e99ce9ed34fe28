"""Checks of points, labels and metrics that raise an InputError before the first draw."""

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
    """Raise an InputError unless both are arrays or both data frames, with the same columns."""
    if isinstance(points.X, np.ndarray) != isinstance(test.X, np.ndarray):
        raise InputError(f"{name} and test must both be arrays or both be data frames: convert one")
    if points.X.shape[1] != test.X.shape[1]:
        raise InputError(
            f"{name} has {points.X.shape[1]} columns but the test set has {test.X.shape[1]}: give "
            "both the same columns"
        )
    if points.columns != test.columns:
        ours = next(a for a, b in zip(points.columns, test.columns, strict=True) if a != b)
        raise InputError(
            f"the columns of {name} differ from the test set's, starting at {ours!r}: give both "
            "the same columns in the same order"
        )


def check_finite(points: Points, *, name: str, nan_allowed: bool) -> None:
    """Raise an InputError for infinite numbers, and for missing ones unless `nan_allowed`."""
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
                + ": replace it, or use an estimator that accepts it, such as a pipeline with an "
                "imputer"
            )


def check_numbers(points: Points, *, name: str) -> None:
    """Raise an InputError for columns that are not numbers, which fast learners cannot read."""
    for j, column in enumerate(points.columns):
        part = points.X[:, j] if isinstance(points.X, np.ndarray) else points.X.iloc[:, j]
        try:
            np.asarray(part, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{name}: column {column} holds values that are not numbers ({error}): encode it, "
                "or use a pipeline that encodes it"
            ) from error


def check_labels(y: Array, test: Array, *, name: str, classification: bool) -> None:
    """Raise an InputError for labels that do not fit the task or the kind of the test labels."""
    if not classification and y.dtype.kind not in "iufb":
        raise InputError(f"{name}: a regressor needs numbers for y, not {y.dtype}")
    if classification and y.dtype.kind == "f" and (y != np.round(y)).any():
        raise InputError(
            f"{name}: y holds fractions, which are not class labels: use a regressor, or cut y "
            "into classes"
        )
    if (y.dtype.kind in "US") != (test.dtype.kind in "US"):
        raise InputError(
            f"the labels of {name} are {'text' if y.dtype.kind in 'US' else 'numbers'} but those "
            "of the test set are not: give both as text or both as numbers"
        )


def check_metric(metric: Metric, estimator: Any, *, classification: bool) -> None:
    """Raise an InputError if the metric does not fit the task or needs outputs the model lacks."""
    task = "classification" if classification else "regression"
    kind = type(estimator).__name__
    if metric.task not in (task, "any"):
        raise InputError(
            f"{metric.name} is a metric for {metric.task}, but {kind} does {task}: use a metric "
            f"for {task}"
        )
    if not classification and metric.output != "prediction":
        raise InputError(
            f"{metric.name} scores classes, but {kind} does regression: use a metric for regression"
        )
    if not hasattr(estimator, "predict"):
        return  # some estimators get their methods only when they are fitted
    if metric.output == "probability" and not hasattr(estimator, "predict_proba"):
        raise InputError(
            f"{metric.name} needs probabilities, which {kind} does not give: use a different "
            "metric or model"
        )
    if metric.output == "score" and not any(
        hasattr(estimator, name) for name in ("predict_proba", "decision_function")
    ):
        raise InputError(
            f"{metric.name} needs scores, which {kind} does not give: use a different metric or "
            "model"
        )


def check_test(metric: Metric, y: Array, *, classification: bool) -> None:
    """Raise an InputError if the metric is not defined for these test labels."""
    if metric.output == "score" and len(np.unique(y)) < 2:
        raise InputError(
            f"{metric.name} is not defined on a test set of one class: add rows of another class"
        )
    if not classification and len(np.unique(y)) < 2:
        raise InputError(
            "the test set's y is constant, so a regression cannot be scored on it: add test rows"
        )
