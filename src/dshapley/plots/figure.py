"""Axes, colours and words that all pictures share. The only home of matplotlib."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dshapley.data.points import Floats
from dshapley.errors import InputError
from dshapley.inference.valuation import Valuation

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AWAY",
    "BAD",
    "GOOD",
    "MIDDLE",
    "PLAIN",
    "axes_or_new",
    "log_axis",
    "mark_zero",
    "mean_and_reach",
    "name_of",
    "new_figure",
    "shade",
    "tip",
    "unit_of",
    "value_axis",
]

GOOD, BAD, AWAY, PLAIN, MIDDLE = "#0072b2", "#d55e00", "#8a8a8a", "#3b8ea5", "#0b2530"
"""Colours that differ in greyscale, for colour-blind readers, and on light and dark pages."""
_LONGEST = 28
"""Longer names are cut, so that they leave room for the picture."""


def axes_or_new(ax: Axes | None, *, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
    """The given axes, or those of a new figure, made ready for one picture."""
    if ax is None:
        pyplot = _matplotlib("pyplot")
        ax = pyplot.figure(figsize=size, layout="constrained").add_subplot()
    plain_axes([ax])
    return ax


def new_figure(
    n_rows: int, n_columns: int, *, size: tuple[float, float] = (5.2, 3.7), **options: Any
) -> tuple[Figure, Any]:
    """A figure, and its panels as an array of rows; each panel is `size` inches wide and high."""
    figure = _matplotlib("figure").Figure(
        figsize=(size[0] * n_columns, size[1] * n_rows), layout="constrained"
    )
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    plain_axes(axes.flat)
    return figure, axes


def plain_axes(axes: Iterable[Axes]) -> None:
    """A light grid and no frame."""
    for ax in axes:
        ax.grid(alpha=0.25)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)


def shade(at: float) -> tuple[float, ...]:
    """A colour of an even scale from dark (0) to light (1)."""
    return tuple(_matplotlib("colormaps")["viridis"](at))


def mark_zero(ax: Axes, *, axis: str = "x") -> None:
    """A line at zero, where it is within the picture or close to it."""
    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    reach = 0.15 * (high - low)
    if low - reach <= 0 <= high + reach:
        line = ax.axvline if axis == "x" else ax.axhline
        line(0, color="0.5", linewidth=1.2, zorder=1)


def value_axis(
    ax: Axes,
    valuation: Valuation,
    axis: Literal["x", "y"],
    more: str = "",
    *,
    unit: str | None = None,
) -> None:
    """Name the axis of values, mark zero, and leave room between its numbers."""
    mark_zero(ax, axis=axis)
    (ax.set_xlabel if axis == "x" else ax.set_ylabel)(
        f"{unit or unit_of(valuation)}{more}", parse_math=False
    )
    if axis == "x":
        ax.locator_params(axis="x", nbins=5)


def unit_of(valuation: Valuation) -> str:
    """What a value counts, for an axis: the change of the metric."""
    return f"value (change of {valuation.about.identity.metric or 'U'})"


def log_axis(ax: Axes, axis: Literal["x", "y"]) -> None:
    """A logarithmic scale with plain numbers at 1, 2 and 5 of every power of ten."""
    ticker = _matplotlib("ticker")
    (ax.set_xscale if axis == "x" else ax.set_yscale)("log")
    side = ax.xaxis if axis == "x" else ax.yaxis
    side.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    side.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}"))
    side.set_minor_locator(ticker.NullLocator())


def name_of(value: object) -> str:
    """A name on one line, cut if it is long, with a mark for what cannot be printed.

    >>> name_of("a very long name that   nobody can read on an axis")
    'a very long name that nobod…'
    """
    text = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(str(value).split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def tip(artist: Artist | Iterable[Artist], text: str) -> None:
    """Words about one mark, which a report shows where the reader points at it."""
    for part in [artist] if hasattr(artist, "set_gid") else artist:
        part.set_gid(f"tip:{text}")


def mean_and_reach(values: Floats) -> tuple[float, float]:
    """The mean and half its 95 % confidence interval over the rows; NaN for a single row."""
    from scipy import stats

    n = len(values)
    if n < 2:
        return float(np.mean(values)), np.nan
    return float(np.mean(values)), float(stats.sem(values) * stats.t.ppf(0.975, n - 1))


def _matplotlib(part: str) -> Any:
    try:
        import matplotlib
    except ImportError:
        raise InputError("matplotlib is not installed: pip install 'dshapley[plots]'") from None
    if part == "colormaps":
        return matplotlib.colormaps
    import importlib

    return importlib.import_module(f"matplotlib.{part}")
