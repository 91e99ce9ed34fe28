"""The parameters and data of trees, forests and boosting, in the form that growing needs."""

from __future__ import annotations

from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import FitError
from dshapley.learners.classes import check_class_weight, class_weights
from dshapley.learners.fast import Asked, Sample, UnsupportedError
from dshapley.learners.flips import as_labels
from dshapley.learners.kernels import literal
from dshapley.learners.refit import seeded
from dshapley.learners.trees.splits import ENTROPY, GINI, SQUARES, Limits, Rows

__all__ = ["Columns", "answered", "check_plain", "first_draws", "limits_of", "random_state", "work"]

_CRITERIA = {
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
    "squared_error": SQUARES,
    "friedman_mse": SQUARES,  # chooses the same splits as squared_error
    "deprecated": SQUARES,
}

_PLAIN = {
    "min_weight_fraction_leaf": 0.0,
    "max_leaf_nodes": None,
    "min_impurity_decrease": 0.0,
    "ccp_alpha": 0.0,
    "monotonic_cst": None,
    "warm_start": False,
}

_NEVER = 2**31 - 1
"""A depth that no tree reaches; also the exclusive upper limit of a tree's first random draw."""


def check_plain(estimator: Any) -> None:
    """Raise an UnsupportedError for parameters that the compiled loops do not support."""
    for name, value in _PLAIN.items():
        given = getattr(estimator, name, value)
        if given is not None if value is None else given != value:
            raise UnsupportedError(f"{name} = {getattr(estimator, name)!r} is not supported")
    for name in ("min_samples_split", "min_samples_leaf"):
        if not isinstance(getattr(estimator, name), Integral):
            raise UnsupportedError(f"{name} as a share of the rows is not supported")
    if estimator.criterion not in _CRITERIA:
        raise UnsupportedError(f"criterion = {estimator.criterion!r} is not supported")
    if getattr(estimator, "class_weight", None) == "balanced_subsample":
        raise UnsupportedError("class_weight = 'balanced_subsample' is not supported")
    check_class_weight(getattr(estimator, "class_weight", None))


def limits_of(
    estimator: Any, n_features: int, n_classes: int, *, keyed: bool = False, sort: bool = True
) -> Limits:
    """The limits for the trees of an estimator; `n_classes` is 0 for regression.

    If `sort` allows it, columns are kept sorted for trees that search most of them at each node.
    """
    random = (
        getattr(estimator, "splitter", "best") == "random" or "Extra" in type(estimator).__name__
    )
    max_features = _max_features(estimator.max_features, n_features)
    return Limits(
        n_classes=max(n_classes, 1),
        criterion=_CRITERIA[estimator.criterion],
        random=random,
        max_features=max_features,
        max_depth=_NEVER if estimator.max_depth is None else int(estimator.max_depth),
        min_split=max(int(estimator.min_samples_split), 2 * int(estimator.min_samples_leaf)),
        min_leaf=int(estimator.min_samples_leaf),
        keyed=keyed,
        sorted_columns=sort and not random and 2 * max_features > n_features,
    )


def _max_features(wanted: Any, n_features: int) -> int:
    if wanted is None:
        return n_features
    if wanted == "sqrt":
        return max(1, int(np.sqrt(n_features)))
    if wanted == "log2":
        return max(1, int(np.log2(n_features)))
    if isinstance(wanted, Integral):
        return min(int(wanted), n_features)
    return max(1, int(wanted * n_features))


class Columns:
    """S, Z and the test rows in single precision, as scikit-learn's trees use them.

    With `exact_sums`, regression targets are rounded so that their sums are exact (see `_unit`).
    """

    def __init__(self, S: Sample, Z: Sample, asked: Asked, *, exact_sums: bool = False) -> None:
        self._sample, self._asked = S, asked
        with np.errstate(over="ignore"):
            self.S = np.ascontiguousarray(S.X.T, dtype=np.float32)
            self.Z = Z.X.astype(np.float32)
            self.test = np.ascontiguousarray(asked.X, dtype=np.float32)
        if not all(np.isfinite(X).all() for X in (self.S, self.Z, self.test)):
            raise FitError("X has missing values or values that are too large for single precision")
        self.codes, self.codes_Z = (self._codes(sample) for sample in (S, Z))
        self.y, self.y_Z = S.y.astype(np.float64), Z.y.astype(np.float64)
        if asked.classes is None and exact_sums and len(S) > 0:
            unit = _unit(self.y)
            if unit > 0.0:
                self.y, self.y_Z = (np.round(y / unit) * unit for y in (self.y, self.y_Z))

    def _codes(self, sample: Sample) -> Array:
        numbers = self._asked.classes is None
        return (np.zeros(len(sample)) if numbers else sample.y).astype(np.uint32)

    @property
    def trainable(self) -> bool:
        """Whether S can be trained on (see `Family`)."""
        if self._asked.classes is None:
            return len(self._sample) > 0
        return bool(np.bincount(self.codes, minlength=self._asked.n_classes).all())

    @cached_property
    def order(self) -> Array:
        """(d, n) the rows of S sorted by each column, ascending."""
        return np.argsort(self.S, axis=1, kind="stable").astype(np.uint32)

    @cached_property
    def _two_values(self) -> Array:
        """(d,) whether a column of S has at most two values."""
        low, high = self._ends
        return ((low[:, None] == self.S) | (high[:, None] == self.S)).all(axis=1)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        return self.S.min(axis=1, initial=np.inf), self.S.max(axis=1, initial=-np.inf)

    def rows(self, z: int, weights: Floats) -> Rows:
        """S with row z of Z, or S alone for z = -1; `weights` holds the class weights."""
        if z < 0:
            return Rows(
                self.S, self.order, self._two_values, self.codes, self.y.copy(), weights[self.codes]
            )
        (d, n), new = self.S.shape, self.Z[z]
        low, high = self._ends
        codes = np.append(self.codes, self.codes_Z[z])
        return Rows(
            np.column_stack([self.S, new]),
            _inserted(self.order, self.S, new, np.empty((d, n + 1), np.uint32)),
            self._two_values & ((new == low) | (new == high) | (low >= high)),
            codes,
            np.append(self.y, self.y_Z[z]),
            weights[codes],
        )

    def class_weights(self, class_weight: Any) -> Floats:
        """(1 + r, c) the class weights for S and for every S + z."""
        assert self._asked.classes is not None
        counts = np.bincount(self.codes, minlength=self._asked.n_classes)
        found = np.empty((1 + len(self.Z), len(counts)))
        found[0] = class_weights(class_weight, counts, self._asked.classes)
        for code in np.unique(self.codes_Z):
            counts[code] += 1
            found[1:][self.codes_Z == code] = class_weights(
                class_weight, counts, self._asked.classes
            )
            counts[code] -= 1
        return found


def _unit(y: Floats) -> float:
    """A unit such that sums of multiples of it are exact; 0 if the range of y is too large.

    Rounding y to multiples keeps at least 9 digits of its typical value. With exact sums, equally
    good splits are equal to the last bit, whatever the order of the rows.
    """
    typical, most = float(np.median(np.abs(y))), float(np.abs(y).max())
    if most == 0.0:
        return 0.0
    unit = float(2.0 ** (np.ceil(np.log2(most)) + np.ceil(np.log2(4.0 * len(y))) - 52.0))
    return unit if unit < 1e-9 * typical else 0.0


@literal
def _inserted(order: Array, columns: Array, z: Array, found: Array) -> Array:
    """Insert a new last row z into the sorted columns, after rows with the same value."""
    n = order.shape[1]
    for f in range(len(order)):
        i = n
        while i > 0 and columns[f, order[f, i - 1]] > z[f]:
            found[f, i] = order[f, i - 1]
            i -= 1
        found[f, i] = n
        found[f, :i] = order[f, :i]
    return found


def answered(values: Floats, asked: Asked) -> Array:
    """The outputs of the kind asked for, from (r, n, c) probabilities or (r, n, 1) numbers."""
    if asked.kind == "number":
        return values[:, :, 0]
    if asked.kind == "probability":
        return values
    values = values.round(12)  # otherwise ties of sums such as 1/3 + 2/3 depend on their order
    return as_labels(values.argmax(axis=2), asked.n_classes) if asked.kind == "label" else values


def random_state(estimator: Any, seed: int) -> np.random.RandomState:
    """The generator that a refitted clone of the estimator starts with."""
    return np.random.RandomState(seeded(estimator, seed).random_state)


def first_draws(states: Array) -> Array:
    """The seed of the split generator of a scikit-learn tree, for each of these random states."""
    draws = [np.random.RandomState(state).randint(0, _NEVER) for state in states]
    return np.array(draws, dtype=np.uint64)


def work(k: Floats) -> Floats:
    """The approximate work for set size k: k log k for sorting, plus a constant for small trees."""
    return np.asarray(16 + k * np.log2(k + 1))
