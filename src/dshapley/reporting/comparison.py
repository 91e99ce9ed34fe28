"""A comparison of runs as text, and as a page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from dshapley.formatting import number
from dshapley.inference.comparison import FALSE, Comparison, Overlap, PairOfRuns
from dshapley.plots.comparison import compared
from dshapley.plots.figure import name_of
from dshapley.reporting.page import Finding, Number, Page, Section, Table
from dshapley.reporting.svg import made_by, picture

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

__all__ = ["cautions", "comparison_report", "pair_lines", "print_comparison", "summary_lines"]

_MOST_PICTURES = 3
_MOST_ROWS = 200
"""Rows in the table of a page."""


# -- Sentences


def pair_lines(comparison: Comparison, pair: PairOfRuns) -> list[str]:
    """What two of the runs agree on, one sentence for each question."""
    lines = [
        _order(pair),
        *(_tenth(name, part) for name, part in (("top", pair.top), ("bottom", pair.bottom))),
    ]
    if not min(pair.spreads) > 0:
        return [*lines, "A run shows nothing but noise, so no row can be said to differ."]
    n = int(pair.differs.sum())
    text = f"{n:,} of {len(comparison):,} rows differ beyond the error"
    if n and not _test_rows_are_missing(comparison, pair):
        text += f"; about {FALSE:.0%} of such rows do not differ in truth"
    return [*lines, f"{text}.", *cautions(comparison, pair)]


def _order(pair: PairOfRuns) -> str:
    order = pair.order
    seen = f"Rank correlation: {order.observed:.2f}"
    if order.hidden:
        return (
            f"{seen}. Runs that agree but for their noise would show {order.ceiling:.2f}. What it "
            f"is without the noise is not known: {order.hidden}. Make more draws."
        )
    found, low, high = order.without_noise
    return (
        f"{seen}. Runs that agree but for their noise would show {order.ceiling:.2f}. Without the "
        f"noise it is {found:.2f} (95% interval {low:.2f} to {high:.2f})."
    )


def _tenth(name: str, part: Overlap) -> str:
    agreeing = ""
    if math.isfinite(part.agreeing):
        agreeing = f"runs that agree but for their noise would share {part.agreeing:.0%}, "
    return (
        f"{name.capitalize()} tenth: the runs share {part.found:.0%} of its rows; {agreeing}random "
        f"orders {part.chance:.0%}."
    )


def cautions(comparison: Comparison, pair: PairOfRuns) -> list[str]:
    """What the errors of this pair do or do not include."""
    if pair.same_draws:
        return [
            "Both runs drew the same sets, so part of their errors is common and cancels in the "
            "differences."
        ]
    if not _test_rows_are_missing(comparison, pair):
        return []
    return [
        "The runs test on different rows. The errors of a run with test rows of its own leave out "
        "the luck of these, so part of the disagreement may be due to it."
    ]


def _test_rows_are_missing(comparison: Comparison, pair: PairOfRuns) -> bool:
    """Whether the runs test on different rows, and the errors do not tell what that does."""
    if pair.test_rows_are_known:
        return False
    tests = {part.what: part.values for part in comparison.differences}.get("test rows")
    if tests is None or pair.same_table_in_turn:
        return False
    return tests[pair.first] != tests[pair.second]


def summary_lines(comparison: Comparison) -> list[str]:
    """How the rows were matched, and what a standardised value is."""
    return [
        comparison.matched,
        "Differences are of standardised values: how many spreads a value lies from the mean of "
        "its run. The spread is that of the values without their noise, of the rows that agree.",
    ]


def _title(comparison: Comparison, pair: PairOfRuns) -> str:
    return f"{comparison.names[pair.first]} and {comparison.names[pair.second]}"


# -- The terminal


def print_comparison(
    console: Console, comparison: Comparison, *, top: int, details: pd.DataFrame | None = None
) -> None:
    """What differs, how far each pair agrees, and the rows that differ most.

    `details` has columns to show beside each row, one row for each point.
    """
    from rich.table import Table as Printed
    from rich.text import Text

    def printed(table: Table) -> None:
        shown = Printed(title=Text(table.title), title_justify="left")
        for i, name in enumerate(table.columns):
            left, whole = (
                name in ("", "what"),
                name == "id" or all(isinstance(row[i], Number) for row in table.rows),
            )
            justify: Literal["left", "right"] = "left" if left else "right"
            shown.add_column(Text(name), justify=justify, overflow="fold", no_wrap=whole)
        for row in table.rows:
            shown.add_row(*(Text(cell.text if isinstance(cell, Number) else str(cell))
                            for cell in row))  # fmt: skip
        console.print(shown)

    def said(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    printed(_what_differs(comparison))
    if len(comparison.pairs) == 1:
        for line in pair_lines(comparison, comparison.pairs[0]):
            said(line)
    else:
        printed(_matrix(comparison))
        said("Above the diagonal: without the noise. Below it: as they are.")
        printed(_pairs(comparison))
        for line in dict.fromkeys(
            x for pair in comparison.pairs for x in cautions(comparison, pair)
        ):
            where = [
                _title(comparison, p) for p in comparison.pairs if line in cautions(comparison, p)
            ]
            said(f"{'; '.join(where)}: {line}")
    said("")
    if details is not None:
        room = max(0, (console.width - _WITHOUT_DETAILS) // _DETAIL)
        details = details.iloc[:, :room]
    if comparison.differs.any():
        printed(_rows(comparison, top, details, sensitive=False))
    for line in summary_lines(comparison):
        said(line)


_WITHOUT_DETAILS, _DETAIL = 80, 15
"""The width of the table without columns of the run's table, and what each of these needs."""


# -- Tables


def _what_differs(comparison: Comparison) -> Table:
    rows = [[part.what, *part.values] for part in comparison.differences]
    return Table(
        title="What differs",
        columns=["what", *comparison.names],
        rows=rows or [["nothing that is recorded", *([""] * len(comparison.names))]],
        wrapped=True,
    )


def _matrix(comparison: Comparison) -> Table:
    """Rank correlations as they are below the diagonal, and without the noise above it."""
    n = len(comparison.names)
    cells: list[list[Any]] = [["" for _ in range(n)] for _ in range(n)]
    for pair in comparison.pairs:
        found = pair.order.without_noise[0]
        above: Any = Number(found, f"{found:.2f}") if math.isfinite(found) else "open"
        cells[pair.first][pair.second] = above
        cells[pair.second][pair.first] = Number(pair.order.observed, f"{pair.order.observed:.2f}")
    return Table(
        title="Rank correlations",
        columns=["", *comparison.names],
        rows=[[name, *cells[i]] for i, name in enumerate(comparison.names)],
        note="Above the diagonal: without the noise. Below it: as they are.",
    )


def _pairs(comparison: Comparison) -> Table:
    """One line for each pair: the order, the tenths, and how many rows differ."""
    rows = []
    for pair in comparison.pairs:
        found, low, high = pair.order.without_noise
        true = pair.order.hidden or f"{found:.2f} ({low:.2f} to {high:.2f})"
        tenths = [
            f"{part.found:.0%}, {part.agreeing:.0%}, {part.chance:.0%}".replace("nan%", "?")
            for part in (pair.top, pair.bottom)
        ]
        order = f"{pair.order.observed:.2f}, {pair.order.ceiling:.2f}"
        rows.append([_title(comparison, pair), order, true, *tenths, int(pair.differs.sum())])
    return Table(
        title="Pairs of runs",
        columns=["what", "rank correlation, if agreeing", "without noise",
                 "top tenth shared, if agreeing, by chance", "bottom tenth", "rows that differ"],
        rows=rows,
    )  # fmt: skip


def _rows(
    comparison: Comparison, most: int, details: pd.DataFrame | None, *, sensitive: bool
) -> Table:
    """The rows that differ most, with both values and their errors."""
    places = comparison.most_different()
    shown = places[:most].tolist()
    only = comparison.pairs[0] if len(comparison.pairs) == 1 else None
    columns = ["id", *comparison.names]
    columns += ["in spreads", "difference"] if only else ["runs that differ"]
    if details is not None and not sensitive:
        columns += [str(name) for name in details.columns]
    rows = []
    for i in shown:
        cells: list[Any] = [str(comparison.ids[i])]
        for value, error in zip(comparison.values[:, i], comparison.stderr[:, i], strict=True):
            cells.append(_with_error(float(value), 2 * float(error)))
        if only:
            cells.append(_in_spreads(comparison, only, i))
            cells.append(_with_error(float(only.difference[i]), 2 * float(only.stderr[i])))
        else:
            pairs = [pair for pair in comparison.pairs if pair.differs[i]]
            cells.append("; ".join(_title(comparison, pair) for pair in pairs))
        if details is not None and not sensitive:
            cells += [name_of(details[name].iloc[i]) for name in details.columns]
        rows.append(cells)
    title = "Rows that differ most, ± two standard errors"
    if len(shown) < len(places):
        title += f": {len(shown):,} of {len(places):,}"
    return Table(title=title, columns=columns, rows=rows, searchable=True)


def _in_spreads(comparison: Comparison, pair: PairOfRuns, i: int) -> Number:
    """Both standardised values of a row."""
    found = [
        (float(comparison.values[run, i]) - centre) / spread
        for run, centre, spread in zip(
            (pair.first, pair.second), pair.centres, pair.spreads, strict=True
        )
    ]
    return Number(found[0], f"{found[0]:.1f}, {found[1]:.1f}")


def _with_error(value: float, reach: float) -> Number:
    said, plus = number(value, reach)
    return Number(value, f"{said} ± {plus}")


# -- The page


def comparison_report(
    comparison: Comparison, *, details: pd.DataFrame | None = None, sensitive: bool = False
) -> Page:
    """The page about a comparison of runs.

    With `sensitive`, no id and no column value is shown.
    """
    findings = [
        Finding(text=f"{_title(comparison, pair)}: {line}", section=f"pair-{i}")
        for i, pair in enumerate(comparison.pairs)
        for line in pair_lines(comparison, pair)[:1]
    ]
    tables = [_what_differs(comparison)]
    if len(comparison.names) > 2:
        tables += [_matrix(comparison), _pairs(comparison)]
    sections = [
        Section(name="runs", title="The runs", text=summary_lines(comparison), tables=tables),
        *(_pair_section(comparison, i, sensitive) for i in range(len(comparison.pairs))),
    ]
    lead = [finding.text for finding in findings[:_MOST_PICTURES]]
    if comparison.differs.any() and not sensitive:
        table = _rows(comparison, _MOST_ROWS, details, sensitive=sensitive)
        sections.append(Section(name="rows", title="Rows that differ", tables=[table]))
        if details is not None:
            lead.append(
                "This page shows rows of the table: treat it like the table itself. Made with "
                "--sensitive it shows none."
            )
    return Page(
        title="Would another run say the same?",
        lead=lead,
        sections=sections,
        made_by=made_by(),
    )


def _pair_section(comparison: Comparison, i: int, sensitive: bool) -> Section:
    pair = comparison.pairs[i]
    pictures = [] if i >= _MOST_PICTURES else picture(
        f"pair-{i}",
        "The values of both runs",
        lambda ax: compared(comparison, pair=i, named=not sensitive, ax=ax),
        "Each dot is a row; rows that differ beyond the error are in colour, the first of them "
        "with two standard errors to each side. On the line, both runs say the same.",
        height=4.6,
    )  # fmt: skip
    return Section(
        name=f"pair-{i}",
        title=_title(comparison, pair),
        text=pair_lines(comparison, pair),
        pictures=pictures,
    )
