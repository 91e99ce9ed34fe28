"""One call for people in a hurry."""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dshapley.data.folds import set_aside
from dshapley.data.points import Array, Bundles, Points, as_points, names_of
from dshapley.data.targets import check_repeated, task_of_labels
from dshapley.errors import InputError, warn
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.valuation import Valuation, completed, estimate
from dshapley.learners import Fast
from dshapley.learners.by_name import model_from_name
from dshapley.metrics import Metric
from dshapley.potentials import ModelPotential, Way, potential
from dshapley.potentials.preprocessing import Preprocess
from dshapley.running.run import FEWEST_REFERENCES, Interrupted, run
from dshapley.running.stopping import StopRule, stop_rule
from dshapley.sampling.crossfitting import MOST_TESTED, CrossFitted, cross_fitted
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.sizes import balanced_by_default, by_work

__all__ = ["default_m", "value"]

_M, _M_DEAR = 1000, 200
"""Data set sizes to value for; the second where a marginal's work grows with the set."""
_SCORES, _LEAST_MEASURED = 30_000_000, 1000
"""Points times test rows that a draw may score in a second or so; points always measured."""
_FEWEST_CROSSED = 2
"""Draws that value every row, each on all folds but one."""


def value(
    X: Any,
    y: Any = None,
    *,
    model: Any,
    test: Points | tuple[Any, Any] | float | str = "cross",
    points: Points | tuple[Any, Any] | None = None,
    groups: Any = None,
    metric: str | Metric | Callable[[Array, Array], float] | None = None,
    empty: float | None = None,
    min_rows: int = 1,
    path: Way = "auto",
    preprocess: Preprocess = "each",
    m: int | None = None,
    weights: Any = "auto",
    stratified: bool | None = None,
    anchor: bool | None = None,
    p: float | None = None,
    draws: int | None = None,
    precision: float | None = None,
    seconds: float | None = None,
    until: StopRule | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    info: Mapping[str, Any] | None = None,
) -> Valuation:
    """The distributional Shapley value of each point: Algorithm 1, or with weights and p 2.

    Parameters
    ----------
    X, y
        The database: the sample that stands for the distribution. Also `value(Points, ...)`.
    model
        Any scikit-learn compatible classifier or regressor, or the name of one from
        `dshapley.models.MODELS`, such as "logistic" or "forest"; "auto" for logistic regression
        or ridge. Whether it is a classifier then follows from y.
    test
        Where models are scored: Points or a pair (X, y); or a share of the database, such as 0.2,
        whose rows are set aside for it and get no value. By default "cross": draws test on each
        fifth of the database in turn and value the other rows, so that every row gets a value, on
        rows that are not itself (docs/decisions/0015-cross-fitting.md). The errors then include
        the spread between the fifths.
    points
        The points to value; by default those of the database. They need not be in it.
    groups
        One name for each point: points of one name are a bundle, valued as one.
    metric, empty, min_rows, path
        See `dshapley.potential`.
    preprocess
        For a scikit-learn Pipeline: "each" fits its first steps within every set, "once" fits them
        on the database with its labels, as if all tables had been transformed by hand. "once"
        keeps the fast path of the final estimator (docs/decisions/0014-preprocessing.md).
    m
        The data set size the values are for: about as large as the sets that people train on.
        By default 1,000, or 200 for models that are trained anew for every point, such as forests;
        or the size of the database if that is less.
    weights
        How often each set size is drawn: "auto" (`dshapley.sizes.by_work`), "uniform" or
        "algorithm-1", "1/k" or "algorithm-2", "k^-a", or an array of m probabilities.
    stratified, anchor
        Balanced sizes, and control variates: smaller errors from the same number of draws
        (docs/precision.md). By default both are used with weights="auto", and neither with any
        other, which then is the algorithm as the paper prints it.
    p
        Measure each point with this probability only, and predict the others (Fast-D-Shapley,
        Algorithm 2). The result says which, and how well held-out points were predicted. By default
        1, or less where the points are too many to measure in minutes (a warning says so).
    draws, precision, seconds, until
        When to stop: after so many draws, when every value is known to within +-precision (with
        95 % confidence, all at once: `dshapley.stopping.Precision`), after so much time, or by a
        rule of yours; whichever comes first. By default when the order of the values is settled
        (`dshapley.stopping.Settled`), after five minutes at the latest.
    seed, store, n_jobs, progress, info
        See `dshapley.run`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> valuation = value(X[::2], y[::2], model=LogisticRegression(max_iter=1000),
    ...                   test=(X[1::2], y[1::2]), points=(X[:3], y[:3]), m=20, draws=30)
    >>> valuation.to_frame().columns.tolist()
    ['value', 'stderr', 'k_min', 'k_max']
    >>> len(valuation), valuation.at(m=5).m
    (3, 5)

    Every row, without other test rows:

    >>> model = LogisticRegression(max_iter=1000)
    >>> len(value(X[::2], y[::2], model=model, m=20, draws=30))
    75
    """
    database = as_points(X if isinstance(X, Points) and y is None else (X, y), name="database")
    if isinstance(model, str):
        model = _named_model(model, database)
    if isinstance(test, int | float | np.number) and not isinstance(test, bool):
        database, test, groups = _set_aside(database, float(test), points, groups, seed)
    rows = database if points is None else as_points(points, name="points")
    Z = rows if groups is None else Bundles(rows, groups)
    crossed = isinstance(test, str) and test == "cross"
    U = potential(
        model,
        test=database if crossed else _test_rows(test),
        metric=metric,
        empty=empty,
        min_rows=min_rows,
        path=path,
        preprocess=preprocess,
        database=database,
    )
    if until is not None and not (draws is None and precision is None and seconds is None):
        raise InputError("give either until= or draws=, precision= and seconds=")
    rule = until if until is not None else stop_rule(
        draws=draws, precision=precision, seconds=seconds
    )  # fmt: skip
    if crossed and (getattr(rule, "limit", None) or _FEWEST_CROSSED) < _FEWEST_CROSSED:
        raise InputError(
            f"draws = {draws}: cross-fitting takes at least {_FEWEST_CROSSED} draws, since each "
            "leaves out the rows that it tests on"
        )
    m = default_m(database, U) if m is None else m
    n_test = min(len(U.test), MOST_TESTED) if crossed else len(U.test)
    p = _affordable(Z, U, n_test) if p is None else p
    U.check(database, name="database")
    if U.classification:
        _check_classes(database, None if crossed else U.test, rows)
    measured = np.ones(len(Z), dtype=bool) if p == 1 else chosen_to_measure(Z, p, seed)
    Z_p = rows.take(measured) if p != 1 else Z
    asked = cross_fitted(U, Z_p, seed=seed) if crossed else U
    balanced = balanced_by_default(weights)
    design = Design(
        database,
        m=m,
        weights=by_work(m, U.work(np.arange(1.0, m + 1))) if balanced else weights,
        seed=seed,
        stratified=balanced if stratified is None else stratified,
        anchor=balanced and _anchor_is_cheap(database, Z) if anchor is None else anchor,
        folds=asked.rows if isinstance(asked, CrossFitted) else None,
    )

    def answer(record: Draws) -> Valuation:
        valuation = estimate(record, points=Z_p)
        return valuation if p == 1 else completed(valuation, rows, measured)

    try:
        record = run(asked, design, Z_p, until=rule, store=store, n_jobs=n_jobs, progress=progress,
                     info={**(info or {}), "p": p})  # fmt: skip
    except Interrupted as stop:
        with contextlib.suppress(InputError):  # too few draws for an answer, which is no error here
            stop.valuation = answer(stop.draws)
        raise
    return answer(record)


def _test_rows(test: Any) -> Points:
    """The test rows that were given, or an error that says what may be given."""
    if not isinstance(test, Points | tuple):
        raise InputError(
            f"test = {reprlib.repr(test)}: give 'cross', a share of the rows, or a pair (X, y)"
        )
    return as_points(test, name="test")


def _set_aside(
    database: Points, share: float, points: Any, groups: Any, seed: int
) -> tuple[Points, Points, Any]:
    """The database without a share of its rows, these as test rows, the groups that are left."""
    if database.y is None:
        raise InputError("database has no labels: give y")
    stratify = task_of_labels(database.y) == "classification"
    kept, held_out = set_aside(database.y, share, stratify=stratify, seed=seed)
    if points is None and groups is not None:
        groups = names_of(groups, name="groups")[kept]
    return database.take(kept), database.take(held_out), groups


def _anchor_is_cheap(database: Points, Z: Points | Bundles) -> bool:
    """Whether the reference sample of the anchor costs at most a tenth of the marginals of Z.

    It is free where the database itself is valued.
    """
    return (isinstance(Z, Points) and Z.key == database.key) or len(Z) >= 10 * FEWEST_REFERENCES


def default_m(database: Points, U: ModelPotential) -> int:
    """The data set size to value for, where none is asked for."""
    return min(_M if _is_flat(U) else _M_DEAR, len(database))


def _is_flat(U: ModelPotential) -> bool:
    """Whether a marginal takes about the same work for small and for large sets."""
    one, many = U.work(np.array([1.0, float(_M)]))
    return bool(many < 2 * one) and isinstance(U.learner, Fast)


def _affordable(Z: Points | Bundles, U: ModelPotential, n_test: int) -> float:
    """The share of the points to measure: 1, unless they are too many for minutes.

    A rule of thumb and no clock, so that the same call measures the same points everywhere.
    """
    most = max(_LEAST_MEASURED, round(_SCORES / n_test)) if _is_flat(U) else _LEAST_MEASURED
    if isinstance(Z, Bundles) or len(Z) <= 2 * most:
        return 1.0
    share = float(f"{most / len(Z):.1g}")
    warn(
        f"{len(Z):,} points are many: a share of {share:g} of them is measured, and the others are "
        "predicted from these (p=1, --p 1, measures all)"
    )
    return share


def _named_model(name: str, database: Points) -> Any:
    if database.y is None:
        raise InputError("database has no labels: give y")
    return model_from_name(name, task_of_labels(database.y))


def _check_classes(database: Points, test: Points | None, rows: Points) -> None:
    """Refuse a database without anything to learn; warn of labels that it never shows."""
    assert database.y is not None
    known = set(database.y.tolist())
    check_repeated(database.y, name="database")
    if len(known) == 1:
        raise InputError(f"database: every y is {known.pop()!r}: there is nothing to learn")
    for name, points in (("test set", test), ("points", rows)):
        labels = set() if points is None or points.y is None else set(points.y.tolist())
        unseen = sorted(str(label) for label in labels - known)
        some = ", ".join(unseen[:5])
        if name == "test set" and unseen and len(unseen) == len(labels):
            raise InputError(f"test: none of its labels ({some}) is in the database")
        if unseen:
            warn(f"the {name} has labels that the database never shows: {some}")
