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

__all__ = [
    "METRICS",
    "Metric",
    "Output",
    "RocAucWithout",
    "SomeRows",
    "WithoutGroup",
    "as_metric",
    "range_of",
]

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


@dataclass(frozen=True, eq=False)
class SomeRows:
    """A score that looks at some of the test rows only."""

    score: Callable[[Array, Array], Floats]
    rows: Array

    def __call__(self, y: Array, outputs: Array) -> Floats:
        """One score for each row of outputs, which are left as they are."""
        return self.score(y[self.rows], np.take(outputs, self.rows, axis=1))


class RocAucWithout:
    """The area under the ROC curve without each of several groups of test rows, from one ranking.

    The area counts the pairs of a positive and a negative row that are in order. Without a group
    they are all pairs, less those whose positive is in the group, less those whose negative is,
    plus those of which both are. Counts are whole and half numbers, so each area is, to the last
    bit, `roc_auc` of the rows outside the group.

    >>> y, scores = np.array([0, 1, 0, 1, 1]), np.array([[1.0, 2.0, 3.0, 3.0, 0.0]])
    >>> groups = RocAucWithout(np.array([0, 0, 1, 1, 2]))
    >>> groups(y, np.stack([-scores, scores], axis=2)).tolist()
    [[0.25, 0.5, 0.625]]
    """

    def __init__(self, of: Array) -> None:
        self._of = of
        self._latest: tuple[Array, Floats] | None = None

    def __call__(self, y: Array, scores: Array) -> Floats:
        """(r, groups) the areas; those of the latest scores are kept for the next group."""
        latest = self._latest
        if latest is None or latest[0] is not scores:
            classes = np.unique(y)
            chosen = classes[1:] if len(classes) == 2 else classes
            areas = [self._areas(y == c, scores[:, :, c]) for c in chosen]
            latest = self._latest = scores, np.mean(areas, axis=0)
        return latest[1]

    def _areas(self, positive: Array, scores: Array) -> Floats:
        inside = self._of[:, np.newaxis] == np.arange(self._of.max() + 1)
        pairs = _ranks(scores)  # less its own kind: the rows of the other kind below
        for kind in (positive, ~positive):
            pairs[:, kind] -= _ranks(scores[:, kind])
        pairs[:, ~positive] = positive.sum() - pairs[:, ~positive]  # the positive rows above
        total = pairs[:, positive].sum(axis=1, keepdims=True)
        lost = pairs @ inside.astype(np.float64)
        n_pos, n_neg = (
            (kind[:, np.newaxis] & inside).sum(axis=0) for kind in (positive, ~positive)
        )
        for g in range(inside.shape[1]):
            rows = np.flatnonzero(inside[:, g])
            within = _ranks(scores[:, rows])[:, positive[rows]].sum(axis=1)
            lost[:, g] -= within - n_pos[g] * (n_pos[g] + 1) / 2
        rest = (n_pos.sum() - n_pos) * (n_neg.sum() - n_neg)
        return np.asarray((total - lost) / rest, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class WithoutGroup:
    """The score without one group of test rows, from a function that finds those of all groups."""

    scores: RocAucWithout
    group: int

    def __call__(self, y: Array, outputs: Array) -> Floats:
        """One score for each row of outputs, which are left as they are."""
        return self.scores(y, outputs)[:, self.group]


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
    classes = np.unique(y)
    chosen = classes[1:] if len(classes) == 2 else classes
    areas = []
    for c in chosen:
        positive = y == c
        n_pos, n_neg = positive.sum(), (~positive).sum()
        ranks = _ranks(scores[:, :, c])
        rank_sum = ranks[:, positive].sum(axis=1)
        areas.append((rank_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))
    return np.mean(areas, axis=0)


def _ranks(scores: Floats) -> Floats:
    """(r, n) the ranks 1 to n along each row; equal scores share their mean rank.

    A row with NaN has no ranks. scipy's `rankdata` takes twice as long if no scores are equal.
    """
    n = scores.shape[1]
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    differs = ordered[:, 1:] != ordered[:, :-1]
    places = np.arange(n, dtype=np.int32)
    middle: Floats = np.broadcast_to(places + 1.0, scores.shape)
    if not differs.all():
        first, last = np.zeros(scores.shape, np.int32), np.full(scores.shape, n - 1, np.int32)
        first[:, 1:] = np.where(differs, places[1:], 0)
        last[:, :-1] = np.where(differs, places[:-1], n - 1)
        np.maximum.accumulate(first, axis=1, out=first)
        last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        middle = np.asarray(0.5 * (first + last) + 1.0, dtype=np.float64)
    ranks = np.empty(scores.shape)
    np.put_along_axis(ranks, order, middle, axis=1)
    ranks[np.isnan(scores).any(axis=1)] = np.nan
    return ranks


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
