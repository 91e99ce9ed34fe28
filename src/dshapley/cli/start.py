"""The door of the command `dshapley`: signals, streams and exit codes, before all else is loaded.

    0     done
    1     done, and the answer is no: a price list is wrong, a claim of the paper fails
    2     an error in what was asked or given: one line says which
    70    a bug in dshapley: a traceback says where
    129, 130, 143    stopped by SIGHUP, Ctrl-C, SIGTERM: finished draws are kept

This module imports nothing heavy, so that Ctrl-C in the first second is one line too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

__all__ = ["BUG", "FAULT", "main", "run_command"]

FAULT = 2
BUG = 70
"""EX_SOFTWARE of sysexits.h."""


def main() -> None:
    """The entry point of the command `dshapley`."""
    _open_streams()
    code = run_command(_command_line)
    # CPython 3.11 remembers an interrupt that passed through exec(), though it was caught, and
    # would end by that signal; the next exec() makes it forget.
    exec("")
    sys.exit(code)


def _command_line() -> int:
    from dshapley.cli.app import command

    return command(sys.argv[1:])


def run_command(command: Callable[[], int]) -> int:
    """Run a command, with signals as KeyboardInterrupt; its exit code, whatever happens."""
    code, received = BUG, _catch_signals()
    try:
        code = command()
    except KeyboardInterrupt:
        _say("stopped")
    except OSError as error:  # such as a full disk, met before a command has its own words for it
        code = FAULT
        _say(f"error: {error}")
    except MemoryError:
        code = FAULT
        _say("error: not enough memory; use fewer --jobs, a smaller --m or fewer rows")
    except Exception:
        import traceback

        traceback.print_exc()
        _say("error: this is a bug in dshapley; please report it with the lines above")
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # nothing is left to stop
    return _flushed(128 + received[0] if received else code)


_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_SAME_REQUEST = 2.0
"""Seconds. A terminal, a shell and a supervisor may each pass on the same wish to stop."""


def _catch_signals() -> list[int]:
    """Raise KeyboardInterrupt for each signal that stops a program; the list of those received."""
    received: list[int] = []
    last = -_SAME_REQUEST

    def stop(number: int, frame: Any) -> None:
        nonlocal last
        received.append(number)
        before, last = last, time.monotonic()
        if last - before >= _SAME_REQUEST:
            raise KeyboardInterrupt

    for number in _SIGNALS:
        # nohup, and shells for background jobs, ignore some on purpose.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    return received


def _open_streams() -> None:
    """Give the program three streams that never fail it.

    A closed descriptor would be taken by the next file that is opened, which messages would then
    overwrite. Text that the terminal's encoding lacks is written as escapes. A reader that has
    gone, such as `head`, does not stop the work.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(number, True)  # workers need all three as well
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _lasting(sys.stdout, 1)
    sys.stderr = _lasting(sys.stderr, 2)


def _lasting(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        stream = open(number, "w", closefd=False)  # noqa: SIM115
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return _Lasting(stream, number)  # type: ignore[return-value]


class _Lasting:
    """A text stream that is silent, not broken, once nobody reads it any more."""

    def __init__(self, stream: TextIO, number: int) -> None:
        self._stream, self._number = stream, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._unless_gone(lambda: self._stream.write(text), len(text))

    def flush(self) -> None:
        self._unless_gone(self._stream.flush, None)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def _unless_gone(self, call: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return call()
        except OSError as error:
            full = error.errno == errno.ENOSPC and self._number == 2  # results are not on it
            if not full and error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                raise
            _silence(self._number)
            return otherwise


def _silence(number: int) -> None:
    """Let what is written here vanish: the interpreter flushes the stream once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def _flushed(code: int) -> int:
    """The exit code after all output has been written; a full disk makes it an error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _say(f"error: the output cannot be written: {error}")
        _silence(1)
        code = FAULT
    try:
        sys.stderr.flush()
    except OSError:
        _silence(2)
    return code


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)
