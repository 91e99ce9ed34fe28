"""One call for people in a hurry."""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dshapley.data.folds import set_aside
from dshapley.data.points import Array, Bundles, Points, as_points, names_of, row_digests
from dshapley.data.targets import check_repeated, task_of_labels
from dshapley.errors import InputError, warn
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.valuation import Valuation, completed, estimate
from dshapley.learners import Fast
from dshapley.learners.by_name import model_from_name
from dshapley.metrics import Metric
from dshapley.potentials import ModelPotential, Retrain, potential
from dshapley.potentials.preprocessing import Preprocess
from dshapley.running.run import FEWEST_REFERENCES, Interrupted, run
from dshapley.running.stopping import Stop, StopRule, as_rule
from dshapley.sampling.crossfitting import MOST_TESTED, CrossFitted, cross_fitted
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.provenance import Context, Source
from dshapley.sampling.sizes import balanced_by_default, by_work

__all__ = ["Fitting", "Request", "Sampling", "answer", "default_m", "value"]

_M, _M_DEAR = 1000, 200
"""Data set sizes to value for; the second where a marginal's work grows with the set."""
_SCORES, _LEAST_MEASURED = 30_000_000, 1000
"""Points times test rows that a draw may score in a second or so; points always measured."""
_ALIKE_BY_CHANCE = 0.01
"""Two samples of a table may have so many rows in common without being copies."""
_FEWEST_CROSSED = 2
"""Draws that value every row, each on all folds but one."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Which sets are drawn, and how many of the points are measured.

    `ds.value(..., sampling="1/k")` is short for `Sampling(weights="1/k")`. The paper's algorithms
    as it prints them are "algorithm-1" (uniform sizes) and "algorithm-2" (1/k).

    Parameters
    ----------
    weights
        How often each set size is drawn: "auto" (`dshapley.sizes.by_work`), "uniform" or
        "algorithm-1", "1/k" or "algorithm-2", "k^-a", or an array of m probabilities.
    balanced, control_variates
        Smaller errors from the same number of draws (docs/precision.md). By default both are used
        with weights="auto", and neither with any other weights.
    share
        Measure each point with this probability only, and predict the others (Fast-D-Shapley,
        Algorithm 2). The result says which, and how well held-out points were predicted. By default
        1, or less where the points are too many to measure in minutes (a warning says so).

    Examples
    --------
    >>> Sampling(weights="k^-0.5", share=0.1).balanced is None
    True
    """

    weights: Any = "auto"
    balanced: bool | None = None
    control_variates: bool | None = None
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How models are trained on the sets: see `dshapley.potential`.

    Parameters
    ----------
    retrain
        "never": marginals without retraining, exactly, or an error where that is not possible.
        "always": train a model for every marginal. "auto": retrain only where it must be.
    min_rows
        Smaller sets are not fitted: they get the constant predictor of their own labels.
    preprocess
        For a scikit-learn Pipeline: "each" fits its first steps within every set, "once" fits them
        on the database with its labels, as if all tables had been transformed by hand. "once"
        keeps the final estimator from being retrained (docs/decisions/0014-preprocessing.md).
    empty
        U(empty), if not the score of a constant predictor.
    """

    retrain: Retrain = "auto"
    min_rows: int = 1
    preprocess: Preprocess = "each"
    empty: float | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `value` is asked, and for a run folder where the data came from."""

    database: Points
    model: Any
    test: Any = "cross"
    points: Points | None = None
    groups: Any = None
    metric: str | Metric | Callable[[Array, Array], float] | None = None
    m: int | None = None
    sampling: Sampling = Sampling()
    stop: StopRule | Stop | int | None = None
    fitting: Fitting = Fitting()
    seed: int = 0
    store: str | Path | None = None
    n_jobs: int | None = None
    source: Source | None = None


def value(  # noqa: PLR0913 - the front door: each choice by its own name
    X: Any,
    y: Any = None,
    *,
    model: Any,
    test: Points | tuple[Any, Any] | float | str = "cross",
    points: Points | tuple[Any, Any] | None = None,
    groups: Any = None,
    metric: str | Metric | Callable[[Array, Array], float] | None = None,
    m: int | None = None,
    sampling: Sampling | str | None = None,
    stop: StopRule | Stop | int | None = None,
    fitting: Fitting | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
) -> Valuation:
    """The distributional Shapley value of each point.

    Parameters
    ----------
    X, y
        The database: the sample that stands for the distribution. Also `value(Points, ...)`.
    model
        Any scikit-learn compatible classifier or regressor, or the name of one from
        `dshapley.learners.by_name.MODELS`, such as "logistic" or "forest"; "auto" for logistic
        regression or ridge. Whether it is a classifier then follows from y.
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
    metric
        See `dshapley.potential`.
    m
        The data set size the values are for: about as large as the sets that people train on.
        By default 1,000, or 200 for models that are retrained for every point, such as forests;
        or the size of the database if that is less.
    sampling
        Which sets are drawn: a `Sampling`, or its weights by name, such as "algorithm-1".
    stop
        A number of draws, a `Stop`, or a rule of yours (`dshapley.stopping`). By default when the
        order of the values is settled (`dshapley.stopping.Settled`), after five minutes at the
        latest.
    fitting
        How models are trained: a `Fitting`.
    seed, store, n_jobs
        See `dshapley.run`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> valuation = value(X[::2], y[::2], model=LogisticRegression(max_iter=1000),
    ...                   test=(X[1::2], y[1::2]), points=(X[:3], y[:3]), m=20, stop=30)
    >>> valuation.to_frame().columns.tolist()
    ['value', 'stderr', 'k_min', 'k_max']
    >>> len(valuation), valuation.at(m=5).m
    (3, 5)

    Every row, without other test rows:

    >>> len(value(X[::2], y[::2], model="logistic", m=20, stop=30))
    75
    """
    if not isinstance(sampling, Sampling):
        sampling = Sampling() if sampling is None else Sampling(weights=sampling)
    request = Request(
        database=as_points(X if isinstance(X, Points) and y is None else (X, y), name="database"),
        model=model,
        test=test,
        points=None if points is None else as_points(points, name="points"),
        groups=groups,
        metric=metric,
        m=m,
        sampling=sampling,
        stop=stop,
        fitting=fitting or Fitting(),
        seed=seed,
        store=store,
        n_jobs=n_jobs,
    )
    return answer(request)


def answer(asked: Request) -> Valuation:
    """The values that a request asks for."""
    if isinstance(asked.test, int | float | np.number) and not isinstance(asked.test, bool):
        asked = _set_aside(asked)
    rows = asked.database if asked.points is None else asked.points
    Z = rows if asked.groups is None else Bundles(rows, asked.groups)
    crossed = isinstance(asked.test, str) and asked.test == "cross"
    U = _potential(asked, crossed=crossed)
    rule = as_rule(asked.stop)
    limit = getattr(rule, "limit", None)
    if crossed and limit is not None and limit < _FEWEST_CROSSED:
        raise InputError(
            f"draws = {limit}: cross-fitting takes at least {_FEWEST_CROSSED} draws, since each "
            "leaves out the rows that it tests on"
        )
    n_test = min(len(U.test), MOST_TESTED) if crossed else len(U.test)
    share = _affordable(Z, U, n_test) if asked.sampling.share is None else asked.sampling.share
    U.check(asked.database, name="database")
    if not crossed:
        _warn_of_tested(rows, U.test)
    if U.classification:
        _check_classes(asked.database, None if crossed else U.test, rows)
    measured = np.ones(len(Z), dtype=bool)
    if share != 1:
        measured = chosen_to_measure(Z, share, asked.seed)
        Z = rows.take(measured)
    tested = cross_fitted(U, Z, seed=asked.seed) if crossed else U
    design = _design(asked, U, Z if share == 1 else rows, tested)

    def valuation(record: Draws) -> Valuation:
        found = estimate(record, points=Z)
        return found if share == 1 else completed(found, rows, measured)

    try:
        record = run(
            tested, design, Z, stop=rule, store=asked.store, n_jobs=asked.n_jobs,
            context=_context(asked, share),
        )  # fmt: skip
    except Interrupted as stop:
        with contextlib.suppress(InputError):  # too few draws for values: not an error
            stop.valuation = valuation(stop.draws)
        raise
    return valuation(record)


def _warn_of_tested(rows: Points, test: Points) -> None:
    """Points that are test rows too are worth more than they would be elsewhere."""
    if rows.columns != test.columns:
        return  # an error of its own
    n = int(np.isin(row_digests(rows), row_digests(test)).sum())
    if n > _ALIKE_BY_CHANCE * len(rows):
        warn(
            f"{n:,} of the {len(rows):,} rows to value are test rows too: their values are too "
            "high, since a model that has seen a row answers it by heart"
        )


def _context(asked: Request, share: float) -> Context:
    weights = asked.sampling.weights
    return Context(
        share=share, weights=weights if isinstance(weights, str) else None, source=asked.source
    )


def _potential(asked: Request, *, crossed: bool) -> ModelPotential:
    """How sets are scored; where test rows are left out in turn, on all of the database."""
    model = asked.model
    return potential(
        _named_model(model, asked.database) if isinstance(model, str) else model,
        test=asked.database if crossed else _test_rows(asked.test),
        metric=asked.metric,
        empty=asked.fitting.empty,
        min_rows=asked.fitting.min_rows,
        retrain=asked.fitting.retrain,
        preprocess=asked.fitting.preprocess,
        database=asked.database,
    )


def _design(
    asked: Request, U: ModelPotential, Z: Points | Bundles, tested: ModelPotential | CrossFitted
) -> Design:
    """How sets are drawn."""
    database, sampling = asked.database, asked.sampling
    m = default_m(database, U) if asked.m is None else asked.m
    auto = balanced_by_default(sampling.weights)
    variates = sampling.control_variates
    return Design(
        database,
        m=m,
        weights=by_work(m, U.work(np.arange(1.0, m + 1))) if auto else sampling.weights,
        seed=asked.seed,
        balanced=auto if sampling.balanced is None else sampling.balanced,
        control_variates=auto and _reference_is_cheap(database, Z)
        if variates is None
        else variates,
        folds=tested.rows if isinstance(tested, CrossFitted) else None,
    )


def _test_rows(test: Any) -> Points:
    """The test rows that were given, or an error that says what may be given."""
    if not isinstance(test, Points | tuple):
        raise InputError(
            f"test = {reprlib.repr(test)}: give 'cross', a share of the rows, or a pair (X, y)"
        )
    return as_points(test, name="test")


def _set_aside(asked: Request) -> Request:
    """The same request with a share of the database as test rows, which get no value."""
    database, share = asked.database, float(asked.test)
    if database.y is None:
        raise InputError("database has no labels: give y")
    stratify = task_of_labels(database.y) == "classification"
    kept, held_out = set_aside(database.y, share, stratify=stratify, seed=asked.seed)
    groups = asked.groups
    if asked.points is None and groups is not None:
        groups = names_of(groups, name="groups")[kept]
    return replace(asked, database=database.take(kept), test=database.take(held_out), groups=groups)


def _reference_is_cheap(database: Points, Z: Points | Bundles) -> bool:
    """Whether the reference sample costs at most a tenth of the marginals of Z.

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
