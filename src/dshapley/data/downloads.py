"""Get public data from the folder `$DSHAPLEY_DATA`, from a cache, or from the publisher.

Each data set has a SHA-256 digest of its content, which is checked on every use.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.points import Array
from dshapley.data.tables import read_table
from dshapley.errors import InputError, warn
from dshapley.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SOURCES", "Source", "arrays", "digest", "frame"]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_PUC_RIO = "http://groupware.les.inf.puc-rio.br/static/har/dataset-har-PUC-Rio-ugulino.zip"
_SECONDS = 60  # timeout of a download without an answer


@dataclass(frozen=True)
class Source:
    """The digest that the content of a data set must have, and how to get the data."""

    digest: str
    fetch: Callable[[], pd.DataFrame] | None = None
    recipe: str = ""
    """How the file was made, for a data set that cannot be downloaded."""


def frame(name: str) -> pd.DataFrame:
    """The table `name` from `$DSHAPLEY_DATA` or the cache; else it is downloaded and cached."""
    source, file = SOURCES[name], f"{name}.parquet"
    found = _found(file)
    if found is not None:
        table = read_table(found)
        _check(table, source, str(found))
        return table
    if source.fetch is None:
        raise InputError(_absent(file, source))
    table = _downloaded(name, source.fetch)
    _check(table, source, f"{name} as downloaded")
    _keep(table, _cache() / file)
    return table


def arrays(name: str) -> dict[str, Array]:
    """The arrays `name` from `$DSHAPLEY_DATA` or the cache."""
    source, file = SOURCES[name], f"{name}.npz"
    found = _found(file)
    if found is None:
        raise InputError(_absent(file, source))
    try:
        with np.load(found, allow_pickle=False) as stored:
            parts = {key: stored[key] for key in ("X", "y", "split")}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{found} cannot be read as arrays X, y and split: {error}") from None
    _check(parts, source, str(found))
    return parts


def digest(columns: Mapping[str, Any] | pd.DataFrame) -> str:
    """The SHA-256 of the names and values of the columns, in order, whatever their dtypes.

    Numbers are hashed as float64 and everything else as text, so int8 and int64 give the same
    digest, and so do categories and strings.

    >>> import pandas as pd
    >>> small = pd.DataFrame({"n": pd.Series([1, 2], dtype="int8"), "t": ["b", "a"]})
    >>> digest(small) == digest(small.astype({"n": float, "t": "category"}))
    True
    >>> digest(small) == digest(small[::-1])
    False
    """
    import pandas as pd

    total = hashlib.sha256()
    for name, column in columns.items():
        if column.dtype.kind in "iufb":
            # Zero and NaN have several bit patterns each; make each of them one.
            values = np.asarray(column, dtype="<f8") + 0.0
            values[np.isnan(values)] = np.nan
            parts = [b"number", values.tobytes()]
        else:
            found, distinct = pd.factorize(column)  # a gap is -1
            texts, place = np.unique([str(value) for value in distinct], return_inverse=True)
            codes = np.append(place, -1)[found]
            parts = [b"text", "\0".join(texts).encode(), codes.astype("<i4").tobytes()]
        for part in [str(name).encode(), *parts]:
            total.update(len(part).to_bytes(8, "little"))
            total.update(part)
    return total.hexdigest()


def _found(file: str) -> Path | None:
    """The file in the folder `$DSHAPLEY_DATA`, else in the cache, else None."""
    folders = [_cache()]
    if named := os.environ.get("DSHAPLEY_DATA"):
        if not Path(named).is_dir():
            raise InputError(f"DSHAPLEY_DATA = {named!r}: there is no such folder; set it to one")
        folders.insert(0, Path(named))
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def _cache() -> Path:
    above = os.environ.get("XDG_CACHE_HOME")
    return (Path(above) if above else Path.home() / ".cache") / "dshapley"


def _absent(file: str, source: Source) -> str:
    return (
        f"{file} cannot be downloaded: put it in a folder and set DSHAPLEY_DATA to that folder. "
        f"{source.recipe}"
    )


def _check(content: Mapping[str, Any] | pd.DataFrame, source: Source, what: str) -> None:
    found = digest(content)
    if found != source.digest:
        raise InputError(
            f"{what}: the content has the digest {found[:12]}, not {source.digest[:12]} as the "
            "data of the published results; remove or replace the file, or, if the publisher has "
            "changed it, put an earlier copy in the folder of DSHAPLEY_DATA"
        )


def _downloaded(name: str, fetch: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    try:
        return fetch()
    except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
        reason = f"{name} cannot be downloaded ({_line(error)}): try again later"
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        reason = f"the download of {name} cannot be read ({_line(error)}): try again later"
    raise InputError(f"{reason}, or put {name}.parquet in the folder of DSHAPLEY_DATA")


def _line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _keep(table: pd.DataFrame, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file: table.to_parquet(file, index=False))
    except OSError as error:  # only the cache fails; the table itself is complete
        warn(f"{path} cannot be written ({_line(error)}), so the next use downloads it again")


def _bytes(url: str) -> io.BytesIO:
    from urllib.request import urlopen

    with urlopen(url, timeout=_SECONDS) as answer:
        return io.BytesIO(answer.read())


def _member(url: str, ending: str) -> io.BytesIO:
    """The first file in a zip archive whose name ends with `ending`."""
    with zipfile.ZipFile(_bytes(url)) as archive:
        name = next((n for n in archive.namelist() if n.endswith(ending)), None)
        if name is None:
            raise KeyError(f"no {ending} in the archive")
        return io.BytesIO(archive.read(name))


def _compact(table: pd.DataFrame) -> pd.DataFrame:
    """The table in small dtypes: the smallest integers that fit, float32, and categories."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, column in table.items():
        if column.dtype.kind in "iu":
            columns[str(name)] = pd.to_numeric(column, downcast="integer")
        else:
            columns[str(name)] = column.astype(
                "float32" if column.dtype.kind == "f" else "category"
            )
    return pd.DataFrame(columns).reset_index(drop=True)


def _codes(column: pd.Series[Any], names: list[str]) -> pd.Series[Any]:
    """The positions of the values in `names`; a ValueError for a value that is not in `names`."""
    codes = column.map({name: code for code, name in enumerate(names)})
    if codes.isna().any():
        raise ValueError(
            f"{column[codes.isna()].iloc[0]!r} in column {column.name} is not one of {names}"
        )
    return codes.astype("int64")


_ADULT = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week",
    "native_country", "income",
]  # fmt: skip


def _adult() -> pd.DataFrame:
    import pandas as pd

    parts = {}
    for split, file in (("train", "adult.data"), ("test", "adult.test")):
        part = pd.read_csv(
            _bytes(f"{_UCI}/adult/{file}"),
            names=_ADULT,
            skiprows=int(split == "test"),  # the first line of adult.test is a comment
            skipinitialspace=True,
            keep_default_na=False,
        )
        parts[split] = part.assign(split=split)
    table = pd.concat(parts.values())
    # The labels of adult.test end in a full stop.
    table["income"] = _codes(table["income"].str.rstrip("."), ["<=50K", ">50K"])
    return _compact(table)


def _covertype() -> pd.DataFrame:
    import pandas as pd
    from sklearn.datasets import fetch_covtype

    with tempfile.TemporaryDirectory() as folder:  # do not keep scikit-learn's own copy
        X, y = fetch_covtype(data_home=folder, return_X_y=True)
    names = [
        "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology",
        "Vertical_Distance_To_Hydrology", "Horizontal_Distance_To_Roadways", "Hillshade_9am",
        "Hillshade_Noon", "Hillshade_3pm", "Horizontal_Distance_To_Fire_Points",
        *[f"Wilderness_Area{i}" for i in range(1, 5)],
        *[f"Soil_Type{i}" for i in range(1, 41)],
    ]  # fmt: skip
    table = pd.DataFrame(np.asarray(X).astype("int32"), columns=names)
    table["Cover_Type"] = np.asarray(y).astype("int32")
    return _compact(table)


def _diabetes130() -> pd.DataFrame:
    import pandas as pd

    file = _member(f"{_UCI}/00296/dataset_diabetes.zip", "diabetic_data.csv")
    # "?" (unknown) and "None" (not measured) are two categories, not gaps.
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    for name in table.columns:
        if name.endswith(("_id", "_nbr", "_procedures")) or name.startswith(("num", "time_")):
            table[name] = table[name].astype("int64")
    table["readmitted"] = _codes(table["readmitted"], ["NO", ">30", "<30"])
    return _compact(table)


def _pucrio_har() -> pd.DataFrame:
    import pandas as pd

    table = pd.read_csv(_member(_PUC_RIO, ".csv"), sep=";", decimal=",", dtype={"z4": str})
    # One record has a timestamp in its z4 by mistake; leave it out.
    z4 = pd.to_numeric(table["z4"], errors="coerce")
    table = table.assign(z4=z4)[z4.notna()].astype({"z4": "int64"})
    names = ["sitting", "sittingdown", "standing", "standingup", "walking"]
    table["class"] = _codes(table["class"], names)
    return _compact(table)


def _sensorless_drive() -> pd.DataFrame:
    import pandas as pd

    # numpy parses to the nearest double; the fast parser of pandas may be off by the last bit.
    rows = np.loadtxt(_bytes(f"{_UCI}/00325/Sensorless_drive_diagnosis.txt"), ndmin=2)
    table = pd.DataFrame(rows[:, :48], columns=[f"f{i:02}" for i in range(1, 49)])
    return _compact(table.assign(**{"class": rows[:, 48].astype("int64")}))


SOURCES = {
    "adult": Source("ec2dc9d4e5d988efde6030563a17ea27ca9c547b60b1ae5146e1330d7d81727b", _adult),
    "covertype": Source(
        "cbdc2b25d518ea9dd27183bd887943304cfafc3149646ae82729a3feab5ccee0", _covertype
    ),
    "diabetes130": Source(
        "f25aaaba668a144f1b972d1c2a14e6aa102eb2369185f95d9a522f07805f3a48", _diabetes130
    ),
    "pucrio_har": Source(
        "faf61a8f2171ce8ae9a82ade258cbc17bf2dccf8043008c6ef87333d4651684a", _pucrio_har
    ),
    "sensorless_drive": Source(
        "4db2b03f8f8060dbe99d09ae89a635ab917d9f00b659c3f1ba13c7bde990ee85", _sensorless_drive
    ),
    "physionet2012": Source(
        "806f38c2cc44616e2b3ef486a05c88276bab8a466f772d922ca8cc10b7b013a2",
        recipe="It was made of sets a and b of the PhysioNet/CinC Challenge 2012 as summarised "
        "in data/ of the GitHub repository alistairewj/challenge2012 (see docs/datasets.md).",
    ),
    "cifar10_resnet50": Source(
        "f1087539354c47ac92a4f1eff71b45fa36a27c1fa8146ac7eb85db586345629b",
        recipe="It holds X (60,000 x 256), y and split: CIFAR-10 images enlarged to 224 pixels, "
        "the pooled outputs of an ImageNet ResNet-50, and of these the first 256 principal "
        "components (see docs/datasets.md).",
    ),
}
"""The digest of each data set, and how to get it, by name."""
