"""How far two sets of values of the same points agree: their order, with and without the noise.

The correlation of noisy values is lower than that of the true ones. What noise takes is seen from
random halves of the draws: the correlation between the two halves of one run falls short of 1 by
noise alone (Spearman 1904 calls dividing by it the correction for attenuation).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dshapley.data.points import Floats
from dshapley.inference.joint_errors import JointErrors
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.uncertainty import spearman, standard_ranks, student_quantile
from dshapley.inference.valuation import Valuation

__all__ = [
    "FEWEST",
    "HIDDEN",
    "Agreement",
    "agreement",
    "corrected",
    "halves_correlation",
    "influence_of_draws",
    "rank_correlation",
    "reliability",
    "with_interval",
]

HIDDEN = 0.3
"""The least ceiling at which a rank correlation without noise is given."""

_HALVES = 40
"""How often draws are split into random halves."""
_ERRORS = 40
"""How often the errors of both runs are simulated for the interval, each with its opposite."""
_HALVES_EACH = 8
"""How often draws are split for each simulated error."""
FEWEST = 20
"""The least number of draws whose halves are compared."""


class Agreement(NamedTuple):
    """The order of two runs' values of the same points."""

    observed: float
    """Spearman's rank correlation of the values as they are."""
    ceiling: float
    """What it would be if the true values had the same order, given the noise of both runs."""
    without_noise: tuple[float, float, float]
    """The rank correlation of the true values, with its interval; NaN where noise hides it."""
    hidden: str
    """Why it is not given; empty where it is."""


def agreement(
    values: tuple[Floats, Floats],
    errors: JointErrors,
    *,
    freedom: float = math.inf,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """The rank correlation of two runs' values, with and without the noise.

    A half of the first run's draws is compared with the other half of the second run's. No draw is
    in both, so their errors are independent, even if the runs share draws. The correlation is
    divided by the square root of the correlations between both halves of either run:

        r(A1, B2) / sqrt(r(A1, A2) r(B1, B2))

    The interval is that of the errors of the runs, simulated from their influences, on the scale of
    Fisher's z. It is about these points: no other points are spoken for.
    """
    rng = np.random.default_rng(seed)
    observed = spearman(*values)
    moved = errors.simulated(_HALVES, rng, signs=True)
    across, first, second = _halves(values, moved)
    full = [_of_all_draws(r) for r in (first, second)]
    hidden = math.nan, math.nan, math.nan
    if not min(full) > 0 or not math.sqrt(full[0] * full[1]) >= HIDDEN:
        ceiling = math.sqrt(max(full[0], 0.0) * max(full[1], 0.0))
        return Agreement(observed, ceiling, hidden, "the errors hide the order of the values")
    alone = math.sqrt(full[0] * full[1])
    found = across / math.sqrt(first * second)
    ceiling = alone
    if len(errors.shared[0]):
        # Errors that both runs share raise the observed correlation, of runs that agree too.
        ceiling = min(alone + observed - found * alone, 1.0)
    error = _error_of_z(values, errors, moved, alone, rng)
    z, most = _z(found * alone), math.tanh(_MOST_Z)
    x = min(abs(found * alone), most)
    rough = [(1 - r) / r * math.sqrt(2 / freedom) / 2 for r in full]
    error = math.hypot(error, x / (1 - x**2) * math.hypot(*rough))
    reach = student_quantile((1 + confidence) / 2, freedom) * error
    low, high = (min(max(math.tanh(z + s * reach) / alone, -1.0), 1.0) for s in (-1, 1))
    if not high - low < _WIDEST:
        return Agreement(observed, ceiling, hidden, "the errors leave it open")
    return Agreement(observed, ceiling, (min(max(found, -1.0), 1.0), low, high), "")


_WIDEST = 1.0
"""A wider interval says nothing."""
_MOST_Z = 3.0
"""Fisher's z of a correlation that noise has carried to 1 or beyond counts as this."""


def _z(r: float) -> float:
    """Fisher's z of a rank correlation."""
    return math.atanh(min(max(r, -math.tanh(_MOST_Z)), math.tanh(_MOST_Z)))


def _halves(
    values: tuple[Floats, Floats], moved: tuple[Floats, Floats]
) -> tuple[float, float, float]:
    """Mean rank correlations of opposite halves of both runs, and of the halves of each run.

    One half's estimate is as far above that of all draws as the other half's is below it.
    """
    ends = [
        [standard_ranks(value + sign * part) for sign in (1, -1)]
        for value, part in zip(values, moved, strict=True)
    ]
    (up, down), (other_up, other_down) = ends
    across = (up * other_down + down * other_up).sum(axis=1) / 2
    return (
        float(across.mean()),
        float((up * down).sum(axis=1).mean()),
        float((other_up * other_down).sum(axis=1).mean()),
    )


def _error_of_z(
    values: tuple[Floats, Floats],
    errors: JointErrors,
    moved: tuple[Floats, Floats],
    ceiling: float,
    rng: np.random.Generator,
) -> float:
    """The standard error of Fisher's z of the correlation without noise, times the ceiling.

    Half of each simulated error is added and subtracted. Their difference leaves out what more
    noise alone does, which is the same for both.
    """
    some = moved[0][:_HALVES_EACH], moved[1][:_HALVES_EACH]
    changes = []
    for d, e in zip(*errors.simulated(_ERRORS, rng), strict=True):
        ends = []
        for sign in (0.5, -0.5):
            across, first, second = _halves((values[0] + sign * d, values[1] + sign * e), some)
            found = across / math.sqrt(max(first, _LEAST) * max(second, _LEAST))
            ends.append(_z(found * ceiling))
        changes.append(ends[0] - ends[1])
    return float(np.sqrt(np.mean(np.square(changes))))


_LEAST = 0.01
"""A correlation of halves below this is taken to be this, which makes the error large."""


def _of_all_draws(of_halves: float) -> float:
    """The reliability of all draws from that of halves (Spearman and Brown)."""
    return 2 * of_halves / (1 + of_halves) if of_halves > 0 else 0.0


def rank_correlation(
    a: Floats, b: Floats, confidence: float, extra: float = 0.0, freedom: float = math.inf
) -> tuple[float, float, float]:
    """Spearman's rank correlation with its interval.

    It is NaN for fewer than four points, or if all values of one side are equal.


    >>> [round(end, 2) for end in rank_correlation(np.arange(6.0), np.arange(6.0), 0.95)]
    [1.0, 0.62, 1.0]
    """
    r = spearman(a, b)
    if len(a) < 4 or math.isnan(r):
        return math.nan, math.nan, math.nan
    return with_interval(r, len(a), confidence, extra, freedom)


def with_interval(
    r: float, n: int, confidence: float, extra: float = 0.0, freedom: float = math.inf
) -> tuple[float, float, float]:
    """The rank correlation r of n points with the interval of Bonett and Wright (2000).

    `extra` is a variance of Fisher's z that is not due to the choice of points, and `freedom`
    has the degrees of freedom of that variance.
    """
    from scipy.special import ndtri

    # A correlation of 1 has no finite z, so r is limited to half a step below the next possible
    # value, which two swapped neighbours have.
    most = 1 - 6 / (n * (n**2 - 1))
    inside = min(max(r, -most), most)
    p = (1 + confidence) / 2
    of_points = float(ndtri(p)) * math.sqrt((1 + r**2 / 2) / (n - 3))
    half = math.hypot(of_points, student_quantile(p, freedom) * math.sqrt(extra))
    low, high = (math.tanh(math.atanh(inside) + sign * half) for sign in (-1, 1))
    return r, min(low, r), max(high, r)


def reliability(valuation: Valuation) -> float:
    """The rank correlation to expect between these values and those of as many other draws.

    It is the correlation between random halves of the draws, corrected to all draws by the formula
    of Spearman and Brown. Errors that shift or scale all values together do not change ranks, so
    they do not count as noise.
    """
    values = valuation.values
    if not isinstance(valuation, SampledValuation):  # the share of the variance that is not noise
        spread = float(values.var(ddof=1)) if len(values) > 1 else 0.0
        noise = float((valuation.stderr**2).mean())
        return max(1 - noise / spread, 0.0) if spread > 0 else 0.0
    influence = influence_of_draws(valuation)
    return halves_correlation(values, [influence]) if len(influence) >= FEWEST else math.nan


def influence_of_draws(valuation: Valuation) -> Floats:
    """The influence of each draw on each value: (draws, points)."""
    return valuation.influence()


def halves_correlation(values: Floats, influences: list[Floats]) -> float:
    """The reliability of values with errors of these influences; NaN with fewer than 4 points."""
    if len(values) < 4:
        return math.nan
    # The draws of sign +1 are one half. Its estimate is as far above that of all draws as the other
    # half's is below it.
    rng = np.random.default_rng(0)
    moved = np.zeros((_HALVES, len(values)))
    for part in influences:
        moved += rng.choice([-1.0, 1.0], size=(_HALVES, len(part))) @ part
    return _of_all_draws(float(np.mean([spearman(values + d, values - d) for d in moved])))


def corrected(r: tuple[float, float, float], ceiling: float) -> tuple[float, float, float]:
    """The rank correlation divided by its ceiling; NaN if the ceiling is too low."""
    if not ceiling >= HIDDEN:
        return math.nan, math.nan, math.nan
    corrected = [min(max(end / ceiling, -1.0), 1.0) for end in r]
    return corrected[0], corrected[1], corrected[2]
