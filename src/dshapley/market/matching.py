"""The distance between the seller's and the buyer's data, and how far it can move values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dshapley.errors import InputError
from dshapley.market.price_list_file import PriceList
from dshapley.market.summaries import coarser
from dshapley.market.summary_file import Summary
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.sizes import PerSize
from dshapley.theory.bounds import shift_gap

__all__ = ["Match", "match"]


@dataclass(frozen=True, kw_only=True)
class Match(NotebookDisplay):
    """The distance between the seller's and the buyer's data, as returned by `match`.

    Attributes
    ----------
    distance
        The sliced Wasserstein distance, divided by its value for a shift by 1. It is a lower bound
        of W_1 and equals W_1 if the tables differ only by a shift.
    stderr
        Its standard error due to the choice of directions.
    noise, noise_high
        The distance between two samples of one distribution with these sizes: its mean and 95 %
        quantile.
    shift
        The distance between the means of the columns. What remains of `distance` is in the labels
        and in the shapes of the distributions.
    rows
        The numbers of rows of the seller and of the buyer.
    gaps
        For each m, how far a value may move (`bounds.shift_gap`): `gap` for the distance itself
        and `beyond` for its excess over chance. With a price list, `money` and `money_beyond` are
        the same for prices.
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
        """Whether the distance is larger than chance alone shows in 19 of 20 cases."""
        return self.distance > self.noise_high

    @property
    def excess(self) -> float:
        """The distance without what chance adds to it: independent errors add in quadrature."""
        return math.sqrt(max(self.distance**2 - self.noise**2, 0.0))


def match(
    seller: Summary,
    buyer: Summary,
    *,
    beta: PerSize | None = None,
    m: int | None = None,
    prices: PriceList | None = None,
) -> Match:
    """The distance between two tables as distributions, from their summaries alone.

    Along each direction the distance is W_1 between the projections' quantiles, and its mean over
    the directions is the sliced Wasserstein distance SW. Since E |<theta, x>| = c_d ||x|| for a
    random direction theta, SW / c_d <= W_1, with equality if the distributions differ only by a
    shift. Summaries do not determine W_1 itself, so `gaps` take SW / c_d in its place.

    Parameters
    ----------
    seller, buyer
        Summaries, of which the buyer's was made with `like=` the seller's.
    beta
        The Lipschitz stability of U in the metric of the summaries (columns in spreads, see
        `summary`), as for `bounds.shift_gap`. It is needed for `gaps`.
    m
        The data set size of the gaps [default: each size on `prices`].
    prices
        A price list, whose rates give the gaps in money.

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
    if not _comparable(seller, buyer):
        raise InputError(
            "the summaries cannot be compared, since their columns, scales, classes or directions "
            "differ: make the buyer's with like= the seller's (dshapley publish --like)"
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


def _comparable(a: Summary, b: Summary) -> bool:
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
            "beta: how far values may be off depends on the data set size: give m or prices"
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
                prices.at(size)  # raises an error that names the sizes of the list
            rate = float(prices.totals.loc[size, "rate"])  # type: ignore[arg-type]
            gap |= {"money": rate * gap["gap"], "money_beyond": rate * gap["beyond"]}
        gaps.append(gap)
    return gaps


def _dimension(one: Summary) -> int:
    labels = 0 if one.classes is None else max(len(one.classes), 1)
    return len(one.columns) + labels


def _mean_cosine(d: int) -> float:
    """c_d = E |theta_1| for a random unit vector theta in d dimensions.

    >>> round(_mean_cosine(1), 6), round(_mean_cosine(3), 6)
    (1.0, 0.5)
    """
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
