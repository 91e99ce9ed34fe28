"""From a file to points: read a table, split it, encode its columns, say what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dshapley.errors import InputError, nearest
from dshapley.models import Task
from dshapley.points import Array, Points

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Prepared",
    "check_target",
    "is_number",
    "plain_columns",
    "prepare",
    "read_table",
    "task_of",
]

_NUMBERS = "iufbMm"  # numpy's kinds of dtypes: integers, floats, truth values, dates
_MOST_CLASSES = 20
_MOST_CATEGORIES = 50


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table made ready: encoded and scaled as fitted on the database."""

    database: Points
    test: Points
    points: Points
    groups: Array | None
    notices: list[str] = field(default_factory=list)


def read_table(path: str | Path, *, text: Sequence[str | None] = ()) -> pd.DataFrame:
    """A CSV, TSV or Parquet file as a data frame; rows are known by their number from 0.

    The columns of `text` are names, such as ids, and stay as they are written: 007 is not 7.
    """
    import pandas as pd

    path = Path(path)
    if not path.exists():
        near = (
            [p.name for p in path.parent.glob("*") if p.is_file()] if path.parent.is_dir() else []
        )
        hint = nearest(path.name, near) if near else "check the path"
        raise InputError(f"{path}: no such file; {hint}")
    as_text = {name: str for name in text if name is not None}
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": lambda p: _read_csv(p, as_text),
        ".tsv": lambda p: pd.read_csv(p, sep="\t", dtype=as_text),
        ".parquet": pd.read_parquet,
    }
    kind = next((s for s in reversed(path.suffixes) if s.lower() in readers), None)
    if kind is None:
        raise InputError(f"{path}: a table is a .csv, .tsv or .parquet file")
    try:
        table = readers[kind.lower()](path)
    except (ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} cannot be read as {kind[1:].upper()}: {reason}") from None
    if len(table) == 0 or len(table.columns) == 0:
        raise InputError(f"{path}: the table is empty")
    table.columns = table.columns.astype(str)
    table = table.reset_index(drop=True)
    return table if kind == ".parquet" else _with_dates(table)


def _read_csv(path: Path, as_text: dict[str, type[str]]) -> pd.DataFrame:
    """A CSV file, with semicolons where it has these (as spreadsheets write in half of Europe)."""
    import pandas as pd

    table = pd.read_csv(path, dtype=as_text)
    if len(table.columns) == 1 and ";" in str(table.columns[0]):
        return pd.read_csv(path, sep=";", dtype=as_text)
    return table


def _with_dates(table: pd.DataFrame) -> pd.DataFrame:
    """Text columns of ISO dates (2024-05-31, with or without a time) as dates."""
    import pandas as pd

    for name in table.columns:
        values = table[name].dropna()
        if values.empty or is_number(values):
            continue
        if values.astype(str).str.fullmatch(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?").all():
            dates = pd.to_datetime(table[name], format="ISO8601", errors="coerce", utc=True)
            if dates.notna().sum() == len(values):
                table[name] = dates
    return table


def task_of(table: pd.DataFrame, target: str, *, asked: str = "auto") -> Task:
    """The task asked for; else classification for text, truth values and few whole numbers."""
    column = check_target(table, target, name="table")
    if asked in ("classification", "regression"):
        return cast("Task", asked)
    if asked != "auto":
        raise InputError(f"unknown task {asked!r}: classification or regression")
    if column.dtype.kind not in "iuf":
        return "classification"
    distinct = column.unique()
    whole = bool((distinct == np.round(distinct)).all())
    return "classification" if whole and len(distinct) <= _MOST_CLASSES else "regression"


def prepare(
    table: pd.DataFrame,
    *,
    target: str,
    task: Task,
    test: pd.DataFrame | None = None,
    test_size: float = 0.2,
    points: pd.DataFrame | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
    seed: int = 0,
) -> Prepared:
    """The database, the test set and the points to value, from one to three tables.

    Without a test table, `test_size` of the table's rows are set aside for it, stratified for
    classification. Without a points table, the rows of the database are valued; with one, it alone
    needs the columns of ids and groups. Numbers are
    scaled and text is one-hot encoded, as fitted on the database; missing values are filled in
    with the median, or as a category of their own.
    """
    named = {"table": table, "test table": test, "points table": points}
    tables = {name: part for name, part in named.items() if part is not None}
    special = [c for c in (id_column, group_column) if c is not None]
    of_points = "table" if points is None else "points table"
    for name, part in tables.items():
        check_target(part, target, name=name)
        needed = [*(drop if name == "table" else ()), *(special if name == of_points else ())]
        for column in needed:
            _column(part, column, name=name)
    if table[target].nunique() == 1:
        raise InputError(f"the target {target!r} is {table[target].iloc[0]!r} in every row")
    features = [c for c in table.columns if c not in {target, *special, *drop}]
    if not features:
        raise InputError("no column is left to learn from beside the target")
    for name, part in tables.items():
        _same_columns(part, table, features, name=name)
        _check_infinite(part, features, name=name)

    base, held_out = (table, test) if test is not None else _split(
        table, target, test_size=test_size, stratify=task == "classification", seed=seed
    )  # fmt: skip
    valued = base if points is None else points
    encode, used, notices = _encoder(base, features)
    notices += [note for name, part in tables.items() for note in _missing(part, used, name=name)]

    def encoded(part: pd.DataFrame) -> Points:
        ids = part[id_column] if id_column in part.columns else part.index
        return Points(encode(part), part[target], ids)

    groups = None if group_column is None else np.asarray(valued[group_column])
    return Prepared(encoded(base), encoded(held_out), encoded(valued), groups, notices)


def _encoder(
    base: pd.DataFrame, features: list[str]
) -> tuple[Callable[[pd.DataFrame], Array], list[str], list[str]]:
    """How rows become numbers, the columns that takes, and what there is to say about it."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    empty = [c for c in features if base[c].isna().all()]
    used = [c for c in features if c not in empty]
    if not used:
        raise InputError("every feature column is empty")
    numbers = [c for c in used if is_number(base[c])]
    texts = [c for c in used if c not in numbers]
    plain = plain_columns(base[used], numbers)
    notices = []
    if empty:
        notices.append(f"columns without any value are left out: {', '.join(empty)}")
    wide = [c for c in texts if plain[c].nunique() > _MOST_CATEGORIES]
    if wide:
        notices.append(
            f"of {', '.join(wide)} only the {_MOST_CATEGORIES - 1} most frequent values are told "
            "apart (leave an identifier out with --drop)"
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


def plain_columns(part: pd.DataFrame, numbers: list[str]) -> pd.DataFrame:
    """The same columns as floats (those of `numbers`) or as text, whatever pandas keeps them in."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, column in part.items():
        if name not in numbers:
            columns[str(name)] = column.astype(object).map(str).where(column.notna(), np.nan)
        elif column.dtype.kind in "Mm":
            columns[str(name)] = _days(column)
        else:
            columns[str(name)] = column.astype("float64")
    return pd.DataFrame(columns, index=part.index)


def _days(column: pd.Series[Any]) -> pd.Series[Any]:
    """Dates as days since 1970, durations as days; tables may keep them in other units."""
    import pandas as pd

    if column.dtype.kind == "m":
        return pd.to_timedelta(column).dt.total_seconds() / 86_400
    return (pd.to_datetime(column, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def _split(
    table: pd.DataFrame, target: str, *, test_size: float, stratify: bool, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    from sklearn.model_selection import train_test_split

    if seed < 0:
        raise InputError(f"seed = {seed}: a seed is a whole number, 0 or more")
    if not 0 < test_size < 1:
        raise InputError(f"test size {test_size}: give the share of rows to test on, such as 0.2")
    labels = table[target]
    # A class with a single row cannot be on both sides; then the split is a plain one.
    strata = labels if stratify and labels.value_counts().min() > 1 else None
    try:
        base, held_out = train_test_split(
            table, test_size=test_size, stratify=strata, random_state=seed
        )
    except ValueError as error:
        raise InputError(f"the table cannot be split into database and test set: {error}") from None
    return base.sort_index(), held_out.sort_index()


def check_target(table: pd.DataFrame, target: str, *, name: str) -> pd.Series[Any]:
    """The target column, or an error for people where it is not there or has gaps."""
    column = _column(table, target, name=name)
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise InputError(
            f"the target {target!r} of the {name} is missing in {len(missing)} of {len(table)} "
            f"rows (the first is row {missing[0]}): drop those rows"
        )
    return column


def _column(table: pd.DataFrame, column: str, *, name: str) -> pd.Series[Any]:
    if column not in table.columns:
        raise InputError(f"the {name} has no column {column!r}; {nearest(column, table.columns)}")
    return table[column]


def _same_columns(
    part: pd.DataFrame, table: pd.DataFrame, features: list[str], *, name: str
) -> None:
    for column in features:
        if column not in part.columns:
            raise InputError(f"the {name} lacks the column {column!r} that the first table has")
        here, there = part[column], table[column]
        if is_number(there) and not is_number(here) and here.notna().any():
            bad = next(value for value in here.dropna() if _is_text(value))
            raise InputError(
                f"the column {column!r} holds numbers in the first table but {bad!r} in the {name}"
            )


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the column holds numbers, truth values or dates."""
    return column.dtype.kind in _NUMBERS


def _is_text(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return True
    return False


def _check_infinite(part: pd.DataFrame, features: list[str], *, name: str) -> None:
    for column in features:
        if part[column].dtype.kind == "f" and np.isinf(part[column]).any():
            raise InputError(f"the {name} has an infinite value in column {column!r}")


def _missing(part: pd.DataFrame, used: list[str], *, name: str) -> list[str]:
    counts = part[used].isna().sum()
    counts = counts[counts > 0].sort_values(ascending=False)
    if counts.empty:
        return []
    columns = ", ".join(f"{column} {count}" for column, count in counts.head(5).items())
    return [
        f"{counts.sum()} missing values in the {name} are filled in ({columns}"
        + (", ..." if len(counts) > 5 else "")
        + "): the median for numbers, a category of its own for text"
    ]
