"""Which (k, S) draw t is: a pure function of (seed, t)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats, Points
from dshapley.errors import InputError, is_whole
from dshapley.sampling.draws import NO_FOLD
from dshapley.sampling.sizes import as_weights, balanced_by_default

__all__ = ["Design", "Draw"]

_GOLDEN = (np.sqrt(5.0) - 1) / 2
"""The step of the most evenly spread sequence t * step mod 1."""

_REFERENCE, _CHAIN = 1, 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """Draw t: a set S of k - 1 independent points of the database, and a seed for the learner."""

    t: int
    k: int
    S: Points
    seed: int
    fold: int = NO_FOLD
    """The fold of the database that is tested on, of which S has no row."""


@dataclass(frozen=True, eq=False)
class Design:
    """How sets are drawn: k from the size weights, then S from the database, with replacement.

    `draw(t)` depends on (seed, t) alone, so that neither the order of the draws, nor who computes
    them, nor an interruption can change an answer.

    Parameters
    ----------
    database, m, seed
        The sample that stands for the distribution, the largest size k, the seed.
    weights
        The probability of each size: "auto" (`dshapley.sizes.by_work`), "uniform", "1/k", "k^-a",
        or an array of m probabilities.
    balanced
        Sizes as a balanced sequence instead of independent ones: k_t is the quantile of the size
        weights at (shift + t * golden ratio) mod 1, with a random shift. By default for "auto".
    control_variates
        Whether a run also keeps what these need (docs/precision.md). By default for "auto".
    folds
        For cross-fitting, the fold of each row of the database, 0 to n - 1: draw t takes its sets
        from the rows outside fold t mod n (`dshapley.sampling.crossfitting`).

    Examples
    --------
    >>> design = Design(Points([[0.0], [1.0]], [0, 1]), m=5, seed=7)
    >>> design.draw(3).k == design.draw(3).k == len(design.draw(3).S) + 1
    True
    """

    database: Points
    m: int
    _: KW_ONLY
    weights: Any = "auto"
    seed: int = 0
    balanced: bool | None = None
    control_variates: bool | None = None
    folds: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if len(self.database) == 0:
            raise InputError("the database has no rows")
        if not is_whole(self.seed, least=0):
            raise InputError(f"seed = {self.seed}: a seed is a whole number, 0 or more")
        for name in ("balanced", "control_variates"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, balanced_by_default(self.weights))
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InputError(f"{name} = {getattr(self, name)!r}: it is True or False")
        object.__setattr__(self, "weights", as_weights(self.weights, self.m))
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "m", int(self.m))

    @cached_property
    def _cumulative(self) -> Floats:
        return np.cumsum(self.weights)

    @cached_property
    def _shift(self) -> float:
        return float(np.random.default_rng(np.random.SeedSequence(self.seed)).random())

    def draw(self, t: int) -> Draw:
        """Draw t."""
        rng = self._rng(t)
        u = rng.random()
        if self.balanced:
            u = (self._shift + t * _GOLDEN) % 1.0
        k = 1 + min(int(np.searchsorted(self._cumulative, u, side="right")), self.m - 1)
        seed = int(rng.integers(2**31))
        fold = self.fold(t)
        return Draw(t=t, k=k, S=self._sample(k - 1, fold, rng), seed=seed, fold=fold)

    def fold(self, t: int) -> int:
        """The fold that draw t tests on; `NO_FOLD` without cross-fitting."""
        return NO_FOLD if self.folds is None else t % len(self._outside)

    def outside(self, fold: int) -> Points:
        """The rows of the database that sets are drawn from while this fold is tested on."""
        return self.database if fold == NO_FOLD else self.database.take(self._outside[fold])

    def reference(self, t: int, n: int) -> Points:
        """Further points of the database for draw t: the reference sample of the anchor."""
        return self._sample(n, self.fold(t), self._rng(t, _REFERENCE))

    def chain(self, t: int) -> Points:
        """Another m points of the database for draw t, whose beginnings are nested sets."""
        return self._sample(self.m, self.fold(t), self._rng(t, _CHAIN))

    def _sample(self, n: int, fold: int, rng: np.random.Generator) -> Points:
        """Independent rows of the database, of those outside the fold."""
        if fold == NO_FOLD:
            return self.database.sample(n, rng)
        rows = self._outside[fold]
        return self.database.take(rows[rng.integers(len(rows), size=n)])

    @cached_property
    def _outside(self) -> list[NDArray[np.intp]]:
        """Of each fold the places of the rows outside."""
        assert self.folds is not None
        return [np.flatnonzero(self.folds != fold) for fold in range(int(self.folds.max()) + 1)]

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))
