"""The command compare: would another run say the same?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dshapley.cli.options as options
from dshapley.cli.console import check_top, console, for_people, notice, write_table
from dshapley.cli.report import Sensitive
from dshapley.errors import DShapleyError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from dshapley.inference.comparison import Comparison

__all__ = ["compare"]

_COLUMNS = 4
"""How many columns of the table are shown beside a row."""


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Two or more run folders.", metavar="RUN")],
    m: Annotated[
        int | None,
        typer.Option("--m", help="Compare values for this data set size.", show_default="each own"),
    ] = None,
    source: options.SourceOption = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for compare.csv and the page compare.html.")
    ] = None,
    sensitive: Sensitive = False,
    top: options.Top = 10,
) -> None:
    """Would another model, metric, seed, test set or m say the same of these rows?

    Of a run with several metrics, all of them are compared.
    """
    with for_people():
        from dshapley.inference.comparison import compare as compared
        from dshapley.inference.sampled import estimate
        from dshapley.reporting.comparison import comparison_report, print_comparison
        from dshapley.running.metric_folders import runs_in
        from dshapley.running.run import METHOD
        from dshapley.running.run_folder import load_run

        check_top(top)
        folders = [run for folder in folders for run in runs_in(folder) or [folder]]
        if len(folders) < 2:
            raise InputError("compare needs two or more run folders, such as: run-a run-b")
        names = _names(folders)
        _check_out(out)
        runs = []
        for folder in folders:
            draws = load_run(folder)
            if draws.about.identity.method != METHOD:
                raise InputError(
                    f"{folder} holds a run of {draws.about.identity.method}: compare reads only "
                    f"runs of {METHOD}"
                )
            runs.append(estimate(draws, m=m))
        found = compared(*runs, names=names)
        details = _details(folders, found, source)
        print_comparison(console(), found, top=top, details=None if sensitive else details)
        if out is not None:
            from dshapley.reporting.page import write

            out.mkdir(parents=True, exist_ok=True)
            write_table(found.to_frame().reset_index(), out / "compare.csv")
            page = comparison_report(found, details=details, sensitive=sensitive)
            path = write(page, out, "compare")
            print(f"all rows in {out / 'compare.csv'}; the page is {path}")


def _names(folders: list[Path]) -> list[str]:
    """What the runs are called: their folders, by as few parts of the path as tell them apart."""
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise InputError(f"{twice} is named twice: compare different runs")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def _check_out(out: Path | None) -> None:
    """Refuse a run folder, or a file, before any work is done."""
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: it is a file; name a folder")
    if (out / "manifest.json").exists():
        raise InputError(f"--out {out}: it is a run folder; name a folder for the comparison")


def _details(
    folders: list[Path], comparison: Comparison, source: Path | None
) -> pd.DataFrame | None:
    """Columns of the table, in the order of the points compared; None if it is not at hand."""
    from dshapley.running.run_folder import load_run
    from dshapley.running.source_tables import rows_valued

    why = ""
    for folder in folders:
        try:
            rows = rows_valued(folder, load_run(folder).about, source=source)
        except DShapleyError as error:
            if source is not None:
                raise
            why = why or str(error)
            continue
        wanted = rows.reindex(comparison.ids.astype(str))
        return wanted.iloc[:, :_COLUMNS].reset_index(drop=True)
    notice(f"no columns of the rows are shown: {why}")
    return None
