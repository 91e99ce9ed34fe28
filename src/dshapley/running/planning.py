"""How many draws, and how long, a wanted precision takes: from a few draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshapley.errors import InputError
from dshapley.inference.valuation import estimate
from dshapley.running.stopping import Precision
from dshapley.sampling.draws import Draws

__all__ = ["Plan", "plan"]

_FEWEST = 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What it takes until every value is known to within +-`within`."""

    within: float
    confidence: float
    draws: int
    """In all, those made already among them."""
    seconds: float
    """Of computing, on one worker."""


def plan(draws: Draws, within: float, *, confidence: float = 0.95) -> Plan:
    """How many draws `stopping.Precision(within, confidence)` will probably take, and how long.

    The largest standard error falls with the square root of the draws; a draw takes as long as
    those so far did. Where some sizes have not been drawn the error is not known, and nothing is
    planned.

    >>> import numpy as np
    >>> rng, one = np.random.default_rng(0), np.ones(1, int)
    >>> gains = rng.normal(size=(50, 1)).astype(np.float32)
    >>> some = Draws(t=np.arange(50), k=np.ones(50, int), marginals=gains, weights=np.ones(1),
    ...              ids=one, rows=one, seconds=np.full(50, 0.5))
    >>> found = plan(some, within=0.1)
    >>> 500 < found.draws < 2000, found.seconds == 0.5 * found.draws
    (True, True)
    """
    if len(draws) < _FEWEST:
        raise InputError(f"{len(draws)} draws are too few to plan from: make {_FEWEST} or more")
    if draws.seconds is None:
        raise InputError("these draws have no times to plan from")
    unknown = estimate(draws).what_is_unseen
    if unknown:
        raise InputError(
            f"the error is not known yet, so nothing can be planned from {len(draws)} draws: "
            f"{unknown}; make more of them (--draws {4 * len(draws)})"
        )
    needed = Precision(within, confidence).draws_needed(draws)
    # The median of blocks: the first draw of a process may have compiled for a minute.
    blocks = [part.mean() for part in np.array_split(draws.seconds, 10)]
    return Plan(
        within=within,
        confidence=confidence,
        draws=needed,
        seconds=needed * float(np.median(blocks)),
    )
