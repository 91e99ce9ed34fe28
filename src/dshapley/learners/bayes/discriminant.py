"""Linear discriminant analysis without retraining, for the solver "svd".

A point z adds rho v v' to the scatter within classes, where v is z less the mean of its class and
rho = n_c / (n_c + 1). scikit-learn divides the columns by their standard deviations D, drops
singular values below `tol`, and uses the pseudo-inverse P of the rest. So P depends on D unless
the scatter has full rank.

All formulas here use the eigenvectors V of the scatter of S after its columns are divided by their
deviations in S. V1 are those with nonzero eigenvalues L n, and V0 are those with eigenvalue zero.
Let Q be V1, joined by the part of v outside V1 if there is one, and Q0 the complement of Q. Let E
be the squares of D for S + z divided by those for S, and n' the divisor of the covariance. Then

    P b = n' E^-1 Q J^-1 (M M')^-1 J^-1 Q' E^-1 b,   J = Q' E^-1 Q,   M M' = Q' (scatter) Q.

Since J^-1 Q' E^-1 = Q' - Q' E Q0 (Q0' E Q0)^-1 Q0', the code solves with J or with Q0' E Q0,
whichever is smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.bayes.discriminant_shrunk import Shrunk
from dshapley.learners.classes import Classes, given_priors, times
from dshapley.learners.decisions import Case, Coefficients, answers, rounding
from dshapley.learners.fast import Asked, Family, Sample, Scored, UnsupportedError

__all__ = ["family"]

_NULL = 1e-13
"""Eigenvalues of standardised columns below this count as rounding errors.

scikit-learn's default tol^2 is 1e-8, well above it.
"""

_EPSILON = float(np.finfo(np.float64).eps)


def family(estimator: Any) -> Family:
    """The family for LinearDiscriminantAnalysis."""
    if estimator.covariance_estimator is not None:
        raise UnsupportedError("a covariance_estimator must be fitted again for every set")
    if estimator.shrinkage == "auto":
        raise UnsupportedError("shrinkage='auto' is estimated again for every set")
    if estimator.solver == "svd":
        if estimator.shrinkage is not None:
            raise UnsupportedError("solver='svd' does not support shrinkage")
        if estimator.tol**2 < 10.0 * _NULL:
            raise UnsupportedError(
                f"tol = {estimator.tol} is so small that rounding decides the rank"
            )
        return SingularValues(estimator)
    return Shrunk(estimator)


@cache
def _divides_by_all() -> bool:
    """Whether scikit-learn divides the scatter by n, as from version 1.9 on.

    Earlier versions divide it by n minus the number of classes.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis().fit([[-1.0], [1.0], [3.0], [5.0]], [0, 0, 1, 1])
    return bool(abs(model.coef_[0, 0] - 4.0) < 1.0)


@dataclass(frozen=True)
class SingularValues:
    """Linear discriminant analysis with the solver "svd"."""

    estimator: Any

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        case = Case(estimator=self.estimator, S=S, Z=Z, asked=asked)
        fits, priors = given_priors(self.estimator, asked)
        if not fits:
            return case.all_refitted()
        tol, classes = self.estimator.tol, Classes(S, asked.n_classes, priors)
        return answers(case, asked.once("models", lambda: _Models(case, classes, tol)))


@dataclass(frozen=True, eq=False)
class _Models:
    """The decision value of class c at x is (x - xbar)' P a - a' P a / 2 + log prior.

    Here a is the class mean less xbar, the mean of the class means weighted by the priors.
    """

    case: Case
    classes: Classes
    tol: float

    @cached_property
    def _squares(self) -> Floats:
        """(d,) the diagonal of the scatter within classes."""
        return np.einsum("ij,ij->j", self.classes.within, self.classes.within)

    @cached_property
    def _D(self) -> Floats:
        deviations = np.sqrt(self._squares / len(self.classes.S))
        return np.where(deviations == 0.0, 1.0, deviations)

    @cached_property
    def _centre(self) -> Floats:
        return self.classes.S.X.mean(axis=0)

    @cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        """The eigenvalues L above `_NULL`, in descending order, and all eigenvectors V."""
        A = self.classes.within / self._D
        L, V = np.linalg.eigh(A.T @ A / len(A))
        return L[L > _NULL][::-1], np.ascontiguousarray(V[:, ::-1])

    @cached_property
    def _rows(self) -> Floats:
        """The test rows in the coordinates V."""
        return (self.case.asked.X - self._centre) @ (self._eigen[1] / self._D[:, None])

    @cached_property
    def _means(self) -> Floats:
        """The class means in the coordinates V."""
        return ((self.classes.means - self._centre) / self._D) @ self._eigen[1]

    @cached_property
    def _flat(self) -> bool:
        """Whether test rows, class means and all z lie in the span of V1; D cancels then."""
        rank, n = len(self._eigen[0]), self.classes.n
        beyond = [self._rows[:, rank:], self._means[n > 0.0, rank:]]
        if not n.all() or any(np.abs(part).max(initial=0.0) > 1e-12 for part in beyond):
            return False
        Z = self.case.Z
        rest = ((Z.X - self._centre) / self._D) @ self._eigen[1][:, rank:]
        return bool(np.abs(rest).max(initial=0.0) < 1e-12)

    @cached_property
    def T(self) -> Floats:
        """(x, 1) for the test rows x in the coordinates V."""
        rows = self._rows[:, : len(self._eigen[0])] if self._flat else self._rows
        return np.hstack([rows, np.ones((len(rows), 1))])

    def _divisor(self, n: int) -> int:
        return n if _divides_by_all() else n - self.classes.n_classes

    def alone(self) -> Coefficients:
        n, (L, _) = len(self.classes.S), self._eigen
        priors, means = self.classes.priors(), self._means[np.newaxis]
        a = _apart(means, priors)
        W = np.zeros(a.shape)
        W[..., : len(L)] = a[..., : len(L)] / L * (self._divisor(n) / n)
        least = np.zeros(1)
        if n > self.classes.n_classes and len(L) > 0 and not self._faint(self._squares).any():
            least[0] = L[-1] * n / self._divisor(n)
        return self._finished(W, a, means, priors, least, np.array([len(L)]))

    def with_each(self, X: Floats, y: Array) -> Coefficients:
        (L, V), n, n_y = self._eigen, len(self.classes.S), self.classes.n[y]
        rho, moved = n_y / (n_y + 1.0), X - self.classes.means[y]
        v = (moved / self._D) @ V
        means, priors = (
            self.classes.means_with_each(self._means, v, y),
            self.classes.priors_with_each(y),
        )
        a = _apart(means, priors)
        squares = self._squares + rho[:, None] * moved**2
        E = np.where(squares == 0.0, 1.0, squares / (n + 1)) / self._D**2
        beyond = rho * (v[:, len(L) :] ** 2).sum(axis=1) / (n + 1) > _NULL
        W, least = np.zeros(a.shape), np.zeros(len(y))
        for where in (beyond, ~beyond):
            if where.any():
                step = _Step(
                    Ln=n * L,
                    V=V,
                    v=v[where],
                    rho=rho[where],
                    E=E[where],
                    beyond=bool(beyond[where][0]),
                )
                W[where] = step.within(a[where]) if self._flat else step.solved(a[where])
                least[where] = step.least()
        if n + 1 > self.classes.n_classes:
            W *= self._divisor(n + 1)
            least /= self._divisor(n + 1) * E.max(axis=1)
        else:  # one row for each class, which scikit-learn refuses
            least[:] = 0.0
        faint = self._faint(squares)
        if (self._squares == 0.0).any():
            faint |= (squares == 0.0) & ~self.classes.unmoved(X, y)
        least[faint.any(axis=1)] = 0.0
        return self._finished(W, a, means, priors, least, len(L) + beyond)

    def _faint(self, squares: Floats) -> Array:
        """Where a column is constant except for rounding; scikit-learn treats it as varying."""
        size = np.abs(self.classes.S.X).max(axis=0)
        return (squares > 0.0) & (squares < 1e-20 * size**2)

    def _finished(
        self, W: Floats, a: Floats, means: Floats, priors: Floats, least: Floats, rank: Array
    ) -> Coefficients:
        """The coefficients with their constant and error.

        `least` holds lower bounds on scikit-learn's squared singular values.
        """
        logs = np.log(priors)
        if W.shape[1] == 1:
            constant = (logs[:, 1] - logs[:, 0])[:, None]
            constant -= 0.5 * np.einsum("rcd,rd->rc", W, means[:, 0] + means[:, 1])
        else:
            middle = np.einsum("rc,rcd->rd", priors, means)
            constant = logs - np.einsum("rcd,rcd->rc", W, 0.5 * a + middle[:, None])
            least[_collapsed(W, a, priors, rank, self.tol)] = 0.0
        if self._flat:
            W = W[..., : len(self._eigen[0])]
        n, d = self.classes.S.X.shape
        error = rounding(n + d) + 16.0 * _EPSILON / least
        error[least < 1.05 * self.tol**2] = np.inf
        return Coefficients(np.concatenate([W, constant[..., None]], axis=2), error)


def _apart(means: Floats, priors: Floats) -> Floats:
    """(r, 1, d) the difference of two means, or (r, c, d) each mean less their weighted mean."""
    if means.shape[1] == 2:
        return means[:, 1:] - means[:, :1]
    return means - np.einsum("rc,rcd->rd", priors, means)[:, None]


def _collapsed(W: Floats, a: Floats, priors: Floats, rank: Array, tol: float) -> Array:
    """(r,) models in which scikit-learn may drop a direction between three or more class means."""
    c, root = a.shape[1], np.sqrt(priors)
    between = np.einsum("rcd,red->rce", a, W) * root[:, :, None] * root[:, None, :]
    bad = ~np.isfinite(between).all(axis=(1, 2))
    between[bad] = 0.0
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(between)[:, ::-1], 0.0))
    last = spread[np.arange(len(a)), np.minimum(c - 1, rank) - 1]
    return bad | (last <= 1.05 * tol * spread[:, 0])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Step:
    """P b / n' (see the module's docstring) for several z.

    Either all of these z have a part outside the span of V1 (`beyond`), or none of them has.
    """

    Ln: Floats
    V: Floats
    v: Floats
    rho: Floats
    E: Floats
    beyond: bool

    @property
    def _m(self) -> int:
        return len(self.Ln)

    @cached_property
    def _mirror(self) -> Floats:
        """(r, q) the w of the reflection I - 2 w w' that maps v's part in V0 to the first axis."""
        w = self.v[:, self._m :].copy()
        w /= np.sqrt((w**2).sum(axis=1, keepdims=True))
        w[:, 0] += np.where(w[:, 0] < 0.0, -1.0, 1.0)
        return w / np.sqrt((w**2).sum(axis=1, keepdims=True))

    def _reflected(self, x: Floats) -> Floats:
        """(r, c, q) coordinates in V0, reflected if the z have parts outside V1."""
        if not self.beyond:
            return x
        w = self._mirror
        return x - 2.0 * np.einsum("rcq,rq->rc", x, w)[..., None] * w[:, None]

    @cached_property
    def _out(self) -> Floats:
        """(r,) the signed length of v's part outside V1."""
        return self._reflected(self.v[:, None, self._m :])[:, 0, 0]

    def within(self, a: Floats) -> Floats:
        """`solved` for the case that v, a and all test rows lie in the span of V1."""
        W = np.zeros(a.shape)
        W[..., : self._m] = self._scatter_solved(a[..., : self._m])
        return W

    def solved(self, a: Floats) -> Floats:
        """(r, c, d) P a / n' for the right-hand sides a (r, c, d), in the coordinates V."""
        size = self._m + self.beyond
        return self._by_span(a) if 2 * size <= len(self.V) else self._by_rest(a)

    def _by_span(self, a: Floats) -> Floats:
        """`solved` by systems with J, which is cheaper if Q has few columns."""
        V1, weights = self.V[:, : self._m], 1.0 / self.E
        J = _weighted(V1, weights)
        u = np.zeros((len(self.v), 0, len(self.V)))
        if self.beyond:
            h = self.v[:, None, self._m :] / self._out[:, None, None]
            u = times(h, self.V[:, self._m :].T)
            wide = np.empty((len(J), self._m + 1, self._m + 1))
            wide[:, :-1, :-1] = J
            wide[:, -1, :-1] = wide[:, :-1, -1] = (u[:, 0] * weights) @ V1
            wide[:, -1, -1] = (u[:, 0] ** 2 * weights).sum(axis=1)
            J = wide
        b = times(a, self.V.T) * weights[:, None]
        b = np.concatenate([times(b, V1), b @ u.transpose(0, 2, 1)], axis=2)
        t = self._scatter_solved(_solved(J, b))
        s = _solved(J, t)
        y = (times(s[..., : self._m], V1.T) + s[..., self._m :] @ u) * weights[:, None]
        return times(y, self.V)

    def _by_rest(self, a: Floats) -> Floats:
        """`solved` by systems with Q0' E Q0, which is cheaper if Q0 has few columns."""
        V1, V0, one = self.V[:, : self._m], self.V[:, self._m :], int(self.beyond)
        X = _weighted(V0, self.E)
        X = self._reflected(self._reflected(X).transpose(0, 2, 1))[:, one:, one:]
        rest = self._reflected(a[..., self._m :])
        s = np.zeros(rest.shape)
        s[..., one:] = _solved(X, rest[..., one:])
        f = times(self._reflected(s), V0.T) * self.E[:, None]
        b = [a[..., : self._m] - times(f, V1), (rest - self._reflected(times(f, V0)))[..., :one]]
        t = self._scatter_solved(np.concatenate(b, axis=2))
        s = np.zeros(rest.shape)
        s[..., :one] = t[..., self._m :]
        f = times(t[..., : self._m], V1.T) + times(self._reflected(s), V0.T)
        f *= self.E[:, None]
        s[..., one:] = -_solved(X, self._reflected(times(f, V0))[..., one:])
        return np.concatenate([t[..., : self._m], self._reflected(s)], axis=2)

    def _scatter_solved(self, b: Floats) -> Floats:
        """(M M')^-1 b, where M M' is diag(Ln) plus rho v v'."""
        p, rho = self.v[:, None, : self._m], self.rho[:, None, None]
        head = b[..., : self._m] / self.Ln
        along = (head * p).sum(axis=2, keepdims=True)
        if not self.beyond:
            shrink = rho / (1.0 + rho * (p**2 / self.Ln).sum(axis=2, keepdims=True))
            return head - shrink * along * p / self.Ln
        out, last = self._out[:, None, None], b[..., self._m :]
        head = head - p / self.Ln * (last / out)
        tail = last / (rho * out**2) - (head * p).sum(axis=2, keepdims=True) / out
        return np.concatenate([head, tail], axis=2)

    def least(self) -> Floats:
        """(r,) lower bounds on the eigenvalues of M M'."""
        if not self.beyond:
            return np.full(len(self.v), self.Ln.min(initial=np.inf) if self._m else 0.0)
        p, out = self.v[:, : self._m], self._out**2
        trace = (1.0 / self.Ln).sum() + (p**2 / self.Ln).sum(axis=1) / out
        return 1.0 / (trace + 1.0 / (self.rho * out))


def _weighted(A: Floats, weights: Floats) -> Floats:
    """(r, m, m) A' diag(w) A for each row w of `weights`."""
    m = A.shape[1]
    if m > 64:
        return np.stack([(A.T * w) @ A for w in weights])
    i, j = np.tril_indices(m)
    found = np.empty((len(weights), m, m))
    found[:, i, j] = found[:, j, i] = weights @ (A[:, i] * A[:, j])
    return found


def _solved(A: Floats, b: Floats) -> Floats:
    """(r, c, m) the solutions x of A x = b, for each of the r matrices."""
    x = np.linalg.solve(A, b.transpose(0, 2, 1))
    return np.asarray(x.transpose(0, 2, 1), dtype=np.float64)
