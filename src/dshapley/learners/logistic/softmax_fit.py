"""Fit softmax regression on S: coordinates, optimum, and a preconditioner at the optimum.

With c classes and p coordinates the Hessian has (c p)^2 entries, too many to solve with for every
z. In the principal coordinates of S it is nearly diagonal, except for the leading ones. The
preconditioner therefore has the exact Hessian of the leading coordinates and the diagonal of the
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import softmax

from dshapley.data.points import Array, Floats
from dshapley.errors import FitError

__all__ = ["Preconditioner", "Problem", "Space", "noise", "optimum"]

_NEWTON_STEPS = 100
_NEAR = 1e-11
"""Newton's method stops when the gradient is below this, in the norm of M^-1."""

_FAIR = 1e-5
"""If the gradient is below this and stops falling, only rounding error may be left; the caller then
checks whether the optimum is accurate enough."""

_EPSILON = float(np.finfo(np.float64).eps)

_SMALL = 512
_WELL_CONDITIONED = 1e4
"""A Hessian of at most _SMALL unknowns is computed in double precision. A larger one is computed in
single precision, unless its condition number is _WELL_CONDITIONED or more."""

_STEEP = 1e5
"""Beyond this condition number the inverse is not positive in single precision."""

_LEADING = 320
"""The most unknowns that are solved exactly on the way to the optimum of S."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Space:
    """Coordinates for S: the intercept if there is one, then the principal components.

    The component with the largest variance comes first.
    """

    mean: Floats
    V: Floats
    fit_intercept: bool
    scale: Floats

    @classmethod
    def of(cls, X: Floats, fit_intercept: bool) -> Space:
        """The coordinates for the rows X, which are centred only if there is an intercept."""
        k, n_features = X.shape
        mean = X.mean(axis=0) if fit_intercept else np.zeros(n_features)
        # there are at most k components, and the rest of the space is orthogonal to S
        if k < n_features:
            Q, R = linalg.qr((X - mean).T, mode="economic", check_finite=False)
            _, U = linalg.eigh(R @ R.T, check_finite=False)
            V = Q @ U
        else:
            _, V = linalg.eigh((X - mean).T @ (X - mean), check_finite=False)
        V = np.ascontiguousarray(V[:, ::-1])
        scale = np.ones(fit_intercept + V.shape[1])
        return cls(mean=mean, V=V, fit_intercept=fit_intercept, scale=scale)

    def rows(self, X: Floats) -> Floats:
        """The rows X in these coordinates."""
        rotated = (X - self.mean) @ self.V
        rows = np.column_stack([np.ones(len(X)), rotated]) if self.fit_intercept else rotated
        return rows / self.scale

    def beyond(self, X: Floats) -> Floats:
        """The part of the rows X that is orthogonal to S; (len(X), 0) if S spans the space."""
        if self.V.shape[1] == len(self.V):
            return np.empty((len(X), 0))
        centred = X - self.mean
        return centred - centred @ self.V @ self.V.T


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """The loss of softmax regression on S, in some coordinates."""

    X: Floats
    Y: Floats
    """(k, c) 1 for the class of each row, else 0."""
    C: Floats
    penalty: Floats

    def probabilities(self, W: Floats) -> Floats:
        return softmax(self.X @ W.T, axis=1)

    def loss(self, W: Floats) -> float:
        F = self.X @ W.T
        top = F.max(axis=1)
        logs = top + np.log(np.exp(F - top[:, np.newaxis]).sum(axis=1)) - (F * self.Y).sum(axis=1)
        return float(0.5 * (W**2 @ self.penalty).sum() + self.C @ logs)

    def gradient(self, W: Floats, P: Floats) -> Floats:
        return self.pulled(W, P - self.Y)

    def pulled(self, W: Floats, misses: Floats) -> Floats:
        """The gradient, given misses = P - Y."""
        return self.penalty * W + (self.C[:, np.newaxis] * misses).T @ self.X

    def misses(self, P: Floats) -> Floats:
        """P - Y without a subtraction from 1, which would lose the digits of a small result.

        The entry of the label is minus the sum of the other classes.
        """
        others = P * (1.0 - self.Y)
        return np.asarray(others - self.Y * others.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """M: the exact Hessian of the r leading coordinates, and the diagonal of the others."""

    inverse: Array
    """(c r, c r) the inverse of the leading block."""
    tail: Array
    """(c, p - r) the inverse of the diagonal of the other coordinates."""
    steep: bool
    """Whether the range of M is too wide for single precision."""

    @classmethod
    def of(cls, problem: Problem, P: Floats, r: int) -> Preconditioner:
        """M at the model whose probabilities are P (k, c)."""
        weights = problem.C[:, np.newaxis] * P
        diagonal = problem.penalty[r:] + (weights * (1.0 - P)).T @ problem.X[:, r:] ** 2
        if P.shape[1] * r > _SMALL:
            inverse, condition = _inverse(_leading_hessian(problem, P, r, np.float32))
            if condition < _WELL_CONDITIONED:
                return cls(inverse, 1.0 / diagonal, False)
        inverse, condition = _inverse(_leading_hessian(problem, P, r, np.float64))
        if np.isinf(condition):
            raise FitError(f"logistic regression on {len(P)} rows: its Hessian is singular")
        tail = diagonal.max(initial=1.0) / diagonal.min(initial=1.0)
        return cls(inverse, 1.0 / diagonal, max(condition, tail) > _STEEP)

    def __call__(self, G: Array) -> Array:
        """M^-1 G for gradients (n, c, p)."""
        n, c, _ = G.shape
        r = len(self.inverse) // c
        solved = np.empty_like(G)
        solved[:, :, :r] = (G[:, :, :r].reshape(n, c * r) @ self.inverse).reshape(n, c, r)
        np.multiply(G[:, :, r:], self.tail, out=solved[:, :, r:])
        return solved

    def lengths(self, T: Floats, labels: Array) -> Floats:
        """(n, c) how much a row's label gains on each class, at most, by a step of length 1 in M.

        This is the norm, in M^-1, of the gradient (e_a - e_b) (x) t of the lead of a over b.
        """
        c = len(self.tail)
        r = len(self.inverse) // c
        inverse = self.inverse.reshape(c, r, c, r)
        squares = np.zeros((len(T), c))
        for a in np.unique(labels):
            rows = labels == a
            lead, others = T[rows, :r].astype(np.float32), T[rows, r:] ** 2
            squares[rows] = others @ (self.tail[a] + self.tail).T
            for b in range(c):
                Q = inverse[a, :, a] + inverse[b, :, b] - inverse[a, :, b] - inverse[b, :, a]
                squares[rows, b] += np.einsum("ij,ij->i", lead @ Q, lead)
        return np.sqrt(np.maximum(squares, 0.0))

    def leads(self) -> Floats:
        """(p,) how much a class gains on another, at most, by a step of length 1 in M.

        Entry j is for a row with 1 in coordinate j and zeros elsewhere.
        """
        c = len(self.tail)
        r = len(self.inverse) // c
        own = np.einsum("ajbj->abj", self.inverse.reshape(c, r, c, r)).astype(np.float64)
        each = np.einsum("aaj->aj", own)
        squares = (each[:, np.newaxis] + each - 2.0 * own).max(axis=(0, 1))
        tail = 2.0 * self.tail.max(axis=0)
        return np.sqrt(np.maximum(np.concatenate([squares, tail]), 0.0))


def noise(problem: Problem, W: Floats, P: Floats, misses: Floats, spread: float) -> float:
    """A bound on the rounding error of the gradient at W, in the norm of M^-1.

    `misses` are P - Y. `spread` bounds how much a class gains on another, at a row of S, by a step
    of length 1.
    """
    missed = 0.5 * problem.C * np.abs(misses).sum(axis=1)
    # The rows were rotated, so each entry has a rounding error relative to the whole row.
    inner = np.einsum("i,ij,ij->", missed, problem.X, problem.X) * (W**2).sum()
    held = (W**2 @ problem.penalty).max()
    # Two bounds limit the gradient of one row: the length of the row, and the curvature of its
    # loss.
    own = np.maximum((P * problem.Y).sum(axis=1), 1e-300)
    pulls = np.minimum(missed * spread, np.sqrt(missed / own)).sum()
    return _EPSILON * float(np.sqrt(inner) + np.sqrt(held) + pulls)


def _leading_hessian(problem: Problem, P: Floats, r: int, dtype: Any) -> Array:
    """(c r, c r) the Hessian of the first r coordinates of all classes."""
    c = P.shape[1]
    lead, P, C = (np.ascontiguousarray(part, dtype) for part in (problem.X[:, :r], P, problem.C))
    H = np.empty((c, r, c, r), dtype)
    for a in range(c):
        for b in range(a, c):
            root = np.sqrt(C * P[:, a] * (1.0 - P[:, a] if a == b else P[:, b]))
            scaled = root[:, np.newaxis] * lead
            block = scaled.T @ scaled
            H[a, :, b, :] = H[b, :, a, :] = block if a == b else -block
    if problem.penalty[0] == 0.0:
        # Adding the same number to all intercepts changes nothing, so the Hessian is singular; this
        # term fixes that direction and changes no other.
        H[:, 0, :, 0] += np.trace(H[:, 0, :, 0]) / c**2
    H = H.reshape(c * r, c * r)
    H[np.diag_indices_from(H)] += np.tile(problem.penalty[:r], c).astype(dtype)
    return H


def _inverse(H: Array) -> tuple[Array, float]:
    """The inverse of a positive definite matrix, and an estimate of its condition number.

    The condition number is infinite if the matrix is singular.
    """
    try:
        L = linalg.cholesky(H, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return H, np.inf
    pivots = np.diag(L)
    potri = linalg.lapack.spotri if H.dtype == np.float32 else linalg.lapack.dpotri
    lower = np.tril(potri(L, lower=1)[0])
    return lower + np.tril(lower, -1).T, float(pivots.max() / pivots.min()) ** 2


def optimum(problem: Problem, W: Floats) -> Floats:
    """The optimum by Newton's method, whose steps come from preconditioned conjugate gradients."""
    k, p = problem.X.shape
    r = min(p, max(_LEADING // len(W), 1))
    value, before, size, M = problem.loss(W), np.inf, np.inf, None
    for _ in range(_NEWTON_STEPS):
        P = problem.probabilities(W)
        # Far from the optimum P - Y by subtraction is accurate enough, and faster.
        g = problem.pulled(W, problem.misses(P)) if size < 1e-2 else problem.gradient(W, P)
        if M is None or size > 1.0:  # closer to the optimum the Hessian hardly changes
            M = Preconditioner.of(problem, P, r)
        size = float(np.sqrt((g * M(g[np.newaxis])[0]).sum()))
        if size < _NEAR or (size < _FAIR and size > 0.5 * before):
            return W
        before = size
        step, decrement = _newton_step(problem, P, g, M, max(min(0.2, size), 1e-3))
        t, moved = 1.0, problem.loss(W - step)
        while size > 1e-6 and moved > value - 0.1 * t * decrement and t > 1e-8:
            t /= 2.0
            moved = problem.loss(W - t * step)
        W, value = W - t * step, moved
    raise FitError(f"logistic regression on {k} rows did not converge")


def _newton_step(
    problem: Problem, P: Floats, g: Floats, M: Preconditioner, share: float
) -> tuple[Floats, float]:
    """H^-1 g up to a residual of `share` of g in the norm of M^-1, and its product with g."""
    x = np.zeros_like(g)
    residual = g.copy()
    solved = M(residual[np.newaxis])[0]
    direction = solved
    rs = float((residual * solved).sum())
    start = rs
    for _ in range(500):
        U = problem.X @ direction.T
        AU = P * (U - (P * U).sum(axis=1, keepdims=True))
        Hd = problem.penalty * direction + (problem.C[:, np.newaxis] * AU).T @ problem.X
        step = rs / float((direction * Hd).sum())
        x += step * direction
        residual -= step * Hd
        solved = M(residual[np.newaxis])[0]
        following = float((residual * solved).sum())
        if following <= share**2 * start:
            break
        direction = solved + following / rs * direction
        rs = following
    return x, float((g * x).sum())
