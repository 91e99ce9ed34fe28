"""How marginals fall with the size of the set, and what values would be for larger sets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.draws import Draws, Pilot
from dshapley.errors import InputError
from dshapley.points import Array, Floats
from dshapley.sizes import bands, whole_number
from dshapley.valuation import Valuation, estimate

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SizeProfile", "extrapolate", "size_profile"]

_FOLDS = 17
"""Parts of the draws left out in turn; has no divisor in common with the rhythm of the chains."""
_WIDE, _NARROW = 32, 8
"""The power law is fitted to sizes from m / _WIDE on, and from m / _NARROW on to see it bend."""


@dataclass(frozen=True, eq=False)
class SizeProfile:
    """The mean marginal U(S + z) - U(S) of each point, by bands of sizes.

    Attributes
    ----------
    smallest, largest
        The sizes k of each band, ends included.
    n_draws
        How many draws fell into each.
    means, stderr
        A row a band, a column a point; NaN where a band has too few draws.
    exponent
        a of the power law c k^-a, common to all points, that fits the larger sizes best; NaN
        where draws are too few to tell.
    scale
        c of each point.
    ids
        The names of the points.
    """

    smallest: NDArray[np.int64]
    largest: NDArray[np.int64]
    n_draws: NDArray[np.int64]
    means: Floats
    stderr: Floats
    exponent: float
    scale: Floats
    ids: Array

    def to_frame(self) -> pd.DataFrame:
        """One row a point and band: id, k_min, k_max, draws, marginal, stderr."""
        import pandas as pd

        n_bands, n = self.means.shape
        return pd.DataFrame(
            {
                "id": np.tile(self.ids, n_bands),
                "k_min": np.repeat(self.smallest, n),
                "k_max": np.repeat(self.largest, n),
                "draws": np.repeat(self.n_draws, n),
                "marginal": self.means.ravel(),
                "stderr": self.stderr.ravel(),
            }
        )


def size_profile(draws: Draws, *, narrow: bool = False) -> SizeProfile:
    """The mean marginal of each point by bands of sizes, and the power law they follow.

    Within a band, sizes count equally: a draw is divided by the probability of its size in it. The
    exponent minimises the squared distance of all points' means from c_z k^-a, in units of the
    bands' errors, over the sizes from m/32 on (m/8 where `narrow`): small sets follow no power, the
    empty one (k = 1) least of all.
    """
    edges = bands(draws.m)
    pairs = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    found = [_band(draws, a, b) for a, b in pairs]
    means, stderr = (np.stack(part) for part in zip(*(row[:2] for row in found), strict=True))
    counts = np.array([row[2] for row in found])
    smallest, largest = edges[:-1], edges[1:] - 1
    used = (largest >= draws.m / (_NARROW if narrow else _WIDE)) & (counts > 1) & (largest > 1)
    exponent, scale = float("nan"), np.full(len(draws.ids), np.nan)
    if used.sum() > 1:
        where = [pair for pair, use in zip(pairs, used, strict=True) if use]
        exponent, scale = _power_law(where, means[used], stderr[used])
    return SizeProfile(smallest, largest, counts, means, stderr, exponent, scale, draws.ids)


def extrapolate(valuation: Valuation, *, m: int) -> Valuation:
    """The values for data sets of size m' = `m` above those of the run, by the power law.

    nu(z; m') = (m nu(z; m) + sum over k = m+1..m' of c_z k^-a) / m'. The standard error is the
    jackknife's over 17 parts of the draws, so that it has the errors of the value, of c and of a
    together. Two errors of the law itself are added, squared: how much the answer changes where a
    is fitted to the largest sizes only, in case the law bends; and by how much, over the points,
    the same law misses the run's own values when it is made to foresee them from as many times
    smaller sets. It cannot know what lies beyond. A run at m' is the judge.
    """
    if valuation.filled is not None:
        raise InputError("predicted values keep no draws: extrapolate filled.measured instead")
    draws = valuation.draws
    if draws is None:
        raise InputError("these values keep no draws, so there are none for another m")
    if whole_number(m) <= draws.m:
        raise InputError(f"m = {m}: to extrapolate is to a size above the run's {draws.m}")
    whole, profile = _extrapolated(draws, int(m))
    if np.isnan(profile.exponent):
        raise InputError("a power law needs draws of several sizes near m: draw more")
    parts = [_extrapolated(draws.take(draws.t % _FOLDS != i), int(m))[0] for i in range(_FOLDS)]
    spread = np.array(parts) - np.mean(parts, axis=0)
    variance = (spread**2).sum(axis=0) * (_FOLDS - 1) / _FOLDS
    bend = _tail(profile, draws.m, int(m), size_profile(draws, narrow=True).exponent)
    straight = _tail(profile, draws.m, int(m), profile.exponent)
    missed = _missed(draws, m / draws.m) * draws.m / m
    stderr = np.sqrt(variance + ((bend - straight) / m) ** 2 + missed**2)
    return replace(valuation, values=whole, stderr=stderr, m=int(m), terms=None, points=None)


def _extrapolated(draws: Draws, m: int) -> tuple[Floats, SizeProfile]:
    profile = size_profile(draws)
    tail = _tail(profile, draws.m, m, profile.exponent)
    return (draws.m * estimate(draws).values + tail) / m, profile


def _missed(draws: Draws, times: float) -> float:
    """How far off, root mean square, the run's own values are foreseen from smaller sets."""
    m = max(4, round(draws.m / times))
    if m >= draws.m:
        return 0.0
    pilot = draws.pilot and Pilot(draws.pilot.draws, _shares(draws.pilot.weights, m))
    small = replace(
        draws.take(draws.k <= m), weights=_shares(draws.weights, m), pilot=pilot, anchor=None
    )
    foreseen, profile = _extrapolated(small, draws.m)
    if np.isnan(profile.exponent):
        return 0.0
    return float(np.sqrt(((foreseen - estimate(draws).values) ** 2).mean()))


def _shares(weights: Floats, m: int) -> Floats:
    return weights[:m] / weights[:m].sum()


def _tail(profile: SizeProfile, m: int, larger: int, exponent: float) -> Floats:
    """The sum of marginals of sizes above m, if from the last band on they fall like this."""
    a, b = int(profile.smallest[-1]), int(profile.largest[-1]) + 1
    last = profile.scale * _mean_power(a, b, profile.exponent)
    beyond = (np.arange(m + 1.0, larger + 1) ** -exponent).sum()
    return last * beyond / _mean_power(a, b, exponent)


def _band(draws: Draws, a: int, b: int) -> tuple[Floats, Floats, int]:
    """Means and standard errors over the draws with a <= k < b, and how many there are."""
    terms = []
    for rows, w in draws.stages(draws.m):
        here = rows[(draws.k[rows] >= a) & (draws.k[rows] < b)]
        inside = w[a - 1 : b - 1]
        factor = inside.sum() / (w[draws.k[here] - 1] * (b - a))
        terms.append(draws.marginals[here] * factor[:, np.newaxis])
    gains = np.concatenate(terms)
    n = len(gains)
    if n < 2:
        return np.full(gains.shape[1], np.nan), np.full(gains.shape[1], np.nan), n
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(n), n


def _power_law(where: list[tuple[int, int]], means: Floats, stderr: Floats) -> tuple[float, Floats]:
    """The exponent, and the scale of each point, that fit the bands' means best."""
    from scipy.optimize import minimize_scalar

    # No band is known so exactly that the others would not count.
    variance = (stderr**2).mean(axis=1)
    precision = 1 / np.maximum(variance, max(1e-6 * variance.max(), np.finfo(float).tiny))

    def scale(a: float) -> tuple[Floats, Floats]:
        power = np.array([_mean_power(*pair, a) for pair in where])
        return power, (power * precision) @ means / (power**2 @ precision)

    def misfit(a: float) -> float:
        power, c = scale(a)
        return float(precision @ ((means - np.outer(power, c)) ** 2).sum(axis=1))

    a = float(minimize_scalar(misfit, bounds=(0.0, 4.0), method="bounded").x)
    return a, scale(a)[1]


def _mean_power(a: int, b: int, exponent: float) -> float:
    """The mean of k^-exponent over a <= k < b."""
    return float((np.arange(float(a), b) ** -exponent).mean())
