"""Values in one file: `Valuation.save` and `Valuation.load`.

The file is NumPy's `.npz` with a digest. It holds JSON for what is said in words and arrays for
the rest, never pickle. Values that keep their draws are written as these draws and are estimated
again when they are read; what was written beside them must agree. Anyone can compute the digest,
so everything is checked. `save` makes the checks of `load` before it writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dshapley.data.points import Array, Points
from dshapley.errors import InputError, is_whole
from dshapley.inference.completed import CompletedValuation, joined
from dshapley.inference.interpolation import Prediction
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.sampling.draws import Draws
from dshapley.sampling.draws_file import (
    are_names,
    draws_of,
    exact,
    fingerprint_of,
    names,
    parts_of,
    plain_about,
    same_names,
)
from dshapley.sampling.provenance import About
from dshapley.sealed import (
    ERRORS,
    FINITE,
    DamagedError,
    Part,
    check_part_names,
    check_parts,
    check_place,
    one_line,
    part_of_text,
    read_sealed,
    reading,
    text_of,
    within,
    write_sealed,
    writing,
)

__all__ = ["load", "save"]

_KEY = b"dshapley values 1"
"""What the file says it is; another format has another key."""
_THEN = "give a file that Valuation.save wrote"
_SAME = 1e-6
"""A value may differ from the one written by this share of the largest: another machine's sums."""
_MOST = 2**53
"""Larger whole numbers are not exact as floats."""
_LEAST_FREEDOM = 0.1
"""Estimates have a third of a degree of freedom or more; far below, quantiles are not numbers."""

_NAMES = Part(None, "whole numbers or text in Unicode", are_names)
_VALUES = {
    "values": FINITE,
    "stderr": ERRORS,
    "ids": _NAMES,
    "rows": Part(np.int64, "1 or more", lambda part: part >= 1),
}
_PREDICTED = {"predicted": Part(np.bool_, "truth values", lambda part: True)}
_PREDICTION = {
    "values": FINITE,
    "stderr": ERRORS,
    "ids": _NAMES,
    "inherited": Part(np.float64, "0 to 1", lambda part: (part >= 0) & (part <= 1 + _SAME)),
    "covariance": FINITE,
    "shape": Part(
        np.float64,
        "ascending from 0",
        lambda part: np.isfinite(part) & (np.diff(part, prepend=0.0) >= 0),
        own_length=True,
    ),
}


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    """What the file says in words and numbers."""

    kind: Literal["plain", "sampled", "completed"]
    m: Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
    n_draws: Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
    freedom: Annotated[float, msgspec.Meta(ge=_LEAST_FREEDOM)] | None
    """None for infinitely many degrees, which JSON has no number for."""
    points: str | None = None
    """The fingerprint of the points, where they were known."""
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
    check_place(path)
    try:
        arrays = _written(valuation)
        saved = _Saved.of(arrays)
        wrong = saved.differing(saved.valuation())
        if wrong:
            raise ValueError(f"their {wrong} do not follow from their draws: estimate them again")
    except (DamagedError, ValueError) as error:
        reason = error.reason if isinstance(error, DamagedError) else str(error)
        raise InputError(f"these values cannot be saved: {one_line(reason)}") from None
    with writing(path):
        write_sealed(path, arrays, _KEY)


def load(path: str | Path, *, points: Points | None = None) -> Valuation:
    """The values that `save` wrote; the points' rows are not in the file."""
    path = Path(path)
    with reading(path, then=_THEN):
        saved = _Saved.of(read_sealed(path, _KEY))
    if points is not None:
        saved.check_points(points)
    with reading(path, then=_THEN):
        found = saved.valuation(points)
        wrong = saved.differing(found)
    if wrong:
        raise InputError(
            f"{one_line(str(path))} has draws whose {wrong} are not those written beside them: "
            "another version of dshapley made it, so load it with that version, or estimate the "
            "draws again"
        )
    return found


# -- From values to arrays


def _written(valuation: Valuation) -> dict[str, Array]:
    """All arrays of the file."""
    m, n_draws, freedom = valuation.m, valuation.n_draws, float(valuation.freedom)
    if not is_whole(m, least=1, most=_MOST) or not is_whole(n_draws, least=0, most=_MOST):
        raise ValueError(f"m = {m} and n_draws = {n_draws} must be whole numbers from 1 and from 0")
    if not freedom >= _LEAST_FREEDOM:
        raise ValueError(f"freedom = {freedom}: it must be {_LEAST_FREEDOM} or more")
    text = _Text(
        kind="plain",
        m=int(m),
        n_draws=int(n_draws),
        freedom=None if math.isinf(freedom) else freedom,
        points=None if valuation.points is None else valuation.points.fingerprint(),
    )
    arrays = {
        "values": exact("values", valuation.values, np.float64),
        "stderr": exact("stderr", valuation.stderr, np.float64),
        "ids": names(valuation.ids),
        "rows": exact("rows", valuation.rows, np.int64),
    }
    measured = valuation.measured
    if isinstance(measured, SampledValuation):
        text.kind = "sampled"
        arrays |= _written_draws(text, measured)
    if isinstance(valuation, CompletedValuation):
        text.kind = "completed"
        arrays["predicted"] = np.asarray(valuation.predicted)
        for name in _PREDICTION:
            part = getattr(valuation.prediction, name)
            written = names(part) if name == "ids" else exact(name, part, np.float64)
            arrays[f"prediction.{name}"] = written
    arrays["text"] = part_of_text(text)
    return arrays


def _written_draws(text: _Text, measured: SampledValuation) -> dict[str, Array]:
    draws, how = measured.draws, measured.terms
    text.within_bands, text.control_variates = how.within_bands, how.controlled
    text.of_draws = measured.alone is None
    text.columns = list(draws.columns())
    text.identity, text.context = plain_about(draws)
    return {f"draws.{name}": part for name, part in parts_of(draws).items()}


# -- From arrays to values


@dataclass(frozen=True, kw_only=True)
class _Saved:
    """The checked contents of a file."""

    text: _Text
    own: dict[str, Array]
    prediction: dict[str, Array]
    draws: Draws | None

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> _Saved:
        """The contents, or a `DamagedError` or ValueError."""
        of_draws, prediction = within(arrays, "draws."), within(arrays, "prediction.")
        own = {n: arrays[n] for n in arrays if not n.startswith(("draws.", "prediction."))}
        text: _Text = text_of(own.pop("text", np.empty(0)), _Text)
        completed = text.kind == "completed"
        n = own["values"].size if "values" in own else 0
        check_parts(own, _VALUES | (_PREDICTED if completed else {}), n)
        predicted = own.get("predicted", np.zeros(n, dtype=bool))
        check_parts(
            prediction, _PREDICTION if completed else {}, int(predicted.sum()), prefix="prediction."
        )
        draws = None
        if text.kind == "plain":
            check_part_names(of_draws, (), prefix="draws.")
        else:
            draws = draws_of(of_draws, text.columns, About.read(text.identity, text.context))
            ids, rows = own["ids"], own["rows"]
            if not (
                same_names(ids[~predicted], draws.ids)
                and np.array_equal(rows[~predicted], draws.rows)
                and same_names(ids[predicted], prediction.get("ids", ids[:0]))
                and not (completed and (rows != 1).any())
            ):
                raise DamagedError("'ids' or 'rows' are not those of the draws and the prediction")
        return _Saved(text=text, own=own, prediction=prediction, draws=draws)

    def valuation(self, points: Points | None = None) -> Valuation:
        """The values, estimated from the draws if there are any."""
        text, own = self.text, self.own
        if self.draws is None:
            return Valuation(
                **{name: own[name] for name in _VALUES},
                m=text.m,
                n_draws=text.n_draws,
                points=points,
                freedom=self._freedom,
            )
        with np.errstate(all="ignore"):  # what overflows is not equal to what was written
            found = estimate(
                self.draws,
                m=text.m,
                within_bands=text.within_bands,
                control_variates=text.control_variates,
                points=None if points is None else self._measured(points),
            )
        found = found.of_draws if text.of_draws else found
        if text.kind == "sampled":
            return found
        prediction = Prediction(**self.prediction)
        if not found.unseen and np.isnan(prediction.stderr).any():
            raise DamagedError("'prediction.stderr' is NaN although the draws show the errors")
        where, ids = own["predicted"], own["ids"]
        return joined(found, prediction, predicted=where, ids=ids, points=points)

    def differing(self, found: Valuation) -> str:
        """What is not as it was written, since another method would be a silent change."""
        if found.n_draws != self.text.n_draws:
            return "n_draws"
        written = {**self.own, "freedom": np.array(self._freedom)}
        for name in ("values", "stderr", "freedom"):
            old, new = written[name], np.asarray(getattr(found, name))
            largest = float(np.max(np.abs(old), initial=0.0, where=np.isfinite(old)))
            if not np.allclose(old, new, rtol=_SAME, atol=_SAME * largest, equal_nan=True):
                return name
        return ""

    def check_points(self, points: Points) -> None:
        """Refuse other points than those of the values, whose answers would be wrong."""
        if not isinstance(points, Points):
            raise InputError(f"points: give ds.Points, not {type(points).__name__}")
        of_run = None if self.draws is None else fingerprint_of(self.draws)
        if (self.own["rows"] != 1).any() or "bundles" in (of_run or ""):
            raise InputError("points: these values are of bundles: load them without points")
        same_ids = same_names(points.ids, self.own["ids"])
        if not (
            same_ids
            and self.text.points in (None, points.fingerprint())
            and of_run in (None, self._measured(points).fingerprint())
        ):
            raise InputError(
                "points: they are not the points of these values (their "
                f"{'rows' if same_ids else 'ids'} differ): give those that were valued, unchanged "
                "and in the same order"
            )

    @property
    def _freedom(self) -> float:
        return math.inf if self.text.freedom is None else self.text.freedom

    def _measured(self, points: Points) -> Points:
        predicted = self.own.get("predicted")
        return points if predicted is None else points.take(~predicted)
