"""AdaBoost and gradient boosting, with all trees of a model grown in one compiled loop.

Every tree for S + z has different weights or targets than the tree for S, so only the sorted
columns of S are reused. Trees use the random states of scikit-learn, so they draw the features in
the same order and break ties in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from dshapley.data.points import Array, Floats
from dshapley.learners.fast import Asked, Family, Sample, Scored, UnsupportedError
from dshapley.learners.flips import as_labels
from dshapley.learners.kernels import literal, literal_inlined, slow_literal
from dshapley.learners.trees.growth import Tree, grown, leaf, tree
from dshapley.learners.trees.parameters import (
    Columns,
    check_plain,
    first_draws,
    limits_of,
    random_state,
    work,
)
from dshapley.learners.trees.splits import SQUARES, Limits, Rows, Scratch, scratch

__all__ = ["family"]

_EPSILON = float(np.finfo(np.float64).eps)


def family(estimator: Any) -> Family:
    """The family for AdaBoost of trees or for gradient boosting."""
    if type(estimator).__name__ == "AdaBoostClassifier":
        return _adaboost_family(estimator)
    check_plain(estimator)
    if estimator.loss not in ("log_loss", "squared_error"):
        raise UnsupportedError(f"loss = {estimator.loss!r} is not supported")
    for name in ("init", "n_iter_no_change"):
        if getattr(estimator, name) is not None:
            raise UnsupportedError(f"{name} is not supported")
    return GradientBoosting(estimator)


# --- AdaBoost


def _adaboost_family(estimator: Any) -> Family:
    from sklearn.tree import DecisionTreeClassifier

    base = (
        DecisionTreeClassifier(max_depth=1) if estimator.estimator is None else estimator.estimator
    )
    if type(base) is not DecisionTreeClassifier:
        raise UnsupportedError(f"AdaBoost of {type(base).__name__} is not supported")
    check_plain(base)
    if base.class_weight is not None:
        raise UnsupportedError("class_weight of the trees of AdaBoost is not supported")
    if getattr(estimator, "algorithm", "deprecated") not in ("deprecated", "SAMME"):
        raise UnsupportedError(f"algorithm = {estimator.algorithm!r} is not supported")
    return AdaBoost(estimator, base)


@dataclass(frozen=True)
class AdaBoost:
    """Discrete AdaBoost (SAMME), the only algorithm in recent versions of scikit-learn."""

    estimator: Any
    base: Any
    work = staticmethod(work)

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        assert asked.classes is not None
        data = asked.once("columns", lambda: Columns(S, Z, asked))
        d, n = data.S.shape
        limits = limits_of(self.base, d, asked.n_classes)
        room, one = scratch(n + 1, d, limits), tree(n + 1, limits)
        states = random_state(self.estimator, asked.seed)
        keys = first_draws(states.randint(2**31 - 1, size=self.estimator.n_estimators))
        ones = np.ones(asked.n_classes)
        for z in range(0 if data.trainable else 1, 1 + len(Z)):

            def make(z: int = z) -> tuple[Floats, float, Array]:
                rows, rate = data.rows(z - 1, ones), float(self.estimator.learning_rate)
                found = _adaboost(rows, limits, room, one, keys, rate, data.test)
                return *found, rows.codes

            votes, total, codes = asked.once("votes", make, z)
            if total == 0.0:  # the first tree is no better than guessing, so there is no model
                y = asked.classes[codes]
                yield Scored(np.array([[q.score(q.constant(y))[0] for q in asked.queries]]))
                continue
            yield _votes_answered(votes[np.newaxis] / total, asked)


def _votes_answered(decision: Floats, asked: Asked) -> Array:
    """The outputs of the kind asked for, from (r, n, c) votes divided by their total weight."""
    c = asked.n_classes
    if c == 2:
        f = decision[:, :, 1] - decision[:, :, 0]
        decision = np.stack([-f, f], axis=2)
    if asked.kind == "label":
        return as_labels(decision[:, :, 1] > 0.0 if c == 2 else decision.argmax(axis=2), c)
    if asked.kind == "score" and c == 2:
        return decision
    return softmax(decision / (2 if c == 2 else c - 1), axis=2)


@slow_literal
def _adaboost(
    rows: Rows, limits: Limits, room: Scratch, one: Tree, keys: Array, rate: float, test: Array
) -> tuple[Floats, float]:
    """(q, c) the votes of the trees on the test rows, and the total weight of the trees.

    The total weight is 0 if the first tree is no better than guessing.
    """
    n, c = len(rows.w), limits.n_classes
    votes, total = np.zeros((len(test), c)), 0.0
    w, wrong = rows.w, np.empty(n)
    w[:] = 1.0 / n
    for t in range(len(keys)):
        for i in range(n):
            w[i] = max(w[i], _EPSILON)
        n_nodes = grown(one, rows, limits, room, keys[t])
        _mark_wrong(wrong, one, n_nodes, rows, room)
        error = _error(w, wrong)
        if error >= 1.0 - 1.0 / c:
            break
        say = 1.0
        if error > 0.0:
            say = rate * (np.log((1.0 - error) / error) + np.log(c - 1.0))
        total += say
        _vote(votes, one, test, say)
        if error <= 0.0:
            break
        all_w = 0.0
        for i in range(n):
            w[i] = np.exp(np.log(w[i]) + say * wrong[i])
            all_w += w[i]
        if not np.isfinite(all_w) or all_w <= 0.0:
            break
        for i in range(n):
            w[i] /= all_w
    return votes, total


@literal_inlined
def _mark_wrong(wrong: Floats, one: Tree, n_nodes: int, rows: Rows, room: Scratch) -> None:
    """Set `wrong` to 1 for each row whose leaf has a different label, else to 0."""
    for node in range(n_nodes):
        if one.left[node] < 0:
            label = _label(one.value[node])
            for i in range(one.start[node], one.end[node]):
                row = room.samples[i]
                wrong[row] = 1.0 if rows.codes[row] != label else 0.0


@literal_inlined
def _error(w: Floats, wrong: Floats) -> float:
    """The share of the weight of the rows that are labelled wrongly."""
    all_w, wrong_w = 0.0, 0.0
    for i in range(len(w)):
        all_w += w[i]
        wrong_w += w[i] * wrong[i]
    return wrong_w / all_w


@literal_inlined
def _vote(votes: Floats, one: Tree, test: Array, say: float) -> None:
    """Add the votes of a tree, with weight `say`, to each test row."""
    c = votes.shape[1]
    for j in range(len(test)):
        label = _label(one.value[leaf(one, 0, test, j)])
        for k in range(c):
            votes[j, k] += say if k == label else -1.0 / (c - 1) * say


@literal_inlined
def _label(value: Floats) -> int:
    """The class with the largest value; the first one among equals."""
    best = 0
    for c in range(1, len(value)):
        if value[c] > value[best]:
            best = c
    return best


# --- gradient boosting


class _Stages(NamedTuple):
    """The random draws and parameters of all stages."""

    keys: Array
    """(stages, c) the seed of each tree's generator."""
    masks: Floats
    """(stages, n) 1 for the rows that a stage is trained on, else 0."""
    first: Floats
    """(c,) the raw predictions before the first stage."""
    rate: float
    """The learning rate."""
    n_classes: int
    """The number of classes; 0 for regression."""


@dataclass(frozen=True)
class GradientBoosting:
    """Gradient boosting of the squared error, or of the log loss for two or more classes."""

    estimator: Any
    work = staticmethod(work)

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        data = asked.once("columns", lambda: Columns(S, Z, asked))
        d, n = data.S.shape
        limits = limits_of(self.estimator, d, 0)._replace(criterion=SQUARES)
        room, one = scratch(n + 1, d, limits), tree(n + 1, limits)
        n_raw = 1 if asked.n_classes <= 2 else asked.n_classes
        draws = {m: self._draws(m, n_raw, asked.seed) for m in (n, n + 1)}
        ones = np.ones(max(asked.n_classes, 1))
        for z in range(0 if data.trainable else 1, 1 + len(Z)):

            def make(z: int = z) -> Floats:
                rows = data.rows(z - 1, ones)
                first, rate = _first_raw(rows, asked.n_classes), float(self.estimator.learning_rate)
                stages = _Stages(*draws[len(rows.w)], first, rate, asked.n_classes)
                return _gradient_boosting(rows, limits, room, one, stages, data.test)

            raw = asked.once("raw", make, z)
            yield _raw_answered(raw[np.newaxis], asked)

    def _draws(self, n: int, n_raw: int, seed: int) -> tuple[Array, Array]:
        """The seed of each tree's generator, and a mask of the rows of each stage."""
        rng, n_stages = random_state(self.estimator, seed), self.estimator.n_estimators
        subsample = self.estimator.subsample
        keys = np.empty((n_stages, n_raw), dtype=np.uint64)
        masks = np.ones((n_stages, n))
        for stage in range(n_stages):
            if subsample < 1.0:
                masks[stage] = _mask(rng.uniform(size=n), max(1, int(subsample * n)))
            keys[stage] = rng.randint(0, 2**31 - 1, size=n_raw)
        return keys, masks


@literal
def _mask(uniform: Floats, n_in: int) -> Floats:
    """A mask with 1 for n_in of the rows, chosen as scikit-learn chooses them."""
    n, chosen = len(uniform), 0
    mask = np.zeros(n)
    for i in range(n):
        if uniform[i] * (n - i) < n_in - chosen:
            mask[i] = 1.0
            chosen += 1
    return mask


def _first_raw(rows: Rows, n_classes: int) -> Floats:
    """The initial raw predictions.

    They are the mean, the log odds of two classes, or the centred logarithms of the class shares.
    """
    if n_classes == 0:
        return np.array([rows.y.mean()])
    shares = np.bincount(rows.codes, minlength=n_classes) / len(rows.codes)
    shares = np.clip(shares, _EPSILON, 1.0 - _EPSILON)
    if n_classes == 2:
        return np.array([np.log(shares[1] / (1.0 - shares[1]))])
    logs = np.log(shares)
    return logs - logs.mean()


def _raw_answered(raw: Floats, asked: Asked) -> Array:
    """The outputs of the kind asked for, from (r, n, c) raw predictions."""
    if asked.kind == "number":
        return raw[:, :, 0]
    if asked.n_classes == 2:
        f = raw[:, :, 0]
        if asked.kind == "label":
            return as_labels(f >= 0.0, 2)
        p = expit(f)
        return np.stack([-f, f] if asked.kind == "score" else [1.0 - p, p], axis=2)
    if asked.kind == "label":
        return as_labels(raw.argmax(axis=2), asked.n_classes)
    return softmax(raw, axis=2)


@slow_literal
def _gradient_boosting(
    rows: Rows, limits: Limits, room: Scratch, one: Tree, stages: _Stages, test: Array
) -> Floats:
    """(q, c) the raw predictions at the test rows."""
    n, n_raw = len(rows.w), len(stages.first)
    target = rows.y.copy()
    raw, gradient = np.empty((n_raw, n)), np.empty((n_raw, n))
    found = np.empty((len(test), n_raw))
    for k in range(n_raw):
        raw[k], found[:, k] = stages.first[k], stages.first[k]
    everyone = stages.masks.sum() == stages.masks.size
    for stage in range(len(stages.keys)):
        rows.w[:] = stages.masks[stage]
        _gradients(gradient, raw, target, rows.codes, stages.n_classes)
        for k in range(n_raw):
            rows.y[:] = gradient[k]
            n_nodes = grown(one, rows, limits, room, stages.keys[stage, k])
            for node in range(n_nodes):
                if one.left[node] >= 0:
                    continue
                if stages.n_classes > 0:
                    one.value[node, 0] = _newton(one, node, rows, room, k, stages.n_classes)
                one.value[node, 0] *= stages.rate
                for i in range(one.start[node], one.end[node]):
                    raw[k, room.samples[i]] += one.value[node, 0]
            if not everyone:
                _add_absent(raw[k], one, rows)
            for j in range(len(test)):
                found[j, k] += one.value[leaf(one, 0, test, j), 0]
    return found


@literal_inlined
def _add_absent(raw: Floats, one: Tree, rows: Rows) -> None:
    """Add a tree's values to the raw predictions of the rows that it was grown without."""
    for row in range(len(raw)):
        if rows.w[row] == 0.0:
            raw[row] += one.value[_leaf_of(one, rows.columns, row), 0]


@literal_inlined
def _gradients(gradient: Floats, raw: Floats, target: Floats, codes: Array, n_classes: int) -> None:
    """Fill `gradient` with the negative gradients of the loss."""
    n_raw, n = raw.shape
    for i in range(n):
        if n_classes == 0:
            gradient[0, i] = target[i] - raw[0, i]
        elif n_raw == 1:
            gradient[0, i] = codes[i] - 1.0 / (1.0 + np.exp(-raw[0, i]))
        else:
            top, total = raw[0, i], 0.0
            for k in range(1, n_raw):
                top = max(top, raw[k, i])
            for k in range(n_raw):
                gradient[k, i] = np.exp(raw[k, i] - top)
                total += gradient[k, i]
            for k in range(n_raw):
                gradient[k, i] = (codes[i] == k) - gradient[k, i] / total


@literal_inlined
def _newton(one: Tree, node: int, rows: Rows, room: Scratch, k: int, n_classes: int) -> float:
    """The value of a leaf: one Newton step of the log loss for its rows."""
    slope, curvature = 0.0, 0.0
    for i in range(one.start[node], one.end[node]):
        row = room.samples[i]
        mine = rows.codes[row] == (1 if n_classes == 2 else k)
        p = mine - rows.y[row]
        slope += rows.y[row]
        curvature += p * (1.0 - p)
    m = one.end[node] - one.start[node]
    slope, curvature = slope / m, curvature / m
    if n_classes > 2:
        slope *= (n_classes - 1) / n_classes
    return 0.0 if abs(curvature) < 1e-150 else slope / curvature


@literal_inlined
def _leaf_of(one: Tree, columns: Array, row: int) -> int:
    """The leaf that a training row reaches."""
    node = 0
    while one.left[node] >= 0:
        below = columns[one.feature[node], row] <= one.threshold[node]
        node = one.left[node] if below else one.right[node]
    return node
