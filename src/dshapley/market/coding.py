"""How a table becomes columns of numbers on both sides of a sale, by published statistics alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.encoding import is_number, near_unique, plain_columns
from dshapley.data.points import Points
from dshapley.data.tables import check_target, task_of
from dshapley.errors import InputError, nearest, warn
from dshapley.market.summaries import LEAST_ROWS, Summary, summary

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["coded", "coding_of", "table_summary"]

_MOST_CATEGORIES = 50
_MISSING = "missing"


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
    """The summary of a table of numbers and text, for `match`; `like` the other side's, if any.

    Gaps in numbers are filled with the median of the table first published, text becomes a column
    for each of its frequent values, as there.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20, None] * 20, "job": ["cook"] * 40, "y": ["a", "b"] * 20})
    >>> table_summary(table, target="y").columns
    ('age', 'job=cook', 'job=(other)')
    """
    if like is not None:
        if like.coding is None:
            raise InputError("the other side's summary is of arrays, not of a table")
        known = like.coding["target"]
        if target is not None and target != known:
            raise InputError(f"the other side's target is {known!r}, not {target!r}")
        return summary(coded(table, like.coding), like=like)
    if target is None:
        raise InputError("name the column to predict: labels belong to the distribution")
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
    """What both sides need to know of a table's columns, as plain values.

    Medians of numbers, and the values of text columns that at least five rows have, the 49 most
    frequent of them: rarer ones are not named.
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
        raise InputError("no column is left beside the target")
    return {"target": target, "task": task, "columns": columns}


def coded(table: pd.DataFrame, coding: Mapping[str, Any]) -> Points:
    """The table's rows as numbers, with labels."""
    import pandas as pd

    y = check_target(table, coding["target"], name="table")
    found: dict[str, Any] = {}
    for column in coding["columns"]:
        name = column["name"]
        if name not in table.columns:
            raise InputError(f"the table lacks the column {name!r} that the other side has")
        if "median" in column:
            if not is_number(table[name]) and table[name].notna().any():
                raise InputError(f"the column {name!r} holds numbers there but not in this table")
            found[name] = plain_columns(table[[name]], [name])[name].fillna(column["median"])
            if np.isinf(found[name]).any():
                raise InputError(f"the table has an infinite value in column {name!r}")
        else:
            text = plain_columns(table[[name]], [])[name].fillna(_MISSING)
            for value in column["values"]:
                found[f"{name}={value}"] = (text == value).astype(float)
            found[f"{name}=(other)"] = (~text.isin(column["values"])).astype(float)
    if coding["task"] == "regression" and not is_number(y):
        raise InputError(f"the target {y.name!r} holds text: regression needs numbers")
    labels = y.astype(float) if coding["task"] == "regression" else y.map(str)
    return Points(pd.DataFrame(found, index=table.index), labels)
