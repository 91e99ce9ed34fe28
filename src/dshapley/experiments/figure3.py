"""Figure 3 and supplementary figure 3: do buyers find a seller's values right?"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from dshapley.experiments.selling import BUYER, RANDOM, SELLER, Sale, bought
from dshapley.experiments.work import Claim, Rows, Scale, Work
from dshapley.plots import new_figure

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
MINUTES: dict[Scale, float] = {"smoke": 0.3, "small": 40, "full": 3_000}

AT_WORST, LOW, TRACKING = 0.6, 0.2, 0.5
"""The paper's rank correlation at the worst; what is taken for a low percentage error; which part
of the gain by the buyer's own order counts as tracking it."""


_TASKS = (
    ("covertype", "random forest"),
    ("diabetes130", "AdaBoost"),
    ("pucrio_har", "logistic"),
    ("sensorless_drive", "gradient boosting"),
)
_FEW = Sale("breast_cancer", "logistic", 20, buyers=3, draws=60, permutations=8, n_database=300,
            n_test=100, n_heldout=100, repeats=3, fractions=(0, 0.25, 0.5, 1))  # fmt: skip

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
    ),
    "full": tuple(
        Sale(*task, m, buyers=10, draws=2_000, permutations=500, n_test=2_000, n_database=40_000)
        for task in _TASKS
        for m in (100, 500)
    ),
}


def run(scale: Scale | Work) -> Rows:
    """By table, m and buyer: agreement on the values, and accuracy as points are added."""
    import pandas as pd

    work = Work.of(scale)
    parts = []
    for sale in work.choose(SETTINGS):
        prices = cache(partial(sale.prices, work))  # one list for all buyers
        for i in range(sale.buyers):
            make = partial(bought, sale, prices, i, work)
            found = work.rows(make, "figure3", sale.data, i, repr(sale))
            about = {"data": sale.data, "model": sale.model, "m": sale.m, "buyer": i}
            parts.append(found.assign(**about)[[*about, *found.columns]])
    return pd.concat(parts, ignore_index=True)


def check(rows: Rows) -> list[Claim]:
    """The seller's values are in the buyers' order and of their size, and are good to add by."""
    found = []
    for (data, model, m), here in rows.groupby(["data", "model", "m"], sort=False):
        name = f"{data}, {model}, m = {m}"
        each = here.groupby("buyer").first()
        r, ceiling = each.rank_correlation, each.ceiling
        inside = here[here.fraction.between(0, 1, inclusive="neither")]
        gain = inside.groupby(["order", "buyer"]).change.mean().unstack("order")
        more = gain.sub(gain[RANDOM], axis=0)
        for text, by in (
            (f"rank correlation above 0 (mean {r.mean():.2f})", r),
            (f"rank correlation {AT_WORST:g} or more (mean {r.mean():.2f})", r - AT_WORST),
            (
                f"rank correlation {AT_WORST:g} or more of what errors let through "
                f"({ceiling.mean():.2f})",
                r - AT_WORST * ceiling,
            ),
            (f"APE at most {LOW:g}, values for m (mean {each.ape.mean():.2f})", LOW - each.ape),
            (
                f"APE at most {LOW:g}, values for 2 m, the rows of B + S "
                f"(mean {each.ape_of_both.mean():.2f})",
                LOW - each.ape_of_both,
            ),
            ("points added by the seller's values beat random ones", more[SELLER]),
            (
                f"they gain at least {TRACKING:.0%} of what the buyer's own order gains on random",
                more[SELLER] - TRACKING * more[BUYER],
            ),
        ):
            found.append(Claim.of(f"{name}: {text}", by.to_numpy()))
    return found


def plot(rows: Rows) -> Figure:
    """Rank correlation and APE; then a panel of point addition for each table and m."""
    sales = list(rows.groupby(["data", "m"], sort=False))
    drawn, axes = new_figure(1 + -(-len(sales) // 2), 2)
    names = [f"{data}\nm = {m}" for (data, m), _ in sales]
    each = [here.groupby("buyer").first() for _, here in sales]
    columns = (
        (
            axes[0, 0],
            {"rank_correlation": "rank correlation", "ceiling": "what errors let through"},
        ),
        (axes[0, 1], {"ape": "values for m (the paper's)", "ape_of_both": "values for 2 m"}),
    )
    for axis, shown in columns:
        for column, label in shown.items():
            means = [part[column].mean() for part in each]
            errors = [part[column].sem() for part in each]
            axis.errorbar(range(len(each)), means, errors, fmt="o", capsize=3, label=label)
        axis.set_xticks(range(len(each)), names, fontsize=7)
        axis.axhline(0, color="0.6", linewidth=0.8)
        axis.legend(fontsize=8)
    axes[0, 0].set(title="order: seller's and buyer's values", ylabel="Spearman's correlation")
    axes[0, 1].set(title="worth of all of S", ylabel="absolute percentage error")
    for axis in (axes[0, 0], axes[0, 1]):
        axis.set_xlabel("table and rows of buyer and offer")
    panels = list(axes[1:].flat)
    for axis, ((data, m), here) in zip(panels, sales, strict=False):
        _added(axis, here)
        axis.set(title=f"{data}, m = {m}", xlabel="fraction of S added to B")
        axis.set_ylabel("change of accuracy")
    for axis in panels[len(sales) :]:
        axis.set_visible(False)
    return drawn


def _added(axis: Axes, rows: Rows) -> None:
    for order, color in ((SELLER, "C0"), (BUYER, "C1"), (RANDOM, "0.45")):
        by_fraction = rows[rows.order == order].groupby("fraction").change
        mean, error = by_fraction.mean(), by_fraction.sem()
        axis.plot(mean.index, mean, color=color, label=order)
        axis.fill_between(
            mean.index, mean - error, mean + error, color=color, alpha=0.15, linewidth=0
        )
    axis.legend(fontsize=8)
