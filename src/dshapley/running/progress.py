"""The progress of a long run: draws done, the reliability so far, and the time left.

In a terminal it is a bar, in a notebook one bar that is updated in its place, and elsewhere, such
as in a log, a plain line now and then.
"""

from __future__ import annotations

import contextlib
import html
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

from dshapley.formatting import duration

__all__ = ["Progress", "progress_bar"]

_FIRST_LINE = 60.0
"""Runs shorter than this many seconds write nothing to a log, and others no more often."""
_LAST_GAP, _SHARE = 600.0, 0.05
"""In a log the gaps grow to this share of the time so far, which a night's log has room for, and to
ten minutes at most, after which some build servers stop a job that is silent."""
_FIRST_BAR, _BAR_GAP = 1.0, 0.4
"""The seconds before a notebook shows a bar, so that a loop over short runs leaves no trace, and
between two updates of it."""

Clock: TypeAlias = Callable[[], float]


class Progress(Protocol):
    """What a run calls to report its progress after a draw."""

    def due(self) -> bool:
        """Whether a report would be shown now: finding out how a run stands takes time."""
        ...

    def __call__(self, done: int, reliability: float, expected: float | None) -> None:
        """`expected` is the total number of draws to expect, or None if it is unknown."""
        ...


class _State(NamedTuple):
    """What is known of a run at one moment."""

    done: int
    total: float | None
    words: str
    left: str
    """The time left, or nothing where it cannot be foreseen."""

    @property
    def line(self) -> str:
        return f"{self.words}, about {self.left} left" if self.left else self.words


class Shown(NamedTuple):
    """Where the progress is shown."""

    show: Callable[[_State], None]
    due: Callable[[], bool]


@contextmanager
def progress_bar(show: bool | None, *, clock: Clock = time.monotonic) -> Iterator[Progress | None]:
    """A progress bar in a terminal or a notebook, and elsewhere a line on standard error.

    Parameters
    ----------
    show
        None for a bar where somebody watches, and else a line after a minute and then now and
        then. True for the same with the first line, or the bar in a notebook, at once. False for
        nothing.
    clock
        The time in seconds.
    """
    if show is False or sys.stderr is None:
        yield None
        return
    with _display(bool(show), clock) as shown:
        yield _Report(shown, _TimeLeft(clock))


class _Report:
    """The progress of a run, put into words for where it is shown."""

    def __init__(self, shown: Shown, left: _TimeLeft) -> None:
        self.due, self._show, self._left = shown.due, shown.show, left

    def __call__(self, done: int, reliability: float, expected: float | None) -> None:
        words = f"{done:,} draws" if expected is None else f"{done:,}/{expected:,.0f} draws"
        if not math.isnan(reliability):
            words += f", reliability {reliability:.2f}"
        self._show(_State(done, expected, words, self._left(done, expected)))


class _TimeLeft:
    """The time left in words, from the time that the steps took since the first report."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, expected: float | None) -> str:
        now = self._clock()
        if self._first is None:
            self._first = now, done
        then, before = self._first
        if expected is None or done <= before:
            return ""
        return _clock_time((now - then) * max(expected - done, 0) / (done - before))


def _display(at_once: bool, clock: Clock) -> contextlib.AbstractContextManager[Shown]:
    """Where the progress is shown."""
    display = _notebook_display()
    if display is not None:
        return _in_notebook(display, clock, wait=0.0 if at_once else _FIRST_BAR)
    if sys.stderr.isatty() or (at_once and _console().is_terminal):
        return _in_terminal()
    return _in_log(clock, wait=0.0 if at_once else _FIRST_LINE)


def _notebook_display() -> Callable[..., Any] | None:
    """The function that shows something in the notebook of this process; None without one."""
    # A kernel has loaded IPython before it runs a cell, so there is no need to import it.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):  # IPython in a terminal has none
        return None
    display: Callable[..., Any] = import_module("IPython.display").display
    return display


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def _in_terminal() -> Iterator[Shown]:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]}"),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=_console(), transient=True) as bar:
        job = bar.add_task("valuing", total=None, words="first draws", left="")

        def show(state: _State) -> None:
            left = f"{state.left} left" if state.left else ""
            bar.update(job, total=state.total, completed=state.done, words=state.words, left=left)

        yield Shown(show, lambda: True)


@contextmanager
def _in_notebook(display: Callable[..., Any], clock: Clock, *, wait: float) -> Iterator[Shown]:
    """One output that is updated a few times a second; at the end it says how long it took.

    It needs IPython only: rich's own bar shows nothing in a notebook without ipywidgets.
    """
    began = clock()
    due = began + wait
    handle: Any = None

    def put(shown: str, plain: str) -> None:
        nonlocal handle
        both = {"text/html": shown, "text/plain": plain}
        if handle is None:
            handle = display(both, raw=True, display_id=True)
        else:
            handle.update(both, raw=True)

    def show(state: _State) -> None:
        nonlocal due
        if clock() >= due:
            put(_bar(state), f"valuing: {state.line}")
            due = clock() + _BAR_GAP

    ending = "stopped after"
    try:
        yield Shown(show, lambda: clock() >= due)
        ending = "finished in"
    finally:
        if handle is not None:
            words = f"valuing {ending} {duration(clock() - began)}"
            put(f"<div>{words}</div>", words)


def _bar(state: _State) -> str:
    """A bar of HTML, which moves by itself where the end is not known."""
    place = f' max="{state.total:g}" value="{state.done}"' if state.total else ""
    bar = f'<progress{place} style="vertical-align:middle"></progress>'
    return f"<div>valuing {bar} {html.escape(state.line)}</div>"


@contextmanager
def _in_log(clock: Clock, *, wait: float) -> Iterator[Shown]:
    """A line now and then, so that a log shows that the run is alive, but stays short."""
    began = clock()
    due = began + wait

    def show(state: _State) -> None:
        nonlocal due
        now = clock()
        if now >= due:
            # A log that can no longer be written, such as a closed terminal, must not end the run.
            with contextlib.suppress(OSError, ValueError):
                print(f"valuing: {state.line}", file=sys.stderr, flush=True)
            due = now + max(_FIRST_LINE, min(_LAST_GAP, _SHARE * (now - began)))

    yield Shown(show, lambda: clock() >= due)


def _clock_time(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> _clock_time(4), _clock_time(75), _clock_time(7300)
    ('0:04', '1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
