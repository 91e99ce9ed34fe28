"""Points (rows with labels) and bundles of points.

The module also converts labels, ids and group names from any source to plain arrays, and makes
fingerprints that identify the data of a run.
"""

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

# The words for cells in errors. The first match counts: a bool is also a Real, for example.
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
# Types whose text is the same in every process and differs between different values.
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
    """Rows `X` with labels `y`, such as a set S, the database, the points to value or a test set.

    Parameters
    ----------
    X
        A two-dimensional array or a data frame. A data frame is kept as it is, so that a pipeline
        can select its columns by name.
    y
        One label or number for each row. None for unlabelled points (mean estimation).
    ids
        One name for each row, for reports. The default is the index of a data frame, or 0, 1, 2,
        ... for an array.

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
    """The points that these rows were taken from, and the positions of the rows in them.

    The first are original points, not taken from others themselves. Learners look up cached tables
    with it. It is not pickled, because a few rows would carry the whole database along.
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
        """Points made of parts that are already checked; a run makes thousands of them."""
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
        """The rows of both, such as S + z; repeated rows are kept."""
        if not isinstance(other, Points):
            return NotImplemented
        if (self.y is None) != (other.y is None):
            raise InputError(
                "labelled and unlabelled points cannot be joined: give y for both or for neither"
            )
        y = None if self.y is None or other.y is None else np.concatenate([self.y, other.y])
        return Points._trusted(_stack(self.X, other.X), y, _stack_names(self.ids, other.ids))

    def take(self, index: Sequence[int] | Array | slice) -> Points:
        """The rows at the positions `index`, in that order and with repeats, or those of a mask."""
        where = index if isinstance(index, slice) else _positions(index, len(self))
        X = self.X[where] if isinstance(self.X, np.ndarray) else self.X.iloc[where]
        y = None if self.y is None else self.y[where]
        return Points._trusted(X, y, self.ids[where], self._taken(where))

    def _taken(self, where: Array | slice) -> tuple[Points, Array]:
        if self.source is not None:
            return self.source[0], self.source[1][where]
        if isinstance(where, slice):
            return self, np.arange(*where.indices(len(self)))
        return self, where % max(len(self), 1)  # a negative position counts from the end

    def sample(self, n: int, rng: np.random.Generator) -> Points:
        """`n` independent rows drawn with replacement: a sample of the empirical distribution."""
        return self.take(rng.integers(len(self), size=n))

    @property
    def columns(self) -> list[str]:
        """The names of the columns of X; for an array the numbers 0, 1, 2, ... as text."""
        if isinstance(self.X, np.ndarray):
            return [str(j) for j in range(self.X.shape[1])]
        return [str(name) for name in self.X.columns]

    @cached_property
    def key(self) -> str:
        """The fingerprint, computed once; it is pickled, because workers cache tables by it."""
        return self.fingerprint()

    def fingerprint(self) -> str:
        """A digest of X and y, the same for equal data; ids do not change it."""
        digest = hashlib.blake2b(digest_size=12)
        if isinstance(self.X, np.ndarray):
            _digest_array(digest, self.X)
        else:
            import pandas as pd

            digest.update(repr([(str(c), str(t)) for c, t in self.X.dtypes.items()]).encode())
            try:
                rows = pd.util.hash_pandas_object(_identified(self.X), index=False)
            except (TypeError, ValueError, NotImplementedError):  # for example columns of lists
                rows = pd.util.hash_pandas_object(_identified(self.X.astype(object)), index=False)
            digest.update(rows.to_numpy().tobytes())
        if self.y is not None:
            _digest_array(digest, self.y)
        return f"{digest.hexdigest()} ({len(self)} rows)"


@dataclass(frozen=True, eq=False, init=False)
class Bundles:
    """Sets of rows that are each valued as one point, such as the visits of a patient.

    Iterating yields each bundle as `Points`, in the order of `ids`, the sorted group names.

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
        """The number of rows of each bundle."""
        return np.unique(self.groups, return_counts=True)[1]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Points]:
        return (self.points.take(places) for places in self.members())

    def members(self) -> list[Array]:
        """The positions in `points` of the rows of each bundle."""
        order, ends = np.argsort(self.groups, kind="stable"), np.cumsum(self.sizes)
        return [order[end - n : end] for n, end in zip(self.sizes, ends, strict=True)]

    def fingerprint(self) -> str:
        """A digest of the points and their grouping."""
        digest = hashlib.blake2b(self.points.fingerprint().encode(), digest_size=12)
        _digest_array(digest, self.groups)
        return f"{digest.hexdigest()} ({len(self)} bundles of {len(self.points)} rows)"


def names_digest(ids: Array) -> str:
    """A digest of the ids of points: a run's values belong to ids, so they must not change."""
    digest = hashlib.blake2b(digest_size=12)
    _digest_array(digest, ids)
    return digest.hexdigest()


def players_of(points: Points | Bundles) -> tuple[Points, list[Array]]:
    """All rows, and for each player (a point or a bundle) the positions of its rows."""
    if isinstance(points, Bundles):
        return points.points, points.members()
    return points, list(np.arange(len(points))[:, np.newaxis])


def as_points(data: Points | tuple[Any, Any], *, name: str) -> Points:
    """`data` as Points; errors call the argument `name`."""
    try:
        if isinstance(data, Points):
            points = data
        elif isinstance(data, tuple) and len(data) == 2:
            points = Points(*data)
        else:
            raise InputError(f"expected Points or a pair (X, y), got {type(data).__name__}")
        if len(points) == 0:
            raise InputError("there are no rows: give at least one")
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
    # A read-only view, so that an estimator that works in place cannot change the points.
    array = array.view()
    array.flags.writeable = False
    return array


def labels_of(y: Any, *, name: str) -> Array:
    """The labels as a plain array of numbers, truth values or text; errors call them `name`.

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
    if labels.dtype == np.float16:  # sums of 16-bit floats would overflow
        labels = labels.astype(float)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError(
            f"{name} is infinite in row {int(np.flatnonzero(np.isinf(labels))[0])}: drop or "
            "correct the row"
        )
    return labels


def names_of(values: Any, *, name: str, gaps: bool = False) -> Array:
    """Ids or group names as an array of integers or of text; errors call them `name`.

    Everything except integers becomes text, which every file format can store. With `gaps`, names
    may be missing; a missing name becomes the text of the gap, such as "nan".

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
    # The text of a pandas date does not depend on its unit; the text of a numpy date does.
    dates = names.dtype.kind in "Mm" and hasattr(values, "isna")
    texts = [str(value) for value in (values if dates else names)]
    if not gaps and names.dtype == object and len(set(names)) != len(set(texts)):
        raise InputError(
            f"{name} holds equal values with different spellings, such as 1 and 1.0: give text"
        )
    return _as_text(texts, name=name)


def kind_of(column: Any) -> str:
    """What an array or a column holds, in a word or two: "text", "numbers", "dates", "lists", ...

    The answer is "mixed" if only some cells are text, and "nothing" if all cells are missing.

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
    """Labels or names as a one-dimensional array; with `gaps`, some may be missing."""
    try:
        # Convert to objects first: numpy would turn a gap among texts into the text "nan".
        column = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    except ValueError:
        raise InputError(f"{name} holds lists: give one number or text for each row") from None
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(
            f"{name} must have one dimension, not {column.ndim}: give one value for each row"
        )
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
    """Python numbers as an array of integers if they fit in 64 bits, else of floats.

    Different numbers that would become the same float raise an InputError.
    """
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
    """Whether `str(value)` is the same in every process and so can serve as a name."""
    if isinstance(value, tuple):
        return all(_has_a_name(part) for part in value)
    own = type(value).__module__.partition(".")[0] == "pandas"  # such as periods and intervals
    return value is None or own or isinstance(value, _NAMES)


def _identified(X: pd.DataFrame) -> pd.DataFrame:
    """The table for hashing, with objects other than text replaced by words for their content.

    Pandas hashes objects by `str`, which for some types contains a memory address.
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
    except Exception:  # pickling a user's object may raise any error
        raise InputError(
            f"the column {column!r} holds objects of type {kind}, which cannot be identified by "
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
    return label is None or type(label).__name__ in ("NAType", "NaTType")  # pd.NA and pd.NaT


def _is_frame(X: Any) -> bool:
    # No isinstance here: importing pandas takes as long as importing the rest of dshapley.
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _stack(first: Table, second: Table) -> Table:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.shape[1] != second.shape[1]:
            raise InputError(
                f"points with {first.shape[1]} and {second.shape[1]} columns cannot be joined: "
                "give both the same columns"
            )
        return np.concatenate([first, second])
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        raise InputError("an array and a data frame cannot be joined: convert one of them")
    if list(first.columns) != list(second.columns):
        raise InputError(
            "data frames with different columns cannot be joined: give both the same columns in "
            "the same order"
        )
    import pandas as pd

    return pd.concat([first, second])


def _digest_array(digest: hashlib.blake2b, array: Array) -> None:
    kind, size = array.dtype.kind, array.dtype.itemsize
    # The width of a text dtype and the padding bytes of long doubles are not part of the data.
    if kind in "UT" or (kind in "fc" and size > (8 if kind == "f" else 16)):
        digest.update(repr(array.tolist()).encode())
        return
    if kind in "OV":  # the bytes of objects may be memory addresses
        raise InputError(f"an array of {array.dtype} cannot be identified: give numbers or text")
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def row_digests(points: Points) -> NDArray[np.uint64]:
    """A hash of each row with its label; equal rows have equal hashes whatever their dtypes."""
    import pandas as pd

    frame = pd.DataFrame(points.X)
    columns = {j: _comparable(frame.iloc[:, j]) for j in range(frame.shape[1])}
    y = np.zeros(len(points)) if points.y is None else points.y
    columns[-1] = _comparable(pd.Series(y)).astype(object)
    found = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False)
    return np.asarray(found, dtype=np.uint64)


def _comparable(column: pd.Series[Any]) -> Array:
    """The column as floats if all its values are numbers, whatever its dtype; else as text."""
    import pandas as pd

    numbers = pd.to_numeric(column.astype(object), errors="coerce").astype(float)
    if (numbers.isna() == column.isna()).all():
        return numbers.to_numpy() + 0.0  # turns -0.0 into 0.0
    return column.astype(str).to_numpy()
