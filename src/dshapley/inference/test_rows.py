"""The error that comes from the test rows, from draws that were also scored without some of them.

How far a group of test rows moves each value is the mean of its pseudo-influences over the first
draws (`dshapley.sampling.test_groups`), averaged as the values are. All groups were scored on the
same models, so the spread between them is the variance of the test rows, and little else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dshapley.data.points import Floats
from dshapley.inference.estimation import Terms, terms
from dshapley.inference.uncertainty import BetweenFolds

__all__ = ["OfTestRows", "of_test_rows"]

_POOLED_DEGREES = 3
"""The weight, in degrees of freedom, of the average over the points in a point's own variance."""
_LEAST = 8
"""With fewer draws, the influence of the test rows is not known."""


@dataclass(frozen=True, eq=False)
class OfTestRows:
    """The part of the errors that comes from the test rows."""

    influence: Floats
    """How far each group (row) moves each value; the sum of squares is the variance."""
    freedom: float
    """The degrees of freedom of this variance."""


def of_test_rows(how: Terms) -> OfTestRows | None:
    """The part of the errors of these estimates that comes from the test rows.

    None if the draws do not tell.
    """
    found = how.draws.test_influence
    if found is None or not len(found):
        return None
    n_groups, n = found.moved.shape[1:]
    few = how.draws.take(np.isin(how.draws.t, found.t))
    record = replace(
        few,
        marginals=found.moved.reshape(len(found), n_groups * n),
        ids=np.arange(n_groups * n),
        rows=np.tile(few.rows, n_groups),
        control_variates=None,
        evidence=None,
        test_influence=None,
    )
    if (record.k <= how.m).sum() < _LEAST:
        return None
    summed = terms(record, m=how.m, within_bands=how.within_bands, control_variates=False)
    if summed.unseen:
        return None
    moved = np.empty(n_groups * n)
    for block in summed.blocks():
        moved[block.columns] = block.values
    apart = moved.reshape(n_groups, n)
    apart = (apart - apart.mean(axis=0)) / np.sqrt(n_groups * (n_groups - 1))
    own, between = (apart**2).sum(axis=0), BetweenFolds(apart)
    if not between.variance > 0:
        return None
    degrees = n_groups - 1
    share = degrees / (degrees + _POOLED_DEGREES)
    variance = share * own + (1 - share) * between.variance
    direction = np.where(own > 0, apart, between.direction[:, np.newaxis])
    influence = direction * np.sqrt(variance / (direction**2).sum(axis=0))
    rough = share**2 / degrees + (1 - share) ** 2 / between.freedom
    return OfTestRows(influence, 1 / rough)
