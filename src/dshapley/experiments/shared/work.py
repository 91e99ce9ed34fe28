"""The scale of an experiment, the folder of its finished parts, and claims with error bars."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from scipy import stats

from dshapley.data.points import Floats
from dshapley.errors import InputError
from dshapley.files import write_atomically

__all__ = ["SCALES", "Claim", "Rows", "Scale", "Work"]

Rows: TypeAlias = Any
"""A pandas data frame. It is typed as Any, since the stubs do not know its columns."""

Scale: TypeAlias = Literal["smoke", "small", "full"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "full")

T = TypeVar("T")

Verdict: TypeAlias = Literal["holds", "not shown", "fails"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An inequality: by how much it holds, with the 95 % interval of that amount."""

    text: str
    by: float
    """The amount, above 0 if the inequality holds."""
    low: float
    high: float

    @staticmethod
    def of(text: str, samples: Floats) -> Claim:
        """A claim from repetitions of an experiment: their mean, and Student's interval.

        >>> Claim.of("a > b", np.array([1.0, 1.2, 0.9])).verdict
        'holds'
        """
        samples = np.asarray(samples, dtype=float)
        error = stats.sem(samples) * stats.t.ppf(0.975, len(samples) - 1)
        by = float(samples.mean())
        return Claim(text=text, by=by, low=by - float(error), high=by + float(error))

    @property
    def verdict(self) -> Verdict:
        """Whether the interval lies above 0, below 0, or contains 0."""
        if self.low > 0:
            return "holds"
        return "fails" if self.high < 0 else "not shown"


@dataclass(frozen=True, kw_only=True)
class Work:
    """The scale of an experiment, and where its finished parts are kept.

    Finished parts are kept in `folder`, so that an interrupted experiment resumes. Without a folder
    nothing is kept.
    """

    scale: Scale
    folder: Path | None = None
    n_jobs: int | None = None
    say: Callable[[str], object] = lambda _: None
    """Called with a line about what is being done."""
    table: tuple[Path, str] | None = None
    """The user's own table and its target, which replace the medical table."""

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InputError(f"unknown scale {self.scale!r}: use one of {', '.join(SCALES)}")

    @property
    def medical(self) -> str:
        """The data set that stands in for the paper's medical task."""
        return "breast_cancer" if self.scale == "smoke" else "physionet2012"

    def runs(self, *key: object) -> Path | None:
        """The run folder for this key; None if nothing is kept."""
        return None if self.folder is None else self.folder / "runs" / _name(key)

    def rows(self, make: Callable[[], Rows], *key: object) -> Rows:
        """What `make()` returns, from the folder if it was kept there before under the same key."""
        import pandas as pd

        if self.folder is None:
            return make()
        path = self.folder / "parts" / f"{_name(key)}.parquet"
        if path.exists():
            return pd.read_parquet(path)
        found = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file: found.to_parquet(file, index=False))
        return found

    @contextlib.contextmanager
    def timed(self) -> Iterator[Callable[[], float]]:
        """A function that returns the seconds of this call and of earlier, interrupted ones.

        Finished work is only read again, which is not counted.
        """
        if self.folder is None:
            started = time.monotonic()
            yield lambda: time.monotonic() - started
            return
        path, finished = self.folder / "seconds", self.folder / "finished"
        before = float(path.read_text()) if path.exists() else 0.0
        if finished.exists():
            yield lambda: before
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()

        def spent() -> float:
            return before + time.monotonic() - started

        try:
            yield spent
            finished.touch()
        finally:
            text = f"{spent():.1f}\n".encode()
            write_atomically(path, lambda file: file.write(text))

    @staticmethod
    def of(scale: Scale | Work) -> Work:
        """The work itself, or work at a scale of which nothing is kept."""
        return scale if isinstance(scale, Work) else Work(scale=scale)

    def choose(self, settings: Mapping[Scale, T]) -> T:
        """The settings for this scale."""
        return settings[self.scale]


def _name(key: tuple[object, ...]) -> str:
    """A file name for a key: a readable beginning, and a digest of the whole key."""
    words = " ".join(str(part) for part in key if isinstance(part, str | int | float))
    plain = "".join(c if c.isalnum() else "-" for c in words)[:60].strip("-")
    return f"{plain}-{hashlib.blake2b(repr(key).encode(), digest_size=6).hexdigest()}"
