"""The picture of a removal or an addition curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dshapley.baselines.curves import Curve
from dshapley.plots.figure import AWAY, GOOD, axes_or_new, tip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve"]


def curve(
    found: Curve,
    *,
    name: str = "in order of value",
    metric: str = "U",
    action: str = "removed",
    color: str = GOOD,
    ax: Axes | None = None,
) -> Axes:
    """The score as points go, or come, in order of value, beside random orders.

    The band is the 95 % interval of the mean over random orders. Call it again with the same `ax`
    for another order.
    """
    fresh = ax is None or not ax.lines
    ax = axes_or_new(ax)
    percent = 100 * found.fractions
    if fresh and len(found.random):
        mean, reach = found.random_mean, 1.96 * found.random_stderr
        ax.plot(percent, mean, color=AWAY, linewidth=2, linestyle="--", label="random order")
        if np.isfinite(reach).all():
            ax.fill_between(percent, mean - reach, mean + reach, color=AWAY, alpha=0.25, lw=0)
        for x, score, wide in zip(percent, mean, reach, strict=True):
            text = f"random order, {x:.0f} % {action}: {metric} {score:.4g} ± {wide:.2g}"
            tip(ax.plot(x, score, "o", color=AWAY, markersize=4), text)
    tip(ax.plot(percent, found.scores, color=color, linewidth=2, label=name), name)
    for x, score in zip(percent, found.scores, strict=True):
        text = f"{name}, {x:.0f} % {action}: {metric} {score:.4g}"
        tip(ax.plot(x, score, "o", color=color, markersize=5), text)
    ax.set_xlabel(f"rows {action} (% of the training rows)")
    ax.set_ylabel(f"{metric} after retraining")
    ax.legend(frameon=False, fontsize=8)
    return ax
