"""Which run folders this user made: each manifest has a code from a key that only this user has.

A folder from somebody else could name any of this user's files as its table. The owner of the
folder's files proves nothing, because unpacking an archive makes this user their owner.
"""

from __future__ import annotations

import functools
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dshapley.files import write_atomically

__all__ = ["is_ours", "our_code"]

_KEY_BYTES = 32


def our_code(content: Mapping[str, Any]) -> str:
    """The code of a manifest's content; "" if no key can be stored, as in a read-only home."""
    file = _key_file()
    key = None if file is None else _key(file)
    if key is None:
        return ""
    text = json.dumps(content, sort_keys=True)
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def is_ours(content: Mapping[str, Any], code: str) -> bool:
    """Whether this user made this code for this content."""
    ours = our_code(content)
    return ours != "" and hmac.compare_digest(ours.encode(), code.encode())


def _key_file() -> Path | None:
    above = os.environ.get("XDG_STATE_HOME")
    try:
        state = Path(above) if above else Path.home() / ".local" / "state"
    except RuntimeError:  # no home folder
        return None
    return state / "dshapley" / "key"


@functools.cache
def _key(path: Path) -> bytes | None:
    """The key in this file, created if missing; if two processes create it, the first wins."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = secrets.token_bytes(_KEY_BYTES)
            write_atomically(path, lambda file: file.write(fresh), replace=False, private=True)
        found = path.read_bytes() if path.is_file() else b""
    except OSError:
        return None
    return found if len(found) == _KEY_BYTES else None
