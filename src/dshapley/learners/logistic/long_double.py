"""Logistic regression where double precision is not enough: one set at a time, in long double.

With a weak penalty, or columns of very different sizes, the gradient near the optimum is a small
difference of large numbers, and the Hessian is too ill-conditioned for a Cholesky factor in double
precision. So the model and its gradient are kept in long double, and residuals are computed without
a subtraction from 1. A step comes from the QR factor of a root of the Hessian if the Hessian is
ill-conditioned, since the root has only the square root of its condition number. The step need not
be exact, because the gradient decides when to stop. Where long double is no longer than double,
more sets end in an `UncertainError`, but no set gets an inaccurate result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import expit, softmax

from dshapley.data.points import Array, Floats
from dshapley.learners.fast import UncertainError
from dshapley.learners.flips import as_labels

__all__ = ["SURE", "SURE_STEP", "Exact", "Precise", "Setting", "check_sure", "outputs_of"]

SURE = 1e-8
"""The accepted error of a test row's decision values, relative where one class leads by more than
1. The bounds on the error are loose: it is usually less than a thousandth of this."""

SURE_STEP = 1e-7
"""The accepted error after a step from S to S + z. The bound on that error is looser still, because
it takes every row of S to move as far as the one that moves most."""

_SURELY = 4.0 * SURE_STEP
"""Two models of the same set, each accurate to `SURE_STEP` + `SURE`, agree on a label if one class
leads the others by more than this."""

_NEAR = 1e-11
"""Newton's method stops when its step changes no decision value by more than this."""

_CLOSE = 0.01
"""A step that changes the decision values of S by less than this is in the quadratic range."""

_STEPS, _STEPS_FROM_NEAR = 300, 40
_LONG = np.longdouble
_EPSILON = float(np.finfo(_LONG).eps)

_SQUARED = 1e7
"""Beyond this condition number of the Hessian, its root is factored instead, by QR."""

_SINGULAR = (
    "logistic regression: the Hessian is singular within rounding errors; scale the columns to "
    "similar sizes, or give a smaller C"
)

_WIDE = 256
"""With more unknowns than this and fewer rows than columns, rows are reduced to their own span."""


def check_sure(away: float, reach: float, k: int) -> None:
    """Raise an UncertainError if a fit in double precision may be too far from its optimum.

    `away` bounds the distance, in the norm of the Hessian, and `reach` the change of a decision
    value by a step of length 1. k is the number of rows, for the message.
    """
    if not away * reach <= SURE:
        raise UncertainError(f"logistic regression on {k} rows: rounding errors hide the optimum")


def outputs_of(decisions: Floats, kind: str) -> Array:
    """The outputs asked for, from decision values (r, n) of two classes or (r, n, c) of more."""
    if decisions.ndim == 2:
        if kind == "label":
            return as_labels(decisions > 0.0, 2)
        signed = np.stack([-decisions, decisions], axis=-1)
        return signed if kind == "score" else np.asarray(expit(signed))
    if kind == "label":
        return as_labels(decisions.argmax(axis=-1), decisions.shape[-1])
    return np.asarray(softmax(decisions, axis=-1))


class Setting(NamedTuple):
    """The rows S of a fit, the parameters, and the test rows."""

    X: Floats
    y: Array
    weights: Floats
    """C times the class weight, for each class."""
    T: Floats
    """The test rows."""
    fit_intercept: bool


@dataclass(frozen=True, eq=False)
class Exact:
    """The decision values of S + z for each z, by `EXACT` steps from the model of S."""

    decisions: Floats
    """(r, n) of two classes or (r, n, c) of more."""
    lost: Array
    """The z whose steps may be too far from their optima."""

    def sure_labels(self) -> Array | None:
        """The labels, if they are surely those that `sure_labels` of `passes` gives; else None.

        Its decision values and these have errors of at most `SURE_STEP` + `SURE`, so they agree
        where no class leads by less than the errors of both.
        """
        if len(self.lost):
            return None
        if self.decisions.ndim == 2:
            least = np.abs(self.decisions).min(initial=np.inf)
        else:
            best_two = np.partition(self.decisions, -2, axis=2)[:, :, -2:]
            least = np.diff(best_two, axis=2).min(initial=np.inf)
        return outputs_of(self.decisions, "label") if least > _SURELY else None


@dataclass(frozen=True, eq=False)
class Precise:
    """S and the test rows; each model is fitted separately, in long double."""

    X: Floats
    y: Array
    weights: Floats
    """C times the class weight, for each class."""
    T: Floats
    fit_intercept: bool

    def alone(self, kind: str) -> Array:
        """One row: the outputs of the model of S."""
        return self._outputs(_fit(self, self.X, self.y, None), kind)

    def adding(self, rows: Floats, y: Array, kind: str) -> Array:
        """The outputs of S + z for each z."""
        whole = len(np.unique(self.y)) == len(self.weights)
        near = _fit(self, self.X, self.y, None) if whole else None
        return np.concatenate(list(self._each(rows, y, near, kind)))

    def _each(self, rows: Floats, y: Array, near: _Model | None, kind: str) -> Iterator[Array]:
        for row, label in zip(rows, y, strict=True):
            model = _fit(self, np.vstack([self.X, row]), np.append(self.y, label), near)
            yield self._outputs(model, kind)

    def _outputs(self, model: _Model, kind: str) -> Array:
        decisions = ((self.T - model.centre) @ model.W.T + model.b)[np.newaxis]
        if len(self.weights) == 2:
            decisions = decisions[..., 1] - decisions[..., 0]
        return outputs_of(decisions, kind)


@dataclass(frozen=True, eq=False)
class _Model:
    """A model with the decision values W (x - centre) + b, for W (c, d) and b (c,)."""

    centre: Floats
    W: Floats
    b: Floats


def _fit(asked: Precise, X: Floats, y: Array, near: _Model | None) -> _Model:
    """The model of X, y. It starts from `near`; if that fails, from scratch."""
    if near is not None:
        try:
            return _fit_from(asked, X, y, near)
        except UncertainError:
            return _fit_from(asked, X, y, None)
    return _fit_from(asked, X, y, None)


def _fit_from(asked: Precise, X: Floats, y: Array, near: _Model | None) -> _Model:
    c, intercept = len(asked.weights), asked.fit_intercept
    centre = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
    rows = X.astype(_LONG) - centre
    turn = None
    if len(X) < X.shape[1] and (c - 1) * X.shape[1] > _WIDE:
        turn, _ = linalg.qr(rows.T.astype(np.float64), mode="economic", check_finite=False)
        rows = rows @ turn
    size = np.abs(rows).max(axis=0).astype(np.float64)
    size[size == 0.0] = 1.0
    test = asked.T - centre
    test = (test if turn is None else test @ turn) / size
    # With two classes scikit-learn penalises only their difference, which is twice the penalty of
    # the two rows of W.
    penalty = (2.0 if c == 2 else 1.0) / size.astype(_LONG) ** 2
    start = np.zeros((c, len(size) + intercept))
    if intercept:
        counts = np.bincount(y, minlength=c)
        start[:, -1] = np.log(asked.weights * counts)
        if near is not None:
            start[:, -1] = near.b + near.W @ (centre - near.centre)
    if near is not None:
        start[:, : len(size)] = (near.W if turn is None else near.W @ turn) * size
    rows = rows / size
    if intercept:
        rows = np.column_stack([rows, np.ones(len(rows), _LONG)])
        penalty, test = np.append(penalty, _LONG(0.0)), np.column_stack([test, np.ones(len(test))])
    problem = _Problem(
        X=rows, y=y, C=asked.weights[y].astype(_LONG), penalty=penalty, contrasts=_contrasts(c)
    )
    most = _STEPS if near is None else _STEPS_FROM_NEAR
    V = _optimum(problem, problem.contrasts.T @ start.astype(_LONG), test, most)
    W = (problem.contrasts @ V).astype(np.float64)
    weights = W[:, : len(size)] / size
    b = W[:, -1] if intercept else np.zeros(c)
    return _Model(centre, weights if turn is None else weights @ turn.T, b)


def _contrasts(c: int) -> Array:
    """(c, c - 1) orthonormal columns with sum 0, because the rows of W sum to 0 at the optimum."""
    return np.asarray(linalg.helmert(c).T, dtype=_LONG)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Problem:
    """The loss of V (c - 1, p), where W = contrasts @ V.

    All arrays except y are long double.
    """

    X: Array
    y: Array
    C: Array
    penalty: Array
    contrasts: Array

    def decisions(self, V: Array) -> Array:
        """(k, c - 1) the decision values in the coordinates of the contrasts."""
        return self.X @ V.T

    def probabilities(self, F: Array) -> tuple[Array, Array]:
        """(k, c) P, and P minus 1 at the label, both to full relative precision."""
        full = F @ self.contrasts.T
        P = np.exp(full - full.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        misses = P.copy()
        own = np.arange(len(P)), self.y
        misses[own] = 0.0
        misses[own] = -misses.sum(axis=1)
        return P, misses

    def pulls(self, misses: Array) -> Array:
        """(k, c - 1) the derivative of the loss with respect to the decision values."""
        return self.C[:, np.newaxis] * (misses @ self.contrasts)

    def slope(self, V: Array, F: Array, step: Array, F_step: Array, t: Any) -> float:
        """The derivative with respect to t of the loss at V - t step."""
        _, misses = self.probabilities(F - t * F_step)
        slope = (self.pulls(misses) * F_step).sum()
        slope += (self.penalty * (V - t * step) * step).sum()
        return -float(slope)

    def root(self, P: Array) -> Floats:
        """A matrix M for which M'M is the Hessian; the unknowns are those of V, row by row."""
        k, p = self.X.shape
        q = self.contrasts.shape[1]
        rest = P @ (1.0 - np.eye(P.shape[1], dtype=_LONG))  # 1 - P without a subtraction
        X = self.X.astype(np.float64)
        blocks = []
        for a in range(P.shape[1]):
            away = -P
            away[:, a] = rest[:, a]
            turned = np.sqrt(self.C * P[:, a])[:, np.newaxis] * (away @ self.contrasts)
            rows = turned.astype(np.float64)[:, :, np.newaxis] * X[:, np.newaxis, :]
            blocks.append(rows.reshape(k, q * p))
        roots = np.sqrt(np.tile(self.penalty, q)).astype(np.float64)
        return np.vstack([*blocks, np.diag(roots)])


@dataclass(frozen=True, eq=False)
class _Factor:
    """The Hessian as scale R'R scale, with R upper triangular and scale diagonal."""

    R: Floats
    scale: Floats

    @classmethod
    def of(cls, M: Floats) -> _Factor:
        """The factor of M'M: by Cholesky if its condition number allows, else by QR of M."""
        scale = np.sqrt(np.einsum("ij,ij->j", M, M))
        if not scale.all():
            raise UncertainError(_SINGULAR)
        M = M / scale
        R, info = linalg.lapack.dpotrf(M.T @ M, lower=0, clean=1)
        if info or np.diag(R).min() ** 2 * _SQUARED < 1.0:
            (R,) = linalg.qr(M, mode="r", check_finite=False)
            R = R[: len(scale)]
        if not np.diag(R).all():
            raise UncertainError(_SINGULAR)
        return cls(R, scale)

    def solve(self, g: Array) -> Array:
        """H^-1 g."""
        half = linalg.solve_triangular(self.R, g.ravel() / self.scale, trans=1, check_finite=False)
        step = linalg.solve_triangular(self.R, half, check_finite=False) / self.scale
        return np.asarray(step.reshape(g.shape), dtype=_LONG)

    def reach(self, extremes: Floats) -> float:
        """A bound on the change of a decision value by a step of length 1.

        Lengths are those in the norm of the Hessian.

        `extremes` has the largest absolute value of each coordinate in the test rows.
        """
        inverse, _ = linalg.lapack.dtrtri(self.R)
        squares = ((inverse / self.scale[:, np.newaxis]) ** 2).sum(axis=1)
        # The gap between two classes changes by less than twice the change of the contrasts.
        return 2.0 * float(extremes @ np.sqrt(squares.reshape(-1, len(extremes)).sum(axis=0)))

    def lengths(self, rows: Floats) -> Floats:
        """The same bound for each of the rows."""
        inverse, _ = linalg.lapack.dtrtri(self.R)
        blocks = np.split(inverse / self.scale[:, np.newaxis], len(self.scale) // rows.shape[1])
        return 2.0 * np.sqrt(sum(((rows @ block) ** 2).sum(axis=1) for block in blocks))


def _is_sure(problem: _Problem, V: Array, factor: _Factor, test: Floats, away: float) -> bool:
    """Whether the decision values of each test row are accurate enough.

    V is at most `away` from the optimum. If one class leads all others by more than 1, an error
    relative to the lead is accepted.
    """
    decisions = test @ (problem.contrasts @ V).T.astype(np.float64)
    two = np.partition(decisions, -2, axis=1)[:, -2:]
    leads = np.maximum(two[:, 1] - two[:, 0], 1.0)
    return bool((away * factor.lengths(test) <= SURE * leads).all())


def _optimum(problem: _Problem, V: Array, test: Floats, most: int) -> Array:
    """The optimum, by at most `most` Newton steps from V.

    Raises an UncertainError if the test rows would not be accurate enough (see `_is_sure`).
    """
    extremes = np.abs(test).max(axis=0, initial=0.0)
    F = problem.decisions(V)
    before = np.inf
    for _ in range(most):
        P, misses = problem.probabilities(F)
        pulls = problem.pulls(misses)
        g = problem.penalty * V + pulls.T @ problem.X
        factor = _Factor.of(problem.root(P))
        step = factor.solve(g.astype(np.float64))
        F_step = problem.decisions(step)
        if not np.isfinite(F_step).all():
            break
        decrement = float(np.sqrt(max((g * step).sum(), 0.0)))
        # Only after a step that changes little is the Hessian nearly constant, so that the
        # decrement measures the distance. A small decrement proves nothing by itself: with large
        # columns the whole loss is tiny.
        if np.abs(F_step).max() < _CLOSE:
            reach = factor.reach(extremes)
            if decrement * reach < _NEAR or decrement > 0.5 * before:
                away = decrement + _noise(problem, V, P, misses, factor)
                if away * reach < SURE or _is_sure(problem, V, factor, test, away):
                    return V
                break
            before = decrement
        t = _along(problem, V, F, step, F_step, -float((g * step).sum()))
        V, F = V - t * step, F - t * F_step
    raise UncertainError(
        f"logistic regression on {len(problem.X)} rows: the optimum cannot be found to {SURE:g}, "
        "even in long double; scale the columns to similar sizes, or give a smaller C"
    )


def _along(
    problem: _Problem, V: Array, F: Array, step: Array, F_step: Array, first: float
) -> float:
    """How far to go along the step: until the slope is at most half of its start value."""
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(60):
        slope = problem.slope(V, F, step, F_step, _LONG(t))
        if abs(slope) <= 0.5 * abs(first):
            break
        if slope > 0.0:
            high = t
        else:
            low = t
        t = 0.5 * (low + high) if high < np.inf else 2.0 * t
    return t


def _noise(problem: _Problem, V: Array, P: Array, misses: Array, factor: _Factor) -> float:
    """A bound on the rounding error of the gradient, in the norm of the inverse Hessian."""
    own = P[np.arange(len(P)), problem.y]
    missed = problem.C * np.abs(misses).sum(axis=1) / 2.0
    sizes = (np.abs(problem.X) @ np.abs(V).T).max(axis=1)
    inner = np.sqrt((missed * sizes**2).sum())
    outer = np.sqrt((problem.penalty * V**2).sum())
    # Two bounds limit the gradient of one row: the length of the row, and the curvature of its
    # loss.
    spread = factor.reach(np.abs(problem.X).max(axis=0).astype(np.float64))
    pulls = np.minimum(missed * spread, np.sqrt(missed / np.maximum(own, 1e-300)))
    return 4.0 * _EPSILON * float(inner + outer + pulls.sum())
