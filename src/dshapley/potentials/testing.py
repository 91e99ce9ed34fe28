"""Checks that a potential or a learner, ours or one that you write, keeps its contract.

A check raises an AssertionError that says what went wrong, on which set, and by how much.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshapley.data.points import Array, Bundles, Points
from dshapley.errors import FitError, InputError
from dshapley.learners import Refit, learner
from dshapley.learners.fast import double
from dshapley.learners.refit import is_classifier
from dshapley.metrics import METRICS
from dshapley.potentials import (
    ModelPotential,
    Potential,
    describe,
    marginals,
    marginals_of_each,
    potential,
    potentials,
    seeded,
)

__all__ = ["check_learner", "check_potential"]


def check_potential(U: Potential, points: Points, *, tolerance: float = 1e-9) -> None:
    """Check, on sets made of `points`, that U can be used in a run.

    - U(S) is a finite number for every set: empty, of one point, of one class, with repeats.
    - U(S) is the same when it is asked twice.
    - `U.marginals`, if U has it, equals U(S + z) - U(S), for points and for bundles.
    - U does not change S.
    - The description of U can be stored as JSON and does not change.

    >>> import numpy as np
    >>> points = Points(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    >>> check_potential(lambda S: float(len(S)), points)
    >>> check_potential(lambda S: S.X.max(), points)
    Traceback (most recent call last):
    ...
    AssertionError: U of the empty set failed: ValueError: zero-size array to reduction ...
    """
    U = seeded(U, 1)
    Z = points.take(range(min(4, len(points))))
    for name, S in _sets(points):
        before = S.fingerprint()
        worth = _number(U, S, f"U of {name}")
        again = _number(U, S, f"U of {name}")
        assert worth == again, f"U of {name} is {worth}, but {again} when asked again"
        bundles = Bundles(Z, np.arange(len(Z)) // 2)
        for kind, asked in (("points", Z), ("bundles", bundles)):
            one_by_one = [_number(U, S + z, f"U of {name} and one of the {kind}") for z in asked]
            _equal(
                marginals(U, S, asked),
                np.array(one_by_one) - worth,
                f"the marginals of {kind} at {name}",
                tolerance,
            )
        assert S.fingerprint() == before, f"U changed {name}: it must leave S as it is"
    first, second = (json.dumps(describe(U)) for _ in range(2))
    assert first == second, f"the description of U changes from {first} to {second}"


def check_learner(
    estimator: Any,
    *,
    metrics: Sequence[str] | None = None,
    tolerance: float = 1e-9,
    reference: Any = None,
) -> None:
    """Check that the learner registered for `estimator` gives the same scores as refitting it.

    The data are random, tiny, repeated, of one class, collinear, badly scaled and high-dimensional,
    in float32 and float64, with labels of two and three classes or with numbers. The check runs for
    each metric that fits, and a learner with a method `scores_by_each` must give each metric the
    same scores as alone. Data of float32 are refitted in float64, the precision of fast learners.
    If refitting fails, the learner must fail too.

    Parameters
    ----------
    estimator
        An estimator of a type that has a registered learner (`dshapley.learner.register`).
    metrics
        The names of the metrics; by default all that the estimator can be scored with.
    tolerance
        The largest difference in U that counts as equal.
    reference
        The estimator to refit, by default `estimator` itself. For an iterative estimator, give the
        same estimator with a tight convergence tolerance.

    Examples
    --------
    >>> from sklearn.naive_bayes import ComplementNB
    >>> check_learner(ComplementNB())
    Traceback (most recent call last):
    ...
    dshapley.errors.InputError: ComplementNB is refitted: no learner is registered for it, ...
    """
    if isinstance(learner(estimator), Refit):
        raise InputError(
            f"{type(estimator).__name__} is refitted: no learner is registered for it, so there is "
            "nothing to compare"
        )
    for case in _cases(estimator):
        names = _metrics(estimator, case.test) if metrics is None else metrics
        _compare_together(estimator, case, names)
        for metric in names:
            U = potential(estimator, test=case.test, metric=metric)
            refit = replace(
                U,
                learner=Refit(estimator if reference is None else reference),
                test=double(case.test),
            )
            for name, S in _sets(case.database):
                where = f"{case.name}: the {metric} at {name}"
                _compare(U, refit, S, case.Z, where, tolerance)


_ROUNDING = 1e-12
"""The difference that is allowed between the scores by one metric alone and beside others."""


def _compare_together(estimator: Any, case: _Case, metrics: Sequence[str]) -> None:
    """Check that each metric gets the same scores alone and in one call with the others."""
    Us = potentials(estimator, test=case.test, metrics=metrics) if metrics else []
    if len(Us) < 2 or not hasattr(Us[0].learner, "scores_by_each"):
        return
    for name, S in _sets(case.database):
        alone = [_scores(U, S, case.Z) for U in Us]
        if any(scores is None for scores in alone):
            continue  # `_compare` checks that refitting fails too
        together = zip(Us, marginals_of_each(Us, S, case.Z), alone, strict=True)
        for U, gains, scores in together:
            assert scores is not None
            where = f"{case.name}: the {U.metric.name} beside other metrics at {name}"
            _equal(gains, scores[1:] - scores[0], where, _ROUNDING)


def _compare(
    U: ModelPotential, refit: ModelPotential, S: Points, Z: Points, where: str, tolerance: float
) -> None:
    expected = _scores(refit, double(S), double(Z))
    found = _scores(U, S, Z)
    if expected is not None and found is not None:
        _equal(found, expected, where, tolerance)
        return
    assert (found is None) == (expected is None), (
        f"{where}: {'the learner' if found is None else 'refitting'} fails, but "
        f"{'refitting' if found is None else 'the learner'} does not"
    )
    if len(Z) > 1:  # find out which points fail, as some may not
        for z in Z:
            _compare(U, refit, S, z, where, tolerance)


@dataclass(frozen=True, kw_only=True)
class _Case:
    """Data for comparing a learner with refitting."""

    name: str
    database: Points
    Z: Points
    test: Points


def _cases(estimator: Any) -> Iterator[_Case]:
    rng = np.random.default_rng(20)
    kinds = [2, 3] if is_classifier(estimator) else [0]
    for classes in kinds:
        for name, X in _features(rng):
            y = _labels(X, classes, rng)
            n = len(X) // 3
            yield _Case(
                name=f"{name} data, {classes} classes" if classes else f"{name} data",
                database=Points(X[:n], y[:n]),
                Z=Points(X[n : n + 4], y[n : n + 4]),
                test=Points(X[n:], y[n:]),
            )


def _features(rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    X = rng.normal(size=(45, 3))
    yield "random", X
    yield "float32", X.astype(np.float32)
    yield "repeated", np.tile(X[:15], (3, 1))
    yield "collinear", np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])
    yield "badly scaled", X * [1e-4, 1.0, 1e4]
    yield "shifted", X + 100.0
    yield "high-dimensional", rng.normal(size=(45, 40))


def _labels(X: Array, classes: int, rng: np.random.Generator) -> Array:
    """Noisy labels that are equal for equal rows.

    Otherwise the scores would depend on how nearest neighbours break ties, which is not specified.
    """
    _, which = np.unique(X, axis=0, return_inverse=True)
    noise = rng.normal(size=len(X))[which]
    score = X[:, :3] @ [1.0, 1.0, 1.0] / X[:, :3].std() + 0.3 * noise
    if not classes:
        return np.asarray(score, dtype=np.float64)
    cuts = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return np.array(["low", "middle", "high"])[np.digitize(score, cuts)]


def _sets(points: Points) -> Iterator[tuple[str, Points]]:
    """Sets that a run can draw, each with a name for messages."""
    n = len(points)
    yield "the empty set", points.take([])
    yield "a set of one point", points.take([0])
    yield "a point twice", points.take([0, 0])
    if points.y is not None:
        one_class = np.flatnonzero(points.y == points.y[0])
        yield "a set of one class", points.take(one_class)
    for size in (2, 5, n):
        rng = np.random.default_rng(size)
        yield f"a random set of {size} points", points.sample(size, rng)
    yield "all points twice", points + points


def _metrics(estimator: Any, test: Points) -> list[str]:
    """The metrics that the estimator can be scored with."""
    fitting = []
    for name in METRICS:
        try:
            potential(estimator, test=test, metric=name)
        except InputError:
            continue
        fitting.append(name)
    return fitting


def _scores(U: ModelPotential, S: Points, Z: Points) -> Array | None:
    """U(S) and all U(S + z), or None if any of the models cannot be trained."""
    try:
        worth = U(S)
        return np.concatenate([[worth], worth + U.marginals(S, Z)])
    except FitError:
        return None


def _number(U: Potential, S: Points, what: str) -> float:
    try:
        worth = float(U(S))
    except Exception as error:
        raise AssertionError(f"{what} failed: {type(error).__name__}: {error}") from error
    assert np.isfinite(worth), f"{what} is {worth}: U must be a finite number for every set"
    return worth


def _equal(found: Array, expected: Array, what: str, tolerance: float) -> None:
    assert found.shape == expected.shape, f"{what}: {found.shape} numbers, not {expected.shape}"
    gap = np.abs(found - expected)
    worst = int(gap.argmax())
    assert gap[worst] <= tolerance, (
        f"{what}: off by {gap[worst]:.2g} at index {worst}: {found[worst]:.9g} instead of "
        f"{expected[worst]:.9g}"
    )
