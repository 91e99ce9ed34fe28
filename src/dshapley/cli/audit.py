"""The command audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dshapley.cli.options as options
from dshapley.cli.console import check_top, console, for_people, notice, write_values
from dshapley.cli.report import NoRetrain, Sensitive, bar

__all__ = ["audit"]

_MOST_SECONDS = 600.0
"""Retraining that would take longer is left out, and the page says so."""


@options.with_question
def audit(
    question: options.Question,
    time: options.Time = None,
    draws: options.Draws = None,
    no_retrain: NoRetrain = False,
    sensitive: Sensitive = False,
    top: Annotated[int, typer.Option(help="How many suspicious labels to show.")] = 10,
) -> None:
    """Find what may be wrong with a table, and measure what acting on it does.

    Writes audit.html to read and audit.csv with a column for each finding. Run the same command
    again to resume an interrupted audit.
    """
    with for_people():
        from dshapley.auditing import audited
        from dshapley.auditing.audit_text import print_audit
        from dshapley.running.stopping import Stop

        check_top(top)
        rule = Stop(draws=draws, seconds=options.seconds_of(time))
        out = question.out or Path(f"{question.table.stem}-audit")
        question = replace(question, out=out)
        estimator, prepared = question.prepared(notice)
        request = question.request(estimator, prepared, rule)
        with question.workers(), bar("retraining models") as progress:
            found = audited(
                request, prepared, retrain=not no_retrain, sensitive=sensitive,
                most_seconds=_MOST_SECONDS, progress=progress,
            )  # fmt: skip
        if not sensitive:
            write_values(found.valuation, out)
        page = found.report(out)
        print_audit(console(), found, top=top)
        print(f"audit in {page}: open it in a browser{_and_table(out, sensitive)}")


def _and_table(out: Path, sensitive: bool) -> Any:
    return "" if sensitive else f"; every row is in {out / 'audit.csv'}"
