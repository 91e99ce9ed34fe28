"""Values estimated from the draws of a run, which they keep: `estimate` makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Bundles, Floats, Points
from dshapley.errors import InputError
from dshapley.inference.database_error import DatabaseError, database_error
from dshapley.inference.estimation import Terms, terms
from dshapley.inference.interpolation import Interpolation, Prediction, fit, shrunk
from dshapley.inference.test_rows import of_test_rows
from dshapley.inference.uncertainty import (
    BetweenFolds,
    Freedom,
    bonferroni_quantile,
    check_confidence,
    rank_bounds,
    simultaneous_quantile,
    stderr_of_differences,
    student_quantile,
)
from dshapley.inference.valuation import Valuation
from dshapley.sampling.design import Design
from dshapley.sampling.draws import NO_FOLD, Draws

__all__ = ["SampledValuation", "estimate"]

_POOLED_DEGREES = 3
"""The weight, in degrees of freedom, of the average spread between folds in a point's own."""
_MOST_PAIRED = 400
"""More points than these hardly change the share of pairs whose order is settled."""
_SIMULATED = 16
"""The number of simulated errors that an interpolation is tried on."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SampledValuation(Valuation):
    """Values that keep the draws behind them, so that they know how their errors go together.

    Attributes
    ----------
    terms
        The draws, and how they are averaged.
    disorder
        The mean squared standard error of a value's difference from the mean of all values. An
        error that all values share leaves their order alone and is not in it.
    of_draws
        The same values with the sampling errors of the draws alone.
    fold_influence
        The influence of each fold (row) on each value, for cross-fitted values whose spread
        between folds is larger than the draws explain. With test rows of their own, it is that of
        each group of test rows (`inference.test_rows`). None otherwise.
    """

    terms: Terms
    disorder: float
    alone: SampledValuation | None = None
    fold_influence: Floats | None = None

    @property
    def draws(self) -> Draws:
        """The record of the run."""
        return self.terms.draws

    @property
    def of_draws(self) -> SampledValuation:
        """The same values with the sampling errors of the draws alone, for these test rows."""
        return self if self.alone is None else self.alone

    @property
    def widened(self) -> float:
        """How many times larger the errors are than those of `of_draws` (root mean square)."""
        if self.alone is None:
            return 1.0
        within = float((self.alone.stderr**2).mean())
        return float(np.sqrt((self.stderr**2).mean() / within)) if within > 0 else np.inf

    @property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of set sizes k (both ends included) with too few draws to know the errors.

        >>> gains, one = np.ones((2, 1), np.float32), np.ones(1, int)
        >>> draws = Draws(t=np.arange(2), k=np.array([1, 5]), marginals=gains,
        ...               weights=np.ones(5) / 5, ids=one, rows=one)
        >>> estimate(draws).unseen, estimate(draws).what_is_unseen
        (((2, 3), (4, 5)), 'sizes 2-3 and 4-5 have hardly been drawn')
        """
        return self.terms.unseen

    def _noise(self) -> float:
        return self.disorder

    def _lasting_noise(self) -> float:
        if self.alone is None:
            return 0.0
        return self._spread_and_noise()[1] - self.alone._spread_and_noise()[1]

    def at(self, *, m: int) -> SampledValuation:
        """The values for data sets of size m' = `m`, from the draws with k <= m'."""
        return replace(estimate(self.draws, m=m), points=self.points)

    def without_draws(self, *, m: int | None = None) -> Valuation:
        """Only the values and their errors; `m` names the size where it is not that of the run."""
        return Valuation(
            values=self.values,
            stderr=self.stderr,
            m=self.m if m is None else m,
            n_draws=self.n_draws,
            ids=self.ids,
            rows=self.rows,
            points=self.points,
            freedom=self.freedom,
        )

    def influences(self) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """The influence of each draw (row) on some points at a time, and which points.

        The square sum over the rows is the variance of a value. The last rows are the influences
        of the folds, or of the groups of test rows, if the errors include them.
        """
        for block in self.terms.blocks():
            rows = [block.influence]
            if self.fold_influence is not None:
                rows.append(self.fold_influence[:, block.columns])
            yield block.columns, np.concatenate(rows)

    def _simultaneous_quantile(self, confidence: float) -> float:
        blocks = (influence for _, influence in self.influences())
        return simultaneous_quantile(blocks, confidence, freedom=self.freedom)

    def error_of_sum(self, weights: Floats | None = None) -> tuple[float, float]:
        """The standard error of the sum of all values, and its degrees of freedom.

        With `weights` it is the sum of the values times these.
        """
        weights = np.ones(len(self)) if weights is None else weights
        influence = np.sum([part @ weights[columns] for columns, part in self.influences()], axis=0)
        groups = self.terms.groups
        if self.fold_influence is not None:
            groups = np.append(groups, np.full(len(self.fold_influence), groups.max() + 1))
        freedom = Freedom()
        freedom.add(influence[:, np.newaxis] ** 2, groups)
        return float(np.sqrt(influence @ influence)), freedom.found

    def _error_is_known(self) -> NDArray[np.bool_]:
        # Where all draws of a point are equal, they tell nothing about the error.
        return self.stderr > 0

    def database_error(self, design: Design | None = None) -> DatabaseError:
        """How much the values would differ with another database of the same size.

        It is computed from the draws and trains no model: see `inference.database_error`. It is
        not in `stderr`, which is for this database.

        Parameters
        ----------
        design
            The design of the draws, for draws that do not say how they were made.
        """
        of_draws = float(np.sqrt((self.of_draws.stderr**2).mean()))
        return database_error(self.terms, of_draws=of_draws, design=design)

    def noise(self, n: int, *, seed: int = 0) -> Floats:
        """Simulated errors of all values, correlated as the real ones are: (n, points).

        Each is the sum of the draws' influences times independent standard normals.
        """
        rng = np.random.default_rng(seed)
        found = np.empty((n, len(self)))
        signs: Floats | None = None
        for columns, influence in self.influences():
            signs = rng.normal(size=(n, len(influence))) if signs is None else signs
            found[:, columns] = signs @ influence
        return found

    def rank_interval(
        self, confidence: float = 0.95
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The best and the worst rank each point may have (1 is the most valuable).

        A point's rank is at least 1 + the number of points that are surely better, and at most
        n - the number that are surely worse, where its differences to all others hold at once
        with this confidence (Mogstad, Romano, Shaikh and Wilhelm 2024, with Bonferroni's
        quantile). An error that all points share cancels in the differences.
        """
        check_confidence(confidence)
        if self.unseen:
            return np.ones(len(self), dtype=np.int64), np.full(len(self), len(self), dtype=np.int64)
        influence = self.influence()
        quantile = bonferroni_quantile(confidence, len(self) - 1, self.freedom)
        return rank_bounds(self.values, influence, quantile)

    def settled_pairs(self, confidence: float = 0.95) -> float:
        """The share of pairs of points whose order is known with this confidence, each pair alone.

        From at most `_MOST_PAIRED` random points. NaN where the errors are not known.
        """
        check_confidence(confidence)
        n = len(self)
        if self.unseen or n < 2:
            return np.nan
        chosen = np.arange(n)
        if n > _MOST_PAIRED:
            chosen = np.sort(np.random.default_rng(0).choice(n, _MOST_PAIRED, replace=False))
        wanted = np.isin(np.arange(n), chosen)
        parts = tuple((points[wanted[points]], part) for points, part in self.terms.parts)
        some = replace(self, terms=replace(self.terms, parts=parts))
        places, blocks = zip(*some.influences(), strict=True)
        influence = np.concatenate(blocks, axis=1)[:, np.argsort(np.concatenate(places))]
        products = influence.T @ influence
        variance = np.diag(products)[:, None] + np.diag(products) - 2 * products
        gaps = np.abs(np.subtract.outer(self.values[chosen], self.values[chosen]))
        above = np.triu_indices(len(chosen), 1)
        error = np.sqrt(np.maximum(variance[above], 0.0))
        quantile = student_quantile((1 + confidence) / 2, self.freedom)
        return float((gaps[above] > quantile * error).mean())

    def _error_of_rank(self) -> Floats:
        if self.unseen:
            return self.stderr
        return stderr_of_differences(self.influences(), len(self))

    @cached_property
    def interpolation(self) -> Interpolation:
        """The model of values behind `predict`, with its held-out R2 and rank correlation."""
        if self.points is None:
            raise InputError(
                "the points behind these values are not known: give estimate(draws, points=Z), "
                "with rows, not bundles"
            )
        stderr = self.stderr
        if self.unseen:
            # The incomplete errors only weigh the points; `predict` reports no error from them.
            stderr = np.sqrt((self.influence() ** 2).sum(axis=0))
            if not np.isfinite(stderr).all():
                raise InputError(
                    f"{self.n_draws} draws are too few to predict from: {self.what_is_unseen}"
                )
        return fit(self.points, self.values, stderr, noise=self.noise(_SIMULATED))

    def predict(self, X: Any, y: Any = None) -> Prediction:
        """The values of points that were never run, with errors: Algorithm 2's regression.

        `predict(X, y)` or `predict(Points)`. `interpolation` tells how good it is.
        """
        found = super().predict(X, y)
        return replace(found, stderr=np.full(len(found), np.nan)) if self.unseen else found

    def shrunk(self) -> Valuation:
        """Each value moved towards its prediction from the other points (empirical Bayes).

        The mean squared error over the points falls, but single values are biased towards those
        of similar points (see `inference.interpolation.shrunk`). It never happens silently.
        """
        guess = self.interpolation.held_out
        values, stderr = shrunk(
            self.values, self.stderr, guess.values, guess.stderr, covariance=guess.covariance
        )
        return replace(self.without_draws(), values=values, stderr=stderr)


def estimate(
    draws: Draws,
    *,
    m: int | None = None,
    within_bands: bool | None = None,
    control_variates: bool | None = None,
    points: Points | Bundles | None = None,
) -> SampledValuation:
    """Values and standard errors from a run's draws, for its own m or any m' <= m.

    The value is the mean over the draws with k <= m' of U(S + z) - U(S), divided by w'_k m',
    where w' are the size weights given k <= m' (Algorithm 2; for uniform weights the factor is
    1 and this is Algorithm 1). It is unbiased for every m'.

    Parameters
    ----------
    m
        The data set size m'; by default the run's m.
    within_bands
        Average within bands of neighbouring sizes, then over the bands by their known
        probabilities. For any draws; by default for those of `Design(..., balanced=True)`.
    control_variates
        Centre each draw on the mean marginal of a reference sample and put the known mean back
        (docs/precision.md). For draws of `Design(..., control_variates=True)`, where it is the
        default.
    points
        The points valued, where `predict` is wanted.
    """
    how = terms(draws, m=m, within_bands=within_bands, control_variates=control_variates)
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
    found = SampledValuation(
        values=values,
        stderr=stderr,
        m=how.m,
        n_draws=how.n_draws,
        ids=draws.ids,
        rows=draws.rows,
        points=points if isinstance(points, Points) else None,
        freedom=freedom.found,
        terms=how,
        disorder=disorder,
    )
    if how.unseen:
        return found
    return _with_test_rows(found) if draws.folds is None else _with_spread(found, by_fold)


def _with_test_rows(alone: SampledValuation) -> SampledValuation:
    """The same values, with errors that include those of the test rows, if the draws tell them."""
    of_test = of_test_rows(alone.terms)
    if of_test is None:
        return alone
    own, beyond = alone.stderr**2, (of_test.influence**2).sum(axis=0)
    variance, common = own + beyond, of_test.influence.mean(axis=1)
    share = float(beyond.mean() / variance.mean()) if variance.any() else 0.0
    return replace(
        alone,
        stderr=np.sqrt(variance),
        disorder=alone.disorder + max(float(beyond.mean() - common @ common), 0.0),
        # Welch and Satterthwaite: each part counts as far as it is part of the variance.
        freedom=1 / ((1 - share) ** 2 / alone.freedom + share**2 / of_test.freedom),
        alone=alone,
        fold_influence=of_test.influence,
    )


def _with_spread(alone: SampledValuation, by_fold: Floats) -> SampledValuation:
    """The same values, with errors that include the spread between folds.

    A point has too few folds to know its own spread well, and an average over all points would
    hide that some depend on the test rows more than others. So the two variances are averaged.
    The variance beyond that of the draws becomes the folds' influence on the value, in the
    direction in which the folds moved the point, so that points keep moving together or apart.
    """
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
    # A point that all folds happen to value alike counts as moving with the others.
    moved = np.where(spread > 0, by_fold, between.direction[:, np.newaxis])
    fold_influence = moved * np.sqrt(beyond / (moved**2).sum(axis=0))
    variance = own + (fold_influence**2).sum(axis=0)
    common = fold_influence.mean(axis=1)
    # The relative errors of the two factors of the variance, draws' and folds', add up.
    told = 1 - within / between.variance
    rough = 1 / between.freedom + float((share**2 / np.maximum(degrees, 1)).max())
    return replace(
        alone,
        stderr=np.sqrt(variance),
        disorder=alone.disorder + float((variance - own).mean() - common @ common),
        freedom=1 / (1 / alone.freedom + told**2 * rough),
        alone=alone,
        fold_influence=fold_influence,
    )
