"""The reports of a sale: of a price list, and of the buyer's check of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dshapley.formatting import number
from dshapley.market.buyer_check import Check
from dshapley.market.price_list_file import PriceList
from dshapley.plots.market import prices as plot_prices
from dshapley.plots.market import seller_and_buyer
from dshapley.reporting.market import check_lines, total_lines
from dshapley.reporting.page import Finding, Number, Page, Section, Table
from dshapley.reporting.svg import made_by, picture

__all__ = ["check_report", "price_list_report"]

_SHOWN = 200
"""Rows in the table at each end."""


def price_list_report(prices: PriceList, *, sensitive: bool = False) -> Page:
    """The page about a price list: totals, prices with their intervals, and its terms.

    With `sensitive`, no id and no column that the seller added is shown.
    """
    terms = prices.terms
    sizes = [int(m) for m in terms["m"]]
    lead = [
        f"{len(prices):,} points or bundles are on offer, with prices for buyers whose data sets "
        f"have {_listed(sizes)} rows.",
        f"Prices: {terms['pricing']['rule']}.",
        "A value is the change of the metric when a point is added to such a data set at random. "
        "Prices come from values, so each price has an interval.",
    ]
    sections = [_prices_for(prices, m, sensitive) for m in sizes]
    sections.append(_terms(prices, sensitive))
    return Page(
        title="Price list",
        lead=lead,
        sections=sections,
        made_by=made_by(),
    )


def _listed(sizes: list[int]) -> str:
    names = [f"{m:,}" for m in sizes]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _prices_for(prices: PriceList, m: int, sensitive: bool) -> Section:
    total = next(total for total in prices.terms["totals"] if total["m"] == m)
    text = [f"{line[0].upper()}{line[1:]}." for line in total_lines(total, len(prices))]
    name, title = f"m-{m}", f"Prices for data sets of {m:,} rows"
    if sensitive:
        return Section(name=name, title=title, text=text)
    frame = prices.at(m)
    n = min(10, max(1, len(frame) // 2))
    pictures = picture(
        f"prices-{m}",
        f"The highest and the lowest prices, m = {m:,}",
        lambda ax: plot_prices(prices, m=m, n=n, ax=ax),
        f"Lines are {prices.terms['confidence']:.0%} intervals.",
        height=1.2 + 0.26 * (min(2 * n, len(frame)) + 1),
    )
    return Section(name=name, title=title, text=text, pictures=pictures, tables=[_table(prices, m)])


def _table(prices: PriceList, m: int) -> Table:
    frame = prices.at(m).sort_values("price", ascending=False, kind="stable")
    shown = frame
    note = "All of them, the highest price first."
    if len(frame) > 2 * _SHOWN:
        shown = frame.iloc[[*range(_SHOWN), *range(-_SHOWN, 0)]]
        note = f"The {_SHOWN} highest and the {_SHOWN} lowest of {len(frame):,}."
    own = [c for c in frame.columns if c not in _NUMBERS and c not in ("m", "rows")]
    rows: list[list[Any]] = []
    for label, row in shown.iterrows():
        value, error = float(row["value"]), float(row["stderr"])
        reach = float(row["price_high"] - row["price_low"]) / 2
        cells = [Number(x, number(x, reach)[0]) for x in _as_floats(row, _ENDS)]
        rows.append(
            [str(label), Number(value, number(value, error)[0]), error, *cells]
            + [int(row["rows"])]
            + [str(row[name]) for name in own]
        )
    columns = ["id", "value", "standard error", "price", "price, low", "price, high", "rows", *own]
    return Table(title=f"Prices, m = {m:,}", columns=columns, rows=rows, note=note, searchable=True)


_ENDS = ("price", "price_low", "price_high")
_NAMES = ("target", "table", "details", "database", "source")
"""Terms that may name columns or files of the seller."""
_NUMBERS = {"value", "stderr", "low", "high", *_ENDS}


def _as_floats(row: Any, names: tuple[str, ...]) -> list[float]:
    return [float(row[name]) for name in names]


def _terms(prices: PriceList, sensitive: bool) -> Section:
    hidden = {"totals", "m", "pricing", "checksum", *(_NAMES if sensitive else ())}
    rows = [
        [name.replace("_", " "), str(value)]
        for name, value in prices.terms.items()
        if name not in hidden and not isinstance(value, dict)
    ]
    rows.append(["SHA-256 of rows and terms", prices.checksum])
    text = (
        "The checksum is not a signature: compare it over a separate channel, such as a phone call."
    )
    return Section(
        name="terms",
        title="Terms",
        text=[text],
        tables=[Table(title="What the prices depend on", columns=["what", "is"], rows=rows)],
    )


def check_report(check: Check, *, sensitive: bool = False) -> Page:
    """The page about a buyer's check: the verdicts, and both sides' values of each point."""
    lines = check_lines(check)
    verdicts = {"order": check.order, "total": check.worth}
    findings = [
        Finding(text=f"{line[0].upper()}{line[1:]}.", level=_level(line, verdicts))
        for line in lines[1:]
    ]
    pictures = [] if sensitive else picture(
        "both-sides",
        "The list's value and the buyer's own value",
        lambda ax: seller_and_buyer(check, ax=ax),
        "Lines are two standard errors to each side.",
        height=4.6,
    )  # fmt: skip
    sections = [Section(name="verdict", title="Verdict", findings=findings, pictures=pictures)]
    if not sensitive:
        sections.append(Section(name="points", title="Both sides", tables=[_both_sides(check)]))
    return Page(
        title="Was the price list right?",
        lead=[f"{lines[0][0].upper()}{lines[0][1:]}."],
        sections=sections,
        made_by=made_by(),
    )


def _level(line: str, verdicts: Mapping[str, str]) -> str:
    verdict = verdicts.get(line.partition(":")[0])
    return {"holds": "good", "fails": "warning"}.get(verdict or "", "note")


def _both_sides(check: Check) -> Table:
    frame = check.frame.sort_values("value", ascending=False, kind="stable")
    rows = []
    for label, row in frame.iloc[: 2 * _SHOWN].iterrows():
        cells: list[Any] = [str(label)]
        for value, error in (("value", "stderr"), ("own", "own_stderr")):
            said = number(float(row[value]), float(row[error]))
            cells += [Number(float(row[value]), said[0]), Number(float(row[error]), said[1])]
        rows.append([*cells, float(row["price"])])
    columns = ["id", "list", "standard error", "own", "own standard error", "price"]
    note = "" if len(rows) == len(frame) else f"The {len(rows)} highest of {len(frame):,}."
    return Table(title="Values", columns=columns, rows=rows, note=note, searchable=True)
