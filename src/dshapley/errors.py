"""Errors that say what was wrong, where, and what to do."""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Iterable
from numbers import Real
from typing import Any

__all__ = [
    "MOST_M",
    "DShapleyError",
    "DShapleyWarning",
    "DrawError",
    "FitError",
    "InputError",
    "RunFolderError",
    "is_whole",
    "nearest",
    "warn",
]


MOST_M = 10**7
"""The largest data set size. Every size has its own weight, and all weights are in memory."""


class DShapleyError(Exception):
    """Any error that dshapley raises on purpose. The command line prints it and exits with 2."""


class DShapleyWarning(UserWarning):
    """Something the user should know, although the work continues."""


class InputError(DShapleyError, ValueError):
    """An argument, table or file cannot be used as it is."""


class FitError(DShapleyError, RuntimeError):
    """A model could not be trained on a set S, so U(S) is not defined."""


class DrawError(DShapleyError, RuntimeError):
    """A draw failed; the message names the draw."""


class RunFolderError(InputError):
    """A run folder cannot be used: it belongs to another run, or cannot be read or written."""


def warn(message: str) -> None:
    """Give a DShapleyWarning at the line outside this package that caused it."""
    level = 2
    while sys._getframe(level - 1).f_globals.get("__name__", "").partition(".")[0] == __package__:
        level += 1
    warnings.warn(message, DShapleyWarning, stacklevel=level)


def is_whole(value: Any, *, least: int, most: float = math.inf) -> bool:
    """Whether a value is a whole number within these limits.

    >>> is_whole(3.0, least=1), is_whole("3", least=1), is_whole(-1, least=0)
    (True, False, False)
    """
    if not isinstance(value, Real):
        return False
    try:
        number = float(value)
    except OverflowError:  # an int beyond 1e308
        return False
    return math.isfinite(number) and number % 1 == 0 and least <= number <= most


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the most similar known word, or with all known words if none is similar.

    >>> nearest("incom", ["age", "income"])
    "did you mean 'income'?"
    """
    words = [str(k) for k in known]
    close = difflib.get_close_matches(str(word), words, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(words[:20]) + (", ..." if len(words) > 20 else "")
    return f"there are: {shown}"
