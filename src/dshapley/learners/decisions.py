"""Turn decision values into the outputs asked for, and refit models that rounding could change.

A label is certain if its class leads by more than the rounding error. An order of scores is certain
if no two rows of different classes are closer than the rounding error. All other models are
refitted: exact ties are common in discrete data, and there the last bit of scikit-learn's own sums
decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dshapley.data.points import Array, Floats, Points
from dshapley.learners.fast import Asked, Sample, Scored, double
from dshapley.learners.flips import Flips, as_labels
from dshapley.learners.protocol import Query
from dshapley.learners.refit import Refit

__all__ = ["Case", "Coefficients", "Models", "answers", "rounding"]

Bools = NDArray[np.bool_]

_EPSILON = float(np.finfo(np.float64).eps)

_LABELS, _VALUES = 4_000_000, 1_000_000
"""The most numbers in a block: coefficients if labels are asked for, decision values otherwise."""

_FAR = 40.0
"""A class that leads by this much has a probability of exactly 1 in double precision."""

_SLACK = 2e-10
"""The largest error of a mean of probabilities that is accepted without a refit."""

_NOTHING = 1e-7
"""Changes of at most this share of the largest change are counted as rounding error."""

_HUGE = 1e25
"""Larger coefficients come from variances that are zero except for rounding."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The coefficients W (r, c, p) of r models, each accurate to error * |W|.

    For two classes W may be (r, 1, p): the second class minus the first. An infinite error means
    that the coefficients are unknown.
    """

    W: Floats
    error: Floats


class Models(Protocol):
    """Models whose decision value for class c at test row j is T[j] @ W[c]."""

    @property
    def T(self) -> Floats:
        """(n, p) features of the test rows."""
        ...

    def alone(self) -> Coefficients:
        """The model trained on S, which has every class."""
        ...

    def with_each(self, X: Floats, y: Array) -> Coefficients:
        """The models trained on S + z for the rows X with the classes y."""
        ...


def rounding(n: int) -> float:
    """A bound on the relative error of a sum of n numbers, with a margin."""
    return 16.0 * _EPSILON * float(np.sqrt(n))


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One call of a family: S, Z, the question, and the estimator for refits."""

    estimator: Any
    S: Sample
    Z: Sample
    asked: Asked

    @cached_property
    def trainable(self) -> bool:
        """Whether S has every class."""
        return bool(np.bincount(self.S.y, minlength=self.asked.n_classes).all())

    @cached_property
    def decides(self) -> bool:
        """Whether scores are decision values; they are the same kind of score in a refit."""
        return self.asked.n_classes == 2 and hasattr(self.estimator, "decision_function")

    @cached_property
    def pairs(self) -> list[tuple[int, Bools]]:
        """The score columns that a metric compares, each with a mask of the rows of its class."""
        assert self.S.points.y is not None
        assert self.Z.points.y is not None
        query = self.asked.query
        assert query.classes is not None
        classes = np.union1d(self.S.points.y, self.Z.points.y)
        columns = [1] if len(classes) == len(query.classes) == 2 else range(len(classes))
        return [(c, query.y == classes[c]) for c in columns]

    def blocks(self, cost: int, most: int) -> Iterator[tuple[int, int]]:
        """Ranges (start, stop) of models, `cost` numbers each and at most about `most` in all.

        Model 0 is that of S if S is trainable; the models of S + z follow.
        """
        n = len(self.Z) + self.trainable
        size = int(np.clip(most // cost, 1, 512))
        return ((start, min(start + size, n)) for start in range(0, n, size))

    def settled(self, start: int, outputs: Array, sure: Bools) -> Iterator[Array | Scored]:
        """The outputs of models start, start + 1, ..., or the scores of refits if not sure."""
        done = 0
        for i in np.flatnonzero(~sure).tolist():
            if done < i:
                yield outputs[done:i]
            yield Scored(self.refitted(start + i))
            done = i + 1
        if done < len(outputs):
            yield outputs[done:]

    def refitted(self, i: int) -> Floats:
        """(1, q) the scores of model i, trained by scikit-learn."""

        def scores() -> Floats:
            T = self._S
            if i >= self.trainable:
                T = T + double(self.Z.points.take([i - self.trainable]))
            return Refit(self.estimator).scores_by_each(T, T.take(slice(0)), self._queries, 0)

        # A model that is uncertain in one kind of output often is in the others too.
        return self.asked.once("refit", scores, i)[:, self.asked.shared.columns[self.asked.kind]]

    def all_refitted(self) -> Iterator[Scored]:
        """The scores of all models by scikit-learn, for parameters invalid for these classes."""
        for i in range(len(self.Z) + self.trainable):
            yield Scored(self.refitted(i))

    @cached_property
    def _S(self) -> Points:
        return double(self.S.points)

    @cached_property
    def _queries(self) -> list[Query]:
        test = double(self.asked.query.test)
        return [replace(query, test=test) for query in self.asked.shared.queries]

    def outputs(self, values: Floats, noise: Floats) -> tuple[Array, Bools]:
        """The outputs asked for, and which models are certain of theirs.

        `noise` (r, n) bounds the rounding error of the decision values (r, c, n).
        """
        kind = self.asked.kind
        if kind == "label":
            return _labels(values, noise)
        if kind == "score" and self.decides:
            if values.shape[1] == 2:
                values = np.stack([values[:, 0] - values[:, 1], values[:, 1] - values[:, 0]], 1)
            fixed = np.zeros(values.shape, dtype=np.bool_)
            return values.transpose(0, 2, 1), self._ordered(values, noise, fixed)
        logs = _log_probabilities(values)
        probabilities = np.exp(logs).transpose(0, 2, 1)
        if kind == "probability":
            open_ = logs.max(axis=1) < -np.exp(-20.0)
            return probabilities, (noise * open_).mean(axis=1) <= _SLACK
        # A log probability is a difference of decision values, so it has their rounding error.
        noise = noise + 4.0 * _EPSILON * np.abs(values).max(axis=1)
        certain = -np.expm1(logs.max(axis=1)) < np.exp(-_FAR)
        fixed = np.where(certain[:, None] & (logs > -1.0), True, logs < -760.0)
        if hasattr(self.estimator, "decision_function"):
            # Such estimators may compute a probability as 1 - p, whose error is absolute, so
            # compare probabilities instead of their logarithms.
            logs = np.exp(logs)
            noise = noise + _EPSILON
        return probabilities, self._ordered(logs, noise, fixed)

    def _ordered(self, values: Floats, noise: Floats, fixed: Bools) -> Bools:
        """(r,) whether rounding cannot swap a row of a class with a row of another class.

        Values that are `fixed` saturate at 0 or 1: if they are equal here, they are equal in a
        refit.
        """
        sure = np.ones(len(values), dtype=np.bool_)
        margin = 2.0 * noise.max(axis=1, keepdims=True)
        for c, positive in self.pairs:
            order = np.argsort(values[:, c], axis=1)
            gaps = np.diff(np.take_along_axis(values[:, c], order, axis=1), axis=1)
            starts = np.ones(order.shape, dtype=np.int64)
            starts[:, 1:] = gaps > margin
            # the number of each row's group of values that may be equal
            cluster = np.cumsum(starts).reshape(order.shape) - 1
            open_ = _any(cluster, ~np.take_along_axis(fixed[:, c], order, axis=1))
            there = positive[order]
            risky = open_ & _any(cluster, there) & _any(cluster, ~there)
            sure &= ~risky[cluster].any(axis=1)
        return sure


def _labels(values: Floats, noise: Floats) -> tuple[Array, Bools]:
    """(r, n) the first class with the largest value, and which models are certain of it."""
    if values.shape[1] == 2:
        f = values[:, 1] - values[:, 0]
        return as_labels(f > 0.0, 2), np.all(np.abs(f) > 2.0 * noise, axis=1)
    best_two = np.partition(values, -2, axis=1)[:, -2:]
    return values.argmax(axis=1), np.all(best_two[:, 1] - best_two[:, 0] > 2.0 * noise, axis=1)


def _any(cluster: Array, true: Bools) -> Bools:
    """For each cluster, whether `true` holds for any of its rows."""
    return np.bincount(cluster[true], minlength=cluster[-1, -1] + 1) > 0


def _log_probabilities(values: Floats) -> Floats:
    top = values.max(axis=1, keepdims=True)
    shifted = values - top
    logs: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs


def answers(case: Case, models: Models, *, shared: bool = True) -> Iterator[Array | Scored]:
    """The outputs or scores of the linear `models`, block by block.

    `shared` says that the models are the same for every kind of output.
    """
    labels: _Labels | None = None
    n, p = models.T.shape
    kind, c = case.asked.kind, case.asked.n_classes
    cost = (c * p, _LABELS) if kind == "label" else (c * n, _VALUES)
    for start, stop in case.blocks(*cost):
        if shared:
            make = partial(_block, case, models, start, stop)
            found = case.asked.once("coefficients", make, (start, stop))
        else:
            found = _block(case, models, start, stop)
        if kind == "label":
            labels = labels or _Labels(models.T, found)
            outputs, sure = labels.of(found)
        elif kind == "probability" and c == 2:
            outputs, sure = _two_probabilities(models.T, found)
        else:
            outputs, sure = case.outputs(*_values(models.T, found))
        yield from case.settled(start, outputs, sure & np.isfinite(found.error))


def _block(case: Case, models: Models, start: int, stop: int) -> Coefficients:
    """The coefficients of models start..stop-1.

    Models whose coefficients are huge or not finite get zeros with an infinite error.
    """
    parts = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if start == 0 and case.trainable:
            parts.append(models.alone())
            start += 1
        rows = slice(start - case.trainable, stop - case.trainable)
        if start < stop:
            parts.append(models.with_each(case.Z.X[rows], case.Z.y[rows]))
    W = np.concatenate([part.W for part in parts])
    error = np.concatenate([part.error for part in parts])
    with np.errstate(invalid="ignore", over="ignore"):
        wild = ~(np.einsum("rcp,rcp->r", W, W) < _HUGE**2)
    W[wild], error[wild] = 0.0, np.inf
    return Coefficients(W, error)


def _values(T: Floats, found: Coefficients) -> tuple[Floats, Floats]:
    """Decision values (r, c, n), and a bound (r, n) on their rounding error."""
    r, c, p = found.W.shape
    values = (found.W.reshape(r * c, p) @ T.T).reshape(r, c, len(T))
    if c == 1:
        values = np.concatenate([-0.5 * values, 0.5 * values], axis=1)
    scale = _scale(T, found.W)
    return values, _noise(T * scale, found.W / scale, found.error)


def _noise(T: Floats, W: Floats, error: Floats) -> Floats:
    sizes = np.sqrt((W**2).sum(axis=2)).max(axis=1) * np.where(np.isfinite(error), error, 0.0)
    return np.outer(sizes, np.sqrt(np.einsum("ij,ij->i", T, T)))


def _two_probabilities(T: Floats, found: Coefficients) -> tuple[Array, Bools]:
    """Probabilities of two classes, and which models are certain of theirs.

    They need only the difference of the two classes, which is half the work.
    """
    f = _apart(found.W) @ T.T
    scale = _scale(T, found.W)
    noise = _noise(T * scale, found.W / scale, found.error)
    outputs = np.stack([expit(-f), expit(f)], axis=2)
    return outputs, (noise * (np.abs(f) < 20.0)).mean(axis=1) <= _SLACK


def _scale(T: Floats, steps: Floats) -> Floats:
    """(p,) scales s such that |t| |d| is small on the whole, for rows T * s and steps / s.

    Scaling leaves the products unchanged but makes the Cauchy-Schwarz bound tighter.
    """
    t = np.sqrt(np.einsum("ij,ij->j", T, T))
    t = np.maximum(t, 1e-100)  # avoids dividing by 0 for a feature that is 0 in all test rows
    flat = steps.reshape(-1, steps.shape[-1])
    d = np.sqrt(np.einsum("ij,ij->j", flat, flat))
    d = np.maximum(d, 1e-6 * (d * t).max() / t)
    return np.sqrt(d / t) if d.all() else np.ones(len(t))


def _apart(W: Floats) -> Floats:
    """The coefficients that decide labels: for two classes their difference (..., p)."""
    if W.shape[-2] > 2:
        return W
    return W[..., 1, :] - W[..., 0, :] if W.shape[-2] == 2 else W[..., 0, :]


class _Labels:
    """Labels by `Flips`, which treats each model as a step away from the first model."""

    def __init__(self, T: Floats, first: Coefficients) -> None:
        self._base = _apart(first.W[0])
        self._scale = _scale(T, _apart(first.W) - self._base)
        self._T = T * self._scale
        self._f = self._T @ (self._base / self._scale).T

    @cached_property
    def _flips(self) -> Flips:
        return Flips(self._f, self._T)

    @cached_property
    def _flips_along(self) -> Flips:
        return Flips.along(self._f, self._T)

    def of(self, found: Coefficients) -> tuple[Array, Bools]:
        """(r, n) the labels, and (r,) which models are certain of theirs."""
        squares = np.einsum("rcp,rcp,p->rc", found.W, found.W, self._scale**-2.0)
        base = np.sqrt(((self._base / self._scale) ** 2).sum(axis=-1).max())
        # A step is a difference of two coefficient vectors, so it has their absolute errors.
        blur = 4.0 * _EPSILON * np.sqrt(len(self._scale)) * base + np.sqrt(
            squares.max(axis=1)
        ) * np.where(np.isfinite(found.error), found.error, 0.0)
        steps = _apart(found.W) - self._base
        steps /= self._scale
        if steps.ndim == 3:
            # Usually z changes the coefficients of its own class only. Then count the tiny changes
            # of the others as error, and use the faster method for one direction.
            sizes = np.sqrt(np.einsum("rcp,rcp->rc", steps, steps))
            moved = sizes.argmax(axis=1)
            others = np.sort(sizes, axis=1)[:, -2]
            if (others <= _NOTHING * sizes.max(axis=1)).all():
                far = np.zeros(sizes.shape)
                far[np.arange(len(far)), moved] = 1.0
                blur += 2.0 * others
                labels, gaps = self._flips_along.labels_along(
                    steps[np.arange(len(far)), moved], far, blur
                )
                return labels, gaps > blur
        labels, gaps = self._flips.labels(steps, blur)
        return labels, gaps > blur
