"""The command reproduce."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import dshapley.cli.options as options
from dshapley.cli.console import console, for_people
from dshapley.errors import InputError

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="figure1, figure2, supplement1, cifar10, cost, mislabelled, figure3, shift, "
            "collecting; or all"
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), small (minutes), or full (the paper's sizes).")
    ] = "small",
    out: Annotated[Path, typer.Option(help="The folder for rows, figures and claims.")] = Path(
        "reproduction"
    ),
    table: Annotated[
        Path | None, typer.Option(help="A table of yours in place of the medical one.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="With --table: the column to predict.")] = None,
    jobs: options.Jobs = -1,
) -> None:
    """Reproduce an experiment of the paper: its rows, its figure, and whether its claims hold.

    Run the same command again to resume it. The exit code is 1 if a claim fails, except at the
    scale smoke, which is too small to tell.
    """
    with for_people():
        from dshapley.data.datasets import divided
        from dshapley.data.tables import read_table
        from dshapley.experiments import NAMES, WITH_TABLE, experiment
        from dshapley.experiments.reproduce import reproduction
        from dshapley.experiments.shared.work import Work
        from dshapley.formatting import duration
        from dshapley.reporting.page import write
        from dshapley.reporting.reproduction_report import reproduction_report
        from dshapley.reporting.text import print_claims

        if (table is None) != (target is None):
            raise InputError("--table FILE and --target COLUMN go together")
        chosen = NAMES if name == "all" else (name,)
        own = None
        if table is not None and target is not None:
            if not set(chosen) & set(WITH_TABLE):
                raise InputError(
                    f"--table: {name} has no medical task that a table could replace; "
                    f"{', '.join(WITH_TABLE)} have one"
                )
            divided(read_table(table), target=target)  # refuses a bad table before other work
            own = (table, target)
        kept = out / "work" / scale
        works = {
            n: Work(scale=cast("Any", scale), folder=kept / n, n_jobs=None, say=_say, table=own)
            for n in chosen
        }
        minutes = sum(experiment(n).MINUTES[work.scale] for n, work in works.items())
        print(f"about {duration(60 * minutes)} on two cores; stop it with Ctrl-C to resume later")
        done = []
        for n, work in works.items():
            with options.workers("loky", None, jobs):
                found = reproduction(n, work, out)
            print_claims(console(), n, experiment(n), found.claims)
            print(f"{n}: rows, figure and claims are in {out / n}.csv, .png and .json")
            done.append(found)
        print(f"report in {write(reproduction_report(done, scale), out)}")
        if scale == "smoke":
            print("smoke only shows that the experiments run: use --scale small to test claims")
        elif any(claim.verdict == "fails" for found in done for claim in found.claims):
            raise typer.Exit(1)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr)
