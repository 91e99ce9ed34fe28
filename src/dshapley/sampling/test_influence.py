"""The record of how far groups of test rows move the marginals; see `test_groups`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["N_GROUPS", "TestInfluence"]

N_GROUPS = 11
"""The number of groups, which is odd because `in_folds` makes an odd number of folds."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TestInfluence:
    """The pseudo-influences of the groups of test rows in the first draws of a run."""

    __test__ = False  # for pytest, which collects classes of this name

    t: NDArray[np.int64]
    """The draws, ascending."""
    moved: NDArray[np.float32]
    """(draws, groups, points)"""

    @staticmethod
    def none(n_points: int) -> TestInfluence:
        """Nothing yet."""
        moved = np.empty((0, N_GROUPS, n_points), np.float32)
        return TestInfluence(t=np.empty(0, np.int64), moved=moved)

    def __len__(self) -> int:
        return len(self.t)

    def of_draws(self, t: NDArray[np.int64]) -> TestInfluence:
        """Those of these draws only."""
        here = np.isin(self.t, t)
        return TestInfluence(t=self.t[here], moved=self.moved[here])

    def points(self, chosen: NDArray[np.bool_]) -> TestInfluence:
        """Those on some of the points."""
        return TestInfluence(t=self.t, moved=self.moved[:, :, chosen])
