"""What solving all S + z at once has in common for two classes and for more.

Passes of conjugate gradients over the z that are still at work; steps as exact as labels need
them; and an exponential that the compiler can vectorise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.kernels import inlined

__all__ = [
    "EXACT",
    "Steps",
    "expm1",
    "inside",
    "largest_of",
    "series",
    "solved",
    "sure_labels",
    "too_far",
]

EXACT = 1e-11
"""How near to the optimum counts as exact, in the norm of the Hessian of S."""

_PASSES = 60
"""What is not near enough by then is solved in another way: in double precision, or alone."""

_ROUGH = 0.015
"""If ten rows are within b of the boundary, about one model in seven has one within this much of b:
it is not worth the passes to be sure of the last few at once."""

_CROWDED = 0.9
"""Columns that are done are taken out when fewer than this share are still at work."""


@dataclass(frozen=True, eq=False)
class Steps:
    """From the model of S to those of S + z."""

    d: Floats
    """(r, p), or (r, c, p) for more than two classes"""
    Md: Floats
    """The steps, times the matrix whose norm lengths are measured in."""
    blur: Floats
    """(r,) how far from there the optimum may be, in that norm; infinite where it was not found."""

    @property
    def lengths(self) -> Floats:
        """(r,) in that norm."""
        axes = tuple(range(1, self.d.ndim))
        return np.sqrt(np.maximum((self.d * self.Md).sum(axis=axes), 0.0))

    def take(self, which: Array) -> Steps:
        """Some of them."""
        return Steps(self.d[which], self.Md[which], self.blur[which])

    def put(self, which: Array, others: Steps) -> None:
        """Others in some places."""
        for mine, other in zip(self._arrays, others._arrays, strict=True):
            mine[which] = other

    @property
    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        return self.d, self.Md, self.blur


class Work(Protocol):
    """A data class of the z still at work: first S, then arrays of one row for each z."""

    d: Array
    far: Floats
    """How far the optimum may be."""
    done: Array

    @property
    def Md(self) -> Array:
        """See `Steps`."""
        ...

    def gradients(self) -> None:
        """Gradients, who is done, and directions to go for the others."""
        ...

    def advance(self) -> None:
        """To the minimum along each direction."""
        ...


W = TypeVar("W", bound=Work)


def solved(work: Work) -> Steps:
    """The steps that the work comes to; with an infinite blur where it comes to nothing."""
    steps = Steps(np.empty(work.d.shape), np.empty(work.d.shape), np.empty(len(work.d)))
    which = np.arange(len(work.d))
    for turn in range(_PASSES + 1):
        work.gradients()
        if turn == _PASSES:
            work.far[~work.done] = np.inf
            work.done[:] = True
        left = ~work.done
        if not left.any() or left.mean() < _CROWDED:
            done = work.done
            steps.put(which[done], Steps(work.d[done], work.Md[done], work.far[done]))
            if not left.any():
                break
            work, which = _only(work, left), which[left]
        work.advance()
    return steps


def _only(work: W, left: Array) -> W:
    """The work that is left."""
    per_z = fields(work)[1:]  # type: ignore[arg-type]
    arrays = {field.name: getattr(work, field.name)[left] for field in per_z}
    return replace(work, **arrays)  # type: ignore[type-var]


def sure_labels(
    solve: Callable[[Array, Steps, Floats, bool], Steps],
    label: Callable[[Array, Steps], tuple[Array, Floats]],
    start: Steps,
    reach: Floats,
    sure: float,
) -> tuple[Array, Array]:
    """The labels of all z, solved no more exactly than it takes to be sure of them.

    First in single precision to where about one in seven is not sure, then those to a fraction of
    the gap to their nearest flip, at last to the optimum in double, where nothing is left to be
    unsure of. `solve(which, start, tolerance, single)` returns steps with their blur, `label` the
    labels of steps and the gaps. Comes with which z are still unsure by a blur of more than
    `sure`: a tie stays unsure by its rounding error, and that is left as it is.
    """
    which = np.arange(len(start.d))
    rough = max(_ROUGH * float(reach[min(10, len(reach) - 1)]), EXACT)
    steps = solve(which, start, np.full(len(which), rough), True)
    labels, gaps = label(which, steps)
    for share, single in ((0.3, True), (0.1, False), (0.0, False)):
        unsure = gaps <= steps.blur
        if not unsure.any():
            return labels, which[:0]
        which, steps = which[unsure], steps.take(unsure)
        lost = np.isinf(steps.blur)
        steps.put(lost, start.take(which[lost]))
        tolerance = np.maximum(share * np.where(lost, 0.0, gaps[unsure]), EXACT)
        steps = solve(which, steps, tolerance, single)
        labels[which], gaps = label(which, steps)
    return labels, which[(gaps <= steps.blur) & (steps.blur > sure)]


def too_far(dtype: Any) -> float:
    """A change of a decision value of S beyond which 1 + expm1 has too few digits left."""
    return 8.0 if dtype == np.float32 else 20.0


def series(dtype: Any) -> tuple[Any, ...]:
    """Of exp(u / 64) - 1, then 1, 2, 1/64, 60, and a tiny number: typed, to promote nothing."""
    terms = [1.0 / math.factorial(j) for j in range(1, 11)]
    return tuple(
        np.dtype(dtype).type(number) for number in (*terms, 1.0, 2.0, 1.0 / 64.0, 60.0, 1e-30)
    )


@inlined
def expm1(u: Any, c: Any) -> Any:
    """exp(u) - 1 for |u| up to 60, in operations that the compiler can vectorise."""
    w = min(max(u, -c[13]), c[13]) * c[12]
    e = w * (c[0] + w * (c[1] + w * (c[2] + w * (c[3] + w * (c[4] + w * (c[5] + w * (
        c[6] + w * (c[7] + w * (c[8] + w * c[9])))))))))  # fmt: skip
    for _ in range(6):
        e = e * (e + c[11])
    return e


@inlined
def inside(low: float, high: float, t: float, following: float) -> float:
    """Newton's next t if it is within its bracket, else one that is."""
    if low < following < high:
        return following
    return 0.5 * (low + high) if high < np.inf else 2.0 * t


@inlined
def largest_of(numbers: Array) -> Any:
    """The largest of their absolute values, 0 if there are none."""
    top = 0.0
    for number in numbers:
        top = max(top, abs(number))
    return top
