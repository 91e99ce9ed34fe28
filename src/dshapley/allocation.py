"""Size weights found by a pilot: where a second of computing lowers the error most."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from dshapley.draws import Draws
from dshapley.errors import InputError
from dshapley.points import Floats
from dshapley.sizes import power
from dshapley.valuation import estimate

__all__ = ["Allocation", "Gain", "allocate", "gain"]

_FLOOR = 0.1
"""The share of draws spread as 1/k and uniformly, whatever the pilot says: no size starves."""
_EMPTY = 0.03
"""The least share of draws with k = 1, where S is empty: all alike or nearly, so that a handful
tell all there is, but until there is a handful they count as part of the next sizes, unlike them.
"""
_SMALLEST = 4
"""Below this m there are too few sizes to tell apart."""


@dataclass(frozen=True, eq=False)
class Allocation:
    """Size weights w_k in proportion to spread / sqrt(seconds), with a floor.

    These make variance times cost least: (sum of spread_k^2 / w_k) (sum of w_k seconds_k), as
    `sizes.from_stability` does for the paper's bound, with what was measured in place of beta
    and R.
    """

    weights: Floats
    spread: Floats
    """The fitted standard deviation of a marginal of size k, over the points, with the anchor."""
    seconds: Floats
    """The fitted time of a draw of size k."""
    plain: Floats
    """What it is for independent sizes, Algorithm 1's."""
    unanchored: Floats
    """What it is without the anchor, which a few draws are too few to foresee."""

    @property
    def gain(self) -> float:
        """By how much less time than Algorithm 1 reaches the same error, without the anchor."""
        uniform = (self.plain**2).sum() * self.seconds.sum()
        ours = (self.unanchored**2 / self.weights).sum() * (self.weights * self.seconds).sum()
        return float(uniform / ours)


@dataclass(frozen=True)
class Gain:
    """How many times sooner than uniform, independent sizes a run reaches its error."""

    expected: float | None
    """What the pilot promised of weights and balanced sizes; None without a pilot."""
    obtained: float
    """What the run shows of all it used: weights, balanced sizes, anchor."""


def allocate(draws: Draws) -> Allocation:
    """Size weights from pilot draws.

    The spread of a marginal is that at a given size where estimates are stratified, since what
    lies between sizes adds no error then; else the root of its mean square. Spread and time are
    smooth functions of log k, a quadratic each: the first by a regression with Gamma errors, the
    second by one that a draw held up by other work does not bend.
    """
    if draws.seconds is None:
        raise InputError("these draws have no times, which size weights are found from")
    m, k = draws.m, draws.k.astype(np.float64)
    sizes = np.arange(1.0, m + 1)
    if m < _SMALLEST:
        return Allocation(power(m, 1.0), 1 / sizes, np.ones(m), 1 / sizes, 1 / sizes)
    scaled = draws.marginals * k[:, np.newaxis]  # about as large at every size
    plain = unanchored = spread = np.sqrt(_fitted_squares(*_squares(k, scaled), sizes)) / sizes
    if draws.anchor is not None or draws.stratified:
        unanchored = spread = np.sqrt(_fitted_squares(*_apart(k, scaled), sizes)) / sizes
    if draws.anchor is not None:
        common = np.column_stack([draws.anchor.reference, draws.anchor.controls])
        scaled = _without_controls(scaled, common * k[:, np.newaxis], k)
        anchored = _fitted_squares(*_apart(k, scaled), sizes) / sizes**2
        # Halfway: a few draws show the anchor in too good a light, and until there are many it
        # does less than that.
        spread = np.sqrt((anchored + unanchored**2) / 2)
    seconds = _fitted_seconds(k, draws.seconds, sizes)
    if not spread.any():
        return Allocation(power(m, 1.0), 1 / sizes, seconds, plain, unanchored)
    best = spread / np.sqrt(seconds)
    floor = (power(m, 1.0) + 1 / m) / 2
    weights = (1 - _FLOOR) * best / best.sum() + _FLOOR * floor
    weights[0] = max(weights[0], _EMPTY * weights.sum())
    return Allocation(weights / weights.sum(), spread, seconds, plain, unanchored)


def gain(draws: Draws) -> Gain:
    """What the size weights of a run were expected to gain over uniform ones, and what was gained.

    Obtained is variance times time of Algorithm 1, over that of this run. The former is estimated
    from the same draws, each counted by 1 / (w_k m) to stand for a uniform size. What the anchor
    takes is in the time of both: with few points to value, less is gained than it says.
    """
    if draws.seconds is None or len(draws) < 2:
        raise InputError("the gain is measured on two or more draws with times")
    found = estimate(draws)
    variance = cost = 0.0
    for rows, w in draws.stages(draws.m):
        counts = 1 / (w[draws.k[rows] - 1] * draws.m) / len(draws)
        variance += float(counts @ (draws.marginals[rows].astype(np.float64) ** 2).mean(axis=1))
        cost += float(counts @ draws.seconds[rows])
    variance -= float((found.values**2 - found.stderr**2).mean())
    ours = float((found.stderr**2).mean()) * draws.seconds.sum()
    pilot = None if draws.pilot is None else draws.take(draws.t < draws.pilot.draws)
    expected = None
    if pilot is not None and len(pilot):
        fitted = allocate(pilot)
        expected = replace(fitted, weights=draws.weights).gain
    return Gain(expected, float(variance * cost / ours) if ours > 0 else float("nan"))


def _without_controls(scaled: Floats, controls: Floats, k: Floats) -> Floats:
    """What a regression on the controls leaves, as the anchor will, for small and for large sets.

    For the empty set there are none.
    """
    left = scaled.copy()
    order = np.flatnonzero(k > 1)
    order = order[np.argsort(k[order], kind="stable")]
    for part in np.array_split(order, max(1, len(order) // (4 * controls.shape[1]))):
        x = controls[part] - controls[part].mean(axis=0)
        y = scaled[part] - scaled[part].mean(axis=0)
        fitted = x @ np.linalg.lstsq(x, y, rcond=1e-6)[0]
        # As many degrees of freedom fewer: what is left looks smaller than it will be.
        n, j = len(part), controls.shape[1]
        left[part] = scaled[part].mean(axis=0) + (y - fitted) * np.sqrt(n / max(n - j - 1, 1))
    return left


def _squares(k: Floats, scaled: Floats) -> tuple[Floats, Floats]:
    """Sizes, and the mean square over the points."""
    return k, (scaled**2).mean(axis=1)


def _apart(k: Floats, scaled: Floats) -> tuple[Floats, Floats]:
    """Sizes, and half the mean squared difference of draws of neighbouring sizes.

    For k = 1 S is empty every time, which no neighbour is like.
    """
    order = np.argsort(k, kind="stable")
    k, scaled = k[order], scaled[order]
    alike = (k[1:] == 1) == (k[:-1] == 1)
    squares = (np.diff(scaled, axis=0) ** 2).mean(axis=1) / 2
    return np.sqrt(k[1:] * k[:-1])[alike], squares[alike]


def _fitted_squares(k: Floats, squares: Floats, sizes: Floats) -> Floats:
    """Mean squares as a smooth function of the size; that of k = 1 by itself."""
    from sklearn.linear_model import GammaRegressor

    empty = k == 1
    found = np.zeros(len(sizes))
    if empty.any():
        found[0] = squares[empty].mean()
    rest = squares[~empty]
    if len(rest) == 0 or rest.max() == 0:
        return found
    scale = rest.mean()
    x, targets = _quadratic(k[~empty], sizes[1:])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = GammaRegressor(alpha=1e-3, solver="newton-cholesky").fit(x, rest / scale + 1e-9)
        smooth = fit.predict(targets)
    # Marginals that are 0 but for a few sizes have no smooth spread; then it is the same for all.
    found[1:] = scale * (smooth if np.isfinite(smooth).all() else 1.0)
    return found


def _fitted_seconds(k: Floats, seconds: Floats, sizes: Floats) -> Floats:
    from sklearn.linear_model import HuberRegressor

    x, targets = _quadratic(k, sizes)
    y = np.log(np.maximum(seconds, 1e-9))
    return np.asarray(np.exp(HuberRegressor(max_iter=1000).fit(x, y).predict(targets)))


def _quadratic(k: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Powers of log k, for the draws and for all sizes; beyond the draws as at their ends."""
    inside = np.clip(sizes, k.min(), k.max())
    logs = [np.log(part) for part in (k, inside)]
    middle, width = logs[0].mean(), max(float(logs[0].std()), 1e-9)
    first, second = (np.stack([z, z**2], axis=1) for z in ((x - middle) / width for x in logs))
    return first, second
