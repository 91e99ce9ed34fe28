"""Predicted labels of many nearly equal linear models: only rows that can flip are looked at.

Model z says f_j + t_j'd_z of test row j, where f_j is what the model of S says. By Cauchy and
Schwarz |t_j'd_z| <= |t_j| |d_z|, so that rows with a larger |f_j| keep their label. The others are
multiplied out in single precision, and those that come out too near to zero for its rounding
error once more in double. The labels are those of exact arithmetic, but for the last bits of a
double.
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
"""Models multiplied out together: those of about the same |d_z|."""

_WIDE = 0.5
"""Where more than this share of the rows can flip, all are multiplied out, in their own order."""

_EPSILON = float(np.finfo(np.float32).eps) / 2


def as_labels(codes: Array, n_classes: int) -> Array:
    """Codes of classes, a byte each where that is enough."""
    return codes.astype(np.int8 if n_classes < 128 else np.int32)


@dataclass(frozen=True, eq=False)
class Beyond:
    """Steps out of the coordinates of T: in one direction for each model."""

    directions: Floats
    """(r, q) of the q further coordinates of the test rows."""
    far: Floats
    """(r, c) how far along them."""


class Flips:
    """The labels of models near the one whose decision values on the rows T are f.

    Parameters
    ----------
    f
        (n,) for two classes: label 1 where it is above 0. (n, c) for more: the label is the
        first of the largest.
    T
        (n, p) the test rows, in coordinates where all |d_z| are as small as they can be.
    lengths
        (n, c) for more than two classes: the lead of a row's label over each class shrinks by no
        more than this times the length of the step. By default twice |t_j|.
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
        """The length of a step that could flip each row, rising."""
        self._exact = _Exact(f, T, beyond)
        # Near a boundary two classes are as small as |t| |d|; of more, the two best can be large.
        large = np.zeros(len(f)) if f.ndim == 1 else 4.0 * _EPSILON * np.abs(f).max(axis=1)
        parts = (f.T, T, norms, large, lengths.max(axis=1), beyond)
        single = [np.ascontiguousarray(part, dtype=np.float32) for part in parts]
        self._all = _Rows(np.arange(len(f)), *single)
        self._order = order

    @cached_property
    def _near(self) -> _Rows:
        """Those that flip first, first."""
        return self._all.take(self._order)

    @classmethod
    def along(cls, f: Floats, T: Floats) -> Flips:
        """For models whose steps are all along one row each: see `labels_along`."""
        norms = np.sqrt(np.einsum("ij,ij->i", T, T))
        lengths = np.repeat(norms[:, np.newaxis], f.shape[1], axis=1)
        return cls(f, np.empty((len(T), 0)), lengths, T)

    def labels_along(
        self, directions: Floats, far: Floats, blur: Floats | None = None
    ) -> tuple[Array, Floats]:
        """Those of the steps far[z, c] directions[z]: one product a model, not one a class."""
        norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        norms = np.maximum(norms, np.finfo(np.float64).tiny)[:, np.newaxis]
        beyond = Beyond(directions / norms, far * norms)
        # One class overtakes another by the difference of their steps.
        lengths = np.ptp(beyond.far, axis=1)
        return self.labels(np.empty((*far.shape, 0)), blur, lengths, beyond)

    def labels(
        self,
        steps: Floats,
        blur: Floats | None = None,
        lengths: Floats | None = None,
        beyond: Beyond | None = None,
    ) -> tuple[Array, Floats]:
        """(r, n) labels for the steps d_z, (r, p) or (r, c, p), and how far the nearest flip is.

        Where this gap is at most `blur`, a step that far from d_z could have another label. Gaps
        that are clearly larger are not looked at and come back as infinite. `lengths` are those
        of the steps, by default |d_z|, for more classes the largest of their norms.
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
    """Test rows in their own order, in double precision."""

    f: Floats
    T: Floats
    beyond: Floats


class _Found(NamedTuple):
    """What is to be found, and the labels of the model of S."""

    labels: Array
    gaps: Floats
    base: Array


class _Steps(NamedTuple):
    """Of all models."""

    d: Floats
    directions: Floats
    far: Floats
    rounding: Floats
    blur: Floats


class _Rows(NamedTuple):
    """Test rows in some order, in single precision."""

    place: Array
    """Where they are among the test rows."""
    f: Array
    """(n,) or (c, n)"""
    T: Array
    norms: Array
    large: Array
    """The rounding error of f."""
    lengths: Array
    beyond: Array

    def take(self, order: Array) -> _Rows:
        f = np.ascontiguousarray(self.f[..., order])
        parts = (self.T, self.norms, self.large, self.lengths, self.beyond)
        return _Rows(self.place[order], f, *(part[order] for part in parts))

    def products(self, steps: Floats, directions: Floats, width: int) -> tuple[Array, Array]:
        """Of the first `width` rows with the steps, and with their directions beyond."""
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
    """What a model of two classes says of a row, in double precision."""
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
    """Fill in the best and the second best value of each row, and which class has the best."""
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
    """The lead of the best class of a row, in double precision; its label becomes that class."""
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
