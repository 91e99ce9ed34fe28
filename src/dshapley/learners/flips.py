"""Predict the labels of many similar linear models by computing only the rows that can flip.

Model z has the decision value f_j + t_j'd_z at test row j, where f_j is that of the model of S. By
the Cauchy-Schwarz inequality |t_j'd_z| <= |t_j| |d_z|, so a row with |f_j| > |t_j| |d_z| keeps its
label. The products for the other rows are computed in single precision. Where the result is within
its rounding error of zero, it is computed again in double precision. The labels are therefore those
of exact arithmetic, except where a decision value is within double rounding error of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.kernels import inlined, kernel

__all__ = ["Beyond", "Flips", "as_labels"]

_BLOCK = 128
"""The number of models multiplied together; models of similar |d_z| share a block."""

_WIDE = 0.5
"""If more than this share of the rows can flip, all rows are computed in their own order, which
avoids scattered writes."""

_EPSILON = float(np.finfo(np.float32).eps) / 2


def as_labels(codes: Array, n_classes: int) -> Array:
    """Class codes in the smallest integer type used here: one byte for fewer than 128 classes."""
    return codes.astype(np.int8 if n_classes < 128 else np.int32)


@dataclass(frozen=True, eq=False)
class Beyond:
    """The part of the steps outside the coordinates of T: one direction for each model."""

    directions: Floats
    """(r, q) the direction of each model, in the q further coordinates of the test rows."""
    far: Floats
    """(r, c) how far each class moves along it; (r, 1) zeros if there is no direction."""


class Flips:
    """The labels of models close to one whose decision values on the rows T are f.

    Parameters
    ----------
    f
        (n,) for two classes: the label is 1 where f > 0. (n, c) for more classes: the label is the
        class with the largest value, the first one if several are equal.
    T
        (n, p) the test rows, in coordinates in which all |d_z| are as small as possible.
    lengths
        (n, c) for more than two classes: a step of length 1 reduces the lead of a row's label over
        each class by at most this. By default twice |t_j|.
    beyond
        (n, q) further coordinates of the test rows, for `Beyond`.
    """

    def __init__(
        self, f: Floats, T: Floats, lengths: Floats | None = None, beyond: Floats | None = None
    ) -> None:
        beyond = np.empty((len(T), 0)) if beyond is None else beyond
        norms = np.sqrt(np.einsum("ij,ij->i", T, T) + np.einsum("ij,ij->i", beyond, beyond))
        if f.ndim == 1:
            self.base, lead = as_labels(f > 0.0, 2), np.abs(f)[:, np.newaxis]
            lengths = norms[:, np.newaxis]
        else:
            self.base = as_labels(f.argmax(axis=1), f.shape[1])
            lead = f.max(axis=1, keepdims=True) - f
            np.put_along_axis(lead, f.argmax(axis=1)[:, np.newaxis], np.inf, axis=1)
            if lengths is None:
                lengths = np.repeat(2.0 * norms[:, np.newaxis], f.shape[1], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(lengths > 0.0, lead / lengths, np.inf).min(axis=1)
        order = np.argsort(reach, kind="stable")
        self.reach = reach[order]
        """The length of the shortest step that could flip each row, in increasing order."""
        self._exact = _Exact(f, T, beyond)
        # With two classes, f is small near the boundary. With more, the two best values can both be
        # large and nearly equal, so the rounding error of f needs a bound of its own.
        large = np.zeros(len(f)) if f.ndim == 1 else 4.0 * _EPSILON * np.abs(f).max(axis=1)
        parts = (f.T, T, norms, large, lengths.max(axis=1), beyond)
        single = [np.ascontiguousarray(part, dtype=np.float32) for part in parts]
        self._all = _Rows(np.arange(len(f)), *single)
        self._order = order

    @cached_property
    def _near(self) -> _Rows:
        """The rows in order of the shortest step that could flip them."""
        return self._all.take(self._order)

    @classmethod
    def along(cls, f: Floats, T: Floats) -> Flips:
        """For models whose classes all move along one direction; use `labels_along`."""
        norms = np.sqrt(np.einsum("ij,ij->i", T, T))
        lengths = np.repeat(norms[:, np.newaxis], f.shape[1], axis=1)
        return cls(f, np.empty((len(T), 0)), lengths, T)

    def labels_along(
        self, directions: Floats, far: Floats, blur: Floats | None = None
    ) -> tuple[Array, Floats]:
        """The labels and gaps (see `labels`) if class c moves by far[z, c] directions[z].

        This takes one matrix product for each model instead of one for each class.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        norms = np.maximum(norms, np.finfo(np.float64).tiny)[:, np.newaxis]
        beyond = Beyond(directions / norms, far * norms)
        # The lead of one class over another changes by the difference of their steps.
        lengths = np.ptp(beyond.far, axis=1)
        return self.labels(np.empty((*far.shape, 0)), blur, lengths, beyond)

    def labels(
        self,
        steps: Floats,
        blur: Floats | None = None,
        lengths: Floats | None = None,
        beyond: Beyond | None = None,
    ) -> tuple[Array, Floats]:
        """(r, n) the labels after the steps d_z (r, p) or (r, c, p), and (r,) the gaps.

        No further step shorter than the gap of a model can change one of its labels. If the gap is
        at most `blur`, a step within `blur` of d_z may give other labels. Gaps clearly larger than
        `blur` are not computed and are returned as infinite. `lengths` are the lengths of the
        steps, in the norm that the `lengths` of the rows refer to; by default |d_z|, the largest
        over the classes.
        """
        r = len(steps)
        labels = np.empty((r, len(self.base)), dtype=self.base.dtype)
        gaps = np.full(r, np.inf)
        blur = np.zeros(r) if blur is None else blur
        beyond = Beyond(np.empty((r, 0)), np.zeros((r, 1))) if beyond is None else beyond
        squares = (steps**2).sum(axis=-1)
        if steps.ndim == 3:
            squares = (squares + beyond.far**2).max(axis=1)
        norms = np.sqrt(squares)
        farthest = (norms if lengths is None else lengths) + blur
        n_terms = steps.shape[-1] + beyond.directions.shape[1] + 6
        rounding = 2.0 * n_terms * _EPSILON * norms
        found = _Found(labels, gaps, self.base)
        taken = _Steps(steps, beyond.directions, beyond.far, rounding, blur)
        order = np.argsort(farthest, kind="stable")
        for start in range(0, r, _BLOCK):
            some = order[start : start + _BLOCK]
            width = int(np.searchsorted(self.reach, farthest[some].max(), side="right"))
            wide = width > _WIDE * len(self.base)
            rows, width = (self._all, len(self.base)) if wide else (self._near, width)
            relabel: Any = _relabel_two if steps.ndim == 2 else _relabel_many
            products = rows.products(steps[some], beyond.directions[some], width)
            relabel(found, some, products, rows, self._exact, taken, wide)
        return labels, gaps


class _Exact(NamedTuple):
    """The test rows in their own order, in double precision."""

    f: Floats
    T: Floats
    beyond: Floats


class _Found(NamedTuple):
    """The outputs to fill in, and the labels of the model of S."""

    labels: Array
    gaps: Floats
    base: Array


class _Steps(NamedTuple):
    """The steps of all models, with their errors."""

    d: Floats
    directions: Floats
    far: Floats
    rounding: Floats
    blur: Floats


class _Rows(NamedTuple):
    """The test rows in some order, in single precision."""

    place: Array
    """The index of each row in the test set."""
    f: Array
    """(n,) for two classes, (c, n) for more"""
    T: Array
    norms: Array
    large: Array
    """A bound on the rounding error of the lead f gives one class over another; 0 for two classes.
    """
    lengths: Array
    beyond: Array

    def take(self, order: Array) -> _Rows:
        f = np.ascontiguousarray(self.f[..., order])
        parts = (self.T, self.norms, self.large, self.lengths, self.beyond)
        return _Rows(self.place[order], f, *(part[order] for part in parts))

    def products(self, steps: Floats, directions: Floats, width: int) -> tuple[Array, Array]:
        """The products of the first `width` rows with the steps and the further directions."""
        out = directions.astype(np.float32) @ self.beyond[:width].T
        if steps.shape[-1] == 0:
            return np.broadcast_to(np.float32(0.0), (*steps.shape[:-1], width)), out
        flat = steps.reshape(-1, steps.shape[-1]).astype(np.float32) @ self.T[:width].T
        return flat.reshape(*steps.shape[:-1], width), out


@kernel
def _relabel_two(
    found: _Found, some: Array, products: tuple[Array, Array], rows: _Rows, exact: _Exact,
    steps: _Steps, in_place: bool,
) -> None:  # fmt: skip
    (labels, gaps, base), f, place = found, rows.f, rows.place
    norms, lengths = rows.norms, rows.lengths
    moved = products[0]
    zero = np.float32(0.0)
    for i in range(len(some)):
        z = some[i]
        rounded, blurred = np.float32(steps.rounding[z]), np.float32(steps.blur[z])
        n_near = 0
        if in_place:
            for j in range(moved.shape[1]):
                value = f[j] + moved[i, j]
                labels[z, j] = value > zero
                n_near += abs(value) <= norms[j] * rounded + lengths[j] * blurred
        else:
            for j in range(len(base)):
                labels[z, j] = base[j]
            for j in range(moved.shape[1]):
                value = f[j] + moved[i, j]
                labels[z, place[j]] = value > zero
                n_near += abs(value) <= norms[j] * rounded + lengths[j] * blurred
        if n_near == 0:
            continue
        for j in range(moved.shape[1]):
            value = np.float64(f[j] + moved[i, j])
            if abs(value) > norms[j] * rounded + lengths[j] * blurred:
                continue
            if abs(value) <= norms[j] * rounded:
                value = _exact_value(exact, place[j], steps.d[z])
                labels[z, place[j]] = value > 0.0
            gaps[z] = min(gaps[z], abs(value) / lengths[j])


@inlined
def _exact_value(exact: _Exact, row: int, step: Array) -> float:
    """The decision value of a two-class model at one row, in double precision."""
    value = exact.f[row]
    for p in range(exact.T.shape[1]):
        value += exact.T[row, p] * step[p]
    return value


@kernel
def _relabel_many(
    found: _Found, some: Array, products: tuple[Array, Array], rows: _Rows, exact: _Exact,
    steps: _Steps, in_place: bool,
) -> None:  # fmt: skip
    (labels, gaps, base), place = found, rows.place
    large, norms, lengths = rows.large, rows.norms, rows.lengths
    width = products[0].shape[2]
    best, second = np.empty(width, np.float32), np.empty(width, np.float32)
    which = np.empty(width, np.int32)
    for i in range(len(some)):
        z = some[i]
        rounded, blurred = np.float32(steps.rounding[z]), np.float32(steps.blur[z])
        _two_best(rows.f, products[0][i], products[1][i], steps.far[z], best, second, which)
        n_near = 0
        if not in_place:
            for j in range(len(base)):
                labels[z, j] = base[j]
        for j in range(width):
            labels[z, place[j]] = which[j]
            n_near += best[j] - second[j] <= large[j] + norms[j] * rounded + lengths[j] * blurred
        if n_near == 0:
            continue
        for j in range(width):
            lead = float(best[j] - second[j])
            if lead > large[j] + norms[j] * rounded + lengths[j] * blurred:
                continue
            if lead <= large[j] + norms[j] * rounded:
                lead = _exact_lead(labels, exact, place[j], steps, z)
            gaps[z] = min(gaps[z], lead / lengths[j])


@inlined
def _two_best(
    f: Array, moved: Array, out: Array, far: Array, best: Array, second: Array, which: Array
) -> None:
    """Fill in the largest and second largest value of each row, and the class of the largest."""
    along = np.float32(far[0])
    for j in range(len(best)):
        best[j] = f[0, j] + moved[0, j] + along * out[j]
        second[j] = -np.inf
        which[j] = 0
    for c in range(1, len(moved)):
        along = np.float32(far[c if len(far) > 1 else 0])
        for j in range(len(best)):
            value = f[c, j] + moved[c, j] + along * out[j]
            higher = value > best[j]
            second[j] = best[j] if higher else max(second[j], value)
            which[j] = np.int32(c) if higher else which[j]
            best[j] = value if higher else best[j]


@inlined
def _exact_lead(labels: Array, exact: _Exact, row: int, steps: _Steps, z: int) -> float:
    """Store the best class of one row as its label, in double precision; return its lead."""
    T, far = exact.T, steps.far
    top, runner_up, across = -np.inf, -np.inf, 0.0
    for q in range(exact.beyond.shape[1]):
        across += exact.beyond[row, q] * steps.directions[z, q]
    for c in range(exact.f.shape[1]):
        value = exact.f[row, c] + across * far[z, c if far.shape[1] > 1 else 0]
        for p in range(T.shape[1]):
            value += T[row, p] * steps.d[z, c, p]
        if value > top:
            top, runner_up = value, top
            labels[z, row] = c
        elif value > runner_up:
            runner_up = value
    return top - runner_up
