"""Predicted labels of many nearly equal linear models: only rows that can flip are looked at.

Model z says f_j + t_j'd_z of test row j, where f_j is what the model of S says. By Cauchy and
Schwarz |t_j'd_z| <= |t_j| |d_z|, so that rows with a larger |f_j| keep their label. The others are
multiplied out in single precision, and those that come out too near to zero for its rounding
error once more in double. The labels are those of exact arithmetic, but for the last bits of a
double.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dshapley.learners.kernels import kernel
from dshapley.points import Array, Floats

__all__ = ["Flips"]

_BLOCK = 128
"""Models multiplied out together: those of about the same |d_z|."""

_WIDE = 0.5
"""Where more than this share of the rows can flip, all are multiplied out, in their own order."""

_EPSILON = float(np.finfo(np.float32).eps) / 2


class Flips:
    """The labels of models near the one whose decision values on the rows T are f.

    Parameters
    ----------
    f
        (n,) for two classes: label 1 where it is above 0. (n, c) for more: the label is the
        first of the largest.
    T
        (n, p) the test rows, in coordinates where all |d_z| are as small as they can be.
    """

    def __init__(self, f: Floats, T: Floats) -> None:
        norms = np.sqrt(np.einsum("ij,ij->i", T, T))
        self.base, gap = _two(f) if f.ndim == 1 else _many(f)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(norms > 0.0, gap / norms, np.inf)
        order = np.argsort(reach, kind="stable")
        self.reach = reach[order]
        """|f_j| / |t_j|, rising: a model with |d_z| below the first flips nothing."""
        self._all = _Rows(f, T, norms, np.arange(len(f)))
        self._near = _Rows(f[order], T[order], norms[order], order)

    def labels(
        self, steps: Floats, blur: Floats | None = None
    ) -> tuple[NDArray[np.int8], Floats]:
        """(r, n) labels for the steps d_z, (r, p) or (r, c, p), and how far the nearest flip is.

        Where this gap is at most `blur`, a step that far from d_z could have another label. Gaps
        that are clearly larger are not looked at and come back as infinite.
        """
        r = len(steps)
        labels = np.empty((r, len(self.base)), dtype=np.int8)
        gaps = np.full(r, np.inf)
        blur = np.zeros(r) if blur is None else blur
        # A class overtakes another by the difference of their steps, at most twice the larger.
        sizes = np.sqrt((steps**2).sum(axis=-1))
        spread = sizes if steps.ndim == 2 else 2.0 * sizes.max(axis=1)
        rounding = (steps.shape[-1] + 5) * _EPSILON * spread
        order = np.argsort(spread + blur, kind="stable")
        single = steps.astype(np.float32)
        for start in range(0, r, _BLOCK):
            some = order[start : start + _BLOCK]
            farthest = (spread + blur)[some].max()
            width = int(np.searchsorted(self.reach, farthest, side="right"))
            rows, width = (
                (self._all, len(self.base)) if width > _WIDE * len(self.base)
                else (self._near, width)
            )  # fmt: skip
            flat = single[some].reshape(-1, steps.shape[-1]) @ rows.single[:width].T
            products = flat.reshape(*single[some].shape[:-1], width)
            relabel = _relabel_two if steps.ndim == 2 else _relabel_many
            relabel(
                labels, gaps, some, products, rows.f, rows.f_single, rows.norms,
                rows.norms_single, rows.place, rows is self._all, self.base, rows.T, steps,
                rounding, blur,
            )  # fmt: skip
        return labels, gaps


class _Rows:
    """Test rows in some order, in single and in double precision."""

    def __init__(self, f: Floats, T: Floats, norms: Floats, place: Array) -> None:
        self.f, self.T, self.norms, self.place = f, T, norms, place

    @cached_property
    def single(self) -> NDArray[np.float32]:
        return self.T.astype(np.float32)

    @cached_property
    def f_single(self) -> NDArray[np.float32]:
        return self.f.astype(np.float32)

    @cached_property
    def norms_single(self) -> NDArray[np.float32]:
        return self.norms.astype(np.float32)


def _two(f: Floats) -> tuple[NDArray[np.int8], Floats]:
    return (f > 0.0).astype(np.int8), np.abs(f)


def _many(f: Floats) -> tuple[NDArray[np.int8], Floats]:
    best_two = np.partition(f, -2, axis=1)[:, -2:]
    return f.argmax(axis=1).astype(np.int8), best_two[:, 1] - best_two[:, 0]


@kernel
def _relabel_two(
    labels: Array, gaps: Array, some: Array, products: Array, f: Array, f_single: Array,
    norms: Array, norms_single: Array, place: Array, in_place: bool, base: Array, T: Array,
    steps: Array, rounding: Array, blur: Array,
) -> None:  # fmt: skip
    zero = np.float32(0.0)
    for i in range(len(some)):
        z = some[i]
        near = np.float32(rounding[z] + blur[z])
        n_near = 0
        if in_place:
            for j in range(products.shape[1]):
                value = f_single[j] + products[i, j]
                labels[z, j] = value > zero
                n_near += abs(value) <= norms_single[j] * near
        else:
            labels[z] = base
            for j in range(products.shape[1]):
                value = f_single[j] + products[i, j]
                labels[z, place[j]] = value > zero
                n_near += abs(value) <= norms_single[j] * near
        if n_near == 0:
            continue
        for j in range(products.shape[1]):
            if abs(f_single[j] + products[i, j]) <= norms_single[j] * near:
                exact = f[j]
                for p in range(T.shape[1]):
                    exact += T[j, p] * steps[z, p]
                labels[z, place[j]] = exact > 0.0
                gaps[z] = min(gaps[z], abs(exact) / norms[j])


@kernel
def _relabel_many(
    labels: Array, gaps: Array, some: Array, products: Array, f: Array, f_single: Array,
    norms: Array, norms_single: Array, place: Array, in_place: bool, base: Array, T: Array,
    steps: Array, rounding: Array, blur: Array,
) -> None:  # fmt: skip
    n_classes, width = products.shape[1], products.shape[2]
    best, second = np.empty(width, np.float32), np.empty(width, np.float32)
    which = np.empty(width, np.int8)
    values = np.empty(n_classes)
    for i in range(len(some)):
        z = some[i]
        near = np.float32(rounding[z] + blur[z])
        n_near = 0
        for j in range(width):
            best[j] = f_single[j, 0] + products[i, 0, j]
            second[j] = -np.inf
            which[j] = 0
        for c in range(1, n_classes):
            for j in range(width):
                value = f_single[j, c] + products[i, c, j]
                second[j] = max(second[j], min(best[j], value))
                which[j] = c if value > best[j] else which[j]
                best[j] = max(best[j], value)
        if not in_place:
            labels[z] = base
        for j in range(width):
            labels[z, place[j]] = which[j]
            n_near += best[j] - second[j] <= norms_single[j] * near
        if n_near == 0:
            continue
        for j in range(width):
            if best[j] - second[j] <= norms_single[j] * near:
                top, runner_up = -np.inf, -np.inf
                for c in range(n_classes):
                    values[c] = f[j, c]
                    for p in range(T.shape[1]):
                        values[c] += T[j, p] * steps[z, c, p]
                    if values[c] > top:
                        top, runner_up = values[c], top
                        labels[z, place[j]] = c
                    elif values[c] > runner_up:
                        runner_up = values[c]
                gaps[z] = min(gaps[z], (top - runner_up) / norms[j])
