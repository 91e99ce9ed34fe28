"""Stop rules: functions (draws, seconds) -> bool that are called after every draw.

`draws` are draws 0, 1, ..., T-1 in order, whichever order they were computed in, and `seconds` is
the running time of this call. A rule that depends only on the draws therefore stops every repeat of
a call at the same T. A rule may have two more members: `expected(draws, seconds)`, the number of
draws it will probably take, for the progress bar; and `limit`, the most draws it will take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dshapley.errors import InputError, is_whole
from dshapley.inference.sampled import estimate
from dshapley.inference.uncertainty import anytime_quantile, check_confidence
from dshapley.sampling.draws import Draws

__all__ = [
    "AnyOf",
    "FixedDraws",
    "Precision",
    "Seconds",
    "Settled",
    "Stable",
    "Stop",
    "StopRule",
    "as_rule",
]

StopRule: TypeAlias = Callable[[Draws, float], bool]


@dataclass(frozen=True)
class FixedDraws:
    """Stop after n draws."""

    n: int

    def __post_init__(self) -> None:
        if not is_whole(self.n, least=1):
            raise InputError(f"draws = {self.n}: give a whole number of at least 1")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        return len(draws) >= self.n

    @property
    def limit(self) -> int:
        """The most draws that the rule takes."""
        return int(self.n)

    def expected(self, draws: Draws, seconds: float) -> float:
        """The number of draws that the rule takes."""
        return self.n


@dataclass(frozen=True)
class Seconds:
    """Stop when this call has run for so many seconds; draws that were resumed take no time."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InputError(f"seconds = {self.seconds}: give a time above 0")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        return seconds >= self.seconds

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """The number of draws that fit into the time at the pace so far."""
        return len(draws) * self.seconds / seconds if seconds > 0 else None


@dataclass(frozen=True)
class Precision:
    """Stop when every value is known to within ±`within`, with this confidence for all at once.

    The interval is a confidence sequence (`dshapley.inference.uncertainty.anytime_quantile`), which
    covers the values at every number of draws at once, so it may be checked again and again. Plain
    confidence intervals may not: a run that stops when they happen to be narrow stops too early too
    often. The coverage is asymptotic, and the rule does not stop before `at_least` draws.

    For cross-fitted values this is the sampling error of the draws, which more draws reduce. It
    does not include how the values would change with other test rows.
    """

    within: float
    confidence: float = 0.95
    at_least: int = 100

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not self.within > 0:
            raise InputError(f"precision = {self.within}: give a number above 0")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        if len(draws) < self.at_least or not _checkpoint(len(draws)):
            return False
        return self._reach(draws) <= self.within

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """The expected number of draws, if the error falls with the square root of it."""
        if len(draws) < 10 or estimate(draws).unseen:
            return None
        return self.draws_needed(draws)

    def draws_needed(self, draws: Draws) -> int:
        """The expected number of draws as an int; an error if the standard errors are unknown."""
        found = estimate(draws).of_draws
        if found.unseen:
            raise InputError(f"the error is not known yet: {found.what_is_unseen}")
        error = float(np.max(found.stderr)) * np.sqrt(len(draws))
        n = float(self.at_least)
        for _ in range(20):  # the quantile hardly depends on n
            freedom = found.freedom * n / len(draws)
            quantile = anytime_quantile(
                round(n), self.confidence, n_points=len(found), freedom=max(freedom, 1.0)
            )
            n = max(self.at_least, (quantile * error / self.within) ** 2)
        return int(np.ceil(n))

    def _reach(self, draws: Draws) -> float:
        low, high = estimate(draws).of_draws.interval(self.confidence, anytime=True)
        return float(np.max(high - low)) / 2


@dataclass(frozen=True)
class Settled:
    """Stop when the order of the values is settled, that is, when the values are reliable enough.

    The reliability is the share of the variance between the values that is not noise
    (`Valuation.reliability`). The noise is itself an estimate, so the rule uses its upper 95 %
    confidence limit: a run that stops at 0.95 has a squared correlation with the true values of
    about 0.95 or more. The rule also needs a high rank correlation with the true values, which is
    found by simulation (`Valuation.rank_correlation`). For cross-fitted values, the true values
    are those for these test rows.
    """

    reliability: float = 0.95
    rank_correlation: float = 0.95
    at_least: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.reliability < 1:
            raise InputError(f"reliability = {self.reliability}: give a number between 0 and 1")
        if not 0 < self.rank_correlation < 1:
            raise InputError(
                f"rank_correlation = {self.rank_correlation}: give a number between 0 and 1"
            )

    def __call__(self, draws: Draws, seconds: float) -> bool:
        if len(draws) < self.at_least or not _checkpoint(len(draws)):
            return False
        found = estimate(draws).of_draws
        if not found.surely_reliable >= self.reliability:
            return False
        ranks = found.rank_correlation()
        return np.isnan(ranks) or ranks >= self.rank_correlation

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """The expected number of draws, if the noise falls with that number."""
        if len(draws) < 10:
            return None
        found = estimate(draws).of_draws
        needed = found.draws_for(self.reliability)
        if needed is None:
            return None
        return max(needed, found.draws_for_ranks(self.rank_correlation) or 0, self.at_least)


@dataclass(frozen=True)
class Stable:
    """The paper's rule: stop when the last `window` draws changed the values by less than 1 %.

    The change is the mean over the points of |value now - value then|, divided by the mean absolute
    value now. The paper can also be read as dividing by each point's own value, but then the points
    with a value near zero would decide.

    Values that have stopped moving may still be wrong by more than that; `Precision` bounds the
    error.
    """

    change: float = 0.01
    window: int = 100

    def __post_init__(self) -> None:
        if not self.change > 0 or self.window < 1:
            raise InputError(
                f"change = {self.change}, window = {self.window}: give a change above 0 and "
                "a window of at least 1"
            )

    def __call__(self, draws: Draws, seconds: float) -> bool:
        if len(draws) < 2 * self.window or not _checkpoint(len(draws)):
            return False
        now = estimate(draws).values
        then = estimate(draws.first(len(draws) - self.window)).values
        return bool(np.abs(now - then).mean() <= self.change * np.abs(now).mean())


@dataclass(frozen=True)
class AnyOf:
    """Stop as soon as one of the rules stops."""

    rules: tuple[StopRule, ...]

    def __call__(self, draws: Draws, seconds: float) -> bool:
        return any(rule(draws, seconds) for rule in self.rules)

    @property
    def limit(self) -> int | None:
        """The most draws that the rules take; None if no rule has a limit."""
        limits = [rule.limit for rule in self.rules if getattr(rule, "limit", None) is not None]  # type: ignore[attr-defined]
        return min(limits, default=None)

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """The expected number of draws: the smallest that any of the rules expects."""
        able = [rule for rule in self.rules if hasattr(rule, "expected")]
        guesses = [rule.expected(draws, seconds) for rule in able]
        return min((guess for guess in guesses if guess is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Stop at a number of draws, a precision or a time, whichever comes first.

    If none is given, stop when the order of the values is settled (`Settled`), or after five
    minutes.

    Parameters
    ----------
    draws
        Stop after so many draws (`FixedDraws`).
    precision
        Stop when every value is known to within ± this, with 95 % confidence for all values at once
        (`Precision`).
    seconds
        Stop after so many seconds (`Seconds`).

    Examples
    --------
    >>> Stop(draws=300, seconds=60).rule
    AnyOf(rules=(FixedDraws(n=300), Seconds(seconds=60)))
    """

    draws: int | None = None
    precision: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        _ = self.rule  # so that a wrong value is an error before any data is read

    @property
    def rule(self) -> StopRule:
        """The stop rule with these limits."""
        rules: list[StopRule] = []
        if self.draws is not None:
            rules.append(FixedDraws(self.draws))
        if self.precision is not None:
            rules.append(Precision(self.precision))
        if self.seconds is not None:
            rules.append(Seconds(self.seconds))
        if not rules:
            return DEFAULT
        return rules[0] if len(rules) == 1 else AnyOf(tuple(rules))


def as_rule(stop: StopRule | Stop | int | None) -> StopRule:
    """The stop rule for `stop`: a number means so many draws, None the default."""
    if stop is None:
        return DEFAULT
    if isinstance(stop, Stop):
        return stop.rule
    if callable(stop):
        return stop
    return FixedDraws(stop)


DEFAULT = AnyOf((Settled(), Seconds(300)))
"""The stop rule of a run if the caller gives none."""


def _checkpoint(n: int) -> bool:
    """Whether to check the values at n draws: every 10 draws, from 1,000 on every 100, and so on.

    A check reads every marginal, so the cost of checking after each draw would be quadratic.
    """
    return n % max(10, 10 ** (len(str(n)) - 2)) == 0
