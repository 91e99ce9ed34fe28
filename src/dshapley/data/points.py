"""Points: rows with labels. A database of points is its own empirical distribution."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import cached_property
from numbers import Number, Real
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Array",
    "Bundles",
    "Floats",
    "Points",
    "Table",
    "as_points",
    "kind_of",
    "labels_of",
    "names_of",
    "players_of",
    "row_digests",
]

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Table: TypeAlias = "Array | pd.DataFrame"

# What a cell is called in an error. The first match counts: a datetime is also a date.
_CELLS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "text"),
    ((bool, np.bool_), "truth values"),
    ((datetime.timedelta, np.timedelta64), "durations"),
    ((Real, Decimal), "numbers"),
    (Number, "complex numbers"),
    ((datetime.date, np.datetime64), "dates"),
    (datetime.time, "times of day"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((list, set, frozenset, np.ndarray), "lists"),
    (dict, "structs"),
)
_DTYPES = {
    "U": "text",
    "T": "text",
    "b": "truth values",
    "i": "numbers",
    "u": "numbers",
    "f": "numbers",
    "c": "complex numbers",
    "m": "durations",
    "M": "dates",
    "S": "bytes",
    "V": "structs",
}
# Types whose text is the same in every process and tells their values apart.
_NAMES = (
    str,
    bytes,
    Number,
    np.generic,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    UUID,
    Enum,
    PurePath,
)


@dataclass(frozen=True, eq=False, init=False)
class Points:
    """Rows `X` with labels `y`: a training set S, a database B, the points Z to value, a test set.

    Parameters
    ----------
    X
        A two-dimensional array or a data frame. A data frame is kept as it is, so that a
        pipeline that picks columns by name finds them.
    y
        One label or number a row. None for unlabelled points (mean estimation).
    ids
        One name a row, for reports; the index of a data frame by default, else 0, 1, 2, ...

    Examples
    --------
    >>> import numpy as np
    >>> points = Points(np.arange(6.0).reshape(3, 2), ["a", "b", "a"])
    >>> len(points), points.take([0, 0, 2]).y.tolist()
    (3, ['a', 'a', 'a'])
    >>> len(points + points.take([1]))
    4
    """

    X: Table
    y: Array | None
    ids: Array
    source: tuple[Points, Array] | None = field(repr=False)
    """Where rows were taken from: points that were not taken themselves, and places in them.

    For tables that learners keep. Not pickled: a few rows must not bring all of a database along.
    """

    def __init__(self, X: Any, y: Any = None, ids: Any = None) -> None:
        table = _table(X)
        n = len(table)
        labels = None if y is None else labels_of(y, name="y")
        if labels is not None and len(labels) != n:
            raise InputError(f"X has {n} rows but y has {len(labels)}: give one label for each row")
        if ids is None:
            ids = X.index if _is_frame(X) else np.arange(n)
        names = names_of(ids, name="ids", gaps=True)
        if len(names) != n:
            raise InputError(f"X has {n} rows but there are {len(names)} ids: give one id for each")
        self._set(table, labels, names, None)

    def _set(
        self, X: Table, y: Array | None, ids: Array, source: tuple[Points, Array] | None
    ) -> None:
        for name, part in (("X", X), ("y", y), ("ids", ids), ("source", source)):
            object.__setattr__(self, name, part)

    @classmethod
    def _trusted(
        cls, X: Table, y: Array | None, ids: Array, source: tuple[Points, Array] | None = None
    ) -> Points:
        """Points from parts of points: already checked, and made by the thousand."""
        points = object.__new__(cls)
        points._set(X, y, ids, source)
        return points

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None, "key": self.key}

    def __len__(self) -> int:
        return len(self.X)

    def __iter__(self) -> Iterator[Points]:
        """Each point as a set of one."""
        return (self.take(slice(i, i + 1)) for i in range(len(self)))

    def __add__(self, other: Points) -> Points:
        """The rows of both, repeats kept: S + z."""
        if not isinstance(other, Points):
            return NotImplemented
        if (self.y is None) != (other.y is None):
            raise InputError("labelled and unlabelled points cannot be joined")
        y = None if self.y is None or other.y is None else np.concatenate([self.y, other.y])
        return Points._trusted(_stack(self.X, other.X), y, _stack_names(self.ids, other.ids))

    def take(self, index: Sequence[int] | Array | slice) -> Points:
        """The rows at `index`, in that order; an index may repeat. Or those of a mask."""
        where = index if isinstance(index, slice) else _positions(index, len(self))
        X = self.X[where] if isinstance(self.X, np.ndarray) else self.X.iloc[where]
        y = None if self.y is None else self.y[where]
        return Points._trusted(X, y, self.ids[where], self._taken(where))

    def _taken(self, where: Array | slice) -> tuple[Points, Array]:
        if self.source is not None:
            return self.source[0], self.source[1][where]
        if isinstance(where, slice):
            return self, np.arange(*where.indices(len(self)))
        return self, where % max(len(self), 1)  # a place may be counted from the end

    def sample(self, n: int, rng: np.random.Generator) -> Points:
        """`n` independent rows, with replacement: a draw from the empirical distribution."""
        return self.take(rng.integers(len(self), size=n))

    @property
    def columns(self) -> list[str]:
        """A name for each column of X."""
        if isinstance(self.X, np.ndarray):
            return [str(j) for j in range(self.X.shape[1])]
        return [str(name) for name in self.X.columns]

    @cached_property
    def key(self) -> str:
        """The fingerprint, made once: it is pickled too, for tables that workers keep."""
        return self.fingerprint()

    def fingerprint(self) -> str:
        """A digest of X and y: equal data, equal fingerprint (ids are names and do not count)."""
        digest = hashlib.blake2b(digest_size=12)
        if isinstance(self.X, np.ndarray):
            _digest_array(digest, self.X)
        else:
            import pandas as pd

            digest.update(repr([(str(c), str(t)) for c, t in self.X.dtypes.items()]).encode())
            try:
                rows = pd.util.hash_pandas_object(_identified(self.X), index=False)
            except (TypeError, ValueError, NotImplementedError):  # pandas' own types of lists
                rows = pd.util.hash_pandas_object(_identified(self.X.astype(object)), index=False)
            digest.update(rows.to_numpy().tobytes())
        if self.y is not None:
            _digest_array(digest, self.y)
        return f"{digest.hexdigest()} ({len(self)} rows)"


@dataclass(frozen=True, eq=False, init=False)
class Bundles:
    """Sets of rows, each valued as one: a seller's bundle, the visits of a patient.

    Iterating yields each bundle as `Points`, in the sorted order of `ids`, the group names.

    >>> import numpy as np
    >>> bundles = Bundles(Points(np.zeros((3, 1)), [0, 1, 1]), ["ann", "bob", "ann"])
    >>> bundles.ids.tolist(), bundles.sizes.tolist()
    (['ann', 'bob'], [2, 1])
    """

    points: Points
    groups: Array

    def __init__(self, points: Points, groups: Any) -> None:
        names = names_of(groups, name="groups")
        if len(names) != len(points):
            raise InputError(
                f"there are {len(points)} points but {len(names)} groups: "
                "give one group name for each point"
            )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "groups", names)

    @property
    def ids(self) -> Array:
        """The group names, sorted."""
        return np.unique(self.groups)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each bundle has."""
        return np.unique(self.groups, return_counts=True)[1]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Points]:
        return (self.points.take(places) for places in self.members())

    def members(self) -> list[Array]:
        """The places of each bundle's rows in `points`."""
        order, ends = np.argsort(self.groups, kind="stable"), np.cumsum(self.sizes)
        return [order[end - n : end] for n, end in zip(self.sizes, ends, strict=True)]

    def fingerprint(self) -> str:
        """A digest of the points and their grouping."""
        digest = hashlib.blake2b(self.points.fingerprint().encode(), digest_size=12)
        _digest_array(digest, self.groups)
        return f"{digest.hexdigest()} ({len(self)} bundles of {len(self.points)} rows)"


def names_digest(ids: Array) -> str:
    """A digest of the names of points: values belong to names, and those may not change."""
    digest = hashlib.blake2b(digest_size=12)
    _digest_array(digest, ids)
    return digest.hexdigest()


def players_of(points: Points | Bundles) -> tuple[Points, list[Array]]:
    """All rows, and the places of those of each player: of each point, or of each bundle."""
    if isinstance(points, Bundles):
        return points.points, points.members()
    return points, list(np.arange(len(points))[:, np.newaxis])


def as_points(data: Points | tuple[Any, Any], *, name: str) -> Points:
    """`data` as Points; `name` says in an error which argument was at fault."""
    try:
        if isinstance(data, Points):
            points = data
        elif isinstance(data, tuple) and len(data) == 2:
            points = Points(*data)
        else:
            raise InputError(f"expected Points or a pair (X, y), got {type(data).__name__}")
        if len(points) == 0:
            raise InputError("there are no rows")
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return points


def _table(X: Any) -> Table:
    if _is_frame(X):
        if X.columns.has_duplicates:
            twice = X.columns[X.columns.duplicated()][0]
            raise InputError(f"two columns are called {twice!r}: rename one")
        frame: pd.DataFrame = X
        return frame
    if hasattr(X, "tocsr"):
        raise InputError("X is a sparse matrix; make it dense with X.toarray() first")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"X is not a table of equally long rows: {error}") from None
    if array.ndim != 2:
        raise InputError(
            f"X must have two dimensions (rows and columns), not {array.ndim}; "
            "a single column is X.reshape(-1, 1)"
        )
    if array.dtype == object:
        try:
            array = array.astype(float)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"X is an array of objects that are not numbers ({error}); "
                "give a data frame, and a pipeline that encodes its columns"
            ) from None
    # A view that cannot be written to: estimators that work in place must not change points.
    array = array.view()
    array.flags.writeable = False
    return array


def labels_of(y: Any, *, name: str) -> Array:
    """Labels as a plain array of numbers, truth values or text; errors call them `name`.

    >>> from decimal import Decimal
    >>> labels_of([Decimal("1.50"), Decimal("2.00")], name="y").tolist()
    [1.5, 2.0]
    """
    labels = _one_column(y, name=name)
    kind = kind_of(labels)
    if kind == "mixed":
        raise InputError(f"{name} mixes strings and other types: make all of them text")
    if kind == "text":
        labels = _as_text(labels.tolist(), name=name)
    elif kind not in ("numbers", "truth values", "nothing"):
        raise InputError(f"{name} holds {kind}, which cannot be predicted: give numbers or text")
    elif labels.dtype == object:
        labels = _as_numbers(labels, name=name)
    if labels.dtype == np.float16:  # sums of these would overflow
        labels = labels.astype(float)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError(f"{name} is infinite in row {int(np.flatnonzero(np.isinf(labels))[0])}")
    return labels


def names_of(values: Any, *, name: str, gaps: bool = False) -> Array:
    """Names, such as ids or groups, as an array of integers or of text; errors call them `name`.

    All but integers become text, because every file takes text and text is known by its content.
    With `gaps`, a name that is missing is the text of the gap, such as nan.

    >>> import datetime
    >>> names_of([datetime.date(2024, 5, 31)], name="ids").tolist()
    ['2024-05-31']
    """
    names = _one_column(values, name=name, gaps=gaps)
    if names.dtype.kind in "iu":
        return names
    if names.dtype == object:
        if not gaps and kind_of(names) == "mixed":
            raise InputError(f"{name} mixes strings and other types: make all of them text")
        if len(names) and all(_is_integer(value) for value in names):
            whole = np.array(names.tolist())
            if whole.dtype.kind in "iu":
                return whole
    for value in names if names.dtype.kind in "OV" else ():
        if not _has_a_name(value):
            raise InputError(
                f"{name} holds {_kind_of_cell(value)}, which cannot be names: give numbers or text"
            )
    # Pandas writes a date in the same way whatever unit it is kept in. Numpy does not.
    dates = names.dtype.kind in "Mm" and hasattr(values, "isna")
    texts = [str(value) for value in (values if dates else names)]
    if not gaps and names.dtype == object and len(set(names)) != len(set(texts)):
        raise InputError(f"{name} holds equal values that are written differently: give text")
    return _as_text(texts, name=name)


def kind_of(column: Any) -> str:
    """What an array or a column holds, in a word or two: text, numbers, dates, lists, ...

    It is "mixed" where only some cells are text, and "nothing" where all are missing.

    >>> kind_of(np.array([[1], None], dtype=object)), kind_of(np.zeros(2))
    ('lists', 'numbers')
    """
    kind = column.dtype.kind
    if kind != "O":
        return _DTYPES.get(kind, "objects")
    one_of_each = {type(value): value for value in column if not _is_missing(value)}
    kinds = {_kind_of_cell(value) for value in one_of_each.values()}
    if len(kinds) > 1 and "text" in kinds:
        return "mixed"
    if kinds <= {"numbers", "truth values"} and len(kinds) == 2:
        return "numbers"
    return min(kinds - {"numbers"} or kinds, default="nothing")


def _kind_of_cell(value: Any) -> str:
    known = (word for types, word in _CELLS if isinstance(value, types))
    return next(known, f"objects of type {type(value).__name__}")


def _one_column(values: Any, *, name: str, gaps: bool = False) -> Array:
    """Labels or names in one dimension; with `gaps`, some may be missing."""
    try:
        # By way of objects: numpy would make the text "nan" of a gap between texts.
        column = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    except ValueError:
        raise InputError(f"{name} holds lists: give one number or text for each row") from None
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(f"{name} must have one dimension, not {column.ndim}")
    if gaps:
        return column
    if hasattr(values, "isna"):
        missing = np.flatnonzero(np.asarray(values.isna())).tolist()
    else:
        missing = [i for i, label in enumerate(column) if _is_missing(label)]
    if missing:
        raise InputError(
            f"{name} is missing in {len(missing)} of {len(column)} rows (the first is row "
            f"{missing[0]}); drop those rows"
        )
    return column


def _as_text(texts: Iterable[str], *, name: str) -> Array:
    array = np.array(list(texts), dtype=str)
    if any(short != text for short, text in zip(array.tolist(), texts, strict=True)):
        raise InputError(f"{name} has text that ends with a NUL character: remove it")
    return array


def _as_numbers(labels: Array, *, name: str) -> Array:
    """Objects that are numbers as integers if they fit, else as floats that tell them apart."""
    if all(_is_integer(label) or isinstance(label, bool | np.bool_) for label in labels):
        whole = np.array(labels.tolist())
        if whole.dtype.kind in "biu" or not len(whole):
            return whole
    floats: dict[float, Any] = {}
    for label in labels:
        try:
            first = floats.setdefault(float(label), label)
        except OverflowError:
            raise InputError(f"{name} holds numbers too large for 64-bit floats") from None
        if first != label:
            raise InputError(
                f"{name} holds {first} and {label}, which are the same 64-bit float: scale these "
                "numbers, or give text"
            )
    return np.array([float(label) for label in labels])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def _has_a_name(value: Any) -> bool:
    """Whether the text of this value is the same in every process."""
    if isinstance(value, tuple):
        return all(_has_a_name(part) for part in value)
    own = type(value).__module__.partition(".")[0] == "pandas"  # periods, intervals and gaps
    return value is None or own or isinstance(value, _NAMES)


def _identified(X: pd.DataFrame) -> pd.DataFrame:
    """The same table for hashing, with words in place of objects that are not text.

    Pandas hashes such objects by `str`, which for some is a memory address.
    """
    found = X.copy(deep=False)
    for place, (name, column) in enumerate(X.items()):
        cells = column.cat.categories if column.dtype.name == "category" else column
        if cells.dtype == object and kind_of(cells) not in ("text", "nothing"):
            found.isetitem(place, [_word(value, str(name)) for value in column])
    return found


def _word(value: Any, column: str) -> str:
    kind = type(value).__name__
    if _has_a_name(value):
        return f"{kind} {value!r}"
    import joblib

    try:
        return f"{kind} {joblib.hash(value)}"
    except Exception:  # whatever pickling a stranger's object may raise
        raise InputError(
            f"the column {column!r} holds objects of type {kind}, which cannot be told apart by "
            "their content: give numbers or text"
        ) from None


def _stack_names(first: Array, second: Array) -> Array:
    if first.dtype.kind != second.dtype.kind:
        first, second = first.astype(str), second.astype(str)
    return np.concatenate([first, second])


def _positions(index: Any, n: int) -> Array:
    where = np.asarray(index)
    if where.dtype == bool:
        if where.shape != (n,):
            raise InputError(f"a mask for {n} points has {n} entries, not {where.shape}")
        return np.flatnonzero(where)
    if where.size and where.dtype.kind not in "iu":
        raise InputError(f"points are taken by whole numbers or a mask, not by {where.dtype}")
    return where.astype(np.intp)


def _is_missing(label: Any) -> bool:
    if isinstance(label, float | np.floating):
        return bool(np.isnan(label))
    if isinstance(label, Decimal):
        return label.is_nan()
    if isinstance(label, np.datetime64 | np.timedelta64):
        return bool(np.isnat(label))
    return label is None or type(label).__name__ in ("NAType", "NaTType")  # pandas' own gaps


def _is_frame(X: Any) -> bool:
    # By shape, not by isinstance: importing pandas costs as much as all the rest of dshapley.
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _stack(first: Table, second: Table) -> Table:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.shape[1] != second.shape[1]:
            raise InputError(
                f"points of {first.shape[1]} and of {second.shape[1]} columns cannot be joined"
            )
        return np.concatenate([first, second])
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        raise InputError("an array and a data frame cannot be joined: give both in one kind")
    if list(first.columns) != list(second.columns):
        raise InputError("data frames of other columns cannot be joined")
    import pandas as pd

    return pd.concat([first, second])


def _digest_array(digest: hashlib.blake2b, array: Array) -> None:
    kind, size = array.dtype.kind, array.dtype.itemsize
    # The room kept for longer texts is not part of the data, nor is the padding of long doubles.
    if kind in "UT" or (kind in "fc" and size > (8 if kind == "f" else 16)):
        digest.update(repr(array.tolist()).encode())
        return
    if kind in "OV":  # their bytes may be memory addresses
        raise InputError(f"an array of {array.dtype} cannot be identified: give numbers or text")
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def row_digests(points: Points) -> NDArray[np.uint64]:
    """A number for each row, the same for equal rows of whatever types."""
    import pandas as pd

    frame = pd.DataFrame(points.X)
    columns = {j: _comparable(frame.iloc[:, j]) for j in range(frame.shape[1])}
    y = np.zeros(len(points)) if points.y is None else points.y
    columns[-1] = _comparable(pd.Series(y)).astype(object)
    found = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False)
    return np.asarray(found, dtype=np.uint64)


def _comparable(column: pd.Series[Any]) -> Array:
    """Numbers as floats, whatever holds them; all else as text."""
    import pandas as pd

    numbers = pd.to_numeric(column.astype(object), errors="coerce").astype(float)
    if (numbers.isna() == column.isna()).all():
        return numbers.to_numpy() + 0.0  # -0.0 is 0.0
    return column.astype(str).to_numpy()
