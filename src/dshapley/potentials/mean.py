"""The paper's mean estimation potential, for which exact values are known (Proposition 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dshapley.data.points import Bundles, Floats, Points
from dshapley.errors import InputError

__all__ = ["MeanPotential"]


@dataclass(frozen=True, eq=False)
class MeanPotential:
    """The paper's mean estimation: U(S) = R2 - ||mean(S) - mu||^2, and U(empty) = 0.

    mu and R2 = E ||s - mu||^2 are computed from `database`, which is the distribution D itself. The
    method `value` returns the exact distributional values.

    >>> import numpy as np
    >>> B = Points(np.array([[-1.0], [1.0]]))
    >>> U = MeanPotential(B)
    >>> U(B.take([])), U(B.take([0])), U(B)
    (0.0, 0.0, 1.0)
    """

    database: Points
    mu: Floats = field(init=False)
    R2: float = field(init=False)

    def __post_init__(self) -> None:
        X = np.asarray(self.database.X, dtype=np.float64)
        object.__setattr__(self, "mu", X.mean(axis=0))
        object.__setattr__(self, "R2", float(((X - self.mu) ** 2).sum(axis=1).mean()))

    def __call__(self, S: Points, /) -> float:
        """R2 - ||mean(S) - mu||^2: the worth of S for estimating mu."""
        if len(S) == 0:
            return 0.0
        return self.R2 - float(((np.mean(np.asarray(S.X), axis=0) - self.mu) ** 2).sum())

    def marginals(self, S: Points, Z: Points | Bundles) -> Floats:
        """U(S + z) - U(S) for all z of Z at once."""
        total = np.asarray(S.X, dtype=np.float64).sum(axis=0)
        sets = Z.points if isinstance(Z, Bundles) else Z
        rows = np.asarray(sets.X, dtype=np.float64)
        if isinstance(Z, Bundles):
            sums = np.stack([rows[Z.groups == name].sum(axis=0) for name in Z.ids])
            sizes = Z.sizes
        else:
            sums, sizes = rows, np.ones(len(Z), dtype=np.int64)
        means = (total + sums) / (len(S) + sizes)[:, np.newaxis]
        after = self.R2 - ((means - self.mu) ** 2).sum(axis=1)
        return np.asarray(after - self(S), dtype=np.float64)

    def value(self, Z: Points, *, m: int) -> Floats:
        """The exact distributional value of each z (Proposition 2.4).

        (1 - 1/m) R2 / m + C(m) (R2 - ||z - mu||^2) / m with C(m) = sum over k = 1..m of 1/k^2.
        The paper prints C(m) = 2 - 1/m + c(m), which has a sign error: 2 - 1/m - c(m) equals the
        sum above.
        """
        if m < 1:
            raise InputError(f"m = {m}: the data set size must be at least 1")
        C = float((1.0 / np.arange(1, m + 1) ** 2).sum())
        gap = self.R2 - ((np.asarray(Z.X) - self.mu) ** 2).sum(axis=1)
        return np.asarray(((1 - 1 / m) * self.R2 + C * gap) / m, dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """The values that identify U in a run's manifest."""
        return {"potential": "mean estimation", "mean of": self.database.fingerprint()}
