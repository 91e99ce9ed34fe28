"""What identifies a function or an object, so that a run is only resumed with the same ones."""

from __future__ import annotations

import hashlib
import inspect
from functools import partial
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

__all__ = ["UNIDENTIFIED", "Plain", "plain"]

Plain: TypeAlias = str | int | float | bool | None

UNIDENTIFIED = "(not identified)"
"""Stands for an object whose contents cannot be identified."""


def plain(value: Any, _within: tuple[Any, ...] = ()) -> Plain:
    """A value that JSON can hold: the value itself if it is plain, otherwise its type and a digest.

    A function is identified by its source, its defaults, its closure and the globals it uses.
    `_within` holds the functions that led here, so that recursion between functions ends.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no NaN, and NaN is not equal to itself
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if inspect.isroutine(value):
        name = f"{value.__module__}.{value.__qualname__}"
        if any(value is other for other in _within):
            return name
        return f"{name} {_fold(_parts(value, _within), (*_within, value))}"
    if isinstance(value, partial):
        parts = [value.func, *value.args, *value.keywords, *value.keywords.values()]
        return f"{plain(value.func, _within)} {_fold(parts, _within)}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if inspect.ismodule(value):
        return value.__name__
    if hasattr(value, "fingerprint"):
        return f"{type(value).__qualname__} {value.fingerprint()}"
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return f"{type(value).__qualname__} {_fold([*params, *params.values()], _within)}"
    if isinstance(value, list | tuple) and len(value) < 20:
        return f"[{', '.join(repr(plain(v, _within)) for v in value)}]"
    return f"{type(value).__qualname__} {_digest(value)}"


def _parts(function: Any, within: tuple[Any, ...]) -> list[Any]:
    """The parts that identify a function."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = ""
    code = getattr(function, "__code__", None)
    if code is not None and (not text or function.__name__ == "<lambda>"):
        text += _compiled(code)  # two lambdas on one line have the same source
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    defaults = [
        *(getattr(function, "__defaults__", None) or ()),
        *(getattr(function, "__kwdefaults__", None) or {}).values(),
    ]
    owner = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    return [text, len(cells), *cells, *defaults, owner, *_globals(function, within)]


def _globals(function: Any, within: tuple[Any, ...]) -> list[Any]:
    """The globals that a function uses; none for a function of another module that it calls."""
    own = within[0] if within else function
    if not inspect.isfunction(function) or function.__module__ != own.__module__:
        return []
    used = inspect.getclosurevars(function).globals
    return [part for name in sorted(used) for part in (name, used[name])]


def _compiled(code: CodeType) -> str:
    constants = [_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _fold(parts: list[Any], within: tuple[Any, ...]) -> str:
    """One digest of many parts; `UNIDENTIFIED` if any part cannot be identified."""
    words = [f"{type(part).__name__} {plain(part, within)!r}" for part in parts]
    return UNIDENTIFIED if any(UNIDENTIFIED in word for word in words) else _digest(words)


def _digest(*values: Any) -> str:
    import joblib

    try:
        return hashlib.blake2b(str(joblib.hash(values)).encode(), digest_size=8).hexdigest()
    except Exception:  # pickling an unknown object may raise any error
        return UNIDENTIFIED
