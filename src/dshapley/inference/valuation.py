"""What follows from a run's draws: values, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.errors import InputError
from dshapley.formatting import number
from dshapley.inference.estimation import Terms, terms
from dshapley.inference.interpolation import Interpolation, Prediction, fit, shrunk
from dshapley.inference.uncertainty import (
    BetweenFolds,
    Freedom,
    anytime_quantile,
    bonferroni_quantile,
    check_confidence,
    rank_bounds,
    simultaneous_quantile,
    spread_of,
    stderr_of_differences,
    student_quantile,
    top_probability,
    variance_limit,
)
from dshapley.sampling.draws import NO_FOLD, Draws
from dshapley.sampling.provenance import About

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Filled", "Valuation", "completed", "estimate"]

_POOLED_DEGREES = 3
"""How many degrees of freedom the spread between folds of all points counts for, in that of one."""
_RANKED = 2000
"""The errors of so many points are simulated, at least, to know a rank correlation."""
_MOST_TIMES = 1000.0
"""More draws than this many times those made are not foreseen."""
_SIMULATED = 16
"""Simulated errors that an interpolation is tried on."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Valuation:
    """The value of each point, with its standard error.

    Attributes
    ----------
    values, stderr
        One number a point; `stderr` is NaN where the draws give no idea of the error (see
        `unseen`). For cross-fitted values the spread between folds is in it (see `widened`).
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
    freedom
        The degrees of freedom of the standard errors: how rough they are themselves. By Welch and
        Satterthwaite, so that a few draws that count much are no better known than they are.
    disorder
        The mean squared standard error of a value's difference from the mean of all: what the
        errors have in common, which leaves the order alone, is not in it.
    widened
        Of cross-fitted values, by what factor the spread between folds widens the errors that the
        draws alone would have (the root of the mean square). More draws lower the errors of the
        draws; only more test rows lower the spread.
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
    freedom: float = np.inf
    disorder: float = np.nan
    widened: float = 1.0
    alone: Valuation | None = field(default=None, repr=False)
    """Of widened errors, the values with those of the draws alone: see `of_draws`."""
    of_folds: Floats | None = field(default=None, repr=False)
    """Of widened errors, the influence of each fold (row) on each value."""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        """How many values, how sure they are, the best and the worst."""
        what = "bundles" if (self.rows != 1).any() else "points"
        known = self.reliability
        sure = f"reliability {known:.2f}" if np.isfinite(known) else "errors not known"
        if self.filled is not None:
            what += f", {int(self.filled.predicted.sum()):,} of them predicted"
        about = f"m = {self.m:,}: {self.n_draws:,} draws, {sure}"
        lines = [f"Valuation of {len(self):,} {what}, {about}"]
        for name, frame in (("highest", self.top(3)), ("lowest", self.bottom(3))):
            lines.append(f"{name}: {', '.join(_said(*row) for row in frame.itertuples())}")
        return "\n".join(lines)

    def top(self, n: int = 10) -> pd.DataFrame:
        """The n highest values, the highest first: value and stderr by id.

        >>> one = np.ones(3, int)
        >>> values, stderr = np.array([0.1, 0.3, 0.2]), np.full(3, 0.01)
        >>> found = Valuation(values=values, stderr=stderr, m=5, n_draws=9, ids=np.arange(3),
        ...                   rows=one)
        >>> found.top(2)["value"].to_dict(), found.bottom(1)["value"].to_dict()
        ({1: 0.3, 2: 0.2}, {0: 0.1})
        >>> found
        Valuation of 3 points, m = 5: 9 draws, reliability 0.98
        highest: 1 (0.300 ± 0.020), 2 (0.200 ± 0.020), 0 (0.100 ± 0.020)
        lowest: 0 (0.100 ± 0.020), 2 (0.200 ± 0.020), 1 (0.300 ± 0.020)
        """
        return self._in_order(np.argsort(-self.values, kind="stable")[:n])

    def bottom(self, n: int = 10) -> pd.DataFrame:
        """The n lowest values, the lowest first."""
        return self._in_order(np.argsort(self.values, kind="stable")[:n])

    def _in_order(self, places: NDArray[np.intp]) -> pd.DataFrame:
        import pandas as pd

        columns = {"value": self.values[places], "stderr": self.stderr[places]}
        return pd.DataFrame(columns, index=pd.Index(self.ids[places], name="id"))

    @property
    def draws(self) -> Draws | None:
        """The record of the run, if there is one."""
        if self.filled is not None:
            return self.filled.measured.draws
        return None if self.terms is None else self.terms.draws

    @property
    def about(self) -> About:
        """What is known of the run behind the values."""
        return About() if self.draws is None else self.draws.about

    @property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of sizes k, ends included, that too few draws had: errors are not yet known."""
        if self.filled is not None:
            return self.filled.measured.unseen
        return () if self.terms is None else self.terms.unseen

    @property
    def what_is_unseen(self) -> str:
        """The same for people; empty where errors are known.

        >>> gains, one = np.ones((2, 1), np.float32), np.ones(1, int)
        >>> draws = Draws(t=np.arange(2), k=np.array([1, 5]), marginals=gains,
        ...               weights=np.ones(5) / 5, ids=one, rows=one)
        >>> estimate(draws).what_is_unseen
        'sizes 2-3 and 4-5 have hardly been drawn'
        """
        names = [f"{a}-{b}" if b > a else str(a) for a, b in self.unseen]
        if not names:
            return ""
        some = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
        return f"sizes {some} have hardly been drawn"

    @property
    def of_draws(self) -> Valuation:
        """The same values with the errors of the draws alone, as averages over these test rows."""
        if self.filled is None:
            return self if self.alone is None else self.alone
        assert self.points is not None
        return completed(self.filled.measured.of_draws, self.points, ~self.filled.predicted)

    @property
    def reliability(self) -> float:
        """The share of the variance of the values, between points, that is not noise.

        About the squared correlation of these values with the true ones. NaN where errors are
        not known, or there is but one point.
        """
        if self.filled is not None:
            return self.filled.measured.reliability
        return _signal(*self._spread_and_noise())

    @property
    def surely_reliable(self) -> float:
        """The same with the upper 95 % confidence limit of the noise in place of the noise."""
        if self.filled is not None:
            return self.filled.measured.surely_reliable
        spread, noise = self._spread_and_noise()
        return _signal(spread, noise * variance_limit(self.freedom))

    def draws_for(self, reliability: float) -> int | None:
        """About how many draws, in all, `surely_reliable` takes to be this; None if not known."""
        if self.filled is not None:
            return self.filled.measured.draws_for(reliability)
        spread, noise = self._spread_and_noise()
        signal = spread - noise
        if not signal > 0 or self.n_draws == 0:
            return None
        lasting = 0.0 if self.alone is None else noise - self.alone._spread_and_noise()[1]
        n = float(self.n_draws)
        for _ in range(10):  # the limit depends on the number of draws, but little
            limit = variance_limit(max(self.freedom * n / self.n_draws, 1.0))
            allowed = (1 - reliability) * signal / (limit - (1 - reliability)) - lasting
            if allowed <= 0:
                return None
            n = max((noise - lasting) * self.n_draws / allowed, 1.0)
        return int(np.ceil(n))

    @property
    def most_reliable(self) -> float:
        """The reliability that endless draws would bring; NaN where errors are not known.

        Below 1 for cross-fitted values, whose test rows leave an error of their own.
        """
        if self.filled is not None:
            return self.filled.measured.most_reliable
        spread, noise = self._spread_and_noise()
        lasting = 0.0 if self.alone is None else noise - self.alone._spread_and_noise()[1]
        signal = max(spread - noise, 0.0)
        return signal / (signal + lasting) if signal + lasting > 0 else np.nan

    def rank_correlation(self, n_draws: float | None = None) -> float:
        """About Spearman's rank correlation of these values with the true ones.

        That of the values with themselves and simulated errors. The reliability can be high while
        the order of most points is open, where a few values are far from all others. With
        `n_draws`, what it would be after so many draws. NaN where errors are not known.
        """
        if self.filled is not None:
            return self.filled.measured.rank_correlation(n_draws)
        noise = self._spread_and_noise()[1]
        known = float((self.stderr**2).mean())
        if len(self) < 3 or not np.isfinite(noise):
            return np.nan
        if noise <= 0:
            return 1.0
        # Without what all errors have in common, which changes no rank.
        size = self.stderr * np.sqrt(noise / known * self.n_draws / (n_draws or self.n_draws))
        rng = np.random.default_rng(0)
        found = [
            _spearman(self.values, self.values + rng.normal(size=len(self)) * size)
            for _ in range(max(1, _RANKED // len(self)))
        ]
        return float(np.mean(found))

    def draws_for_ranks(self, correlation: float) -> int | None:
        """About how many draws, in all, `rank_correlation` takes to be this; None if not known."""
        if not np.isfinite(self.rank_correlation()) or self.n_draws == 0:
            return None
        low, high = float(self.n_draws), float(self.n_draws) * _MOST_TIMES
        if self.rank_correlation(low) >= correlation:
            return int(low)
        while high > 1.05 * low:
            middle = np.sqrt(low * high)
            low, high = (
                (low, middle) if self.rank_correlation(middle) >= correlation else (middle, high)
            )
        return int(np.ceil(high))

    def _spread_and_noise(self) -> tuple[float, float]:
        """The variance of the values between points, and the part of it that is noise.

        Of a single point, its square in place of the variance: it is told apart from 0.
        """
        if self.unseen:
            return np.nan, np.nan
        if len(self) == 1:
            return float(self.values[0] ** 2), float(self.stderr[0] ** 2)
        noise = self.disorder if self.terms is not None else float((self.stderr**2).mean())
        return spread_of(self.values), noise

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
            asymptotic confidence sequence (`dshapley.inference.uncertainty.anytime_quantile`).
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
            return anytime_quantile(
                self.n_draws, confidence, n_points=len(self), freedom=self.freedom
            )
        if simultaneous:
            blocks = (influence for _, influence in self._influences())
            return simultaneous_quantile(blocks, confidence, freedom=self.freedom)
        return student_quantile((1 + confidence) / 2, self.freedom)

    def _influences(self) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """The influence of each draw, and of each fold, on some values at a time, and which."""
        if self.filled is not None:
            raise InputError("predicted values have no ranks: ask filled.measured")
        if self.terms is None:
            raise InputError("these values keep no draws, which this needs")
        for block in self.terms.blocks():
            rows = [block.influence]
            if self.of_folds is not None:
                rows.append(self.of_folds[:, block.columns])
            yield block.columns, np.concatenate(rows)

    def influence(self) -> Floats:
        """The influence of each draw (row) on each value: square sums are variances.

        Of cross-fitted values, the last rows are those of the folds.
        """
        blocks = list(self._influences())
        found = np.empty((len(blocks[0][1]), len(self)))
        for columns, part in blocks:
            found[:, columns] = part
        return found

    def error_of_sum(self) -> tuple[float, float]:
        """The standard error of the sum of all values, and its degrees of freedom."""
        influence = np.sum([part.sum(axis=1) for _, part in self._influences()], axis=0)
        assert self.terms is not None
        groups = self.terms.groups
        if self.of_folds is not None:
            groups = np.append(groups, np.full(len(self.of_folds), groups.max() + 1))
        freedom = Freedom()
        freedom.add(influence[:, np.newaxis] ** 2, groups)
        return float(np.sqrt(influence @ influence)), freedom.found

    def below_zero(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """Which points have a value below zero, each with this one-sided confidence.

        Not those of which all draws were alike: that says nothing of the error.
        """
        check_confidence(confidence)
        half = student_quantile(confidence, self.freedom) * self.stderr
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
        if self.unseen:
            return np.ones(len(self), dtype=np.int64), np.full(len(self), len(self), dtype=np.int64)
        influence = self.influence()
        quantile = bonferroni_quantile(confidence, len(self) - 1, self.freedom)
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
        if self.terms is not None and not self.unseen:
            stderr = stderr_of_differences(self._influences(), len(self))
        return top_probability(self.values, stderr, share, seed=seed)

    def bottom_probability(self, share: float = 0.1, *, seed: int = 0) -> Floats:
        """The probability that each point is among the least valuable share of these points."""
        return replace(self, values=-self.values).top_probability(share, seed=seed)

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
        stderr = self.stderr
        if self.unseen:  # what the draws do show serves to weigh the points, and for nothing else
            stderr = np.sqrt((self.influence() ** 2).sum(axis=0))
            if not np.isfinite(stderr).all():
                raise InputError(
                    f"{self.n_draws} draws are too few to predict from: {self.what_is_unseen}"
                )
        return fit(self.points, self.values, stderr, noise=self.noise(_SIMULATED))

    def predict(self, X: Any, y: Any = None) -> Prediction:
        """The values of points that were never run, with errors: Algorithm 2's regression.

        `predict(X, y)` or `predict(Points)`. See `interpolation` for how good it is.
        """
        found = self.interpolation.predict(X if isinstance(X, Points) else Points(X, y))
        return replace(found, stderr=np.full(len(found), np.nan)) if self.unseen else found

    def shrunk(self) -> Valuation:
        """Each value drawn towards what the others predict for it, by how sure either is.

        Empirical Bayes (`dshapley.inference.interpolation.shrunk`): the mean squared error over the
        points falls, but single values are biased towards those of similar points. Never done
        silently.
        """
        if self.filled is not None:
            raise InputError("these values are predictions already; shrink the measured ones")
        guess = self.interpolation.held_out
        values, stderr = shrunk(
            self.values, self.stderr, guess.values, guess.stderr, covariance=guess.covariance
        )
        return replace(
            self, values=values, stderr=stderr, terms=None, points=None,
            widened=1.0, alone=None, of_folds=None,
        )  # fmt: skip

    def to_frame(self, *, ranks: bool = False) -> pd.DataFrame:
        """A data frame by id: value, stderr, and the range of sizes k they average over.

        With `ranks` also the rank with a 95 % interval, and the probabilities of being in the top
        and in the bottom tenth.

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
            order = np.argsort(-self.values, kind="stable")
            columns["rank"] = np.argsort(order, kind="stable") + 1
            columns |= {"rank_best": best, "rank_worst": worst}
            columns["in_top_tenth"] = self.top_probability(0.1)
            columns["in_bottom_tenth"] = self.bottom_probability(0.1)
        if self.filled is not None:
            columns["predicted"] = self.filled.predicted
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


def _said(name: object, value: float, stderr: float) -> str:
    """A value with twice its standard error, which is its reach."""
    shown, reach = number(value, 2 * stderr)
    return f"{name} ({shown} ± {reach})" if np.isfinite(stderr) else f"{name} ({shown})"


def _spearman(a: Floats, b: Floats) -> float:
    from scipy.stats import rankdata

    ranks = rankdata(a), rankdata(b)
    return float(np.corrcoef(*ranks)[0, 1]) if np.ptp(a) > 0 else np.nan


def _signal(spread: float, noise: float) -> float:
    """The share of a variance that is not noise; NaN where there is nothing to tell apart."""
    if not spread > 0:
        return np.nan
    return max(1 - noise / spread, 0.0)


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
    rest = measured.predict(points.take(~where))
    filled = Filled(measured, rest, ~where)
    return Valuation(
        values=filled.joined(measured.values, rest.values),
        stderr=filled.joined(measured.stderr, rest.stderr),
        m=measured.m,
        n_draws=measured.n_draws,
        ids=points.ids,
        rows=np.ones(len(points), dtype=np.int64),
        points=points,
        filled=filled,
        freedom=measured.freedom,
        disorder=measured.disorder,
        widened=measured.widened,
    )


def estimate(
    draws: Draws,
    *,
    m: int | None = None,
    stratified: bool | None = None,
    control_variates: bool | None = None,
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
        probabilities. For any draws; by default for those of `Design(..., balanced=True)`.
    control_variates
        Centre each draw on the mean marginal of a reference sample and put the known mean back
        (docs/precision.md). For draws of `Design(..., control_variates=True)`, where it is the
        default.
    points
        The points valued, where `predict` is wanted.
    """
    how = terms(draws, m=m, stratified=stratified, anchor=control_variates)
    n = draws.marginals.shape[1]
    values, stderr = np.empty(n), np.empty(n)
    by_fold = np.zeros((0 if draws.folds is None else draws.folds.n, n))
    freedom, common = Freedom(), np.zeros(len(how.groups))
    for block in how.blocks():
        values[block.columns] = block.values
        squares = block.influence**2
        stderr[block.columns] = np.sqrt(squares.sum(axis=0))
        freedom.add(squares, block.groups)
        by_fold[:, block.columns] = block.by_fold
        common += block.influence.sum(axis=1) / n
    disorder = max(float((stderr**2).mean() - common @ common), 0.0)
    if how.unseen:
        stderr[:], disorder = np.nan, np.nan
    rows = points if isinstance(points, Points) else None
    found = Valuation(
        values=values,
        stderr=stderr,
        m=how.m,
        n_draws=how.n_draws,
        ids=draws.ids,
        rows=draws.rows,
        terms=how,
        points=rows,
        freedom=freedom.found,
        disorder=disorder,
    )
    return found if draws.folds is None or how.unseen else _with_spread(found, by_fold)


def _with_spread(alone: Valuation, by_fold: Floats) -> Valuation:
    """The same values, with errors that include the spread between folds.

    A point is in too few folds to tell its own spread, and all points together would hide that
    some depend on the test rows more than others. So the two variances are averaged. What is
    beyond the error of the draws is the folds' influence on the value, and points that folds move
    together, or apart, keep doing so.
    """
    assert alone.draws is not None
    assert alone.draws.folds is not None
    folds, between = alone.draws.folds, BetweenFolds(by_fold)
    own, spread = alone.stderr**2, (by_fold**2).sum(axis=0)
    within = float(own.mean())
    if not between.variance > within:
        return alone
    pooled = own * between.variance / within if within > 0 else np.full(len(own), between.variance)
    degrees = folds.n - 1 - (folds.of != NO_FOLD)
    share = degrees / (degrees + _POOLED_DEGREES)
    beyond = np.maximum((1 - share) * pooled + share * spread - own, 0.0)
    # A point that all folds value alike, by chance, is taken to move with the others.
    moved = np.where(spread > 0, by_fold, between.direction[:, np.newaxis])
    of_folds = moved * np.sqrt(beyond / (moved**2).sum(axis=0))
    variance = own + (of_folds**2).sum(axis=0)
    common = of_folds.mean(axis=1)
    # The variance is what the draws tell, times what the folds tell.
    told = 1 - within / between.variance
    rough = 1 / between.freedom + float((share**2 / np.maximum(degrees, 1)).max())
    return replace(
        alone,
        stderr=np.sqrt(variance),
        disorder=alone.disorder + float((variance - own).mean() - common @ common),
        freedom=1 / (1 / alone.freedom + told**2 * rough),
        widened=float(np.sqrt(variance.mean() / within)) if within > 0 else np.inf,
        alone=alone,
        of_folds=of_folds,
    )
