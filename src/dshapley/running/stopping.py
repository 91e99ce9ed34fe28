"""Stop rules: functions (draws, seconds) -> bool, asked after every draw.

`draws` are draws 0, 1, ..., T-1 in order, whatever the order they were computed in, and
`seconds` is how long this call has run. Rules that look at the draws alone therefore stop every
run of the same call at the same T. A rule may also have `expected(draws, seconds)`: the
number of draws it will probably take, for the progress bar; and `limit`: the most it will take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dshapley.errors import InputError, is_whole
from dshapley.inference.uncertainty import anytime_quantile, check_confidence
from dshapley.inference.valuation import estimate
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
            raise InputError(f"draws = {self.n}: the number of draws is a whole number, 1 or more")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        return len(draws) >= self.n

    @property
    def limit(self) -> int:
        """The most draws this takes."""
        return int(self.n)

    def expected(self, draws: Draws, seconds: float) -> float:
        """How many draws this will take."""
        return self.n


@dataclass(frozen=True)
class Seconds:
    """Stop when this call has run for so many seconds (draws it was resumed with cost none)."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InputError(f"seconds = {self.seconds}: a time budget is more than 0")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        return seconds >= self.seconds

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """How many draws this will take, at the pace so far."""
        return len(draws) * self.seconds / seconds if seconds > 0 else None


@dataclass(frozen=True)
class Precision:
    """Stop when every value is known to within +-`within`, with this confidence.

    All values at once, and however often this is asked: the interval is a confidence sequence
    (`dshapley.inference.uncertainty.anytime_quantile`), which holds at every number of draws
    together. Plain intervals do not: a run that stops when they happen to be narrow stops too early
    too often. It holds from `at_least` draws on, in the sense of the central limit theorem.

    Of cross-fitted values this is the error of the draws, which more of them bring down, and not
    what other test rows would change.
    """

    within: float
    confidence: float = 0.95
    at_least: int = 100

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not self.within > 0:
            raise InputError(f"precision = {self.within}: a precision to reach is more than 0")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        if len(draws) < self.at_least or not _checkpoint(len(draws)):
            return False
        return self._reach(draws) <= self.within

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """How many draws this will take, if the error falls with their square root."""
        if len(draws) < 10 or estimate(draws).unseen:
            return None
        return self.draws_needed(draws)

    def draws_needed(self, draws: Draws) -> int:
        """The same, in whole draws, from so many draws as there are."""
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
    """Stop when the order of the values is settled: when they are surely reliable enough.

    The reliability is the share of the variance of the values, between points, that is not noise
    (`Valuation.reliability`). The noise is itself an estimate, so its upper 95 % confidence limit
    is used: a run that stops at 0.95 has a squared correlation with the true values of about 0.95
    or more. So has its order: the rank correlation with the true values, by simulation
    (`Valuation.rank_correlation`), is high enough too. Of cross-fitted values the true ones are
    those with these test rows.
    """

    reliability: float = 0.95
    rank_correlation: float = 0.95
    at_least: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.reliability < 1:
            raise InputError(f"reliability = {self.reliability}: it lies between 0 and 1")
        if not 0 < self.rank_correlation < 1:
            raise InputError(f"rank_correlation = {self.rank_correlation}: it lies between 0 and 1")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        if len(draws) < self.at_least or not _checkpoint(len(draws)):
            return False
        found = estimate(draws).of_draws
        if not found.surely_reliable >= self.reliability:
            return False
        ranks = found.rank_correlation()
        return np.isnan(ranks) or ranks >= self.rank_correlation

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """How many draws this will take, if the noise falls with their number."""
        if len(draws) < 10:
            return None
        found = estimate(draws).of_draws
        needed = found.draws_for(self.reliability)
        if needed is None:
            return None
        return max(needed, found.draws_for_ranks(self.rank_correlation) or 0, self.at_least)


@dataclass(frozen=True)
class Stable:
    """The paper's rule: stop when the last `window` draws changed the values by under 1 %.

    The change is the mean over the points of |value now - value then|, relative to the mean
    absolute value now: relative to each point's own value, as the paper can be read, the rule
    would depend on the points whose value is next to zero.

    That the values have stopped moving does not say how far they are off; `Precision` does.
    """

    change: float = 0.01
    window: int = 100

    def __post_init__(self) -> None:
        if not self.change > 0 or self.window < 1:
            raise InputError("a stop rule's change must be more than 0 and its window 1 or more")

    def __call__(self, draws: Draws, seconds: float) -> bool:
        if len(draws) < 2 * self.window or not _checkpoint(len(draws)):
            return False
        now = estimate(draws).values
        then = estimate(draws.first(len(draws) - self.window)).values
        return bool(np.abs(now - then).mean() <= self.change * np.abs(now).mean())


@dataclass(frozen=True)
class AnyOf:
    """Stop as soon as one of the rules says so."""

    rules: tuple[StopRule, ...]

    def __call__(self, draws: Draws, seconds: float) -> bool:
        return any(rule(draws, seconds) for rule in self.rules)

    @property
    def limit(self) -> int | None:
        """The most draws this takes, where a rule sets a limit."""
        limits = [rule.limit for rule in self.rules if getattr(rule, "limit", None) is not None]  # type: ignore[attr-defined]
        return min(limits, default=None)

    def expected(self, draws: Draws, seconds: float) -> float | None:
        """How many draws this will take: the fewest that a rule expects."""
        able = [rule for rule in self.rules if hasattr(rule, "expected")]
        guesses = [rule.expected(draws, seconds) for rule in able]
        return min((guess for guess in guesses if guess is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Stop at the first of these: so many draws, a precision, so many seconds.

    Where none is given: when the order is settled (`Settled`), after five minutes at the latest.

    Parameters
    ----------
    draws
        After so many draws: `FixedDraws`.
    precision
        When every value is known to within this, with 95 % confidence for all at once: `Precision`.
    seconds
        After so long: `Seconds`.

    Examples
    --------
    >>> Stop(draws=300, seconds=60).rule
    AnyOf(rules=(FixedDraws(n=300), Seconds(seconds=60)))
    """

    draws: int | None = None
    precision: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        _ = self.rule  # an error now, not after the data were read

    @property
    def rule(self) -> StopRule:
        """The rule that this stands for."""
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
    """The rule that is meant: a number is one of draws, and None the default."""
    if stop is None:
        return DEFAULT
    if isinstance(stop, Stop):
        return stop.rule
    if callable(stop):
        return stop
    return FixedDraws(stop)


DEFAULT = AnyOf((Settled(), Seconds(300)))
"""When a run stops unless something else is asked for."""


def _checkpoint(n: int) -> bool:
    """Whether to look at n draws: every 10th, from 1,000 draws on every 100th, and so on.

    A look reads every marginal, so looking each time would cost the square of the draws.
    """
    return n % max(10, 10 ** (len(str(n)) - 2)) == 0
