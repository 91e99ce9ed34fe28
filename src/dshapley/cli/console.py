"""What all commands print through: errors and notices for people."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dshapley.errors import DShapleyError, DShapleyWarning, InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_top", "console", "for_people", "notice", "one_line", "write_table"]


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """Errors as one line on standard error and exit code 2; warnings as notices.

    `dshapley.cli.start` has the table of exit codes, and those of signals other than Ctrl-C.
    """
    from dshapley.running.run import Interrupted

    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except Interrupted as stop:
            print(f"stopped: {stop}", file=sys.stderr)
            raise typer.Exit(130) from None
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            raise typer.Exit(130) from None
        except (DShapleyError, OSError) as error:
            print(f"error: {one_line(error)}", file=sys.stderr)
            raise typer.Exit(2) from None


def _show_warning(
    message: Warning | str, category: type[Warning], *where: Any, **named: Any
) -> None:
    name = "" if issubclass(category, DShapleyWarning) else f"{category.__name__}: "
    notice(f"{name}{message}")


def notice(text: str) -> None:
    """Something a person should know of, beside the results."""
    print(f"notice: {one_line(text)}", file=sys.stderr)


def one_line(text: object) -> str:
    r"""A message on one line: files from elsewhere can put anything into names that it quotes.

    >>> one_line("a\n  b\x1b[31m")
    'a b\\x1b[31m'
    """
    line = " ".join(str(text).split())
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


_LONGEST = 2000


def console() -> Any:
    """Where tables are printed."""
    from rich.console import Console

    return Console()


def check_top(top: int) -> None:
    """An error for people where there would be nothing to show."""
    if top < 1:
        raise InputError(f"--top {top}: show at least one row")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """A .csv or .parquet file, whole or not at all."""
    from dshapley.files import write_atomically, write_csv

    if path.suffix == ".csv":
        write_csv(frame, path)
    else:
        write_atomically(path, lambda f: frame.to_parquet(f, index=False))
