"""Arrays in one `.npz` file with a digest, so that damage is seen. Never pickle."""

from __future__ import annotations

import hashlib
import io
import math
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError
from dshapley.files import write_atomically

__all__ = [
    "ERRORS",
    "FINITE",
    "MODERATE",
    "BadFileError",
    "DamagedError",
    "Part",
    "check_part_names",
    "check_parts",
    "check_place",
    "one_line",
    "part_of_text",
    "read_sealed",
    "reading",
    "text_of",
    "within",
    "write_sealed",
    "writing",
]

Array = NDArray[Any]

_MOST_SHOWN = 300
"""The most characters of a text from elsewhere that an error repeats."""


MODERATE = 1e100
"""The largest number that is accepted: sums of squares of such numbers stay finite."""


class BadFileError(Exception):
    """The reason completes "<path> ...": "is not there", "is damaged (...)"."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class DamagedError(BadFileError):
    """The content is not what dshapley writes; `reason` says in which part."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"is damaged ({one_line(reason)})")
        self.reason = one_line(reason)


def one_line(text: str) -> str:
    r"""A text from elsewhere for an error: short, without line breaks or terminal codes.

    >>> one_line("a\nb")
    'a\\nb'
    """
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_MOST_SHOWN])
    return shown if len(text) <= _MOST_SHOWN else f"{shown}..."


def write_sealed(
    path: Path, parts: Mapping[str, Array], key: bytes, *, replace: bool = True
) -> None:
    """Write arrays to one file, with what they belong to (`key`) and a digest of them."""
    seal = {"run": np.frombuffer(key, np.uint8), "digest": _digest(parts, key)}
    write_atomically(
        path, lambda file: np.savez(file, allow_pickle=False, **parts, **seal), replace=replace
    )


def read_sealed(path: Path, key: bytes, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """The arrays of these names, or all; `BadFileError` if damaged or of another run."""
    with _opened(path) as file:
        try:
            found = _arrays(file, None if names is None else {*names, "run", "digest"})
        except DamagedError:
            raise
        except Exception:  # a damaged zip file can raise nearly anything
            raise DamagedError("it is not a whole .npz file") from None
    if not {"run", "digest"} <= set(found):
        raise BadFileError("is not a file of dshapley (it has no digest)")
    run, digest = found.pop("run"), found.pop("digest")
    if run.tobytes() != key:
        raise BadFileError("belongs to another run")
    missing = sorted(set(names or ()) - set(found))
    if missing:
        raise DamagedError(f"{missing[0]!r} is missing")
    if digest.tobytes() != _digest(found, key).tobytes():
        raise DamagedError("its digest does not match")
    return found


class Part(NamedTuple):
    """What one array of a file must be: one-dimensional, of this type, with these numbers."""

    dtype: type | None
    """None for any type, which `fits` then checks."""
    must_be: str
    fits: Callable[[Array], Any]
    """Whether it is so: a truth value, or one for each number."""
    own_length: bool = False
    """Whether it may have another length than the other parts, of at least 1."""


FINITE = Part(np.float64, "finite, and at most 1e100", lambda part: np.abs(part) <= MODERATE)
ERRORS = Part(
    np.float64,
    "0 or more, or NaN where it is not known",
    lambda part: np.isnan(part) | ((part >= 0) & (part <= MODERATE)),
)


def check_parts(
    parts: Mapping[str, Array], wanted: Mapping[str, Part], n: int, *, prefix: str = ""
) -> None:
    """Refuse parts unless they are exactly those wanted, each of length n.

    The prefix is that of the names in the file, which errors say.
    """
    check_part_names(parts, wanted, prefix=prefix)
    for name, what in wanted.items():
        part = parts[name]
        shape = (max(part.size, 1) if what.own_length else n,)
        if what.dtype is not None and part.dtype != what.dtype:
            wrong = f"is of type {part.dtype} instead of {np.dtype(what.dtype)}"
        elif part.shape != shape:
            wrong = f"has the shape {part.shape} instead of {shape}"
        elif not np.all(what.fits(part)):
            wrong = f"must be {what.must_be}"
        else:
            continue
        raise DamagedError(f"{prefix + name!r} {wrong}")


def check_part_names(parts: Collection[str], wanted: Collection[str], *, prefix: str = "") -> None:
    """Refuse a part that is missing, or that nothing reads."""
    for name in sorted(set(parts) ^ set(wanted)):
        wrong = "does not belong there" if name in parts else "is missing"
        raise DamagedError(f"{prefix + name!r} {wrong}")


def part_of_text(text: Any) -> Array:
    """A msgspec struct as JSON in an array; ValueError for text that no file can hold."""
    try:
        return np.frombuffer(msgspec.json.encode(text), np.uint8)
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object!r} is not text in Unicode: rename it") from None


def text_of(part: Array, schema: Any) -> Any:
    """The struct from its array; ValueError or `DamagedError` if it does not fit the schema."""
    if part.dtype != np.uint8 or part.ndim != 1:
        raise DamagedError("the text is missing")
    try:
        return msgspec.json.decode(part.tobytes(), type=schema)
    except RecursionError:
        raise DamagedError("the text is nested too deeply") from None


def within(parts: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin so, by the rest of their names."""
    return {n.removeprefix(prefix): part for n, part in parts.items() if n.startswith(prefix)}


@contextmanager
def reading(path: Path, *, then: str) -> Iterator[None]:
    """Errors on reading a file as an InputError that says what to do `then`."""
    try:
        yield
    except BadFileError as error:
        reason = str(error)
    except (ArithmeticError, MemoryError, ValueError) as error:
        # What no run makes can break an estimate in ways that no check foresees.
        reason = str(DamagedError(str(error)))
    else:
        return
    raise InputError(f"{one_line(str(path))} {reason}: {then}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the file system as an InputError."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(
            f"{one_line(str(path))} cannot be written: {one_line(reason)}: give another path"
        ) from None


def check_place(path: Path) -> None:
    """Refuse a path where no file can be, before the work of making its content."""
    with writing(path):
        if not path.parent.is_dir():
            raise ValueError(f"{path.parent} is not a folder")
        if path.exists() and not path.is_file():
            raise ValueError("it is not a plain file")


def _opened(path: Path) -> IO[bytes]:
    try:
        if path.exists() and not path.is_file():
            raise BadFileError("is not a plain file")
        return path.open("rb")
    except FileNotFoundError:
        raise BadFileError("is not there") from None
    except OSError as error:
        raise BadFileError(f"cannot be read ({error.strerror})") from None
    except ValueError as error:  # a NUL character in the path
        raise BadFileError(f"cannot be read ({error})") from None


def _arrays(file: IO[bytes], names: set[str] | None) -> dict[str, Array]:
    """The arrays of these names that a file has, or all."""
    with zipfile.ZipFile(file) as zipped:
        parts = zipped.infolist()
        if any(part.compress_type for part in parts):
            raise DamagedError("its parts are compressed, which dshapley never does")
        # Parts that overlap could unpack a small file to any size.
        if sum(part.file_size for part in parts) > os.fstat(file.fileno()).st_size:
            raise DamagedError("its parts are larger than the file")
        by_name = {part.filename.removesuffix(".npy"): part for part in parts}
        if len(by_name) < len(parts):
            raise DamagedError("two of its parts have one name")
        return {
            name: _array(name, zipped.read(part))
            for name, part in by_name.items()
            if names is None or name in names
        }


def _array(name: str, content: bytes) -> Array:
    """The array of one part. Its header is checked first: it could ask for any amount of memory."""
    try:
        stream = io.BytesIO(content)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("np.save writes other versions only for structures")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind in "OV" or dtype.itemsize == 0 or min(shape, default=0) < 0:
            raise ValueError("not numbers or text")
        if size != len(content) - stream.tell():
            raise ValueError("the header and the content differ in size")
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except Exception:  # NumPy's own words would tell the reader to trust the file
        raise DamagedError(f"{name!r} is not a plain array") from None


def _digest(parts: Mapping[str, Array], key: bytes) -> Array:
    digest = hashlib.blake2b(key, digest_size=16)
    for name in sorted(parts):
        part = parts[name]
        digest.update(f"{name}{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
