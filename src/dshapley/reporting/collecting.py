"""A batch of candidates as text: what to collect next, how sure that is, and what it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dshapley.collecting.collected import Collected
from dshapley.formatting import number
from dshapley.reporting.text import cut

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_collected"]


def print_collected(console: Console, found: Collected, *, columns: int) -> None:
    """The batch as a table with a few columns of the rows, and sentences about the errors."""
    from rich.table import Table
    from rich.text import Text

    labelled = found.candidates.labelled
    value = "value" if labelled else "expected value"
    table = Table(title=f"A batch of {len(found.batch):,} to collect next", title_justify="left")
    for name in ("", "id", value, "stderr"):
        table.add_column(name, justify="right", no_wrap=True)
    if labelled or found.candidates.potential.classification:
        table.add_column(found.candidates.target if labelled else "likely label", overflow="fold")
    shown = found.candidates.shown.iloc[:, :columns]
    for name in shown.columns:
        table.add_column(Text(str(name)), overflow="fold")
    for place, i in enumerate(found.batch.tolist(), start=1):
        cells = [
            str(place),
            cut(str(found.values.ids[i])),
            *number(float(found.values.values[i]), float(found.stderr[i])),
            *_label(found, i),
            *(cut(str(shown[name].iloc[i])) for name in shown.columns),
        ]
        table.add_row(*map(Text, cells))
    console.print(table)
    for line in _sentences(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _label(found: Collected, i: int) -> list[str]:
    """The label of a candidate, or the most probable one with its probability."""
    if found.candidates.labelled:
        assert found.candidates.rows.y is not None
        return [cut(str(found.candidates.rows.y[i]))]
    guesses = found.guesses
    if guesses is None:
        return []
    if not found.measured[i]:
        return ["?"]
    place = int(found.measured[:i].sum())
    return [f"{cut(str(guesses[0][place]))} ({guesses[1][place]:.0%})"]


def _sentences(found: Collected) -> list[str]:
    values = found.values
    best = int(np.argmax(values.values))
    shown, error = number(float(values.values[best]), float(found.stderr[best]))
    what = "its label" if found.candidates.labelled else "the label that the models expect"
    lines = [
        f"{len(values):,} candidates, {values.n_draws:,} draws. The best, "
        f"{cut(str(values.ids[best]))}, has {shown} ± {error}: what it adds to the score with "
        f"{what}, on average over random sets of up to {values.m:,} rows of the database.",
    ]
    if values.unseen:
        lines.append(f"The errors are not known yet: {values.what_is_unseen}; make more draws.")
    alike = found.alike
    if alike is not None:
        lines.append(
            f"{alike:,} of {len(found.measured):,} candidates are not surely worse than the best "
            "(95 %, each on its own), so the order among them is open."
        )
    if not found.measured.all():
        lines.append(
            f"{int((~found.measured).sum()):,} values are predicted from the measured ones."
        )
    if not found.candidates.labelled:
        lines.append(
            "The standard errors are those of the draws, and of the probabilities of the labels "
            "between draws. Where all models are wrong about a row, they do not show it."
        )
    lines += [_how_chosen(found), _LIMITS]
    return lines


_LIMITS = (
    "A value is that of a single row. It does not say what the batch adds together, nor what a row "
    "costs to collect."
)


def _how_chosen(found: Collected) -> str:
    """How the batch was chosen, and what was measured of that (docs/collect.md)."""
    if found.by == "doubt":
        return (
            "The batch has rows whose label the models doubt, and that differ from each other. "
            "Where it was measured, such batches were better than random ones on two of four "
            "tables; on the others that was not shown (docs/collect.md). It does not follow the "
            "expected values, which were better on none. A doubted row often has one below zero: "
            "with one label it helps, with the other it harms."
        )
    chosen = "The batch has rows of high value that differ from each other."
    if not found.candidates.potential.classification:
        return f"{chosen} For numbers it was not measured whether that is better than chance."
    if not found.candidates.labelled:
        return (
            f"{chosen} Where it was measured, batches of high expected value were better than "
            "random ones on none of four tables: leave out --by value (docs/collect.md)."
        )
    if found.candidates.cross_fitted:
        return (
            f"{chosen} Where it was measured, batches by values from cross-fitting were better "
            "than random ones on none of four tables; by values from test rows of their own they "
            "were on all four: value the table with --test (docs/collect.md)."
        )
    return (
        f"{chosen} Where it was measured, batches by values with known labels, from separate test "
        "rows, were better than random ones on all four tables (docs/collect.md)."
    )
