"""The command collect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

import dshapley.cli.options as options
from dshapley.cli.console import console, for_people, notice, write_table

__all__ = ["collect"]

_MOST_COLUMNS, _FEW_COLUMNS, _WIDE = 5, 2, 110
"""How many columns are shown beside each row: fewer on a terminal narrower than `_WIDE`."""


def collect(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    pool: Annotated[Path, typer.Argument(help="A table of candidates, with labels or without.")],
    n: Annotated[int, typer.Option("--n", help="The number of rows to collect.")] = 10,
    by: Annotated[
        str | None,
        typer.Option(
            help="Choose the batch by doubt (the models are undecided) or by value.",
            show_default="doubt; value for numbers and for candidates with labels",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            max=options.MOST_DRAWS,
            help="Stop after this many draws.",
            show_default="as many as the run has",
        ),
    ] = None,
    time: options.Time = None,
    share: options.Share = None,
    source: options.SourceOption = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for collect.csv and what is needed to resume.")
    ] = None,
    jobs: options.Jobs = -1,
) -> None:
    """Value candidates that are not in the data yet, and choose a batch of them to collect.

    Candidates without labels get an expected value: the mean over the labels, each as probable as
    the run's models find it. Run the same command again to resume an interrupted run.
    """
    with for_people():
        from dshapley.collecting.candidates import candidates
        from dshapley.collecting.collected import collected
        from dshapley.reporting.collecting import print_collected
        from dshapley.running.stopping import Stop

        found = candidates(folder, pool, source=source)
        for text in found.notices:
            notice(text)
        stop = Stop(
            draws=found.n_draws if draws is None else draws, seconds=options.seconds_of(time)
        )
        with options.workers("loky", None, jobs):
            answer = collected(found, n=n, by=cast("Any", by), stop=stop, share=share, store=out)
        if out is not None:
            write_table(answer.to_frame(), out / "collect.csv")
        wide = console().width >= _WIDE
        print_collected(console(), answer, columns=_MOST_COLUMNS if wide else _FEW_COLUMNS)
        if out is not None:
            print(f"every candidate is in {out / 'collect.csv'}")
        else:
            notice("nothing was kept; add --out FOLDER to keep the values of all candidates")
