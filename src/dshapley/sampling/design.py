"""The design of a run: which set size k and set S draw t has, as a pure function of (seed, t)."""

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
"""With this step, the sequence t * step mod 1 is spread most evenly over [0, 1)."""

_REFERENCE, _NESTED = 1, 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """Draw t: a set S of k - 1 independent points of the database, and a seed for the learner."""

    t: int
    k: int
    S: Points
    rows: NDArray[np.intp]
    """The positions of the rows of S in the database."""
    seed: int
    fold: int = NO_FOLD
    """The fold of the database that the draw tests on; S contains no row of it."""


@dataclass(frozen=True, eq=False)
class Design:
    """How sets are drawn: k by the size weights, then k - 1 rows of the database with replacement.

    `draw(t)` depends only on (seed, t). The order of the draws, the number of workers and
    interruptions therefore cannot change the results.

    Parameters
    ----------
    database, m, seed
        The sample that stands for the distribution, the largest size k, and the random seed.
    weights
        The probability of each size: "auto" (`dshapley.sizes.by_work`), "uniform", "1/k", "k^-a",
        or an array of m probabilities.
    balanced
        Draw the sizes as a balanced sequence instead of independently: k_t is the quantile of the
        size weights at (shift + t * golden ratio) mod 1, with a random shift. Default: True for
        weights="auto", False otherwise.
    control_variates
        Keep what control variates need (docs/precision.md). Default: as for `balanced`.
    folds
        For cross-fitting, the fold of each row of the database, 0 to n - 1. Draw t takes its sets
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
            raise InputError("the database has no rows: give at least one")
        if not is_whole(self.seed, least=0):
            raise InputError(f"seed = {self.seed}: give a whole number of at least 0")
        for name in ("balanced", "control_variates"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, balanced_by_default(self.weights))
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InputError(f"{name} = {getattr(self, name)!r}: give True or False")
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
        k = self._size(t, rng.random())
        seed = int(rng.integers(2**31))
        fold = self.fold(t)
        rows = self._positions(k - 1, fold, rng)
        return Draw(t=t, k=k, S=self.database.take(rows), rows=rows, seed=seed, fold=fold)

    def size(self, t: int) -> int:
        """The size k of draw t."""
        return self._size(t, self._rng(t).random())

    def _size(self, t: int, u: float) -> int:
        if self.balanced:
            u = (self._shift + t * _GOLDEN) % 1.0
        return 1 + min(int(np.searchsorted(self._cumulative, u, side="right")), self.m - 1)

    def rows(self, t: int, k: int) -> NDArray[np.intp]:
        """The positions of the rows of S in draw t, which has the size k: see `Draw.rows`."""
        rng = self._rng(t)
        rng.random(), rng.integers(2**31)  # what `draw` takes before
        return self._positions(k - 1, self.fold(t), rng)

    def fold(self, t: int) -> int:
        """The fold that draw t tests on; `NO_FOLD` without cross-fitting."""
        return NO_FOLD if self.folds is None else t % len(self._outside)

    def outside(self, fold: int) -> Points:
        """The rows of the database that sets are drawn from while this fold is tested on."""
        return self.database if fold == NO_FOLD else self.database.take(self._outside[fold])

    def reference(self, t: int, n: int) -> Points:
        """The reference sample of draw t: n more rows of the database, independent of its set S."""
        return self._sample(n, self.fold(t), self._rng(t, _REFERENCE))

    def nested(self, t: int) -> Points:
        """Another m rows of the database for draw t.

        The first 0, 1, 3, 7, ..., m of them are the nested sets of the control variates.
        """
        return self._sample(self.m, self.fold(t), self._rng(t, _NESTED))

    def _sample(self, n: int, fold: int, rng: np.random.Generator) -> Points:
        """Independent rows of the database, from outside the fold."""
        return self.database.take(self._positions(n, fold, rng))

    def _positions(self, n: int, fold: int, rng: np.random.Generator) -> NDArray[np.intp]:
        if fold == NO_FOLD:
            return rng.integers(len(self.database), size=n)
        rows = self._outside[fold]
        return rows[rng.integers(len(rows), size=n)]

    @cached_property
    def _outside(self) -> list[NDArray[np.intp]]:
        """For each fold, the positions of the database's rows outside the fold."""
        assert self.folds is not None
        return [np.flatnonzero(self.folds != fold) for fold in range(int(self.folds.max()) + 1)]

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))
