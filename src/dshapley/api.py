"""One call for people in a hurry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.design import Design
from dshapley.errors import InputError, warn
from dshapley.metrics import Metric
from dshapley.models import model_from_name
from dshapley.points import Array, Bundles, Points, as_points
from dshapley.potentials import Way, potential
from dshapley.preprocessing import Preprocess
from dshapley.regression import numbers
from dshapley.runs import run
from dshapley.stopping import StopRule, stop_rule
from dshapley.targets import check_repeated, task_of_labels
from dshapley.valuation import Valuation, completed, estimate

__all__ = ["default_m", "sampled", "value"]

_FEWEST = 10
"""Points that a regression needs."""


def value(
    X: Any,
    y: Any = None,
    *,
    model: Any,
    test: Points | tuple[Any, Any],
    points: Points | tuple[Any, Any] | None = None,
    groups: Any = None,
    metric: str | Metric | Callable[[Array, Array], float] | None = None,
    empty: float | None = None,
    min_rows: int = 1,
    path: Way = "auto",
    preprocess: Preprocess = "each",
    m: int | None = None,
    weights: Any = "uniform",
    stratified: bool = False,
    anchor: bool = False,
    p: float = 1.0,
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
        Where models are scored: Points or a pair (X, y).
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
        By default 1,000, or the size of the database if that is less.
    weights
        Size weights: "uniform", "1/k", "k^-a", an array of m probabilities, or "auto": found by
        the first 100 draws, from the spread and the time of marginals of each size.
    stratified, anchor
        Balanced sizes, and the efficiency anchor: smaller errors from as many draws
        (docs/precision.md).
    p
        Measure each point with this probability only, and predict the others (Fast-D-Shapley,
        Algorithm 2). The result says which, and how well held-out points were predicted.
    draws, precision, seconds, until
        When to stop: after so many draws, when every value is known to within +-precision (with
        95 % confidence, all at once: `dshapley.stopping.Precision`), after so much time, or by a
        rule of yours; whichever comes first. By default by the paper's rule,
        `dshapley.stopping.Stable`.
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
    """
    database = as_points(X if isinstance(X, Points) and y is None else (X, y), name="database")
    if isinstance(model, str):
        model = _named_model(model, database)
    U = potential(model, test=test, metric=metric, empty=empty, min_rows=min_rows, path=path,
                  preprocess=preprocess, database=database)  # fmt: skip
    rows = database if points is None else as_points(points, name="points")
    Z = rows if groups is None else Bundles(rows, groups)
    if until is not None and not (draws is None and precision is None and seconds is None):
        raise InputError("give either until= or draws=, precision= and seconds=")
    rule = until if until is not None else stop_rule(
        draws=draws, precision=precision, seconds=seconds
    )  # fmt: skip
    m = default_m(database) if m is None else m
    U.check(database, name="database")
    if U.classification:
        _check_classes(database, U.test, rows)
    design = Design(database, m=m, weights=weights, seed=seed, stratified=stratified, anchor=anchor)
    measured = np.ones(len(Z), dtype=bool) if p == 1 else sampled(Z, p, seed)
    Z_p = rows.take(measured) if p != 1 else Z
    record = run(U, design, Z_p, until=rule, store=store, n_jobs=n_jobs, progress=progress,
                 info={**(info or {}), "p": p})  # fmt: skip
    valuation = estimate(record, points=Z_p)
    return valuation if p == 1 else completed(valuation, rows, measured)


def sampled(Z: Points | Bundles, p: float, seed: int) -> NDArray[np.bool_]:
    """Which points are measured: each by itself with probability p (Algorithm 2)."""
    if isinstance(Z, Bundles):
        raise InputError("p: bundles cannot be predicted from one another; value all of them")
    if not isinstance(p, int | float | np.number) or not 0 < p < 1:
        raise InputError(f"p = {p}: the share of points to measure is above 0 and at most 1")
    numbers(Z)  # an error now, not after the draws
    chosen = np.random.default_rng([seed, len(Z)]).random(len(Z)) < p
    if chosen.sum() < _FEWEST:
        raise InputError(
            f"p = {p} leaves {chosen.sum()} of {len(Z)} points to learn from: raise it, so that "
            f"{_FEWEST} or more are measured"
        )
    if chosen.all():
        raise InputError(f"p = {p} leaves no point to predict: leave it out")
    return chosen


def default_m(database: Points) -> int:
    """The data set size to value for, where none is asked for."""
    return min(1000, len(database))


def _named_model(name: str, database: Points) -> Any:
    if database.y is None:
        raise InputError("database has no labels: give y")
    return model_from_name(name, task_of_labels(database.y))


def _check_classes(database: Points, test: Points, rows: Points) -> None:
    """Refuse a database without anything to learn; warn of labels that it never shows."""
    assert database.y is not None
    known = set(database.y.tolist())
    check_repeated(database.y, name="database")
    if len(known) == 1:
        raise InputError(f"database: every y is {known.pop()!r}: there is nothing to learn")
    for name, points in (("test set", test), ("points", rows)):
        labels = set() if points.y is None else set(points.y.tolist())
        unseen = sorted(str(label) for label in labels - known)
        some = ", ".join(unseen[:5])
        if name == "test set" and len(unseen) == len(labels):
            raise InputError(f"test: none of its labels ({some}) is in the database")
        if unseen:
            warn(f"the {name} has labels that the database never shows: {some}")
