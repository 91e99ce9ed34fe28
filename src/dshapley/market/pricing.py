"""Making a price list: the price of each point at a rate or a budget, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.points import Floats
from dshapley.errors import MOST_M, InputError, is_whole, warn
from dshapley.inference.agreement import reliability
from dshapley.inference.profile import extrapolate
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.uncertainty import check_confidence, stderr_of_differences, student_quantile
from dshapley.inference.valuation import Valuation
from dshapley.market.price_list_file import COLUMNS, PriceList, with_checksum

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Prices", "for_its_test_rows", "price_list", "prices_at"]

_LEAST_MONEY = 1e-9
"""The least rate or budget: smaller prices would lose digits when they are printed."""
_KINK = 1 / (math.sqrt(2) - 1)
"""Plug-in estimates understate the upward bias of max(v, 0), by this factor where v is 0 and by
less elsewhere: it compares E max(X, 0) for normals of variance 2 and 1."""
_UNSURE = 0.5
"""If the rate's relative error is larger than this, the delta method no longer gives its
interval."""


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
    """The price of each point or bundle, for buyers with data sets of size m' (section 4).

    A price is max(rate * value, floor). With a rate, the ends of its interval are the prices at
    the ends of the value's interval. With a budget, the rate is an estimate too, and its error is
    added by the delta method over the draws' influences.

    The interval of the total takes the correlation of the errors into account. Values without
    draws (predicted, extrapolated or shrunk ones) have unknown correlations: their errors are
    then added up, which is the worst case, and the terms say `errors: added`.

    Parameters
    ----------
    valuation
        Values of points or bundles, such as from `dshapley.value` or `estimate(load_run(folder))`.
    rate
        The price of a value of 1. For accuracy, that is the price of raising it from 0 to 1.
    budget
        Instead of a rate: what the whole list costs, for each m'. The rate is then computed from
        the values, so its error is in every price.
    floor
        The lowest price. A point of negative value costs the floor; the terms say how many prices
        were raised to the floor and what that adds. None allows negative prices.
    m
        The buyers' data set size m', or several of them [default: the valuation's m]. Beyond the
        run's m, up to 3 times as large, values are extrapolated (`profile.extrapolate`) with a
        warning.
    confidence
        The confidence of each interval by itself.
    details
        Columns to show beside each id, with one row for each point, in the order of the points.
        A list shows no features or labels except these.

    Examples
    --------
    >>> from dshapley.data.points import Points
    >>> from dshapley.baselines.data_shapley import exact
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
        at = for_its_test_rows(_valued(valuation, size))
        if at.unseen:
            raise InputError(
                f"the errors of the values for m = {size} are not known yet: {at.what_is_unseen}; "
                "make more draws before you set prices"
            )
        priced = prices_at(at, rate, budget, floor, confidence)
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
    return with_checksum(pd.concat(parts, ignore_index=True), terms)


def for_its_test_rows(valuation: Valuation) -> Valuation:
    """The values with errors for the test rows that they were computed with.

    A price is for these test rows, which the buyer's check measures on its own side. Cross-fitted
    values have no test rows of their own: their errors stay as they are.
    """
    draws = valuation.draws
    if draws is None or draws.folds is not None:
        return valuation
    # Only the errors change, also where the caller has changed values or names.
    return replace(valuation.of_draws, values=valuation.values, ids=valuation.ids)


def _rows(
    valuation: Valuation, priced: Prices, confidence: float, details: pd.DataFrame | None
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
        raise InputError(
            f"details: {len(details)} rows for {len(frame)} points: give one row for each"
        )
    if details.columns.has_duplicates:
        raise InputError("details: two columns have the same name: rename one")
    for name in details.columns:
        if str(name) in COLUMNS:
            raise InputError(
                f"details: the list already has a column {name!r}: rename the one in details"
            )
        frame[str(name)] = np.array([str(cell) for cell in details[name]], dtype=object)
    return frame


def _check_pricing(rate: float | None, budget: float | None, floor: float | None) -> None:
    if (rate is None) == (budget is None):
        raise InputError(
            "give either the price of a value of 1 (rate) or the price of the whole list (budget)"
        )
    for name, number in (("rate", rate), ("budget", budget)):
        if number is not None and not _LEAST_MONEY <= number < math.inf:
            raise InputError(
                f"{name} = {number}: give an amount of money of at least {_LEAST_MONEY}"
            )
    if floor is not None and not 0 <= floor < math.inf:
        raise InputError(
            f"floor = {floor}: give a lowest price of at least 0, or None for no floor"
        )


def _check_ids(valuation: Valuation) -> None:
    ids = np.array([str(name) for name in valuation.ids], dtype=object)
    names, counts = np.unique(ids.astype(str), return_counts=True)
    if len(names) == 0:
        raise InputError("the valuation has no points, so there is nothing to price")
    if (counts > 1).any():
        raise InputError(
            f"two points have the id {str(names[counts > 1][0])!r}, so a buyer could not tell them "
            "apart: give each point a different id"
        )
    if (names == "").any():
        raise InputError("a point has an empty id: give each point an id")


def _sizes(valuation: Valuation, m: int | Sequence[int] | None) -> list[int]:
    asked = [valuation.m] if m is None else list(m) if isinstance(m, Sequence) else [m]
    for size in asked:
        if not is_whole(size, least=1, most=MOST_M):
            raise InputError(f"m = {size}: a data set size is a whole number from 1 to {MOST_M:,}")
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
    found = extrapolate(valuation, m=m)
    warn(
        f"m = {m} is larger than the run's m = {valuation.draws.m}: these values are extrapolated "
        "by a power law, and their errors assume that it holds up to there; to be sure, run with "
        f"m = {m}"
    )
    return found


def _rule(budget: float | None, floor: float | None) -> str:
    rate = "rate" if budget is None else "rate, chosen so that the whole list costs the budget"
    if floor is None:
        return f"price = value * {rate}; negative values have negative prices"
    return f"price = value * {rate}, but at least the floor; negative values cost the floor"


def _origin(valuation: Valuation) -> dict[str, Any]:
    """What the values depend on, without file paths, which are not the buyer's business."""
    import dshapley

    identity, context = valuation.about.identity, valuation.about.context
    source = context.source
    return {
        "dshapley": dshapley.__version__,
        "method": identity.method,
        "potential": identity.potential,
        "test_labels": context.test_labels,
        "metric": identity.metric,
        "empty": identity.empty,
        "model": source and source.model,
        "target": source and source.target,
        "task": source and source.task,
        "run_m": valuation.m if valuation.draws is None else valuation.draws.m,
        "database": identity.database or "unknown",
        "database_rows": context.database_rows,
        "draws": valuation.n_draws,
        "seed": identity.seed,
        "weights": context.weights or identity.weights,
        "balanced": identity.balanced,
        "control_variates": identity.control_variates,
    }


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of all points for one m, and of all points together.

    The triples are an estimate and the ends of its interval.
    """

    price: Floats
    low: Floats
    high: Floats
    rate: tuple[float, float, float]
    price_total: tuple[float, float, float]
    value_total: tuple[float, float, float, float]
    """The sum of the values, its standard error, and the ends of its interval."""
    raised: int
    """How many prices were raised to the floor."""
    added: float
    """What raising them adds to the total."""

    def total(self, valuation: Valuation) -> dict[str, Any]:
        """The entry of the terms about all points together."""
        value, stderr, low, high = self.value_total
        found = {
            "draws": valuation.n_draws,
            "errors": "joint" if isinstance(valuation, SampledValuation) else "added",
            **dict(zip(("rate", "rate_low", "rate_high"), self.rate, strict=True)),
            **{"value": value, "stderr": stderr, "low": low, "high": high},
            **dict(zip(("price", "price_low", "price_high"), self.price_total, strict=True)),
            "raised": self.raised,
            "raised_by": self.added,
            "largest_error": float(np.max(valuation.stderr)),
            "error_of_differences": _differences(valuation),
            "reliability": reliability(valuation),
        }
        return {name: _plain(number) for name, number in found.items()}


def prices_at(
    valuation: Valuation,
    rate: float | None,
    budget: float | None,
    floor: float | None,
    confidence: float,
) -> Prices:
    """max(rate * value, floor) for all points, where the rate may follow from a budget."""
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
        # Errors raise prices near the floor on average, so the true total may be lower.
        lowest = paid - half * r * error - _KINK * r * lift
        costs = paid, max(lowest, len(price) * least), paid + half * r * error
    else:
        used = values > least / r if floor is not None else np.ones(len(values), dtype=bool)
        sold = float(values[used].sum())
        turn = r * values / sold  # how much a price falls when the sum of the values rises by 1
        spread = _error_of_prices(r * stderr, turn, error, covariance, r)
        missed = _KINK * lift / sold  # the upward bias of the sum makes the rate too small by this
        low = np.maximum(r * values - half * spread - np.maximum(-r * values, 0) * missed, least)
        high = np.maximum(r * values + half * spread + np.maximum(r * values, 0) * missed, least)
        of_rate = half * error / sold
        if of_rate > _UNSURE:
            warn(
                f"for m = {valuation.m} the budget determines the rate only to within ±"
                f"{of_rate:.0%}, so the intervals of the prices are unreliable: make more draws"
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
    """The rate at which all prices add up to the budget.

    >>> _rate(np.array([3.0, 1.0, -1.0]), 8.0, 0.0), _rate(np.array([3.0, 1.0, -1.0]), 8.0, 1.0)
    (2.0, 1.75)
    """
    if floor is None:
        if values.sum() <= 0:
            raise InputError(
                f"budget = {budget:g}: the sum of the values is not above 0: give a rate or a floor"
            )
        return budget / float(values.sum())
    n = len(values)
    if budget < n * floor:
        raise InputError(
            f"budget = {budget:g}: {n} prices at the floor of {floor:g} already cost "
            f"{n * floor:g}: "
            "raise the budget or lower the floor"
        )
    best = np.sort(values[values > 0])[::-1]
    if len(best) == 0:
        raise InputError(
            f"budget = {budget:g}: no value is above 0, so no rate reaches the budget: give a rate"
        )
    count = np.arange(1, len(best) + 1)
    rates = (budget - floor * (n - count)) / np.cumsum(best)
    # The largest number of points whose prices, at the rate for that number, reach the floor.
    return float(rates[np.flatnonzero(rates * best >= floor * (1 - 1e-12))[-1]])


def _slopes(values: Floats, stderr: Floats, threshold: float) -> tuple[Floats, float]:
    """The slope of each max(v, threshold) in v, and how much errors raise the sum on average.

    The true value may lie on either side of the threshold, so the slope is the probability that
    it lies above.
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

    They are computed from the draws' influences. Without draws, the standard error is the
    largest possible one and the covariance is None.
    """
    if not isinstance(valuation, SampledValuation):
        return float(np.abs(weights) @ valuation.stderr), None
    blocks = list(valuation.influences())
    total = np.sum([part @ weights[columns] for columns, part in blocks], axis=0)
    covariance = np.empty(len(valuation))
    for columns, part in blocks:
        covariance[columns] = total @ part
    return float(np.sqrt(total @ total)), covariance


def _error_of_prices(
    own: Floats, turn: Floats, error: float, covariance: Floats | None, rate: float
) -> Floats:
    """The standard errors of rate * value - turn * (the weighted sum of values).

    `own` has the standard errors of rate * value, `error` is the standard error of the sum, and
    `covariance` is between each value and the sum.
    """
    if covariance is None:
        return own + np.abs(turn) * error
    variance = own**2 + (turn * error) ** 2 - 2 * turn * rate * covariance
    return np.sqrt(np.maximum(variance, 0.0))


def _differences(valuation: Valuation) -> float:
    """The root mean square error of a value relative to the mean of all values."""
    if not isinstance(valuation, SampledValuation) or len(valuation) < 2:
        return float(np.sqrt((valuation.stderr**2).mean()))
    apart = stderr_of_differences(valuation.influences(), len(valuation))
    return float(np.sqrt((apart**2).mean()))


def _plain(number: Any) -> Any:
    """A number as JSON can hold it: JSON has no NaN, so that becomes None."""
    if isinstance(number, int | str):
        return number
    return float(number) if math.isfinite(number) else None
