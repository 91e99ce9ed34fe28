"""The entry point of the command `dshapley`: signals, streams and exit codes.

    0     done
    1     done, and the answer is no: a price list is wrong, or a claim of the paper fails
    2     an error in the command or its data, which one line explains
    70    a bug in dshapley, with a traceback
    129, 130, 143    stopped by SIGHUP, Ctrl-C, SIGTERM: finished draws are kept

This module imports nothing heavy, so that Ctrl-C in the first second also prints one line only.
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
"""The exit code EX_SOFTWARE of sysexits.h."""


def main() -> None:
    """The entry point of the command `dshapley`."""
    _open_streams()
    code = run_command(_command_line)
    # CPython 3.11 remembers an interrupt that passed through exec(), even if it was caught, and
    # would end by that signal. Another exec() resets this.
    exec("")
    sys.exit(code)


def _command_line() -> int:
    from dshapley.cli.app import command

    return command(sys.argv[1:])


def run_command(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; signals become KeyboardInterrupt."""
    code, received = BUG, _catch_signals()
    try:
        code = command()
    except KeyboardInterrupt:
        _say("stopped")
    except OSError as error:  # such as a full disk, outside the part that `for_people` covers
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
        signal.signal(number, signal.SIG_IGN)  # the command is over
    return _flushed(128 + received[0] if received else code)


_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_SAME_REQUEST = 2.0
"""Signals within this many seconds count as one: a terminal and a shell may each send one."""


def _catch_signals() -> list[int]:
    """Turn signals that stop a program into KeyboardInterrupt; returns a list of those received."""
    received: list[int] = []
    last = -_SAME_REQUEST

    def stop(number: int, frame: Any) -> None:
        nonlocal last
        received.append(number)
        before, last = last, time.monotonic()
        if last - before >= _SAME_REQUEST:
            raise KeyboardInterrupt

    for number in _SIGNALS:
        # Signals that nohup or a shell has set to be ignored stay ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    return received


def _open_streams() -> None:
    """Open the standard streams if they are closed, and make writing to them safe.

    The next file that is opened would take the number of a closed stream, and messages would then
    overwrite it. Characters that the terminal's encoding lacks are written as escapes. A reader
    that closes early, such as `head`, does not stop the work.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)  # workers need all three streams as well
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
    """A text stream that drops what is written to it once its reader is gone."""

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
            # A full disk is an error for results, but not for messages.
            full = error.errno == errno.ENOSPC and self._number == 2
            if not full and error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                raise
            _silence(self._number)
            return otherwise


def _silence(number: int) -> None:
    """Send the stream to the null device, since the interpreter flushes it again when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def _flushed(code: int) -> int:
    """Flush all output and return the exit code, an error if output cannot be written."""
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
