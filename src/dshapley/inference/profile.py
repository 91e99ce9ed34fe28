"""How marginals fall with the size of the set, and an extrapolation of values to larger sets.

Marginals are averaged within bands of sizes, and a power law c_z k^-a is fitted to the means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.metrics import range_of
from dshapley.notebooks import NotebookDisplay
from dshapley.potentials import Potential, seeded
from dshapley.sampling.draws import Draws
from dshapley.sampling.sizes import bands, whole_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FARTHEST", "SizeProfile", "extrapolate", "measured_gain", "size_profile"]

FARTHEST = 3
"""The largest multiple of the run's m that values are extrapolated to; beyond, intervals fail."""

_FOLDS = 17
"""The number of parts of the draws that the jackknife leaves out in turn. It has no divisor in
common with `NESTED_EVERY`, so each part has its share of the draws with nested sets.
"""
_WIDE, _NARROW = 32, 8
"""The power law is fitted to sizes from m / _WIDE on, and from m / _NARROW on to see it bend."""

_OF_TAIL, _OF_LAST = 0.5, 0.25
"""The error of the power law, as shares of what the law adds and of what unchanged marginals would
add: the smallest shares for which 95 % intervals covered at least 90 % in every case of
`benchmarks/beyond.py`.
"""
_MOST_SCALED = 2.0
"""The largest factor by which the law's sums are scaled to a gain; the rest of the gain is shared
equally among the points.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class SizeProfile(NotebookDisplay):
    """The mean marginal U(S + z) - U(S) of each point, by bands of sizes.

    Attributes
    ----------
    smallest, largest
        The sizes k of each band, ends included.
    n_draws
        The number of draws in each band.
    means, stderr
        One row for each band and one column for each point; NaN if a band has too few draws.
    exponent
        a of the power law c k^-a, common to all points, that fits the larger sizes best; NaN if
        there are too few draws.
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
        """One row for each point and band: id, k_min, k_max, draws, marginal, stderr."""
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
    """The mean marginal of each point by bands of sizes, and the power law that the means follow.

    Within a band all sizes count equally, because marginals are divided by the probability of their
    size. The exponent minimises the squared distance of all points' means from c_z k^-a, in units
    of the bands' errors. It is fitted to sizes from m/32 on (m/8 with `narrow`), because small sets
    do not follow a power law, least of all the empty set (k = 1).
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
    return SizeProfile(
        smallest=smallest,
        largest=largest,
        n_draws=counts,
        means=means,
        stderr=stderr,
        exponent=exponent,
        scale=scale,
        ids=draws.ids,
    )


def extrapolate(
    valuation: Valuation, *, m: int, gain: float | tuple[float, float] | None = None
) -> Valuation:
    """The values for data sets of size m' = `m`, at most 3 times those of the run, by a power law.

    nu(z; m') = (m nu(z; m) + sum over k = m+1..m' of c_z k^-a) / m'. For points like those of the
    database, the mean of m' nu(z; m') is the gain E U(B) - U(empty) of data sets B of m' rows. The
    sums are therefore scaled to `gain` if it is given, and otherwise until the gain is within the
    range of the metric. The reference sample, if the run has one, gives the gain of the database
    where the points valued are unlike it.

    The standard error is that of a jackknife over 17 parts of the draws, so it covers the errors of
    the value, of c and of a. The errors of the power law are added in quadrature:

    - how much the result changes if a is fitted to the largest sizes only;
    - the error of the run's own values if they are extrapolated by the same factor from smaller
      sets;
    - half of what the law adds to the point;
    - a quarter of what marginals as large as the last would add to a typical point.

    The last two shares were measured (`benchmarks/beyond.py`). For a certain answer, run at m'.

    Parameters
    ----------
    valuation
        A valuation that keeps its draws.
    m
        The data set size, up to 3 times the run's.
    gain
        E U(B) - U(empty) for data sets B of m' rows, alone or with its standard error: see
        `measured_gain`.
    """
    if not isinstance(valuation, SampledValuation):
        measured = isinstance(valuation.measured, SampledValuation)
        then = ": extrapolate valuation.measured instead" if measured else ""
        raise InputError(f"these values keep no draws to extrapolate from{then}")
    draws = valuation.draws
    if whole_number(m) <= draws.m:
        raise InputError(f"m = {m}: give a size above the run's {draws.m} to extrapolate")
    if m > FARTHEST * draws.m:
        raise InputError(
            f"m = {m} is more than {FARTHEST} times the run's {draws.m}, too far to extrapolate: "
            f"run at m = {m}, or at least at m = {-(-int(m) // FARTHEST)}"
        )
    m = int(m)
    _, profile = _extrapolated(draws, m)
    if np.isnan(profile.exponent):
        raise InputError("a power law needs draws of several sizes near m: make more draws")
    free = _tail(profile, draws.m, m, profile.exponent)
    tail, of_gain = _scaled_to_gain(draws, free, m, gain)
    parts = [_extrapolated(draws.take(draws.t % _FOLDS != i), m)[0] for i in range(_FOLDS)]
    spread = np.array(parts) - np.mean(parts, axis=0)
    variance = (spread**2).sum(axis=0) * (_FOLDS - 1) / _FOLDS
    bend = _tail(profile, draws.m, m, size_profile(draws, narrow=True).exponent) - free
    missed = _missed(draws, m / draws.m) * draws.m
    law = np.hypot(_OF_TAIL * tail, _OF_LAST * _typical(profile) * (m - draws.m))
    stderr = np.sqrt(variance + (bend**2 + missed**2 + law**2 + of_gain**2) / m**2)
    values = (draws.m * estimate(draws).values + tail) / m
    # The spread between folds is taken to be that at the run's m, where it is larger.
    of_folds = valuation.stderr**2 - valuation.of_draws.stderr**2
    stderr = np.sqrt(stderr**2 + of_folds)
    return replace(valuation.without_draws(m=m), values=values, stderr=stderr)


def measured_gain(
    U: Potential, database: Points, m: int, *, draws: int = 20, seed: int = 0
) -> tuple[float, float]:
    """E U(B) - U(empty) over data sets B of m rows of the database, and its standard error.

    >>> from dshapley.potentials import MeanPotential
    >>> database = Points([[-1.0], [1.0]])
    >>> mean, stderr = measured_gain(MeanPotential(database), database, 4, draws=500)
    >>> abs(mean - 0.75) < 4 * stderr
    True
    """
    if draws < 2:
        raise InputError(f"draws = {draws}: a standard error needs at least 2")
    rng = np.random.default_rng(seed)
    empty = float(seeded(U, seed)(database.take([])))
    gains = [
        float(
            seeded(U, int(rng.integers(2**31)))(database.take(rng.integers(len(database), size=m)))
        )
        - empty
        for _ in range(draws)
    ]
    return float(np.mean(gains)), float(np.std(gains, ddof=1) / np.sqrt(draws))


def _scaled_to_gain(
    draws: Draws, tail: Floats, m: int, gain: float | tuple[float, float] | None
) -> tuple[Floats, float]:
    """The sums of marginals beyond the run's m, scaled to the gain; and the error of the gain."""
    before, beyond = _of_database(draws, tail, m)
    if gain is not None:
        known, stderr = gain if isinstance(gain, tuple) else (gain, 0.0)
        if not (np.isfinite(known) and stderr >= 0):
            raise InputError(f"gain = {gain}: give E U(B) - U(empty), a number")
        wanted = known - before
    else:
        bounds, empty = range_of(draws.about.identity.metric), draws.about.identity.empty
        if bounds is None or empty is None:
            return tail, 0.0
        # A gain that is outside the range at the run's m because of errors stays as it is.
        low, high = min(bounds[0] - empty - before, 0.0), max(bounds[1] - empty - before, 0.0)
        wanted, stderr = float(np.clip(beyond, low, high)), 0.0
    factor = float(np.clip(wanted / beyond, 0.0, _MOST_SCALED)) if beyond != 0 else 1.0
    return tail * factor + (wanted - factor * beyond), stderr


def _of_database(draws: Draws, tail: Floats, m: int) -> tuple[float, float]:
    """The gain at the run's m, and what the law adds to it, for points like those of the database.

    They come from the reference sample. Without one, the points valued stand for the database.
    """
    if draws.control_variates is None:
        return float(estimate(draws).values.mean()) * draws.m, float(tail.mean())
    one = replace(
        draws,
        marginals=draws.control_variates.reference[:, np.newaxis].astype(np.float32),
        ids=np.arange(1),
        rows=np.ones(1, np.int64),
        control_variates=None,
        folds=None,
        test_influence=None,
    )
    values, profile = _extrapolated(one, m)
    before = float(estimate(one).values[0]) * draws.m
    beyond = float(values[0]) * m - before
    return before, beyond if np.isfinite(profile.exponent) else float(tail.mean())


def _typical(profile: SizeProfile) -> float:
    """The root mean square over the points of the last band's mean marginals, without noise."""
    means, stderr = profile.means[-1], profile.stderr[-1]
    return float(np.sqrt(max((means**2 - stderr**2).mean(), 0.0)))


def _extrapolated(draws: Draws, m: int) -> tuple[Floats, SizeProfile]:
    profile = size_profile(draws)
    tail = _tail(profile, draws.m, m, profile.exponent)
    return (draws.m * estimate(draws).values + tail) / m, profile


def _missed(draws: Draws, times: float) -> float:
    """The root mean square error of the run's own values, extrapolated from smaller sets."""
    m = max(4, round(draws.m / times))
    if m >= draws.m:
        return 0.0
    weights = draws.weights[:m] / draws.weights[:m].sum()
    small = replace(draws.take(draws.k <= m), weights=weights, control_variates=None)
    foreseen, profile = _extrapolated(small, draws.m)
    if np.isnan(profile.exponent):
        return 0.0
    return float(np.sqrt(((foreseen - estimate(draws).values) ** 2).mean()))


def _tail(profile: SizeProfile, m: int, larger: int, exponent: float) -> Floats:
    """The sum of marginals of sizes above m, if they fall with this exponent from the last band."""
    a, b = int(profile.smallest[-1]), int(profile.largest[-1]) + 1
    last = profile.scale * _mean_power(a, b, profile.exponent)
    beyond = (np.arange(m + 1.0, larger + 1) ** -exponent).sum()
    return last * beyond / _mean_power(a, b, exponent)


def _band(draws: Draws, a: int, b: int) -> tuple[Floats, Floats, int]:
    """The means and standard errors over the draws with a <= k < b, and the number of these draws.

    For cross-fitted points it is the smallest number of draws of any point.
    """
    n_points, fewest, w = draws.marginals.shape[1], len(draws), draws.weights
    means, stderr = np.full(n_points, np.nan), np.full(n_points, np.nan)
    for columns, chosen in draws.parts():
        here = np.flatnonzero(chosen & (draws.k >= a) & (draws.k < b))
        fewest = min(fewest, len(here))
        if len(here) > 1:
            factor = w[a - 1 : b - 1].sum() / (w[draws.k[here] - 1] * (b - a))
            gains = draws.marginals[here][:, columns] * factor[:, np.newaxis]
            means[columns] = gains.mean(axis=0)
            stderr[columns] = gains.std(axis=0, ddof=1) / np.sqrt(len(here))
    return means, stderr, fewest


def _power_law(where: list[tuple[int, int]], means: Floats, stderr: Floats) -> tuple[float, Floats]:
    """The exponent, and the scale of each point, that fit the means of the bands best."""
    from scipy.optimize import minimize_scalar

    # The precision is bounded, so that no band outweighs all others.
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
