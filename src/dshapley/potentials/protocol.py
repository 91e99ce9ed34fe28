"""The protocol of potentials: U(S) is what a set of points S is worth.

Any function from Points to a float is a potential. Two methods are optional:
`U.marginals(S, Z)`, if all U(S + z) together cost less than one by one, and `U.seeded(seed)` for a
random U, which returns the same U with its random seed fixed.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dshapley.data.points import Bundles, Floats, Points
from dshapley.errors import FitError
from dshapley.identity import Plain, plain

__all__ = ["Potential", "check_points", "describe", "marginals", "seeded"]


class Potential(Protocol):
    """A function from sets of points to numbers.

    It is defined for every set: the empty set, sets of one class, and sets with repeated points.
    """

    def __call__(self, S: Points, /) -> float:
        """What S is worth."""
        ...


def marginals(U: Potential, S: Points, Z: Points | Bundles) -> Floats:
    """U(S + z) - U(S) for each z of Z, computed by `U.marginals` if U has that method.

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
    """U with its random seed fixed, if it is random."""
    if hasattr(U, "seeded"):
        fixed: Potential = U.seeded(seed)
        return fixed
    return U


def check_points(U: object, points: Points | Bundles, *, name: str) -> None:
    """Raise an InputError if U has a `check` method and it refuses `points`."""
    if hasattr(U, "check"):
        U.check(points.points if isinstance(points, Bundles) else points, name=name)


def describe(U: Any) -> dict[str, Plain]:
    """The values that identify U, stored with a run and compared when the run is resumed.

    An object with a `describe()` method is identified by what that returns, a function by its name,
    source and closure, and any other object by a digest of its contents.
    """
    if hasattr(U, "describe"):
        return {name: plain(value) for name, value in U.describe().items()}
    return {"potential": str(plain(U))}
