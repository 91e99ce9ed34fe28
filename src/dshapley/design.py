"""Which (k, S) draw t is: a pure function of (seed, t)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dshapley.errors import InputError, is_whole
from dshapley.points import Floats, Points
from dshapley.sizes import as_weights, power

__all__ = ["Design", "Draw"]

_GOLDEN = (np.sqrt(5.0) - 1) / 2
"""The step of the most evenly spread sequence t * step mod 1."""

_REFERENCE, _CHAIN = 1, 2


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

    Parameters
    ----------
    database, m, seed
        The sample that stands for the distribution, the largest size k, the seed.
    weights
        "uniform", "1/k", "k^-a", an array of m probabilities, or "auto": the first `pilot` draws
        have weights 1/k, and `dshapley.run` finds from them those of all others.
    stratified
        Sizes as a balanced sequence instead of independent ones: k_t is the quantile of the size
        weights at (shift + t * golden ratio) mod 1, with a random shift.
    anchor
        Whether a run also keeps what the anchor needs (docs/precision.md).
    pilot
        The number of pilot draws of weights="auto".

    Examples
    --------
    >>> design = Design(Points([[0.0], [1.0]], [0, 1]), m=5, seed=7)
    >>> design.draw(3).k == design.draw(3).k == len(design.draw(3).S) + 1
    True
    """

    database: Points
    m: int
    weights: Any = "uniform"
    seed: int = 0
    stratified: bool = False
    anchor: bool = False
    pilot: int = 100
    pilot_weights: Floats | None = None
    """The weights of the pilot draws, where others have replaced them."""
    auto: bool = False
    """Whether the weights are to be found by the pilot draws, or have been."""

    def __post_init__(self) -> None:
        if len(self.database) == 0:
            raise InputError("the database has no rows")
        if not is_whole(self.seed, least=0):
            raise InputError(f"seed = {self.seed}: a seed is a whole number, 0 or more")
        for name in ("stratified", "anchor"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InputError(f"{name} = {getattr(self, name)!r}: it is True or False")
        if not is_whole(self.pilot, least=20):
            raise InputError(f"pilot = {self.pilot}: a pilot takes 20 draws or more")
        auto = isinstance(self.weights, str) and self.weights == "auto"
        weights = power(self.m, 1.0) if auto else as_weights(self.weights, self.m)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "auto", auto or self.auto)
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "m", int(self.m))

    def allocated(self, weights: Floats) -> Design:
        """The design whose draws from `pilot` on have these weights."""
        return replace(self, weights=weights, pilot_weights=self.weights)

    @cached_property
    def _cumulative(self) -> tuple[Floats, Floats]:
        first = self.weights if self.pilot_weights is None else self.pilot_weights
        return np.cumsum(first), np.cumsum(self.weights)

    @cached_property
    def _shift(self) -> float:
        return float(np.random.default_rng(np.random.SeedSequence(self.seed)).random())

    def draw(self, t: int) -> Draw:
        """Draw t."""
        rng = self._rng(t)
        u = rng.random()
        if self.stratified:
            u = (self._shift + t * _GOLDEN) % 1.0
        cumulative = self._cumulative[t >= self.pilot]
        k = 1 + min(int(np.searchsorted(cumulative, u, side="right")), self.m - 1)
        seed = int(rng.integers(2**31))
        return Draw(t, k, self.database.sample(k - 1, rng), seed)

    def reference(self, t: int, n: int) -> Points:
        """Further points of the database for draw t: the reference sample of the anchor."""
        return self.database.sample(n, self._rng(t, _REFERENCE))

    def chain(self, t: int) -> Points:
        """Another m points of the database for draw t, whose beginnings are nested sets."""
        return self.database.sample(self.m, self._rng(t, _CHAIN))

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))
