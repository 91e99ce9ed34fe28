"""What every set of values has: the numbers, their errors, and what can be read from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.formatting import number
from dshapley.inference.label_evidence import LabelEvidence, label_evidence
from dshapley.inference.uncertainty import (
    anytime_quantile,
    check_confidence,
    spearman,
    spread_of,
    student_quantile,
    top_probability,
    variance_limit,
)
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.draws import Draws
from dshapley.sampling.provenance import About

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dshapley.inference.database_error import DatabaseError
    from dshapley.inference.interpolation import Interpolation, Prediction
    from dshapley.sampling.design import Design

__all__ = ["Valuation"]

_RANKED = 2000
"""A rank correlation is averaged over simulated errors of at least this many points."""
_MOST_TIMES = 1000.0
"""A forecast never asks for more than this many times the draws already made."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Valuation(NotebookDisplay):
    """The value of each point, with its standard error.

    This class holds values whose draws are not kept: exact values, extrapolated ones, values
    shrunk towards predictions. Its errors count as independent. `SampledValuation` adds the draws
    and everything that follows from them; `CompletedValuation` adds predictions for points that
    were not measured.

    Attributes
    ----------
    values, stderr
        One number for each point. `stderr` is 0 for exact values, and NaN where the draws do not
        yet show the error (see `unseen`).
    m
        The data set size that the values are for.
    n_draws
        The number of draws behind the values.
    ids, rows
        The name of each point, and its number of rows (more than one for a bundle).
    points
        The points themselves, where they are known.
    freedom
        The degrees of freedom of the standard errors, which are themselves estimates. They follow
        Welch and Satterthwaite, so a few dominant draws give few degrees of freedom.
    """

    values: Floats
    stderr: Floats
    m: int
    n_draws: int
    ids: Array
    rows: NDArray[np.int64]
    points: Points | None = None
    freedom: float = np.inf

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        """How many values, how sure they are, the best and the worst."""
        what = "bundles" if (self.rows != 1).any() else "points"
        known = self.reliability
        sure = f"reliability {known:.2f}" if np.isfinite(known) else "errors not known"
        if self.predicted.any():
            what += f", {int(self.predicted.sum()):,} of them predicted"
        about = f"m = {self.m:,}: {self.n_draws:,} draws, {sure}"
        lines = [f"{type(self).__name__} of {len(self):,} {what}, {about}"]
        for name, frame in (("highest", self.top(3)), ("lowest", self.bottom(3))):
            lines.append(f"{name}: {', '.join(_with_error(*row) for row in frame.itertuples())}")
        return "\n".join(lines)

    def top(self, n: int = 10) -> pd.DataFrame:
        """The n highest values, the highest first: value and stderr by id.

        >>> values, stderr = np.array([0.1, 0.3, 0.2]), np.full(3, 0.01)
        >>> found = Valuation(values=values, stderr=stderr, m=5, n_draws=9, ids=np.arange(3),
        ...                   rows=np.ones(3, int))
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

    def plot(self, **options: Any) -> Axes:
        """The highest and the lowest values with their intervals, as a picture (extra `plots`).

        The options are those of `dshapley.plots.extremes`: `n`, `confidence`, `names` and `ax`.
        """
        # Late, because pictures are made further down, and matplotlib is optional.
        from dshapley.plots.values import extremes

        return extremes(self, **options)

    def _in_order(self, places: NDArray[np.intp]) -> pd.DataFrame:
        import pandas as pd

        columns = {"value": self.values[places], "stderr": self.stderr[places]}
        return pd.DataFrame(columns, index=pd.Index(self.ids[places], name="id"))

    # -- Where the values come from

    @property
    def draws(self) -> Draws | None:
        """The record of the run, if there is one."""
        return None

    @property
    def about(self) -> About:
        """What is known of the run behind the values."""
        return About() if self.draws is None else self.draws.about

    @property
    def measured(self) -> Valuation:
        """The values that rest on marginals: all of them, unless some are predicted."""
        return self

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """Which values are predictions."""
        return np.zeros(len(self), dtype=bool)

    @property
    def of_draws(self) -> Valuation:
        """The same values with the sampling errors of the draws alone, for these test rows."""
        return self

    @property
    def widened(self) -> float:
        """How many times larger the errors are than those of `of_draws` (root mean square).

        Above 1 if the errors include those of the test rows: for cross-fitted values the spread
        between folds, else that between groups of test rows. More draws lower the errors of the
        draws; only more test rows lower the rest.
        """
        return 1.0

    @property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of set sizes k (both ends included) with too few draws to know the errors."""
        return ()

    @property
    def what_is_unseen(self) -> str:
        """A sentence that names the ranges of `unseen`; empty where the errors are known."""
        names = [f"{a}-{b}" if b > a else str(a) for a, b in self.unseen]
        if not names:
            return ""
        some = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
        return f"sizes {some} have hardly been drawn"

    # -- How sure the values are

    @property
    def reliability(self) -> float:
        """The share of the variance between the values that is not noise.

        It is about the squared correlation of these values with the true ones. NaN where the
        errors are not known, or all values are equal.
        """
        return _signal(*self._spread_and_noise())

    @property
    def surely_reliable(self) -> float:
        """The reliability with the noise at its upper 95 % confidence limit."""
        spread, noise = self._spread_and_noise()
        return _signal(spread, noise * variance_limit(self.freedom))

    @property
    def most_reliable(self) -> float:
        """The reliability after endless draws; NaN where the errors are not known.

        Below 1 where the test rows leave an error of their own.
        """
        spread, noise = self._spread_and_noise()
        lasting = self._lasting_noise()
        signal = max(spread - noise, 0.0)
        return signal / (signal + lasting) if signal + lasting > 0 else np.nan

    def draws_for(self, reliability: float) -> int | None:
        """About how many draws in total bring `surely_reliable` to this; None if not known."""
        spread, noise = self._spread_and_noise()
        signal = spread - noise
        if not signal > 0 or self.n_draws == 0:
            return None
        lasting = self._lasting_noise()
        n = float(self.n_draws)
        for _ in range(10):  # The limit depends on the number of draws, but only weakly.
            limit = variance_limit(max(self.freedom * n / self.n_draws, 1.0))
            allowed = (1 - reliability) * signal / (limit - (1 - reliability)) - lasting
            if allowed <= 0:
                return None
            n = max((noise - lasting) * self.n_draws / allowed, 1.0)
        return int(np.ceil(n))

    def rank_correlation(self, n_draws: float | None = None) -> float:
        """About Spearman's rank correlation of these values with the true ones.

        It is the rank correlation of the values with themselves plus simulated errors. It tells
        more than the reliability where a few values lie far from all others: then the reliability
        is high while the order of most points is open. With `n_draws`, the rank correlation to
        expect after that many draws. NaN where the errors are not known.
        """
        noise = self._spread_and_noise()[1]
        known = float((self.stderr**2).mean())
        if len(self) < 3 or not np.isfinite(noise):
            return np.nan
        if noise <= 0:
            return 1.0
        # The part of the errors that is common to all points changes no rank, so it is left out.
        size = self.stderr * np.sqrt(noise / known * self.n_draws / (n_draws or self.n_draws))
        rng = np.random.default_rng(0)
        found = [
            spearman(self.values, self.values + rng.normal(size=len(self)) * size)
            for _ in range(max(1, _RANKED // len(self)))
        ]
        return float(np.mean(found))

    def draws_for_ranks(self, correlation: float) -> int | None:
        """About how many draws in total bring `rank_correlation` to this; None if not known."""
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

        A single point has no variance: its square takes that place, which compares it with 0.
        """
        if self.unseen:
            return np.nan, np.nan
        if len(self) == 1:
            return float(self.values[0] ** 2), float(self.stderr[0] ** 2)
        return spread_of(self.values), self._noise()

    def _noise(self) -> float:
        """The mean squared error of a value's difference from the mean of all values."""
        return float((self.stderr**2).mean())

    def _lasting_noise(self) -> float:
        """The part of the noise that more draws would not remove."""
        return 0.0

    def interval(
        self, confidence: float = 0.95, *, simultaneous: bool = False, anytime: bool = False
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of confidence intervals.

        Parameters
        ----------
        confidence
            How often an interval holds its value, in the long run.
        simultaneous
            All intervals hold at once with this confidence, instead of each on its own. The
            quantile is that of the largest error in standard errors, simulated with the Gaussian
            multiplier bootstrap of Chernozhukov, Chetverikov and Kato (2013), so it makes use of
            what the errors have in common. For values that keep their draws.
        anytime
            The intervals hold for all points at once, however often one looks while draws come
            in: an asymptotic confidence sequence (`inference.uncertainty.anytime_quantile`).
        """
        check_confidence(confidence)
        if anytime:
            quantile = anytime_quantile(
                self.n_draws, confidence, n_points=len(self), freedom=self.freedom
            )
        elif simultaneous:
            quantile = self._simultaneous_quantile(confidence)
        else:
            quantile = student_quantile((1 + confidence) / 2, self.freedom)
        half = quantile * self.stderr
        return self.values - half, self.values + half

    def _simultaneous_quantile(self, confidence: float) -> float:
        self._refuse()

    def below_zero(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """Which points have a value below zero, each with this one-sided confidence."""
        check_confidence(confidence)
        half = student_quantile(confidence, self.freedom) * self.stderr
        return np.asarray((self.values + half < 0) & self._error_is_known())

    def _error_is_known(self) -> NDArray[np.bool_]:
        return np.ones(len(self), dtype=bool)

    def noise(self, n: int, *, seed: int = 0) -> Floats:
        """Simulated errors of all values: (n, points)."""
        return np.random.default_rng(seed).normal(size=(n, len(self))) * self.stderr

    def top_probability(self, share: float = 0.1, *, seed: int = 0) -> Floats:
        """The probability that each point is among the most valuable share of these points.

        Empirical Bayes: the true values count as normal about their mean, with the variance that
        the estimates have beyond their errors, and the ranks are simulated from the posterior.
        The part of the errors that is common to all points is left out first.
        """
        return self._probability(self.values, share, seed)

    def bottom_probability(self, share: float = 0.1, *, seed: int = 0) -> Floats:
        """The probability that each point is among the least valuable share of these points."""
        return self._probability(-self.values, share, seed)

    def _probability(self, values: Floats, share: float, seed: int) -> Floats:
        if not 0 < share < 1:
            raise InputError(f"share = {share}: give a share of the points, such as 0.1")
        return top_probability(values, self._error_of_rank(), share, seed=seed)

    def _error_of_rank(self) -> Floats:
        """The standard error of each value's difference from the mean of all values."""
        return self.stderr

    # -- What only values that keep their draws can tell

    def at(self, *, m: int) -> Valuation:
        """The values for data sets of size m' = `m`, from the draws with k <= m'."""
        self._refuse(f"so m stays {self.m}")

    def influences(self) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """The influence of each draw (row) on some points at a time, and which points.

        The square sum over the rows is the variance of a value. The last rows are the influences
        of the folds, or of the groups of test rows, if the errors include them.
        """
        self._refuse()

    def influence(self) -> Floats:
        """The influences on all points as one table: see `influences`."""
        blocks = list(self.influences())
        found = np.empty((len(blocks[0][1]), len(self)))
        for columns, part in blocks:
            found[:, columns] = part
        return found

    def rank_interval(
        self, confidence: float = 0.95
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The best and the worst rank each point may have (1 is the most valuable)."""
        self._refuse()

    @cached_property
    def interpolation(self) -> Interpolation:
        """The model of values behind `predict`, with its held-out R2 and rank correlation."""
        self._refuse()

    def predict(self, X: Any, y: Any = None) -> Prediction:
        """The values of points that were never run, with errors: Algorithm 2's regression.

        `predict(X, y)` or `predict(Points)`. `interpolation` tells how good it is.
        """
        return self.interpolation.predict(X if isinstance(X, Points) else Points(X, y))

    def label_evidence(self) -> LabelEvidence:
        """What the models say of the label of each point that they were not trained on.

        See `inference.label_evidence`. A point with a low probability may be mislabelled.
        """
        if self.draws is None:
            self._refuse()
        return label_evidence(self.draws, self.points)

    def database_error(self, design: Design | None = None) -> DatabaseError:
        """How much the values would differ with another database of the same size."""
        self._refuse()

    def shrunk(self) -> Valuation:
        """Each value moved towards its prediction from the other points (empirical Bayes).

        The mean squared error over the points falls, but single values are biased towards those
        of similar points (see `inference.interpolation.shrunk`). It never happens silently.
        """
        self._refuse()

    def _refuse(self, then: str = "which this needs") -> NoReturn:
        raise InputError(f"these values keep no draws, {then}")

    # -- To other programs

    def to_frame(self, *, ranks: bool = False) -> pd.DataFrame:
        """A data frame by id: value, stderr, and the range of set sizes k they average over.

        For bundles it also has the number of rows and the value per row; where some values are
        predicted, it says which. With `ranks` it has the rank with a 95 % interval, and the
        probabilities of being in the top and in the bottom tenth.
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
        if self.predicted.any():
            columns["predicted"] = self.predicted
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))

    def save(self, path: str | Path) -> None:
        """Write everything but the points' rows to one file: see `Valuation.load`.

        The file is NumPy's `.npz` with JSON inside, without pickle. For values that keep their
        draws it holds these draws too.
        """
        from dshapley.inference.saved import save

        save(self, path)

    @staticmethod
    def load(path: str | Path, *, points: Points | None = None) -> Valuation:
        """The values that `save` wrote.

        Give the `points` again where `predict`, or `at` for partly predicted values, is wanted:
        the file does not hold them.
        """
        from dshapley.inference.saved import load

        return load(path, points=points)


def _with_error(name: object, value: float, stderr: float) -> str:
    """A value with twice its standard error, about half a 95 % confidence interval."""
    shown, reach = number(value, 2 * stderr)
    return f"{name} ({shown} ± {reach})" if np.isfinite(stderr) else f"{name} ({shown})"


def _signal(spread: float, noise: float) -> float:
    """The share of a variance that is not noise; NaN where there is no variance."""
    if not spread > 0:
        return np.nan
    return max(1 - noise / spread, 0.0)
