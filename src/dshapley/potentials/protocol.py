"""Potentials: U(S), what a set of points is worth.

Any function from Points to a float is a potential. Two optional methods make it better:
`U.marginals(S, Z)`, where U(S + z) for all z together costs less than one by one, and
`U.seeded(seed)`, where U is random: the same U with its randomness fixed.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dshapley.data.points import Bundles, Floats, Points
from dshapley.errors import FitError
from dshapley.identity import Plain, plain

__all__ = ["Potential", "check_points", "describe", "marginals", "seeded"]


class Potential(Protocol):
    """U: sets of points -> numbers, for every set: empty, of one class, with repeats."""

    def __call__(self, S: Points, /) -> float:
        """What S is worth."""
        ...


def marginals(U: Potential, S: Points, Z: Points | Bundles) -> Floats:
    """U(S + z) - U(S) for each z of Z, by `U.marginals` where there is one.

    >>> import numpy as np
    >>> Z = Points(np.arange(3.0).reshape(-1, 1), [0, 0, 1])
    >>> marginals(lambda S: len(S) ** 2, Z, Z)
    array([7., 7., 7.])
    """
    if hasattr(U, "marginals"):
        gains: Floats = np.asarray(U.marginals(S, Z), dtype=np.float64)
    else:
        base = float(U(S))
        gains = np.array([float(U(S + z)) - base for z in Z])
    if not np.isfinite(gains).all():
        z = int(np.argwhere(~np.isfinite(gains))[0][0])
        raise FitError(f"U(S + z) - U(S) = {gains[z]} for point {z} and |S| = {len(S)}")
    return gains


def seeded(U: Potential, seed: int) -> Potential:
    """U with its own randomness fixed by `seed`, where it has any."""
    if hasattr(U, "seeded"):
        fixed: Potential = U.seeded(seed)
        return fixed
    return U


def check_points(U: object, points: Points | Bundles, *, name: str) -> None:
    """Raise an InputError where U says that it cannot use `points`."""
    if hasattr(U, "check"):
        U.check(points.points if isinstance(points, Bundles) else points, name=name)


def describe(U: Any) -> dict[str, Plain]:
    """What identifies U, as plain values to be kept with a run and compared when it is resumed.

    A plain function is known by its name, its source and what it closes over; an object by its
    own `describe()`, or by a digest of its contents.
    """
    if hasattr(U, "describe"):
        return {name: plain(value) for name, value in U.describe().items()}
    return {"potential": str(plain(U))}
