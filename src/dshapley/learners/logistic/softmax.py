"""Logistic regression with more than two classes, for all S + z together.

The method is that of two classes (see `learner`), with a preconditioner instead of coordinates in
which the Hessian is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import FitError
from dshapley.learners.flips import Beyond, Flips
from dshapley.learners.logistic.long_double import (
    SURE,
    SURE_STEP,
    Exact,
    Precise,
    Setting,
    check_sure,
    outputs_of,
)
from dshapley.learners.logistic.passes import EXACT, Steps, sure_labels
from dshapley.learners.logistic.softmax_fit import Preconditioner, Problem, Space, noise, optimum
from dshapley.learners.logistic.softmax_solver import Curve, polished

__all__ = ["Softmax"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Softmax:
    """The model of S, and the test rows in its coordinates."""

    S: tuple[Floats, Array]
    """The rows and classes of S."""
    space: Space
    W: Floats
    curve: Curve
    weights: Floats
    """C times the class weight, for each class."""
    X: Floats
    """The test rows."""
    T: Floats
    """The test rows in the coordinates of `space`."""
    reach: float
    """A bound on how much a class gains on another, at a test row, by a step of length 1."""

    @classmethod
    def fitted(cls, setting: Setting, Z: Floats, missing: int | None) -> Softmax:
        """The model of S, prepared for the rows Z.

        S has no optimum if it lacks a class. Then W is the optimum after the mean of Z is added as
        a row of the missing class, but the curve and its gradient are those of S alone.
        """
        X, y, weights, test, fit_intercept = setting
        S, c, k = (X, y), len(weights), len(X)
        space = Space.of(X, fit_intercept)
        if missing is not None:
            X, y = np.vstack([X, Z.mean(axis=0)]), np.append(y, missing)
        rows = space.rows(X)
        penalty, W = np.ones(rows.shape[1]), np.zeros((c, rows.shape[1]))
        if fit_intercept:
            penalty[0] = 0.0
            W[:, 0] = np.log(weights * np.bincount(y, minlength=c))
            W[:, 0] -= W[:, 0].mean()
        problem = Problem(X=rows, Y=np.eye(c)[y], C=weights[y], penalty=penalty)
        W = optimum(problem, W)
        problem = Problem(X=rows[:k], Y=problem.Y[:k], C=problem.C[:k], penalty=penalty)
        rows, P = problem.X, problem.probabilities(W)
        misses = problem.misses(P)
        gradient = problem.pulled(W, misses)
        curvature = problem.C @ (rows**2 * (1.0 - (P**2).sum(axis=1))[:, np.newaxis]) / c
        space = replace(space, scale=np.sqrt(penalty + curvature))
        scaled = replace(problem, X=rows / space.scale, penalty=penalty / space.scale**2)
        gradient /= space.scale
        M = Preconditioner.of(scaled, P, _leading(rows.shape, c, len(Z)))
        T = space.rows(test)
        leads = M.leads()
        spread = float(leads @ np.abs(scaled.X).max(axis=0))
        reach = max(spread, float(leads @ np.abs(T).max(axis=0, initial=0.0)))
        # If S lacks a class, W is the optimum of other rows, so the gradient of S does not measure
        # the error of W.
        away = 0.0 if missing is not None else np.sqrt((gradient * M(gradient[None])[0]).sum())
        away += noise(problem, W, P, misses, spread)
        W = W * space.scale
        if away * reach > SURE:
            reach = min(reach, 2.0 * float(M.lengths(T, (T @ W.T).argmax(axis=1)).max(initial=0.0)))
        check_sure(away, reach, k)
        # Add a coordinate for the part of z that is orthogonal to S.
        if len(space.V) > space.V.shape[1]:
            M = replace(M, tail=np.column_stack([M.tail, np.ones(c)]))
            scaled = replace(
                scaled, X=np.column_stack([scaled.X, np.zeros(k)]),
                penalty=np.append(scaled.penalty, 1.0),
            )  # fmt: skip
            gradient = np.column_stack([gradient, np.zeros(c)])
            reach += np.sqrt(2.0) * float(np.linalg.norm(np.abs(test - space.mean).max(axis=0)))
        P = np.ascontiguousarray(P.T)
        curve = Curve(
            X=scaled.X,
            P=P,
            C=scaled.C,
            penalty=scaled.penalty,
            gradient=gradient,
            M=M,
            spread=spread,
        )
        return cls(S=S, space=space, W=W, curve=curve, weights=weights, X=test, T=T, reach=reach)

    def alone(self, kind: str) -> Array:
        """One row: the outputs of the model of S."""
        return outputs_of(self._decisions[np.newaxis], kind)

    def exact(self, rows: Floats, y: Array) -> Exact:
        """The decision values of S + z for each z."""
        points, directions, start = self._points(rows, y)
        steps = polished(self.curve, *points, start=start, tolerance=np.full(len(y), EXACT))
        d, p = steps.d, self.W.shape[1]
        change = np.einsum("nap,tp->nta", d[:, :, :p], self.T)
        if directions.shape[1]:
            change += (directions @ self._beyond.T)[:, :, np.newaxis] * d[:, np.newaxis, :, p]
        return Exact(self._decisions + change, self._lost(steps.blur))

    def _points(self, rows: Floats, y: Array) -> tuple[list[Any], Floats, Steps]:
        """The rows, their decision values, classes and weights; their directions; first steps.

        The directions are those of the part of each row that is orthogonal to S.
        """
        z, beyond = self.space.rows(rows), self.space.beyond(rows)
        points = [z, z @ self.W.T, y, self.weights[y]]
        directions = np.empty((len(z), 0))
        if beyond.shape[1]:
            sizes = np.linalg.norm(beyond, axis=1, keepdims=True)
            points[0] = np.column_stack([z, sizes])
            directions = np.divide(beyond, sizes, where=sizes > 0.0, out=np.zeros_like(beyond))
        zeros = np.zeros((len(z), *self.curve.gradient.shape))
        return points, directions, Steps(zeros, zeros, np.zeros(len(z)))

    def labels(self, rows: Floats, y: Array) -> Array:
        """The labels of S + z for each z, solved only as exactly as they need."""
        points, directions, start = self._points(rows, y)
        p = self.W.shape[1]

        def solve(which: Array, start: Steps, tolerance: Floats, single: bool) -> Steps:
            curve = self.curve.single if single else self.curve
            some = (part[which] for part in points)
            return polished(curve, *some, start=start, tolerance=tolerance)

        def label(which: Array, steps: Steps) -> tuple[Array, Floats]:
            out = Beyond(directions[which], steps.d[:, :, p]) if directions.shape[1] else None
            return self._flips.labels(steps.d[:, :, :p], steps.blur, steps.lengths, out)

        labels, lost = sure_labels(
            solve, label, start, self._flips.reach, SURE_STEP / self._tight_reach
        )
        return self._with_lost(labels, lost, rows, y, "label")

    def with_lost(self, found: Exact, rows: Floats, y: Array, kind: str) -> Array:
        """The outputs of S + z for each z."""
        return self._with_lost(outputs_of(found.decisions, kind), found.lost, rows, y, kind)

    def _lost(self, blur: Floats) -> Array:
        """The z whose steps may be too far from their optima."""
        lost = np.flatnonzero(blur * self.reach > SURE_STEP)
        return lost[blur[lost] * self._tight_reach > SURE_STEP] if len(lost) else lost

    def _with_lost(self, outputs: Array, lost: Array, rows: Floats, y: Array, kind: str) -> Array:
        """The outputs, with those of the z in `lost` replaced by fits of S + z from scratch."""
        X, classes = self.S
        for i in lost:
            setting = Setting(
                np.vstack([X, rows[i]]), np.append(classes, y[i]), self.weights, self.X,
                self.space.fit_intercept,
            )  # fmt: skip
            try:
                found = Softmax.fitted(setting, rows[:0], None).alone(kind)
            except (FitError, np.linalg.LinAlgError):
                found = Precise(*setting).alone(kind)
            outputs[i] = found[0]
        return outputs

    @cached_property
    def _beyond(self) -> Floats:
        return self.space.beyond(self.X)

    @cached_property
    def _decisions(self) -> Floats:
        return self.T @ self.W.T

    @cached_property
    def _tight_reach(self) -> float:
        """A reach computed row by row, which is at most `reach`.

        The gap between two classes changes by at most the sum of their changes relative to the
        label's class.
        """
        return min(self.reach, 2.0 * float(self._lengths.max(initial=0.0)))

    @cached_property
    def _lengths(self) -> Floats:
        T, beyond = self.T, self._beyond
        if beyond.shape[1]:
            T = np.column_stack([T, np.linalg.norm(beyond, axis=1)])
        return self.curve.M.lengths(T, self._decisions.argmax(axis=1))

    @cached_property
    def _flips(self) -> Flips:
        return Flips(self._decisions, self.T, self._lengths, self._beyond)


_LEADING = 1024
"""The most unknowns that the preconditioner of a pass solves exactly."""


def _leading(shape: tuple[int, int], c: int, n_points: int) -> int:
    """The number of leading coordinates: more would cost more per pass than they save."""
    k, p = shape
    worth = np.cbrt(k * p * c * max(n_points, 1))
    return int(min(p, max(min(worth, _LEADING) // c, 512 // c, 1)))
