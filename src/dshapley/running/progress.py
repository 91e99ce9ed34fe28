"""The progress bar of a long run: draws done, the reliability so far, and the time left."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "progress_bar"]


class Progress(Protocol):
    """A function that a run calls to report its progress after a draw."""

    def __call__(self, done: int, reliability: float, expected: float | None) -> None:
        """`expected` is the total number of draws to expect, or None if it is unknown."""
        ...


@contextmanager
def progress_bar(show: bool | None) -> Iterator[Progress | None]:
    """A progress bar on standard error; with show=None only if standard error is a terminal."""
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[draws]}  reliability {task.fields[sure]}"),
        TextColumn("{task.fields[left]}"),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task("valuing", total=None, draws="first draws", sure="-", left="")
        started: list[tuple[float, int]] = []

        def update(done: int, reliability: float, expected: float | None) -> None:
            now = time.monotonic()
            if not started:
                started.append((now, done - 1))
            then, before = started[0]
            left = ""
            if expected is not None and done > before + 1:
                left = _clock((now - then) * max(expected - done, 0) / (done - before)) + " left"
            bar.update(
                job,
                total=expected,
                completed=done,
                draws=f"{done} draws" if expected is None else f"{done}/{expected:.0f} draws",
                sure="-" if math.isnan(reliability) else f"{reliability:.2f}",
                left=left,
            )

        yield update


def _clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> _clock(4), _clock(75), _clock(7300)
    ('0:04', '1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
