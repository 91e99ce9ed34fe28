"""From a file to points: read a table, split it, encode its columns, say what was done."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dshapley.errors import InputError, nearest
from dshapley.models import Task
from dshapley.points import Array, Floats, Points, kind_of, labels_of, names_of
from dshapley.targets import check_meant, task_of_labels

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
_OBJECTS = ("numbers", "dates", "times of day", "durations")  # that are numbers as objects, too
_NUMERIC = {"truth values": "numbers", **{kind: kind for kind in _OBJECTS}}
_UNUSABLE = ("lists", "structs", "bytes", "complex numbers")
_UNNAMED = re.compile(r"\s*|Unnamed: \d+")  # the second is pandas' name for a column without one
_A_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_LARGEST = 1e150  # the square of a larger number overflows, and scaling squares numbers
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
    path = Path(path)
    shown = _line(path)
    _check_file(path)
    as_text = {name: str for name in text if name is not None}
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": lambda p: _read_csv(p, as_text),
        ".tsv": lambda p: _read_separated(p, "\t", as_text),
        ".parquet": _read_parquet,
    }
    kind = next((s.lower() for s in reversed(path.suffixes) if s.lower() in readers), None)
    if kind is None:
        raise InputError(f"{shown}: a table is a .csv, .tsv or .parquet file")
    try:
        table = readers[kind](path)
    except InputError as error:
        raise InputError(f"{shown}: {error}") from None
    except Exception as error:  # damaged files make pandas and pyarrow raise errors of any type
        raise InputError(f"{shown} cannot be read as {kind[1:].upper()}: {_line(error)}") from None
    if len(table) == 0 or len(table.columns) == 0:
        raise InputError(f"{shown}: the table is empty")
    table = table.reset_index(drop=True)
    return table if kind == ".parquet" else _parsed(table, as_text)


def _check_file(path: Path) -> None:
    """An error for what is not a file: reading from a pipe or a device could wait for ever."""
    try:
        if path.is_file():
            return
        found = path.exists()
        near = [p.name for p in path.parent.glob("*") if p.is_file()] if not found else []
    except (OSError, ValueError) as error:  # such as a name that is too long
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{_line(path)}: {_line(reason)}; check the path") from None
    if found:
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{_line(path)} is {what}: a table is a .csv, .tsv or .parquet file")
    hint = nearest(path.name, near) if near else "check the path"
    raise InputError(f"{_line(path)}: no such file; {_line(hint)}")


def _line(what: object) -> str:
    """The first line of a text for a message, without characters that a terminal would obey."""
    lines = str(what).strip().splitlines() or [type(what).__name__]
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in lines[0])


def _read_csv(path: Path, as_text: dict[str, type[str]]) -> pd.DataFrame:
    """A CSV file, with semicolons where it has these (as spreadsheets write in half of Europe)."""
    table = _read_separated(path, ",", as_text)
    if len(table.columns) == 1 and ";" in str(table.columns[0]):
        return _read_separated(path, ";", as_text)
    return table


def _read_separated(path: Path, sep: str, as_text: dict[str, type[str]]) -> pd.DataFrame:
    import pandas as pd

    # All at once: read in chunks, one column may become numbers here and text there.
    table = pd.read_csv(path, sep=sep, dtype=as_text, low_memory=False)
    # Pandas renames the second of two columns with one name; the file shows their own names.
    header = pd.read_csv(path, sep=sep, header=None, nrows=1, dtype=str, keep_default_na=False)
    _check_twice([name for name in header.iloc[0].tolist() if name])
    table.columns = pd.Index([str(name) for name in table.columns])
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd
    from pyarrow import parquet

    _check_twice(parquet.read_schema(path).names)
    table = pd.read_parquet(path)
    table.columns = pd.Index([str(name) for name in table.columns])
    _check_twice(table.columns.tolist())
    for name in table.columns:
        if table[name].dtype.kind == "O":  # texts are decoded only when they are looked at
            table[name].tolist()
    return table


def _check_twice(names: Sequence[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"two columns are called {name!r}: rename one")
        seen.add(name)


def _parsed(table: pd.DataFrame, as_text: dict[str, type[str]]) -> pd.DataFrame:
    """Text columns of a CSV file that are ISO dates or integers beyond 64 bits, as such."""
    import pandas as pd

    for name in table.columns:
        values = table[name].dropna()
        if name in as_text or values.empty or is_number(values):
            continue
        texts = values.astype(str)
        if texts.str.fullmatch(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?").all():
            dates = pd.to_datetime(table[name], format="ISO8601", errors="coerce", utc=True)
            if dates.notna().sum() == len(values):
                table[name] = dates
        # Pandas leaves gaps as empty text in such a column, and Python reads 4,300 digits.
        elif texts.str.fullmatch(r"([+-]?\d+)?").all() and texts.str.len().max() <= 4_000:
            whole = [int(text) if text else None for text in table[name].fillna("").astype(str)]
            table[name] = pd.Series(whole, index=table.index, dtype=object)
    return table


def task_of(table: pd.DataFrame, target: str, *, asked: str = "auto") -> Task:
    """The task asked for; else classification for text, truth values and few whole numbers.

    A target that cannot be meant is refused: free text, dates, ids (`dshapley.targets`).
    """
    _column(table, target, name="table")
    if asked not in ("auto", "classification", "regression"):
        raise InputError(f"unknown task {asked!r}: classification or regression")
    check_meant(table, target, asked=asked)
    column = check_target(table, target, name="table")
    if asked != "auto":
        return cast("Task", asked)
    if column.dtype.name == "category":
        return "classification"
    return task_of_labels(_labels(column, target, name="table"))


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
    for option, columns in (("id", [id_column]), ("group", [group_column]), ("drop", drop)):
        if target in columns:
            raise InputError(f"{target!r} is the target: name a different column with --{option}")
    for name, part in tables.items():
        _check_twice([str(column) for column in part.columns])
        check_target(part, target, name=name)
        needed = [*(drop if name == "table" else ()), *(special if name == of_points else ())]
        for column in needed:
            _column(part, column, name=name)
    features = [c for c in table.columns if c not in {target, *special, *drop}]
    if not features:
        raise InputError("no column is left to learn from beside the target")
    _check_named(features, table)
    for name, part in tables.items():
        _same_columns(part, table, features, name=name)
        _check_cells(part, features)
        _check_infinite(part, features, name=name)
    tables = {
        name: _with_plain(
            part, target, id_column, group_column, name=name, valued=name == of_points
        )
        for name, part in tables.items()
    }
    table, test, points = tables["table"], tables.get("test table"), tables.get("points table")
    labels = table[target]
    if labels.nunique() == 1:
        raise InputError(f"the target {target!r} is {labels.tolist()[0]!r} in every row")
    if task == "regression" and not is_number(labels):
        raise InputError(f"the target {target!r} holds text: regression needs numbers")

    base, held_out = (table, test) if test is not None else _split(
        table, target, test_size=test_size, stratify=task == "classification", seed=seed
    )  # fmt: skip
    valued = base if points is None else points
    encode, used, notices = _encoder(base, features)
    notices += [note for name, part in tables.items() for note in _missing(part, used, name=name)]

    def encoded(part: pd.DataFrame) -> Points:
        ids = part[id_column] if id_column in part.columns else part.index
        return Points(encode(part), part[target], ids)

    groups = None if group_column is None else names_of(valued[group_column], name="groups")
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
        if name in numbers:
            columns[str(name)] = pd.Series(_floats(column), index=part.index)
        else:
            _check_cells(part, [name])
            columns[str(name)] = column.astype(object).map(str).where(column.notna(), np.nan)
    return pd.DataFrame(columns, index=part.index)


def _floats(column: pd.Series[Any]) -> Floats:
    """Numbers as floats, dates as days since 1970, durations and times of day as days."""
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
        else:  # by numpy, whose dates have no last year
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
    """Dates as days since 1970, durations as days: equal for equal times in any unit."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)  # to the same time in UTC
    values = column.to_numpy()
    unit, count = np.datetime_data(values.dtype)
    if unit not in _A_DAY or count != 1:
        values, unit = values.astype(f"{values.dtype.kind}8[s]"), "s"
    # Whole days and their rest apart: nanoseconds since 1970 have more digits than a float.
    days, rest = np.divmod(values.view("int64"), _A_DAY[unit])
    return np.where(np.isnat(values), np.nan, days + rest / _A_DAY[unit])


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
    """The target column, or an error for people where it cannot be predicted or has gaps."""
    column = _column(table, target, name=name)
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise InputError(
            f"the target {target!r} of the {name} is missing in {len(missing)} of {len(table)} "
            f"rows (the first is row {missing[0]}): drop those rows"
        )
    _labels(column, target, name=name)
    return column


def _labels(column: pd.Series[Any], target: str, *, name: str) -> Array:
    return labels_of(column, name=f"the target {target!r} of the {name}")


def _with_plain(
    part: pd.DataFrame,
    target: str,
    id_column: str | None,
    group_column: str | None,
    *,
    name: str,
    valued: bool,
) -> pd.DataFrame:
    """The table with labels, ids and groups as numbers or text.

    Before the split, so that labels are of one type on both sides of it. Only rows to value need
    their ids, and only these are grouped.
    """
    plain = {target: _labels(part[target], target, name=name)}
    for word, column in (("id", id_column), ("group", group_column)):
        if column is not None and column in part.columns and (valued or word == "id"):
            cells = part[column]
            called = f"the {word} column {column!r} of the {name}"
            if kind_of(cells) == "bytes":
                raise InputError(f"{called} holds bytes, which cannot be names: give text")
            plain[column] = names_of(cells, name=called, gaps=not valued)
    return part.assign(**plain)


def _column(table: pd.DataFrame, column: str, *, name: str) -> pd.Series[Any]:
    if column not in table.columns:
        raise InputError(f"the {name} has no column {column!r}; {nearest(column, table.columns)}")
    if list(table.columns).count(column) > 1:
        raise InputError(f"the {name} has two columns called {column!r}: rename one")
    return table[column]


def _same_columns(
    part: pd.DataFrame, table: pd.DataFrame, features: list[str], *, name: str
) -> None:
    for column in features:
        if column not in part.columns:
            raise InputError(f"the {name} lacks the column {column!r} that the first table has")
        here, there = part[column], table[column]
        if not is_number(there) or not here.notna().any():
            continue
        kinds = [_NUMERIC.get(kind_of(each), "text") for each in (there, here)]
        if kinds[1] == "text":
            cells = here.dropna()
            bad = next((value for value in cells if _is_text(value)), cells.iloc[0])
            raise InputError(
                f"the column {column!r} holds {kinds[0]} in the first table but {bad!r} in the "
                f"{name}"
            )
        if kinds[0] != kinds[1] and there.notna().any():
            raise InputError(
                f"the column {column!r} holds {kinds[0]} in the first table but {kinds[1]} in the "
                f"{name}"
            )


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the column holds numbers, truth values or dates."""
    if column.dtype != object:
        return column.dtype.kind in _NUMBERS
    # Truth values are objects only where some are missing, and then text: a gap is a category.
    return kind_of(column) in _OBJECTS


def _is_text(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return True
    return False


def _check_named(features: list[str], table: pd.DataFrame) -> None:
    for column in features:
        if "\0" in str(column):
            raise InputError(f"a column of the table is called {column!r}: rename it")
        if _UNNAMED.fullmatch(str(column)):
            place = list(table.columns).index(column) + 1
            raise InputError(
                f"column {place} of the table has no name: name it in the file, or leave it out "
                f"with --drop {column!r}"
            )


def _check_cells(part: pd.DataFrame, features: Sequence[Any]) -> None:
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


def _check_infinite(part: pd.DataFrame, features: list[str], *, name: str) -> None:
    for column in features:
        if part[column].dtype.kind in "fO" and is_number(part[column]):
            largest = np.nanmax(np.abs(_floats(part[column])), initial=0)
            if np.isinf(largest):
                raise InputError(f"the {name} has an infinite value in column {column!r}")
            if largest > _LARGEST:
                raise InputError(
                    f"the {name} has a number above {_LARGEST} in column {column!r}, too large to "
                    "scale: divide the column"
                )


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
