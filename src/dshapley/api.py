"""The whole flow in one call: `value` turns tables and a model into values.

`value` fills a `Request`, and `answer` makes the potential and the design, runs the draws and
estimates the values. The command line calls `answer` too.
"""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from dshapley.data.folds import set_aside
from dshapley.data.points import Bundles, Points, as_points, names_of, row_digests
from dshapley.data.targets import check_repeated, task_of_labels
from dshapley.errors import InputError, warn
from dshapley.inference.completed import completed
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.learners import Fast
from dshapley.learners.by_name import model_from_name
from dshapley.potentials import ModelPotential, Retrain, potentials
from dshapley.potentials.model import MetricLike
from dshapley.potentials.preprocessing import Preprocess
from dshapley.running.marginals import FEWEST_REFERENCES
from dshapley.running.metric_folders import metric_folders
from dshapley.running.run import Interrupted, run_each
from dshapley.running.stopping import Stop, StopRule, as_rule
from dshapley.sampling.crossfitting import MOST_TESTED, CrossFitted, cross_fitted
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.provenance import Context, Source
from dshapley.sampling.sizes import balanced_by_default, by_work

__all__ = [
    "Fitting",
    "Request",
    "Sampling",
    "affordable",
    "answer",
    "answers",
    "default_m",
    "potentials_of",
    "value",
]

_M, _M_DEAR = 1000, 200
"""The default data set sizes. The second is for models whose marginals take more work for larger
sets.
"""
_SCORES, _LEAST_MEASURED = 30_000_000, 1000
"""The number of points times test rows that a draw scores in about a second, and the least number
of points to measure if there are too many for all.
"""
_ALIKE_BY_CHANCE = 0.01
"""Two samples of a table can share this part of their rows without being copies."""
_FEWEST_CROSSED = 2
"""The fewest draws that value every row, because each leaves out one fold."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Which sets are drawn, and how many of the points are measured.

    `ds.value(..., sampling="1/k")` is short for `Sampling(weights="1/k")`. The algorithms as
    printed in the paper are "algorithm-1" (uniform sizes) and "algorithm-2" (1/k).

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
        Algorithm 2). The result says which points were predicted, and how well held-out points
        were. Default: 1, or less if there are too many points to measure in minutes (a warning says
        so).

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
    """How models are trained on the sets; see `dshapley.potential`.

    Parameters
    ----------
    retrain
        "never": compute marginals without retraining, exactly, or raise an error if that is not
        possible. "always": train a model for every marginal. "auto": retrain only if needed.
    min_rows
        Sets with fewer rows are not fitted: their model is the constant predictor of their labels.
    preprocess
        For a scikit-learn Pipeline: "each" fits its first steps on every set, "once" fits them on
        the database with its labels, as if all tables had been transformed beforehand. With "once",
        the final estimator may need no retraining (docs/decisions/0014-preprocessing.md).
    empty
        U(empty). Default: the score of a constant predictor.
    """

    retrain: Retrain = "auto"
    min_rows: int = 1
    preprocess: Preprocess = "each"
    empty: float | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `value` is asked for, and for a run folder where the data came from."""

    database: Points
    model: Any
    test: Any = "cross"
    points: Points | None = None
    groups: Any = None
    metric: MetricLike | list[Any] | None = None
    m: int | None = None
    sampling: Sampling = Sampling()
    stop: StopRule | Stop | int | None = None
    fitting: Fitting = Fitting()
    seed: int = 0
    store: str | Path | None = None
    n_jobs: int | None = None
    source: Source | None = None


@overload
def value(
    X: Any,
    y: Any = None,
    *,
    model: Any,
    test: Points | tuple[Any, Any] | float | str = "cross",
    points: Points | tuple[Any, Any] | None = None,
    groups: Any = None,
    metric: MetricLike | None = None,
    m: int | None = None,
    sampling: Sampling | str | None = None,
    stop: StopRule | Stop | int | None = None,
    fitting: Fitting | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
) -> Valuation: ...


@overload
def value(
    X: Any,
    y: Any = None,
    *,
    model: Any,
    test: Points | tuple[Any, Any] | float | str = "cross",
    points: Points | tuple[Any, Any] | None = None,
    groups: Any = None,
    metric: list[Any],
    m: int | None = None,
    sampling: Sampling | str | None = None,
    stop: StopRule | Stop | int | None = None,
    fitting: Fitting | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
) -> dict[str, Valuation]: ...


def value(  # noqa: PLR0913 - the front door: each choice by its own name
    X: Any,
    y: Any = None,
    *,
    model: Any,
    test: Points | tuple[Any, Any] | float | str = "cross",
    points: Points | tuple[Any, Any] | None = None,
    groups: Any = None,
    metric: MetricLike | list[Any] | None = None,
    m: int | None = None,
    sampling: Sampling | str | None = None,
    stop: StopRule | Stop | int | None = None,
    fitting: Fitting | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
) -> Valuation | dict[str, Valuation]:
    """The distributional Shapley value of each point.

    Parameters
    ----------
    X, y
        The database: the sample that stands for the distribution. X may also be `Points`.
    model
        Any scikit-learn compatible classifier or regressor, or the name of one from
        `dshapley.learners.by_name.MODELS`, such as "logistic" or "forest"; "auto" for logistic
        regression or ridge. Whether it is a classifier then follows from y.
    test
        The test rows: Points, a pair (X, y), or a share of the database, such as 0.2, whose
        rows are set aside and get no value. The default "cross" is cross-fitting: draws test on
        each fifth of the database in turn and value the other rows. Every row then gets a value
        and is never tested on itself (docs/decisions/0015-cross-fitting.md), and the errors
        include the spread between the fifths.
    points
        The points to value; by default the rows of the database. They may be other rows.
    groups
        A name for each point: points with the same name are a bundle, which gets one value.
    metric
        See `dshapley.potential`. A list of metrics gives a dictionary with a valuation by the name
        of each. Models are trained once for all metrics, and each valuation is, bit for bit, that
        of a call with its metric alone and as many draws. `stop` looks at the first metric; a run
        folder `store` gets a folder for each, such as store/roc_auc.
    m
        The data set size that the values are for: choose about the number of rows that people
        will train on. Default: 1,000, or 200 for models that are retrained for every point, such
        as forests; at most the size of the database.
    sampling
        Which sets are drawn: a `Sampling`, or the name of its weights, such as "algorithm-1".
    stop
        When to stop: a number of draws, a `Stop`, or your own rule (`dshapley.stopping`).
        Default: when the order of the values is settled (`dshapley.stopping.Settled`), or after
        five minutes.
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

    Value every row, without separate test rows:

    >>> len(value(X[::2], y[::2], model="logistic", m=20, stop=30))
    75

    Value the rows by two metrics, from the same models:

    >>> both = value(X[::2], y[::2], model="logistic", metric=["accuracy", "brier"], m=9, stop=9)
    >>> {name: len(valuation) for name, valuation in both.items()}
    {'accuracy': 75, 'brier': 75}
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
    return answers(request) if isinstance(metric, list) else answer(request)


def answer(asked: Request) -> Valuation:
    """The values that a request asks for, by one metric."""
    assert not isinstance(asked.metric, list)
    return next(iter(answers(asked).values()))


def answers(asked: Request) -> dict[str, Valuation]:
    """The values that a request asks for, by the name of each metric."""
    if isinstance(asked.test, int | float | np.number) and not isinstance(asked.test, bool):
        asked = _set_aside(asked)
    rows = asked.database if asked.points is None else asked.points
    Z = rows if asked.groups is None else Bundles(rows, asked.groups)
    crossed = isinstance(asked.test, str) and asked.test == "cross"
    Us = potentials_of(asked, asked.database if crossed else _test_rows(asked.test))
    names = [U.metric.name for U in Us]
    _check_distinct(names)
    U = Us[0]  # what follows depends on the learner and the test rows, which all share
    rule = as_rule(asked.stop)
    limit = getattr(rule, "limit", None)
    if crossed and limit is not None and limit < _FEWEST_CROSSED:
        raise InputError(
            f"draws = {limit}: cross-fitting needs at least {_FEWEST_CROSSED} draws, because each "
            "leaves out the rows that it tests on"
        )
    n_test = min(len(U.test), MOST_TESTED) if crossed else len(U.test)
    share = asked.sampling.share
    if share is None:
        share = 1.0 if isinstance(Z, Bundles) else affordable(len(Z), U, n_test)
    U.check(asked.database, name="database")
    if not crossed:
        _warn_of_tested(rows, U.test)
    if U.classification:
        _check_classes(asked.database, None if crossed else U.test, rows)
    measured = np.ones(len(Z), dtype=bool)
    if share != 1:
        measured = chosen_to_measure(Z, share, asked.seed)
        Z = rows.take(measured)
    tested = [cross_fitted(V, Z, seed=asked.seed) if crossed else V for V in Us]
    design = _design(asked, U, Z if share == 1 else rows, tested[0])

    def valuations(records: Sequence[Draws]) -> dict[str, Valuation]:
        found = {
            name: estimate(record, points=Z) for name, record in zip(names, records, strict=True)
        }
        if share == 1:
            return dict(found)
        return {name: completed(measures, rows, measured) for name, measures in found.items()}

    try:
        records = run_each(
            tested, design, Z, stop=rule, stores=_stores(asked, names), n_jobs=asked.n_jobs,
            context=_context(asked, share), test_rows=True,
        )  # fmt: skip
    except Interrupted as stop:
        with contextlib.suppress(InputError):  # too few draws for values are not an error here
            stop.valuations = valuations(stop.each)
            stop.valuation = stop.valuations[names[0]]
        raise
    return valuations(records)


def _check_distinct(names: list[str]) -> None:
    """Refuse metrics of the same name, whose results could not be told apart."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(
            f"metric: {repeated!r} is given {names.count(repeated)} times: give each metric once, "
            "and functions of different names"
        )


def _stores(asked: Request, names: list[str]) -> Sequence[str | Path] | None:
    """The run folder of each metric: `store` itself, or a folder in it if there is a list."""
    if asked.store is None:
        return None
    return metric_folders(asked.store, names) if isinstance(asked.metric, list) else [asked.store]


def _warn_of_tested(rows: Points, test: Points) -> None:
    """Warn of points that are test rows too, because their values are too high."""
    if rows.columns != test.columns:
        return  # the potential's check reports this
    n = int(np.isin(row_digests(rows), row_digests(test)).sum())
    if n > _ALIKE_BY_CHANCE * len(rows):
        warn(
            f"{n:,} of the {len(rows):,} rows to value are test rows too: their values are too "
            "high, because a model answers rows that it was trained on from memory"
        )


def _context(asked: Request, share: float) -> Context:
    weights = asked.sampling.weights
    return Context(
        share=share, weights=weights if isinstance(weights, str) else None, source=asked.source
    )


def potentials_of(asked: Request, test: Points) -> list[ModelPotential]:
    """The potential by each metric on these test rows; for cross-fitting they are the database."""
    model = asked.model
    metrics = asked.metric if isinstance(asked.metric, list) else [asked.metric]
    if not metrics:
        raise InputError("metric = []: give at least one metric")
    return potentials(
        _named_model(model, asked.database) if isinstance(model, str) else model,
        test=test,
        metrics=metrics,
        empty=asked.fitting.empty,
        min_rows=asked.fitting.min_rows,
        retrain=asked.fitting.retrain,
        preprocess=asked.fitting.preprocess,
        database=asked.database,
    )


def _design(
    asked: Request, U: ModelPotential, Z: Points | Bundles, tested: ModelPotential | CrossFitted
) -> Design:
    """The design of the request."""
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
    """The test rows of the request, or an error that says what can be given."""
    if not isinstance(test, Points | tuple):
        raise InputError(
            f"test = {reprlib.repr(test)}: give 'cross', a share of the rows, or a pair (X, y)"
        )
    return as_points(test, name="test")


def _set_aside(asked: Request) -> Request:
    """The same request with a share of the database as test rows. These rows get no value."""
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

    It is free if Z is the database itself.
    """
    return (isinstance(Z, Points) and Z.key == database.key) or len(Z) >= 10 * FEWEST_REFERENCES


def default_m(database: Points, U: ModelPotential) -> int:
    """The data set size to value for if the caller gives none."""
    return min(_M if _is_flat(U) else _M_DEAR, len(database))


def _is_flat(U: ModelPotential) -> bool:
    """Whether a marginal takes about the same work for small and for large sets."""
    one, many = U.work(np.array([1.0, float(_M)]))
    return bool(many < 2 * one) and isinstance(U.learner, Fast)


def affordable(n: int, U: ModelPotential, n_test: int) -> float:
    """The share of n points to measure: 1 unless measuring all would take more than minutes.

    It is a rule of thumb that measures no time, so a call chooses the same points everywhere.
    """
    most = max(_LEAST_MEASURED, round(_SCORES / n_test)) if _is_flat(U) else _LEAST_MEASURED
    if n <= 2 * most:
        return 1.0
    share = float(f"{most / n:.1g}")
    warn(
        f"{n:,} points are too many to measure in minutes: a share of {share:g} of them is "
        "measured and the others are predicted; to measure all, give share=1 (--share 1)"
    )
    return share


def _named_model(name: str, database: Points) -> Any:
    if database.y is None:
        raise InputError("database has no labels: give y")
    return model_from_name(name, task_of_labels(database.y))


def _check_classes(database: Points, test: Points | None, rows: Points) -> None:
    """Refuse a database with one class only; warn of labels that are not in the database."""
    assert database.y is not None
    known = set(database.y.tolist())
    check_repeated(database.y, name="database")
    if len(known) == 1:
        raise InputError(
            f"database: every y is {known.pop()!r}: give rows with at least two different labels"
        )
    for name, points in (("test set", test), ("points", rows)):
        labels = set() if points is None or points.y is None else set(points.y.tolist())
        unseen = sorted(str(label) for label in labels - known)
        some = ", ".join(unseen[:5])
        if name == "test set" and unseen and len(unseen) == len(labels):
            raise InputError(
                f"test: none of its labels ({some}) is in the database: give test rows like those"
            )
        if unseen:
            warn(f"the {name} has labels that are not in the database: {some}")
