"""Move all S + z with more than two classes to their optima together.

The method is conjugate gradients from the model of S. The preconditioner is M (see `softmax_fit`)
plus the curvature of z along its own gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.kernels import inlined, kernel
from dshapley.learners.logistic.passes import (
    Steps,
    expm1,
    largest_of,
    series,
    solved,
    too_far,
)
from dshapley.learners.logistic.softmax_fit import Preconditioner

__all__ = ["Curve", "polished"]

_SAFETY = 1.0
"""After a last Newton step with M, the optimum is at most this times |gradient| away, in the norm
of M. This assumes that the eigenvalues of the Hessian relative to M are between 0.5 and 1.5. The
distance before the step is then at most 2 |gradient|, and the step at least halves it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """The loss of S around its model."""

    X: Array
    P: Array
    """(c, k) the probabilities of the rows of S, by its model."""
    C: Array
    penalty: Array
    gradient: Array
    """(c, p) the gradient of S at its model: zero at an optimum."""
    M: Preconditioner
    spread: float
    """A bound on how much a class gains on another, at a row of S, by a step of length 1."""

    @cached_property
    def single(self) -> Curve:
        """The same in single precision, unless the range of M is too wide for it."""
        if self.M.steep:
            return self
        shared = (self.X, self.P, self.C, self.penalty, self.gradient)
        X, P, C, penalty, gradient = (np.ascontiguousarray(part, np.float32) for part in shared)
        inverse, tail = (part.astype(np.float32) for part in (self.M.inverse, self.M.tail))
        M = Preconditioner(inverse, tail, steep=False)
        return Curve(X=X, P=P, C=C, penalty=penalty, gradient=gradient, M=M, spread=self.spread)

    @cached_property
    def wobble(self) -> float:
        """The rounding error of a gradient when the terms of its probabilities do not cancel."""
        P = self.P.astype(np.float64)
        best = P.argmax(axis=0), np.arange(P.shape[1])
        P[best] = 0.0
        # If the best class of a row is nearly certain, its terms cancel and leave an error of the
        # order of C, in a direction that the Hessian of the row hardly constrains.
        lengths = 1.0 / np.maximum(self.C * P.sum(axis=0), self.spread**-2.0)
        return float(np.finfo(self.X.dtype).eps * np.sqrt((self.C**2 * lengths).sum()))

    @cached_property
    def constants(self) -> tuple[Any, ...]:
        """The constants of `expm1`, in the precision of X."""
        return series(self.X.dtype)


def polished(
    S: Curve, z: Floats, f: Floats, y: Array, C: Floats, *, start: Steps, tolerance: Floats
) -> Steps:
    """The steps to the optima of S + z, as close as `tolerance` or the rounding error allows.

    The blur of a step is infinite if its optimum was not found.
    """
    return solved(_Work.start(S, z, f, y, C, start, tolerance))


class _Known(NamedTuple):
    """The parts of a `Curve` that the loops need."""

    P: Array
    C: Array
    penalty: Array
    gradient: Array
    constants: tuple[Any, ...]


class _Points(NamedTuple):
    """The z; `_Work` describes the fields."""

    z: Array
    f: Floats
    y: Array
    C: Floats


class _Place(NamedTuple):
    """The current positions of the models; `_Work` describes the fields."""

    d: Array
    Md: Array
    largest: Floats
    cancelled: Floats
    far: Floats
    done: Array


class _Way(NamedTuple):
    """The current search directions; `_Work` describes the fields."""

    direction: Array
    M_direction: Array
    slopes: Floats


class _Pull(NamedTuple):
    """The part of the preconditioner that belongs to z; `_Work` describes the fields."""

    along_z: Array
    weight_z: Floats


class _Bounds(NamedTuple):
    """The required accuracy, and the accuracy that rounding allows."""

    limit: float
    """The largest entry of U allowed; see `too_far`."""
    tolerance: Floats
    rounding: float
    wobble: float


@dataclass(eq=False, kw_only=True)
class _Work:
    """The z that are not finished: each array has one row for each z."""

    S: Curve
    z: Array
    f: Floats
    """(n, c) the decision values of z by the model of S."""
    y: Array
    C: Floats
    tolerance: Floats
    d: Array
    Md: Array
    U: Array
    """(n, c, k) d x_i, the changes of the decision values, for all rows of S."""
    R: Array
    """(n, c, k) the changes of the probabilities of the rows of S, times C_i."""
    largest: Floats
    """The largest |entry| of U for each z."""
    cancelled: Floats
    """A bound on how much the division by 1 + m amplifies rounding errors; see `_remainders`."""
    along_z: Array
    """M^-1 times the gradient of the loss of z at the model of S."""
    weight_z: Floats
    """The factor of along_z along_z' in the inverse of M plus the curvature of z."""
    solved: Array
    """The preconditioned gradient of the previous pass."""
    direction: Array
    M_direction: Array
    slopes: Floats
    far: Floats
    """A bound on the distance to the optimum."""
    done: Array

    @classmethod
    def start(
        cls, S: Curve, z: Floats, f: Floats, y: Array, C: Floats, steps: Steps, tolerance: Floats
    ) -> _Work:
        """The work at the start, where the models are at `steps`."""
        n, c, p = steps.d.shape
        dtype = S.X.dtype
        d, Md, z = (part.astype(dtype) for part in (steps.d, steps.Md, z))
        U = (d.reshape(n * c, p) @ S.X.T).reshape(n, c, len(S.X))
        R, largest, cancelled = np.empty_like(U), np.empty(n), np.empty(n)
        _remainders(U, S.P, S.C, S.constants, R, largest, cancelled)
        # With the curvature of z along its gradient g = b z, the preconditioner is M + weight gg'.
        pull, weight = np.empty((n, c)), np.empty(n)
        _pull_and_weight(f, y, C, pull, weight)
        pulls = (pull[:, :, np.newaxis] * z[:, np.newaxis, :]).astype(dtype)
        along_z = S.M(pulls)
        weight /= 1.0 + weight * np.einsum("nap,nap->n", along_z, pulls)
        return cls(
            S=S, z=z, f=f, y=y, C=C, tolerance=tolerance, d=d, Md=Md, U=U, R=R, largest=largest,
            cancelled=cancelled, along_z=along_z, weight_z=weight, solved=np.zeros_like(d),
            direction=np.zeros_like(d), M_direction=np.zeros_like(d), slopes=np.zeros(n),
            far=np.full(n, np.inf), done=np.zeros(n, np.bool_),
        )  # fmt: skip

    def gradients(self) -> None:
        """See `Work`."""
        S = self.S
        n, c, k = self.R.shape
        G = (self.R.reshape(n * c, k) @ S.X).reshape(n, c, -1)
        _finish(G, S.gradient, S.penalty, self._points, self.d)
        following = S.M(G)
        pull = _Pull(self.along_z, self.weight_z)
        rounding = 32.0 * float(np.finfo(S.X.dtype).eps)
        bounds = _Bounds(too_far(S.X.dtype), self.tolerance, rounding, S.wobble)
        _directions(G, following, self.solved, pull, self._place, self._way, bounds)
        self.solved = following

    def advance(self) -> None:
        """See `Work`."""
        S = self.S
        n, c, p = self.direction.shape
        along = (self.direction.reshape(n * c, p) @ S.X.T).reshape(n, c, -1)
        _search(self.U, along, self.R, self._known, self._points, self._place, self._way)

    @property
    def _known(self) -> _Known:
        S = self.S
        return _Known(S.P, S.C, S.penalty, S.gradient, S.constants)

    @property
    def _points(self) -> _Points:
        return _Points(self.z, self.f, self.y, self.C)

    @property
    def _place(self) -> _Place:
        return _Place(self.d, self.Md, self.largest, self.cancelled, self.far, self.done)

    @property
    def _way(self) -> _Way:
        return _Way(self.direction, self.M_direction, self.slopes)


@kernel
def _remainders(
    U: Array, P: Array, C: Array, c: Any, R: Array, largest: Array, cancelled: Array
) -> None:
    """Fill in R = C (softmax(f + u) - softmax(f)), and the bounds `largest` and `cancelled`.

    R = C p (e - m) / (1 + m) with p = softmax(f), e = exp(u) - 1 and m the mean of e over p.
    """
    n, n_classes, k = U.shape
    E = np.empty((n_classes, k), U.dtype)
    m = np.empty(k, U.dtype)
    for i in range(n):
        for j in range(k):
            m[j] = c[10] - c[10]
        for a in range(n_classes):
            for j in range(k):
                E[a, j] = expm1(U[i, a, j], c)
                m[j] += P[a, j] * E[a, j]
        for a in range(n_classes):
            for j in range(k):
                R[i, a, j] = C[j] * P[a, j] * (E[a, j] - m[j]) / max(c[10] + m[j], c[14])
        largest[i] = largest_of(U[i].ravel())
        cancelled[i] = _cancelled(m)


@inlined
def _cancelled(m: Array) -> float:
    """The largest 1 / (1 + m)^2, but at least 1."""
    low = 0.0
    for number in m:
        low = min(low, number)
    return 1.0 / max(1.0 + low, 1e-30) ** 2


@kernel
def _finish(G: Array, base: Array, penalty: Array, points: _Points, d: Array) -> None:
    """Complete the gradients: add the gradient of S at its model, the penalty, and z."""
    z, f, y, C = points
    n, n_classes, p = G.shape
    pull = np.empty(n_classes)
    for i in range(n):
        _pulls(f[i], z[i], d[i], y[i], C[i], pull)
        for a in range(n_classes):
            for j in range(p):
                G[i, a, j] += base[a, j] + penalty[j] * d[i, a, j] + pull[a] * z[i, j]


@inlined
def _pulls(f: Array, z: Array, d: Array, y: int, C: float, pull: Array) -> None:
    """Fill in C (softmax(f + d z) - e_y), where e_y is 1 at y and 0 elsewhere.

    Entry y is minus the sum of the others: a subtraction from 1 would lose its digits.
    """
    for a in range(len(pull)):
        pull[a] = f[a]
        for j in range(len(z)):
            pull[a] += d[a, j] * z[j]
    top = pull.max()
    total = 0.0
    for a in range(len(pull)):
        pull[a] = math.exp(pull[a] - top)
        total += pull[a]
    others = 0.0
    for a in range(len(pull)):
        pull[a] *= C / total
        others += pull[a] if a != y else 0.0
    pull[y] = -others


@kernel
def _pull_and_weight(f: Array, y: Array, C: Array, pull: Array, weight: Array) -> None:
    """Fill in b = C (q - e_y) and the weight b'Ab / (b'b)^2 of the curvature along b.

    Here q = softmax(f), e_y is 1 at y and 0 elsewhere, and A = C (diag q - qq').
    """
    for i in range(len(f)):
        top, total = f[i].max(), 0.0
        for a in range(f.shape[1]):
            pull[i, a] = math.exp(f[i, a] - top)
            total += pull[i, a]
        first, second, size = 0.0, 0.0, 0.0
        for a in range(f.shape[1]):
            q = pull[i, a] / total
            b = C[i] * (q - (a == y[i]))
            first += q * b
            second += q * b * b
            size += b * b
            pull[i, a] = b
        weight[i] = C[i] * (second - first * first) / (size * size) if size > 0.0 else 0.0


@kernel
def _directions(
    G: Array, solved: Array, before: Array, pull: _Pull, place: _Place, way: _Way, bounds: _Bounds
) -> None:
    """Finish the z that are close enough, and give the others a new direction.

    The directions are Polak-Ribiere conjugate gradients.
    """
    (along_z, weight_z), (d, Md, largest, cancelled, far, done) = pull, place
    (direction, M_direction, slopes), (limit, tolerance, rounding, wobble) = way, bounds
    n, n_classes, p = G.shape
    for i in range(n):
        if done[i]:
            continue
        if largest[i] > limit:
            done[i], far[i] = True, np.inf
            continue
        g_z = 0.0
        for a in range(n_classes):
            for j in range(p):
                g_z += G[i, a, j] * along_z[i, a, j]
        share = weight_z[i] * g_z
        gp, old, size_d, size_d_abs = 0.0, 0.0, 0.0, 0.0
        for a in range(n_classes):
            for j in range(p):
                solved[i, a, j] -= share * along_z[i, a, j]
                gp += G[i, a, j] * solved[i, a, j]
                old += G[i, a, j] * before[i, a, j]
                size_d += d[i, a, j] * Md[i, a, j]
                size_d_abs += abs(d[i, a, j] * Md[i, a, j])
        if gp < 0.0 or size_d < -rounding * size_d_abs:  # in this precision M is not positive
            done[i], far[i] = True, np.inf
            continue
        noise = wobble * min(largest[i], 1.0) * cancelled[i]
        floor = rounding * math.sqrt(max(size_d, 0.0)) + noise
        size = math.sqrt(gp)
        far[i] = _SAFETY * (size + floor) * math.exp(min(2.0 * largest[i], 60.0))
        if far[i] <= tolerance[i] or size <= floor:
            done[i] = True
            _last_step(d[i], Md[i], solved[i], G[i])
            continue
        beta = max((gp - old) / slopes[i], 0.0) if slopes[i] > 0.0 else 0.0
        _turn(direction[i], M_direction[i], solved[i], G[i], beta)
        slopes[i] = gp


@inlined
def _last_step(d: Array, Md: Array, solved: Array, G: Array) -> None:
    """Take a Newton step with M as the Hessian."""
    for a in range(d.shape[0]):
        for j in range(d.shape[1]):
            d[a, j] -= solved[a, j]
            Md[a, j] -= G[a, j]


@inlined
def _turn(direction: Array, M_direction: Array, solved: Array, G: Array, beta: float) -> None:
    """Make the direction conjugate to the previous one, or take steepest descent if uphill."""
    n_classes, p = G.shape
    downhill = 0.0
    for a in range(n_classes):
        for j in range(p):
            direction[a, j] = beta * direction[a, j] - solved[a, j]
            M_direction[a, j] = beta * M_direction[a, j] - G[a, j]
            downhill += direction[a, j] * G[a, j]
    if downhill >= 0.0:
        for a in range(n_classes):
            for j in range(p):
                direction[a, j] = -solved[a, j]
                M_direction[a, j] = -G[a, j]


@kernel
def _search(  # noqa: C901, PLR0915 - parts compiled separately would round differently
    U: Array, along: Array, R: Array, S: _Known, points: _Points, place: _Place, way: _Way
) -> None:
    """Go along each direction until the slope is at most a tenth of its start value.

    One Newton step is usually enough.
    """
    (P, C, penalty, base, c), (z, f, y, Cz) = S, points
    (d, Md, largest, cancelled, _, done), (direction, M_direction, _) = place, way
    n, n_classes, k = U.shape
    p = d.shape[2]
    one = c[10]
    zero = one - one
    typed = np.empty(1, U.dtype)  # t in the precision of S, so that numba does not promote the sums
    E = np.empty((n_classes, k), U.dtype)
    m, s1, s2 = np.empty(k, U.dtype), np.empty(k, U.dtype), np.empty(k, U.dtype)
    v, v_along, q = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(n):
        if done[i]:
            continue
        at, own = 0.0, 0.0
        for a in range(n_classes):
            v[a], v_along[a] = f[i, a], 0.0
            for j in range(p):
                at += direction[i, a, j] * (penalty[j] * d[i, a, j] + base[a, j])
                own += penalty[j] * direction[i, a, j] * direction[i, a, j]
                v[a] += z[i, j] * d[i, a, j]
                v_along[a] += z[i, j] * direction[i, a, j]
        first = at
        for a in range(n_classes):
            for j in range(k):
                first += R[i, a, j] * along[i, a, j]
        slope_z, _ = _z_slope(v, v_along, 0.0, y[i], Cz[i], q)
        first += slope_z
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(30):
            typed[0] = t
            step = typed[0]
            for j in range(k):
                m[j] = zero
                s1[j] = zero
                s2[j] = zero
            for a in range(n_classes):
                for j in range(k):
                    E[a, j] = expm1(U[i, a, j] + step * along[i, a, j], c)
                    m[j] += P[a, j] * E[a, j]
            slope, bend = zero, zero
            for a in range(n_classes):
                for j in range(k):
                    go = along[i, a, j]
                    share = P[a, j] / max(one + m[j], c[14])
                    R[i, a, j] = C[j] * share * (E[a, j] - m[j])
                    slope += R[i, a, j] * go
                    here = share * (one + E[a, j]) * go
                    s1[j] += here
                    s2[j] += here * go
            for j in range(k):
                bend += C[j] * (s2[j] - s1[j] * s1[j])
            slope_z, bend_z = _z_slope(v, v_along, t, y[i], Cz[i], q)
            total = at + t * own + slope + slope_z
            if abs(total) <= 0.1 * abs(first):
                break
            if total > 0.0:
                high = t
            else:
                low = t
            following = t - total / (own + bend + bend_z)
            if not low < following < high:
                following = 0.5 * (low + high) if high < np.inf else 2.0 * t
            t = following
        typed[0] = t
        step = typed[0]
        for a in range(n_classes):
            for j in range(k):
                U[i, a, j] += step * along[i, a, j]
            for j in range(p):
                d[i, a, j] += step * direction[i, a, j]
                Md[i, a, j] += step * M_direction[i, a, j]
        largest[i] = largest_of(U[i].ravel())
        cancelled[i] = _cancelled(m)


@inlined
def _z_slope(v: Array, v_along: Array, t: float, y: int, C: float, q: Array) -> tuple[float, float]:
    """The first and second derivative of the loss of z, at t along the direction."""
    top = -np.inf
    for a in range(len(v)):
        top = max(top, v[a] + t * v_along[a])
    total = 0.0
    for a in range(len(v)):
        q[a] = math.exp(v[a] + t * v_along[a] - top)
        total += q[a]
    first, second = 0.0, 0.0
    for a in range(len(v)):
        first += q[a] / total * v_along[a]
        second += q[a] / total * v_along[a] * v_along[a]
    return C * (first - v_along[y]), C * (second - first * first)
