"""Compiled loops: numba, kept on disk so that they are compiled once.

A compiled loop contains the functions it calls, which may be in another file of its folder. numba
looks only at the loop's own file to tell whether the loop is out of date. So the name of a cache
file has a digest of all sources of the folder in it: see `_Cache`.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

__all__ = [
    "inlined",
    "kernel",
    "literal",
    "literal_inlined",
    "literal_part",
    "slow_literal",
]

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
    """Whether numba's folder has an index of this loop, for some types of its arguments."""
    folder = compiled.stats.cache_path
    name = f"*.{function.__name__}-*.{_sources_of(function)}.nbi"
    return folder is not None and any(Path(folder).glob(name))


def inlined(function: F) -> F:
    """`function` copied to where it is called, so that it is compiled in one with its caller.

    Linked by name instead, its sums may be rounded otherwise in a process that loads the caller
    from the cache than in the one that compiled it.
    """
    return _njit(function, fastmath=_FASTMATH, forceinline=True)


def literal_part(function: F) -> F:
    """`function` compiled as it is written, to be called from literal kernels."""
    return _njit(function, error_model="numpy")


def literal_inlined(function: F) -> F:
    """The same, copied to where it is called: to hand over many arrays takes time."""
    return _njit(function, error_model="numpy", forceinline=True)


def _compiled(function: F, **options: Any) -> Any:
    compiled = _njit(function, nogil=True, error_model="numpy", **options)
    with suppress(RuntimeError):  # no folder that numba could keep it in
        compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]
    return compiled


def _njit(function: Any, **options: Any) -> Any:
    return numba.njit(**options)(function)


# --- the cache


def _sources_of(function: Any) -> str:
    """A digest of all that may be compiled into a loop."""
    return _digest(Path(function.__code__.co_filename).parent)


@cache
def _digest(folder: Path) -> str:
    """Of the Python files of a folder, and of this one, which says how they are compiled."""
    found = hashlib.sha256()
    for path in (Path(__file__), *sorted(folder.glob("*.py"))):
        with suppress(OSError):  # in an archive
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


class _Files(CompileResultCacheImpl):
    """The files of one loop.

    The digest is in their names, not in the index: numba writes an index before the code that it
    lists, so that a process which starts meanwhile would take the old code for the new.
    """

    def __init__(self, py_func: Any) -> None:
        self._sources = _sources_of(py_func)
        super().__init__(py_func)  # type: ignore[no-untyped-call]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """As numba names them, and the digest."""
        name = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{name}.{self._sources}"


class _Cache(FunctionCache):
    """numba's cache of one loop, which forgets it when any source of its folder changes."""

    _impl_class = _Files

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled; remove what was compiled from earlier sources."""
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        for path in Path(self.cache_path).glob("*.nb[ic]"):
            named = re.search(r"\.py\d+\w*\.([0-9a-f]{16})\.", path.name)
            if named and named[1] != _sources_of(self._py_func):
                with suppress(OSError):  # another process was faster, or has it open
                    path.unlink()
