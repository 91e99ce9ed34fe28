"""Which task a target column implies, and checks that refuse columns that are no sensible target.

Text, truth values and a few whole numbers are classes; all other numbers are regressed. Free text,
dates and ids are refused.
"""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dshapley.data.points import Array, kind_of
from dshapley.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Task", "are_classes", "check_meant", "check_repeated", "task_of_labels"]

Task: TypeAlias = Literal["classification", "regression"]

MOST_CLASSES = 20
"""Whole numbers with more distinct values than this are regressed; with fewer they are classes."""

FEWEST_DISTINCT = 20
"""A target with at most this many distinct values is never refused as free text or ids."""

FREE_TEXT = 0.5
"""Labels are free text or ids if more than this share of the rows have distinct labels.

Above one half there are fewer than two rows for each class.
"""

_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?")
_TIMES = ("dates", "durations", "times of day")
_ID_NAME = re.compile(r"(?:^|[_\s.-])(?:id|ids|idx|index|key|no|nr|nbr|number)$", re.IGNORECASE)
_ID_CAMEL = re.compile(r"[a-z](?:Id|ID)$")
_MOST_SHOWN = 5


def are_classes(y: Array | None) -> bool:
    """Whether labels are taken as classes when the user names no task.

    >>> are_classes(np.array([1.0, 2.0])), are_classes(np.array([0.5, 1.5])), are_classes(None)
    (True, False, False)
    """
    return y is not None and task_of_labels(y) == "classification"


def task_of_labels(y: Array) -> Task:
    """Classification for text, truth values and at most `MOST_CLASSES` whole numbers.

    Other numbers mean regression.

    >>> task_of_labels(np.array(["a", "b"])), task_of_labels(np.array([0.5, 1.5]))
    ('classification', 'regression')
    """
    distinct = np.unique(y)
    if distinct.dtype.kind not in "iuf":
        return "classification"
    return "classification" if _whole(distinct) and len(distinct) <= MOST_CLASSES else "regression"


def check_repeated(y: Array, *, name: str) -> None:
    """Raise an InputError if labels hardly ever repeat: no class could be learned from them."""
    n = len(np.unique(y))
    if _mostly_distinct(n, len(y)):
        raise InputError(
            f"{name}: {n:,} of {len(y):,} labels are different, so classes do not repeat: use a "
            "regressor for numbers, or give different labels"
        )


def check_meant(table: pd.DataFrame, target: str, *, asked: str) -> None:
    """Raise an InputError for a target of free text, dates or ids; it suggests better columns.

    `asked` is the task that the user asked for. With "regression", whole numbers are not refused
    as ids.
    """
    column = table[target].dropna()
    why = _not_meant(column, target, asked)
    if why is None:
        return
    others = _likely(table, target)
    hint = f", such as {', '.join(others)}" if others else ""
    raise InputError(f"the target {target!r} of the table {why}; name another column{hint}")


def _not_meant(column: pd.Series[Any], target: str, asked: str) -> str | None:
    """Why the column cannot be a target, or None if it can."""
    kind = kind_of(column)
    if kind in _TIMES:
        return f"holds {kind}, which cannot be predicted"
    if kind not in ("text", "numbers"):
        return None
    n, distinct = len(column), column.nunique()
    if distinct <= FEWEST_DISTINCT:
        return None
    if kind == "text" and all(_DATE.fullmatch(str(cell)) for cell in column.unique()):
        return "holds dates, which cannot be predicted"
    classes = kind == "text" or column.dtype.name == "category" or asked == "classification"
    if classes and _mostly_distinct(distinct, n):
        what = "looks like free text or ids" if kind == "text" else "has no classes that repeat"
        return f"{what}: {distinct:,} of {n:,} values are different"
    if classes:
        return None
    if asked == "regression" or distinct < n:
        return None
    sign = _id_sign(column, target)
    if sign is None:
        return None
    return f"looks like an id ({sign}; if it is a quantity, add --task regression)"


def _id_sign(column: pd.Series[Any], target: str) -> str | None:
    """Why numbers that are all different look like ids, or None if they do not."""
    numbers = column.to_numpy()
    if numbers.dtype.kind not in "iufO" or not _whole(numbers):
        return None
    if max(numbers) - min(numbers) == len(numbers) - 1:
        return f"the whole numbers from {min(numbers):.0f} to {max(numbers):.0f}, once each"
    steps = numbers[1:] > numbers[:-1]
    if steps.all() or not steps.any():
        return "whole numbers, all different and in order"
    if _ID_NAME.search(target) or _ID_CAMEL.search(target):
        return "whole numbers, all different, in a column of that name"
    return None


def _likely(table: pd.DataFrame, target: str) -> list[str]:
    """Suggested targets: complete columns with 2 to `MOST_CLASSES` values, fewest values first.

    Among columns with equally many values the rightmost comes first, where targets usually are.
    """
    found = []
    for place, name in enumerate(table.columns):
        column = table[name]
        if name == target or kind_of(column) not in ("text", "truth values", "numbers"):
            continue
        n = column.nunique()
        if 2 <= n <= MOST_CLASSES and column.notna().all():
            found.append((n, -place, f"{name!r} ({n} values)"))
    return [shown for _, _, shown in sorted(found)[:_MOST_SHOWN]]


def _mostly_distinct(distinct: int, n: int) -> bool:
    return distinct > FEWEST_DISTINCT and distinct > FREE_TEXT * n


def _whole(numbers: Array) -> bool:
    if numbers.dtype == object:  # integers beyond 64 bits, or decimals
        return all(_is_integer(number) for number in numbers)
    return bool((numbers == np.round(numbers)).all())


def _is_integer(number: Any) -> bool:
    if isinstance(number, Decimal):
        return number == number.to_integral_value()
    return isinstance(number, Integral) or (isinstance(number, float) and number.is_integer())
