"""From values to prices: a rate or a budget, a floor, and errors carried through to the totals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.errors import InputError, is_whole, warn
from dshapley.market.prices import COLUMNS, PriceList, sealed
from dshapley.points import Floats
from dshapley.profile import extrapolate
from dshapley.uncertainty import check_confidence, stderr_of_differences, student_quantile
from dshapley.valuation import Valuation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["price_list"]

_KINK = 1 / (math.sqrt(2) - 1)
"""Errors lift the mean of max(v, 0). Taken from estimates, that lift comes out too small, by this
factor where v is 0 and less elsewhere: E max(X, 0) of normals of variance 2 and 1."""

_UNSURE = 0.5
"""Beyond this share of the rate, its interval is no longer as a straight line says."""


def price_list(
    valuation: Valuation,
    *,
    rate: float | None = None,
    budget: float | None = None,
    floor: float | None = 0.0,
    m: int | Sequence[int] | None = None,
    confidence: float = 0.95,
    details: pd.DataFrame | None = None,
) -> PriceList:
    """What each point or bundle costs, for buyers with data sets of size m' (section 4).

    A price is max(rate * value, floor). The interval of a price is that of its value, priced; with
    a budget it has the error of the rate too, by the delta method over the draws' influences. The
    total has an interval of its own, from what the errors of the points have in common. Where
    values keep no draws (predicted, extrapolated, shrunk ones) nobody knows what their errors have
    in common, and they are added up as if they all went one way: `errors` in the terms.

    Parameters
    ----------
    valuation
        Values of points or bundles, as from `dshapley.value` or `estimate(load(folder))`.
    rate
        Money for a value of 1: of U, such as for all of the accuracy from 0 to 1.
    budget
        Instead of a rate: what the whole list is to cost, for each m'. The rate follows; it and
        so every price is as uncertain as the total of the values.
    floor
        No price is below this: so a point that hurts costs the floor, and the terms say how many
        were raised to it and what that adds. None: prices may be negative.
    m
        The buyers' data set size m', or several. Above the run's m values are extrapolated
        (`profile.extrapolate`), and a warning says so. By default the valuation's own.
    confidence
        Of the intervals, each on its own.
    details
        Columns to show beside each id, one row a point in their order: the only way for features
        or labels to get onto the list.

    Examples
    --------
    >>> from dshapley.points import Points
    >>> from dshapley.data_shapley import exact
    >>> values = exact(lambda S: float(len(set(S.y.tolist()))), Points([[0.0]] * 3, [0, 0, 1]))
    >>> prices = price_list(values, budget=100)
    >>> prices.at(3)["price"].tolist(), prices.totals["rate"].tolist()
    ([25.0, 25.0, 50.0], [50.0])
    """
    check_confidence(confidence)
    _check_pricing(rate, budget, floor)
    _check_ids(valuation)
    sizes = _sizes(valuation, m)
    parts, totals = [], []
    for size in sizes:
        at = _valued(valuation, size)
        priced = _priced(at, rate, budget, floor, confidence)
        parts.append(_rows(at, priced, confidence, details))
        totals.append({"m": size, "extrapolated": _beyond(valuation, size), **priced.total(at)})
    import pandas as pd

    pricing = {"rate": rate, "budget": budget, "floor": floor, "rule": _rule(budget, floor)}
    terms = {
        **_origin(valuation),
        "m": sizes,
        "offered": len(valuation),
        "confidence": confidence,
        "largest_error": _plain(max(float(part["stderr"].max()) for part in parts)),
        "pricing": pricing,
        "totals": totals,
    }
    return sealed(pd.concat(parts, ignore_index=True), terms)


@dataclass(frozen=True)
class _Prices:
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
        }
        return {name: _plain(number) for name, number in found.items()}


def _priced(
    valuation: Valuation,
    rate: float | None,
    budget: float | None,
    floor: float | None,
    confidence: float,
) -> _Prices:
    values, stderr = valuation.values, valuation.stderr
    half = student_quantile((1 + confidence) / 2, valuation._freedom)
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
    return _Prices(
        price, low, high, rates, costs,
        (*whole, whole[0] - half * whole[1], whole[0] + half * whole[1]),
        int((below > 0).sum()), float(below.sum()),
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
    covariance = np.concatenate([total @ part for _, part in blocks])
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
    apart = stderr_of_differences(part for _, part in valuation._influences())
    return float(np.sqrt((apart**2).mean()))


def _rows(
    valuation: Valuation, priced: _Prices, confidence: float, details: pd.DataFrame | None
) -> pd.DataFrame:
    import pandas as pd

    low, high = valuation.interval(confidence)
    ids = np.array([str(name) for name in valuation.ids], dtype=object)
    cells = (ids, valuation.m, valuation.rows, valuation.values, valuation.stderr, low, high,
             priced.price, priced.low, priced.high)  # fmt: skip
    frame = pd.DataFrame(dict(zip(COLUMNS, cells, strict=True))).astype({"m": "int64"})
    if details is None:
        return frame
    if len(details) != len(frame):
        raise InputError(f"details: {len(details)} rows for {len(frame)} points: give one for each")
    for name in details.columns:
        if str(name) in COLUMNS:
            raise InputError(f"details: a column of the list is called {name!r} already")
        frame[str(name)] = np.array([str(cell) for cell in details[name]], dtype=object)
    return frame


def _check_pricing(rate: float | None, budget: float | None, floor: float | None) -> None:
    if (rate is None) == (budget is None):
        raise InputError(
            "say what a value of 1 costs (rate), or what the whole list is to cost (budget): one "
            "of the two"
        )
    for name, number in (("rate", rate), ("budget", budget)):
        if number is not None and not 0 < number < math.inf:
            raise InputError(f"{name} = {number}: it is an amount of money above 0")
    if floor is not None and not 0 <= floor < math.inf:
        raise InputError(f"floor = {floor}: the lowest price is 0 or more; None for no floor")


def _check_ids(valuation: Valuation) -> None:
    ids = np.array([str(name) for name in valuation.ids], dtype=object)
    names, counts = np.unique(ids.astype(str), return_counts=True)
    if len(names) == 0:
        raise InputError("there is nothing on offer: the valuation has no points")
    if (counts > 1).any():
        raise InputError(
            f"two points on offer are called {str(names[counts > 1][0])!r}: a buyer could not tell "
            "them apart; give ids that differ"
        )
    if (names == "").any():
        raise InputError("a point on offer has no id: give each a name")


def _sizes(valuation: Valuation, m: int | Sequence[int] | None) -> list[int]:
    asked = [valuation.m] if m is None else list(m) if isinstance(m, Sequence) else [m]
    for size in asked:
        if not is_whole(size, least=1):
            raise InputError(f"m = {size}: a data set size is a whole number, 1 or more")
    if not asked or len(set(asked)) < len(asked):
        raise InputError("m: give each data set size once")
    return [int(size) for size in asked]


def _beyond(valuation: Valuation, m: int) -> bool:
    draws = valuation.draws
    return m != valuation.m and draws is not None and m > draws.m


def _valued(valuation: Valuation, m: int) -> Valuation:
    if m == valuation.m:
        return valuation
    if not _beyond(valuation, m):
        return valuation.at(m=m)
    assert valuation.draws is not None
    warn(
        f"m = {m} is beyond the run's {valuation.draws.m}: these values are extrapolated by a "
        "power law, with its error but on trust that it goes on; a run at that m would tell"
    )
    return extrapolate(valuation, m=m)


def _rule(budget: float | None, floor: float | None) -> str:
    rate = "rate" if budget is None else "rate, by which the whole list costs the budget"
    if floor is None:
        return f"price = value * {rate}; negative values have negative prices"
    return f"price = value * {rate}; never below the floor, which negative values cost"


_POTENTIAL = ("metric", "metric.score", "test", "empty", "min_rows", "path", "potential", "mean of")


def _origin(valuation: Valuation) -> dict[str, Any]:
    """What the values rest on. Of what the run knows, only what a buyer needs: no paths."""
    import dshapley

    about: Mapping[str, Any] = valuation.about
    keys = about.get("described") or [
        key for key in about if key in _POTENTIAL or key.startswith("estimator")
    ]
    potential = {key: about[key] for key in keys if key in about}
    database = str(about.get("database", "unknown"))
    rows = database.rpartition("(")[2].partition(" ")[0]
    return {
        "dshapley": dshapley.__version__,
        "method": about.get("method", "unknown"),
        "potential": potential,
        "metric": about.get("metric"),
        "empty": about.get("empty"),
        "model": about.get("model"),
        "task": about.get("task"),
        "run_m": valuation.m if valuation.draws is None else valuation.draws.m,
        "database": database,
        "database_rows": int(rows) if rows.isdigit() else None,
        "draws": valuation.n_draws,
        "seed": about.get("seed"),
        "weights": about.get("weights_as", about.get("weights")),
        "sizes": about.get("sizes"),
        "anchor": about.get("anchor"),
    }


def _plain(number: Any) -> Any:
    """A number for JSON, which has no NaN."""
    if isinstance(number, int | str):
        return number
    return float(number) if math.isfinite(number) else None
