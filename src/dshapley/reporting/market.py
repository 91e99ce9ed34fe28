"""The results of a sale as text: price lists, splitting, summaries, matches and checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.formatting import number
from dshapley.market.buyer_check import Check
from dshapley.market.check_errors import Interval
from dshapley.market.matching import Match
from dshapley.market.price_list_file import PriceList
from dshapley.market.splitting import Splitting
from dshapley.market.summary_file import Summary

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "check_lines",
    "match_lines",
    "print_check",
    "print_match",
    "print_prices",
    "print_splitting",
    "print_summary",
    "total_lines",
]


def print_prices(console: Console, prices: PriceList, *, top: int) -> None:
    """The highest and the lowest prices for each m, and the price of all points together."""
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
        _print_lines(console, total_lines(total, len(prices)))
    rule, checksum = prices.terms["pricing"]["rule"], prices.checksum
    _print_lines(console, [f"{rule}; SHA-256 of rows and terms: {checksum}"])


def total_lines(total: Mapping[str, Any], n: int) -> list[str]:
    """The price of all points together, and what a floor adds."""
    value = _with_ends(total["value"], total["low"], total["high"])
    price = _with_ends(total["price"], total["price_low"], total["price_high"])
    rate = _with_ends(total["rate"], total["rate_low"], total["rate_high"])
    lines = [
        f"all {n} together: value {value}, price {price}, at a rate of {rate} for a value of 1"
    ]
    if total["raised"]:
        lines.append(
            f"{total['raised']} of {n} prices were raised to the floor, which adds "
            f"{total['raised_by']:.3g} to the total"
        )
    if total["errors"] == "added":
        lines.append(
            "it is not known how the errors are correlated, so the total has the sum of the errors"
        )
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
    """What splitting does to the value of each bundle, the largest change first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Bundles and the sum of their rows", title_justify="left")
    for name in ("id", "parts", "as a set", "its parts", "difference", "interval", ""):
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


def print_summary(console: Console, summary: Summary, path: Path) -> None:
    """What the summary in a file shows of its table."""
    n_directions, n_parts = summary.means.shape
    line = (
        f"{path}: {summary.rows} rows and {len(summary.columns)} columns as {n_parts} means along "
        f"each of {n_directions} directions, medians, scales and names of columns and categories; "
        "no rows"
    )
    _print_lines(console, [line])


def print_match(console: Console, match: Match) -> None:
    """The distance between two tables, and how far it can move values and prices."""
    _print_lines(console, match_lines(match))


def match_lines(match: Match) -> list[str]:
    """The lines of `print_match`."""
    distance = " ± ".join(number(match.distance, match.stderr))
    seller, buyer = match.rows
    lines = [
        f"distance of the tables: {distance} column spreads (the seller has {seller} rows, you "
        f"have {buyer})",
        f"two samples of one distribution with these sizes are {match.noise:.2g} apart on average, "
        f"and more than {match.noise_high:.2g} apart in one case of 20",
    ]
    if match.beyond_noise:
        lines.append(
            f"the distributions differ: by {match.excess:.2g} beyond chance (their means by "
            f"{match.shift:.2g})"
        )
    else:
        lines.append("no difference between the distributions can be seen beyond chance")
    lines += [_gap_line(gap) for gap in match.gaps]
    if match.gaps:
        lines.append(
            "this assumes that U is the same for both sides, that U is Lipschitz stable with the "
            "given beta, and that W_1 equals the distance, which is only a lower bound of it"
        )
    return lines


def _gap_line(gap: Mapping[str, float]) -> str:
    line = (
        f"for m = {gap['m']}: a value may be off by {gap['gap']:.2g} ({gap['beyond']:.2g} without "
        "chance)"
    )
    if "money" not in gap:
        return line
    amount, beyond = (number(gap[name], gap[name] / 10)[0] for name in ("money", "money_beyond"))
    return f"{line}, and a price by {amount} ({beyond} without chance)"


def print_check(console: Console, check: Check) -> None:
    """Whether a price list was right, with the errors of both sides."""
    _print_lines(console, check_lines(check))


def check_lines(check: Check) -> list[str]:
    """The lines of `print_check`."""
    n, what = len(check.frame), "bundles" if check.way == "sets" else "points"
    listed, own = (
        " ± ".join(number(total, error))
        for total, error in zip(check.totals, check.total_errors, strict=True)
    )
    return [
        f"{n} {what} bought by a buyer with {check.rows[0]} rows; your values are from "
        f"{check.draws} {check.way} of the {sum(check.rows)} rows, the list's are for m = "
        f"{check.m}",
        f"order: {_correlation(check.rank_correlation, check.without_noise)}: "
        f"{_order_verdict(check, what)} (at least {check.least:g} is required)",
        f"total: all together are worth {listed} by the list and {own} by your values"
        f"{_percentage(check.ape)}: {_worth_verdict(check)} (at most {check.most:.0%} is required)",
        *_test_row_lines(check),
    ]


def _order_verdict(check: Check, what: str) -> str:
    return {
        "holds": "the list's order agrees with yours",
        "fails": "the list's order does not agree with yours",
        "not shown": f"there are too few {what} or {check.way} to tell whether the list's order "
        "agrees with yours",
    }[check.order]


def _worth_verdict(check: Check) -> str:
    cut = "; cut permutations cannot show that a total is wrong" if check.cut else ""
    return {
        "holds": "the list's total agrees with yours",
        "fails": "the list's total does not agree with yours",
        "not shown": f"the errors are too large to tell whether the totals agree{cut}",
    }[check.worth]


def _correlation(r: Interval, without_noise: Interval) -> str:
    if not math.isfinite(r[0]):
        return "a rank correlation needs at least four points, and different values on each side"
    seen = "rank correlation {:.2f} ({:.2f} to {:.2f})".format(*r)
    if not math.isfinite(without_noise[0]):
        return f"{seen}; the noise on both sides hides any order"
    best, low, high = without_noise
    return f"{seen}, without the noise on both sides about {best:.2f} ({low:.2f} to {high:.2f})"


def _percentage(ape: Interval) -> str:
    if not all(map(math.isfinite, ape)):
        return ""
    shown = [f"{part:.0%}" if part < 10 else "1000% or more" for part in ape]
    return f", an absolute percentage error of {shown[0]} ({shown[1]} to {shown[2]})"


def _test_row_lines(check: Check) -> list[str]:
    """How the test rows affect the verdicts, and how many would be enough."""
    if check.same_test:
        return []
    if check.test_error_unknown:
        return [
            "test rows: yours differ from the seller's, and their sampling error cannot be "
            "measured (they are too few, or U cannot be scored without some of them): use the "
            "seller's test rows"
        ]
    mine, theirs = check.test_rows
    sellers = f"the seller's {theirs}"
    if theirs is None:
        sellers = "the seller's, whose number is not known and is taken to be the same"
    return [
        f"test rows: your {mine} differ from {sellers}; the intervals include the sampling error "
        "of both",
        *(_how_to_tell(check, *question) for question in check.open_questions),
    ]


def _how_to_tell(check: Check, question: str, asked: float) -> str:
    needed = check.evidence.rows_needed(question, asked)
    if needed is not None:
        need = f"at least about {needed} test rows, or the seller's test rows"
    elif check.evidence.on_the_sellers_rows().would_show(question, asked):
        need = "the seller's test rows; more test rows of your own are not enough"
    else:
        need = f"more {check.way} (--draws) and more test rows"
    subject = {"order": "order", "worth": "total"}[question]
    return f"to tell whether the {subject} agrees you need {need}"


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
