"""The record of a run as named arrays for files, and checks of arrays that are read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dshapley.data.points import Array, Points, names_digest, names_of
from dshapley.sampling.draws import NO_FOLD, Draws, Folds
from dshapley.sampling.evidence import UNKNOWN, Evidence
from dshapley.sampling.provenance import About
from dshapley.sampling.sizes import LEAST_WEIGHT
from dshapley.sampling.test_influence import N_GROUPS, TestInfluence
from dshapley.sealed import MODERATE, DamagedError, check_part_names

__all__ = [
    "EVIDENCE",
    "HEADER",
    "OF_TEST",
    "are_names",
    "check_columns",
    "check_header",
    "draws_of",
    "empty_run",
    "evidence_of",
    "evidence_parts",
    "exact",
    "fingerprint_of",
    "header_of",
    "names",
    "parts_of",
    "plain_about",
    "same_names",
    "test_influence_of",
    "test_parts",
]

_MOST_LABEL_CONTROLS = 1000
"""A damaged header could claim more columns than fit into memory."""

_MOST_FOLDS, _FEW_FOLDS = 1000, 20
"""An estimate needs memory for the square of the number of folds, which a file can only claim: it
is at most `_MOST_FOLDS`, and above `_FEW_FOLDS` only with as many draws.
"""

HEADER = (
    "ids",
    "rows",
    "weights",
    "balanced",
    "n_label_controls",
    "n_folds",
    "folds",
    "asked",
    "labels",
    "codes",
    "n_test_groups",
)


def header_of(run: Draws) -> dict[str, Array]:
    """The arrays that all draws of a run share."""
    return {
        "ids": run.ids,
        "rows": run.rows,
        "weights": run.weights,
        "balanced": np.array(run.balanced),
        "n_label_controls": np.array(
            -1 if run.control_variates is None else run.control_variates.label_controls.shape[1]
        ),
        "n_folds": np.array(0 if run.folds is None else run.folds.n),
        "folds": np.empty(0, np.int64) if run.folds is None else run.folds.of,
        "asked": np.array(run.evidence is not None),
        "labels": np.empty(0) if run.evidence is None else run.evidence.labels,
        "codes": np.empty(0, np.int64) if run.evidence is None else run.evidence.codes,
        "n_test_groups": np.array(0 if run.test_influence is None else N_GROUPS),
    }


def check_header(header: Mapping[str, Array]) -> None:
    """Refuse a header that no run can have."""
    ids, folds, n_folds = header["ids"], header["folds"], header["n_folds"]
    n = len(ids) if ids.ndim == 1 else 0
    numbers = all(header[name].shape == () for name in ("balanced", "n_label_controls", "n_folds"))
    fits = {
        "ids": n > 0 and are_names(ids),
        "rows": _is(header["rows"], np.int64, (n,)) and (header["rows"] > 0).all(),
        "weights": _are_weights(header["weights"]),
        "balanced": numbers and header["balanced"].dtype == bool,
        "n_label_controls": numbers
        and header["n_label_controls"].dtype.kind in "iu"
        and -1 <= header["n_label_controls"] <= _MOST_LABEL_CONTROLS,
        "n_folds": numbers and n_folds.dtype.kind in "iu",
        "asked": header["asked"].shape == () and header["asked"].dtype == bool,
        "labels": header["labels"].ndim == 1 and _are_labels(header["labels"]),
        "n_test_groups": header["n_test_groups"].shape == ()
        and header["n_test_groups"].dtype.kind in "iu"
        and header["n_test_groups"] in (0, N_GROUPS),
    }
    fits["codes"] = fits["labels"] and _are_codes(header["codes"], len(header["labels"]), n)
    fits["folds"] = fits["n_folds"] and _are_folds(folds, int(n_folds), n)
    wrong = [name for name, well in fits.items() if not well]
    if wrong:
        raise DamagedError(f"the parts do not fit together: {wrong[0]!r} {_HEADER_IS[wrong[0]]}")


_HEADER_IS = {
    "ids": "must be one or more numbers or texts in Unicode",
    "rows": "must be one whole number (int64) above 0 for each point",
    "weights": "must be probabilities (float64) whose sum is 1",
    "balanced": "must be a truth value",
    "n_label_controls": f"must be a whole number up to {_MOST_LABEL_CONTROLS}",
    "n_folds": "must be a whole number",
    "folds": "must be one fold (int64) for each point, or none without folds",
    "asked": "must be a truth value",
    "labels": "must be numbers or texts in Unicode",
    "codes": "must be the position (int64) of each point's label, or none without labels",
    "n_test_groups": f"must be 0 or {N_GROUPS}",
}


def _are_labels(labels: Array) -> bool:
    return labels.dtype.kind in "fb" or are_names(labels)


def _are_codes(codes: Array, n_labels: int, n_points: int) -> bool:
    """Whether every point has the code of a label, or no point has one if there are no labels."""
    if not _is(codes, np.int64, (n_points if n_labels else 0,)):
        return False
    return bool(((codes >= UNKNOWN) & (codes < n_labels)).all())


def _is(part: Array, dtype: type, shape: tuple[int, ...]) -> bool:
    return part.dtype == dtype and part.shape == shape


def _are_folds(folds: Array, n: int, n_points: int) -> bool:
    """Whether every point has a valid fold, or no point has one if there are no folds."""
    if not _is(folds, np.int64, (n_points if n else 0,)):
        return False
    return n == 0 or (n >= 2 and bool(((folds >= NO_FOLD) & (folds < n)).all()))


def _are_weights(weights: Array) -> bool:
    """Whether these are probabilities that a marginal can be divided by."""
    return bool(
        weights.ndim == 1
        and weights.dtype == np.float64
        and ((weights >= LEAST_WEIGHT) & (weights <= 1 + 1e-6)).all()
        and abs(weights.sum() - 1) < 1e-6
    )


def are_names(ids: Array) -> bool:
    """Whether these are whole numbers, or texts that can be printed and written."""
    if ids.dtype.kind != "U":
        return ids.dtype.kind in "iu"
    if not ids.dtype.isnative:  # its code points would be read in the wrong byte order
        return False
    codes = np.ascontiguousarray(ids).view(np.uint32)
    surrogates = (codes >= 0xD800) & (codes <= 0xDFFF)
    return not bool((surrogates | (codes > 0x10FFFF)).any())


def empty_run(header: Mapping[str, Array], about: About) -> Draws:
    """The empty record of the run that has this header."""
    run = Draws.none(
        Points(np.empty((len(header["ids"]), 0)), ids=header["ids"]),
        weights=header["weights"],
        balanced=bool(header["balanced"]),
        n_label_controls=None
        if header["n_label_controls"] < 0
        else int(header["n_label_controls"]),
        folds=Folds(int(header["n_folds"]), header["folds"]) if header["n_folds"] else None,
        asked=Evidence.none(len(header["ids"]), header["labels"], header["codes"])
        if header["asked"]
        else None,
        about=about,
    )
    of_test = TestInfluence.none(len(header["ids"])) if header["n_test_groups"] else None
    return replace(run, ids=header["ids"], rows=header["rows"], test_influence=of_test)


EVIDENCE = ("t", "answers")
"""The arrays of `Evidence` in a file; their names there begin with "evidence."."""


def evidence_parts(evidence: Evidence) -> dict[str, Array]:
    """The arrays of the evidence, by their names in a file."""
    return {f"evidence.{name}": getattr(evidence, name) for name in EVIDENCE}


def evidence_of(parts: Mapping[str, Array], run: Draws) -> Evidence:
    """The evidence in a file, about the points of this run; `DamagedError` if it cannot be."""
    assert run.evidence is not None
    found = replace(run.evidence, **{name: parts[f"evidence.{name}"] for name in EVIDENCE})
    n = len(found.t) if found.t.ndim == 1 else -1
    fits = all(
        _is(getattr(found, name), empty.dtype.type, (n, *empty.shape[1:]))
        for name, empty in ((name, getattr(run.evidence, name)) for name in EVIDENCE)
    )
    known = fits and np.isin(found.t, parts["t"]).all() and (np.diff(found.t) > 0).all()
    if not known or not _are_answers(found):
        raise DamagedError("it does not fit the run: its evidence is not that of its draws")
    return found


OF_TEST = ("t", "moved")
"""The arrays of `TestInfluence` in a file; their names there begin with "test."."""


def test_parts(found: TestInfluence) -> dict[str, Array]:
    """The arrays of the influence of the test rows, by their names in a file."""
    return {f"test.{name}": getattr(found, name) for name in OF_TEST}


def test_influence_of(parts: Mapping[str, Array], run: Draws) -> TestInfluence:
    """The influence of the test rows in a file; `DamagedError` if it cannot be that of this run."""
    empty = run.test_influence
    assert empty is not None
    found = TestInfluence(**{name: parts[f"test.{name}"] for name in OF_TEST})
    n = len(found.t) if found.t.ndim == 1 else -1
    fits = all(
        _is(getattr(found, name), part.dtype.type, (n, *part.shape[1:]))
        for name, part in (("t", empty.t), ("moved", empty.moved))
    )
    known = fits and np.isin(found.t, parts["t"]).all() and (np.diff(found.t) > 0).all()
    if not known or not _are_moderate(found.moved):
        raise DamagedError("it does not fit the run: its test rows are not those of its draws")
    return found


def _are_answers(found: Evidence) -> bool:
    """Whether these are probabilities of all labels (for regression numbers), or missing."""
    missing = np.isnan(found.answers).all(axis=2)
    known = found.answers[~missing]
    if not len(found.labels):
        return _are_moderate(known)
    return bool(((known >= 0) & (known <= 1 + 1e-6)).all())


def check_columns(shard: Mapping[str, Array], run: Draws) -> None:
    """Refuse columns whose shape or type differs from the run's, and numbers it never has."""
    n = len(shard["t"]) if shard["t"].ndim else 0
    for name, column in run.columns().items():
        part = shard[name]
        if n == 0 or not _is(part, column.dtype.type, (n, *column.shape[1:])):
            shape = ", ".join(["draws", *map(str, column.shape[1:])])
            raise DamagedError(
                f"{name!r} does not fit the run: it must be {column.dtype} of shape ({shape})"
            )
    for name in run.columns():
        if not _fits(name, shard, run):
            raise DamagedError(f"{name!r} does not fit the run: it must be {_COLUMN_IS[name]}")


_COLUMN_IS = {
    "t": "ascending, and 0 or more",
    "k": "set sizes from 1 to m",
    "marginals": "finite, and NaN exactly where a draw tests on the point's fold",
    "seconds": "finite, and 0 or more",
    "reference": "finite",
    "nested": "finite, or NaN in the whole row",
    "label_controls": "finite",
}


def _fits(name: str, shard: Mapping[str, Array], run: Draws) -> bool:
    """Whether a run can have the numbers of this column."""
    column = shard[name]
    match name:
        case "t":
            return bool((np.diff(column) > 0).all() and column[0] >= 0)
        case "k":
            return bool((column >= 1).all() and (column <= run.m).all())
        case "marginals":
            return _are_marginals(column, shard["t"], run)
        case "nested":
            missing = np.isnan(column)
            whole = (missing.any(axis=1) == missing.all(axis=1)).all()
            return bool(whole) and _are_moderate(column[~missing])
        case "seconds":
            return _are_moderate(column) and bool((column >= 0).all())
    return _are_moderate(column)


def _are_marginals(marginals: Array, t: Array, run: Draws) -> bool:
    """Whether each draw has a number for each point that it values, and NaN for the others."""
    if run.folds is None:
        return _are_moderate(marginals)
    valued = run.folds.valued(t)
    return _are_moderate(marginals[valued]) and bool(np.isnan(marginals[~valued]).all())


def _are_moderate(numbers: Array) -> bool:
    """Whether all are numbers, and small enough that sums of squares stay finite."""
    most = min(MODERATE, float(np.finfo(numbers.dtype).max))
    return bool((np.abs(numbers) <= most).all())


def parts_of(draws: Draws) -> dict[str, Array]:
    """The header and the columns of a record that may be made by hand; ValueError if unfit.

    Whole numbers and times of other types are converted where that is exact. What the estimates
    are computed with keeps its type, because another type would change their last bits.
    """
    draws = replace(draws, evidence=None)  # a run folder keeps it
    of_test = {} if draws.test_influence is None else test_parts(draws.test_influence)
    parts = header_of(draws) | draws.columns() | of_test
    found = {name: np.asarray(part) for name, part in parts.items()}
    found["ids"] = names(draws.ids)
    for name in ("rows", "folds", "t", "k"):
        found[name] = exact(f"draws.{name}", found[name], np.int64)
    if "seconds" in found:
        found["seconds"] = exact("draws.seconds", found["seconds"], np.float64)
    return found


def plain_about(draws: Draws) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run's identity and context as JSON holds them; ValueError if JSON cannot."""
    try:
        text = json.dumps(asdict(draws.about), default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"draws.about is not what JSON can hold ({error})") from None
    found = json.loads(text)
    return found["identity"], found["context"]


def fingerprint_of(draws: Draws) -> str | None:
    """The fingerprint of the points of these draws; None if the run's is that of other points."""
    identity = draws.about.identity
    if identity.ids is None:  # methods that keep no digest of the names
        return identity.points if f"({len(draws.ids)} " in (identity.points or "") else None
    return identity.points if identity.ids == names_digest(draws.ids) else None


def draws_of(parts: Mapping[str, Array], columns: list[str], about: About) -> Draws:
    """The record with this header and these columns; `DamagedError` if no run can have them.

    Unlike a run's, its marginals may be float64, and it may have no times.
    """
    asked = any(name.startswith("test.") for name in parts)
    of_test = [f"test.{name}" for name in OF_TEST] if asked else []
    check_part_names(parts, {*HEADER, *columns, *of_test}, prefix="draws.")
    check_header(parts)
    if bool(of_test) != bool(parts["n_test_groups"]):
        raise DamagedError("'draws.n_test_groups' does not fit the parts")
    run = empty_run(parts, about)
    if "seconds" not in columns:
        run = replace(run, seconds=None)
    if columns != list(run.columns()):
        raise DamagedError(f"the draws have the columns {columns} instead of {list(run.columns())}")
    if parts["marginals"].dtype == np.float64:
        run = replace(run, marginals=run.marginals.astype(np.float64))
    found = {name: parts[name] for name in columns}
    check_columns(found, run)
    most = min(max(_FEW_FOLDS, len(parts["t"])), _MOST_FOLDS)
    if parts["n_folds"] > most:
        raise DamagedError(f"draws.n_folds is {parts['n_folds']}, which is above {most}")
    draws = run.of(found)
    return replace(draws, test_influence=test_influence_of(parts, draws)) if of_test else draws


def same_names(ids: Array, others: Array) -> bool:
    """Whether these are the same names in the same order: the number 1 is not the text "1"."""
    return (ids.dtype.kind == "U") == (others.dtype.kind == "U") and np.array_equal(ids, others)


def exact(name: str, values: Any, dtype: type) -> Array:
    """The numbers as this type; an error if that would change one."""
    array = np.asarray(values)
    if array.dtype == dtype and not isinstance(values, np.ma.MaskedArray):
        return array
    if array.dtype.kind in "iuf" and not isinstance(values, np.ma.MaskedArray):
        with np.errstate(invalid="ignore"):
            found: Array = array.astype(dtype)
            same = np.array_equal(found.astype(array.dtype), array, equal_nan=True)
        if same:
            return found
    kind = "masked" if isinstance(values, np.ma.MaskedArray) else f"of type {array.dtype}"
    raise ValueError(f"{name!r} is {kind}: make it {np.dtype(dtype)}")


def names(ids: Any) -> Array:
    """The ids as numbers or text, as `Points` keeps them; different ids stay different."""
    array = np.asarray(ids)
    if array.ndim == 1 and are_names(array):
        return array
    found = names_of(ids, name="ids", gaps=True)
    if array.dtype == object and found.dtype.kind == "U":
        first: dict[str, Any] = {}
        for one, name in zip(array.ravel().tolist(), found.tolist(), strict=True):
            if repr(first.setdefault(name, one)) != repr(one):
                raise ValueError(f"the ids {first[name]!r} and {one!r} are the same as text")
    if not are_names(found):
        wrong = next(
            name for name in found.tolist() if any("\ud800" <= c <= "\udfff" for c in name)
        )
        raise ValueError(f"the id {wrong!r} is not text in Unicode: rename it")
    return found
