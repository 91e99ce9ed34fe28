"""What all commands share: errors and notices for people, and the writing of tables."""

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

    from dshapley.inference.valuation import Valuation

__all__ = [
    "check_top",
    "console",
    "for_people",
    "notice",
    "one_line",
    "write_table",
    "write_values",
]

_LONGEST = 2000
"""The most characters of a message."""
_MOST_RANKED = 10**8
"""The most marginals for which ranks are computed, which needs all of them in memory."""


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """Print errors as one line on standard error with exit code 2, and warnings as notices.

    `dshapley.cli.start` has the table of exit codes and handles signals other than Ctrl-C.
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
    """Print something that a person should know besides the results."""
    print(f"notice: {one_line(text)}", file=sys.stderr)


def one_line(text: object) -> str:
    r"""A message on one line, without control characters that it may quote from foreign files.

    >>> one_line("a\n  b\x1b[31m")
    'a b\\x1b[31m'
    """
    line = " ".join(str(text).split())
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def console() -> Any:
    """The console that results are printed to."""
    from rich.console import Console

    return Console()


def check_top(top: int) -> None:
    """Refuse a --top that shows nothing."""
    if top < 1:
        raise InputError(f"--top {top}: give at least 1")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a .csv or .parquet file, whole or not at all."""
    from dshapley.files import write_atomically, write_csv

    if path.suffix == ".csv":
        write_csv(frame, path)
    else:
        write_atomically(path, lambda f: frame.to_parquet(f, index=False))


def write_values(valuation: Valuation, folder: Path) -> None:
    """Write values.csv and values.parquet, the highest values first."""
    from dshapley.inference.sampled import SampledValuation
    from dshapley.reporting.findings import class_labels

    sampled = isinstance(valuation, SampledValuation)
    ranks = sampled and len(valuation) * valuation.n_draws <= _MOST_RANKED
    frame = valuation.to_frame(ranks=ranks)
    place = frame.columns.tolist().index("stderr") + 1
    frame.insert(place, "stderr_of_draws", valuation.of_draws.stderr)
    labels = class_labels(valuation)
    if labels is not None:
        frame.insert(0, "label", labels)
    frame = frame.sort_values("value", ascending=False, kind="stable").reset_index()
    for name in ("values.csv", "values.parquet"):
        write_table(frame, folder / name)
