"""Prices of all points at one data set size: by a rate or a budget, errors carried through."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshapley.data.points import Floats
from dshapley.errors import InputError, warn
from dshapley.inference.uncertainty import stderr_of_differences, student_quantile
from dshapley.inference.valuation import Valuation
from dshapley.market.comparison import reliability

__all__ = ["Prices", "plain", "prices_at"]

_KINK = 1 / (math.sqrt(2) - 1)
"""Errors lift the mean of max(v, 0). Taken from estimates, that lift comes out too small, by this
factor where v is 0 and less elsewhere: E max(X, 0) of normals of variance 2 and 1."""

_UNSURE = 0.5
"""Beyond this share of the rate, its interval is no longer as a straight line says."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of all points at one size, and of them together."""

    price: Floats
    low: Floats
    high: Floats
    rate: tuple[float, float, float]
    price_total: tuple[float, float, float]
    value_total: tuple[float, float, float, float]
    """With its standard error, second."""
    raised: int
    added: float

    def total(self, valuation: Valuation) -> dict[str, Any]:
        """What the terms say of all points together."""
        value, stderr, low, high = self.value_total
        found = {
            "draws": valuation.n_draws,
            "errors": "added" if valuation.terms is None else "joint",
            **dict(zip(("rate", "rate_low", "rate_high"), self.rate, strict=True)),
            **{"value": value, "stderr": stderr, "low": low, "high": high},
            **dict(zip(("price", "price_low", "price_high"), self.price_total, strict=True)),
            "raised": self.raised,
            "raised_by": self.added,
            "largest_error": float(np.max(valuation.stderr)),
            "error_of_differences": _differences(valuation),
            "reliability": reliability(valuation),
        }
        return {name: plain(number) for name, number in found.items()}


def prices_at(
    valuation: Valuation,
    rate: float | None,
    budget: float | None,
    floor: float | None,
    confidence: float,
) -> Prices:
    """max(rate * value, floor) for all points, at a rate or at that which the budget asks for."""
    values, stderr = valuation.values, valuation.stderr
    half = student_quantile((1 + confidence) / 2, valuation.freedom)
    r = float(rate) if rate is not None else _rate(values, float(budget or 0), floor)
    least = -math.inf if floor is None else floor
    slope, lift = _slopes(values, stderr, least / r)
    error, covariance = _together(valuation, slope)
    whole = float(values.sum()), _together(valuation, np.ones(len(values)))[0]
    price = np.maximum(r * values, least)
    if rate is not None:
        low, high = (np.maximum(r * end, least) for end in valuation.interval(confidence))
        rates, paid = (r, r, r), float(price.sum())
        # Errors lift a price at the floor on average, so the truth may lie lower by that.
        lowest = paid - half * r * error - _KINK * r * lift
        costs = paid, max(lowest, len(price) * least), paid + half * r * error
    else:
        used = values > least / r if floor is not None else np.ones(len(values), dtype=bool)
        sold = float(values[used].sum())
        turn = r * values / sold  # by what a price falls when the sum of values rises
        spread = _error_of_prices(r * stderr, turn, error, covariance, r)
        missed = _KINK * lift / sold  # of the rate: the lift makes it too small
        low = np.maximum(r * values - half * spread - np.maximum(-r * values, 0) * missed, least)
        high = np.maximum(r * values + half * spread + np.maximum(r * values, 0) * missed, least)
        of_rate = half * error / sold
        if of_rate > _UNSURE:
            warn(
                f"for m = {valuation.m} the rate that the budget asks for is known to +-"
                f"{of_rate:.0%} only, too little for its intervals to hold: more draws are needed"
            )
        rates = r, r * max(1 - of_rate, 0.0), r * (1 + of_rate + missed)
        costs = (float(budget or 0),) * 3
    below = np.maximum(least - r * values, 0.0)
    return Prices(
        price=price, low=low, high=high, rate=rates, price_total=costs,
        value_total=(*whole, whole[0] - half * whole[1], whole[0] + half * whole[1]),
        raised=int((below > 0).sum()), added=float(below.sum()),
    )  # fmt: skip


def _rate(values: Floats, budget: float, floor: float | None) -> float:
    """The rate at which all prices together are the budget.

    >>> _rate(np.array([3.0, 1.0, -1.0]), 8.0, 0.0), _rate(np.array([3.0, 1.0, -1.0]), 8.0, 1.0)
    (2.0, 1.75)
    """
    if floor is None:
        if values.sum() <= 0:
            raise InputError(
                f"budget = {budget:g}: all values together are not above 0; give a rate, or a floor"
            )
        return budget / float(values.sum())
    n = len(values)
    if budget < n * floor:
        raise InputError(
            f"budget = {budget:g}: {n} prices of at least {floor:g} are {n * floor:g} already"
        )
    best = np.sort(values[values > 0])[::-1]
    if len(best) == 0:
        raise InputError(
            f"budget = {budget:g}: no value is above 0, so that no rate makes the list cost that"
        )
    count = np.arange(1, len(best) + 1)
    rates = (budget - floor * (n - count)) / np.cumsum(best)
    # With more of the points above the floor, the last of them would not be.
    return float(rates[np.flatnonzero(rates * best >= floor * (1 - 1e-12))[-1]])


def _slopes(values: Floats, stderr: Floats, threshold: float) -> tuple[Floats, float]:
    """How each priced value, max(v, threshold), moves with v; by how much errors lift their sum.

    With its error a value is on either side of the threshold, so that the slope is the
    probability of lying above.
    """
    from scipy.special import ndtr

    if threshold == -math.inf:
        return np.ones(len(values)), 0.0
    above = values - threshold
    noisy = stderr > 0
    z = above[noisy] / stderr[noisy]
    slope = (above > 0).astype(float)
    slope[noisy] = ndtr(z)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    lift = stderr[noisy] * (density - np.abs(z) * ndtr(-np.abs(z)))
    return slope, float(lift.sum())


def _together(valuation: Valuation, weights: Floats) -> tuple[float, Floats | None]:
    """The standard error of the weighted sum, and the covariance of each value with it.

    From the draws' influences; without them the largest there can be, and no covariance.
    """
    if valuation.terms is None:
        return float(np.abs(weights) @ valuation.stderr), None
    blocks = list(valuation._influences())
    total = np.sum([part @ weights[columns] for columns, part in blocks], axis=0)
    covariance = np.empty(len(valuation))
    for columns, part in blocks:
        covariance[columns] = total @ part
    return float(np.sqrt(total @ total)), covariance


def _error_of_prices(
    own: Floats, turn: Floats, error: float, covariance: Floats | None, rate: float
) -> Floats:
    """The standard errors of rate * value - turn * (the weighted sum of values).

    `own` are those of rate * value, `error` is that of the sum, `covariance` of value and sum.
    """
    if covariance is None:
        return own + np.abs(turn) * error
    variance = own**2 + (turn * error) ** 2 - 2 * turn * rate * covariance
    return np.sqrt(np.maximum(variance, 0.0))


def _differences(valuation: Valuation) -> float:
    """The error of a value against the others: root mean square, what is common taken out."""
    if valuation.terms is None or len(valuation) < 2:
        return float(np.sqrt((valuation.stderr**2).mean()))
    apart = stderr_of_differences(valuation._influences(), len(valuation))
    return float(np.sqrt((apart**2).mean()))


def plain(number: Any) -> Any:
    """A number for JSON, which has no NaN."""
    if isinstance(number, int | str):
        return number
    return float(number) if math.isfinite(number) else None
