"""Compiled loops: numba, kept on disk so that they are compiled once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numba

__all__ = ["inlined", "kernel", "literal", "literal_inlined", "literal_part", "slow_literal"]

F = TypeVar("F", bound=Callable[..., Any])

_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
"""Sums in any order, so that they vectorise; infinities and NaN keep their meaning."""

_LONG = 1.0
"""Seconds after which a person wonders."""


def kernel(function: F) -> F:
    """`function` compiled when types are new to it; it says so if that took more than a second."""
    return _reporting(function, _compiled(function, fastmath=_FASTMATH))


def literal(function: F) -> F:
    """The same with arithmetic as it is written, for results to the last bit of another's."""
    return _reporting(function, _compiled(function))


def slow_literal(function: F) -> F:
    """The same for a loop so large that who waits for the compiler is told before."""
    return _reporting(function, _compiled(function), announced=True)


def _reporting(function: F, compiled: Any, *, announced: bool = False) -> F:
    @wraps(function)
    def call(*args: Any) -> Any:
        if announced and not compiled.overloads and not _is_cached(function, compiled):
            print(
                f"dshapley: compiling {function.__name__.lstrip('_')} loops for their first use on "
                "this computer, which takes up to a minute",
                file=sys.stderr,
            )
        known, missed, start = len(compiled.overloads), _missed(compiled), time.perf_counter()
        result = compiled(*args)
        seconds = time.perf_counter() - start
        new = len(compiled.overloads) > known and _missed(compiled) > missed
        if new and seconds > _LONG:
            print(
                f"dshapley: compiled {function.__name__} in {seconds:.1f} s; from now on it is "
                "taken from numba's cache",
                file=sys.stderr,
            )
        return result

    return call  # type: ignore[return-value]


def _missed(compiled: Any) -> int:
    """How many signatures were compiled, not read from the cache."""
    return len(compiled.stats.cache_misses)


def _is_cached(function: Any, compiled: Any) -> bool:
    """Whether numba's folder has an index of this loop; it may still be out of date."""
    folder = compiled.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"*.{function.__name__}-*.nbi"))


def inlined(function: F) -> F:
    """`function` compiled, to be called from kernels."""
    return _njit(function, fastmath=_FASTMATH)


def literal_part(function: F) -> F:
    """`function` compiled as it is written, to be called from literal kernels."""
    return _njit(function, error_model="numpy")


def literal_inlined(function: F) -> F:
    """The same, copied to where it is called: to hand over many arrays takes time."""
    return _njit(function, error_model="numpy", forceinline=True)


def _compiled(function: F, **options: Any) -> Any:
    options = {**options, "nogil": True, "error_model": "numpy"}
    try:
        return _njit(function, cache=True, **options)
    except RuntimeError:  # no folder that numba could keep it in
        return _njit(function, **options)


def _njit(function: Any, **options: Any) -> Any:
    return numba.njit(**options)(function)
