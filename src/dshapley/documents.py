"""JSON files that may come from elsewhere: read strictly, by a schema, or refused in one line.

Refused are a wrong type, a missing key, a duplicate key (a person reads the first, a program the
last), NaN and infinity, text that is not Unicode, deep nesting, and anything that is not a plain
file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from dshapley.errors import InputError

__all__ = ["Plain", "read_document", "valid"]

Plain = str | int | float | bool | None
"""The schema for any single value."""

_MOST_BYTES = 64 << 20
"""A manifest has kilobytes, and a summary of a thousand columns has a few megabytes."""


def read_document(path: Path, schema: Any, *, format_number: int) -> dict[str, Any]:
    """The values of a JSON file that fits the schema.

    Raises ValueError with a reason that completes "<path> is damaged (...)", and `FormatError`
    for a file with another format number.
    """
    try:
        if not path.is_file():
            raise ValueError("it is not a plain file")
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
        found = json.loads(
            path.read_bytes().decode(),
            object_pairs_hook=_once,
            parse_constant=_refused,
            parse_float=_finite,
        )
        json.dumps(found, ensure_ascii=False).encode()  # fails for unpaired surrogates
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except OSError as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    number = found.get("format")
    if number != format_number or isinstance(number, bool):
        raise FormatError(number)
    valid(found, schema)
    return found


class FormatError(InputError):
    """A file with another format; `number` is the format number in the file."""

    def __init__(self, number: Any) -> None:
        super().__init__(f"format {number!r}"[:60])
        self.number = number


def valid(values: Any, schema: Any) -> Any:
    """The values converted to the schema's type; ValueError if they do not fit."""
    try:
        return msgspec.convert(values, schema, strict=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number
