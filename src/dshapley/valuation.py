"""The record of a run, and what follows from it: values and their standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError
from dshapley.points import Array, Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Draws", "Valuation", "estimate", "inclusion_factors"]


@dataclass(frozen=True, eq=False)
class Draws:
    """The raw marginals of a run: row i holds U(S + z) - U(S) of draw t[i] for every z.

    Nothing in it is derived; `estimate` and all else are functions of it.
    """

    t: NDArray[np.int64]
    k: NDArray[np.int64]
    marginals: NDArray[np.float32]
    weights: Floats
    """The probability of each size k = 1..m."""
    ids: Array
    """The name of each point valued: of each column of `marginals`."""
    rows: NDArray[np.int64]
    """How many rows each point has: 1, or the size of a bundle."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The potential, the data and U(empty), as kept in a run folder's manifest."""

    @property
    def m(self) -> int:
        """The largest size k."""
        return len(self.weights)

    def __len__(self) -> int:
        return len(self.t)

    def first(self, n: int) -> Draws:
        """The first n draws, as a view."""
        return Draws(
            self.t[:n], self.k[:n], self.marginals[:n], self.weights, self.ids, self.rows,
            self.about,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Valuation:
    """The value of each point, with its standard error.

    Attributes
    ----------
    values, stderr
        One number a point; `stderr` is NaN where a single draw gives no idea of the error.
    m
        The data set size the values are for.
    n_draws
        How many draws they rest on.
    ids, rows
        The name of each point, and how many rows it has (more than one for a bundle).
    draws
        The record of the run, if there is one.
    """

    values: Floats
    stderr: Floats
    m: int
    n_draws: int
    ids: Array
    rows: NDArray[np.int64]
    draws: Draws | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def about(self) -> Mapping[str, Any]:
        """The potential, the data and U(empty) behind the values."""
        return {} if self.draws is None else self.draws.about

    def at(self, *, m: int) -> Valuation:
        """The values for data sets of size m' = `m`, from the draws with k <= m'."""
        if self.draws is None:
            raise InputError("these values keep no draws, so there are none for another m")
        return estimate(self.draws, m=m)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of each point's own confidence interval (Student's t)."""
        half = self._quantile((1 + confidence) / 2) * self.stderr
        return self.values - half, self.values + half

    def below_zero(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """Which points have a value below zero, each with this one-sided confidence.

        Not those of which all draws were alike: that says nothing of the error.
        """
        below = self.values + self._quantile(confidence) * self.stderr < 0
        known = np.full(len(self), self.draws is None) | (self.stderr > 0)
        return np.asarray(below & known)

    def _quantile(self, p: float) -> float:
        from scipy.special import stdtrit

        if not 0 < p < 1:
            raise InputError("a confidence lies between 0 and 1, such as 0.95")
        return float(stdtrit(max(self.n_draws - 1, 1), p))

    def to_frame(self) -> pd.DataFrame:
        """A data frame by id: value, stderr, and the range of sizes k they average over.

        For bundles also the number of rows and the value per row.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "value": self.values,
            "stderr": self.stderr,
            "k_min": 1,
            "k_max": self.m,
        }
        if (self.rows != 1).any():
            columns |= {
                "rows": self.rows,
                "value_per_row": self.values / self.rows,
                "stderr_per_row": self.stderr / self.rows,
            }
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


def estimate(draws: Draws, *, m: int | None = None) -> Valuation:
    """Values and standard errors from a run's draws, for its own m or any m' <= m.

    The value is the mean over the draws with k <= m' of U(S + z) - U(S), divided by w'_k m',
    where w' are the size weights given k <= m' (Algorithm 2; for uniform weights the factor is
    1 and this is Algorithm 1). It is unbiased for every m'.
    """
    m = draws.m if m is None else m
    if int(m) != m or not 1 <= m <= draws.m:
        raise InputError(f"m = {m}: this run has values for m from 1 to {draws.m}")
    used = np.flatnonzero(draws.k <= m)
    if len(used) == 0:
        raise InputError(f"none of the {len(draws)} draws has k <= {m}: draw more")
    factors = inclusion_factors(draws.weights, m)[draws.k[used] - 1]
    n = draws.marginals.shape[1]
    values, stderr = np.empty(n), np.full(n, np.nan)
    # In blocks of columns, so that the float64 copy stays small.
    width = max(1, 2**23 // len(used))
    for start in range(0, n, width):
        block = slice(start, start + width)
        gains = draws.marginals[used, block].astype(np.float64) * factors[:, np.newaxis]
        values[block] = gains.mean(axis=0)
        if len(used) > 1:
            stderr[block] = gains.std(axis=0, ddof=1) / np.sqrt(len(used))
    return Valuation(values, stderr, m, len(used), draws.ids, draws.rows, draws)


def inclusion_factors(weights: Floats, m: int) -> Floats:
    """1 / (w'_k m') for k = 1..m', the importance factor of a draw of size k."""
    w = weights[:m]
    return w.sum() / (w * m)
