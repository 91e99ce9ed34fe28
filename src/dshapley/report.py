"""What a person reads of a valuation: short tables, only the digits that the error allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.allocation import gain
from dshapley.digits import number
from dshapley.interpolation import Interpolation, Prediction
from dshapley.market.prices import PriceList
from dshapley.market.splitting import Splitting
from dshapley.planning import Plan
from dshapley.valuation import Valuation, estimate

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from dshapley.experiments import Experiment
    from dshapley.experiments.work import Claim

__all__ = [
    "print_claims",
    "print_plans",
    "print_prediction",
    "print_prices",
    "print_splitting",
    "print_valuation",
]

_CONFIDENCE = 0.95
_FEW = 30
_LONGEST_CELL = 100


def print_claims(
    console: Console, name: str, experiment: Experiment, claims: Sequence[Claim]
) -> None:
    """What the paper says, and each claim as an inequality with its interval."""
    from rich.table import Table

    console.print(f"{name}: {experiment.TITLE}\nThe paper: {experiment.PAPER}", highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading, side in (("claim", "left"), ("by", "right"), ("95 % interval", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    table.add_column("")
    for claim in claims:
        known = [end for end in (claim.by, claim.low, claim.high) if math.isfinite(end)]
        error = (max(known) - min(known)) / 4 if known else math.nan
        by, *ends = (
            number(end, error)[0] if math.isfinite(end) else "..."
            for end in (claim.by, claim.low, claim.high)
        )
        table.add_row(claim.text, by, " to ".join(ends), claim.verdict)
    console.print(table, highlight=False)


def print_valuation(
    console: Console, valuation: Valuation, *, top: int, details: pd.DataFrame | None = None
) -> None:
    """The most and least valuable points, and what can be said of all.

    `details` has columns to show beside each id, in the order of the points.
    """
    order = np.argsort(-valuation.values, kind="stable")
    n = len(order)
    if n <= 2 * top:
        console.print(_table("Points by value", valuation, order, details))
    else:
        console.print(_table(f"The {top} most valuable", valuation, order[:top], details))
        console.print(_table(f"The {top} least valuable", valuation, order[-top:], details))
    for line in _summary(valuation):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(
    title: str, valuation: Valuation, order: np.ndarray, details: pd.DataFrame | None
) -> Table:
    from rich.table import Table
    from rich.text import Text

    bundles = bool((valuation.rows != 1).any())
    table = Table(title=title, title_justify="left")
    # Numbers are never cut; where room is short, the details beside them wrap.
    for name in ["id", "value", "stderr", *(["rows", "value per row"] if bundles else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for column in [] if details is None else details.columns:
        table.add_column(Text(str(column)), overflow="fold")
    for i in order:
        value, stderr = float(valuation.values[i]), float(valuation.stderr[i])
        cells = [_cut(str(valuation.ids[i])), *number(value, stderr)]
        if bundles:
            size = int(valuation.rows[i])
            per_row, _ = number(value / size, stderr / size)
            cells += [str(size), per_row]
        if details is not None:
            cells += [_cut(str(cell)) for cell in details.iloc[i]]
        table.add_row(*map(Text, cells))  # as they are: "[b]" in a table is no markup
    return table


def _cut(text: str) -> str:
    """A cell short enough to be laid out: a table may hold whole documents."""
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}..."


def _summary(valuation: Valuation) -> list[str]:
    n = valuation.n_draws
    worst = float(np.max(valuation.stderr))
    below = valuation.below_zero(_CONFIDENCE)
    mean = number(float(valuation.values.mean()), float(np.mean(valuation.stderr)))[0]
    lines = [
        f"{len(valuation)} values for data sets of size m = {valuation.m}, from {n} "
        f"draw{'s' if n != 1 else ''}; the largest standard error is "
        + (f"{worst:.2g}" if math.isfinite(worst) else "unknown"),
        f"mean value {mean}; value below zero with {_CONFIDENCE:.0%} confidence "
        f"(each on its own): {below.sum()} of {len(below)} ({below.mean():.1%})",
    ]
    if valuation.draws is not None and n < _FEW:
        lines.append(f"so few draws (under {_FEW}) leave the standard errors themselves rough")
    lines += _gains(valuation)
    if "path" in valuation.about:
        fast = valuation.about["path"] == "fast"
        lines.append("marginals on the fast path" if fast else "marginals by refitting")
    if isinstance(valuation.about.get("empty"), int | float):
        lines.append(
            f"{valuation.about.get('metric')} of a model trained on nothing: "
            f"{valuation.about['empty']:.4g}"
        )
    return lines


def _gains(valuation: Valuation) -> list[str]:
    """What the ways to draw have saved, and how well the predicted values are."""
    lines = []
    draws = valuation.draws
    if draws is not None and valuation.m == draws.m and len(draws) >= _FEW:
        if draws.pilot is not None:
            found = gain(draws)
            anchor = "" if draws.anchor is None else " before the anchor"
            if found.expected is not None and math.isfinite(found.obtained):
                lines.append(
                    f"size weights by a pilot of {draws.pilot.draws} draws: this error was reached "
                    f"{found.obtained:.2g} times sooner than with uniform sizes "
                    f"({found.expected:.2g} times expected{anchor})"
                )
        if draws.anchor is not None:
            with_it, without = (estimate(draws, anchor=on).stderr for on in (None, False))
            if (before := float((without**2).mean())) > 0:
                saved = 1 - float((with_it**2).mean()) / before
                lines.append(f"the anchor took away {saved:.0%} of the variance")
    if valuation.filled is not None:
        n = int(valuation.filled.predicted.sum())
        lines.append(f"{n} of {len(valuation)} values are predictions")
        lines += _quality(valuation.interpolation)
    return lines


def _quality(interpolation: Interpolation) -> list[str]:
    return [
        f"predicted by {interpolation.name} from {interpolation.n_points} measured rows; on "
        f"held-out rows R2 {interpolation.r2:.2f} (about {interpolation.r2_true:.2f} without the "
        f"noise in them), rank correlation {interpolation.rank_correlation:.2f}"
    ]


def print_prediction(
    console: Console, prediction: Prediction, interpolation: Interpolation, *, top: int
) -> None:
    """The most and least valuable of new rows, and how good the prediction is."""
    from rich.table import Table

    order = np.argsort(-prediction.values, kind="stable")
    low, high = prediction.interval(_CONFIDENCE)
    shown = order if len(order) <= 2 * top else np.r_[order[:top], order[-top:]]
    table = Table(title="Predicted values, the highest and the lowest", title_justify="left")
    for name in ("id", "value", "stderr", f"{_CONFIDENCE:.0%} interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for i in shown:
        error = float(prediction.stderr[i])
        ends = " to ".join(number(float(end), error)[0] for end in (low[i], high[i]))
        table.add_row(str(prediction.ids[i]), *number(float(prediction.values[i]), error), ends)
    console.print(table)
    for line in _quality(interpolation):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_prices(console: Console, prices: PriceList, *, top: int) -> None:
    """The dearest and the cheapest on offer for each size, and what all cost together."""
    from rich.table import Table
    from rich.text import Text

    confidence = f"{prices.terms['confidence']:.0%} interval"
    for total in prices.terms["totals"]:
        rows = prices.at(total["m"]).sort_values("value", ascending=False, kind="stable")
        shown = rows if len(rows) <= 2 * top else rows.iloc[[*range(top), *range(-top, 0)]]
        table = Table(title=f"Prices for data sets of size m = {total['m']}", title_justify="left")
        for name in ("id", "value", "stderr", "price", confidence):
            table.add_column(name, justify="right", no_wrap=True)
        for label, row in shown.iterrows():
            error = float(row["price_high"] - row["price_low"]) / 4
            ends = " to ".join(number(row[end], error)[0] for end in ("price_low", "price_high"))
            cells = (*number(row["value"], row["stderr"]), number(row["price"], error)[0], ends)
            table.add_row(*map(Text, (str(label), *cells)))
        console.print(table)
        for line in _total(total, len(prices)):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    line = f"{prices.terms['pricing']['rule']}; SHA-256 of rows and terms: {prices.checksum}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _total(total: Mapping[str, Any], n: int) -> list[str]:
    value = _with_ends(total["value"], total["low"], total["high"])
    price = _with_ends(total["price"], total["price_low"], total["price_high"])
    rate = _with_ends(total["rate"], total["rate_low"], total["rate_high"])
    lines = [f"all {n}: value {value}, price {price}, at a rate of {rate} for a value of 1"]
    if total["raised"]:
        lines.append(
            f"{total['raised']} of {n} prices were raised to the floor, which adds "
            f"{total['raised_by']:.3g} to the total"
        )
    if total["errors"] == "added":
        lines.append("what the errors have in common is not known: for the total they are added up")
    return lines


def _with_ends(middle: float | None, low: float | None, high: float | None) -> str:
    if middle is None:
        return "not known"
    if low is None or high is None:
        return f"{middle:.3g} (?)"
    if low == high:
        return f"{middle:.6g}"
    ends = (number(end, (high - low) / 4)[0] for end in (middle, low, high))
    return "{} ({} to {})".format(*ends)


def print_splitting(console: Console, splitting: Splitting) -> None:
    """What splitting does to each bundle, the most first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Bundles and the sum of their rows", title_justify="left")
    for name in ("id", "parts", "as a set", "its parts", "more by", "interval", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for i in np.argsort(-np.abs(splitting.difference), kind="stable"):
        error = float(splitting.stderr[i])
        parts = (splitting.whole, splitting.split, splitting.difference)
        cells = [number(float(part[i]), error)[0] for part in parts]
        ends = (number(float(end[i]), error)[0] for end in (splitting.low, splitting.high))
        beyond = "beyond the error" if splitting.beyond_error[i] else ""
        row = (splitting.ids[i], splitting.parts[i], *cells, " to ".join(ends), beyond)
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)


def print_plans(console: Console, plans: Sequence[Plan], *, n_draws: int, n_workers: int) -> None:
    """What each precision takes, a line each."""
    for plan in plans:
        took = duration(plan.seconds / n_workers)
        done = ": that many are made" if plan.draws <= n_draws else ""
        line = (
            f"for +-{plan.within:.3g} on every value ({plan.confidence:.0%} confidence, all at "
            f"once) you need about {_about(plan.draws)} draws{done}, about {took} in all with "
            f"{n_workers} worker{'s' if n_workers != 1 else ''}"
        )
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    line = f"planned from {n_draws} draws; the more, the surer"
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """A time as a person would say it, to two digits.

    >>> duration(0.2), duration(42.3), duration(200), duration(9000), duration(400_000)
    ('1 second', '42 seconds', '3.3 minutes', '2.5 hours', '4.6 days')
    """
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}s"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' if whole != 1 else ''}"


def _about(n: int) -> str:
    """A whole number to two digits.

    >>> _about(1234), _about(87)
    ('1,200', '87')
    """
    return f"{int(float(f'{n:.1e}')):,}"
