"""Which (k, S) draw t is: a pure function of (seed, t)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dshapley.errors import InputError
from dshapley.points import Floats, Points
from dshapley.sizes import as_weights

__all__ = ["Design", "Draw"]


@dataclass(frozen=True, eq=False)
class Draw:
    """Draw t: a set S of k - 1 independent points of the database, and a seed for the learner."""

    t: int
    k: int
    S: Points
    seed: int


@dataclass(frozen=True, eq=False)
class Design:
    """How sets are drawn: k from the size weights, then S from the database, with replacement.

    `draw(t)` depends on (seed, t) alone, so that neither the order of the draws, nor who computes
    them, nor an interruption can change an answer.

    >>> design = Design(Points([[0.0], [1.0]], [0, 1]), m=5, seed=7)
    >>> design.draw(3).k == design.draw(3).k == len(design.draw(3).S) + 1
    True
    """

    database: Points
    m: int
    weights: Any = "uniform"
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.database) == 0:
            raise InputError("the database has no rows")
        if self.seed < 0 or int(self.seed) != self.seed:
            raise InputError(f"seed = {self.seed}: a seed is a whole number, 0 or more")
        object.__setattr__(self, "weights", as_weights(self.weights, self.m))
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "m", int(self.m))

    @cached_property
    def _cumulative(self) -> Floats:
        return np.cumsum(self.weights)

    def draw(self, t: int) -> Draw:
        """Draw t."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(t,)))
        k = 1 + min(int(np.searchsorted(self._cumulative, rng.random(), side="right")), self.m - 1)
        seed = int(rng.integers(2**31))
        return Draw(t, k, self.database.sample(k - 1, rng), seed)
