"""After a sale: does the buyer find the prices right? The paper's rank correlation and APE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dshapley.data_shapley import tmc_draws
from dshapley.errors import InputError, nearest, warn
from dshapley.market.prices import PriceList
from dshapley.metrics import METRICS
from dshapley.points import Array, Floats, Points, as_points
from dshapley.potentials import Potential, describe
from dshapley.stopping import StopRule
from dshapley.uncertainty import check_confidence, stderr_of_differences, student_quantile
from dshapley.valuation import estimate

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Verdict", "check", "check_same_potential"]

Verdict: TypeAlias = Literal["holds", "not shown", "fails"]

_OWN = ("path", "path.reason", "test", "empty")
"""What may differ between the seller's potential and the buyer's: how it is computed, on which
rows it is scored, and the score without any data, which follows from these rows."""
_HIDDEN = 0.3
"""Where noise lets no higher rank correlation through, nothing can be said of the order."""


@dataclass(frozen=True, eq=False)
class Check:
    """What a buyer finds of a price list. Made by `check`.

    Attributes
    ----------
    frame
        By id of each point bought: `value` and `stderr` of the list, its `price`, `own` and
        `own_stderr`, the buyer's TMC-Shapley value within B + S.
    m
        The data set size of the list's values.
    rows
        How many rows the buyer had, and bought.
    rank_correlation
        Spearman's, of the list's values and the buyer's, with its interval over the points.
    ceiling
        The highest rank correlation that the errors on both sides let through.
    without_noise
        The rank correlation over that.
    ape
        |sum of values - sum of own| / sum of values (section 4), with its interval.
    ape_stderr
        The standard error of the sum in it, before the absolute value.
    totals, total_errors
        What the list and the buyer's own values say the points are worth together, and errors.
    same_test
        Whether the buyer scores on the seller's test set.
    """

    frame: pd.DataFrame
    m: int
    rows: tuple[int, int]
    permutations: int
    rank_correlation: tuple[float, float, float]
    ceiling: float
    without_noise: tuple[float, float, float]
    ape: tuple[float, float, float]
    ape_stderr: float
    totals: tuple[float, float]
    total_errors: tuple[float, float]
    same_test: bool
    least: float
    most: float

    @property
    def order(self) -> Verdict:
        """Whether the rank correlation without noise is at least `least`."""
        _, low, high = self.without_noise
        if not math.isfinite(low):
            return "not shown"
        return "holds" if low >= self.least else "fails" if high < self.least else "not shown"

    @property
    def worth(self) -> Verdict:
        """Whether the absolute percentage error is at most `most`."""
        _, low, high = self.ape
        if not math.isfinite(low):
            return "not shown"
        return "holds" if high <= self.most else "fails" if low > self.most else "not shown"

    def lines(self) -> list[str]:
        """The verdict in words, with error bars."""
        r, low, high = self.rank_correlation
        order = {
            "holds": "the list puts the points in the order that you find",
            "fails": "the list does not put the points in the order that you find",
            "not shown": "whether the order is yours cannot be told: more permutations may",
        }
        worth = {
            "holds": "all together are worth to you what the list says",
            "fails": "all together are not worth to you what the list says",
            "not shown": "whether all together are worth what the list says cannot be told: more "
            "permutations may",
        }
        found = [
            f"{len(self.frame)} points bought by someone with {self.rows[0]} rows; own values by "
            f"{self.permutations} permutations of all {sum(self.rows)} rows, the list's for m = "
            f"{self.m}",
            f"order: rank correlation {r:.2f} ({low:.2f} to {high:.2f})"
            + _without_noise(self.without_noise)
            + f": {order[self.order]} ({self.least:g} or more is asked)",
            f"worth: the list says {self.totals[0]:.4g} +- {self.total_errors[0]:.2g}, your own "
            f"values {self.totals[1]:.4g} +- {self.total_errors[1]:.2g}"
            + _percentage(self.ape)
            + f": {worth[self.worth]} ({self.most:.0%} or less is asked)",
        ]
        if not self.same_test:
            found.append(
                "your test rows, or how they are encoded, are not the seller's: that is in the "
                "difference too"
            )
        return found

    @property
    def verdict(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines())


def check(
    prices: PriceList,
    B: Points | tuple[Any, Any],
    bought: Points | tuple[Any, Any],
    *,
    U: Potential,
    m: int | None = None,
    permutations: int | StopRule = 100,
    tolerance: float = 0.01,
    least: float = 0.5,
    most: float = 0.2,
    confidence: float = 0.95,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Check:
    """The buyer's own values of the points bought, beside those of the list (section 4).

    The buyer's are TMC-Shapley values within B + S. The list's are those of one draw of B on
    average, so that even a right list differs from them by what is special in B.

    Parameters
    ----------
    prices
        The list. One made under another metric or model than U is refused.
    B, bought
        The buyer's own data, and the rows bought, whose ids are those of the list.
    U
        The buyer's potential, such as `ds.potential(model, test=...)`. Its test set may be the
        buyer's own.
    m
        Which of the list's data set sizes to compare with; by default the nearest to |B| + |S|.
        The value of a point within n points is that for data sets of size m = n. (The paper
        compares with m = |B| = |S|, where totals agree only if values hardly fall with size.)
    permutations, tolerance, seed, store, n_jobs, progress
        As for `data_shapley.tmc`. What the tolerance may take from the total is in the interval
        of the APE.
    least, most
        What the verdict asks for: a rank correlation, and an absolute percentage error.
    confidence
        Of the intervals.
    """
    check_confidence(confidence)
    B, bought = as_points(B, name="B"), as_points(bought, name="bought")
    same_test = check_same_potential(prices, describe(U))
    size = _nearest_size(prices, len(B) + len(bought)) if m is None else m
    ids = [str(name) for name in bought.ids]
    listed = _listed(prices, ids, size)
    draws = tmc_draws(
        U, B + bought, permutations=permutations, tolerance=tolerance, seed=seed, store=store,
        n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    chosen = np.arange(len(B) + len(bought)) >= len(B)
    own = estimate(draws.points(chosen))
    influence = np.concatenate([part for _, part in own._influences()], axis=1)
    values, stderr = (np.asarray(listed[name], dtype=float) for name in ("value", "stderr"))
    frame = listed[["value", "stderr", "price"]].assign(own=own.values, own_stderr=own.stderr)

    total = next(part for part in prices.terms["totals"] if part["m"] == size)
    sums = float(values.sum()), float(own.values.sum())
    errors = _error_of_sum(stderr, total, len(prices)), float(
        np.sqrt((influence.sum(axis=1) ** 2).sum())
    )  # fmt: skip
    half = student_quantile((1 + confidence) / 2, own._freedom)
    noise = (
        _number(total["error_of_differences"]),
        _rms(stderr_of_differences([influence])),
    )
    r = _rank_correlation(values, own.values, confidence)
    ceiling = _ceiling(values, own.values, noise)
    return Check(
        frame, size, (len(B), len(bought)), len(draws), r, ceiling, _corrected(r, ceiling),
        *_ape(sums, errors, half, tolerance), sums, errors, same_test, least, most,
    )  # fmt: skip


def check_same_potential(prices: PriceList, mine: dict[str, Any]) -> bool:
    """Refuse a list made under another potential; else whether the test set is the same too."""
    theirs = prices.terms["potential"]
    if not theirs:
        raise InputError("this list does not say under which potential it was made")
    # Parameters that only one side's version of a package has, and how a metric of our own is
    # written in one's version, are no difference.
    known = theirs.get("metric") in METRICS
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


def _nearest_size(prices: PriceList, n: int) -> int:
    size = min(prices.terms["m"], key=lambda m: (abs(math.log(m / n)), m))
    if abs(size - n) > 0.1 * n:
        warn(
            f"the list's nearest values are for m = {size}, and you have {n} rows with those "
            "bought: values fall with the size, so that totals differ by that alone"
        )
    return int(size)


def _listed(prices: PriceList, ids: list[str], m: int) -> pd.DataFrame:
    """The list's rows for these ids, or an error for people."""
    rows = prices.at(m)
    names, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"two rows bought have the id {str(names[counts > 1][0])!r}")
    missing = [name for name in ids if name not in rows.index]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(ids)} rows bought are not on the list: there is no "
            f"{missing[0]!r}; {nearest(missing[0], rows.index)}"
        )
    listed = rows.loc[ids]
    if (listed["rows"] != 1).any():
        raise InputError("this list is of bundles; rows bought are checked against a list of rows")
    return listed


def _rank_correlation(a: Floats, b: Floats, confidence: float) -> tuple[float, float, float]:
    """Spearman's, with the interval of Bonett and Wright (2000)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    n = len(a)
    if n < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan, math.nan, math.nan
    r = float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
    inside = min(max(r, -1 + 1e-9), 1 - 1e-9)
    half = float(ndtri((1 + confidence) / 2)) * math.sqrt((1 + r**2 / 2) / (n - 3))
    low, high = (math.tanh(math.atanh(inside) + sign * half) for sign in (-1, 1))
    return r, low, high


def _ceiling(a: Floats, b: Floats, noise: tuple[float, float]) -> float:
    """The rank correlation that errors leave where both sides agree.

    About the correlation of one thing with itself, where these errors are added to either.
    """
    if len(a) < 4:
        return math.nan
    kept = 1.0
    for values, error in zip((a, b), noise, strict=True):
        spread = float(values.var(ddof=1))
        kept *= max(1 - error**2 / spread, 0.0) if spread > 0 else 0.0
    return math.sqrt(kept)


def _corrected(r: tuple[float, float, float], ceiling: float) -> tuple[float, float, float]:
    if not ceiling >= _HIDDEN:
        return math.nan, math.nan, math.nan
    corrected = [min(max(end / ceiling, -1.0), 1.0) for end in r]
    return corrected[0], corrected[1], corrected[2]


def _error_of_sum(stderr: Floats, total: dict[str, Any], offered: int) -> float:
    """The error of the sum of some values of a list: as related as all of the list are on average.

    At most the sum of the errors.
    """
    n, known = len(stderr), total["stderr"]
    if known is None:
        return math.nan
    alone = float((stderr**2).sum())
    if n == offered:
        return float(known)
    own = offered * float(total["error_of_differences"] or 0.0) ** 2
    # The variance of all is that of each on its own, and offered^2 times the common part.
    common = max(float(known) ** 2 - own, 0.0) / offered**2
    return math.sqrt(min(alone + n**2 * common, float(stderr.sum()) ** 2))


def _ape(
    sums: tuple[float, float], errors: tuple[float, float], half: float, tolerance: float
) -> tuple[tuple[float, float, float], float]:
    """The absolute percentage error with its interval, and the error of the signed one."""
    listed, own = sums
    if not listed > 0:
        return (math.nan, math.nan, math.nan), math.nan
    signed = 1 - own / listed
    # Of 1 - own / listed, where both have errors.
    error = math.hypot(errors[1], own / listed * errors[0]) / listed
    reach = half * error + tolerance / listed
    low, high = signed - reach, signed + reach
    nearest_0 = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return (abs(signed), nearest_0, max(abs(low), abs(high))), error


def _without_noise(corrected: tuple[float, float, float]) -> str:
    r, low, high = corrected
    if not math.isfinite(r):
        return "; the errors on either side hide any order"
    return f"; without the noise on both sides about {r:.2f} ({low:.2f} to {high:.2f})"


def _percentage(ape: tuple[float, float, float]) -> str:
    if not math.isfinite(ape[0]):
        return ""
    shown = [f"{part:.0%}" if part < 10 else "1000% or more" for part in ape]
    return f", an absolute percentage error of {shown[0]} ({shown[1]} to {shown[2]})"


def _number(kept: float | None) -> float:
    """JSON has no NaN: a list says null."""
    return math.nan if kept is None else float(kept)


def _rms(errors: Array) -> float:
    return float(np.sqrt((errors**2).mean()))
