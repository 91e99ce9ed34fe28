"""Pictures of values: the best and the worst, their distribution, and what goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats
from dshapley.errors import InputError, is_whole
from dshapley.formatting import number
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation
from dshapley.plots.figure import (
    AWAY,
    BAD,
    GOOD,
    MIDDLE,
    PLAIN,
    axes_or_new,
    mean_and_reach,
    name_of,
    tip,
    value_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["against", "distribution", "extremes"]

_MOST_RANKED = 3e10
"""Rank intervals compare all pairs of points in all draws. Above this number of comparisons, about
five seconds, they are left out.
"""
_MOST_GROUPS = 16
_MOST_DOTS = 3000
_AS_NUMBERS = 12
"""A column of numbers with fewer different ones is shown as categories."""


def extremes(
    valuation: Valuation,
    *,
    n: int = 10,
    confidence: float = 0.95,
    names: Array | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The n highest and the n lowest values with their intervals, and ranks beside them.

    The intervals hold for all points at once where the valuation keeps its draws, otherwise each
    on its own; the axis says which. A rank like "2 to 9" is a 95 % interval too.

    Parameters
    ----------
    n
        How many to show at each end.
    names
        What to call the points in place of their ids.
    """
    if not is_whole(n, least=1):
        raise InputError(f"n = {n!r}: show at least one point at each end")
    names = valuation.ids if names is None else _one_each(valuation, names, "names")
    order = np.argsort(-valuation.values, kind="stable")
    shown = order if len(order) <= 2 * n else np.r_[order[:n], order[-n:]]
    low, high, how = _intervals(valuation, confidence)
    ranks = _ranks(valuation, confidence)
    ax = axes_or_new(ax, size=(6.8, 1.2 + 0.26 * (len(shown) + 1)))
    gap = len(shown) < len(order)
    places = np.arange(len(shown)) + (np.arange(len(shown)) >= n) * gap
    best = np.argsort(order, kind="stable") + 1
    for place, i in zip(places.tolist(), shown.tolist(), strict=True):
        color = BAD if high[i] < 0 else GOOD if low[i] > 0 else AWAY
        shown_value, reach = number(float(valuation.values[i]), float(high[i] - low[i]) / 2)
        text = f"{name_of(names[i])}: {shown_value} ± {reach}, rank {best[i]} of {len(order)}"
        if np.isfinite(low[i]):
            tip(ax.plot([low[i], high[i]], [place, place], color=color, linewidth=2.2), text)
        tip(ax.plot(valuation.values[i], place, "o", color=color, markersize=6), text)
        if ranks is not None:
            a, b = int(ranks[0][i]), int(ranks[1][i])
            ax.annotate(
                f"{a:,}" if a == b else f"{a:,} to {b:,}",
                (1.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
            )
    if ranks is not None:
        ax.annotate("rank", (1.01, -1), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    ax.set_yticks(places, [name_of(names[i]) for i in shown], parse_math=False)
    if gap:
        ax.annotate(
            f"... {len(order) - len(shown):,} others ...", (0.5, n),
            xycoords=("axes fraction", "data"), ha="center", va="center", fontsize=8,
        )  # fmt: skip
    ax.set_ylim(places[-1] + 0.8, -1.6)
    ax.grid(visible=False, axis="y")
    value_axis(ax, valuation, "x", f", {confidence:.0%} intervals, {how}")
    return ax


def _intervals(valuation: Valuation, confidence: float) -> tuple[Floats, Floats, str]:
    """Intervals for all points at once, if there can be such, and which kind they are."""
    if isinstance(valuation, SampledValuation) and not valuation.unseen:
        return *valuation.interval(confidence, simultaneous=True), "all at once"
    return *valuation.interval(confidence), "each on its own"


def _ranks(
    valuation: Valuation, confidence: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    if not isinstance(valuation, SampledValuation) or valuation.unseen:
        return None
    if len(valuation) ** 2 * valuation.n_draws > _MOST_RANKED:
        return None
    return valuation.rank_interval(confidence)


def distribution(
    valuation: Valuation,
    *,
    by: Any = None,
    name: str = "",
    unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How the values are spread, with zero marked; by class or group where `by` is given.

    Without `by` a histogram. With `by`, one label for each point, a box for each group: the
    middle half of its values, the middle line, and whiskers to the 5th and 95th percentile. `unit`
    is what the axis of values says.
    """
    if by is None:
        return _histogram(valuation, axes_or_new(ax), unit)
    labels = _one_each(valuation, by, "by")
    groups = {label: valuation.values[where] for label, where in _groups(labels)}
    chosen = sorted(groups, key=lambda label: -float(np.median(groups[label])))
    ax = axes_or_new(ax, size=(6.4, 1.2 + 0.33 * len(chosen)))
    _boxes(ax, [(label, groups[label]) for label in chosen])
    value_axis(ax, valuation, "x", unit=unit)
    ax.set_ylabel(name_of(name), parse_math=False)
    return ax


def _histogram(valuation: Valuation, ax: Axes, unit: str | None) -> Axes:
    low, high = np.quantile(valuation.values, [0.002, 0.998])
    inside = np.clip(valuation.values, low, high)
    counts, edges = np.histogram(inside, bins=min(40, max(5, len(inside) // 5)))
    for count, a, b in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        color = BAD if b <= 0 else GOOD if a >= 0 else AWAY
        bar = ax.bar(a, count, width=b - a, align="edge", color=color, edgecolor="none")
        ends = f"from {a:.3g} to {b:.3g}"
        if a == edges[0] and low > valuation.values.min():
            ends = f"of {b:.3g} or less"
        elif b == edges[-1] and high < valuation.values.max():
            ends = f"of {a:.3g} or more"
        tip(bar, f"{count:,} values {ends}")
    below = float((valuation.values < 0).mean())
    value_axis(ax, valuation, "x", unit=unit)
    ax.set_title(f"{below:.0%} of the values are below zero (before their errors)", fontsize=9)
    ax.set_ylabel("points" if (valuation.rows == 1).all() else "bundles")
    return ax


def against(
    valuation: Valuation,
    feature: Any,
    *,
    name: str = "feature",
    unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Values against a column: means of ten equal groups for numbers, boxes for categories.

    The intervals are for the mean over rows like these (95 %). An error that all values share is
    not in them. `unit` is what the axis of values says.
    """
    column = _one_each(valuation, feature, "feature")
    numbers = _numbers(column)
    if numbers is None:
        return distribution(valuation, by=column, name=name_of(name), unit=unit, ax=ax)
    ax = axes_or_new(ax)
    _binned(ax, valuation, numbers, name)
    value_axis(ax, valuation, "y", unit=unit)
    ax.set_xlabel(name_of(name), parse_math=False)
    return ax


def _binned(ax: Axes, valuation: Valuation, column: Floats, name: str) -> None:
    known = np.isfinite(column)
    edges = np.unique(np.quantile(column[known], np.linspace(0, 1, 11)))
    place = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, len(edges) - 2)
    for i in range(len(edges) - 1):
        inside = known & (place == i)
        if not inside.any():
            continue
        x, (mean, reach) = float(column[inside].mean()), mean_and_reach(valuation.values[inside])
        text = (
            f"{name_of(name)} {edges[i]:.4g} to {edges[i + 1]:.4g}: mean value {mean:.3g} ± "
            f"{reach:.2g}, {inside.sum():,} rows"
        )
        if np.isfinite(reach):
            tip(ax.plot([x, x], [mean - reach, mean + reach], color=PLAIN, linewidth=2), text)
        tip(ax.plot(x, mean, "o", color=PLAIN, markersize=7), text)


def _boxes(ax: Axes, groups: list[tuple[object, Floats]]) -> None:
    """Boxes with the middle half, the median, and the 5th to the 95th percentile."""
    for place, (label, values) in enumerate(groups):
        ends = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        text = (
            f"{name_of(label)}: median {ends[2]:.3g}, half of them from {ends[1]:.3g} to "
            f"{ends[3]:.3g}, {len(values):,} points"
        )
        tip(ax.plot([ends[0], ends[4]], [place, place], color=AWAY, linewidth=1.4), text)
        tip(ax.barh(place, ends[3] - ends[1], 0.6, left=ends[1], color=PLAIN), text)
        middle = [place - 0.3, place + 0.3]
        ax.plot([ends[2], ends[2]], middle, color=MIDDLE, linewidth=2.4)
    names = [f"{name_of(label)} ({len(values):,})" for label, values in groups]
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")


def _one_each(valuation: Valuation, column: Any, name: str) -> Array:
    found = np.asarray(column)
    if found.shape != (len(valuation),):
        raise InputError(
            f"{name}: give one entry for each of the {len(valuation)} points; it has {found.shape}"
        )
    return found


def _numbers(column: Array) -> Floats | None:
    """The column as numbers, NaN where it has none; None for text, dates and few different numbers.

    Text of digits stays text: it may be a postcode.
    """
    if column.dtype.kind not in "biufO":
        return None
    if column.dtype.kind == "O":
        import pandas as pd

        known = ~np.asarray(pd.isna(column))
        if not all(isinstance(x, int | float | np.number) for x in column[known].tolist()):
            return None
        column = np.where(known, column, np.nan)
    found = column.astype(np.float64)
    found[~np.isfinite(found)] = np.nan
    known = ~np.isnan(found)
    return found if len(np.unique(found[known])) >= _AS_NUMBERS else None


def explained_by(valuation: Valuation, column: Any) -> float:
    """The share of the variance of the values between ten bins, or categories, of a column.

    Adjusted for the number of groups, so that a column of chance is about 0.
    """
    found = _one_each(valuation, column, "column")
    numbers = _numbers(found)
    if numbers is None:
        names, place = np.unique(_as_text(found), return_inverse=True)
    else:
        edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, 11)))
        place = np.searchsorted(edges[1:-1], numbers, side="right")
        place[np.isnan(numbers)] = len(edges)  # missing numbers are a group of their own
        names = np.arange(len(edges) + 1)
    n, groups = len(found), len(np.unique(place))
    if groups < 2 or groups > n // 2 or np.ptp(valuation.values) == 0:
        return 0.0
    counts = np.bincount(place, minlength=len(names))
    sums = np.bincount(place, weights=valuation.values, minlength=len(names))
    means = sums / np.maximum(counts, 1)
    within = float(((valuation.values - means[place]) ** 2).sum()) / (n - groups)
    return max(0.0, 1 - within / float(valuation.values.var(ddof=1)))


def categories_of(column: Any) -> int | None:
    """The number of boxes that `against` draws for a column; None for a column of numbers."""
    found = np.asarray(column)
    if _numbers(found) is not None:
        return None
    return min(len(np.unique(_as_text(found))), _MOST_GROUPS)


def _as_text(labels: Array) -> Array:
    import pandas as pd

    missing = np.asarray(pd.isna(labels))
    named = ["missing" if gone else str(x) for x, gone in zip(labels, missing, strict=True)]
    return np.array(named)


def _groups(labels: Array) -> list[tuple[object, NDArray[np.bool_]]]:
    """The groups with the most points, and which points these are; missing labels are a group."""
    text = _as_text(labels)
    names, counts = np.unique(text, return_counts=True)
    chosen = names[np.argsort(-counts, kind="stable")[:_MOST_GROUPS]]
    return [(name, text == name) for name in chosen.tolist()]
