"""The command line as a whole: it parses and prints, and computes nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from dshapley.cli.audit import audit
from dshapley.cli.collect import collect
from dshapley.cli.compare import compare
from dshapley.cli.market import check, match, price, publish
from dshapley.cli.report import report
from dshapley.cli.reproduce import reproduce
from dshapley.cli.runs import predict, show
from dshapley.cli.value import demo, plan, value

__all__ = ["app", "command"]

app = typer.Typer(
    help="What is a data point worth? Distributional Shapley values with error bars.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    value,
    audit,
    plan,
    report,
    predict,
    show,
    compare,
    collect,
    demo,
    price,
    publish,
    match,
    check,
    reproduce,
):
    app.command()(_command)


def command(args: Sequence[str]) -> int:
    """Run the command that these words ask for and return its exit code."""
    try:
        app(list(args), prog_name="dshapley")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from dshapley import __version__

        print(f"dshapley {__version__}")
        raise typer.Exit
