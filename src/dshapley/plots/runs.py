"""Pictures of a run: values by data set size, and how the errors fall with the draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from dshapley.data.points import Array
from dshapley.errors import InputError, is_whole
from dshapley.formatting import duration
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.plots.figure import (
    BAD,
    GOOD,
    PLAIN,
    axes_or_new,
    log_axis,
    name_of,
    tip,
    value_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["by_size", "convergence"]

_SIZES = 12
_LOOKS = 14
_FIRST_LOOK = 20
_LASTING = 1.1
"""Above this, the error that more draws would leave is too much of all for half of it to go."""


def by_size(
    valuation: Valuation, *, n: int = 2, names: Array | None = None, ax: Axes | None = None
) -> Axes:
    """Values for data sets of fewer rows: the mean of all, and the n highest and lowest.

    All sizes come from the same draws. Bands are 95 % intervals, each on its own. `names` are what
    to call the points in place of their ids.
    """
    measured = _sampled(valuation)
    if not is_whole(n, least=1):
        raise InputError(f"n = {n!r}: show at least one point at each end")
    names = measured.ids if names is None else np.asarray(names)
    if len(names) != len(measured):
        raise InputError(f"names: give one for each of the {len(measured)} points")
    if measured.m < 2:
        raise InputError("values for m = 1 have no smaller data sets")
    sizes = np.unique(np.geomspace(max(2, measured.m // 50), measured.m, _SIZES).astype(int))
    found = [measured.at(m=int(m)) for m in sizes]
    ax = axes_or_new(ax)
    order = np.argsort(-measured.values, kind="stable")
    lines = [(int(i), GOOD) for i in order[:n]] + [(int(i), BAD) for i in order[::-1][:n]]
    ends_of = {GOOD: "highest", BAD: "lowest"}
    for i, color in lines:
        values = np.array([at.values[i] for at in found])
        ends = np.array([[end[i] for end in at.interval()] for at in found])
        name = name_of(names[i])
        known = ends_of.pop(color, None)
        label = None if known is None else f"the {n} {known} (at m = {measured.m:,})"
        tip(ax.plot(sizes, values, color=color, linewidth=1.6, label=label), name)
        ax.fill_between(sizes, ends[:, 0], ends[:, 1], color=color, alpha=0.15, linewidth=0)
    means = np.array([at.values.mean() for at in found])
    ax.plot(sizes, means, color="0.5", linewidth=2, linestyle="--", label="mean of all points")
    for m, mean in zip(sizes.tolist(), means.tolist(), strict=True):
        tip(ax.plot(m, mean, "o", color="0.5", markersize=4), f"m = {m:,}: mean value {mean:.3g}")
    log_axis(ax, "x")
    ax.set_xlabel("data set size m (rows)")
    value_axis(ax, valuation, "y")
    ax.legend(frameon=False, fontsize=8)
    return ax


def convergence(
    valuation: Valuation,
    *,
    what: Literal["error", "reliability"] = "error",
    precision: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How the errors, or the reliability, came along with the draws, and what more would bring.

    `what="error"` shows the largest and the typical standard error. The dotted line continues
    them by 1 / sqrt(draws), as far as draws can lower them. With `precision`, the number of draws
    at which all 95 % intervals are about within ± that.
    """
    measured = _sampled(valuation)
    draws = measured.draws
    first = min(_FIRST_LOOK, len(draws))
    looks = np.unique(np.geomspace(first, len(draws), _LOOKS).astype(int))
    found = [(int(n), estimate(draws.first(int(n)))) for n in looks]
    found = [(n, at) for n, at in found if not at.unseen and np.isfinite(at.stderr).all()]
    if not found:
        raise InputError(f"{len(draws)} draws are too few to show how errors fall")
    ax = axes_or_new(ax)
    n = np.array([n for n, _ in found])
    if what == "reliability":
        known = np.array([at.reliability for _, at in found])
        tip(ax.plot(n, known, color=PLAIN, linewidth=2), "reliability")
        for a, r in zip(n.tolist(), known.tolist(), strict=True):
            tip(ax.plot(a, r, "o", color=PLAIN, markersize=5), f"{a:,} draws: reliability {r:.2f}")
        ax.axhline(0.95, color="0.5", linewidth=1, linestyle=":")
        ax.set_ylim(0, 1.02)
        ax.set_ylabel("reliability (1: no noise in the values)")
    else:
        _errors(ax, measured, n, [at for _, at in found], precision)
    log_axis(ax, "x")
    ax.set_xlabel("draws")
    return ax


def _errors(
    ax: Axes,
    measured: SampledValuation,
    n: np.ndarray,
    found: list[SampledValuation],
    precision: float | None,
) -> None:
    beyond = np.geomspace(n[-1], 8 * n[-1], 12)
    lasting = measured.stderr**2 - measured.of_draws.stderr**2
    for name, color, pick in (("largest", BAD, np.max), ("typical", PLAIN, np.median)):
        errors = [float(pick(at.stderr)) for at in found]
        tip(ax.plot(n, errors, color=color, linewidth=2, label=name), name)
        for a, error in zip(n.tolist(), errors, strict=True):
            text = f"{a:,} draws: {name} standard error {error:.3g}"
            tip(ax.plot(a, error, "o", color=color, markersize=5), text)
        own = measured.of_draws.stderr**2
        ahead = [float(pick(np.sqrt(own * n[-1] / a + lasting))) for a in beyond]
        ax.plot(beyond, ahead, color=color, linewidth=1.4, linestyle=":")
    half = half_the_error(measured)
    if half is not None:
        ax.set_title(half, fontsize=9)
    if precision is not None:
        reach = precision / 1.96
        ax.axhline(reach, color="0.4", linewidth=1)
        ax.annotate(f"± {precision:g}", (n[0], reach), va="bottom", fontsize=8)
    log_axis(ax, "y")
    ax.set_ylabel("standard error of a value")
    ax.legend(frameon=False, fontsize=8)


def half_the_error(valuation: SampledValuation) -> str | None:
    """How many draws half the error takes, and how long; None where draws cannot halve it."""
    seconds = valuation.draws.seconds
    n = 4 * valuation.n_draws
    if valuation.widened > _LASTING:
        return None
    if seconds is None or not len(seconds):
        return f"half the error takes {n:,} draws in all"
    more = float(seconds.sum()) * 3
    return f"half the error takes {n:,} draws in all: {duration(more)} more on one core"


def _sampled(valuation: Valuation) -> SampledValuation:
    measured = valuation.measured
    if not isinstance(measured, SampledValuation):
        raise InputError("these values keep no draws, which this picture shows")
    return measured
