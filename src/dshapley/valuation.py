"""What follows from a run's draws: values, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshapley.draws import Draws
from dshapley.errors import InputError
from dshapley.estimation import Terms, terms
from dshapley.interpolation import Interpolation, Prediction, fit, shrunk
from dshapley.points import Array, Bundles, Floats, Points
from dshapley.uncertainty import (
    anytime_quantile,
    bonferroni_quantile,
    check_confidence,
    rank_bounds,
    simultaneous_quantile,
    stderr_of_differences,
    student_quantile,
    top_probability,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Filled", "Valuation", "completed", "estimate"]

_BLOCK = 2**22
"""Numbers held at once, so that the float64 copy of the marginals stays small."""
_SIMULATED = 16
"""Simulated errors that an interpolation is tried on."""


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
    terms
        The draws behind the values and how they are averaged, if there are any.
    points
        The points themselves, for `predict`, where they are known.
    filled
        Where only some points were measured: which, and how the others were predicted.
    """

    values: Floats
    stderr: Floats
    m: int
    n_draws: int
    ids: Array
    rows: NDArray[np.int64]
    terms: Terms | None = None
    points: Points | None = None
    filled: Filled | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def draws(self) -> Draws | None:
        """The record of the run, if there is one."""
        if self.filled is not None:
            return self.filled.measured.draws
        return None if self.terms is None else self.terms.draws

    @property
    def about(self) -> Mapping[str, Any]:
        """The potential, the data and U(empty) behind the values."""
        return {} if self.draws is None else self.draws.about

    def at(self, *, m: int) -> Valuation:
        """The values for data sets of size m' = `m`, from the draws with k <= m'."""
        if self.filled is not None:
            assert self.points is not None
            return completed(self.filled.measured.at(m=m), self.points, ~self.filled.predicted)
        if self.draws is None:
            raise InputError("these values keep no draws, so there are none for another m")
        return replace(estimate(self.draws, m=m), points=self.points)

    def interval(
        self, confidence: float = 0.95, *, simultaneous: bool = False, anytime: bool = False
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of confidence intervals.

        Parameters
        ----------
        confidence
            How often an interval holds its value, in the long run.
        simultaneous
            All intervals hold at once with this confidence, not each on its own: the quantile is
            that of the largest error in standard errors, simulated by random signs and sizes of
            the draws' influences (the Gaussian multiplier bootstrap of Chernozhukov, Chetverikov
            and Kato 2013), so that what the errors have in common is made use of.
        anytime
            Valid however often one looks while draws come in, and for all points at once: an
            asymptotic confidence sequence (`dshapley.uncertainty.anytime_quantile`).
        """
        if self.filled is not None and not (simultaneous or anytime):
            return self.filled.interval(confidence)
        half = self._quantile(confidence, simultaneous, anytime) * self.stderr
        return self.values - half, self.values + half

    def _quantile(self, confidence: float, simultaneous: bool, anytime: bool) -> float:
        check_confidence(confidence)
        if self.filled is not None:
            raise InputError("predicted values have intervals each on its own only")
        if anytime:
            return anytime_quantile(self.n_draws, confidence, n_points=len(self))
        if simultaneous:
            blocks = (influence for _, influence in self._influences())
            return simultaneous_quantile(blocks, confidence, freedom=self._freedom)
        return student_quantile((1 + confidence) / 2, self._freedom)

    @property
    def _freedom(self) -> int:
        return max(self.n_draws - 1, 1) if self.terms is None else self.terms.freedom

    def _influences(self) -> Iterator[tuple[slice, Floats]]:
        """The influence of each draw on some values at a time, and which."""
        if self.filled is not None:
            raise InputError("predicted values have no ranks: ask filled.measured")
        if self.terms is None:
            raise InputError("these values keep no draws, which this needs")
        yield from ((columns, part) for columns, _, part in _blocks(self.terms))

    def below_zero(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """Which points have a value below zero, each with this one-sided confidence.

        Not those of which all draws were alike: that says nothing of the error.
        """
        check_confidence(confidence)
        half = student_quantile(confidence, self._freedom) * self.stderr
        known = np.full(len(self), self.terms is None) | (self.stderr > 0)
        return np.asarray((self.values + half < 0) & known)

    def noise(self, n: int, *, seed: int = 0) -> Floats:
        """Simulated errors of all values, as common to the points as the real ones: (n, points).

        Sums of the draws' influences times independent standard normals; independent normals of
        size `stderr` for values without draws.
        """
        rng = np.random.default_rng(seed)
        if self.terms is None:
            return rng.normal(size=(n, len(self))) * self.stderr
        found = np.empty((n, len(self)))
        signs: Floats | None = None
        for columns, influence in self._influences():
            signs = rng.normal(size=(n, len(influence))) if signs is None else signs
            found[:, columns] = signs @ influence
        return found

    def rank_interval(
        self, confidence: float = 0.95
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The best and the worst rank each point may have (1 is the most valuable).

        A point's rank is at least 1 + the number of points that are surely better, at most n -
        the number that are surely worse, where the differences to all others are held to the
        confidence together (Mogstad, Romano, Shaikh and Wilhelm 2024, with Bonferroni's
        quantile). What all points' errors have in common cancels in the differences.
        """
        check_confidence(confidence)
        influence = np.concatenate([part for _, part in self._influences()], axis=1)
        quantile = bonferroni_quantile(confidence, len(self) - 1, self._freedom)
        return rank_bounds(self.values, influence, quantile)

    def top_probability(self, share: float = 0.1, *, seed: int = 0) -> Floats:
        """The probability that each point is among the most valuable share of these points.

        By empirical Bayes: true values are taken to be spread about their mean as normals of the
        variance that the estimates have beyond their errors, and the ranks are simulated from
        what the estimates then leave open. What all errors have in common is taken out first.
        """
        if not 0 < share < 1:
            raise InputError(f"share = {share}: give a share of the points, such as 0.1")
        stderr = self.stderr
        if self.terms is not None:
            stderr = stderr_of_differences(part for _, part in self._influences())
        return top_probability(self.values, stderr, share, seed=seed)

    @cached_property
    def interpolation(self) -> Interpolation:
        """The model of values behind `predict`, with its held-out R2 and rank correlation."""
        if self.filled is not None:
            return self.filled.measured.interpolation
        if self.points is None:
            raise InputError(
                "the points behind these values are not known: give estimate(draws, points=Z), "
                "with rows, not bundles"
            )
        return fit(self.points, self.values, self.stderr, noise=self.noise(_SIMULATED))

    def predict(self, X: Any, y: Any = None) -> Prediction:
        """The values of points that were never run, with errors: Algorithm 2's regression.

        `predict(X, y)` or `predict(Points)`. See `interpolation` for how good it is.
        """
        return self.interpolation.predict(X if isinstance(X, Points) else Points(X, y))

    def shrunk(self) -> Valuation:
        """Each value drawn towards what the others predict for it, by how sure either is.

        Empirical Bayes (`dshapley.interpolation.shrunk`): the mean squared error over the points
        falls, but single values are biased towards those of similar points. Never done silently.
        """
        if self.filled is not None:
            raise InputError("these values are predictions already; shrink the measured ones")
        guess = self.interpolation.held_out
        values, stderr = shrunk(
            self.values, self.stderr, guess.values, guess.stderr, covariance=guess.covariance
        )
        return replace(self, values=values, stderr=stderr, terms=None, points=None)

    def to_frame(self, *, ranks: bool = False) -> pd.DataFrame:
        """A data frame by id: value, stderr, and the range of sizes k they average over.

        With `ranks` also a 95 % interval for each rank, and the probability of being in the top
        tenth.

        For bundles also the number of rows and the value per row; where some values are
        predicted, which.
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
        if ranks:
            best, worst = self.rank_interval()
            columns |= {"rank_best": best, "rank_worst": worst}
            columns["in_top_tenth"] = self.top_probability(0.1)
        if self.filled is not None:
            columns["predicted"] = self.filled.predicted
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


@dataclass(frozen=True, eq=False)
class Filled:
    """Some points measured, the others predicted from them."""

    measured: Valuation
    prediction: Prediction
    predicted: NDArray[np.bool_]
    """Of all points, which are predicted."""

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Each point's own interval, measured or predicted."""
        parts = self.measured.interval(confidence), self.prediction.interval(confidence)
        low, high = (self.joined(*ends) for ends in zip(*parts, strict=True))
        return low, high

    def joined(self, measured: Floats, predicted: Floats) -> Floats:
        """One number a point, from those of the measured and of the predicted."""
        found = np.empty(len(self.predicted))
        found[~self.predicted], found[self.predicted] = measured, predicted
        return found


def completed(measured: Valuation, points: Points, where: NDArray[np.bool_]) -> Valuation:
    """The values of all points, from those of the ones at `where`: the last step of Algorithm 2.

    Measured points keep their values, which are nearer to the truth than the regression's.
    """
    measured = replace(measured, points=points.take(where))
    rest = measured.interpolation.predict(points.take(~where))
    filled = Filled(measured, rest, ~where)
    return Valuation(
        filled.joined(measured.values, rest.values),
        filled.joined(measured.stderr, rest.stderr),
        measured.m,
        measured.n_draws,
        points.ids,
        np.ones(len(points), dtype=np.int64),
        points=points,
        filled=filled,
    )


def estimate(
    draws: Draws,
    *,
    m: int | None = None,
    stratified: bool | None = None,
    anchor: bool | None = None,
    points: Points | Bundles | None = None,
) -> Valuation:
    """Values and standard errors from a run's draws, for its own m or any m' <= m.

    The value is the mean over the draws with k <= m' of U(S + z) - U(S), divided by w'_k m',
    where w' are the size weights given k <= m' (Algorithm 2; for uniform weights the factor is
    1 and this is Algorithm 1). It is unbiased for every m'.

    Parameters
    ----------
    m
        The data set size m'; by default the run's m.
    stratified
        Average within bands of neighbouring sizes, then over the bands by their known
        probabilities. For any draws; by default for those of `Design(..., stratified=True)`.
    anchor
        Centre each draw on the mean marginal of a reference sample and put the known mean back
        (docs/precision.md). For draws of `Design(..., anchor=True)`, and the default for them.
    points
        The points valued, where `predict` is wanted.
    """
    how = terms(draws, m=m, stratified=stratified, anchor=anchor)
    n = draws.marginals.shape[1]
    values, stderr = np.empty(n), np.empty(n)
    for columns, found, influence in _blocks(how):
        values[columns] = found
        stderr[columns] = np.sqrt((influence**2).sum(axis=0))
    rows = points if isinstance(points, Points) else None
    return Valuation(values, stderr, how.m, how.n_draws, draws.ids, draws.rows, how, rows)


def _blocks(how: Terms) -> Iterator[tuple[slice, Floats, Floats]]:
    """Values and influences of some columns at a time."""
    n = how.draws.marginals.shape[1]
    width = max(1, _BLOCK // how.n_draws)
    for start in range(0, n, width):
        columns = slice(start, start + width)
        yield columns, *how.block(columns)
