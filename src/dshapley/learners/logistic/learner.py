"""Logistic regression with two classes: fit S once, and find all S + z by a few matrix products.

Let w be the optimum of S and H = LL' the Hessian there, and transform each row x to L^-1 x, so that
the Hessian becomes the identity. The optimum of S + z is then w + d with

    d + sum over S of C_i r_i(x_i'd) x_i + C_z (s(f_z + z'd) - y_z) z = 0,

where s is the sigmoid, f = x'w, and r_i(u) = s(f_i + u) - s(f_i) - s'(f_i) u is the part of the
gradient of S that is not linear. Without r this is one scalar equation for each z. From its
solution, conjugate gradients take all z together to the optimum (`binary_solver.polished`). If only
labels are needed, a rough optimum in single precision is enough for most z; only those with a test
row too close to the boundary are solved further, in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import expit

from dshapley.data.points import Array, Floats
from dshapley.errors import FitError
from dshapley.learners.classes import check_class_weight, class_weights
from dshapley.learners.fast import Asked, Family, Sample, UnsupportedError
from dshapley.learners.flips import Flips
from dshapley.learners.kernels import kernel
from dshapley.learners.logistic.binary_solver import Quadratic, first_steps, polished
from dshapley.learners.logistic.long_double import (
    SURE_STEP,
    Exact,
    Precise,
    Setting,
    check_sure,
    outputs_of,
)
from dshapley.learners.logistic.passes import EXACT, Steps, sure_labels
from dshapley.learners.logistic.softmax import Softmax

__all__ = ["family"]

_NEWTON_STEPS = 200
_FAIR = 1e-5
"""If the Newton decrement is below this and stops falling, only rounding error may be left; `_base`
then checks whether the optimum is accurate enough."""

_EPSILON = float(np.finfo(np.float64).eps)


def family(estimator: Any) -> Family:
    """The family of a LogisticRegression with an L2 penalty."""
    asked = estimator.get_params()
    if asked["solver"] == "liblinear":
        raise UnsupportedError("solver='liblinear' has a different optimum from the other solvers")
    if asked["penalty"] not in ("l2", "deprecated") or asked["l1_ratio"]:
        raise UnsupportedError("only the L2 penalty has a fast path")
    if not np.isfinite(asked["C"]):
        raise UnsupportedError("without a penalty small sets have no optimum")
    # removed in scikit-learn 1.8
    if asked.get("multi_class", "auto") not in ("auto", "deprecated"):
        raise UnsupportedError("multi_class has no fast path")
    check_class_weight(asked["class_weight"])
    return Logistic(asked["C"], asked["fit_intercept"], asked["class_weight"])


def _block_size(k: int, asked: Asked, kind: str) -> int:
    """How many z are solved together: so many that their products with S fit in the CPU cache."""
    columns = asked.n_classes if asked.n_classes > 2 else 1
    size = int(np.clip((1 << 19) // max(k * columns, 1), 128, 1024))
    if kind == "label":
        return size
    return max(1, min(size, (1 << 22) // (len(asked.X) * asked.n_classes)))


@dataclass(frozen=True)
class Logistic:
    """Logistic regression with C, fit_intercept and class_weight as in scikit-learn.

    The solver does not matter, because the optimum is unique.
    """

    C: float
    fit_intercept: bool
    class_weight: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """Blocks of outputs: of S, if it has every class, then of S + z for each z."""
        assert asked.classes is not None
        labels, c = asked.classes, asked.n_classes
        counts = np.bincount(S.y, minlength=c)

        @cache  # for a single kind, whose results are not kept elsewhere
        def base(z_class: int | None) -> _Base | Softmax | Precise:
            """S with the class weights that S + z has, for a z of this class (None: those of S)."""
            with_z = counts + (np.arange(c) == z_class)
            weights = self.C * class_weights(self.class_weight, with_z, labels)
            setting = Setting(S.X, S.y, weights, asked.X, self.fit_intercept)
            try:
                if c == 2:
                    return _base(*setting)
                missing = z_class if counts.min() == 0 else None
                return Softmax.fitted(setting, Z.X, missing)
            except (FitError, np.linalg.LinAlgError):
                return Precise(*setting)

        def adding(z_class: int | None, rows: Floats, y: Array, start: int) -> Array:
            model = asked.once(f"base {z_class}", partial(base, z_class))
            if isinstance(model, Precise):
                return model.adding(rows, y, asked.kind)
            size = _block_size(len(S), asked, "score")
            both = asked.shared.columns.keys() > {"label"} and size == _block_size(
                len(S), asked, "label"
            )
            if asked.kind == "label" and not both:
                return model.labels(rows, y)
            found = asked.once(f"exact {z_class}", partial(model.exact, rows, y), start)
            if asked.kind == "label":
                labels = found.sure_labels()
                return model.labels(rows, y) if labels is None else labels
            return model.with_lost(found, rows, y, asked.kind)

        whole = bool(counts.all())
        if whole:
            yield asked.once("base None", partial(base, None)).alone(asked.kind)
        size = _block_size(len(S), asked, asked.kind)
        for start in range(0, len(Z), size):
            rows, y = Z.X[start : start + size], Z.y[start : start + size]
            if whole and self.class_weight != "balanced":
                yield adding(None, rows, y, start)
                continue
            parts = [(y == a, adding(int(a), rows[y == a], y[y == a], start)) for a in np.unique(y)]
            block = np.empty((len(y), *parts[0][1].shape[1:]), parts[0][1].dtype)
            for where, part in parts:
                block[where] = part
            yield block


@dataclass(frozen=True, eq=False, kw_only=True)
class _Base:
    """The model of S, and the test rows in its coordinates."""

    S: tuple[Floats, Array]
    """The rows and classes of S."""
    centre: Floats | None
    """The mean that is subtracted from all rows; None without an intercept."""
    w: Floats
    root: Floats
    """L^-1, for the Hessian LL' at w."""
    quadratic: Quadratic
    weights: Floats
    """C times the class weight, for each class."""
    X: Floats
    """The test rows."""
    T: Floats
    """The test rows, centred and with a column of ones if there is an intercept."""
    reach: float
    """A bound on the change of a decision value, at a test row or a row of S, by a step of length
    1."""

    def alone(self, kind: str) -> Array:
        """One row: the outputs of the model of S."""
        return outputs_of(self._decisions[np.newaxis], kind)

    def exact(self, rows: Floats, y: Array) -> Exact:
        """The decision values of S + z for each z."""
        points = self._points(rows, y)
        start = first_steps(self.quadratic, *points)
        tolerance = np.full(len(y), EXACT)
        steps = polished(self.quadratic, *points, start=start, tolerance=tolerance)
        lost = np.flatnonzero(steps.blur * self.reach > SURE_STEP)
        return Exact(self._decisions + steps.d @ self._test.T, lost)

    def _points(self, rows: Floats, y: Array) -> tuple[Floats, Floats, Array, Floats]:
        """The rows in whitened coordinates, their decision values, classes and weights."""
        rows, _ = _framed(rows, self.centre)
        return rows @ self.root.T, rows @ self.w, y, self.weights[y]

    def labels(self, rows: Floats, y: Array) -> Array:
        """The labels of S + z for each z, solved only as exactly as they need."""
        S, points = self.quadratic, self._points(rows, y)
        start = first_steps(S, *points)

        def solve(which: Array, start: Steps, tolerance: Floats, single: bool) -> Steps:
            some = (part[which] for part in points)
            return polished(S.single if single else S, *some, start=start, tolerance=tolerance)

        def label(_: Array, steps: Steps) -> tuple[Array, Floats]:
            return self._flips.labels(steps.d, steps.blur)

        sure = SURE_STEP / self.reach
        labels, lost = sure_labels(solve, label, start, self._flips.reach, sure)
        return self._with_lost(labels, lost, rows, y, "label")

    def with_lost(self, found: Exact, rows: Floats, y: Array, kind: str) -> Array:
        """The outputs of S + z for each z."""
        return self._with_lost(outputs_of(found.decisions, kind), found.lost, rows, y, kind)

    def _with_lost(self, outputs: Array, lost: Array, rows: Floats, y: Array, kind: str) -> Array:
        """The outputs, with those of the z in `lost` replaced by fits of S + z from scratch."""
        X, classes = self.S
        for i in lost:
            setting = (
                np.vstack([X, rows[i]]), np.append(classes, y[i]), self.weights, self.X,
                self.centre is not None,
            )  # fmt: skip
            try:
                found = _base(*setting).alone(kind)
            except (FitError, np.linalg.LinAlgError):
                found = Precise(*setting).alone(kind)
            outputs[i] = found[0]
        return outputs

    @cached_property
    def _decisions(self) -> Floats:
        return self.T @ self.w

    @cached_property
    def _test(self) -> Floats:
        return _whitened(self.T, self.root)

    @cached_property
    def _flips(self) -> Flips:
        return Flips(self._decisions, self._test)


def _base(X: Floats, y: Array, weights: Floats, T: Floats, fit_intercept: bool) -> _Base:
    """The fit on S.

    For S of one class it is the best constant after one row of the other class is added. Raises an
    UncertainError if rounding may have moved its decision values by more than `SURE`.
    """
    S, test = (X, y), T
    centre = X.mean(axis=0) if fit_intercept else None
    (X, widest), (T, extremes) = _framed(X, centre), _framed(T, centre)
    penalty = np.ones(X.shape[1])
    start = np.zeros(X.shape[1])
    counts = np.bincount(y, minlength=2)
    if fit_intercept:
        penalty[-1] = 0.0
        odds = weights * np.maximum(counts, 1)
        start[-1] = np.log(odds[1] / odds[0])
    C = weights[y]
    # S of one class has no optimum, because the intercept is not penalised.
    whole = bool(counts.all())
    w = _optimum(X, y, C, penalty, start) if whole else start
    f = X @ w
    p = expit(f)
    D = C * p * expit(-f)
    pulls = C * _misses(f, y)
    H = _hessian(X, D, penalty)
    root = _inverse_root(H)
    gradient = root @ (penalty * w + X.T @ pulls)
    growth = float((np.diag(H) * np.diag(root) ** 2).max())
    quadratic = Quadratic(X=_whitened(X, root), p=p, D=D, gradient=gradient, growth=growth)
    reach = float(np.maximum(widest, extremes) @ np.sqrt(np.einsum("ij,ij->j", root, root)))
    away = np.sqrt(gradient @ gradient) if whole else 0.0
    # The rounding error of the gradient in the norm of H^-1 has three parts: from f, from the
    # penalty and from the sum over the rows.
    noise = _EPSILON * (
        np.sqrt(D.sum()) * (widest @ np.abs(w))
        + np.sqrt(penalty @ w**2)
        + np.abs(pulls).sum() * quadratic.reach
    )
    check_sure(away + noise, reach, len(X))
    return _Base(
        S=S,
        centre=centre,
        w=w,
        root=root,
        quadratic=quadratic,
        weights=weights,
        X=test,
        T=T,
        reach=reach,
    )


def _framed(X: Floats, centre: Floats | None) -> tuple[Floats, Floats]:
    """The rows and the largest absolute value of each column.

    With a centre, it is subtracted and a column of ones is added. Centring keeps the digits of
    columns far from zero.
    """
    intercept = centre is not None
    shift = np.zeros(X.shape[1]) if centre is None else centre
    rows, widest = np.empty((len(X), X.shape[1] + intercept)), np.zeros(X.shape[1] + intercept)
    _frame(np.ascontiguousarray(X), shift, rows, widest)
    return rows, widest


@kernel
def _frame(X: Array, shift: Array, rows: Array, widest: Array) -> None:
    d = X.shape[1]
    for i in range(X.shape[0]):
        for j in range(d):
            rows[i, j] = X[i, j] - shift[j]
            widest[j] = max(widest[j], abs(rows[i, j]))
        for j in range(d, rows.shape[1]):
            rows[i, j] = 1.0
            widest[j] = 1.0


def _misses(f: Floats, y: Array) -> Floats:
    """P(class 1) - y without a subtraction, which would lose the digits of a small result."""
    sign = np.where(y == 1, -1.0, 1.0)
    return sign * expit(sign * f)


def _hessian(X: Floats, D: Floats, penalty: Floats) -> Floats:
    scaled = np.sqrt(D)[:, np.newaxis] * X
    H = scaled.T @ scaled
    H[np.diag_indices_from(H)] += penalty
    return H


def _inverse_root(H: Floats) -> Floats:
    L = linalg.cholesky(H, lower=True, check_finite=False)
    inverse, _ = linalg.lapack.dtrtri(L, lower=1)
    return inverse


def _whitened(X: Floats, root: Floats) -> Floats:
    """X root', in half the time of a full product, because root is triangular."""
    # BLAS stores matrices by columns, so the transposes X.T and root.T need no copy.
    return linalg.blas.dtrmm(1.0, root.T, X.T, side=0, lower=0, trans_a=1).T


def _optimum(
    X: Floats, y: Array, C: Floats, penalty: Floats, w: Floats, *, tolerance: float = 1e-11
) -> Floats:
    """The optimum of S by Newton's method, which reuses a Hessian while convergence is fast."""
    # a quarter of the rows gives a good start
    if len(X) > 8 * X.shape[1] and len(np.unique(y[::4])) == 2:
        w = _optimum(X[::4], y[::4], 4.0 * C[::4], penalty, w, tolerance=0.1)
    sign = np.where(y == 1, -1.0, 1.0)

    def loss(w: Floats, f: Floats) -> float:
        return float(0.5 * penalty @ w**2 + C @ np.logaddexp(0.0, sign * f))

    f = X @ w
    value = loss(w, f)
    factor: Any = None
    before, was_fresh = np.inf, False
    for _ in range(_NEWTON_STEPS):
        misses = sign * expit(sign * f)
        gradient = penalty * w + X.T @ (C * misses)
        fresh = factor is None
        if fresh:
            p = np.abs(misses)
            H = _hessian(X, C * p * (1.0 - p), penalty)
            factor = linalg.cho_factor(H, lower=True, check_finite=False)
        step = linalg.cho_solve(factor, gradient, check_finite=False)
        decrement = float(np.sqrt(np.maximum(gradient @ step, 0.0)))
        if decrement < tolerance or (was_fresh and 0.5 * before < decrement < _FAIR):
            return w
        if not fresh and decrement > 0.1 * before:
            factor = None
            continue
        before, was_fresh = decrement, fresh
        along, t = X @ step, 1.0
        moved = loss(w - step, f - along)
        while decrement > 1e-6 and moved > value - 0.1 * t * decrement**2 and t > 1e-8:
            t, factor = t / 2.0, None
            moved = loss(w - t * step, f - t * along)
        w, f, value = w - t * step, f - t * along, moved
    raise FitError(f"logistic regression on {len(X)} rows did not converge")
