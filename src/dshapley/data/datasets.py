"""Public data sets by name: small ones to start with, and those of the paper's experiments.

`load` divides a data set into a database, a test set and held-out rows, and encodes it. `table`
returns it as published, and `divided` treats your own table as `load` treats public ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.downloads import SOURCES, arrays, frame
from dshapley.data.points import Array, Points
from dshapley.data.tables import prepare
from dshapley.errors import InputError, is_whole, nearest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAMES", "Dataset", "adult_sample", "divided", "load", "table"]

_CIFAR = "cifar10_resnet50"
_ENCODINGS = ("one-hot", "codes")
_MOST_CLASSES = 100


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in three disjoint parts.

    The ids of the points are row numbers of the table, and a label y stands for `classes[y]`.
    """

    name: str
    _: KW_ONLY
    database: Points
    test: Points
    heldout: Points
    classes: tuple[str, ...]
    source: str
    """The citation and the licence."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """How to prepare a public table: its target, its columns and the sizes of its parts."""

    target: str
    classes: tuple[str, ...]
    source: str
    sizes: tuple[float, float, float] = (0.6, 0.2, 0.2)
    """Rows in the database, the test set and the held-out part; below 1 a share of all rows."""
    code: Callable[[Any], Any] = lambda y: y
    """Maps the target's values to positions in `classes`."""
    drop: tuple[str, ...] = ()
    """Columns that are not features."""
    categories: tuple[str, ...] = ()
    """Columns of whole numbers that are categories, not quantities."""


def load(
    name: str,
    *,
    n_database: int | None = None,
    n_test: int | None = None,
    n_heldout: int | None = None,
    seed: int = 0,
    encode: str | None = None,
) -> Dataset:
    """A public data set that is ready to value: a database, a test set and held-out rows.

    Parameters
    ----------
    name
        One of `NAMES`; docs/datasets.md describes them and says where the files are looked for.
    n_database, n_test, n_heldout
        The number of rows of each part, by default as in the paper, where it gives one. With the
        same seed a smaller database is the beginning of a larger one, and the test set does not
        depend on the size of the database.
    seed
        The random seed of the permutation that divides the rows.
    encode
        "one-hot" (the default): numbers are standardised, categories become columns of 0 and 1.
        "codes", for trees: numbers stay as they are, categories become whole numbers. Both are
        fitted on the database; missing numbers become its medians.

    Examples
    --------
    >>> data = load("adult_sample", n_database=1000, n_test=500)
    >>> len(data.database), len(data.test), len(data.heldout), data.classes
    (1000, 500, 400, ('<=50K', '>50K'))
    >>> table("adult_sample")["age"].loc[data.database.ids[:3]].tolist()
    [28, 21, 36]
    """
    _check_name(name)
    _check_seed(seed)
    if encode is not None and encode not in _ENCODINGS:
        raise InputError(f"unknown encoding {encode!r}; {nearest(encode, _ENCODINGS)}")
    sizes = (n_database, n_test, n_heldout)
    rng = np.random.default_rng(seed)
    if name == _CIFAR:
        if encode is not None:
            raise InputError(
                f"{name} holds the outputs of a network, which need no encoding: leave out encode="
            )
        return _images(sizes, rng)
    return _divided(name, table(name), _ENTRIES[name], sizes, rng, encode)


def table(name: str) -> pd.DataFrame:
    """The table as published: its features, the target, and columns such as `user` and `split`.

    >>> table("iris").columns[-1], len(table("iris"))
    ('target', 150)
    """
    _check_name(name)
    if name == _CIFAR:
        raise InputError(f"{name} is not a table but the outputs of a network: use load({name!r})")
    if name == "adult_sample":
        return adult_sample().reset_index(drop=True)
    if name in SOURCES:
        return frame(name)
    import sklearn.datasets

    known: pd.DataFrame = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    return known


def adult_sample() -> pd.DataFrame:
    """2,000 rows of the Adult census table, stratified by the target `income`.

    B. Becker and R. Kohavi (1996), UCI Machine Learning Repository, CC BY 4.0.

    >>> adult_sample()["income"].value_counts().to_dict()
    {'<=50K': 1521, '>50K': 479}
    """
    import pandas as pd

    with resources.as_file(resources.files("dshapley") / "data" / "adult_sample.parquet") as path:
        return pd.read_parquet(path)


def divided(
    rows: pd.DataFrame,
    *,
    target: str,
    name: str = "table",
    n_database: int | None = None,
    n_test: int | None = None,
    n_heldout: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Your own table, divided and encoded as `load` divides and encodes public ones.

    >>> data = divided(adult_sample(), target="income", n_test=300)
    >>> len(data.test), data.classes
    (300, ('<=50K', '>50K'))
    """
    if target not in rows.columns:
        raise InputError(f"the table has no column {target!r}; {nearest(target, rows.columns)}")
    _check_seed(seed)
    gaps = np.flatnonzero(rows[target].isna())
    if len(gaps):
        raise InputError(
            f"the target {target!r} is missing in row {gaps[0]}: drop the rows without a target"
        )
    classes, codes = np.unique(rows[target].astype(str), return_inverse=True)
    if not 2 <= len(classes) <= _MOST_CLASSES:
        raise InputError(
            f"the target {target!r} has {len(classes)} different values: give a column with 2 to "
            f"{_MOST_CLASSES} classes"
        )
    entry = _Entry(
        target=target,
        classes=tuple(classes.tolist()),
        source="a table of one's own",
        code=lambda _: codes,
    )
    rng = np.random.default_rng(seed)
    return _divided(name, rows.copy(), entry, (n_database, n_test, n_heldout), rng, None)


def _divided(
    name: str,
    rows: pd.DataFrame,
    entry: _Entry,
    sizes: tuple[int | None, ...],
    rng: np.random.Generator,
    encode: str | None,
) -> Dataset:
    order = rng.permutation(len(rows))
    # Take the test set from the end, so that it does not depend on the size of the database.
    places = _parts(name, order, order[::-1], sizes, entry.sizes, shared=True)
    rows[entry.target] = np.asarray(entry.code(rows[entry.target])).astype(np.int64)
    rows = rows.astype(dict.fromkeys(entry.categories, "str"))
    encoded = _codes if encode == "codes" else _one_hot
    database, test, heldout = encoded([rows.iloc[place] for place in places], entry)
    return Dataset(
        name,
        database=database,
        test=test,
        heldout=heldout,
        classes=entry.classes,
        source=entry.source,
    )


def _images(sizes: tuple[int | None, ...], rng: np.random.Generator) -> Dataset:
    """CIFAR-10: the database has training images; the test and held-out parts have test images."""
    parts = arrays(_CIFAR)
    order = rng.permutation(len(parts["X"]))
    training = parts["split"][order] == 0
    usual = (50_000, 2_000, 8_000)
    places = _parts(_CIFAR, order[training], order[~training], sizes, usual, shared=False)
    X, y = parts["X"].astype(np.float64), parts["y"].astype(np.int64)
    database, test, heldout = (Points(X[place], y[place], place) for place in places)
    return Dataset(
        _CIFAR,
        database=database,
        test=test,
        heldout=heldout,
        classes=_CIFAR_CLASSES,
        source=_CIFAR_SOURCE,
    )


def _parts(
    name: str,
    first: Array,
    others: Array,
    asked: tuple[int | None, ...],
    usual: tuple[float, float, float],
    *,
    shared: bool,
) -> list[Array]:
    """The positions of the rows of the database, the test set and the held-out part.

    The database is the beginning of `first`; the test set and then the held-out rows are the
    beginning of `others`. If `shared`, both are the same rows in opposite orders.
    """
    for option, size in zip(("n_database", "n_test", "n_heldout"), asked, strict=True):
        least = 0 if option == "n_heldout" else 1
        if size is not None and not is_whole(size, least=least):
            raise InputError(f"{option} = {size!r}: give a whole number of rows, {least} or more")
    database, test, heldout = (
        int(default * len(first)) if default < 1 else int(default) for default in usual
    )
    database = database if asked[0] is None else asked[0]
    test = test if asked[1] is None else asked[1]
    room = len(others) - test - (database if shared else 0)
    heldout = max(0, min(heldout, room)) if asked[2] is None else asked[2]
    if database > len(first) or heldout > room:
        has = f"{len(first):,} rows" + (
            "" if shared else f" for the database and {len(others):,} for testing"
        )
        raise InputError(
            f"{name} has {has}: too few for a database of {database:,}, a test set of {test:,} "
            f"and {heldout:,} held-out rows"
        )
    return [first[:database], others[:test], others[test : test + heldout]]


def _one_hot(parts: list[pd.DataFrame], entry: _Entry) -> list[Points]:
    database, test, heldout = parts
    ready = prepare(
        database,
        target=entry.target,
        task="classification",
        test=test,
        points=heldout if len(heldout) else None,
        drop=entry.drop,
    )
    assert ready.test is not None
    return [ready.database, ready.test, ready.points if len(heldout) else ready.points.take([])]


def _codes(parts: list[pd.DataFrame], entry: _Entry) -> list[Points]:
    """Categories as positions in the sorted categories of the database; -1 for gaps and others."""
    import pandas as pd

    base = parts[0]
    coded: list[dict[str, Any]] = [{} for _ in parts]
    for name in base.columns.drop([entry.target, *entry.drop]):
        number = base[name].dtype.kind in "iufb"
        middle = base[name].median() if number else None
        known = [] if number else sorted(base[name].dropna().astype(str).unique())
        for columns, part in zip(coded, parts, strict=True):
            columns[name] = (
                part[name].astype("float64").fillna(middle)
                if number
                else pd.Index(known).get_indexer(part[name].astype("str"))
            )
    return [
        Points(
            np.column_stack([np.asarray(c, dtype=np.float64) for c in columns.values()]),
            part[entry.target],
            part.index,
        )
        for columns, part in zip(coded, parts, strict=True)
    ]


def _check_seed(seed: int) -> None:
    if not is_whole(seed, least=0):
        raise InputError(f"seed = {seed!r}: a seed is a whole number, 0 or more")


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise InputError(f"unknown data set {name!r}; {nearest(name, NAMES)}")


_INCOME = ("<=50K", ">50K")
_UCI = "UCI Machine Learning Repository, CC BY 4.0"
_LARGE = (0.8, 2_000, 5_000)

_ENTRIES = {
    "adult": _Entry(
        target="income",
        classes=_INCOME,
        source=f"B. Becker, R. Kohavi (1996), Adult, {_UCI}",
        sizes=(40_000, 5_000, 5_000),
        drop=("split",),
    ),
    "adult_sample": _Entry(
        target="income",
        classes=_INCOME,
        source=f"B. Becker, R. Kohavi (1996), Adult, {_UCI}",
        code=lambda y: y == ">50K",
    ),
    "breast_cancer": _Entry(
        target="target",
        classes=("malignant", "benign"),
        source="W. Wolberg, O. Mangasarian, N. Street, W. Street (1995), "
        f"Breast Cancer Wisconsin, {_UCI}",
    ),
    "covertype": _Entry(
        target="Cover_Type",
        classes=(
            "Spruce/Fir",
            "Lodgepole Pine",
            "Ponderosa Pine",
            "Cottonwood/Willow",
            "Aspen",
            "Douglas-fir",
            "Krummholz",
        ),
        source=f"J. A. Blackard, D. J. Dean (1999), Covertype, {_UCI}",
        sizes=_LARGE,
        code=lambda y: y - 1,
    ),
    "diabetes130": _Entry(
        target="readmitted",
        classes=("not readmitted", "readmitted"),
        source=f"B. Strack et al. (2014), Diabetes 130-US Hospitals for Years 1999-2008, {_UCI}",
        sizes=_LARGE,
        code=lambda y: y > 0,
        drop=("encounter_id", "patient_nbr"),
        categories=("admission_type_id", "discharge_disposition_id", "admission_source_id"),
    ),
    "digits": _Entry(
        target="target",
        classes=tuple("0123456789"),
        source=f"E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, {_UCI}",
    ),
    "iris": _Entry(
        target="target",
        classes=("setosa", "versicolor", "virginica"),
        source=f"R. A. Fisher (1936), Iris, {_UCI}",
    ),
    "physionet2012": _Entry(
        target="in_hospital_death",
        classes=("survived", "died in hospital"),
        source="I. Silva et al. (2012), PhysioNet/CinC Challenge 2012, ODC-By 1.0; summarised by "
        "A. E. W. Johnson et al. (2012)",
        sizes=(7_000, 500, 500),
        drop=("recordid", "set"),
    ),
    "pucrio_har": _Entry(
        target="class",
        classes=("sitting", "sittingdown", "standing", "standingup", "walking"),
        source="W. Ugulino et al. (2012), Wearable Computing (PUC-Rio), CC BY-SA",
        sizes=_LARGE,
        drop=("user",),
    ),
    "sensorless_drive": _Entry(
        target="class",
        classes=tuple(f"condition {i}" for i in range(1, 12)),
        source=f"M. Bator (2015), Sensorless Drive Diagnosis, {_UCI}",
        sizes=_LARGE,
        code=lambda y: y - 1,
    ),
    "wine": _Entry(
        target="target",
        classes=("class_0", "class_1", "class_2"),
        source=f"S. Aeberhard, M. Forina (1992), Wine, {_UCI}",
    ),
}

_CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_CIFAR_SOURCE = (
    "A. Krizhevsky (2009), CIFAR-10, free for research; features by an ImageNet ResNet-50 "
    "(K. He et al., 2016)"
)

NAMES = tuple(sorted([*_ENTRIES, _CIFAR]))
"""The names that `load` accepts."""
