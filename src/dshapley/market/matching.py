"""How far a buyer's distribution is from the seller's, by their summaries, and what that may do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dshapley.errors import InputError
from dshapley.formatting import number
from dshapley.market.price_list_file import PriceList
from dshapley.market.summaries import Summary, coarser
from dshapley.sampling.sizes import PerSize
from dshapley.theory.bounds import shift_gap

__all__ = ["Match", "match"]


@dataclass(frozen=True, kw_only=True)
class Match:
    """How far a buyer's distribution is from the seller's, and what that may do to values.

    Attributes
    ----------
    distance
        The sliced Wasserstein distance over its value for a shift by 1: a lower bound of W_1, and
        equal to it where one table is the other, moved.
    stderr
        Its error by the choice of directions.
    noise, noise_high
        What two samples of one distribution, of these sizes, would show: mean and 95 % quantile.
    shift
        How far the means of the columns are apart: the rest is in the labels and in the shape.
    rows
        Of the seller and of the buyer.
    gaps
        For each m: how far a value may move (`bounds.shift_gap`), by the distance as it is, by what
        is beyond the noise, and that in money where a price list says the rate.
    """

    distance: float
    stderr: float
    noise: float
    noise_high: float
    shift: float
    rows: tuple[int, int]
    gaps: tuple[Mapping[str, float], ...] = ()

    @property
    def beyond_noise(self) -> bool:
        """Whether the distance is more than chance would show in 19 of 20 cases."""
        return self.distance > self.noise_high

    @property
    def excess(self) -> float:
        """The distance less what chance shows: both are lengths across each other, so squared."""
        return math.sqrt(max(self.distance**2 - self.noise**2, 0.0))

    def lines(self) -> list[str]:
        """What a person reads of it."""
        distance = " +- ".join(number(self.distance, self.stderr))
        found = [
            f"distance of the tables: {distance} spreads of a column "
            f"({self.rows[0]} rows of the seller's, {self.rows[1]} of yours)",
            f"two samples of one distribution of these sizes would show {self.noise:.2g}, and in "
            f"one case of 20 more than {self.noise_high:.2g}",
        ]
        if self.beyond_noise:
            found.append(
                f"the distributions differ: by {self.excess:.2g} beyond chance (their means by "
                f"{self.shift:.2g})"
            )
        else:
            found.append("no difference of the distributions is to be seen beyond chance")
        for gap in self.gaps:
            money = ""
            if "money" in gap:
                amount, beyond = _rough(gap["money"]), _rough(gap["money_beyond"])
                money = f", so a price by {amount} (beyond chance: {beyond})"
            found.append(
                f"for m = {gap['m']}: a value may be off by {gap['gap']:.2g} (by what is beyond "
                f"chance: {gap['beyond']:.2g}){money}"
            )
        if self.gaps:
            found.append(
                "assumed: U is the same for both sides and Lipschitz stable with the beta given, "
                "and the distance, which is a lower bound of W_1, is all of it"
            )
        return found


def match(
    seller: Summary,
    buyer: Summary,
    *,
    beta: PerSize | None = None,
    m: int | None = None,
    prices: PriceList | None = None,
) -> Match:
    """How far two tables are apart as distributions, from their summaries alone.

    Along each direction the distance is W_1 of the projections' quantiles; its mean over the
    directions is the sliced Wasserstein distance SW. As E |<theta, x>| = c_d ||x|| for a random
    direction theta, SW / c_d <= W_1, with equality where one distribution is the other, moved.
    W_1 itself cannot be had from summaries, so `gaps` rest on SW / c_d being all of it.

    Parameters
    ----------
    seller, buyer
        Summaries; the buyer's made with `like=` the seller's.
    beta
        Lipschitz stability of U in the metric of the summaries (columns in spreads, see
        `summary`): as for `bounds.shift_gap`. With it, how far values may be off.
    m
        The data set size for that; or that of each price on `prices`.
    prices
        A price list: gaps for its sizes, and in money.

    Examples
    --------
    >>> from dshapley.data.points import Points
    >>> from dshapley.market.summaries import summary
    >>> rng = np.random.default_rng(0)
    >>> seller = summary(Points(rng.normal(size=(4000, 3))))
    >>> buyer = summary(Points(rng.normal(size=(4000, 3)) + [1.0, 0.0, 0.0]), like=seller)
    >>> found = match(seller, buyer)
    >>> round(found.distance, 1), found.beyond_noise
    (1.0, True)
    """
    if not _of_one_make(seller, buyer):
        raise InputError(
            "the two summaries are not of one make (columns, scales, classes or directions "
            "differ): make the buyer's with like= the seller's"
        )
    parts = min(seller.means.shape[1], buyer.means.shape[1])
    a, b = (coarser(side.means, parts) for side in (seller, buyer))
    along = np.abs(a - b).mean(axis=1)
    unit = _mean_cosine(_dimension(seller))
    chance = math.sqrt(1 / seller.rows + 1 / buyer.rows) / unit
    noise, high = (max(seller.noise[parts][i], buyer.noise[parts][i]) * chance for i in (0, 1))
    error = float(along.std(ddof=1) / math.sqrt(len(along))) if len(along) > 1 else math.nan
    found = Match(
        distance=float(along.mean()) / unit,
        stderr=error / unit,
        noise=noise,
        noise_high=high,
        shift=float(np.linalg.norm(seller.own_mean - buyer.own_mean)),
        rows=(seller.rows, buyer.rows),
    )
    return replace(found, gaps=tuple(_gaps(found, beta, m, prices)))


def _rough(amount: float) -> str:
    return number(amount, amount / 10)[0]


def _of_one_make(a: Summary, b: Summary) -> bool:
    names = ("columns", "classes", "label", "label_cost", "seed")
    return (
        all(getattr(a, name) == getattr(b, name) for name in names)
        and len(a.means) == len(b.means)
        and np.array_equal(a.mean, b.mean)
        and np.array_equal(a.scale, b.scale)
    )


def _gaps(
    found: Match, beta: PerSize | None, m: int | None, prices: PriceList | None
) -> list[dict[str, float]]:
    if beta is None:
        return []
    if m is None and prices is None:
        raise InputError(
            "how far values may be off depends on the size of data sets: give m or prices"
        )
    sizes = [m] if m is not None else list(prices.terms["m"] if prices is not None else [])
    gaps = []
    for size in sizes:
        gap = {
            "m": size,
            "gap": shift_gap(beta, size, found.distance),
            "beyond": shift_gap(beta, size, found.excess),
        }
        if prices is not None:
            if size not in prices.terms["m"]:
                prices.at(size)  # the error for people
            rate = float(prices.totals.loc[size, "rate"])  # type: ignore[arg-type]
            gap |= {"money": rate * gap["gap"], "money_beyond": rate * gap["beyond"]}
        gaps.append(gap)
    return gaps


def _dimension(one: Summary) -> int:
    labels = 0 if one.classes is None else max(len(one.classes), 1)
    return len(one.columns) + labels


def _mean_cosine(d: int) -> float:
    """c_d = E |theta_1| for a random direction in d dimensions.

    >>> round(_mean_cosine(1), 6), round(_mean_cosine(3), 6)
    (1.0, 0.5)
    """
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
