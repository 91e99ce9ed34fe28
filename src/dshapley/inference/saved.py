"""Values in one file: `Valuation.save` and `Valuation.load`.

The file is NumPy's `.npz` with a digest. It holds JSON for what is said in words and arrays for
the rest, never pickle. Values that keep their draws are written as these draws and are estimated
again when they are read; what was written beside them must agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from dshapley.data.points import Array, Points
from dshapley.documents import valid
from dshapley.errors import InputError
from dshapley.inference.completed import CompletedValuation, joined
from dshapley.inference.interpolation import Prediction
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.sampling.draws import Draws
from dshapley.sampling.draws_file import HEADER, check_columns, check_header, empty_run, header_of
from dshapley.sampling.provenance import About
from dshapley.sealed import BadFileError, read_sealed, write_sealed

__all__ = ["load", "save"]

_KEY = b"dshapley values 1"
"""What the file says it is; another format has another key."""
_VALUES = ("values", "stderr", "ids", "rows")
_PREDICTION = ("values", "stderr", "ids", "inherited", "covariance", "shape")
_SAME = 1e-6
"""A value may differ from the one written by this share of the largest: another machine's sums."""


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    """What the file says in words and numbers."""

    kind: Literal["plain", "sampled", "completed"]
    m: int
    n_draws: int
    freedom: float | None
    """None for infinitely many degrees, which JSON has no number for."""
    within_bands: bool = False
    control_variates: bool = False
    of_draws: bool = False
    """Whether the errors leave out the spread between folds."""
    columns: list[str] = []
    """The names of the columns of the draws."""
    identity: dict[str, Any] = {}
    context: dict[str, Any] = {}


def save(valuation: Valuation, path: str | Path) -> None:
    """Write the values to one file, whole or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: {path.parent} is not a folder")
    text = _Text(
        kind="plain",
        m=int(valuation.m),
        n_draws=valuation.n_draws,
        freedom=None if np.isinf(valuation.freedom) else float(valuation.freedom),
    )
    arrays = {name: _storable(getattr(valuation, name)) for name in _VALUES}
    measured = valuation.measured
    if isinstance(measured, SampledValuation):
        text.kind = "sampled"
        _add_draws(text, arrays, measured)
    if isinstance(valuation, CompletedValuation):
        text.kind = "completed"
        arrays["predicted"] = valuation.predicted
        for name in _PREDICTION:
            arrays[f"prediction.{name}"] = _storable(getattr(valuation.prediction, name))
    arrays["text"] = np.frombuffer(msgspec.json.encode(text), np.uint8)
    write_sealed(path, arrays, _KEY)


def _add_draws(text: _Text, arrays: dict[str, Array], measured: SampledValuation) -> None:
    draws, how = measured.draws, measured.terms
    text.within_bands, text.control_variates = how.within_bands, how.controlled
    text.of_draws = measured.alone is None
    text.columns = list(draws.columns())
    text.identity = _plain(asdict(draws.about.identity))
    text.context = _plain(asdict(draws.about.context))
    for name, array in (header_of(draws) | draws.columns()).items():
        arrays[f"draws.{name}"] = _storable(array)


def load(path: str | Path, *, points: Points | None = None) -> Valuation:
    """The values that `save` wrote; the points' rows are not in the file."""
    path = Path(path)
    try:
        arrays = read_sealed(path, _KEY)
        text: _Text = valid(json.loads(arrays["text"].tobytes()), _Text)
        found = _valuation(text, arrays, points)
        _check(found, arrays)
    except BadFileError as error:
        raise InputError(f"{path} {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error})") from None
    return found


def _valuation(text: _Text, arrays: Mapping[str, Array], points: Points | None) -> Valuation:
    if text.kind == "plain":
        return Valuation(
            **{name: arrays[name] for name in _VALUES},
            m=text.m,
            n_draws=text.n_draws,
            points=_matching(points, arrays["ids"]),
            freedom=np.inf if text.freedom is None else text.freedom,
        )
    measured = estimate(
        _draws(text, arrays),
        m=text.m,
        within_bands=text.within_bands,
        control_variates=text.control_variates,
        points=_matching(points, arrays["ids"]) if text.kind == "sampled" else None,
    )
    if text.of_draws:
        measured = measured.of_draws
    if text.kind == "sampled":
        return measured
    prediction = Prediction(**{name: arrays[f"prediction.{name}"] for name in _PREDICTION})
    predicted, known = arrays["predicted"], _matching(points, arrays["ids"])
    if known is not None:
        measured = replace(measured, points=known.take(~predicted))
    return joined(measured, prediction, predicted=predicted, ids=arrays["ids"], points=known)


def _draws(text: _Text, arrays: Mapping[str, Array]) -> Draws:
    header = {name: arrays[f"draws.{name}"] for name in HEADER}
    check_header(header)
    run = empty_run(header, About.read(text.identity, text.context))
    columns = {name: arrays[f"draws.{name}"] for name in text.columns}
    if set(text.columns) != set(run.columns()):
        raise BadFileError("is damaged (its draws have other columns)")
    check_columns(columns, run)
    return run.of(columns)


def _check(found: Valuation, arrays: Mapping[str, Array]) -> None:
    """Refuse values that are not what was written: another method would be a silent change."""
    for name in ("values", "stderr"):
        old, new = arrays[name], getattr(found, name)
        largest = float(np.max(np.abs(old), initial=0.0, where=np.isfinite(old)))
        if old.shape != new.shape or not np.allclose(
            old, new, rtol=_SAME, atol=_SAME * largest, equal_nan=True
        ):
            raise BadFileError(
                f"has draws whose {name} are not those written beside them: another version of "
                "dshapley made it, so load it with that version, or estimate the draws again"
            )


def _matching(points: Points | None, ids: Array) -> Points | None:
    if points is not None and not np.array_equal(points.ids, ids):
        raise InputError("points: they are not the points of these values (their ids differ)")
    return points


def _storable(array: Array) -> Array:
    """Names of type object would need pickle; they are text."""
    array = np.asarray(array)
    return array.astype(str) if array.dtype == object else array


def _plain(mapping: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(mapping), default=str))
    return found
