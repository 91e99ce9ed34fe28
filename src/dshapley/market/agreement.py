"""After a sale: does the buyer find the prices right? The paper's rank correlation and APE."""

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
from dshapley.formatting import number
from dshapley.inference.jackknife import Grouped, influence_of_test, parted
from dshapley.inference.uncertainty import check_confidence
from dshapley.inference.valuation import estimate
from dshapley.market.comparison import error_of_sum, influence_of_draws
from dshapley.market.evidence import GROUPS, Evidence, TestRows
from dshapley.market.price_list_file import PriceList
from dshapley.metrics.scorers import is_metric_name
from dshapley.potentials import Potential, describe
from dshapley.running.run import labels_of_test
from dshapley.running.stopping import StopRule
from dshapley.sampling.draws import Draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Verdict", "Way", "check", "check_same_potential"]

Verdict: TypeAlias = Literal["holds", "not shown", "fails"]
Way: TypeAlias = Literal["permutations", "subsets"]
"""How a buyer finds own values: `data_shapley.tmc` or `data_shapley.sampled`."""

_OWN = ("path", "path.reason", "test", "empty", "preprocess.fitted")
"""What may differ between the seller's potential and the buyer's: how it is computed, on which
rows it is scored, the score without any data, which follows from these rows, and what the steps
of a pipeline learned from each side's own database."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Check:
    """What a buyer finds of a price list. Made by `check`.

    Attributes
    ----------
    frame
        By id of each point or bundle bought: `value` and `stderr` of the list, its `price`, `own`
        and `own_stderr`, the buyer's Shapley value within B + S.
    m
        The data set size of the list's values.
    rows
        How many rows the buyer had, and bought.
    rank_correlation
        Spearman's, of the list's values and the buyer's, with its interval over the points.
    ceiling
        The rank correlation that the errors on both sides let through where both agree.
    without_noise
        The rank correlation over that.
    ape
        |sum of values - sum of own| / sum of values (section 4), with its interval.
    ape_stderr
        The standard error of the sum in it, before the absolute value.
    totals, total_errors
        What the list and the buyer's own values say the points are worth together, and errors.
    same_test
        Whether the buyer scores on the seller's test rows. If so, their sampling error is the
        same on both sides and cancels; if not, it is in all intervals, for both sides.
    test_rows
        How many test rows the buyer has, and the seller; None where that is not known.
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
        """Whether the rank correlation without noise is at least `least`."""
        _, low, high = self.without_noise
        if not math.isfinite(low) or self.test_error_unknown:
            return "not shown"
        return "holds" if low >= self.least else "fails" if high < self.least else "not shown"

    @property
    def worth(self) -> Verdict:
        """Whether the absolute percentage error is at most `most`."""
        _, low, high = self.ape
        if not math.isfinite(low) or self.test_error_unknown:
            return "not shown"
        if low > self.most:  # a cut can take from what was bought and give to other rows
            return "not shown" if self.cut else "fails"
        return "holds" if high <= self.most else "not shown"

    @property
    def test_error_unknown(self) -> bool:
        """Whether the two sides' test rows differ and the error of yours cannot be measured."""
        return not self.same_test and self.evidence.test is None

    @property
    def test_rows_needed(self) -> dict[str, int | None]:
        """About how many test rows of the buyer's it takes, at least, to show a right list right.

        If the buyer's rows are like the seller's: what is special in them is not foreseen.

        For "order" and "worth" where they are not shown; None where no number is enough, or it is
        not the test rows that are too few.
        """
        return {name: self.evidence.rows_needed(name, asked) for name, asked in self._open()}

    def _open(self) -> list[tuple[str, float]]:
        """The questions that are not answered, and what is asked."""
        questions = (("order", self.order, self.least), ("worth", self.worth, self.most))
        return [(name, asked) for name, verdict, asked in questions if verdict == "not shown"]

    def lines(self) -> list[str]:
        """The verdict in words, with error bars."""
        what = "bundles" if self.way == "sets" else "points"
        order = {
            "holds": f"the list puts the {what} in the order that you find",
            "fails": f"the list does not put the {what} in the order that you find",
            "not shown": f"whether the order is yours cannot be told from so few {what} and "
            f"{self.way}",
        }
        worth = {
            "holds": "all together are worth to you what the list says",
            "fails": "all together are not worth to you what the list says",
            "not shown": "whether all together are worth what the list says cannot be told within "
            "these errors" + (", or with permutations that are cut" if self.cut else ""),
        }
        told, own = (
            " +- ".join(number(total, error))
            for total, error in zip(self.totals, self.total_errors, strict=True)
        )
        found = [
            f"{len(self.frame)} {what} bought by someone with {self.rows[0]} rows; own values by "
            f"{self.draws} {self.way} of the {sum(self.rows)} rows, the list's for m = "
            f"{self.m}",
            f"order: {_correlation(self.rank_correlation, self.without_noise)}"
            f": {order[self.order]} ({self.least:g} or more is asked)",
            f"worth: the list says {told}, your own values {own}"
            + _percentage(self.ape)
            + f": {worth[self.worth]} ({self.most:.0%} or less is asked)",
        ]
        return found + self._on_test_rows()

    def _on_test_rows(self) -> list[str]:
        """What the test rows do to the verdict, and how many it would take."""
        if self.same_test:
            return []
        if self.test_error_unknown:
            return [
                "test rows: yours are not the seller's, and their error cannot be measured (too "
                "few of them, or this U cannot be scored without some): use the seller's test rows"
            ]
        mine, theirs = self.test_rows
        found = (
            f"test rows: your {mine} are not the seller's "
            + (f"{theirs}" if theirs is not None else "(how many is not known: taken as yours)")
            + "; the error of both is in these intervals"
        )
        return [found, *(self._how_to_tell(*question) for question in self._open())]

    def _how_to_tell(self, question: str, asked: float) -> str:
        needed = self.evidence.rows_needed(question, asked)
        if needed is not None:
            return (
                f"to tell the {question}: at least about {needed} test rows, or the seller's test "
                "rows"
            )
        if self.evidence.on_the_sellers_rows().would_show(question, asked):
            return (
                f"to tell the {question}: the seller's test rows; more of your own are not enough"
            )
        return f"to tell the {question}: more {self.way} (--draws) and more test rows"

    @property
    def verdict(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines())


def check(  # noqa: PLR0913 - a front door: each choice by its own name
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
    """The buyer's own values of the points bought, beside those of the list (section 4).

    The buyer's are data Shapley values within B + S. The list's are those of one draw of B on
    average, so that even a right list differs from them by what is special in B, which is not in
    the intervals: those are of the errors of computing and, where the two sides' test rows
    differ, of test rows.

    Parameters
    ----------
    prices
        The list. One made under another metric or model than U is refused.
    B, bought
        The buyer's own data, and the rows or bundles bought, whose ids are those of the list. A
        bundle comes and goes as one among single rows, of B and of the other bundles.
    U
        The buyer's potential, such as `ds.potential(model, test=...)`. Its test set may be the
        buyer's own.
    m
        Which of the list's data set sizes to compare with; by default the nearest to |B| + |S|.
        The value of a point within n points is that for data sets of size m = n. (The paper
        compares with m = |B| = |S|, where totals agree only if values hardly fall with size.)
    way, draws
        "permutations": TMC-Shapley, as in the paper. "subsets": the same values by
        `data_shapley.sampled`, much sooner where U needs no retraining. And how many of them; for
        bundles, how many sets of rows for each, either way.
    tolerance, patience
        Where a permutation is cut, as for `data_shapley.tmc`. What that takes from all rows behind
        is at most the tolerance, but it may take more from those bought and give it to others: a
        total that is wrong is only told of permutations that are not cut.
    seed, store, n_jobs, progress
        As for `dshapley.run`.
    least, most
        What the verdict asks for: a rank correlation, and an absolute percentage error.
    confidence
        Of the intervals.
    """
    check_confidence(confidence)
    if way not in get_args(Way):
        raise InputError(f"way = {way!r}: permutations or subsets")
    B = as_points(B, name="B")
    sold = bought if isinstance(bought, Bundles) else as_points(bought, name="bought")
    same_test = _same_test(prices, U, check_same_potential(prices, describe(U)))
    sizes = _sizes(sold)
    n = len(B) + int(sizes.sum())
    n_meant = round(n - float(sizes.mean()) + 1)  # a bundle of b rows meets sets of at most n - b
    size = _nearest_size(prices, n_meant) if m is None else m
    listed = _listed(prices, sold, size)
    if m is None and abs(size - n_meant) > 0.1 * n_meant:
        warn(
            f"the list's nearest values are for m = {size}, and {n_meant} would be right for your "
            "rows and those bought: values fall with the size, so that totals differ by that alone"
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
    theirs = total["reliability"]  # None where nobody knows: JSON has no NaN
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
    """Refuse a list made under another potential; else whether the test set is the same too."""
    theirs = prices.terms["potential"]
    if not theirs:
        raise InputError("this list does not say under which potential it was made")
    # Parameters that only one side's version of a package has, and how a known metric is
    # written in one's version, are no difference.
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
        raise InputError(f"the list was made under another potential: {'; '.join(changes[:3])}")
    return bool(theirs.get("test") == mine.get("test"))


def _same_test(prices: PriceList, U: Potential, same: bool) -> bool:
    """Whether both sides score on the same rows, though each may encode them by its own table."""
    labels = prices.terms.get("test_labels")
    return same or (labels is not None and labels == labels_of_test(U))


def _rows_of(U: Potential) -> int | None:
    test = getattr(U, "test", None)
    return len(test) if isinstance(test, Points) else None


def _rows_of_test(terms: Mapping[str, Any]) -> int | None:
    """How many test rows the seller has, from the digest of them: "... (500 rows)"."""
    rows = str(terms.get("test", "")).rpartition("(")[2].partition(" ")[0]
    return int(rows) if rows.isdigit() else None


def _sizes(sold: Points | Bundles) -> Array:
    """How many rows each has."""
    return sold.sizes if isinstance(sold, Bundles) else np.ones(len(sold), dtype=np.int64)


def _nearest_size(prices: PriceList, n: int) -> int:
    return int(min(prices.terms["m"], key=lambda m: (abs(math.log(m / n)), m)))


def _listed(prices: PriceList, sold: Points | Bundles, m: int) -> pd.DataFrame:
    """The list's rows for what was bought, or an error for people."""
    rows, ids = prices.at(m), [str(name) for name in sold.ids]
    names, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"two rows bought have the id {str(names[counts > 1][0])!r}")
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
        hint = "" if isinstance(sold, Bundles) else "; say which rows are one bundle (groups)"
        raise InputError(
            f"{ids[i]!r} is a bundle of {listed['rows'].iloc[i]} rows on the list, and "
            f"{sizes[i]} of it bought{hint}"
        )
    return listed


def _correlation(r: tuple[float, float, float], corrected: tuple[float, float, float]) -> str:
    if not math.isfinite(r[0]):
        return "no rank correlation of fewer than four, or of equal values"
    seen = "rank correlation {:.2f} ({:.2f} to {:.2f})".format(*r)
    if not math.isfinite(corrected[0]):
        return f"{seen}; the errors on either side hide any order"
    best, low, high = corrected
    return f"{seen}; without the noise on both sides about {best:.2f} ({low:.2f} to {high:.2f})"


def _percentage(ape: tuple[float, float, float]) -> str:
    if not all(map(math.isfinite, ape)):
        return ""
    shown = [f"{part:.0%}" if part < 10 else "1000% or more" for part in ape]
    return f", an absolute percentage error of {shown[0]} ({shown[1]} to {shown[2]})"
