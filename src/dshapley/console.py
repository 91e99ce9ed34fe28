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

__all__ = ["check_top", "console", "for_people", "notice", "write_table"]


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """Errors as one line on standard error and exit code 2; warnings as notices."""
    from dshapley.runs import Interrupted

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
        except DShapleyError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2) from None


_plain_showwarning = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], *where: Any, **named: Any
) -> None:
    if issubclass(category, DShapleyWarning):
        notice(str(message))
    else:
        _plain_showwarning(message, category, *where, **named)


def notice(text: str) -> None:
    """Something a person should know of, beside the results."""
    print(f"notice: {text}", file=sys.stderr)


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
    from dshapley.store import write_atomically

    if path.suffix == ".csv":
        write_atomically(path, lambda f: frame.to_csv(f, index=False))
    else:
        write_atomically(path, lambda f: frame.to_parquet(f, index=False))
