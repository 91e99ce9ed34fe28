"""Linear least squares without retraining: Ridge, LinearRegression and RidgeClassifier.

In coordinates centred on S, let A = X'WX + alpha I. Adding a row z of weight w and residual
e = y - f(z) changes the coefficients by a A^-1 z and the intercept by a / sum(W), where

    a = w e / (1 + w h),   h = z' A^-1 z + 1 / sum(W).

This is the rank-one update of the augmented system. Without a penalty the solution is the one of
minimum norm. If z is outside the span of S, that solution interpolates z: it changes by
e q / |q|^2, where q is the part of z outside the span. If rounding decides whether z is outside,
scikit-learn fits S + z.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack

from dshapley.data.points import Array, Floats
from dshapley.learners.cache import kept
from dshapley.learners.classes import class_weights
from dshapley.learners.fast import Asked, Family, Sample, Scored, UnsupportedError
from dshapley.learners.flips import Flips
from dshapley.learners.kernels import kernel
from dshapley.learners.protocol import Query
from dshapley.metrics import METRICS

__all__ = ["Penalised", "family"]

_BLOCK = 1 << 24
"""The size in bytes of the outputs that are computed together."""

_ILL = 1e8
"""A = X'X + alpha I is formed only if its condition number is below this. Otherwise X is
decomposed, which is slower and more accurate."""

_NOISE = 1e-12
"""Numbers below this share of the smallest singular value are treated as rounding errors."""

_LOST = 1e-9
"""A singular value below this share of the largest may have lost half its digits to rounding."""


def family(estimator: Any) -> Family:
    """The family for an estimator's parameters.

    `solver` and `max_iter` do not matter: they change only how the solution is computed.
    """
    if estimator.positive:
        raise UnsupportedError("positive=True has no closed-form solution")
    if type(estimator).__name__ == "LinearRegression":
        return Unpenalised(estimator, _cutoff(estimator))
    if np.ndim(estimator.alpha) != 0:
        raise UnsupportedError("alpha is an array; only a single number has a fast path")
    weights = getattr(estimator, "class_weight", None)
    if isinstance(weights, dict) and not all(weight > 0.0 for weight in weights.values()):
        raise UnsupportedError("a class_weight that is not positive has no fast path")
    if not estimator.alpha > 0.0:
        raise UnsupportedError(
            "with alpha=0 rounding decides which of many solutions is found; "
            "LinearRegression has a fast path"
        )
    return Penalised(float(estimator.alpha), bool(estimator.fit_intercept), weights)


def _cutoff(estimator: Any) -> float:
    """LinearRegression drops singular values below this share of the largest."""
    import sklearn

    major, minor = (int(part) for part in sklearn.__version__.split(".")[:2])
    if (major, minor) >= (1, 9) and estimator.tol is not None:
        return float(estimator.tol)
    return float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Fit:
    """The model of S, and what its updates need.

    f(x) = level + (x - centre)'slopes, with slopes (d, c) and level (c,) for c targets; A^-1 = B
    B'. The methods take rows as x - origin, with shift = origin - centre; without a shift the
    origin is the centre.
    """

    centre: Floats
    slopes: Floats
    level: Floats
    B: Floats
    triangular: bool
    """Whether B is upper triangular, so that a product with it takes half the work."""
    inverse_weight: float
    """1 / sum(W) with an intercept, else 0."""

    def at(self, X: Floats, shift: Floats | None = None) -> Floats:
        """(len(X), c) the predictions."""
        moved = self.level if shift is None else self.level + shift @ self.slopes
        return np.asarray(X @ self.slopes + moved)

    def whitened(self, X: Floats, shift: Floats | None = None) -> Floats:
        """The whitened rows (B'(x - centre), 1 / sqrt(sum(W))), for which h = |row|^2."""
        found = np.empty((len(X), self.B.shape[1] + 1))
        moved = 0.0 if shift is None else shift @ self.B
        np.add(self._product(X, transposed=False), moved, out=found[:, :-1])
        found[:, -1] = np.sqrt(self.inverse_weight)
        return found

    def moves(self, steps: Floats) -> Floats:
        """(r, d + 1) the changes of slopes and level for steps in whitened coordinates."""
        found = np.empty((len(steps), len(self.B) + 1))
        found[:, :-1] = self._product(np.ascontiguousarray(steps[:, :-1]), transposed=True)
        found[:, -1] = steps[:, -1] * np.sqrt(self.inverse_weight)
        return found

    def pulls(self, X: Floats, rows: Floats, Y: Floats, weight: Any = 1.0) -> Floats:
        """(r, c) a = w e / (1 + w h): the step of each (x, y) along its whitened row."""
        h = np.einsum("ij,ij->i", rows, rows)[:, np.newaxis]
        return np.asarray(weight * (Y - self.at(X)) / (1.0 + weight * h))

    def _product(self, X: Floats, *, transposed: bool) -> Floats:
        """X B, or X B' if transposed."""
        if not self.triangular or len(X) == 0:
            return X @ (self.B.T if transposed else self.B)
        return np.asarray(blas.dtrmm(1.0, self.B, X.T, trans_a=0 if transposed else 1).T)


def _fitted(X: Floats, Y: Floats, weights: Floats | None, alpha: float, intercept: bool) -> _Fit:
    """Weighted ridge regression of Y (n, c) on X; an intercept centres both first."""
    n, d = X.shape
    total = float(n) if weights is None else float(weights.sum())
    centre, level = np.zeros(d), np.zeros(Y.shape[1])
    if intercept:
        centre = np.average(X, axis=0, weights=weights)
        level = np.average(Y, axis=0, weights=weights)
        X = X - centre
        Y = Y - level
    if weights is not None:
        root = np.sqrt(weights)[:, np.newaxis]
        X, Y = root * X, root * Y
    slopes, B, triangular = _solved(X, Y, alpha)
    return _Fit(
        centre=centre,
        slopes=slopes,
        level=level,
        B=B,
        triangular=triangular,
        inverse_weight=1.0 / total if intercept else 0.0,
    )


def _solved(X: Floats, Y: Floats, alpha: float) -> tuple[Floats, Floats, bool]:
    """For A = X'X + alpha I: A^-1 X'Y, a B with B B' = A^-1, and whether B is triangular."""
    if np.einsum("ij,ij->", X, X) < _ILL * alpha:
        A = X.T @ X
        A.flat[:: len(A) + 1] += alpha
        factor, _ = lapack.dpotrf(A, lower=0, overwrite_a=1, clean=1)
        B: Floats = lapack.dtrtri(factor, lower=0, overwrite_c=1)[0]
        return B @ (B.T @ (X.T @ Y)), B, True
    singular, V, UY = _decomposed(X, Y)
    size = singular**2 + alpha
    return V @ (UY * (singular / size)[:, np.newaxis]), np.asarray(V / np.sqrt(size)), False


def _decomposed(X: Floats, Y: Floats) -> tuple[Floats, Floats, Floats]:
    """All d singular values s of X = U diag(s) V', the whole V, and U'Y padded with zeros."""
    n, d = X.shape
    if n == 0:
        return np.zeros(d), np.eye(d), np.zeros((d, Y.shape[1]))
    if n > 2 * d:
        Q, R = linalg.qr(X, mode="economic")
        X, Y = np.asarray(R), np.asarray(Q.T @ Y)
    U, found, Vt = linalg.svd(X, full_matrices=n < d)
    singular, UY = np.zeros(d), np.zeros((d, Y.shape[1]))
    singular[: len(found)] = found
    UY[: len(found)] = U[:, : len(found)].T @ Y
    return singular, np.asarray(Vt.T), UY


# --- with a penalty


@dataclass(frozen=True, eq=False)
class Penalised:
    """Ridge regression of numbers, or of one column of -1 and +1 for each class."""

    alpha: float
    intercept: bool
    class_weight: Any = None

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """Blocks of labels, decision values, predictions, or scores; see `Family`."""
        if asked.kind == "number":
            return self._numbers(S, Z, asked)
        return self._classes(S, Z, asked)

    def _numbers(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        if len(S) == 0 and self.intercept:  # with an intercept, a model of one row predicts its y
            yield from _constants(Z, asked)
            return
        alone = len(S) > 0
        fit = _fitted(S.X, S.y[:, np.newaxis], None, self.alpha, self.intercept)
        X = Z.X - fit.centre
        rows = fit.whitened(X)
        steps = rows * fit.pulls(X, rows, Z.y[:, np.newaxis])
        known: list[Floats | None] = [
            _clipped(fit, steps, asked)[0 if alone else 1 :] if _is(query, "neg_mse") else None
            for query in asked.queries
        ]
        if all(scores is not None for scores in known):
            yield Scored(np.column_stack(cast("list[Floats]", known)))
            return
        yield from _moved(fit, fit.moves(steps), asked, alone=alone, known=known)

    def _classes(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        counts = np.bincount(S.y, minlength=asked.n_classes)
        model = self._model(S, counts, asked)
        if (counts > 0).all():
            yield model.base
        step = max(1, _BLOCK // (len(asked.X) * (1 if asked.kind == "label" else 8 * len(counts))))
        for start in range(0, len(Z), step):
            X, y = Z.X[start : start + step], Z.y[start : start + step]
            if self.class_weight != "balanced":
                yield model.outputs(X, y)
                continue
            # The balanced weights of S + z depend on z only through its class, so S is fitted once
            # for each class.
            parts = [(c, np.flatnonzero(y == c)) for c in np.unique(y)]
            after = [counts + (np.arange(len(counts)) == c) for c, _ in parts]
            found = [
                self._model(S, now, asked).outputs(X[rows], y[rows])
                for now, (_, rows) in zip(after, parts, strict=True)
            ]
            order = np.argsort(np.concatenate([rows for _, rows in parts]))
            yield np.concatenate(found)[order]

    def _model(self, S: Sample, counts: Array, asked: Asked) -> _Classifier:
        """The model of S with the class weights for these class counts, which may include z."""
        assert asked.classes is not None
        weights = class_weights(self.class_weight, counts, asked.classes)
        each = None if (weights == 1.0).all() else weights[S.y]
        signs = _signs(S.y, len(counts))
        make = partial(_fitted, S.X, signs, each, self.alpha, self.intercept)
        fit = asked.once("fit", make, counts.tobytes())
        f, T = asked.once("test rows", partial(_test_rows, fit, asked), counts.tobytes())
        flips = None
        if asked.kind == "label":
            flips = Flips(f[:, 0], T) if len(counts) == 2 else Flips.along(f, T)
        return _Classifier(
            fit=fit, weights=weights, f=f, T=T, label=asked.kind == "label", flips=flips
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Classifier:
    """The model of S, applied to the test rows.

    It has one column for each class, or a single column for two classes.
    """

    fit: _Fit
    weights: Floats
    f: Floats
    T: Floats
    label: bool
    flips: Flips | None

    @property
    def base(self) -> Array:
        """(1, n) or (1, n, c) the outputs of the model of S itself."""
        return self._said(self.f[np.newaxis])

    def outputs(self, X: Floats, y: Array) -> Array:
        """The outputs with each (x, y) added."""
        X = X - self.fit.centre
        rows = self.fit.whitened(X)
        targets = _signs(y, len(self.weights))
        pulls = self.fit.pulls(X, rows, targets, self.weights[y][:, np.newaxis])
        if self.flips is None:
            return self._said(self.f + pulls[:, np.newaxis] * (rows @ self.T.T)[:, :, np.newaxis])
        if pulls.shape[1] == 1:
            return self.flips.labels(pulls * rows)[0]
        return self.flips.labels_along(rows, pulls)[0]

    def _said(self, f: Floats) -> Array:
        if self.label:
            return (f[..., 0] > 0.0).astype(np.int8) if f.shape[-1] == 1 else f.argmax(axis=-1)
        return np.concatenate([-f, f], axis=-1) if f.shape[-1] == 1 else f


def _test_rows(fit: _Fit, asked: Asked) -> tuple[Floats, Floats]:
    """The outputs of the model of S for the test rows, and these rows, whitened."""
    test = _test(asked)
    shift = test.mean - fit.centre
    return fit.at(test.X, shift), fit.whitened(test.X, shift)


def _signs(y: Array, n_classes: int) -> Floats:
    """(n, c) +1 in the column of the class, else -1; for two classes only the second column."""
    found = np.where(y[:, np.newaxis] == np.arange(n_classes), 1.0, -1.0)
    return found[:, 1:] if n_classes == 2 else found


# --- numbers


def _is(query: Query, name: str) -> bool:
    # Compare the functions, because a worker has its own copy of the metric.
    return query.metric.score is METRICS[name].score


def _constants(Z: Sample, asked: Asked) -> Iterator[Array]:
    """The predictions of models trained on z alone: its y for every test row."""
    step = max(1, _BLOCK // (8 * len(asked.X)))
    for start in range(0, len(Z), step):
        y = Z.y[start : start + step]
        yield np.broadcast_to(y[:, np.newaxis], (len(y), len(asked.X)))


def _moved(
    fit: _Fit, moves: Floats, asked: Asked, *, alone: bool, known: list[Floats | None]
) -> Iterator[Array | Scored]:
    """Predictions, or scores, after each of the `moves` (r, d + 1) of slopes and level.

    If `alone`, the model of S without a move comes first. `known` are the scores by each query that
    need no predictions; R2 scores are added to them.
    """
    if alone:
        moves = np.vstack([np.zeros(moves.shape[1]), moves])
    for i, query in enumerate(asked.queries):
        if _is(query, "r2"):
            squares = _squares(fit, moves, asked)
            known[i] = 1.0 - squares / (len(asked.X) * asked.query.y.var())
    if all(scores is not None for scores in known):
        yield Scored(np.column_stack(cast("list[Floats]", known)))
        return
    done = 0
    for outputs in _predictions(fit, moves, asked):
        yield _with_known(outputs, known, done, asked)
        done += len(outputs)


def _with_known(
    outputs: Array, known: list[Floats | None], start: int, asked: Asked
) -> Array | Scored:
    """The outputs of the models from `start` on, or their scores if some are known."""
    if all(scores is None for scores in known):
        return outputs
    rows = slice(start, start + len(outputs))
    # Each metric gets a copy, so that one that changes its argument harms no other.
    return Scored(
        np.column_stack(
            [
                query.score(outputs.copy()) if scores is None else scores[rows]
                for query, scores in zip(asked.queries, known, strict=True)
            ]
        )
    )


def _predictions(fit: _Fit, moves: Floats, asked: Asked) -> Iterator[Array]:
    """Blocks of predictions after each of the moves, which are overwritten."""
    test = _test(asked)
    f = fit.at(test.X, test.mean - fit.centre)[:, 0]
    moves[:, -1] += moves[:, :-1] @ (test.mean - fit.centre)
    step = max(1, _BLOCK // (8 * len(f)))
    for start in range(0, len(moves), step):
        some = moves[start : start + step]
        yield f + (some[:, :-1] @ test.X.T + some[:, -1:])


@dataclass(frozen=True, eq=False)
class _Test:
    """The test rows minus their mean, the mean, and X'X: the same for all draws."""

    mean: Floats
    X: Floats
    gram: Floats


def _test(asked: Asked) -> _Test:
    def make() -> tuple[Floats, Floats, Floats]:
        mean = asked.X.mean(axis=0)
        X = asked.X - mean
        return mean, X, X.T @ X

    return _Test(*kept.get(("test", asked.query.test.key), make))


def _squares(fit: _Fit, moves: Floats, asked: Asked) -> Floats:
    """(r,) the sum of squared errors over the test set after each move m of the model.

    With T the test rows (x - centre, 1) and r the errors of the model of S, this is |T m + r|^2 =
    m'T'T m + 2 m'T'r + r'r, which needs no predictions.
    """
    test = _test(asked)
    n, shift = len(test.X), test.mean - fit.centre
    r = fit.at(test.X, shift)[:, 0] - asked.query.y
    gram = np.empty((len(shift) + 1, len(shift) + 1))
    gram[:-1, :-1] = test.gram + n * np.outer(shift, shift)
    gram[-1, :-1] = gram[:-1, -1] = n * shift
    gram[-1, -1] = n
    slope = np.append(r @ test.X + r.sum() * shift, r.sum())
    return np.asarray(np.einsum("ij,ij->i", moves @ gram + 2.0 * slope, moves) + r @ r)


_TOGETHER = 128
"""The number of models whose clipped rows are found together, in order of step length."""


def _clipped(fit: _Fit, steps: Floats, asked: Asked) -> Floats:
    """neg_mse of the model of S and of the models at `steps` (r, p) in whitened coordinates.

    neg_mse limits the squared error of a row to 4 var(y). So this is the sum of all squared errors
    minus the excess of the rows above the limit. By the Cauchy-Schwarz inequality the error of row
    t changes by at most |t| |step|, so only rows that can exceed the limit are computed.
    """
    steps = np.vstack([np.zeros(steps.shape[1]), steps])
    sums = _squares(fit, fit.moves(steps), asked)
    y, test = asked.query.y, _test(asked)
    bound = 4.0 * float(y.var())
    T = fit.whitened(test.X, test.mean - fit.centre)
    r = fit.at(test.X, test.mean - fit.centre)[:, 0] - y
    room, norms = np.sqrt(bound) - np.abs(r), np.sqrt(np.einsum("ij,ij->i", T, T))
    reach = np.where(norms > 0.0, room / np.where(norms > 0.0, norms, 1.0), np.sign(room) * np.inf)
    order = np.argsort(reach)
    reach, T, r = reach[order], T[order], r[order]
    sizes = np.sqrt(np.einsum("ij,ij->i", steps, steps))
    by_size = np.argsort(sizes)
    for start in range(0, len(steps), _TOGETHER):
        some = by_size[start : start + _TOGETHER]
        width = int(np.searchsorted(reach, sizes[some[-1]], side="right"))
        _subtract_excess(sums, some, steps[some] @ T[:width].T, r, bound)
    return np.asarray(1.0 - sums / (bound * len(y)))


@kernel
def _subtract_excess(sums: Floats, some: Array, gains: Floats, r: Floats, bound: float) -> None:
    for i in range(len(some)):
        excess = 0.0
        for j in range(gains.shape[1]):
            error = r[j] + gains[i, j]
            excess += max(error * error - bound, 0.0)
        sums[some[i]] -= excess


# --- without a penalty


@dataclass(frozen=True, eq=False)
class Unpenalised:
    """Least squares of minimum norm, as in LinearRegression.

    Singular values below `cutoff` times the largest are dropped.
    """

    estimator: Any
    cutoff: float

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """Blocks of predictions, or scores; see `Family`."""
        intercept = bool(self.estimator.fit_intercept)
        if len(S) == 0 and intercept:
            yield from _constants(Z, asked)
            return
        fit, singular, certain = self._fitted(S, intercept)
        moves, sure = self._moves(fit, singular, len(S), Z)
        if not certain:
            sure[:] = False
            if len(S) > 0:
                slopes, level = self._solver(S.X, S.y, fit.centre)
                fit = replace(fit, slopes=slopes, level=level)
        for z in np.flatnonzero(~sure):
            X, y = np.vstack([S.X, Z.X[z]]), np.append(S.y, Z.y[z])
            slopes, level = self._solver(X, y, fit.centre)
            moves[z] = np.append(slopes - fit.slopes, level - fit.level)
        known: list[Floats | None] = [None] * len(asked.queries)
        yield from _moved(fit, moves, asked, alone=len(S) > 0, known=known)

    def _fitted(self, S: Sample, intercept: bool) -> tuple[_Fit, Floats, bool]:
        """The model of S, its nonzero singular values, and whether its rank is certain."""
        centre, level = np.zeros(S.X.shape[1]), np.zeros(1)
        if intercept:
            centre, level = S.X.mean(axis=0), S.y.mean(keepdims=True)
        singular, V, y = _decomposed(S.X - centre, (S.y - level)[:, np.newaxis])
        rank = np.count_nonzero(singular > self._floor() * singular[0])
        certain = rank == 0
        if rank > 0:
            least = singular[rank - 1]
            certain = bool(least > _LOST * np.linalg.norm(S.X)) and (
                rank == len(centre) or bool(singular[rank] <= _NOISE * least)
            )
        singular, V = singular[:rank], V[:, :rank]
        slopes = V @ (y[:rank] / singular[:, np.newaxis])
        weight = 1.0 / len(S) if intercept else 0.0
        return (
            _Fit(
                centre=centre,
                slopes=slopes,
                level=level,
                B=V / singular,
                triangular=False,
                inverse_weight=weight,
            ),
            singular,
            certain,
        )

    def _floor(self) -> float:
        """The share of the largest above which a singular value is certainly kept."""
        return max(self.cutoff, _LOST)

    def _moves(self, fit: _Fit, singular: Floats, n: int, Z: Sample) -> tuple[Floats, Array]:
        """(r, d + 1) the change of slopes and level by each z, and whether it is certain."""
        W = Z.X - fit.centre
        e = Z.y - fit.at(W)[:, 0]
        rows = W @ fit.B
        size = np.einsum("ij,ij->i", rows, rows)
        a = e / (1.0 + size + fit.inverse_weight)
        moves = np.column_stack([(a[:, np.newaxis] * rows) @ fit.B.T, a * fit.inverse_weight])
        # Around the mean of S + z, z counts n / (n + 1).
        shrunk = n / (n + 1.0) if fit.inverse_weight else 1.0
        largest = np.sqrt((singular**2).max(initial=0.0) + np.einsum("ij,ij->i", W, W))
        least = singular.min(initial=np.inf)
        sure = least > self._floor() * largest
        if len(singular) == len(fit.centre):
            return moves, sure
        V = fit.B * singular
        Q = W - (W @ V) @ V.T
        Q -= (Q @ V) @ V.T  # removes the rounding error of the first projection
        q = np.sqrt(np.einsum("ij,ij->i", Q, Q))
        inside = q <= _NOISE * least if len(singular) else q == 0.0
        # A triangular M has the singular values of S + z, so none of them is below 1 / |M^-1|.
        with np.errstate(divide="ignore"):
            bound = (singular**-2.0).sum() + (1.0 / shrunk + size) / q**2
        outside = bound**-0.5 > self._floor() * largest
        outside &= ~inside
        moves[outside, :-1] = Q[outside] * (e / np.where(q > 0.0, q, 1.0) ** 2)[outside, np.newaxis]
        moves[outside, -1] = 0.0
        return moves, (sure & inside) | outside

    def _solver(self, X: Floats, y: Floats, centre: Floats) -> tuple[Floats, Floats]:
        """The slopes that scikit-learn finds, and the prediction at `centre`."""
        from sklearn.base import clone

        model = clone(self.estimator).fit(X, y)
        slopes = np.asarray(model.coef_, dtype=np.float64).reshape(-1, 1)
        return slopes, np.asarray(model.intercept_ + centre @ slopes)
