"""Arrays in one `.npz` file with a digest, so that damage is seen. Never pickle."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.files import write_atomically

__all__ = ["BadFileError", "read_sealed", "write_sealed"]

Array = NDArray[Any]


class BadFileError(Exception):
    """The reason completes "<path> ...": "is not there", "is damaged (...)"."""


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
    if path.exists() and not path.is_file():
        raise BadFileError("is not a plain file")
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            if any(part.compress_type for part in file.zip.infolist()):
                raise ValueError("parts are compressed, which dshapley never does")
            asked = file.files if names is None else (*names, "run", "digest")
            found = {name: file[name] for name in asked}
            if not all(isinstance(part, np.ndarray) for part in found.values()):
                raise ValueError("a part is not an array")
    except FileNotFoundError:
        raise BadFileError("is not there") from None
    except Exception as error:  # a damaged zip file can raise nearly anything
        raise BadFileError(f"is damaged ({error})") from None
    if not {"run", "digest"} <= set(found):
        raise BadFileError("is not a file of dshapley (it has no digest)")
    run, digest = found.pop("run"), found.pop("digest")
    if run.tobytes() != key:
        raise BadFileError("belongs to another run")
    if digest.tobytes() != _digest(found, key).tobytes():
        raise BadFileError("is damaged (its digest does not match)")
    return found


def _digest(parts: Mapping[str, Array], key: bytes) -> Array:
    digest = hashlib.blake2b(key, digest_size=16)
    for name in sorted(parts):
        part = parts[name]
        digest.update(f"{name}{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
