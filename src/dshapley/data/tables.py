"""Turn a table file into points: read it, check it, split it and encode its columns.

`read_table` reads the file, `task_of` chooses the task, and `prepare` makes the database, the test
set and the points to value. `prepare` also returns notices for the user, such as which columns were
left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dshapley.data.encoding import NUMERIC_OBJECTS, check_cells, encoder, floats, is_number
from dshapley.data.folds import set_aside
from dshapley.data.points import Array, Points, kind_of, labels_of, names_of
from dshapley.data.targets import Task, check_meant, task_of_labels
from dshapley.errors import InputError, nearest

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Prepared",
    "check_distinct",
    "check_target",
    "prepare",
    "read_table",
    "task_of",
]

_NUMERIC = {"truth values": "numbers", **{kind: kind for kind in NUMERIC_OBJECTS}}
_UNNAMED = re.compile(r"\s*|Unnamed: \d+")  # pandas calls a column without a name "Unnamed: 3"
_LARGEST = 1e150  # the square of a larger number overflows, and scaling squares numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """What `prepare` returns; the encoding and scaling are fitted on the database."""

    database: Points
    test: Points | None
    """None if there is neither a test table nor a `test_size`; use cross-fitting then."""
    points: Points
    groups: Array | None
    notices: list[str] = field(default_factory=list)
    rows: pd.DataFrame | None = None
    """The valued rows before encoding, with the target as the first column; None for bundles."""


def read_table(path: str | Path, *, text: Sequence[str | None] = ()) -> pd.DataFrame:
    """The data frame in a CSV, TSV or Parquet file, with rows numbered from 0.

    Columns listed in `text`, such as ids, are read as text, so that 007 does not become 7. This has
    no effect on Parquet files, which store their types.
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
        raise InputError(f"{shown}: give a .csv, .tsv or .parquet file")
    try:
        table = readers[kind](path)
    except InputError as error:
        raise InputError(f"{shown}: {error}") from None
    except Exception as error:  # pandas and pyarrow raise errors of any type for damaged files
        raise InputError(f"{shown} cannot be read as {kind[1:].upper()}: {_line(error)}") from None
    if len(table) == 0 or len(table.columns) == 0:
        raise InputError(f"{shown}: the table is empty")
    table = table.reset_index(drop=True)
    return table if kind == ".parquet" else _parsed(table, as_text)


def _check_file(path: Path) -> None:
    """Raise an InputError unless `path` is a file: reading a pipe or a device could block."""
    try:
        if path.is_file():
            return
        found = path.exists()
        near = [p.name for p in path.parent.glob("*") if p.is_file()] if not found else []
    except (OSError, ValueError) as error:  # for example if the name is too long
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{_line(path)}: {_line(reason)}; check the path") from None
    if found:
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{_line(path)} is {what}: give a .csv, .tsv or .parquet file")
    hint = nearest(path.name, near) if near else "check the path"
    raise InputError(f"{_line(path)}: no such file; {_line(hint)}")


def _line(what: object) -> str:
    """The first line of a text for a message, with unprintable characters escaped."""
    lines = str(what).strip().splitlines() or [type(what).__name__]
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in lines[0])


def _read_csv(path: Path, as_text: dict[str, type[str]]) -> pd.DataFrame:
    """Read a CSV file separated by commas, or by semicolons as many European spreadsheets do."""
    table = _read_separated(path, ",", as_text)
    if len(table.columns) == 1 and ";" in str(table.columns[0]):
        return _read_separated(path, ";", as_text)
    return table


def _read_separated(path: Path, sep: str, as_text: dict[str, type[str]]) -> pd.DataFrame:
    import pandas as pd

    # With low_memory pandas reads in chunks, and one column may get numbers and text mixed.
    table = pd.read_csv(path, sep=sep, dtype=as_text, low_memory=False)
    # Pandas renames the second of two columns with the same name, so read the header itself too.
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
        if table[name].dtype.kind == "O":  # access the text now, so that a damaged file fails here
            table[name].tolist()
    return table


def _check_twice(names: Sequence[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"two columns are called {name!r}: rename one")
        seen.add(name)


def _parsed(table: pd.DataFrame, as_text: dict[str, type[str]]) -> pd.DataFrame:
    """Convert text columns of a CSV file that hold ISO dates or integers beyond 64 bits."""
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
        # Pandas may leave gaps as empty text here; Python converts at most 4,300 digits to int.
        elif texts.str.fullmatch(r"([+-]?\d+)?").all() and texts.str.len().max() <= 4_000:
            whole = [int(text) if text else None for text in table[name].fillna("").astype(str)]
            table[name] = pd.Series(whole, index=table.index, dtype=object)
    return table


def task_of(table: pd.DataFrame, target: str, *, asked: str = "auto") -> Task:
    """The task asked for; with "auto" the task that the target column implies.

    "auto" means classification for categories, text, truth values and a few whole numbers, else
    regression. Targets of free text, dates or ids raise an InputError (`dshapley.data.targets`).
    """
    _column(table, target, name="table")
    if asked not in ("auto", "classification", "regression"):
        raise InputError(f"unknown task {asked!r}: use classification or regression")
    check_meant(table, target, asked=asked)
    column = check_target(table, target, name="table")
    if asked != "auto":
        return cast("Task", asked)
    if column.dtype.name == "category":
        return "classification"
    return task_of_labels(_labels(column, target, name="table"))


def prepare(  # noqa: PLR0913 - the options of the command line, one by one
    table: pd.DataFrame,
    *,
    target: str,
    task: Task,
    test: pd.DataFrame | None = None,
    test_size: float | None = None,
    points: pd.DataFrame | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
    seed: int = 0,
) -> Prepared:
    """The database, the test set and the points to value, from one to three tables.

    - The test set is the `test` table, or a share `test_size` of the table's rows, stratified for
      classification. Without either there is no test set; use cross-fitting then.
    - The points to value are the rows of the `points` table, or else of the database. Only the
      table with the points to value needs the id and group columns.
    - Numbers are scaled and text is one-hot encoded, both fitted on the database. Missing numbers
      become the median; missing text becomes a category of its own.
    - Text columns that are nearly all different, such as names and notes, are left out
      (`dshapley.data.encoding.NEAR_UNIQUE`).
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
        raise InputError(
            "no column is left to learn from besides the target: add columns or drop fewer"
        )
    _check_named(features, table)
    for name, part in tables.items():
        _same_columns(part, table, features, name=name)
        check_cells(part, features)
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
        raise InputError(
            f"the target {target!r} is {labels.tolist()[0]!r} in every row: name a target with "
            "different values"
        )
    if task == "regression" and not is_number(labels):
        raise InputError(
            f"the target {target!r} holds text, but regression needs numbers: name a numeric "
            "target, or use --task classification"
        )

    base, held_out = table, test
    if test is None and test_size is not None:
        stratify = task == "classification"
        kept, tested = set_aside(labels.to_numpy(), test_size, stratify=stratify, seed=seed)
        base, held_out = table.iloc[kept], table.iloc[tested]
    valued = base if points is None else points
    encode, used, notices = encoder(base, features)
    notices += [note for name, part in tables.items() for note in _missing(part, used, name=name)]

    def encoded(part: pd.DataFrame) -> Points:
        ids = part[id_column] if id_column in part.columns else part.index
        return Points(encode(part), part[target], ids)

    if test is None and held_out is not None and points is None:
        notices.append(
            f"{len(held_out):,} rows are set aside as test rows and get no value; leave out "
            "--test-size to value every row"
        )
    groups = None if group_column is None else names_of(valued[group_column], name="groups")
    rows = valued[[target, *used]] if groups is None else None
    database = encoded(base)
    return Prepared(
        database=database,
        test=None if held_out is None else encoded(held_out),
        points=database if points is None else encoded(points),
        groups=groups,
        notices=notices,
        rows=rows,
    )


def check_distinct(ids: Array, column: str) -> None:
    """Raise an InputError if an id names several rows, whose values could not be told apart."""
    names, counts = np.unique(ids, return_counts=True)
    if len(names) < len(ids):
        name, n = names[np.argmax(counts)], counts.max()
        raise InputError(
            f"--id {column}: {str(name)!r} names {n} rows; use --group {column} to value rows with "
            "the same name together"
        )


def check_target(table: pd.DataFrame, target: str, *, name: str) -> pd.Series[Any]:
    """The target column; raises an InputError if it cannot be predicted or has gaps."""
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
    """The table with labels, ids and groups converted to plain numbers or text.

    This happens before the split, so that labels have the same type in the database and the test
    set. Groups are converted only in the table with the points to value (`valued`), and only its
    ids must be complete.
    """
    plain = {target: _labels(part[target], target, name=name)}
    for word, column in (("id", id_column), ("group", group_column)):
        if column is not None and column in part.columns and (valued or word == "id"):
            cells = part[column]
            called = f"the {word} column {column!r} of the {name}"
            if kind_of(cells) == "bytes":
                raise InputError(f"{called} holds bytes, which cannot be names: convert it to text")
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
            raise InputError(
                f"the {name} lacks the column {column!r} that the first table has: add it, or "
                f"leave it out with --drop {column!r}"
            )
        here, there = part[column], table[column]
        if not is_number(there) or not here.notna().any():
            continue
        kinds = [_NUMERIC.get(kind_of(each), "text") for each in (there, here)]
        if kinds[1] == "text":
            cells = here.dropna()
            bad = next((value for value in cells if _is_text(value)), cells.iloc[0])
            raise InputError(
                f"the column {column!r} holds {kinds[0]} in the first table but {bad!r} in the "
                f"{name}: make both {kinds[0]}"
            )
        if kinds[0] != kinds[1] and there.notna().any():
            raise InputError(
                f"the column {column!r} holds {kinds[0]} in the first table but {kinds[1]} in the "
                f"{name}: make both the same"
            )


def _is_text(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return True
    return False


def _check_named(features: list[str], table: pd.DataFrame) -> None:
    for column in features:
        if "\0" in str(column):
            raise InputError(f"the column name {column!r} has a NUL character: rename the column")
        if _UNNAMED.fullmatch(str(column)):
            place = list(table.columns).index(column) + 1
            raise InputError(
                f"column {place} of the table has no name: name it in the file, or leave it out "
                f"with --drop {column!r}"
            )


def _check_infinite(part: pd.DataFrame, features: list[str], *, name: str) -> None:
    for column in features:
        if part[column].dtype.kind in "fO" and is_number(part[column]):
            largest = np.nanmax(np.abs(floats(part[column])), initial=0)
            if np.isinf(largest):
                raise InputError(
                    f"the {name} has an infinite value in column {column!r}: replace it, or leave "
                    f"the column out with --drop {column!r}"
                )
            if largest > _LARGEST:
                raise InputError(
                    f"the {name} has a number above {_LARGEST} in column {column!r}, too large to "
                    "scale: divide the column by a constant"
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
        + "): with the median for numbers, as a category of its own for text"
    ]
