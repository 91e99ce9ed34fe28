"""What draws say of how much the values depend on the choice of the test rows.

The test rows are put into G groups, and the first draws are scored again without each group. For
marginals g on all test rows and g' without a group, (G - 1) (g - g') is the pseudo-influence of the
group in the draw. Its mean over the draws says how far the group moves each value, and the spread
of these means between the groups is the variance that comes from the test rows (the delete-a-group
jackknife). All groups are scored on the same models, so their differences need few draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.folds import in_folds
from dshapley.data.points import Floats
from dshapley.errors import DShapleyError
from dshapley.learners import Query
from dshapley.metrics import METRICS, RocAucWithout, SomeRows, WithoutGroup
from dshapley.potentials import ModelPotential
from dshapley.sampling.test_influence import N_GROUPS

__all__ = ["TestGroups"]

_LEAST = 4
"""The fewest test rows of a group on average. With fewer, no group is left out."""
_DRAWS = 32
"""So many draws have every range of sizes at least twice with the default size weights."""


@dataclass(frozen=True, eq=False)
class TestGroups:
    """The groups of the test rows of a potential."""

    __test__ = False

    of: NDArray[np.int64]
    """The group of each test row."""
    _made: list[Query] = field(default_factory=list)

    @staticmethod
    def of_rows(U: ModelPotential) -> TestGroups | None:
        """The groups of the test rows of U; None if the metric is not defined without each.

        None too for a learner that would train its models again for each score. The groups do not
        depend on the run's seed, so runs with the same test rows have the same groups.
        """
        if len(U.test) < _LEAST * N_GROUPS or not hasattr(U.learner, "scores_by_each"):
            return None
        found = TestGroups(in_folds(U.test, n_folds=N_GROUPS))
        return found if found._are_defined(U) else None

    def _are_defined(self, U: ModelPotential) -> bool:
        """Whether the metric means the same, and is a number, without each group."""
        y = U.query.y
        n_values = len(np.unique(y)) if U.classification else 2
        rest = (y[self.of != g] for g in range(N_GROUPS))
        if not U.metric.mean_of_rows and any(len(np.unique(part)) < n_values for part in rest):
            return False
        constant = U.query.constant(y)
        try:
            scores = [query.score(constant) for query in self._queries(U)]
        except (DShapleyError, ArithmeticError, IndexError, TypeError, ValueError):
            return False  # a metric of the user's that knows all test rows only
        return bool(np.isfinite(scores).all())

    @staticmethod
    def asks(t: int) -> bool:
        """Whether the groups are scored in draw t."""
        return t < _DRAWS

    def turned(self, U: ModelPotential) -> list[ModelPotential]:
        """U as it is scored for each group: `moved` makes pseudo-influences of the marginals."""
        found = []
        for query in self._queries(U):
            found.append(replace(U))
            found[-1].__dict__["query"] = query
        return found

    def moved(self, U: ModelPotential, whole: Floats, turned: Floats) -> Floats:
        """(groups, points) the pseudo-influences, from the marginals of U and of `turned(U)`."""
        if not U.metric.mean_of_rows:
            return (N_GROUPS - 1) * (whole - turned)
        # scored on the group alone, of n rows among N: g - g' = n / (N - n) (turned - g)
        n = np.bincount(self.of, minlength=N_GROUPS)[:, np.newaxis]
        return (N_GROUPS - 1) * n / (len(self.of) - n) * (turned - whole)

    def _queries(self, U: ModelPotential) -> list[Query]:
        """The queries on the test rows outside each group; of a mean over rows, inside it."""
        if not self._made:
            areas = RocAucWithout(self.of)
            for g in range(N_GROUPS):
                inside = self.of == g
                rows = np.flatnonzero(inside if U.metric.mean_of_rows else ~inside)
                score: Any = SomeRows(U.metric.score, rows)
                if U.metric.score is METRICS["roc_auc"].score:
                    score = WithoutGroup(areas, g)
                self._made.append(replace(U.query, metric=replace(U.metric, score=score)))
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        return {"of": self.of, "_made": []}  # each worker makes those of its own test rows
