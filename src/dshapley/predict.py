"""A run's rows, read again from its tables; and the values of rows that were never run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dshapley.api import sampled
from dshapley.errors import InputError
from dshapley.interpolation import Prediction
from dshapley.points import Bundles, Points
from dshapley.store import load
from dshapley.tables import Prepared, prepare, read_table
from dshapley.valuation import Valuation, estimate

__all__ = ["predicted", "valued_rows"]


def predicted(
    folder: Path, table: Path, *, source: Path | None = None
) -> tuple[Valuation, Prediction]:
    """The valuation of a run made by `dshapley value`, and its prediction for another table.

    The folder holds no features: they are read again from the tables named in its manifest
    (`source` instead of the first), encoded as they were, and compared with the fingerprint.
    """
    draws = load(folder)
    about = draws.about
    if "table" in about and about.get("group") is not None:
        raise InputError(f"{folder} holds values of bundles, which say nothing of single rows")
    measured = valued_rows(folder, about, source=source, hint="name it with --source TABLE")
    assert isinstance(measured, Points)
    valuation = estimate(draws, points=measured)
    base = source or Path(about["table"])
    return valuation, valuation.predict(_prepared(about, base, table).points)


def valued_rows(
    folder: Path, about: Mapping[str, Any], *, source: Path | None = None, hint: str = "put it back"
) -> Points | Bundles:
    """The rows or bundles that a run of `dshapley value` valued, encoded as they were."""
    if "table" not in about or "target" not in about:
        raise InputError(f"{folder} was not made by dshapley value: it names no table")
    base = source or Path(about["table"])
    if not base.exists():
        raise InputError(f"{base}, the table of {folder}, is gone: {hint}")
    prepared = _prepared(about, base, about["points_table"])
    Z: Points | Bundles = prepared.points
    if prepared.groups is not None:
        Z = Bundles(prepared.points, prepared.groups)
    elif about["p"] != 1:
        Z = prepared.points.take(sampled(prepared.points, about["p"], about["seed"]))
    if Z.fingerprint() != about["points"]:
        raise InputError(f"{base} is not what it was when {folder} was made: its rows differ")
    return Z


def _prepared(about: Mapping[str, Any], base: Path, points: str | Path | None) -> Prepared:
    """The tables of a run, with other points to value."""
    test, names = about["test_table"], [about["id"], about["group"]]
    return prepare(
        read_table(base, text=names),
        target=about["target"],
        task=about["task"],
        test=None if test is None else read_table(test, text=names),
        test_size=about["test_size"],
        points=None if points is None else read_table(points, text=names),
        id_column=about["id"],
        group_column=about["group"],
        drop=about["drop"],
        seed=about["seed"],
    )
