"""What is published of a table, and the JSON file that it is kept in.

A summary has the column names, a mean and a spread of each column, class names, and means along
public random directions: the rows are projected on a direction, sorted, cut into equal parts, and
each part is averaged. No row is published, and no number is computed from fewer than five rows.
No noise is added, so this is not private in the sense of a theorem: publish a summary only of a
table whose column averages you would publish.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dshapley.data.points import Floats
from dshapley.documents import read_document
from dshapley.errors import InputError
from dshapley.files import write_atomically
from dshapley.notebooks import NotebookDisplay

__all__ = ["LARGEST", "Summary", "load_summary"]

_FORMAT = 1
LARGEST = 1e50
"""The largest number in a summary, and the largest inverse of a scale: distances of such numbers
do not overflow."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary(NotebookDisplay):
    """What is published of a table, as returned by `summary`.

    Attributes
    ----------
    columns, rows
        The names of the columns, and how many rows there are.
    mean, scale
        Each column is centred on `mean` and divided by `scale`. Both come from the table that
        was published first.
    classes
        The class names; empty for numeric labels, None without labels.
    label
        The mean and spread of numeric labels.
    label_cost
        The distance between two classes; for numeric labels, the distance that one spread counts
        as.
    means
        The means of the projections: one row for each direction, one column for each equal part
        of the sorted rows.
    noise
        For each number of parts: the mean and the 95 % quantile of the distance between two
        random halves of the table, times the square root of a quarter of the rows.
    own_mean
        The means of this table's columns, after centring and scaling.
    coding
        For a summary of a table: how its columns became numbers (`summaries.coding_of`).
    """

    columns: tuple[str, ...]
    rows: int
    mean: Floats
    scale: Floats
    classes: tuple[str, ...] | None
    label: tuple[float, float]
    label_cost: float
    seed: int
    means: Floats
    noise: Mapping[int, tuple[float, float]]
    own_mean: Floats
    coding: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, for JSON."""
        found: dict[str, Any] = {"format": _FORMAT}
        for name, value in self.__dict__.items():
            found[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return {**found, "noise": {str(n): list(pair) for n, pair in self.noise.items()}}

    def save(self, path: str | Path) -> None:
        """Write the summary to a JSON file, whole or not at all."""
        path = Path(path)
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file: file.write(text.encode()))


_Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_Scale = Annotated[float, msgspec.Meta(ge=1 / LARGEST, le=LARGEST)]


class _Column(msgspec.Struct):
    """How a column was coded: numbers have a median, text has its frequent values."""

    name: str
    median: _Number | msgspec.UnsetType = msgspec.UNSET
    values: Annotated[list[str], msgspec.Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET


class _Coding(msgspec.Struct):
    target: str
    task: Literal["classification", "regression"]
    columns: list[_Column]


class _Summary(msgspec.Struct, forbid_unknown_fields=True):
    """The schema of a summary's file."""

    format: int
    columns: Annotated[list[str], msgspec.Meta(min_length=1)]
    rows: Annotated[int, msgspec.Meta(ge=1)]
    mean: list[_Number]
    scale: list[_Scale]
    classes: list[str] | None
    label: tuple[_Number, _Scale]
    label_cost: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
    seed: Annotated[int, msgspec.Meta(ge=0)]
    means: Annotated[list[list[_Number]], msgspec.Meta(min_length=1, max_length=10_000)]
    noise: dict[str, tuple[_Number, _Number]]
    own_mean: list[_Number]
    coding: _Coding | None


def load_summary(path: str | Path) -> Summary:
    """Read a summary from its file."""
    path = Path(path)
    if not os.path.lexists(path):
        raise InputError(f"{path}: no such file; name a file made by dshapley publish")
    try:
        raw = read_document(path, _Summary, format_number=_FORMAT)
        del raw["format"]
        _check_parts(raw)
        for name in ("mean", "scale", "means", "own_mean"):
            raw[name] = np.array(raw[name], dtype=np.float64)
        raw["noise"] = {int(n): (float(a), float(b)) for n, (a, b) in raw["noise"].items()}
        raw["columns"], raw["label"] = tuple(raw["columns"]), tuple(raw["label"])
        raw["classes"] = None if raw["classes"] is None else tuple(raw["classes"])
    except ValueError as error:  # FormatError among them
        raise InputError(f"{path} is not a summary made by dshapley publish: {error}") from None
    return Summary(**raw)


def _check_parts(raw: Mapping[str, Any]) -> None:
    """Refuse a summary whose parts contradict each other."""
    parts = {len(row) for row in raw["means"]}
    n_parts = max(parts)
    sizes = [2**i for i in range(1, n_parts.bit_length())]
    columns = [] if raw["coding"] is None else raw["coding"]["columns"]
    if not (
        len(raw["columns"]) == len(raw["mean"]) == len(raw["scale"]) == len(raw["own_mean"])
        and parts == {n_parts}
        and n_parts >= 2
        and n_parts & (n_parts - 1) == 0
        and set(raw["noise"]) == {str(size) for size in sizes}
        and all(("median" in column) != ("values" in column) for column in columns)
    ):
        raise ValueError("its parts contradict each other")
