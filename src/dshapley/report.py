"""What a person reads of a valuation: short tables, only the digits that the error allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dshapley.valuation import Valuation

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

__all__ = ["number", "print_valuation"]

_CONFIDENCE = 0.95
_FEW = 30


def number(value: float, stderr: float) -> tuple[str, str]:
    """A value and its standard error, to the error's second digit.

    >>> number(0.01234567, 0.00041999)
    ('0.01235', '0.00042')
    >>> number(-12.34567, 3.2)
    ('-12.3', '3.2')
    >>> number(1234.5, 98.7)
    ('1234', '99')
    >>> number(-123456.7, 4999.0)
    ('-123500', '5000')
    >>> number(0.5, float("nan"))
    ('0.5', '?')
    >>> number(0.5, 0.0)
    ('0.5', '0')
    """
    if not math.isfinite(stderr):
        return f"{value:.2g}", "?"
    if stderr == 0:
        return f"{value:.6g}", "0"
    # Rounded first: 0.0996 is 0.10, which has one decimal less than its size suggests.
    size = math.floor(math.log10(float(f"{stderr:.1e}")))
    decimals = 1 - size
    shown = (f"{round(x, decimals) + 0.0:.{max(decimals, 0)}f}" for x in (value, stderr))
    return next(shown), next(shown)


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
        cells = [str(valuation.ids[i]), *number(value, stderr)]
        if bundles:
            size = int(valuation.rows[i])
            per_row, _ = number(value / size, stderr / size)
            cells += [str(size), per_row]
        if details is not None:
            cells += [str(cell) for cell in details.iloc[i]]
        table.add_row(*map(Text, cells))  # as they are: "[b]" in a table is no markup
    return table


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
    if "path" in valuation.about:
        fast = valuation.about["path"] == "fast"
        lines.append("marginals on the fast path" if fast else "marginals by refitting")
    if "empty" in valuation.about:
        lines.append(
            f"{valuation.about.get('metric')} of a model trained on nothing: "
            f"{valuation.about['empty']:.4g}"
        )
    return lines
