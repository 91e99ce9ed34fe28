"""Figure 3 and supplementary figure 3: do buyers find a seller's values right?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from dshapley.experiments.shared.selling import BUYER, RANDOM, SELLER, Sale, bought
from dshapley.experiments.shared.work import Claim, Rows, Scale, Work
from dshapley.market.buyer_check import Way
from dshapley.plots.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Consistent pricing: a seller's values beside the buyers' own"
PAPER = (
    "The rank correlation of the seller's values and the buyers' is generally high, about 0.6 at "
    "the worst; the absolute percentage error of the whole is low; points added in order of the "
    "seller's values track those added in order of the buyer's own, and considerably outperform "
    "random ones (section 4, Figure 3, Supplementary Figure 3)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.3, "small": 54, "full": 3_000}

AT_WORST, LOW, TRACKING = 0.6, 0.2, 0.5
"""The paper's worst rank correlation, the percentage error that counts as low, and the part of the
gain by the buyer's own order that counts as tracking it."""


@dataclass(frozen=True, kw_only=True)
class Ape:
    """One way to compute the absolute percentage error of the total value of S."""

    text: str
    total: str
    """The column of the seller's total."""
    empty: float
    """The multiple of U(empty) to add to the seller's total, so that U counts from 0.

    Every order starts from the empty set. If U(empty) counted as 0, each value for data sets of n
    rows would be larger by U(empty) / n. For the m points of S, that is U(empty) in all for n = m,
    and half of it for n = 2 m.
    """
    own_empty: float
    """The same for the buyer's total."""

    def of(self, each: Rows) -> tuple[Rows, Rows]:
        """The error for each buyer, and its standard error due to the seller's total."""
        listed = each[self.total] + self.empty * each.empty_score
        own = each.own_total + self.own_empty * each.empty_score
        return (listed - own).abs() / listed.abs(), own / listed**2 * each[f"{self.total}_error"]


APE = (
    Ape(text="values for m (the paper's), U from 0", total="total", empty=1.0, own_empty=0.5),
    Ape(
        text="values for 2 m, the rows of B + S, U from 0",
        total="total_of_both",
        empty=0.5,
        own_empty=0.5,
    ),
    Ape(text="values for 2 m, U from U(empty)", total="total_of_both", empty=0.0, own_empty=0.0),
)

_TASKS = (
    ("covertype", "random forest"),
    ("diabetes130", "AdaBoost"),
    ("pucrio_har", "logistic"),
    ("sensorless_drive", "gradient boosting"),
)
_FEW = Sale("breast_cancer", "logistic", 20, buyers=3, draws=60, permutations=20, n_database=300,
            n_test=100, n_heldout=100, repeats=3, fractions=(0, 0.25, 0.5, 1))  # fmt: skip

_FULL: tuple[tuple[int, int, int, Way], ...] = (
    (100, 2_000, 500, "permutations"),
    (500, 5_000, 5_000, "subsets"),
)

SETTINGS: dict[Scale, tuple[Sale, ...]] = {
    "smoke": (
        _FEW,
        replace(_FEW, data="wine", model="AdaBoost", m=15, n_database=100, n_test=50, n_heldout=28),
    ),
    "small": (
        Sale(*_TASKS[0], 100, buyers=8, draws=1_000, permutations=150),
        Sale(*_TASKS[1], 100, buyers=8, draws=1_000, permutations=120),
        Sale(*_TASKS[2], 100, buyers=8, draws=1_000, permutations=80),
        Sale(*_TASKS[3], 100, buyers=8, draws=600, permutations=60),
        Sale(*_TASKS[0], 500, buyers=5, draws=600, permutations=500, way="subsets"),
        Sale(*_TASKS[1], 500, buyers=5, draws=600, permutations=500, way="subsets"),
        Sale(*_TASKS[2], 500, buyers=5, draws=1_000, permutations=600, way="subsets"),
        Sale(*_TASKS[3], 500, buyers=5, draws=250, permutations=120, way="subsets"),
    ),
    "full": tuple(
        Sale(
            *task,
            m,
            buyers=10,
            draws=draws,
            permutations=n,
            way=way,
            n_test=2_000,
            n_database=40_000,
        )
        for m, draws, n, way in _FULL
        for task in _TASKS
    ),
}
"""At m = 500 buyers use subsets: each marginal of a permutation takes a fit, so the permutations
that are affordable would give values that are mostly noise."""


def run(scale: Scale | Work) -> Rows:
    """The agreement on the values and the accuracy as points are added, by table, m and buyer."""
    import pandas as pd

    work = Work.of(scale)
    parts = []
    for sale in work.choose(SETTINGS):
        prices = cache(partial(sale.prices, work))  # the same list for all buyers
        for i in range(sale.buyers):
            make = partial(bought, sale, prices, i, work)
            found = work.rows(make, "figure3", sale.data, i, repr(sale))
            about = {"data": sale.data, "model": sale.model, "m": sale.m, "buyer": i}
            parts.append(found.assign(**about)[[*about, *found.columns]])
    return pd.concat(parts, ignore_index=True)


def check(rows: Rows) -> list[Claim]:
    """The claims that the seller's values agree with the buyers' in order, in total and in use."""
    found = []
    for (data, model, m), here in rows.groupby(["data", "model", "m"], sort=False):
        name = f"{data}, {model}, m = {m}"
        each = here.groupby("buyer").first()
        r, ceiling = each.rank_correlation, each.ceiling
        inside = here[here.fraction.between(0, 1, inclusive="neither")]
        gain = inside.groupby(["order", "buyer"]).change.mean().unstack("order")
        more = gain.sub(gain[RANDOM], axis=0)
        found += [
            Claim.of(f"{name}: {text}", by.to_numpy())
            for text, by in (
                (f"rank correlation {AT_WORST:g} or more (mean {r.mean():.2f})", r - AT_WORST),
                (
                    f"rank correlation {AT_WORST:g} or more of what errors let through "
                    f"({ceiling.mean():.2f})",
                    r - AT_WORST * ceiling,
                ),
                ("points added by the seller's values beat random ones", more[SELLER]),
                (
                    f"they gain at least {TRACKING:.0%} of what the buyer's own order gains on "
                    "random",
                    more[SELLER] - TRACKING * more[BUYER],
                ),
            )
        ]
        found += [_low_ape(name, way, each) for way in APE]
    return found


def _low_ape(name: str, way: Ape, each: Rows) -> Claim:
    """The claim that the percentage error is low, with the seller's error in its interval."""
    ape, error = way.of(each)
    text = f"{name}: APE at most {LOW:g}, {way.text} (mean {ape.mean():.2f})"
    claim = Claim.of(text, (LOW - ape).to_numpy())
    half = float(np.hypot(claim.high - claim.by, 1.96 * error.mean()))
    return Claim(text=text, by=claim.by, low=claim.by - half, high=claim.by + half)


def plot(rows: Rows) -> Figure:
    """Two panels of rank correlation and APE, and one of point addition for each table and m."""
    sales = list(rows.groupby(["data", "m"], sort=False))
    drawn, axes = new_figure(1 + -(-len(sales) // 2), 2)
    names = [f"{data}, {m}" for (data, m), _ in sales]
    each = [here.groupby("buyer").first() for _, here in sales]
    _points(
        axes[0, 0],
        [(part.rank_correlation, part.ceiling) for part in each],
        ("rank correlation", "what errors let through"),
    )
    _points(
        axes[0, 1],
        [tuple(way.of(part)[0] for way in APE) for part in each],
        [way.text for way in APE],
    )
    for axis in axes[0]:
        axis.set_xticks(range(len(each)), names, fontsize=8, rotation=30, ha="right")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    axes[0, 1].legend(fontsize=8, loc="upper right")
    axes[0, 0].set_ylim(0, 1)
    axes[0, 1].set_yscale("log")
    axes[0, 1].set_ylim(top=200)  # room for the legend
    axes[0, 0].set(title="order: seller's and buyer's values", ylabel="Spearman's correlation")
    axes[0, 1].set(title="worth of all of S", ylabel="absolute percentage error")
    for axis in (axes[0, 0], axes[0, 1]):
        axis.set_xlabel("table and m")
    panels = list(axes[1:].flat)
    for axis, ((data, m), here) in zip(panels, sales, strict=False):
        _added(axis, here)
        axis.set(title=f"{data}, m = {m}", xlabel="fraction of S added to B")
        axis.set_ylabel("change of accuracy")
    for axis in panels[len(sales) :]:
        axis.set_visible(False)
    return drawn


def _points(axis: Axes, parts: list[tuple[Rows, ...]], labels: Sequence[str]) -> None:
    """Means over buyers with standard errors, drawn side by side."""
    for i, label in enumerate(labels):
        shown = [part[i] for part in parts]
        places = np.arange(len(parts)) + 0.12 * (i - (len(labels) - 1) / 2)
        means, errors = [part.mean() for part in shown], [part.sem() for part in shown]
        axis.errorbar(places, means, errors, fmt="o", capsize=3, markersize=4, label=label)


def _added(axis: Axes, rows: Rows) -> None:
    for order, color in ((SELLER, "C0"), (BUYER, "C1"), (RANDOM, "0.45")):
        by_fraction = rows[rows.order == order].groupby("fraction").change
        mean, error = by_fraction.mean(), by_fraction.sem()
        axis.plot(mean.index, mean, color=color, label=order)
        axis.fill_between(
            mean.index, mean - error, mean + error, color=color, alpha=0.15, linewidth=0
        )
    axis.legend(fontsize=8)
