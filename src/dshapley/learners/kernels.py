"""Compile loops with numba and cache them on disk, so that they are compiled only once.

A compiled loop contains the functions that it calls, which may be in another file of the same
folder. numba checks only the loop's own file to decide whether a cached loop is out of date.
Therefore the name of each cache file contains a digest of all sources of the folder; see `_Cache`.
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
"""Sums may be reordered, so that the compiler can vectorise them. The flags that would ignore
infinities and NaN are left out."""

_LONG = 1.0
"""Compilations that take longer than this many seconds are reported."""


def kernel(function: F) -> F:
    """Compile `function` when it gets new argument types; report it if that takes over 1 s."""
    return _reporting(function, _compiled(function, fastmath=_FASTMATH))


def literal(function: F) -> F:
    """Like `kernel`, but without reordering sums, to match other code to the last bit."""
    return _reporting(function, _compiled(function))


def slow_literal(function: F) -> F:
    """Like `literal`, for a loop so large that the user is told before it is compiled."""
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
    """How many signatures were compiled because the cache did not have them."""
    return len(compiled.stats.cache_misses)


def _is_cached(function: Any, compiled: Any) -> bool:
    """Whether numba's cache folder has an index for this loop, for any argument types."""
    folder = compiled.stats.cache_path
    name = f"*.{function.__name__}-*.{_sources_of(function)}.nbi"
    return folder is not None and any(Path(folder).glob(name))


def inlined(function: F) -> F:
    """Copy `function` into its callers, so that numba compiles it together with each caller.

    If it were linked by name instead, its sums could be rounded differently in a process that loads
    the caller from the cache than in the process that compiled the caller.
    """
    return _njit(function, fastmath=_FASTMATH, forceinline=True)


def literal_part(function: F) -> F:
    """Compile `function` without reordering sums, to be called from literal kernels."""
    return _njit(function, error_model="numpy")


def literal_inlined(function: F) -> F:
    """Like `literal_part`, but copied into its callers, since passing many arrays takes time."""
    return _njit(function, error_model="numpy", forceinline=True)


def _compiled(function: F, **options: Any) -> Any:
    compiled = _njit(function, nogil=True, error_model="numpy", **options)
    with suppress(RuntimeError):  # numba has no writable folder for its cache
        compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]
    return compiled


def _njit(function: Any, **options: Any) -> Any:
    return numba.njit(**options)(function)


# --- the cache


def _sources_of(function: Any) -> str:
    """A digest of all sources that may be compiled into a loop."""
    return _digest(Path(function.__code__.co_filename).parent)


@cache
def _digest(folder: Path) -> str:
    """A digest of a folder's Python files, and of this file, which sets the compiler options."""
    found = hashlib.sha256()
    for path in (Path(__file__), *sorted(folder.glob("*.py"))):
        with suppress(OSError):  # the package is imported from an archive
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


class _Files(CompileResultCacheImpl):
    """The names of the cache files of one loop.

    The digest is in the file names and not in the index, because numba writes an index before the
    code that it lists: a process that starts in between would load the old code.
    """

    def __init__(self, py_func: Any) -> None:
        self._sources = _sources_of(py_func)
        super().__init__(py_func)  # type: ignore[no-untyped-call]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """The file name that numba gives, followed by the digest."""
        name = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{name}.{self._sources}"


class _Cache(FunctionCache):
    """numba's cache of one loop, invalidated when any source of the loop's folder changes."""

    _impl_class = _Files

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled loop, and delete cache files compiled from earlier sources."""
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        for path in Path(self.cache_path).glob("*.nb[ic]"):
            named = re.search(r"\.py\d+\w*\.([0-9a-f]{16})\.", path.name)
            if named and named[1] != _sources_of(self._py_func):
                with suppress(OSError):  # another process has deleted it, or has it open
                    path.unlink()
