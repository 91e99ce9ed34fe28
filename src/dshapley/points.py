"""Points: rows with labels. A database of points is its own empirical distribution."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Array", "Bundles", "Floats", "Points", "Table", "as_points", "players_of"]

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Table: TypeAlias = "Array | pd.DataFrame"


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
        labels = None if y is None else _labels(y)
        if labels is not None and len(labels) != n:
            raise InputError(f"X has {n} rows but y has {len(labels)}: give one label for each row")
        if ids is None:
            ids = X.index if _is_frame(X) else np.arange(n)
        names = _names(ids)
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
                rows = pd.util.hash_pandas_object(self.X, index=False)
            except TypeError:  # cells that cannot be hashed, such as lists
                rows = pd.util.hash_pandas_object(self.X.map(repr), index=False)
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
        names = _labels(groups, name="groups")
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
        except (TypeError, ValueError) as error:
            raise InputError(
                f"X is an array of objects that are not numbers ({error}); "
                "give a data frame, and a pipeline that encodes its columns"
            ) from None
    # A view that cannot be written to: estimators that work in place must not change points.
    array = array.view()
    array.flags.writeable = False
    return array


def _labels(y: Any, *, name: str = "y") -> Array:
    if hasattr(y, "isna"):
        missing = np.flatnonzero(np.asarray(y.isna())).tolist()
        labels = np.asarray(y)
    else:
        # By way of objects: numpy would make the text "nan" of a gap between texts.
        labels = y if hasattr(y, "dtype") else np.array(y, dtype=object)
        missing = [i for i, label in enumerate(labels.flat) if _is_missing(label)]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"{name} must have one dimension, not {labels.ndim}")
    if missing:
        raise InputError(
            f"{name} is missing in {len(missing)} of {len(labels)} rows (the first is row "
            f"{missing[0]}); drop those rows"
        )
    if labels.dtype == object:
        if len({isinstance(label, str) for label in labels}) > 1:
            raise InputError(f"{name} mixes strings and other types")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError(f"{name} is infinite in row {int(np.flatnonzero(np.isinf(labels))[0])}")
    return labels


def _names(ids: Any) -> Array:
    # Ids are written to disk as plain arrays, and a plain array of objects would need pickle.
    names = np.asarray(ids)
    if names.ndim != 1:
        raise InputError("ids must have one dimension")
    return np.array([str(name) for name in names]) if names.dtype == object else names


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
    if array.dtype.kind == "U":  # the room kept for longer texts is no part of the data
        digest.update(repr(array.tolist()).encode())
        return
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
