"""Plan a run: estimate from a few draws how many draws and how much time a precision takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshapley.errors import InputError
from dshapley.inference.sampled import estimate
from dshapley.notebooks import NotebookDisplay
from dshapley.running.stopping import Precision
from dshapley.sampling.draws import Draws

__all__ = ["Plan", "plan"]

_FEWEST = 20


@dataclass(frozen=True, kw_only=True)
class Plan(NotebookDisplay):
    """What it takes until every value is known to within ±`within`, with this confidence."""

    within: float
    confidence: float
    draws: int
    """The number of draws in total, including those already made."""
    seconds: float
    """The computing time of these draws on one worker."""


def plan(draws: Draws, within: float, *, confidence: float = 0.95) -> Plan:
    """The expected number of draws for `stopping.Precision(within, confidence)`, and their time.

    The plan assumes that the largest standard error falls with the square root of the number of
    draws, and that a draw takes as long as the draws so far. If some sizes have not been drawn, the
    error is unknown and planning is refused.

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
        raise InputError(f"{len(draws)} draws are too few to plan from: make at least {_FEWEST}")
    if draws.seconds is None:
        raise InputError("these draws have no times, which a plan needs: make draws with ds.run")
    unknown = estimate(draws).what_is_unseen
    if unknown:
        raise InputError(
            f"the error is not known yet, so nothing can be planned from {len(draws)} draws: "
            f"{unknown}; make more draws (--draws {4 * len(draws)})"
        )
    needed = Precision(within, confidence).draws_needed(draws)
    # The median ignores slow first draws, which may have compiled code for a minute.
    blocks = [part.mean() for part in np.array_split(draws.seconds, 10)]
    return Plan(
        within=within,
        confidence=confidence,
        draws=needed,
        seconds=needed * float(np.median(blocks)),
    )
