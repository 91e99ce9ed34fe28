"""All S + z at once to their optimum: conjugate gradients with an exact line search.

See `learner` for the equation that is solved. A pass takes two matrix products, with S and with
its transpose; the line search needs none. A z leaves when it is near enough: as long as
|x_i'd| <= r for all rows of S, the Hessian of S + z is at least exp(-r), so that the optimum is
within exp(r) |gradient|.
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
    inside,
    largest_of,
    series,
    solved,
    too_far,
)

__all__ = ["Quadratic", "first_steps", "polished"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Quadratic:
    """S in the coordinates where its Hessian at w is the identity."""

    X: Array
    p: Array
    """The probability of class 1 of each row, by the model of S."""
    D: Array
    """C p (1 - p): the weight of each row in the Hessian."""
    gradient: Array
    """Of S at w: zero where w is its optimum."""
    growth: float = 1.0
    """By how much the Hessian's range amplifies rounding errors in these coordinates."""

    @cached_property
    def single(self) -> Quadratic:
        """The same in single precision."""
        parts = (self.X, self.p, self.D, self.gradient)
        X, p, D, gradient = (part.astype(np.float32) for part in parts)
        return Quadratic(X=X, p=p, D=D, gradient=gradient, growth=self.growth)

    @cached_property
    def rounding(self) -> float:
        """The relative error of a step."""
        epsilon = float(np.finfo(np.float64).eps)
        return max(32.0 * float(np.finfo(self.X.dtype).eps), epsilon * self.growth)

    @cached_property
    def wobble(self) -> float:
        """The error of a gradient, for a remainder whose terms do not cancel."""
        return 0.5 * float(np.finfo(self.X.dtype).eps) * math.sqrt(float(self.D.sum()))

    @cached_property
    def reach(self) -> float:
        """The largest |x_i|."""
        return float(np.sqrt(np.einsum("ij,ij->i", self.X, self.X).max(initial=0.0)))

    @cached_property
    def constants(self) -> tuple[Any, ...]:
        """For `expm1`."""
        return series(self.X.dtype)


def first_steps(S: Quadratic, z: Floats, f: Floats, y: Array, C: Floats) -> Steps:
    """Those that would be exact if S were quadratic."""
    a = np.empty(len(z))
    h = np.einsum("ij,ij->i", z, z)
    _scalars(f - z @ S.gradient, h, y.astype(np.float64), C, a)
    d = -S.gradient - a[:, np.newaxis] * z
    return Steps(d, d, np.full(len(z), np.inf))


def polished(
    S: Quadratic, z: Floats, f: Floats, y: Array, C: Floats, *, start: Steps, tolerance: Floats
) -> Steps:
    """The steps to the optima of S + z, as near as `tolerance` or the rounding error allows.

    The blur of those that are not found is infinite.
    """
    return solved(_Work.start(S, z, f, y, C, start.d, tolerance))


class _Curve(NamedTuple):
    """What a pass over the rows of S needs of it."""

    p: Array
    D: Array
    constants: tuple[Any, ...]


class _Points(NamedTuple):
    """The z themselves: see `_Work`."""

    z: Array
    f: Floats
    y: Floats
    C: Floats
    h: Floats


class _Place(NamedTuple):
    """Where they are: see `_Work`."""

    d: Array
    v: Floats
    largest: Floats
    far: Floats
    done: Array


class _Way(NamedTuple):
    """Where they go: see `_Work`."""

    P: Array
    direction: Array
    slopes: Floats


class _Bounds(NamedTuple):
    """How exact it can be, and has to be."""

    limit: float
    """Of |x_i'd|: see `too_far`."""
    reach: float
    tolerance: Floats
    rounding: float
    wobble: float


@dataclass(eq=False, kw_only=True)
class _Work:
    """The z still at work: one row each in every array."""

    S: Quadratic
    z: Array
    f: Floats
    """What the model of S says of z."""
    y: Floats
    C: Floats
    h: Floats
    """|z|^2"""
    tolerance: Floats
    d: Array
    v: Floats
    """z'd"""
    U: Array
    """x_i'd for all rows of S"""
    R: Array
    """C_i r_i(x_i'd)"""
    largest: Floats
    """The largest |x_i'd|."""
    P: Array
    """The preconditioned gradient of the pass before."""
    direction: Array
    slopes: Floats
    far: Floats
    """How far from w + d the optimum may be."""
    done: Array

    @classmethod
    def start(
        cls, S: Quadratic, z: Floats, f: Floats, y: Array, C: Floats, d: Floats, tolerance: Floats
    ) -> _Work:
        """At w + d."""
        n, dtype = len(z), S.X.dtype
        step = d.astype(dtype)
        U = step @ S.X.T
        R, largest = np.empty_like(U), np.empty(n)
        _remainders(U, S.p, S.D, S.constants, R, largest)
        return cls(
            S=S, z=z.astype(dtype), f=f, y=y.astype(np.float64), C=C,
            h=np.einsum("ij,ij->i", z, z), tolerance=tolerance, d=step,
            v=np.einsum("ij,ij->i", z, d), U=U, R=R, largest=largest,
            P=np.zeros(z.shape, dtype), direction=np.zeros(z.shape, dtype),
            slopes=np.zeros((n, 4)), far=np.full(n, np.inf), done=np.zeros(n, np.bool_),
        )  # fmt: skip

    @property
    def Md(self) -> Array:
        """Here lengths are those of the Hessian of S, which is the identity."""
        return self.d

    def gradients(self) -> None:
        """See `Work`."""
        S = self.S
        bounds = _Bounds(too_far(S.X.dtype), S.reach, self.tolerance, S.rounding, S.wobble)
        _directions(self.R @ S.X, S.gradient, self._points, self._place, self._way, bounds)

    def advance(self) -> None:
        """See `Work`."""
        S = self.S
        curve = _Curve(S.p, S.D, S.constants)
        U_along = self.direction @ S.X.T
        _search(self.U, U_along, self.R, curve, self._points, self._place, self._way)

    @property
    def _points(self) -> _Points:
        return _Points(self.z, self.f, self.y, self.C, self.h)

    @property
    def _place(self) -> _Place:
        return _Place(self.d, self.v, self.largest, self.far, self.done)

    @property
    def _way(self) -> _Way:
        return _Way(self.P, self.direction, self.slopes)


@inlined
def _sigmoid(f: float) -> float:
    if f >= 0.0:
        return 1.0 / (1.0 + math.exp(-f))
    e = math.exp(f)
    return e / (1.0 + e)


@inlined
def _miss(f: float, y: float) -> float:
    """The probability of class 1 less y: without a difference, which would lose a small one."""
    return -_sigmoid(-f) if y > 0.5 else _sigmoid(f)


@kernel
def _scalars(f: Array, h: Array, y: Array, C: Array, a: Array) -> None:
    """Solve a = C (s(f - a h) - y) by Newton's method within a bracket: one side falls in a."""
    for i in range(len(f)):
        low, high = (-C[i], 0.0) if y[i] > 0.5 else (0.0, C[i])
        root = 0.5 * (low + high)
        for _ in range(100):
            s = _miss(f[i] - root * h[i], y[i])
            gap = root - C[i] * s
            if gap > 0.0:
                high = root
            else:
                low = root
            step = gap / (1.0 + C[i] * h[i] * abs(s) * (1.0 - abs(s)))
            following = root - step
            if not low <= following <= high:
                following = 0.5 * (low + high)
            if abs(following - root) <= 1e-15 * C[i]:
                root = following
                break
            root = following
        a[i] = root


@kernel
def _remainders(U: Array, p: Array, D: Array, c: Any, R: Array, largest: Array) -> None:
    """R = D (e / (1 + p e) - u) with e = exp(u) - 1: the sigmoid less its quadratic part."""
    for i in range(U.shape[0]):
        for j in range(U.shape[1]):
            u = U[i, j]
            e = expm1(u, c)
            R[i, j] = D[j] * (e / max(c[10] + p[j] * e, c[14]) - u)
        largest[i] = largest_of(U[i])


@kernel
def _directions(
    G: Array, base: Array, points: _Points, place: _Place, way: _Way, bounds: _Bounds
) -> None:
    """Finish the gradients; who is near enough is done, the others get a conjugate direction.

    Polak and Ribiere's, with the inverse of I + C s' zz' as the preconditioner.
    """
    (z, f, y, C, h), (d, v, largest, far, done), (P, direction, slopes) = points, place, way
    limit, reach, tolerance, rounding, wobble = bounds
    for i in range(len(f)):
        if done[i]:
            continue
        if largest[i] > limit:
            done[i], far[i] = True, np.inf
            continue
        s = _miss(f[i] + v[i], y[i])
        pull = C[i] * s
        curve = C[i] * abs(s) * (1.0 - abs(s))
        gg, gz, dd, old = 0.0, 0.0, 0.0, 0.0
        for j in range(d.shape[1]):
            g = G[i, j] + d[i, j] + base[j] + pull * z[i, j]
            G[i, j] = g
            gg += g * g
            gz += g * z[i, j]
            dd += d[i, j] * d[i, j]
            old += g * P[i, j]
        # In a remainder of u, terms up to exp(2 u) cancel.
        cancelled = largest[i] * math.exp(2.0 * largest[i])
        size, floor = math.sqrt(gg), rounding * math.sqrt(dd) + wobble * cancelled
        share = curve * gz / (1.0 + curve * h[i])
        bound = math.exp(min(largest[i] + 0.1, 60.0))
        sound = (size + floor) * bound * reach <= 0.1
        # A last step of Newton's method, with the Hessian within 1 / bound and bound of ours.
        far[i] = (size * min(bound - 1.0, 1.0) + floor) * bound
        if (sound and far[i] <= tolerance[i]) or size <= floor:
            done[i] = True
            for j in range(d.shape[1]):
                d[i, j] -= G[i, j] - share * z[i, j]
            continue
        gp = gg - share * gz
        before = slopes[i, 0]
        beta = max((gp - old) / before, 0.0) if before > 0.0 else 0.0
        downhill = 0.0
        for j in range(d.shape[1]):
            P[i, j] = G[i, j] - share * z[i, j]
            direction[i, j] = beta * direction[i, j] - P[i, j]
            downhill += G[i, j] * direction[i, j]
        if downhill >= 0.0:
            for j in range(d.shape[1]):
                direction[i, j] = -P[i, j]
        slopes[i, 0] = gp
        _measure(slopes[i], direction[i], d[i], base, z[i])


@inlined
def _measure(slopes: Array, direction: Array, d: Array, base: Array, z: Array) -> None:
    """The products of a direction that its line search needs."""
    along_self, along_d, along_z, along_base = 0.0, 0.0, 0.0, 0.0
    for j in range(len(d)):
        along_self += direction[j] * direction[j]
        along_d += direction[j] * d[j]
        along_base += direction[j] * base[j]
        along_z += direction[j] * z[j]
    slopes[1] = along_d + along_base
    slopes[2] = along_self
    slopes[3] = along_z


@kernel
def _search(
    U: Array, U_along: Array, R: Array, curve: _Curve, points: _Points, place: _Place, way: _Way
) -> None:
    """Go along each direction to where the slope is a tenth of what it was: mostly one step."""
    (p, D, c), (_, f, y, C, _), (d, v, largest, _, done) = curve, points, place
    direction, slopes = way.direction, way.slopes
    k = U.shape[1]
    one = c[10]
    typed = np.empty(1, U.dtype)  # t in the precision of S, so that nothing is promoted
    for i in range(len(f)):
        if done[i]:
            continue
        at, own, along_z = slopes[i, 1], slopes[i, 2], slopes[i, 3]
        low, high, t = 0.0, np.inf, 1.0
        first = 0.0
        for j in range(k):
            first += R[i, j] * U_along[i, j]
        first += at + C[i] * _miss(f[i] + v[i], y[i]) * along_z
        for _ in range(30):
            typed[0] = t
            step = typed[0]
            slope, bend = one - one, one - one
            for j in range(k):
                along = U_along[i, j]
                u = U[i, j] + step * along
                e = expm1(u, c)
                under = one / max(one + p[j] * e, c[14])
                rest = D[j] * (e * under - u)
                R[i, j] = rest
                slope += rest * along
                bend += (
                    D[j]
                    * e
                    * (one - p[j] - p[j] * (one + p[j] * e))
                    * under
                    * under
                    * (along * along)
                )
            s = _miss(f[i] + v[i] + t * along_z, y[i])
            total = slope + at + t * own + C[i] * s * along_z
            if abs(total) <= 0.1 * abs(first):
                break
            if total > 0.0:
                high = t
            else:
                low = t
            whole = bend + own + C[i] * abs(s) * (1.0 - abs(s)) * along_z * along_z
            t = inside(low, high, t, t - total / whole)
        typed[0] = t
        step = typed[0]
        for j in range(k):
            U[i, j] += step * U_along[i, j]
        largest[i] = largest_of(U[i])
        for j in range(d.shape[1]):
            d[i, j] += step * direction[i, j]
        v[i] += t * along_z
