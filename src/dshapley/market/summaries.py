"""What a party publishes of its table before a sale.

A summary holds column names, a mean and a spread for each, class names, and for each of some
public random directions the means of the rows' projections in equal parts of their order: no row,
and no number that rests on fewer than five. It is not private in the sense of a theorem (no noise
is added): publish what you would publish of a table's margins.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dshapley.data.points import Array, Floats, Points, as_points
from dshapley.data.targets import are_classes
from dshapley.documents import read_document
from dshapley.errors import InputError, is_whole, nearest
from dshapley.files import write_atomically

__all__ = ["LEAST_ROWS", "Summary", "coarser", "load_summary", "summary"]

LEAST_ROWS = 5
"""Rows that a published number rests on, at least."""
_MOST_PARTS = 64
_SPLITS = 100
_MOST_SPLIT = 5000
"""Rows that are split into halves to see what chance alone does."""
_FORMAT = 1
_LARGEST = 1e50
"""Of the numbers in a summary, and of the least scale's inverse: so that no distance overflows."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """What is published of a table. Made by `summary`.

    Attributes
    ----------
    columns, rows
        The names of the columns, and how many rows there are.
    mean, scale
        What columns are centred on and divided by: those of the table first published.
    classes
        The class names; empty for a label that is a number, None where there is no label.
    label
        For a label that is a number: its mean and spread.
    label_cost
        The distance between two classes; or what a spread of the label counts.
    means
        Of the projections: a row a direction, a column for each equal part of the rows in order.
    noise
        By the number of parts: the distance of two random halves of the table, mean and 95 %
        quantile, times the square root of a quarter of the rows.
    own_mean
        The means of this table's columns, after centring and scaling.
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
    """How a table became these columns, where it was one: see `dshapley.market.coding`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found: dict[str, Any] = {"format": _FORMAT}
        for name, value in self.__dict__.items():
            found[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return {**found, "noise": {str(n): list(pair) for n, pair in self.noise.items()}}

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        path = Path(path)
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file: file.write(text.encode()))


_Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
_Scale = Annotated[float, msgspec.Meta(ge=1 / _LARGEST, le=_LARGEST)]


class _Column(msgspec.Struct):
    """How a column of a table was coded: a number by its median, text by its values."""

    name: str
    median: _Number | msgspec.UnsetType = msgspec.UNSET
    values: Annotated[list[str], msgspec.Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET


class _Coding(msgspec.Struct):
    target: str
    task: Literal["classification", "regression"]
    columns: list[_Column]


class _Summary(msgspec.Struct, forbid_unknown_fields=True):
    """What a summary's file must hold."""

    format: int
    columns: Annotated[list[str], msgspec.Meta(min_length=1)]
    rows: Annotated[int, msgspec.Meta(ge=1)]
    mean: list[_Number]
    scale: list[_Scale]
    classes: list[str] | None
    label: tuple[_Number, _Scale]
    label_cost: Annotated[float, msgspec.Meta(ge=0, le=_LARGEST)]
    seed: Annotated[int, msgspec.Meta(ge=0)]
    means: Annotated[list[list[_Number]], msgspec.Meta(min_length=1, max_length=10_000)]
    noise: dict[str, tuple[_Number, _Number]]
    own_mean: list[_Number]
    coding: _Coding | None


def load_summary(path: str | Path) -> Summary:
    """A summary from its file."""
    path = Path(path)
    if not os.path.lexists(path):
        raise InputError(f"{path}: no such file")
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
    """Refuse parts that do not fit together."""
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
        raise ValueError("its parts do not fit together")


def summary(
    points: Points | tuple[Any, Any],
    *,
    like: Summary | None = None,
    n_projections: int = 100,
    seed: int = 0,
    label_cost: float = 1.0,
    number: bool | None = None,
    coding: Mapping[str, Any] | None = None,
) -> Summary:
    """What to publish of a table: means of its projections on random directions. No rows.

    Numbers are centred and divided by their spread, columns of only 0 and 1 are left as they
    are. The label belongs to the distribution: a class is a column of its own with `label_cost` /
    sqrt(2) in it, so that rows of two classes are at least `label_cost` apart; a number is scaled
    as columns are and multiplied by it. Directions follow from the seed and the names of the
    columns and classes, so that both sides have the same.

    Parameters
    ----------
    points
        Points or a pair (X, y); columns of numbers, none missing.
    like
        The other side's summary: scales, classes, directions and label cost are then its own,
        and the two can be compared.
    n_projections, seed, label_cost
        How many directions, their seed, and what labels count; not with `like`.
    number
        Whether the label is a number; by default where it is one and has more than 20 values.
    coding
        Kept in the summary: how a table became these columns.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(400, 3))
    >>> published = summary(Points(rows, rows[:, 0] > 0))
    >>> published.classes, published.means.shape
    (('False', 'True'), (100, 64))
    """
    points = as_points(points, name="points")
    X = _numbers(points)
    if len(X) < 4 * LEAST_ROWS:
        raise InputError(f"a summary of {len(X)} rows would show them: {4 * LEAST_ROWS} at least")
    if like is None:
        if not is_whole(n_projections, least=1):
            raise InputError(f"n_projections = {n_projections}: it is a whole number above 0")
        if not is_whole(seed, least=0):
            raise InputError(f"seed = {seed}: a seed is a whole number, 0 or more")
        if not 0 <= label_cost <= _LARGEST:
            raise InputError(
                f"label_cost = {label_cost}: a distance is a number from 0 to {_LARGEST:g}"
            )
        mean, scale = _moments(X)
        classes, label = _label_rule(points.y, number)
        rule = (tuple(points.columns), mean, scale, classes, label, float(label_cost), int(seed))
    else:
        _check_columns(points, like)
        n_projections, coding = len(like.means), like.coding
        rule = (like.columns, like.mean, like.scale, like.classes, like.label, like.label_cost,
                like.seed)  # fmt: skip
    columns, mean, scale, classes, label, label_cost, seed = rule
    scaled = (X - mean) / scale
    rows = np.column_stack([scaled, _label_columns(points.y, len(X), classes, label, label_cost)])
    names = [*columns, *([] if classes is None else ["", *classes])]
    projected = np.sort(rows @ _directions(names, rows.shape[1], int(n_projections), seed), axis=0)
    parts = _n_parts(len(rows))
    return Summary(
        columns=columns,
        rows=len(rows),
        mean=mean,
        scale=scale,
        classes=classes,
        label=label,
        label_cost=label_cost,
        seed=seed,
        means=_part_means(projected, parts),
        noise=_noise(rows, names, int(n_projections), seed, parts),
        own_mean=scaled.mean(axis=0),
        coding=coding,
    )


def _numbers(points: Points) -> Floats:
    try:
        X = np.asarray(points.X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("points: a summary is of numbers; encode text columns first") from None
    if not np.isfinite(X).all():
        raise InputError("points: a value is missing or infinite; fill it in or drop the row")
    if np.abs(X).max(initial=0.0) > _LARGEST:
        raise InputError(f"points: a number is beyond {_LARGEST:g}; give the column another unit")
    return X


def _moments(X: Floats) -> tuple[Floats, Floats]:
    """What columns are centred on and divided by; 0 and 1 for those of only 0 and 1."""
    truth = ((X == 0) | (X == 1)).all(axis=0)
    spread = X.std(axis=0)
    scale = np.where(truth | (spread < 1 / _LARGEST), 1.0, spread)
    return np.where(truth, 0.0, X.mean(axis=0)), scale


def _label_rule(
    y: Array | None, number: bool | None
) -> tuple[tuple[str, ...] | None, tuple[float, float]]:
    """Class names, or the mean and spread of a number. No class of few rows is named."""
    if y is None:
        return None, (0.0, 1.0)
    if number is None:
        number = not are_classes(y)
    if number:
        y = y.astype(np.float64)
        if not np.abs(y).max() <= _LARGEST:
            raise InputError(f"points: a label is beyond {_LARGEST:g}; give it another unit")
        spread = float(y.std())
        return (), (float(y.mean()), spread if spread >= 1 / _LARGEST else 1.0)
    names, counts = np.unique(y, return_counts=True)
    rare = names[counts < LEAST_ROWS]
    if len(rare):
        raise InputError(
            f"{len(rare)} classes have fewer than {LEAST_ROWS} rows, which a summary would show: "
            "leave these rows out, or for a label that is a number say regression"
        )
    return tuple(str(label) for label in names), (0.0, 1.0)


def _label_columns(
    y: Array | None,
    n: int,
    classes: tuple[str, ...] | None,
    label: tuple[float, float],
    cost: float,
) -> Floats:
    if (y is None) != (classes is None):
        raise InputError("one side has labels and the other has none")
    if y is None or classes is None:
        return np.empty((n, 0))
    if not classes:
        if y.dtype.kind not in "iuf":
            raise InputError("the labels of one side are numbers and those of the other are not")
        return ((y.astype(np.float64) - label[0]) / label[1] * cost)[:, np.newaxis]
    names = np.array([str(value) for value in y])
    odd = sorted(set(names.tolist()) - set(classes))
    if odd:
        raise InputError(f"the other side has no class {odd[0]!r}; {nearest(odd[0], classes)}")
    return (names[:, np.newaxis] == np.array(classes)) * (cost / math.sqrt(2))


def _check_columns(points: Points, like: Summary) -> None:
    if tuple(points.columns) != like.columns:
        odd = [c for c in like.columns if c not in points.columns]
        hint = f"there is no {odd[0]!r} here" if odd else "they come in another order"
        raise InputError(f"the columns are not those of the other side's summary: {hint}")


def _directions(names: list[str], d: int, n: int, seed: int) -> Floats:
    """Random unit vectors, a column each: of what both sides know alone.

    Whole orthonormal bases, which cover all directions more evenly than vectors one by one.
    """
    text = json.dumps(names).encode()
    public = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
    rng = np.random.default_rng([seed, public])
    bases = []
    for _ in range(-(-n // d)):
        Q, R = np.linalg.qr(rng.normal(size=(d, d)))
        bases.append(Q * np.sign(np.diag(R)))
    return np.concatenate(bases, axis=1)[:, :n]


def _n_parts(n: int) -> int:
    """Equal parts of n rows: a power of two, so that the finer of two tables can be made coarser.

    >>> _n_parts(20), _n_parts(100), _n_parts(10**6)
    (4, 16, 64)
    """
    return min(_MOST_PARTS, 2 ** int(math.log2(n // LEAST_ROWS)))


def _part_means(ordered: Floats, parts: int) -> Floats:
    """The mean of each equal part of each column's sorted numbers: (columns, parts).

    A row on the edge of two parts counts in both by its share.

    >>> _part_means(np.arange(6.0)[:, np.newaxis], 4)
    array([[0.33333333, 1.66666667, 3.33333333, 4.66666667]])
    """
    n = len(ordered)
    sums = np.concatenate([np.zeros((1, ordered.shape[1])), np.cumsum(ordered, axis=0)])
    ends = np.arange(parts + 1) * n / parts
    whole = np.minimum(ends.astype(int), n)
    rest = (ends - whole)[:, np.newaxis]
    until = sums[whole] + rest * ordered[np.minimum(whole, n - 1)]
    return (np.diff(until, axis=0) * parts / n).T


def coarser(means: Floats, parts: int) -> Floats:
    """The same means over fewer parts."""
    return means.reshape(len(means), parts, -1).mean(axis=2)


def _noise(
    rows: Floats, names: list[str], n_projections: int, seed: int, parts: int
) -> dict[int, tuple[float, float]]:
    """How far apart two random halves are, for each number of parts, in units of chance.

    The distance of samples of n and n' rows of one distribution goes as sqrt(1/n + 1/n'), which is
    divided out: for halves of n rows it is 2 / sqrt(n).
    """
    rng = np.random.default_rng([seed, len(rows)])
    if len(rows) > _MOST_SPLIT:
        rows = rows[rng.choice(len(rows), _MOST_SPLIT, replace=False)]
    n = len(rows) - len(rows) % 2
    projected = rows[:n] @ _directions(names, rows.shape[1], n_projections, seed)
    order = np.argsort(projected, axis=0)
    ordered = np.take_along_axis(projected, order, axis=0)
    sizes = [2**i for i in range(1, int(math.log2(parts)) + 1)]
    found: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(_SPLITS):
        half = np.zeros(n, dtype=bool)
        half[rng.permutation(n)[: n // 2]] = True
        inside = half[order].T  # a row a direction, so that what is picked stays in order
        one, other = (
            ordered.T[mask].reshape(n_projections, n // 2).T for mask in (inside, ~inside)
        )
        gap = _part_means(one, parts) - _part_means(other, parts)
        for size in sizes:
            found[size].append(float(np.abs(coarser(gap, size)).mean()))
    unit = math.sqrt(n) / 2
    return {
        size: (float(np.mean(gaps)) * unit, float(np.quantile(gaps, 0.95)) * unit)
        for size, gaps in found.items()
    }
