"""Encode the columns of a table as numbers: numbers are scaled, text is one-hot encoded."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.points import Array, Floats, kind_of
from dshapley.data.targets import FEWEST_DISTINCT
from dshapley.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NUMERIC_OBJECTS",
    "check_cells",
    "encoder",
    "floats",
    "is_number",
    "near_unique",
    "plain_columns",
]

NUMERIC_OBJECTS = ("numbers", "dates", "times of day", "durations")
"""Kinds of cells that count as numbers even in a column of Python objects."""

NEAR_UNIQUE = 0.9
"""Text columns whose share of different values is at least this are left out of the features."""

_NUMBERS = "iufbMm"  # numpy's kinds of dtypes: integers, floats, truth values, dates
_UNUSABLE = ("lists", "structs", "bytes", "complex numbers")
_A_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_MOST_CATEGORIES = 50


def encoder(
    base: pd.DataFrame, features: list[str]
) -> tuple[Callable[[pd.DataFrame], Array], list[str], list[str]]:
    """The function that encodes rows, the columns that it uses, and notices for the user.

    The encoding is fitted on `base`.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    empty = [c for c in features if base[c].isna().all()]
    alone = [c for c in features if c not in empty and near_unique(base[c])]
    used = [c for c in features if c not in (*empty, *alone)]
    notices = []
    if empty:
        notices.append(f"columns without any value are left out: {', '.join(empty)}")
    if alone:
        counts = _counts(base, alone)
        notices.append(f"text columns whose values are nearly all different are left out: {counts}")
    if not used:
        raise InputError(f"no column is left to learn from: {'; '.join(notices)}")
    numbers = [c for c in used if is_number(base[c])]
    texts = [c for c in used if c not in numbers]
    plain = plain_columns(base[used], numbers)
    wide = [c for c in texts if plain[c].nunique() > _MOST_CATEGORIES]
    if wide:
        notices.append(
            f"only the {_MOST_CATEGORIES - 1} most frequent values of {', '.join(wide)} are told "
            "apart (leave a column out with --drop)"
        )
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=_MOST_CATEGORIES, sparse_output=False
    )
    encoder = ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            (
                "text",
                make_pipeline(SimpleImputer(strategy="constant", fill_value="missing"), one_hot),
                texts,
            ),
        ]
    )
    encoder.fit(plain)
    return (lambda part: encoder.transform(plain_columns(part[used], numbers))), used, notices


def near_unique(column: pd.Series[Any]) -> bool:
    """Whether a column holds text that is nearly all different, such as names, notes or ids.

    Such a value says nothing about other rows, and one-hot encoding it would add columns of noise.
    """
    if is_number(column):
        return False
    known = plain_columns(column.to_frame(), [])[str(column.name)].dropna()
    n = known.nunique()
    return bool(n > FEWEST_DISTINCT and n >= NEAR_UNIQUE * len(known))


def _counts(base: pd.DataFrame, columns: list[str]) -> str:
    """The column names for a message, each with its number of different values."""
    parts = []
    for name in columns:
        known = plain_columns(base[[name]], [])[str(name)].dropna()
        parts.append(f"{name} ({known.nunique():,} of {len(known):,})")
    return ", ".join(parts)


def plain_columns(part: pd.DataFrame, numbers: list[str]) -> pd.DataFrame:
    """The columns named in `numbers` as floats and all others as text, whatever their dtypes."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, column in part.items():
        if name in numbers:
            columns[str(name)] = pd.Series(floats(column), index=part.index)
        else:
            check_cells(part, [name])
            columns[str(name)] = column.astype(object).map(str).where(column.notna(), np.nan)
    return pd.DataFrame(columns, index=part.index)


def floats(column: pd.Series[Any]) -> Floats:
    """The column as floats; dates become days since 1970, durations and times of day days."""
    import pandas as pd

    if column.dtype.kind in "Mm":
        return _days(column)
    if column.dtype != object:
        return column.to_numpy(dtype="float64", na_value=np.nan)
    kind, known = kind_of(column), column.notna().to_numpy()
    cells = column[known]
    found = np.full(len(column), np.nan)
    if kind == "dates":
        if any(isinstance(cell, datetime.datetime | np.datetime64) for cell in cells):
            cells = pd.to_datetime(cells, utc=True)
        else:  # numpy's dates reach beyond the last year of pandas' nanoseconds
            cells = pd.Series(np.array(cells.tolist(), dtype="datetime64[D]").astype("M8[s]"))
        found[known] = _days(cells)
    elif kind == "durations":
        found[known] = _days(pd.to_timedelta(cells))
    else:
        found[known] = [_float(cell) for cell in cells]
    return found


def _float(cell: Any) -> float:
    if isinstance(cell, datetime.time):
        seconds = (cell.hour * 60 + cell.minute) * 60 + cell.second
        return (seconds + cell.microsecond / 10**6) / _A_DAY["s"]
    try:
        return float(cell)
    except OverflowError:
        return float("inf") if cell > 0 else float("-inf")


def _days(column: pd.Series[Any]) -> Floats:
    """Dates as days since 1970, or durations as days; the unit of the column does not matter."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)  # the same moment in UTC
    values = column.to_numpy()
    unit, count = np.datetime_data(values.dtype)
    if unit not in _A_DAY or count != 1:
        values, unit = values.astype(f"{values.dtype.kind}8[s]"), "s"
    # Days and remainder are divided separately: nanoseconds since 1970 exceed a float's precision.
    days, rest = np.divmod(values.view("int64"), _A_DAY[unit])
    return np.where(np.isnat(values), np.nan, days + rest / _A_DAY[unit])


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the column counts as numbers: numbers, truth values, dates, times or durations."""
    if column.dtype != object:
        return column.dtype.kind in _NUMBERS
    # Truth values with gaps have dtype object and are encoded as text, so a gap is a category.
    return kind_of(column) in NUMERIC_OBJECTS


def check_cells(part: pd.DataFrame, features: Sequence[Any]) -> None:
    """Raise an InputError for a column of lists, structs, bytes or complex numbers."""
    import pandas as pd

    for column in features:
        cells = part[column]
        if isinstance(cells.dtype, pd.CategoricalDtype):
            cells = cells.cat.categories.to_series()
        kind = "text" if isinstance(cells.dtype, pd.StringDtype) else kind_of(cells)
        if kind in _UNUSABLE:
            raise InputError(
                f"the column {column!r} holds {kind}, which cannot be learned from: leave it out "
                f"with --drop {column!r}"
            )
