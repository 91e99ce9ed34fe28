"""Where a run with several metrics keeps the run folder of each: `run/accuracy/`, `run/brier/`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from dshapley.errors import InputError, RunFolderError
from dshapley.files import is_temporary

__all__ = ["folder_name", "metric_folders", "runs_in"]

_LONGEST = 60
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|draws)", re.IGNORECASE)
"""Names that some file systems, or run folders, have a use of their own for."""


def folder_name(metric: str) -> str:
    """The name of a metric as the name of a folder, on any file system.

    A name that has to be changed gets a digest, so that different metrics stay different.

    >>> folder_name("roc_auc")
    'roc_auc'
    >>> folder_name("Costs.<locals>.of ours/theirs")
    'Costs.-locals-.of-ours-theirs-f63f88'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", metric).strip(".-")[:_LONGEST]
    if (
        metric
        and safe == metric
        and safe == safe.lower()
        and not _RESERVED.fullmatch(safe.split(".")[0])
    ):
        return safe
    return f"{safe}-{hashlib.blake2b(metric.encode(), digest_size=3).hexdigest()}".lstrip("-")


def metric_folders(store: str | Path, metrics: Sequence[str]) -> list[Path]:
    """The run folder of each metric inside `store`, which must be new or hold such folders."""
    store, names = Path(store), [folder_name(metric) for metric in metrics]
    if len(set(names)) < len(names):
        raise InputError(f"the metrics {', '.join(metrics)} have the same folder: rename one")
    if (store / "manifest.json").exists():
        raise RunFolderError(
            f"{store} holds a run of one metric: give a new folder, in which each of several "
            "metrics gets a run folder of its own"
        )
    if store.is_dir() and not all(map(is_temporary, store.iterdir())) and not runs_in(store):
        raise RunFolderError(f"{store} is not empty and holds no run: give a new folder")
    return [store / name for name in names]


def runs_in(folder: Path) -> list[Path]:
    """The run folders inside a folder, which a run with several metrics has made."""
    if not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob("*/manifest.json"))
