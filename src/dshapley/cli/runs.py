"""The commands that read a run folder: predict, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dshapley.cli.options as options
from dshapley.cli.console import (
    check_top,
    console,
    for_people,
    notice,
    write_table,
    write_values,
)
from dshapley.errors import InputError

__all__ = ["predict", "show"]


def predict(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    table: Annotated[Path, typer.Argument(help="A table of new rows.")],
    source: options.SourceOption = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file for the predictions.")
    ] = None,
    top: options.Top = 10,
) -> None:
    """Predict the values of new rows from the values of a run, with errors, without any draw."""
    with for_people():
        from dshapley.reporting.text import print_prediction
        from dshapley.running.source_tables import predicted

        check_top(top)
        if out is not None and out.suffix not in (".csv", ".parquet"):
            raise InputError(f"--out {out}: name a .csv or .parquet file")
        valuation, prediction = predicted(folder, table, source=source)
        if out is not None:
            write_table(prediction.to_frame().reset_index(), out)
        print_prediction(console(), prediction, valuation.interpolation, top=top)


def show(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    m: Annotated[
        int | None,
        typer.Option(
            "--m",
            help="Show values for this data set size.",
            show_default="the run's m, the largest",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for values.csv and values.parquet.")
    ] = None,
    database_error: Annotated[
        bool,
        typer.Option(
            "--database-error",
            help="Say how much the values would differ with another database of the same size.",
        ),
    ] = False,
    top: options.Top = 10,
) -> None:
    """Show the values of a run, finished or not, for its own m or a smaller one."""
    with for_people():
        from dshapley.inference.sampled import estimate
        from dshapley.reporting.findings import database_sentence
        from dshapley.reporting.text import print_valuation
        from dshapley.running.run import METHOD
        from dshapley.running.run_folder import load_run

        check_top(top)
        draws = load_run(folder)
        about = draws.about
        if about.identity.method != METHOD:
            raise InputError(
                f"{folder} holds a run of {about.identity.method}: show reads only runs of {METHOD}"
            )
        if about.context.share != 1:
            notice(
                f"these are the {len(draws.ids):,} values that were measured; the predictions of "
                f"the others are in {folder / 'values.csv'}"
            )
        if out is not None and out.resolve() == folder.resolve():
            raise InputError(
                f"--out {out}: name a folder other than the run's; its values.csv is what "
                "dshapley value wrote"
            )
        valuation = estimate(draws, m=m)
        between = valuation.database_error() if database_error else None
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_values(valuation, out)
        print_valuation(console(), valuation, top=top)
        if between is not None:
            print(database_sentence(between))
        if out is not None:
            print(f"values in {out / 'values.csv'} and .parquet")
