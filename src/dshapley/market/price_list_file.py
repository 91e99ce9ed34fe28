"""A price list: its rows, its terms, a checksum over both, and the folder that it is kept in.

    prices.csv, prices.parquet    id, m, rows, value and price with their intervals
    terms.json                    what the prices depend on, totals, and the checksum

A list has no features and no labels, unless the seller adds columns of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from dshapley.documents import FormatError, Plain, read_document
from dshapley.errors import InputError
from dshapley.files import write_atomically, write_csv
from dshapley.notebooks import NotebookDisplay

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "PriceList", "load_prices", "with_checksum"]

COLUMNS = (
    "id", "m", "rows", "value", "stderr", "low", "high", "price", "price_low", "price_high",
)  # fmt: skip
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class PriceList(NotebookDisplay):
    """The price of each point or bundle on offer, for one or more data set sizes of buyers.

    Attributes
    ----------
    frame
        One row for each id and m: `id` (as text), `m`, `rows` (more than 1 for a bundle), `value`
        with `stderr`, `low` and `high`, and `price` with `price_low` and `price_high`.
    terms
        The contents of terms.json: the potential, the size and digest of the seller's database,
        draws, seed, the rule of pricing, the totals for each m, and the checksum.
    """

    frame: pd.DataFrame
    terms: Mapping[str, Any]

    def __len__(self) -> int:
        """The number of points or bundles on offer."""
        return int(self.terms["offered"])

    @property
    def checksum(self) -> str:
        """The SHA-256 of rows and terms. It is not a signature: verify it over another channel."""
        return str(self.terms["checksum"])

    @property
    def totals(self) -> pd.DataFrame:
        """One row for each m: the rate, the total value and the total price, with intervals."""
        import pandas as pd

        return pd.DataFrame(self.terms["totals"]).set_index("m")

    def at(self, m: int) -> pd.DataFrame:
        """The rows for buyers with data sets of size m, indexed by id."""
        if m not in self.terms["m"]:
            sizes = ", ".join(map(str, self.terms["m"]))
            raise InputError(f"m = {m}: the list has prices for m = {sizes} only")
        return self.frame[self.frame["m"] == m].set_index("id")

    def save(self, folder: str | Path) -> None:
        """Write prices.csv, prices.parquet and terms.json, each whole or not at all."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: name a folder")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "terms.json").exists():
            raise InputError(f"{folder} is not empty and holds no price list: name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        frame, text = self.frame, json.dumps(self.terms, indent=1, allow_nan=False) + "\n"
        write_csv(frame, folder / "prices.csv")
        write_atomically(folder / "prices.parquet", lambda f: frame.to_parquet(f, index=False))
        # Written last: without terms.json, a list that was only partly saved is refused.
        write_atomically(folder / "terms.json", lambda f: f.write(text.encode()))


def with_checksum(frame: pd.DataFrame, terms: Mapping[str, Any]) -> PriceList:
    """The price list of these rows and terms, with its checksum."""
    # The checksum is computed from the terms as they will be read back from JSON.
    kept = json.loads(json.dumps({"format": _FORMAT, **terms}, default=lambda n: n.item()))
    return PriceList(frame, {**kept, "checksum": _checksum(frame, kept)})


def load_prices(folder: str | Path) -> PriceList:
    """Read a price list from its folder; a list that was changed since it was made is refused."""
    folder = Path(folder)
    terms = _terms(folder / "terms.json")
    frames = [
        (folder / name, read(folder / name))
        for name, read in (("prices.csv", _from_csv), ("prices.parquet", _from_parquet))
        if (folder / name).exists()
    ]
    if not frames:
        raise InputError(
            f"{folder} has terms.json but no prices.csv or prices.parquet: ask the seller for them"
        )
    for path, frame in frames:
        _check_rows(frame, path, terms)
        if _checksum(frame, terms) != terms["checksum"]:
            raise InputError(
                f"{path} or its terms.json was changed since the list was made: its checksum does "
                "not match; ask the seller for the list again"
            )
    return PriceList(frames[0][1], terms)


class _Total(msgspec.Struct):
    """The total value and price of all points, for one m."""

    m: Annotated[int, msgspec.Meta(ge=1)]
    extrapolated: bool
    draws: int
    errors: str
    rate: float
    rate_low: float
    rate_high: float
    value: float
    stderr: float | None
    low: float | None
    high: float | None
    price: float
    price_low: float | None
    price_high: float | None
    raised: int
    raised_by: float
    largest_error: float | None
    error_of_differences: float | None
    reliability: Annotated[float, msgspec.Meta(ge=0, le=1)] | None


class _Pricing(msgspec.Struct):
    rate: float | None
    budget: float | None
    floor: float | None
    rule: str


class _Terms(msgspec.Struct):
    """The schema of terms.json."""

    format: int
    checksum: str
    dshapley: str
    method: str
    potential: dict[str, Plain]
    metric: Plain
    empty: Plain
    model: str | None
    target: str | None
    task: str | None
    m: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]
    offered: Annotated[int, msgspec.Meta(ge=1)]
    confidence: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    pricing: _Pricing
    totals: list[_Total]
    test_labels: str | None = None


def _terms(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        raise InputError(f"{path.parent} holds no price list (no terms.json)")
    try:
        terms = read_document(path, _Terms, format_number=_FORMAT)
        if [total["m"] for total in terms["totals"]] != terms["m"]:
            raise ValueError("the totals and the prices are for different m")
    except FormatError as error:
        raise InputError(f"{path} has {error}; this dshapley reads {_FORMAT}") from None
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({error}): ask the seller for the list again"
        ) from None
    return terms


def _from_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_csv(
            io.BytesIO(path.read_bytes()), dtype=str, keep_default_na=False, na_values=[]
        )
        return _typed(frame)
    except (ValueError, OverflowError, OSError) as error:
        raise _unreadable(path, error) from None


def _from_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return _typed(pd.read_parquet(io.BytesIO(path.read_bytes())))
    except Exception as error:  # a damaged Parquet file can raise nearly any exception
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return InputError(f"{path} cannot be read as a price list: {reason}")


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns with their types: text for ids and details, else integers or floats."""
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        if name not in frame.columns:
            raise ValueError(f"the column {name!r} is missing")
    for name in map(str, frame.columns):
        column = frame[name]
        if name in ("m", "rows"):
            columns[name] = column.astype("int64")
        elif name in COLUMNS[3:]:
            # Python's float is exact; pandas' own parser is sometimes wrong in the last digit.
            cells = [math.nan if cell == "" else float(cell) for cell in column]
            columns[name] = np.array(cells, dtype=np.float64)
        else:
            gaps = column.isna()
            texts = ["" if gap else str(cell) for cell, gap in zip(column, gaps, strict=True)]
            columns[name] = np.array(texts, dtype=object)
    return type(frame)(columns)


def _check_rows(frame: pd.DataFrame, path: Path, terms: Mapping[str, Any]) -> None:
    """Refuse missing or repeated ids, and prices that do not match the terms."""
    unnamed = np.flatnonzero(frame["id"] == "")
    if len(unnamed):
        raise InputError(f"{path}: the id is missing in row {unnamed[0]}")
    twice = frame.duplicated(["id", "m"])
    if twice.any():
        row = frame[twice].iloc[0]
        raise InputError(f"{path}: the id {row['id']!r} occurs twice for m = {row['m']}")
    sizes = set(frame["m"].tolist())
    if sizes != set(terms["m"]):
        raise InputError(f"{path}: the prices are for different m than terms.json says")
    for m in sizes:
        n = int((frame["m"] == m).sum())
        if n != terms["offered"]:
            raise InputError(
                f"{path}: {n} ids have a price for m = {m}, but {terms['offered']} are on offer"
            )


def _checksum(frame: pd.DataFrame, terms: Mapping[str, Any]) -> str:
    """The SHA-256 of rows and terms, equal for rows from CSV and from Parquet."""
    names = [str(name) for name in frame.columns]
    cells = [frame[name].tolist() for name in names]
    rows = [[_spelled(cell) for cell in row] for row in zip(*cells, strict=True)]
    rest = {name: value for name, value in terms.items() if name != "checksum"}
    text = json.dumps(
        {"columns": names, "rows": rows, "terms": rest}, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _spelled(cell: Any) -> Any:
    return "nan" if isinstance(cell, float) and math.isnan(cell) else cell
