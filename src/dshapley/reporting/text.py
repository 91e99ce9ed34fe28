"""What a person reads of a valuation: short tables, only the digits that the error allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.formatting import duration, number
from dshapley.inference.interpolation import Interpolation, Prediction
from dshapley.inference.valuation import Valuation, estimate
from dshapley.market.price_list_file import PriceList
from dshapley.market.splitting import Splitting
from dshapley.reporting.findings import by_class, model_sentences, sentences, warnings_of
from dshapley.running.planning import Plan

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from dshapley.experiments import Experiment
    from dshapley.experiments.shared.work import Claim

__all__ = [
    "print_claims",
    "print_plans",
    "print_prediction",
    "print_prices",
    "print_splitting",
    "print_valuation",
]

_CONFIDENCE = 0.95
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
    classes = _class_table(valuation)
    if classes is not None:
        console.print(classes)
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
            # By column: a row of numbers alone would turn whole numbers into fractions.
            cells += [_cut(str(details[name].iloc[i])) for name in details.columns]
        table.add_row(*map(Text, cells))  # as they are: "[b]" in a table is no markup
    return table


def _cut(text: str) -> str:
    """A cell short enough to be laid out: a table may hold whole documents."""
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}..."


def _class_table(valuation: Valuation) -> Table | None:
    """Each class by itself: a class that is rare is worth more, whatever its rows are like."""
    from rich.table import Table
    from rich.text import Text

    parts = by_class(valuation)
    if not parts:
        return None
    table = Table(title="Within each class", title_justify="left")
    below = f"below zero ({_CONFIDENCE:.0%})"
    for name in ("class", "rows", "mean value", below, "best", "worst"):
        table.add_column(name, justify="left" if name in ("best", "worst") else "right")
    error = float(np.mean(valuation.stderr))
    for part in parts:
        ids = [
            ", ".join(str(valuation.ids[i]) for i in places[:_IDS])
            for places in (part.best, part.worst)
        ]
        mean = number(part.mean, error)[0]
        share = "?" if part.below is None else f"{part.below:,} ({part.below / part.rows:.0%})"
        cells = (_cut(str(part.label)), f"{part.rows:,}", mean, share, *map(_cut, ids))
        table.add_row(*map(Text, cells))
    return table


_IDS = 3
"""Of the best and the worst rows of a class, as many are named."""


def _summary(valuation: Valuation) -> list[str]:
    lines = [
        *sentences(valuation),
        *_below_zero(valuation),
        *_gains(valuation),
    ]
    return [
        *lines,
        *model_sentences(valuation),
        *(f"warning: {text}" for text in warnings_of(valuation)),
    ]


_WORTH_SAYING = 0.01
"""A smaller gain of the control variates is not mentioned."""


def _below_zero(valuation: Valuation) -> list[str]:
    if valuation.unseen:
        return ["Which values are below zero, and which rows are best, is not known yet."]
    below = valuation.below_zero(_CONFIDENCE)
    return [
        f"{len(valuation):,} value{'s' if len(valuation) > 1 else ''}; {below.sum():,} of them "
        f"({below.mean():.1%}) {'is' if below.sum() == 1 else 'are'} below zero "
        f"with {_CONFIDENCE:.0%} confidence, each on its own."
    ]


def _gains(valuation: Valuation) -> list[str]:
    """What the ways to draw have saved, and how well the predicted values are."""
    lines = []
    terms = valuation.terms if valuation.filled is None else valuation.filled.measured.terms
    if terms is not None and terms.anchored and valuation.m == terms.draws.m:
        draws = terms.draws
        with_it, without = (
            estimate(draws, control_variates=on).of_draws.stderr for on in (None, False)
        )
        if (before := float((without**2).mean())) > 0:
            saved = 1 - float((with_it**2).mean()) / before
            if saved >= _WORTH_SAYING:
                lines.append(f"Control variates removed {saved:.0%} of the variance.")
    if valuation.filled is not None:
        n = int(valuation.filled.predicted.sum())
        lines.append(f"{n} of {len(valuation)} values are predictions")
        lines += _quality(valuation.interpolation)
    return lines


def _quality(interpolation: Interpolation) -> list[str]:
    without = f" (about {interpolation.r2_true:.2f} without the noise in them)"
    return [
        f"predicted by {interpolation.name} from {interpolation.n_points} measured rows; on "
        f"held-out rows R2 {interpolation.r2:.2f}"
        f"{without if math.isfinite(interpolation.r2_true) else ''}, rank correlation "
        f"{interpolation.rank_correlation:.2f}"
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
        ends = "?"
        if math.isfinite(error):
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


def _about(n: int) -> str:
    """A whole number to two digits.

    >>> _about(1234), _about(87)
    ('1,200', '87')
    """
    return f"{int(float(f'{n:.1e}')):,}"
