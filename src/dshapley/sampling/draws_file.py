"""The record of a run as named arrays for files, and checks of arrays that are read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dshapley.data.points import Array, Points
from dshapley.sampling.draws import NO_FOLD, Draws, Folds
from dshapley.sampling.provenance import About
from dshapley.sampling.sizes import LEAST_WEIGHT
from dshapley.sealed import BadFileError

__all__ = ["HEADER", "check_columns", "check_header", "empty_run", "header_of"]

_MOST_LABEL_CONTROLS = 1000
"""A damaged header could claim more columns than fit into memory."""

HEADER = ("ids", "rows", "weights", "balanced", "n_label_controls", "n_folds", "folds")


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
    }


def check_header(header: Mapping[str, Array]) -> None:
    """Refuse a header that no run can have."""
    ids, rows, weights = header["ids"], header["rows"], header["weights"]
    if not (
        ids.ndim == rows.ndim == weights.ndim == 1
        and len(ids) == len(rows) > 0
        and _are_names(ids)
        and rows.dtype == np.int64
        and (rows > 0).all()
        and len(weights) > 0
        and _are_weights(weights)
        and all(header[name].shape == () for name in _NUMBERS)
        and all(header[name].dtype.kind in "biu" for name in _NUMBERS)
        and -1 <= header["n_label_controls"] <= _MOST_LABEL_CONTROLS
        and _are_folds(header["folds"], int(header["n_folds"]), len(ids))
    ):
        raise BadFileError("is damaged (its parts do not fit together)")


_NUMBERS = ("balanced", "n_label_controls", "n_folds")


def _are_folds(folds: Array, n: int, n_points: int) -> bool:
    """Whether every point has a valid fold, or no point has one if there are no folds."""
    if folds.dtype != np.int64 or folds.ndim != 1:
        return False
    if n == 0:
        return len(folds) == 0
    return n >= 2 and len(folds) == n_points and bool(((folds >= NO_FOLD) & (folds < n)).all())


def _are_weights(weights: Array) -> bool:
    """Whether these are probabilities that a marginal can be divided by."""
    return bool(
        weights.ndim == 1
        and weights.dtype == np.float64
        and (weights >= LEAST_WEIGHT).all()
        and abs(weights.sum() - 1) < 1e-6
    )


def _are_names(ids: Array) -> bool:
    if ids.dtype.kind != "U":
        return ids.dtype.kind in "iu"
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
        about=about,
    )
    return replace(run, rows=header["rows"])


def check_columns(shard: Mapping[str, Array], run: Draws) -> None:
    """Refuse columns whose shape or type differs from the run's, and sizes it never draws."""
    n = len(shard["t"]) if shard["t"].ndim else 0
    fits = n > 0 and all(
        shard[name].dtype == column.dtype and shard[name].shape == (n, *column.shape[1:])
        for name, column in run.columns().items()
    )
    if not (
        fits
        and (np.diff(shard["t"]) > 0).all()
        and shard["t"][0] >= 0
        and (shard["k"] >= 1).all()
        and (shard["k"] <= run.m).all()
        and _are_marginals(shard["marginals"], shard["t"], run)
        and all(_are_moderate(shard[name]) for name in {"reference", "label_controls"} & set(shard))
        and ("seconds" not in shard or (shard["seconds"] >= 0).all())
        and ("nested" not in shard or _are_moderate(shard["nested"][~np.isnan(shard["nested"])]))
    ):
        raise BadFileError("is damaged (it does not fit the run)")


def _are_marginals(marginals: Array, t: Array, run: Draws) -> bool:
    """Whether each draw has a number for each point that it values, and NaN for the others."""
    if run.folds is None:
        return bool(np.isfinite(marginals).all())
    valued = run.folds.valued(t)
    return bool(np.isfinite(marginals[valued]).all() and np.isnan(marginals[~valued]).all())


def _are_moderate(numbers: Array) -> bool:
    """Whether all are numbers, and small enough that sums of squares stay finite."""
    return bool((np.abs(numbers) <= 1e100).all())
