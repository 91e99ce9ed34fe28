"""The buyer's check after a sale: the list's values beside the buyer's own (section 4).

The paper compares them by their rank correlation and by the absolute percentage error of the total.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from dshapley.baselines.data_shapley import tmc_draws
from dshapley.baselines.subsets import bundle_draws, sampled_draws
from dshapley.data.points import Array, Bundles, Points, as_points
from dshapley.errors import InputError, nearest, warn
from dshapley.inference.agreement import influence_of_draws
from dshapley.inference.jackknife import Grouped, influence_of_test, parted
from dshapley.inference.sampled import estimate
from dshapley.inference.uncertainty import check_confidence
from dshapley.market.check_errors import GROUPS, Evidence, TestRows
from dshapley.market.comparison import error_of_sum
from dshapley.market.price_list_file import PriceList
from dshapley.metrics.scorers import is_metric_name
from dshapley.notebooks import NotebookDisplay
from dshapley.potentials import Potential, describe
from dshapley.running.run import labels_of_test
from dshapley.running.stopping import StopRule
from dshapley.sampling.draws import Draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Verdict", "Way", "check", "check_same_potential"]

Verdict: TypeAlias = Literal["holds", "not shown", "fails"]
Way: TypeAlias = Literal["permutations", "subsets"]
"""How the buyer's values are computed: `data_shapley.tmc` or `data_shapley.sampled`."""

_OWN = ("path", "path.reason", "test", "empty", "preprocess.fitted")
"""The parts of a potential's description in which the two sides may differ.

They are how U is computed, the test rows, U(empty), which follows from the test rows, and what the
steps of a pipeline learned from each side's own database.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Check(NotebookDisplay):
    """How a price list compares with the buyer's own values, as returned by `check`.

    Attributes
    ----------
    frame
        One row for each point or bundle bought, by id. `value`, `stderr` and `price` are from the
        list; `own` and `own_stderr` are the buyer's Shapley value within B + S.
    m
        The data set size that the list's values are for.
    rows
        How many rows the buyer had, and how many were bought.
    draws, way
        How many permutations, subsets or sets the buyer's values come from.
    cut
        Whether permutations were cut, which can bias the total.
    rank_correlation
        Spearman's correlation of the list's values and the buyer's, with its interval over the
        points.
    ceiling
        The rank correlation to expect of two sides that agree, given the errors of both.
    without_noise
        The rank correlation divided by the ceiling, with its interval.
    ape
        |sum of values - sum of own| / sum of values (section 4), with its interval.
    ape_stderr
        The standard error of the APE before its absolute value is taken.
    totals, total_errors
        The sums of the list's values and of the buyer's, and their standard errors.
    same_test
        Whether both sides score on the same test rows. If so, the sampling error of the test rows
        is the same on both sides and cancels. If not, the intervals include it for both sides.
    test_rows
        How many test rows the buyer and the seller have; None if that is not known.
    least, most
        What the verdicts require: the least rank correlation, and the largest APE.
    evidence
        Both sides' values with all that is known about their errors.
    """

    frame: pd.DataFrame
    m: int
    rows: tuple[int, int]
    draws: int
    way: str
    cut: bool
    rank_correlation: tuple[float, float, float]
    ceiling: float
    without_noise: tuple[float, float, float]
    ape: tuple[float, float, float]
    ape_stderr: float
    totals: tuple[float, float]
    total_errors: tuple[float, float]
    same_test: bool
    test_rows: tuple[int | None, int | None]
    least: float
    most: float
    evidence: Evidence

    @property
    def order(self) -> Verdict:
        """Whether the rank correlation without noise is shown to be at least `least`."""
        _, low, high = self.without_noise
        if not math.isfinite(low) or self.test_error_unknown:
            return "not shown"
        return "holds" if low >= self.least else "fails" if high < self.least else "not shown"

    @property
    def worth(self) -> Verdict:
        """Whether the absolute percentage error is shown to be at most `most`."""
        _, low, high = self.ape
        if not math.isfinite(low) or self.test_error_unknown:
            return "not shown"
        if low > self.most:  # a cut can move value from the rows bought to other rows
            return "not shown" if self.cut else "fails"
        return "holds" if high <= self.most else "not shown"

    @property
    def test_error_unknown(self) -> bool:
        """Whether the test rows differ, and the sampling error of the buyer's is not measurable."""
        return not self.same_test and self.evidence.test is None

    @property
    def test_rows_needed(self) -> dict[str, int | None]:
        """About how many test rows the buyer needs, at least, to show that a right list is right.

        There is an entry for "order" and for "worth" if that verdict is "not shown". It is None if
        no number is enough or the number of test rows is not the reason. The number assumes that
        the buyer's data is like the seller's.
        """
        return {name: self.evidence.rows_needed(name, asked) for name, asked in self.open_questions}

    @property
    def open_questions(self) -> list[tuple[str, float]]:
        """The verdicts that are "not shown", each with what it requires."""
        questions = (("order", self.order, self.least), ("worth", self.worth, self.most))
        return [(name, asked) for name, verdict, asked in questions if verdict == "not shown"]


def check(  # noqa: PLR0913 - the public function has one argument for each choice
    prices: PriceList,
    B: Points | tuple[Any, Any],
    bought: Points | Bundles | tuple[Any, Any],
    *,
    U: Potential,
    m: int | None = None,
    way: Way = "permutations",
    draws: int | StopRule = 100,
    tolerance: float = 0.01,
    patience: int = 10,
    least: float = 0.5,
    most: float = 0.2,
    confidence: float = 0.95,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Check:
    """Compare a price list with the buyer's own values of what was bought (section 4).

    The buyer's values are data Shapley values within B + S. The list's values are averages over
    random data sets, so even a right list differs from one buyer's values. The intervals do not
    cover how unusual this B is. They cover Monte Carlo error and, if the two sides' test rows
    differ, the sampling error of test rows.

    Parameters
    ----------
    prices
        The list. It must have been made with the same metric and model as U.
    B, bought
        The buyer's own data, and the rows or bundles bought, with the ids of the list. A bundle is
        valued as one player among single rows: those of B and those of the other bundles.
    U
        The buyer's potential, such as `ds.potential(model, test=...)`. Its test set may be the
        buyer's own.
    m
        Which of the list's data set sizes to compare with [default: the nearest to |B| + |S|].
        The value of a point within n points is that for data sets of size m = n. (The paper
        compares with m = |B| = |S|, where totals agree only if values hardly fall with size.)
    way, draws
        "permutations" is TMC-Shapley, as in the paper. "subsets" finds the same values by
        `data_shapley.sampled`, much sooner if U needs no retraining. `draws` says how many of
        them. Bundles are valued by random sets of rows, whatever `way` says.
    tolerance, patience
        When a permutation is cut, as for `data_shapley.tmc`. A cut takes at most the tolerance
        from all rows behind it together, but it may take more from the rows bought and give it to
        others. So the verdict that a total is wrong is given only if nothing is cut.
    least, most
        What the verdicts require: the least rank correlation, and the largest absolute percentage
        error.
    confidence
        The confidence of the intervals.
    seed, store, n_jobs, progress
        As for `dshapley.run`.
    """
    check_confidence(confidence)
    if way not in get_args(Way):
        raise InputError(f"way = {way!r}: use 'permutations' or 'subsets'")
    B = as_points(B, name="B")
    sold = bought if isinstance(bought, Bundles) else as_points(bought, name="bought")
    same_test = _same_test(prices, U, check_same_potential(prices, describe(U)))
    sizes = _sizes(sold)
    n = len(B) + int(sizes.sum())
    # A bundle of b rows is added to sets of at most n - b rows.
    n_meant = round(n - float(sizes.mean()) + 1)
    size = _nearest_size(prices, n_meant) if m is None else m
    listed = _listed(prices, sold, size)
    if m is None and abs(size - n_meant) > 0.1 * n_meant:
        warn(
            f"the list has no values for m = {n_meant}, the size that fits your rows and those "
            f"bought; m = {size} is the nearest. Values fall with m, so the totals differ for that "
            "reason alone"
        )
    bundles = isinstance(sold, Bundles)
    cut = tolerance > 0 and way == "permutations" and not bundles
    grouped = None if same_test else Grouped.of(U, n_groups=GROUPS)
    asked: Potential = U if grouped is None else grouped
    common: dict[str, Any] = {"seed": seed, "store": store, "n_jobs": n_jobs, "progress": progress}
    if isinstance(sold, Bundles):
        drawn = bundle_draws(asked, B, sold, draws=draws, **common)
    elif way == "subsets":
        drawn = sampled_draws(asked, B + sold, of=np.arange(n) >= len(B), draws=draws, **common)
    else:
        drawn = tmc_draws(
            asked, B + sold, permutations=draws, tolerance=tolerance, patience=patience, **common
        )
        width = drawn.marginals.shape[1] // n
        drawn = drawn.points(np.tile(np.arange(n) >= len(B), width))
    whole, *without = parted(drawn, Draws.none(sold, weights=drawn.weights))
    own = estimate(whole)
    values, stderr = (np.asarray(listed[name], dtype=float) for name in ("value", "stderr"))
    frame = listed[["value", "stderr", "price"]].assign(own=own.values, own_stderr=own.stderr)

    total = next(part for part in prices.terms["totals"] if part["m"] == size)
    own_error, freedom = own.error_of_sum()
    theirs = total["reliability"]  # None if it is not known: JSON has no NaN
    test_rows = (_rows_of(U), _rows_of_test(prices.terms["potential"]))
    test = None
    if without:
        assert test_rows[0] is not None
        test = TestRows(influence_of_test(without), test_rows[0], test_rows[1])
    evidence = Evidence(
        values=values,
        own=own.values,
        draws=influence_of_draws(own),
        reliability=math.nan if theirs is None else theirs,
        errors=(error_of_sum(stderr, total, len(prices)), own_error),
        freedom=freedom,
        tolerance=tolerance if cut else 0.0,
        test=test,
        confidence=confidence,
    )
    r, ceiling, without_noise = evidence.order()
    ape, ape_stderr = evidence.worth()
    return Check(
        frame=frame,
        m=size,
        rows=(len(B), n - len(B)),
        draws=len(drawn),
        way="sets" if bundles else way,
        cut=cut,
        rank_correlation=r,
        ceiling=ceiling,
        without_noise=without_noise,
        ape=ape,
        ape_stderr=ape_stderr,
        totals=(float(values.sum()), float(own.values.sum())),
        total_errors=evidence.total_errors,
        same_test=same_test,
        test_rows=test_rows,
        least=least,
        most=most,
        evidence=evidence,
    )


def check_same_potential(prices: PriceList, mine: dict[str, Any]) -> bool:
    """Whether the test sets are equal; an error if the potentials differ in anything else."""
    theirs = prices.terms["potential"]
    if not theirs:
        raise InputError("the list does not say with which potential it was made: ask the seller")
    # Versions of packages may differ: they can add parameters to an estimator and change how a
    # known metric is written.
    known = is_metric_name(theirs.get("metric"))
    names = [
        name
        for name in dict.fromkeys([*theirs, *mine])
        if name not in _OWN
        and not (known and name == "metric.score")
        and not (name.startswith("estimator.") and (name not in theirs or name not in mine))
    ]
    changes = [
        f"{name} is {theirs.get(name, 'not set')} there and {mine.get(name, 'not set')} here"
        for name in names
        if theirs.get(name) != mine.get(name)
    ]
    if changes:
        raise InputError(f"the list was made with a different potential: {'; '.join(changes[:3])}")
    return bool(theirs.get("test") == mine.get("test"))


def _same_test(prices: PriceList, U: Potential, same: bool) -> bool:
    """Whether both sides score on the same rows, even if each side encodes them differently."""
    labels = prices.terms.get("test_labels")
    return same or (labels is not None and labels == labels_of_test(U))


def _rows_of(U: Potential) -> int | None:
    test = getattr(U, "test", None)
    return len(test) if isinstance(test, Points) else None


def _rows_of_test(terms: Mapping[str, Any]) -> int | None:
    """How many test rows the seller has: their digest ends in "(500 rows)"."""
    rows = str(terms.get("test", "")).rpartition("(")[2].partition(" ")[0]
    return int(rows) if rows.isdigit() else None


def _sizes(sold: Points | Bundles) -> Array:
    """The number of rows of each point or bundle."""
    return sold.sizes if isinstance(sold, Bundles) else np.ones(len(sold), dtype=np.int64)


def _nearest_size(prices: PriceList, n: int) -> int:
    return int(min(prices.terms["m"], key=lambda m: (abs(math.log(m / n)), m)))


def _listed(prices: PriceList, sold: Points | Bundles, m: int) -> pd.DataFrame:
    """The list's rows for what was bought."""
    rows, ids = prices.at(m), [str(name) for name in sold.ids]
    names, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"two of the rows bought have the id {str(names[counts > 1][0])!r}")
    what = "bundles" if isinstance(sold, Bundles) else "rows"
    missing = [name for name in ids if name not in rows.index]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(ids)} {what} bought are not on the list: there is no "
            f"{missing[0]!r}; {nearest(missing[0], rows.index)}"
        )
    listed = rows.loc[ids]
    sizes = _sizes(sold)
    other = np.flatnonzero(listed["rows"].to_numpy() != sizes)
    if len(other):
        i = int(other[0])
        hint = "" if isinstance(sold, Bundles) else "; say which rows form a bundle (groups)"
        raise InputError(
            f"{ids[i]!r} has {listed['rows'].iloc[i]} rows on the list, but {sizes[i]} in what was "
            f"bought{hint}"
        )
    return listed
