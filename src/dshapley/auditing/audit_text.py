"""An audit in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dshapley.auditing.audit_page import summary
from dshapley.auditing.audited import Audit
from dshapley.reporting.text import cut

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_audit"]

_COLUMNS = 4


def print_audit(console: Console, audit: Audit, *, top: int) -> None:
    """The most suspicious labels with a few columns of their rows, then the findings."""
    from rich.table import Table
    from rich.text import Text

    found, prepared = audit.run.labels, audit.run.prepared
    shown = np.flatnonzero(audit.suspects)
    if found is not None and len(shown) and not audit.run.sensitive:
        shown = shown[np.argsort(-found.wrong[shown], kind="stable")][:top]
        frame = None if prepared is None else prepared.rows
        details = [] if frame is None else _columns(audit, [str(name) for name in frame.columns])
        table = Table(title="Labels that are probably wrong", title_justify="left")
        for name in ("id", "label", "suggested", "wrong"):
            table.add_column(name, justify="right", no_wrap=True)
        assert found.given is not None
        assert found.suggested is not None
        if frame is not None:
            for j in details:
                table.add_column(Text(str(frame.columns[j])), overflow="fold")
        for i in shown.tolist():
            cells = [str(audit.valuation.ids[i]), str(found.given[i]), str(found.suggested[i])]
            cells.append(f"{found.wrong[i]:.2f}")
            if frame is not None:
                cells += [str(frame.iloc[i, j]) for j in details]
            table.add_row(*(Text(cut(cell)) for cell in cells))
        console.print(table)
    for line in summary(audit):
        console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)


def _columns(audit: Audit, names: list[str]) -> list[int]:
    """The columns to show: those of regions that contradict the models first."""
    rules = [region.rule for region in audit.contradicted]
    order = sorted(
        range(1, len(names)),
        key=lambda j: not any(rule.startswith(f"{names[j]} ") for rule in rules),
    )
    return order[:_COLUMNS]
