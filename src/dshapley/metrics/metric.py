"""Metrics: functions (y, outputs) -> one score for each row of outputs.

A row of outputs holds what one trained model outputs for the whole test set, so one call scores
many models. Higher scores are better, and all metrics except R2 lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import InputError, nearest

__all__ = ["METRICS", "Metric", "Output", "as_metric", "range_of"]

Output: TypeAlias = Literal["label", "probability", "score", "decision", "prediction"]
"""The kind of output that a metric scores, for the n test rows and stacked over r models:

- label: (r, n) codes of the predicted classes, -1 for a class that is not in the test set;
- probability: (r, n, c) with the classes of the test set first;
- score: (r, n, c) decision values or probabilities, of which only the order matters;
- decision: (r, n, c) decision values, for scorers that need them for three or more classes;
- prediction: (r, n) what `predict` returns, labels or numbers as they are.
"""


@dataclass(frozen=True)
class Metric:
    """A named score and the kind of output that it needs.

    `score(y, outputs)` returns one score for each row of outputs. It gets y as codes 0..c-1, but if
    `output` is "prediction" it gets y as the user gave it.
    """

    name: str
    output: Output
    score: Callable[[Array, Array], Floats]
    _: KW_ONLY
    task: Literal["classification", "regression", "any"] = "any"
    mean_of_rows: bool = False
    """Whether the score is a mean over the test rows, so that it is defined for any test labels."""


def accuracy(y: Array, labels: Array) -> Floats:
    """The share of test rows whose class is predicted correctly."""
    right = labels == y.astype(labels.dtype)
    # Counting packed bits is four times as fast as a mean of booleans along an axis.
    return np.bitwise_count(np.packbits(right, axis=1)).sum(axis=1, dtype=np.int64) / len(y)


def balanced_accuracy(y: Array, labels: Array) -> Floats:
    """The mean, over the classes of the test set, of the share of rows predicted correctly."""
    right = labels == y
    return np.mean([right[:, y == c].mean(axis=1) for c in np.unique(y)], axis=0)


def f1(y: Array, labels: Array) -> Floats:
    """F1 of the second class (in sorted order) for two classes, else the mean F1 over the classes.

    The classes are those of the test labels.
    """
    classes = np.unique(y)
    chosen = classes[1:] if len(classes) == 2 else classes
    scores = []
    for c in chosen:
        predicted, actual = labels == c, y == c
        both = (predicted & actual).sum(axis=1)
        either = predicted.sum(axis=1) + actual.sum()
        scores.append(2.0 * both / np.maximum(either, 1))
    return np.mean(scores, axis=0)


def roc_auc(y: Array, scores: Array) -> Floats:
    """The area under the ROC curve; for three or more classes the mean of one against the rest.

    Ties count one half, so a constant predictor scores 1/2.
    """
    from scipy.stats import rankdata

    classes = np.unique(y)
    chosen = classes[1:] if len(classes) == 2 else classes
    areas = []
    for c in chosen:
        positive = y == c
        n_pos, n_neg = positive.sum(), (~positive).sum()
        ranks = rankdata(scores[:, :, c], axis=1)
        rank_sum = ranks[:, positive].sum(axis=1)
        areas.append((rank_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))
    return np.mean(areas, axis=0)


def log_score(y: Array, probabilities: Array, *, floor: float = 1e-3) -> Floats:
    """1 + mean log p(y) / log(1/floor), with p clipped below at `floor`; it lies in [0, 1].

    The plain log score is unbounded, so one confident mistake could outweigh all other test rows.
    """
    p = np.maximum(probabilities[:, np.arange(len(y)), y], floor)
    return np.asarray(1.0 - np.log(p).mean(axis=1) / np.log(floor), dtype=np.float64)


def brier(y: Array, probabilities: Array) -> Floats:
    """1 - half the mean squared distance of the probabilities from the true class, in [0, 1]."""
    p_true = probabilities[:, np.arange(len(y)), y]
    distance = (probabilities**2).sum(axis=2) - 2.0 * p_true + 1.0
    return np.asarray(1.0 - 0.5 * distance.mean(axis=1), dtype=np.float64)


def r2(y: Array, predictions: Array) -> Floats:
    """The share of the test labels' variance that is explained; it has no lower bound."""
    return np.asarray(1.0 - ((predictions - y) ** 2).mean(axis=1) / y.var(), dtype=np.float64)


def neg_mse(y: Array, predictions: Array) -> Floats:
    """1 - mean of min(squared error / (4 var(y)), 1), which lies in [0, 1].

    A row that is off by more than two standard deviations counts as fully wrong, so that one
    extreme prediction of a model trained on three points cannot outweigh everything else.
    """
    error = (predictions - y) ** 2 / (4.0 * y.var())
    return np.asarray(1.0 - np.minimum(error, 1.0).mean(axis=1), dtype=np.float64)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "label", accuracy, task="classification", mean_of_rows=True),
        Metric("balanced_accuracy", "label", balanced_accuracy, task="classification"),
        Metric("f1", "label", f1, task="classification"),
        Metric("roc_auc", "score", roc_auc, task="classification"),
        Metric("log_score", "probability", log_score, task="classification", mean_of_rows=True),
        Metric("brier", "probability", brier, task="classification", mean_of_rows=True),
        Metric("r2", "prediction", r2, task="regression"),
        Metric("neg_mse", "prediction", neg_mse, task="regression"),
    )
}


def range_of(name: object) -> tuple[float, float] | None:
    """The lowest and the highest possible score by this metric; None if it is not one of ours.

    >>> range_of("accuracy"), range_of("r2"), range_of("f1_macro")
    ((0.0, 1.0), (-inf, 1.0), None)
    """
    if name not in METRICS:
        return None
    return (-np.inf if name == "r2" else 0.0), 1.0


def as_metric(metric: str | Metric | Callable[[Array, Array], float]) -> Metric:
    """A metric by name, or from any function (y, predictions) -> float.

    >>> as_metric("accuracy").output
    'label'
    >>> as_metric(lambda y, predictions: -abs(y - predictions).max()).output
    'prediction'
    """
    if isinstance(metric, Metric):
        return metric
    if callable(metric):
        name = getattr(metric, "__qualname__", type(metric).__name__)
        return Metric(name, "prediction", partial(_rowwise, metric))
    if metric not in METRICS:
        raise InputError(f"unknown metric {metric!r}: {nearest(metric, METRICS)}")
    return METRICS[metric]


def _rowwise(function: Callable[[Array, Array], Any], y: Array, predictions: Array) -> Floats:
    return np.array([float(function(y, row)) for row in predictions])
