"""The errors in a buyer's check: of draws and of test rows, on both sides.

They give the intervals of both verdicts, and say how many test rows a verdict needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dshapley.data.points import Floats
from dshapley.inference.agreement import (
    FEWEST,
    corrected,
    halves_correlation,
    rank_correlation,
    with_interval,
)
from dshapley.inference.uncertainty import student_quantile
from dshapley.market.comparison import ape

__all__ = ["GROUPS", "Evidence", "Interval", "TestRows"]

Interval = tuple[float, float, float]
"""An estimate and the two ends of its interval."""

GROUPS = 20
"""How many groups the jackknife divides the test rows into."""
_TIMES = tuple(2 ** (i / 2) for i in range(1, 21))
"""The multiples of the buyer's test rows that are tried to say how many are needed."""
_SIMULATED = 200
"""How often the test rows' error is simulated to see how much the rank correlation varies."""


@dataclass(frozen=True, eq=False)
class TestRows:
    """The sampling error of both sides' test rows.

    Attributes
    ----------
    influence
        How much each group of the buyer's test rows changes each of the buyer's values.
    own, theirs
        How many test rows the buyer and the seller have; `theirs` is None if the list does not
        say, and is then taken to be the same.
    """

    influence: Floats
    own: int
    theirs: int | None

    @property
    def ratio(self) -> float:
        """The seller's error divided by the buyer's, if each test row contributes equally."""
        return math.sqrt(self.own / (self.theirs or self.own))

    @property
    def freedom(self) -> float:
        """The degrees of freedom of the jackknife's errors."""
        return float(len(self.influence) - 1)

    def of_sum(self) -> float:
        """The standard error of the sum of the buyer's values that is due to the test rows."""
        return float(np.sqrt((self.influence.sum(axis=1) ** 2).sum()))

    def times(self, more: float) -> TestRows:
        """The same if the buyer had `more` times as many test rows."""
        rows = round(self.own * more)
        seller = self.theirs or self.own
        return TestRows(self.influence / math.sqrt(more), rows, seller)


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """Both sides' values of what was bought, and all that is known about their errors.

    Attributes
    ----------
    values, own
        The list's values, and the buyer's.
    draws
        The influence of each of the buyer's draws on each value.
    reliability
        The reliability of the list's values by its draws alone; NaN if the list does not say.
    errors
        The standard errors of the list's sum and of the buyer's that are due to the draws.
    freedom
        The degrees of freedom of the buyer's error.
    tolerance
        How much value cutting permutations may have taken.
    test
        The error of the test rows; None if both sides have the same test rows, so that it cancels.
    confidence
        The confidence of the intervals.
    """

    values: Floats
    own: Floats
    draws: Floats
    reliability: float
    errors: tuple[float, float]
    freedom: float
    tolerance: float
    test: TestRows | None
    confidence: float

    @property
    def total_errors(self) -> tuple[float, float]:
        """The standard errors of both sums, due to draws and test rows together."""
        if self.test is None:
            return self.errors
        own = self.test.of_sum()
        return (
            math.hypot(self.errors[0], own * self.test.ratio),
            math.hypot(self.errors[1], own),
        )

    def worth(self) -> tuple[Interval, float]:
        """The absolute percentage error with its interval, and its error before taking |.|."""
        sums = float(self.values.sum()), float(self.own.sum())
        return ape(sums, self.total_errors, self._quantile(), self.tolerance)

    def reach(self) -> float:
        """Half the width of the interval of the percentage error with its sign."""
        (_, error), listed = self.worth(), float(self.values.sum())
        return self._quantile() * error + self.tolerance / listed

    def _quantile(self) -> float:
        freedom = self.freedom
        if self.test is not None:
            tested = self.test.of_sum() ** 2 * (1 + self.test.ratio**2)
            parts = [(tested, self.test.freedom), (self.errors[1] ** 2, self.freedom)]
            freedom = _pooled(parts, self.errors[0] ** 2)
        return student_quantile((1 + self.confidence) / 2, freedom)

    def order(self) -> tuple[Interval, float, Interval]:
        """The rank correlation, its ceiling, and the correlation without the noise."""
        extra, freedom = self._spread()
        r = rank_correlation(self.values, self.own, self.confidence, extra, freedom)
        ceiling = self.ceiling()
        return r, ceiling, corrected(r, ceiling)

    def would_show(self, question: str, asked: float) -> bool:
        """Whether the errors are small enough to show that a right list is right.

        The correlation of a right order is the ceiling. The estimated error of a right total may
        lie anywhere in its interval, so the whole interval may be at most `asked` wide.
        """
        if question == "worth":
            return self.reach() <= asked / 2  # false for NaN
        ceiling = self.ceiling()
        if not ceiling > 0:
            return False
        r = with_interval(ceiling, len(self.own), self.confidence, *self._spread())
        return corrected(r, ceiling)[1] >= asked

    def rows_needed(self, question: str, asked: float) -> int | None:
        """About how many test rows the buyer needs to show it; None if no number is enough."""
        if self.test is None:
            return None
        for times in _TIMES:
            more = replace(self, test=self.test.times(times))
            if more.would_show(question, asked):
                return round(self.test.own * times)
        return None

    def on_the_sellers_rows(self) -> Evidence:
        """The evidence if the buyer had the seller's test rows, whose error would cancel."""
        return replace(self, test=None)

    def ceiling(self) -> float:
        """The rank correlation to expect of two sides that agree, given the errors of both."""
        if len(self.draws) < FEWEST:
            return math.nan
        if self.test is None:
            return math.sqrt(self.reliability * halves_correlation(self.own, [self.draws]))
        both = halves_correlation(self.own, [self.draws, self.test.influence])
        alone = halves_correlation(self.own, [self.test.influence])
        if not both > 0:
            return both
        # The list's reliability is from halves of its draws, which share their test rows. It counts
        # the error of these rows as signal, so the noise is added here, relative to the signal.
        noise = (1 - alone) / both * self.test.ratio**2
        return math.sqrt(self.reliability / (1 + noise) * both)

    def _spread(self) -> tuple[float, float]:
        """The variance of Fisher's z due to test rows, and its degrees of freedom.

        Test rows are common to all points, so an interval over the points does not cover them.
        """
        if self.test is None or len(self.own) < 4:
            return 0.0, math.inf
        influence = self.test.influence
        rng = np.random.default_rng(0)
        signs = rng.normal(size=(2, _SIMULATED, len(influence)))
        own, theirs = self.own + signs[0] @ influence, signs[1] @ influence * self.test.ratio
        found = [
            rank_correlation(self.values + b, a, self.confidence)[0]
            for a, b in zip(own, theirs, strict=True)
        ]
        z = np.arctanh(np.clip(found, -0.999, 0.999))
        return float(z.var()), self.test.freedom


def _pooled(parts: list[tuple[float, float]], known: float) -> float:
    """Degrees of freedom of a sum of variances, of which `known` is exact (Welch-Satterthwaite)."""
    total = sum(variance for variance, _ in parts) + known
    rough = sum(variance**2 / freedom for variance, freedom in parts)
    return total**2 / rough if rough > 0 else math.inf
