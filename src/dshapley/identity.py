"""What identifies an object, so that a run can tell whether it is asked to go on with another."""

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
"""Stands for an object whose contents cannot be told from another's."""


def plain(value: Any) -> Plain:
    """A value that JSON can hold: itself if it is plain, else its type and a digest."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no NaN, and NaN is not equal to itself
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__} {_fold(_parts(value))}"
    if isinstance(value, partial):
        parts = [value.func, *value.args, *value.keywords, *value.keywords.values()]
        return f"{plain(value.func)} {_fold(parts)}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if inspect.ismodule(value):
        return value.__name__
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return f"{type(value).__qualname__} {_fold([*params, *params.values()])}"
    if isinstance(value, list | tuple) and len(value) < 20:
        return f"[{', '.join(repr(plain(v)) for v in value)}]"
    return f"{type(value).__qualname__} {_digest(value)}"


def _parts(function: Any) -> list[Any]:
    """What makes a function what it is: its source, its defaults and what it closes over."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = ""
    code = getattr(function, "__code__", None)
    if code is not None and (not text or function.__name__ == "<lambda>"):
        text += _compiled(code)  # two lambdas may share a line
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    cells = [cell for cell in cells if cell is not function]  # a recursive function holds itself
    defaults = [
        *(getattr(function, "__defaults__", None) or ()),
        *(getattr(function, "__kwdefaults__", None) or {}).values(),
    ]
    owner = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    return [text, len(cells), *cells, *defaults, owner]


def _compiled(code: CodeType) -> str:
    constants = [_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _fold(parts: list[Any]) -> str:
    """One digest of many parts, or word that one of them cannot be identified."""
    words = [f"{type(part).__name__} {plain(part)!r}" for part in parts]
    return UNIDENTIFIED if any(UNIDENTIFIED in word for word in words) else _digest(words)


def _digest(*values: Any) -> str:
    import joblib

    try:
        return hashlib.blake2b(str(joblib.hash(values)).encode(), digest_size=8).hexdigest()
    except Exception:  # whatever pickling a stranger's object may raise
        return UNIDENTIFIED
