"""The command report, and the report at the end of `dshapley value --out`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

import dshapley.cli.options as options
from dshapley.cli.console import for_people
from dshapley.errors import InputError

__all__ = ["NoRetrain", "Sensitive", "bar", "report", "write_run_report"]

AT_THE_END = 60.0
"""The seconds of retraining that `dshapley value` spends on its report without being asked."""

NoRetrain = Annotated[
    bool,
    typer.Option(
        "--no-retrain", help="Do not measure what removing rows does, which retrains models."
    ),
]
Sensitive = Annotated[
    bool, typer.Option("--sensitive", help="Leave out every id, label and column value.")
]


def report(
    folder: Annotated[Path, typer.Argument(help="A run folder, or a price list.", metavar="DIR")],
    sensitive: Sensitive = False,
    no_retrain: NoRetrain = False,
    source: options.SourceOption = None,
    jobs: options.Jobs = -1,
) -> None:
    """Write DIR/report.html: one file that works offline, to read and to hand on.

    report.json beside it has the same content for programs.
    """
    with for_people():
        from dshapley.reporting.market_report import price_list_report
        from dshapley.reporting.page import write

        if (folder / "terms.json").exists():
            from dshapley.market.price_list_file import load_prices

            if source is not None or no_retrain:
                raise InputError(
                    f"{folder} is a price list: --source and --no-retrain are for runs"
                )
            path = write(price_list_report(load_prices(folder), sensitive=sensitive), folder)
        else:
            path = write_run_report(
                folder, source=source, sensitive=sensitive, retrain=not no_retrain, jobs=jobs
            )
        print(f"report in {path}")


def write_run_report(
    folder: Path,
    *,
    source: Path | None = None,
    sensitive: bool = False,
    retrain: bool = True,
    jobs: int = -1,
    most_seconds: float | None = None,
) -> Path:
    """Write the report of a run folder, with a progress bar while models are retrained."""
    from dshapley.reporting.page import write
    from dshapley.reporting.run_facts import facts_of_run
    from dshapley.reporting.run_report import run_report

    with options.workers("loky", None, jobs), bar("retraining models") as progress:
        facts = facts_of_run(
            folder, source=source, sensitive=sensitive, retrain=retrain,
            most_seconds=most_seconds, progress=progress,
        )  # fmt: skip
    return write(run_report(facts), folder)


@contextlib.contextmanager
def bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error if that is a terminal; it is gone when the work is done."""
    from rich.console import Console
    from rich.progress import Progress

    shown = Console(stderr=True)
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
