"""Move all S + z with two classes to their optima, by conjugate gradients with a line search.

`learner` has the equation that is solved. A pass multiplies by the rows of S and by their
transpose; the line search needs no further product with S. A z is finished when it is close enough
to its optimum: as long as |x_i'd| <= r for all rows of S, the Hessian of S + z is at least exp(-r)
times the identity, so the optimum is within exp(r) |gradient|.
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
    """S in the coordinates in which its Hessian at w is the identity."""

    X: Array
    p: Array
    """The probability of class 1 for each row, by the model of S."""
    D: Array
    """C p (1 - p): the weight of each row in the Hessian."""
    gradient: Array
    """The gradient of S at w: zero if w is its optimum."""
    growth: float = 1.0
    """How much the condition of the Hessian amplifies rounding errors in these coordinates."""

    @cached_property
    def single(self) -> Quadratic:
        """The same in single precision."""
        parts = (self.X, self.p, self.D, self.gradient)
        X, p, D, gradient = (part.astype(np.float32) for part in parts)
        return Quadratic(X=X, p=p, D=D, gradient=gradient, growth=self.growth)

    @cached_property
    def rounding(self) -> float:
        """The rounding error of a gradient, relative to the length of the step."""
        epsilon = float(np.finfo(np.float64).eps)
        return max(32.0 * float(np.finfo(self.X.dtype).eps), epsilon * self.growth)

    @cached_property
    def wobble(self) -> float:
        """The rounding error that the remainders add to a gradient if their terms do not cancel."""
        return 0.5 * float(np.finfo(self.X.dtype).eps) * math.sqrt(float(self.D.sum()))

    @cached_property
    def reach(self) -> float:
        """The length of the longest row, max |x_i|."""
        return float(np.sqrt(np.einsum("ij,ij->i", self.X, self.X).max(initial=0.0)))

    @cached_property
    def constants(self) -> tuple[Any, ...]:
        """The constants of `expm1`, in the precision of X."""
        return series(self.X.dtype)


def first_steps(S: Quadratic, z: Floats, f: Floats, y: Array, C: Floats) -> Steps:
    """The steps that would be exact if the loss of S were quadratic."""
    a = np.empty(len(z))
    h = np.einsum("ij,ij->i", z, z)
    _scalars(f - z @ S.gradient, h, y.astype(np.float64), C, a)
    d = -S.gradient - a[:, np.newaxis] * z
    return Steps(d, d, np.full(len(z), np.inf))


def polished(
    S: Quadratic, z: Floats, f: Floats, y: Array, C: Floats, *, start: Steps, tolerance: Floats
) -> Steps:
    """The steps to the optima of S + z, as close as `tolerance` or the rounding error allows.

    The blur of a step is infinite if its optimum was not found.
    """
    return solved(_Work.start(S, z, f, y, C, start.d, tolerance))


class _Curve(NamedTuple):
    """The parts of S that a pass over its rows needs."""

    p: Array
    D: Array
    constants: tuple[Any, ...]


class _Points(NamedTuple):
    """The z; `_Work` describes the fields."""

    z: Array
    f: Floats
    y: Floats
    C: Floats
    h: Floats


class _Place(NamedTuple):
    """The current positions of the models; `_Work` describes the fields."""

    d: Array
    v: Floats
    largest: Floats
    far: Floats
    done: Array


class _Way(NamedTuple):
    """The current search directions; `_Work` describes the fields."""

    P: Array
    direction: Array
    slopes: Floats


class _Bounds(NamedTuple):
    """The required accuracy, and the accuracy that rounding allows."""

    limit: float
    """The largest |x_i'd| allowed; see `too_far`."""
    reach: float
    tolerance: Floats
    rounding: float
    wobble: float


@dataclass(eq=False, kw_only=True)
class _Work:
    """The z that are not finished: each array has one row for each z."""

    S: Quadratic
    z: Array
    f: Floats
    """The decision value of z by the model of S."""
    y: Floats
    C: Floats
    h: Floats
    """|z|^2"""
    tolerance: Floats
    d: Array
    v: Floats
    """z'd"""
    U: Array
    """x_i'd for all rows of S."""
    R: Array
    """C_i r_i(x_i'd)"""
    largest: Floats
    """The largest |x_i'd|."""
    P: Array
    """The preconditioned gradient of the previous pass."""
    direction: Array
    slopes: Floats
    """(n, 4) the gradient'P of the previous pass, then the dot products of `_measure`."""
    far: Floats
    """A bound on the distance from w + d to the optimum."""
    done: Array

    @classmethod
    def start(
        cls, S: Quadratic, z: Floats, f: Floats, y: Array, C: Floats, d: Floats, tolerance: Floats
    ) -> _Work:
        """The work at the start, where the models are at w + d."""
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
        """The steps themselves: the Hessian of S, which defines lengths, is the identity here."""
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
    """P(class 1) - y without a subtraction, which would lose the digits of a small result."""
    return -_sigmoid(-f) if y > 0.5 else _sigmoid(f)


@kernel
def _scalars(f: Array, h: Array, y: Array, C: Array, a: Array) -> None:
    """Solve a = C (s(f - a h) - y) for a, by Newton's method within a bracket.

    The right side decreases in a, so there is exactly one solution.
    """
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
    """Fill in R = D (e / (1 + p e) - u) with e = exp(u) - 1, and the largest |u| of each z.

    R is C times the change of the sigmoid minus its linear part.
    """
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
    """Complete the gradients; finish the z that are close enough, and turn the other directions.

    The directions are Polak-Ribiere conjugate gradients. The preconditioner is the inverse of I + C
    s' zz', where s' is the derivative of the sigmoid at z.
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
        # A remainder is a difference of terms up to exp(2 u), whose rounding errors do not cancel.
        cancelled = largest[i] * math.exp(2.0 * largest[i])
        size, floor = math.sqrt(gg), rounding * math.sqrt(dd) + wobble * cancelled
        share = curve * gz / (1.0 + curve * h[i])
        bound = math.exp(min(largest[i] + 0.1, 60.0))
        sound = (size + floor) * bound * reach <= 0.1
        # The last Newton step takes I for the Hessian of S, which is between 1 / bound and bound
        # times I.
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
    """Store the dot products of a direction that its line search needs."""
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
    """Go along each direction until the slope is at most a tenth of its start value.

    One Newton step is usually enough.
    """
    (p, D, c), (_, f, y, C, _), (d, v, largest, _, done) = curve, points, place
    direction, slopes = way.direction, way.slopes
    k = U.shape[1]
    one = c[10]
    typed = np.empty(1, U.dtype)  # t in the precision of S, so that numba does not promote the sums
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
