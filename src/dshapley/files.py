"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import itertools
import os
import platform
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["is_temporary", "sweep", "write_atomically", "write_csv"]

_STALE_SECONDS = 86_400.0
"""The age at which a temporary file of another machine is removed."""


def write_atomically(
    path: Path,
    write: Callable[[IO[bytes]], object],
    *,
    replace: bool = True,
    private: bool = False,
) -> None:
    """Write a file completely or not at all: temporary name, flush to disk, rename.

    With replace=False, an existing file stays as it is. A private file can only be read by its
    owner.
    """
    temporary = path.with_name(
        f".{path.name}.{_machine()}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    )
    try:
        with open(temporary, "wb", opener=_opener(private)) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a CSV file, completely or not at all.

    Most readers end a row at a bare carriage return, which Python's writer does not quote. If a
    cell has one, all text is quoted.
    """
    texts = [frame[name] for name in frame.columns if frame[name].dtype.kind not in "biuf"]
    cells = itertools.chain(map(str, frame.columns), *(map(str, column) for column in texts))
    quoting: Literal[0, 2] = csv.QUOTE_MINIMAL
    if any("\r" in cell for cell in cells):
        quoting = csv.QUOTE_NONNUMERIC
    write_atomically(path, lambda file: frame.to_csv(file, index=False, quoting=quoting))


def _opener(private: bool) -> Callable[[str, int], int]:
    return lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600 if private else 0o666)


def is_temporary(path: Path) -> bool:
    """Whether this is the temporary file of a `write_atomically` that has not finished."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def sweep(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while writing.

    Machines may share a folder, so files that another machine is writing are kept for a day.
    """
    for path in folder.glob(".*.tmp"):
        *_, machine, pid, _, _ = ("", "", "", *path.name.split("."))
        with contextlib.suppress(OSError):
            ours = machine == _machine() and pid.isdecimal() and not _is_running(int(pid))
            if ours or time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


@functools.cache
def _machine() -> str:
    return hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
