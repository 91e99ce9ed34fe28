"""The regression models that predict values, and the features of points that they use.

Models are fitted to the values and, beside them, to simulated errors of the values. The predictions
then come with the amounts by which these errors move them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.data.targets import are_classes
from dshapley.errors import InputError
from dshapley.errors import nearest as nearest_name

__all__ = [
    "OF_A_CLASS",
    "SMALL",
    "VALUE_MODELS",
    "Codes",
    "Features",
    "Model",
    "candidates",
    "folds_of",
    "held_out",
    "nearest",
    "numbers",
]

VALUE_MODELS = ("nearest", "ridge", "kernel_ridge", "forest")
"""The names of the models of values that can be chosen by name."""

OF_A_CLASS = 20
"""The least number of points of a class for a separate model and a separate error."""
SMALL = 1e-150
"""Used in place of a variance of 0, to divide by."""
_KERNEL_LIMIT = 4000  # a kernel ridge takes n^3 operations and n^2 memory
_NEIGHBOURHOODS = (5, 20, 50)

Codes: TypeAlias = NDArray[np.intp]
Trained: TypeAlias = Callable[[Floats], Floats]
"""A trained model, from features to the predicted value (column 0) and how far each simulated error
moves it (the other columns).
"""
Train: TypeAlias = Callable[[Floats, Floats, Floats, int], Trained]
"""(features, values beside simulated errors, weights, random seed) -> Trained."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Features:
    """The features of a point: x, its label, and how the label agrees with those of its neighbours.

    Calling it gives the features of any points. It is made by `Features.of` from the fitted points.
    """

    columns: list[str]
    classes: Array | None
    """The classes; None if labels are numbers or if there are none."""
    X: Floats
    """x of the fitted points, standardised."""
    y: Array | None
    """The labels of the fitted points, as class codes or as numbers."""
    rows: Mapping[bytes, int]
    """The position of each fitted point by its row, so that it is not its own neighbour."""
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, Z: Points) -> Features:
        """The features that are standardised over these points."""
        X, y, classes = numbers(Z), Z.y, None
        if y is not None and are_classes(y):
            classes, y = np.unique(y, return_inverse=True)
        centre, scale = X.mean(axis=0), _spread(X)
        X = (X - centre) / scale
        rows = {key: i for i, key in enumerate(_keys(X, y))}
        some = cls(
            columns=Z.columns, classes=classes, X=X, y=y, rows=rows, centre=centre, scale=scale
        )
        if y is None:
            return some
        # Each label column counts about a quarter of x in a distance, so neither hides the other.
        labels = some._labels(X, y)
        spread = _spread(labels)
        spread[: some.n_label] = 1.0 if classes is not None else spread[0]
        spread /= np.sqrt(max(X.shape[1], 4) / 4)
        centre, scale = np.r_[centre, labels.mean(axis=0)], np.r_[scale, spread]
        return replace(some, centre=centre, scale=scale)

    @property
    def n_label(self) -> int:
        """The number of columns that encode the label; they follow those of x."""
        return 1 if self.classes is None else len(self.classes)

    def __call__(self, Z: Points) -> tuple[Floats, Codes]:
        """The features of points, and the codes of their classes (0 if there are none)."""
        if Z.columns != self.columns:
            raise InputError(
                f"points: {len(Z.columns)} columns, {Z.columns[:3]}..., but the measured points "
                f"have {len(self.columns)}, {self.columns[:3]}...: give the same in the same order"
            )
        if (Z.y is None) != (self.y is None):
            raise InputError("points: give labels if and only if the fitted points have them")
        d = len(self.columns)
        X = (numbers(Z) - self.centre[:d]) / self.scale[:d]
        codes = np.zeros(len(Z), dtype=np.intp)
        if Z.y is None:
            return X, codes
        if self.classes is not None:
            codes = _codes(Z.y, self.classes)
        labels = self._labels(X, Z.y if self.classes is None else codes)
        return np.c_[X, (labels - self.centre[d:]) / self.scale[d:]], codes

    def _labels(self, X: Floats, y: Array) -> Floats:
        """The label columns, then the agreement with the neighbours for each neighbourhood size."""
        from sklearn.neighbors import NearestNeighbors

        assert self.y is not None
        most = min(max(_NEIGHBOURHOODS), len(self.X) // 2)
        near = NearestNeighbors(n_neighbors=most + 1).fit(self.X).kneighbors(X)[1]
        itself = [self.rows.get(key, -1) for key in _keys(X, y)]
        other = near != np.array(itself)[:, np.newaxis]
        if self.classes is None:
            columns, match = [y], y[:, np.newaxis] - self.y[near]
        else:
            columns = [y == code for code in range(len(self.classes))]
            match = y[:, np.newaxis] == self.y[near]
        for size in sorted({min(size, most) for size in _NEIGHBOURHOODS}):
            among = other & (np.cumsum(other, axis=1) <= size)
            columns.append((match * among).sum(axis=1) / size)
        return np.stack(columns, axis=1).astype(np.float64)


def numbers(Z: Points) -> Floats:
    """X as floats; an error if a regression cannot use it."""
    try:
        X = np.asarray(Z.X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"points: X is not numeric ({error}): encode it") from None
    gaps = np.flatnonzero(~np.isfinite(X).all(axis=0))
    if len(gaps):
        raise InputError(f"points: column {Z.columns[gaps[0]]} has NaN or infinity: fill it in")
    return X


def _codes(y: Array, classes: Array) -> Codes:
    place = {label: code for code, label in enumerate(classes.tolist())}
    for label in y.tolist():
        if label not in place:
            raise InputError(
                f"points: no measured point has the label {label!r}, so the values of such points "
                "cannot be predicted: measure some"
            )
    return np.array([place[label] for label in y.tolist()], dtype=np.intp)


def _spread(X: Floats) -> Floats:
    """The standard deviation of each column; 1 for a constant column."""
    spread = X.std(axis=0)
    return np.where(spread > 1e-9 * np.abs(X).max(axis=0, initial=0), spread, 1.0)


def _keys(X: Floats, y: Array | None) -> list[bytes]:
    """The bytes of each row. Adding 0.0 makes 0 and -0 equal."""
    return [row.tobytes() for row in (X if y is None else np.c_[X, y]) + 0.0]


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model for all points, or one for each class."""

    parts: tuple[Trained, ...]

    @classmethod
    def of(
        cls, candidate: tuple[Train, bool], F: Floats, codes: Codes, Y: Floats, w: Floats, seed: int
    ) -> Model:
        train, per_class = candidate
        groups = [codes == c for c in range(codes.max() + 1)] if per_class else [codes >= 0]
        return cls(tuple(train(F[i], Y[i], w[i] / w[i].mean(), seed) for i in groups))

    def __call__(self, F: Floats, codes: Codes) -> Floats:
        groups = codes if len(self.parts) > 1 else np.zeros_like(codes)
        found = np.unique(groups)
        out = np.concatenate([self.parts[c](F[groups == c]) for c in found])
        return _put_back(out, groups)


def held_out(
    candidate: tuple[Train, bool],
    *,
    Y: Floats,
    w: Floats,
    F: Floats,
    codes: Codes,
    fold: Codes,
    seed: int,
) -> Floats:
    """For each point, the prediction and its movements from the model fitted to the other folds."""
    parts = []
    for i in (fold == f for f in range(fold.max() + 1)):
        h = Model.of(candidate, F[~i], codes[~i], Y[~i], w[~i], seed)
        parts.append(h(F[i], codes[i]))
    return _put_back(np.concatenate(parts), fold)


def _put_back(rows: Floats, groups: Codes) -> Floats:
    """Rows that are sorted by group, put back in the order of the points."""
    out = np.empty_like(rows)
    out[np.argsort(groups, kind="stable")] = rows
    return out


def folds_of(codes: Codes, folds: int, seed: int) -> Codes:
    """The fold of each point, at random, with each class spread over all folds."""
    if folds < 2:
        raise InputError(f"folds = {folds}: cross-validation needs at least two")
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(codes), dtype=np.intp)
    fold[order] = np.arange(len(codes)) % folds
    return fold


def candidates(model: Any, features: Features, codes: Codes) -> dict[str, tuple[Train, bool]]:
    """The models to choose from, by name: how to train, and whether each class has its own."""
    n, counts = len(codes), np.bincount(codes)
    blind = features.X.shape[1] + features.n_label
    known: dict[str, Train] = dict(
        zip(VALUE_MODELS, (nearest, _ridge, partial(_kernel_ridge, blind), _forest), strict=True)
    )
    if n > _KERNEL_LIMIT:
        del known["kernel_ridge"]
    if isinstance(model, str) and model != "auto":
        if model not in known:
            hint = nearest_name(model, ["auto", *known])
            raise InputError(f"model = {model!r} is not known for {n} points; {hint}")
        known = {model: known[model]}
    elif not isinstance(model, str):
        if isinstance(model, type) or not hasattr(model, "get_params"):
            raise InputError(f"model = {model!r}: give a name or a scikit-learn regressor")
        known = {type(model).__name__: partial(_refitted, model)}
    found = {name: (train, False) for name, train in known.items()}
    if len(counts) > 1 and counts.min() >= OF_A_CLASS:
        # Trees split by class on their own where it helps.
        per_class = {name: train for name, train in known.items() if train is not _forest}
        found |= {f"{name}, per class": (train, True) for name, train in per_class.items()}
    return found


def nearest(F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """The weighted mean of the k nearest points, with k chosen by leave-one-out."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=min(20, len(F) - 1)).fit(F)
    near = index.kneighbors(return_distance=False)
    means = np.cumsum(w[near] * Y[near, 0], axis=1) / np.cumsum(w[near], axis=1)
    index.set_params(n_neighbors=1 + int(np.argmin(w @ (means - Y[:, :1]) ** 2)))
    return partial(_mean_of_near, index, Y, w)


def _mean_of_near(index: Any, Y: Floats, w: Floats, F: Floats) -> Floats:
    near = index.kneighbors(F, return_distance=False)
    return np.einsum("ij,ijb->ib", w[near], Y[near]) / w[near].sum(axis=1, keepdims=True)


def _ridge(F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Ridge regression with the penalty chosen by leave-one-out."""
    from sklearn.linear_model import Ridge, RidgeCV

    penalty = RidgeCV(np.logspace(-1, 5, 13)).fit(F, Y[:, 0], sample_weight=w).alpha_
    model = Ridge(penalty).fit(F, Y, sample_weight=w)
    return partial(_shifted, model, np.zeros(Y.shape[1]), F.shape[1])


def _kernel_ridge(blind: int, F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Kernel ridge regression. Leave-one-out chooses the width, the penalty, and the columns: those
    before `blind`, or also the agreement with the neighbours.

    The choice is made on at most 300 points, because it hardly depends on the number of points.
    """
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import pairwise_distances

    some = np.random.default_rng(seed).permutation(len(F))[:300]
    root, mean = np.sqrt(w[some]), np.average(Y, axis=0, weights=w)
    best = (np.inf, 0.0, 0.0, 0)
    for d in sorted({min(blind, F.shape[1]), F.shape[1]}):
        squares = pairwise_distances(F[some, :d], metric="sqeuclidean")
        median = np.median(squares[squares > 0]) if squares.any() else 1.0
        for gamma in np.array([0.1, 0.3, 1.0]) / median:
            values, Q = np.linalg.eigh(np.exp(-gamma * squares) * np.outer(root, root))
            target = Q.T @ (root * (Y[some, 0] - mean[0]))
            for penalty in (0.001, 0.01, 0.1, 1.0):
                inverse = 1 / (values + penalty)
                left_out = Q @ (inverse * target) / (Q**2 @ inverse)
                best = min(best, (float(left_out @ left_out), penalty, float(gamma), d))
    model = KernelRidge(alpha=best[1], kernel="rbf", gamma=best[2])
    return partial(_shifted, model.fit(F[:, : best[3]], Y - mean, sample_weight=w), mean, best[3])


def _shifted(model: Any, mean: Floats, d: int, F: Floats) -> Floats:
    return np.reshape(model.predict(F[:, :d]), (len(F), len(mean))) + mean


def _forest(F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Extremely randomised trees, grown for the values; the leaf means carry the errors."""
    from sklearn.ensemble import ExtraTreesRegressor

    trees = ExtraTreesRegressor(100, min_samples_leaf=3, max_features=1 / 3, random_state=seed)
    leaves = _leaves(trees.fit(F, Y[:, 0], sample_weight=w), F).T
    means = (leaves @ (w[:, np.newaxis] * Y)) / np.maximum(leaves @ w, SMALL)[:, np.newaxis]
    return partial(_mean_of_leaves, trees, means)


def _leaves(trees: Any, F: Floats) -> Any:
    """A sparse matrix of points by the nodes of all trees: 1 at the leaf of the point."""
    from scipy.sparse import csr_array

    sizes = [tree.tree_.node_count for tree in trees.estimators_]
    leaf = trees.apply(F) + np.cumsum([0, *sizes[:-1]])
    ends = np.arange(len(F) + 1) * len(sizes)
    return csr_array((np.ones(leaf.size), leaf.ravel(), ends), shape=(len(F), sum(sizes)))


def _mean_of_leaves(trees: Any, means: Floats, F: Floats) -> Floats:
    return _leaves(trees, F) @ means / len(trees.estimators_)


def _refitted(model: Any, F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Any regressor, trained on the values and again on the values plus each error."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    weights = {"sample_weight": w} if has_fit_parameter(model, "sample_weight") else {}
    state = {"random_state": seed} if "random_state" in model.get_params() else {}
    targets = [Y[:, 0], *(Y[:, 0] + e for e in Y.T[1:])]
    return partial(
        _movements, [clone(model).set_params(**state).fit(F, y, **weights) for y in targets]
    )


def _movements(models: list[Any], F: Floats) -> Floats:
    first, *others = (np.ravel(model.predict(F)) for model in models)
    return np.stack([first, *(other - first for other in others)], axis=1)
