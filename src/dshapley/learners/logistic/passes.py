"""The parts of the solvers that two classes and more classes share.

`solved` runs conjugate gradients until all z are finished, `sure_labels` solves each z only as
exactly as its labels need, and `expm1` is an exponential that the compiler can vectorise.
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
"""The distance from the optimum that counts as exact, in the norm of the Hessian of S."""

_PASSES = 60
"""A z that is not finished after this many passes is solved in double precision or from scratch."""

_ROUGH = 0.015
"""The first tolerance, as a share of the distance b within which about ten rows can flip. About one
model in seven then has a row too close to the boundary and is solved further, which takes less time
than more passes for all models."""

_CROWDED = 0.9
"""Finished z are removed from the arrays when less than this share of the z is unfinished."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps from the model of S to the models of S + z."""

    d: Floats
    """(r, p), or (r, c, p) for more than two classes."""
    Md: Floats
    """The steps times M, the matrix of the norm in which lengths are measured."""
    blur: Floats
    """(r,) a bound on the distance to the optimum, in that norm; infinite if it was not found."""

    @property
    def lengths(self) -> Floats:
        """(r,) the lengths of the steps in the norm of M."""
        axes = tuple(range(1, self.d.ndim))
        return np.sqrt(np.maximum((self.d * self.Md).sum(axis=axes), 0.0))

    def take(self, which: Array) -> Steps:
        """The steps of the models `which`."""
        return Steps(self.d[which], self.Md[which], self.blur[which])

    def put(self, which: Array, others: Steps) -> None:
        """Replace the steps of the models `which` by `others`."""
        for mine, other in zip(self._arrays, others._arrays, strict=True):
            mine[which] = other

    @property
    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        return self.d, self.Md, self.blur


class Work(Protocol):
    """The unfinished z: a dataclass whose first field is S.

    All other fields are arrays with one row for each z.
    """

    d: Array
    far: Floats
    """Bounds on the distance to the optimum."""
    done: Array

    @property
    def Md(self) -> Array:
        """See `Steps`."""
        ...

    def gradients(self) -> None:
        """Compute the gradients, mark finished z, and set the search directions of the others."""
        ...

    def advance(self) -> None:
        """Go to the minimum along each direction."""
        ...


W = TypeVar("W", bound=Work)


def solved(work: Work) -> Steps:
    """The steps after all passes; the blur of a step is infinite if its optimum was not found."""
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
    """The work reduced to the z in `left`."""
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
    """The labels of all z, each solved only as exactly as its labels need.

    The first solution is in single precision and leaves about one z in seven uncertain. Those are
    solved to a fraction of the gap to their nearest flip, and at last to the optimum in double
    precision. `solve(which, start, tolerance, single)` returns steps with their blur, and `label`
    the labels and gaps of steps. The second result lists the z that are still uncertain with a blur
    of more than `sure`. A z with a smaller blur is a tie to within rounding error, and is left as
    it is.
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
    """The change of a decision value of S beyond which 1 + expm1 has too few accurate digits."""
    return 8.0 if dtype == np.float32 else 20.0


def series(dtype: Any) -> tuple[Any, ...]:
    """The constants of `expm1` and of the loops that call it, in one precision.

    They are the ten coefficients of exp(u) - 1, then 1, 2, 1/64, 60 and a tiny number. Typed
    constants keep numba from promoting single precision to double.
    """
    terms = [1.0 / math.factorial(j) for j in range(1, 11)]
    return tuple(
        np.dtype(dtype).type(number) for number in (*terms, 1.0, 2.0, 1.0 / 64.0, 60.0, 1e-30)
    )


@inlined
def expm1(u: Any, c: Any) -> Any:
    """exp(u) - 1 in operations that the compiler can vectorise; u is limited to -60..60.

    It evaluates the series at u / 64 and doubles the argument six times.
    """
    w = min(max(u, -c[13]), c[13]) * c[12]
    e = w * (c[0] + w * (c[1] + w * (c[2] + w * (c[3] + w * (c[4] + w * (c[5] + w * (
        c[6] + w * (c[7] + w * (c[8] + w * c[9])))))))))  # fmt: skip
    for _ in range(6):
        e = e * (e + c[11])
    return e


@inlined
def inside(low: float, high: float, t: float, following: float) -> float:
    """Newton's next t if it is inside the bracket, else a t that is."""
    if low < following < high:
        return following
    return 0.5 * (low + high) if high < np.inf else 2.0 * t


@inlined
def largest_of(numbers: Array) -> Any:
    """The largest absolute value; 0 if there are no numbers."""
    top = 0.0
    for number in numbers:
        top = max(top, abs(number))
    return top
