"""Making the summary of a table of numbers, or of a table with text columns.

`summary` takes points. `table_summary` first turns the columns of a table into numbers; it uses
only statistics that are published, so that both sides of a sale get the same columns.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.encoding import is_number, near_unique, plain_columns
from dshapley.data.points import Array, Floats, Points, as_points
from dshapley.data.tables import check_target, task_of
from dshapley.data.targets import are_classes
from dshapley.errors import InputError, is_whole, nearest, warn
from dshapley.market.summary_file import LARGEST, Summary

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEAST_ROWS", "coarser", "coded", "coding_of", "summary", "table_summary"]

LEAST_ROWS = 5
"""The least number of rows that a published number is computed from."""
_MOST_PARTS = 64
_SPLITS = 100
_MOST_SPLIT = 5000
"""The most rows that are split into halves to measure what chance alone does."""
_MOST_CATEGORIES = 50
_MISSING = "missing"


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
    """What to publish of a table: means of its projections on random directions, but no rows.

    Columns are centred and divided by their spread; columns of only 0 and 1 are left as they are.
    Labels are columns too, since they belong to the distribution. Each class gets a column that
    holds `label_cost` / sqrt(2) for its rows, so that rows of two classes are at least `label_cost`
    apart. Numeric labels are scaled like other columns and multiplied by `label_cost`. The
    directions follow from the seed and the names of the columns and classes, so that both sides
    use the same ones.

    Parameters
    ----------
    points
        Points or a pair (X, y), with columns of numbers and no missing values.
    like
        The other side's summary. Scales, classes, directions and label cost are then taken from
        it, which makes the two summaries comparable.
    n_projections, seed, label_cost
        The number of directions, their seed, and the weight of labels; ignored with `like`.
    number
        Whether labels are numbers and not classes [default: they are numbers if they have more
        than 20 different values].
    coding
        How a table became these columns; it is kept in the summary.

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
        raise InputError(
            f"a summary of only {len(X)} rows would reveal them: give at least {4 * LEAST_ROWS} "
            "rows"
        )
    if like is None:
        if not is_whole(n_projections, least=1):
            raise InputError(f"n_projections = {n_projections}: give a whole number above 0")
        if not is_whole(seed, least=0):
            raise InputError(f"seed = {seed}: a seed is a whole number, 0 or more")
        if not 0 <= label_cost <= LARGEST:
            raise InputError(f"label_cost = {label_cost}: give a number from 0 to {LARGEST:g}")
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
        raise InputError("points: a column is not numeric; encode text columns first") from None
    if not np.isfinite(X).all():
        raise InputError("points: a value is missing or infinite; fill it in or drop the row")
    if np.abs(X).max(initial=0.0) > LARGEST:
        raise InputError(
            f"points: a number is larger than {LARGEST:g}; give its column another unit"
        )
    return X


def _moments(X: Floats) -> tuple[Floats, Floats]:
    """What columns are centred on and divided by: 0 and 1 for columns of only 0 and 1."""
    truth = ((X == 0) | (X == 1)).all(axis=0)
    spread = X.std(axis=0)
    scale = np.where(truth | (spread < 1 / LARGEST), 1.0, spread)
    return np.where(truth, 0.0, X.mean(axis=0)), scale


def _label_rule(
    y: Array | None, number: bool | None
) -> tuple[tuple[str, ...] | None, tuple[float, float]]:
    """The class names, and the mean and spread of numeric labels."""
    if y is None:
        return None, (0.0, 1.0)
    if number is None:
        number = not are_classes(y)
    if number:
        y = y.astype(np.float64)
        if not np.abs(y).max() <= LARGEST:
            raise InputError(
                f"points: a label is larger than {LARGEST:g}; give labels another unit"
            )
        spread = float(y.std())
        return (), (float(y.mean()), spread if spread >= 1 / LARGEST else 1.0)
    names, counts = np.unique(y, return_counts=True)
    rare = names[counts < LEAST_ROWS]
    if len(rare):
        raise InputError(
            f"{len(rare)} classes have fewer than {LEAST_ROWS} rows, which a summary would reveal: "
            "leave these rows out; if the labels are numbers, ask for regression"
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
        raise InputError(
            "one side has labels and the other has none: give both sides labels, or none"
        )
    if y is None or classes is None:
        return np.empty((n, 0))
    if not classes:
        if y.dtype.kind not in "iuf":
            raise InputError("the other side's labels are numbers, and the labels here are not")
        return ((y.astype(np.float64) - label[0]) / label[1] * cost)[:, np.newaxis]
    names = np.array([str(value) for value in y])
    odd = sorted(set(names.tolist()) - set(classes))
    if odd:
        raise InputError(f"the other side has no class {odd[0]!r}; {nearest(odd[0], classes)}")
    return (names[:, np.newaxis] == np.array(classes)) * (cost / math.sqrt(2))


def _check_columns(points: Points, like: Summary) -> None:
    if tuple(points.columns) != like.columns:
        odd = [c for c in like.columns if c not in points.columns]
        hint = f"there is no {odd[0]!r} here" if odd else "their order is different"
        raise InputError(f"the columns differ from those of the other side's summary: {hint}")


def _directions(names: list[str], d: int, n: int, seed: int) -> Floats:
    """Random unit vectors as columns, made only from what both sides know.

    They come in orthonormal bases, which cover all directions more evenly than independent
    vectors do.
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
    """The number of equal parts of n rows: a power of two, so that parts can be merged in pairs.

    >>> _n_parts(20), _n_parts(100), _n_parts(10**6)
    (4, 16, 64)
    """
    return min(_MOST_PARTS, 2 ** int(math.log2(n // LEAST_ROWS)))


def _part_means(ordered: Floats, parts: int) -> Floats:
    """The mean of each equal part of each column's sorted numbers: (columns, parts).

    A row on the edge of two parts counts in each by its share.

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
    """The means over fewer parts, each of which joins several of these."""
    return means.reshape(len(means), parts, -1).mean(axis=2)


def _noise(
    rows: Floats, names: list[str], n_projections: int, seed: int, parts: int
) -> dict[int, tuple[float, float]]:
    """The distance between two random halves of the rows, for each number of parts.

    The distance between samples of n and n' rows of one distribution is proportional to
    sqrt(1/n + 1/n'), which is divided out. For the halves of n rows this is 2 / sqrt(n).
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
        inside = half[order].T  # one row for each direction: a mask keeps the order within rows
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


def table_summary(
    table: pd.DataFrame,
    *,
    target: str | None = None,
    task: str = "auto",
    drop: Sequence[str] = (),
    like: Summary | None = None,
    n_projections: int = 100,
    seed: int = 0,
    label_cost: float = 1.0,
) -> Summary:
    """The summary of a table of numbers and text, for `match`.

    Missing numbers are filled with the median, and a text column becomes one column for each of
    its frequent values. With `like`, the other side's summary, medians and values are taken from
    there.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20, None] * 20, "job": ["cook"] * 40, "y": ["a", "b"] * 20})
    >>> table_summary(table, target="y").columns
    ('age', 'job=cook', 'job=(other)')
    """
    if like is not None:
        if like.coding is None:
            raise InputError(
                "the other side's summary is of arrays: ask for one of a table (dshapley publish)"
            )
        known = like.coding["target"]
        if target is not None and target != known:
            raise InputError(f"the other side's target is {known!r}, not {target!r}")
        return summary(coded(table, like.coding), like=like)
    if target is None:
        raise InputError(
            "name the column to predict (--target): its labels are part of the summary"
        )
    coding = coding_of(table, target=target, task=task, drop=drop)
    return summary(
        coded(table, coding),
        n_projections=n_projections,
        seed=seed,
        label_cost=label_cost,
        number=coding["task"] == "regression",
        coding=coding,
    )


def coding_of(
    table: pd.DataFrame, *, target: str, task: str = "auto", drop: Sequence[str] = ()
) -> dict[str, Any]:
    """What both sides need to know about a table's columns, as plain values.

    That is the median of each numeric column, and the 49 most frequent values of each text column
    among those that at least five rows have.
    """
    task = task_of(table, target, asked=task)
    for column in drop:
        if column not in table.columns:
            hint = nearest(column, table.columns)
            raise InputError(f"the table has no column {column!r}; {hint}")
    others = [c for c in table.columns if c not in (target, *drop) and table[c].notna().any()]
    alone = [c for c in others if near_unique(table[c])]
    if alone:
        warn(f"text columns whose values are nearly all different are left out: {', '.join(alone)}")
    columns = []
    for name in others:
        if name in alone:
            continue
        if is_number(table[name]):
            numbers = plain_columns(table[[name]], [name])[name]
            columns.append({"name": name, "median": float(numbers.median())})
        else:
            counts = plain_columns(table[[name]], [])[name].fillna(_MISSING).value_counts()
            kept = counts[counts >= LEAST_ROWS].index[: _MOST_CATEGORIES - 1]
            columns.append({"name": name, "values": sorted(map(str, kept))})
    if not columns:
        raise InputError("no column is left except the target: drop fewer columns")
    return {"target": target, "task": task, "columns": columns}


def coded(table: pd.DataFrame, coding: Mapping[str, Any]) -> Points:
    """The table's rows as points with numeric columns."""
    import pandas as pd

    y = check_target(table, coding["target"], name="table")
    found: dict[str, Any] = {}
    for column in coding["columns"]:
        name = column["name"]
        if name not in table.columns:
            raise InputError(f"the table lacks the column {name!r}, which the other side has")
        if "median" in column:
            if not is_number(table[name]) and table[name].notna().any():
                raise InputError(
                    f"the column {name!r} has numbers on the other side but text in this table"
                )
            found[name] = plain_columns(table[[name]], [name])[name].fillna(column["median"])
            if np.isinf(found[name]).any():
                raise InputError(f"the table has an infinite value in column {name!r}")
        else:
            text = plain_columns(table[[name]], [])[name].fillna(_MISSING)
            for value in column["values"]:
                found[f"{name}={value}"] = (text == value).astype(float)
            found[f"{name}=(other)"] = (~text.isin(column["values"])).astype(float)
    if coding["task"] == "regression" and not is_number(y):
        raise InputError(f"the target {y.name!r} is text, but regression needs numbers")
    labels = y.astype(float) if coding["task"] == "regression" else y.map(str)
    return Points(pd.DataFrame(found, index=table.index), labels)
