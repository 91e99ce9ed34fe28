"""The price list of a valuation: its rows for each data set size, its terms, its totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.errors import MOST_M, InputError, is_whole, warn
from dshapley.inference.profile import extrapolate
from dshapley.inference.uncertainty import check_confidence
from dshapley.inference.valuation import Valuation
from dshapley.market.price_list_file import COLUMNS, PriceList, sealed
from dshapley.market.rates import Prices, plain, prices_at

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["price_list"]


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
        Values of points or bundles, as from `dshapley.value` or `estimate(load_run(folder))`.
    rate
        Money for a value of 1: of U, such as for all of the accuracy from 0 to 1.
    budget
        Instead of a rate: what the whole list is to cost, for each m'. The rate follows; it and
        so every price is as uncertain as the total of the values.
    floor
        No price is below this: so a point of negative value costs the floor, and the terms say how
        many were raised to it and what that adds. None: prices may be negative.
    m
        The buyers' data set size m', or several. Up to 3 times the run's m values are extrapolated
        (`profile.extrapolate`), and a warning says so. By default the valuation's own.
    confidence
        Of the intervals, each on its own.
    details
        Columns to show beside each id, one row a point in their order: the only way for features
        or labels to get onto the list.

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
        at = _valued(valuation, size)
        if at.unseen:
            raise InputError(
                f"the errors of the values for m = {size} are not known yet: {at.what_is_unseen}; "
                "draw more before you set prices"
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
        "largest_error": plain(max(float(part["stderr"].max()) for part in parts)),
        "pricing": pricing,
        "totals": totals,
    }
    return sealed(pd.concat(parts, ignore_index=True), terms)


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
        raise InputError(f"details: {len(details)} rows for {len(frame)} points: give one for each")
    if details.columns.has_duplicates:
        raise InputError("details: a column is named twice")
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
        if number is not None and not _LEAST_MONEY <= number < math.inf:
            raise InputError(f"{name} = {number}: it is an amount of money, {_LEAST_MONEY} or more")
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
        f"m = {m} is beyond the run's {valuation.draws.m}: these values are extrapolated by a "
        "power law, and their errors assume that it continues to hold; a run at that m would tell"
    )
    return found


def _rule(budget: float | None, floor: float | None) -> str:
    rate = "rate" if budget is None else "rate, by which the whole list costs the budget"
    if floor is None:
        return f"price = value * {rate}; negative values have negative prices"
    return f"price = value * {rate}; never below the floor, which negative values cost"


_LEAST_MONEY = 1e-9
"""Beyond it, digits are lost when prices are printed."""


def _origin(valuation: Valuation) -> dict[str, Any]:
    """What the values rest on. Of what the run knows, only what a buyer needs: no paths."""
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
