"""Predicted labels of many nearly equal linear models: only rows that can flip are looked at.

Model z says f_j + t_j'd_z of test row j, where f_j is what the model of S says. By Cauchy and
Schwarz |t_j'd_z| <= |t_j| |d_z|, so that rows with a larger |f_j| keep their label. The others are
multiplied out in single precision, and those that come out too near to zero for its rounding
error once more in double. The labels are those of exact arithmetic, but for the last bits of a
double.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshapley.learners.kernels import kernel
from dshapley.points import Array, Floats

__all__ = ["Flips"]

_BLOCK = 128
"""Models multiplied out together: those of about the same |d_z|."""

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
        self._norms = np.sqrt(np.einsum("ij,ij->i", T, T))
        self.base, self._gap = _two(f) if f.ndim == 1 else _many(f)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(self._norms > 0.0, self._gap / self._norms, np.inf)
        self._order = np.argsort(reach, kind="stable")
        self.reach = reach[self._order]
        """|f_j| / |t_j|, rising: a model with |d_z| below the first flips nothing."""
        self._f = np.ascontiguousarray(f[self._order])
        self._T = T[self._order]
        self._single = self._T.astype(np.float32)
        self._norms = self._norms[self._order]

    def labels(
        self, steps: Floats, blur: Floats | None = None
    ) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """(r, n) labels for the steps d_z, (r, p) or (r, c, p), and which rows of them are sure.

        A model is unsure if some label could be another one with d_z moved by `blur`.
        """
        r = len(steps)
        labels = np.empty((r, len(self.base)), dtype=np.int8)
        sure = np.ones(r, dtype=np.bool_)
        blur = np.zeros(r) if blur is None else blur
        # A class overtakes another by the difference of their steps, at most twice the larger.
        sizes = np.sqrt((steps**2).sum(axis=-1))
        spread = sizes if steps.ndim == 2 else 2.0 * sizes.max(axis=1)
        order = np.argsort(spread + blur, kind="stable")
        single = steps.astype(np.float32)
        for start in range(0, r, _BLOCK):
            some = order[start : start + _BLOCK]
            width = int(np.searchsorted(self.reach, (spread + blur)[some].max(), side="right"))
            rows = self._single[:width]
            rounding = (steps.shape[-1] + 4) * _EPSILON * spread
            if steps.ndim == 2:
                _flip_two(
                    labels, sure, some, single[some] @ rows.T, self._f, self._norms, self._order,
                    self.base, self._T, steps, rounding, blur,
                )  # fmt: skip
            else:
                flat = single[some].reshape(-1, steps.shape[-1]) @ rows.T
                _flip_many(
                    labels, sure, some, flat.reshape(len(some), steps.shape[1], width), self._f,
                    self._norms, self._order, self.base, self._T, steps, rounding, blur,
                )  # fmt: skip
        return labels, sure


def _two(f: Floats) -> tuple[NDArray[np.int8], Floats]:
    return (f > 0.0).astype(np.int8), np.abs(f)


def _many(f: Floats) -> tuple[NDArray[np.int8], Floats]:
    best_two = np.partition(f, -2, axis=1)[:, -2:]
    return f.argmax(axis=1).astype(np.int8), best_two[:, 1] - best_two[:, 0]


@kernel
def _flip_two(
    labels: Array, sure: Array, some: Array, products: Array, f: Array, norms: Array, order: Array,
    base: Array, T: Array, steps: Array, rounding: Array, blur: Array,
) -> None:  # fmt: skip
    for i in range(len(some)):
        z = some[i]
        labels[z] = base
        for j in range(products.shape[1]):
            value = f[j] + np.float64(products[i, j])
            if abs(value) <= norms[j] * (rounding[z] + blur[z]):
                value = f[j]
                for p in range(T.shape[1]):
                    value += T[j, p] * steps[z, p]
                if abs(value) <= norms[j] * blur[z]:
                    sure[z] = False
            labels[z, order[j]] = value > 0.0


@kernel
def _flip_many(
    labels: Array, sure: Array, some: Array, products: Array, f: Array, norms: Array, order: Array,
    base: Array, T: Array, steps: Array, rounding: Array, blur: Array,
) -> None:  # fmt: skip
    n_classes = f.shape[1]
    values = np.empty(n_classes)
    for i in range(len(some)):
        z = some[i]
        labels[z] = base
        for j in range(products.shape[2]):
            best, gap = 0, np.inf
            for c in range(n_classes):
                values[c] = f[j, c] + np.float64(products[i, c, j])
                if values[c] > values[best]:
                    best = c
            for c in range(n_classes):
                if c != best:
                    gap = min(gap, values[best] - values[c])
            if gap <= norms[j] * (rounding[z] + blur[z]):
                best, gap = 0, np.inf
                for c in range(n_classes):
                    values[c] = f[j, c]
                    for p in range(T.shape[1]):
                        values[c] += T[j, p] * steps[z, c, p]
                    if values[c] > values[best]:
                        best = c
                for c in range(n_classes):
                    if c != best:
                        gap = min(gap, values[best] - values[c])
                if gap <= norms[j] * blur[z]:
                    sure[z] = False
            labels[z, order[j]] = best
