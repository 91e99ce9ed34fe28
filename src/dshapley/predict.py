"""The values of rows that were never run, from a run folder and the tables it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dshapley.api import sampled
from dshapley.errors import InputError
from dshapley.interpolation import Prediction
from dshapley.points import Points
from dshapley.store import load
from dshapley.tables import prepare, read_table
from dshapley.valuation import Valuation, estimate

__all__ = ["predicted"]


def predicted(
    folder: Path, table: Path, *, source: Path | None = None
) -> tuple[Valuation, Prediction]:
    """The valuation of a run made by `dshapley value`, and its prediction for another table.

    The folder holds no features: they are read again from the tables named in its manifest
    (`source` instead of the first), encoded as they were, and compared with the fingerprint.
    """
    draws = load(folder)
    about = draws.about
    if "table" not in about or "target" not in about:
        raise InputError(f"{folder} was not made by dshapley value: use Valuation.predict")
    if about.get("group") is not None:
        raise InputError(f"{folder} holds values of bundles, which say nothing of single rows")
    base = Path(about["table"]) if source is None else source
    if not base.exists():
        raise InputError(f"{base}, the table of this run, is gone: name it with --source TABLE")
    measured, new = (_points(about, base, other) for other in (about["points_table"], table))
    if about["p"] != 1:
        measured = measured.take(sampled(measured, about["p"], about["seed"]))
    if measured.fingerprint() != about["points"]:
        raise InputError(f"{base} is not what it was when {folder} was made: its rows differ")
    valuation = estimate(draws, points=measured)
    return valuation, valuation.predict(new)


def _points(about: Any, base: Path, other: str | Path | None) -> Points:
    """Rows of another table, or of the run's own, encoded as the run's were."""
    test = about["test_table"]
    return prepare(
        read_table(base),
        target=about["target"],
        task=about["task"],
        test=None if test is None else read_table(test),
        test_size=about["test_size"],
        points=None if other is None else read_table(other),
        id_column=about["id"],
        drop=about["drop"],
        seed=about["seed"],
    ).points
