"""Pictures of a sale: prices with their intervals, and the seller beside the buyer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dshapley.errors import InputError
from dshapley.formatting import number
from dshapley.market.buyer_check import Check
from dshapley.market.price_list_file import PriceList
from dshapley.plots.figure import AWAY, PLAIN, axes_or_new, mark_zero, name_of, tip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["prices", "seller_and_buyer"]


def prices(listed: PriceList, *, m: int | None = None, n: int = 10, ax: Axes | None = None) -> Axes:
    """The n highest and the n lowest prices of a list, with their intervals."""
    m = int(listed.terms["m"][0]) if m is None else m
    frame = listed.at(m).sort_values("price", ascending=False, kind="stable")
    if n < 1:
        raise InputError(f"n = {n}: show at least one price at each end")
    shown = np.arange(len(frame))
    gap = len(frame) > 2 * n
    if gap:
        shown = np.r_[shown[:n], shown[-n:]]
    places = np.arange(len(shown)) + (np.arange(len(shown)) >= n) * gap
    ax = axes_or_new(ax, size=(6.4, 1.2 + 0.26 * (len(shown) + 1)))
    columns = (frame[name].to_numpy() for name in ("price", "price_low", "price_high"))
    price, low, high = (column[shown] for column in columns)
    ids = frame.index.to_numpy()[shown]
    for place, name, at, a, b in zip(places, ids, price, low, high, strict=True):
        said, reach = number(float(at), float(b - a) / 2)
        text = f"{name_of(name)}: {said} ± {reach}"
        if np.isfinite([a, b]).all():
            tip(ax.plot([a, b], [place, place], color=PLAIN, linewidth=2.2), text)
        tip(ax.plot(at, place, "o", color=PLAIN, markersize=6), text)
    if gap:
        ax.annotate(
            f"... {len(frame) - 2 * n:,} others ...", (0.5, n),
            xycoords=("axes fraction", "data"), ha="center", va="center", fontsize=8,
        )  # fmt: skip
    ax.set_yticks(places, [name_of(name) for name in ids], parse_math=False)
    ax.set_ylim(places[-1] + 0.8, -0.8)
    ax.grid(visible=False, axis="y")
    mark_zero(ax)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(f"price for buyers with data sets of {m:,} rows, with its interval")
    return ax


def seller_and_buyer(check: Check, *, ax: Axes | None = None) -> Axes:
    """The list's value of each point bought against the buyer's own value of it."""
    frame = check.frame
    ax = axes_or_new(ax, size=(5.2, 4.8))
    ax.errorbar(
        frame["value"], frame["own"], xerr=2 * frame["stderr"], yerr=2 * frame["own_stderr"],
        fmt="none", ecolor=AWAY, elinewidth=0.6, alpha=0.7,
    )  # fmt: skip
    dots = zip(frame.index, frame["value"], frame["own"], strict=True)
    for name, value, own in dots if len(frame) <= 300 else ():
        text = f"{name_of(name)}: list {value:.3g}, own {own:.3g}"
        tip(ax.plot(value, own, "o", color=PLAIN, markersize=4), text)
    if len(frame) > 300:
        ax.plot(frame["value"], frame["own"], "o", color=PLAIN, markersize=3)
    r, low, high = check.rank_correlation
    ax.set_title(f"rank correlation {r:.2f} ({low:.2f} to {high:.2f})", fontsize=9)
    ax.set_xlabel(f"value in the price list (m = {check.m:,})")
    ax.set_ylabel("the buyer's own value, within B + S")
    return ax
