"""Several potentials that differ by their metric only, whose models are trained once for all.

Each result is, bit for bit, what the potential gives alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from dshapley.data.points import Bundles, Floats, Points
from dshapley.errors import FitError
from dshapley.potentials.model import ModelPotential, of_each
from dshapley.potentials.protocol import Potential, marginals

__all__ = ["marginals_of_each", "values_of_each"]


def marginals_of_each(Us: Sequence[Potential], S: Points, Z: Points | Bundles) -> list[Floats]:
    """The marginals of each z, for each potential.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from dshapley.potentials import potentials
    >>> S = Points([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> Us = potentials(GaussianNB(), test=S, metrics=["accuracy", "brier"])
    >>> [gains.round(2).tolist() for gains in marginals_of_each(Us, S.take([0]), S)]
    [[0.0, 0.0, 0.33], [0.0, 0.0, 0.33]]
    """
    if len(Us) == 1:
        return [marginals(Us[0], S, Z)]
    scores = of_each(cast("Sequence[ModelPotential]", Us), S, Z)
    return [_finite(row[1:] - row[0], S) for row in scores]


def values_of_each(Us: Sequence[Potential], S: Points) -> list[float]:
    """U(S) for each potential."""
    if len(Us) == 1:
        return [float(Us[0](S))]
    scores = of_each(cast("Sequence[ModelPotential]", Us), S, S.take(slice(0)))
    return [float(row[0]) for row in scores]


def _finite(gains: Floats, S: Points) -> Floats:
    if not np.isfinite(gains).all():  # finite scores whose difference overflows
        raise FitError(f"U(S + z) - U(S) is not finite for |S| = {len(S)}")
    return gains
