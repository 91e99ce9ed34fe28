"""Pictures of a comparison: the values of two runs against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dshapley.inference.comparison import Comparison
from dshapley.plots.figure import AWAY, BAD, axes_or_new, name_of, tip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compared"]

_MOST_DOTS = 1500
_MOST_TIPS = 60
"""Only the points that differ most have words and error bars; more of them would not be read."""


def compared(
    comparison: Comparison, *, pair: int = 0, named: bool = True, ax: Axes | None = None
) -> Axes:
    """The values of two runs of a comparison; points that differ beyond the error stand out.

    On the line the standardised values of both runs are equal. Error bars are two standard errors.

    Parameters
    ----------
    pair
        Which pair of runs: a position in `comparison.pairs`.
    named
        Whether the words about the points that stand out have their ids.
    """
    two = comparison.pairs[pair]
    i, j = two.first, two.second
    x, y = comparison.values[i], comparison.values[j]
    ax = axes_or_new(ax, size=(5.2, 5.0))
    rest = np.flatnonzero(~two.differs)
    left_out = max(len(rest) - _MOST_DOTS, 0)
    if left_out:
        rest = np.sort(np.random.default_rng(0).choice(rest, _MOST_DOTS, replace=False))
    ax.plot(x[rest], y[rest], "o", color=AWAY, markersize=3, alpha=0.5)
    apart = two.most_different
    ax.plot(x[apart[_MOST_TIPS:]], y[apart[_MOST_TIPS:]], "o", color=BAD, markersize=3)
    for place in apart[:_MOST_TIPS].tolist():
        name = name_of(comparison.ids[place]) if named else "row"
        text = (
            f"{name}: {x[place]:.3g} in {comparison.names[i]}, "
            f"{y[place]:.3g} in {comparison.names[j]}"
        )
        half = [2 * comparison.stderr[run, place] for run in (i, j)]
        bars = ax.errorbar(
            x[place], y[place], xerr=half[0], yerr=half[1], fmt="o", color=BAD, markersize=4,
            elinewidth=0.8,
        )  # fmt: skip
        tip(bars.lines[0], text)
    slope = two.spreads[1] / two.spreads[0] if min(two.spreads) > 0 else np.nan
    if np.isfinite(slope):
        ends = np.array([x.min(), x.max()])
        line = two.centres[1] + slope * (ends - two.centres[0])
        ax.plot(ends, line, color="0.5", linewidth=1, zorder=1)
        ax.set_ylim(*_with_room(y))
    title = f"rank correlation {two.order.observed:.2f} over {len(comparison):,} rows"
    if left_out:
        title += f", {left_out:,} of them not shown"
    ax.set_title(title, fontsize=9)
    for run, label in ((i, ax.set_xlabel), (j, ax.set_ylabel)):
        name = name_of(comparison.names[run])
        label(f"{name}: value (change of {comparison.metrics[run]})", parse_math=False)
    ax.locator_params(axis="x", nbins=5)
    return ax


def _with_room(values: np.ndarray) -> tuple[float, float]:
    room = 0.05 * float(np.ptp(values)) or 1.0
    return float(values.min()) - room, float(values.max()) + room
