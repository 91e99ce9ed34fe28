"""Potentials: U(S), what a set of points is worth.

Any function from Points to a float is a potential. Two optional methods make it better:
`U.marginals(S, Z)`, where U(S + z) for all z together costs less than one by one, and
`U.seeded(seed)`, where U is random: the same U with its randomness fixed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from dshapley.errors import FitError, InputError, warn
from dshapley.identity import Plain, plain
from dshapley.learners import Fast, Learner, Query, Refit, learner
from dshapley.learners.refit import is_classifier
from dshapley.metrics import Metric
from dshapley.models import model_from_name
from dshapley.points import Array, Bundles, Floats, Points, as_points
from dshapley.preprocessing import Fitted, Preprocess, fitted_once, names, parts
from dshapley.scorers import ScorerScore, chosen_metric
from dshapley.targets import task_of_labels

__all__ = [
    "MeanPotential",
    "ModelPotential",
    "Potential",
    "Way",
    "check_points",
    "describe",
    "marginals",
    "potential",
    "seeded",
]


Way: TypeAlias = Literal["auto", "fast", "refit"]
"""How marginals are computed: see `potential`."""


class Potential(Protocol):
    """U: sets of points -> numbers, for every set: empty, of one class, with repeats."""

    def __call__(self, S: Points, /) -> float:
        """What S is worth."""
        ...


def marginals(U: Potential, S: Points, Z: Points | Bundles) -> Floats:
    """U(S + z) - U(S) for each z of Z, by `U.marginals` where there is one.

    >>> import numpy as np
    >>> Z = Points(np.arange(3.0).reshape(-1, 1), [0, 0, 1])
    >>> marginals(lambda S: len(S) ** 2, Z, Z)
    array([7., 7., 7.])
    """
    if hasattr(U, "marginals"):
        gains: Floats = np.asarray(U.marginals(S, Z), dtype=np.float64)
    else:
        base = float(U(S))
        gains = np.array([float(U(S + z)) - base for z in Z])
    if not np.isfinite(gains).all():
        z = int(np.argwhere(~np.isfinite(gains))[0][0])
        raise FitError(f"U(S + z) - U(S) = {gains[z]} for point {z} and |S| = {len(S)}")
    return gains


def seeded(U: Potential, seed: int) -> Potential:
    """U with its own randomness fixed by `seed`, where it has any."""
    if hasattr(U, "seeded"):
        fixed: Potential = U.seeded(seed)
        return fixed
    return U


def check_points(U: object, points: Points | Bundles, *, name: str) -> None:
    """Raise an InputError where U says that it cannot use `points`."""
    if hasattr(U, "check"):
        U.check(points.points if isinstance(points, Bundles) else points, name=name)


@dataclass(frozen=True, eq=False)
class ModelPotential:
    """U(S) = the metric, on the test set, of the model trained on S. Made by `potential`."""

    learner: Learner
    test: Points
    metric: Metric
    classification: bool
    empty: float | None = None
    seed: int = 0
    preprocess: Preprocess | None = None
    """Where the steps of a pipeline are fitted; None for an estimator without steps."""
    fitted: Fitted | None = None
    """With preprocess = "once": those steps."""

    def __call__(self, S: Points, /) -> float:
        """What S is worth: train on it, score on the test set."""
        return float(self._scores(S, S.take(slice(0)))[0])

    def marginals(self, S: Points, Z: Points | Bundles) -> Floats:
        """U(S + z) - U(S) for each z, all with the same random state."""
        scores = self._scores(S, Z)
        return scores[1:] - scores[0]

    def seeded(self, seed: int) -> ModelPotential:
        """The same potential, its learner's randomness fixed by `seed`."""
        fixed = replace(self, seed=seed)
        fixed.__dict__["query"] = self.query  # a property of the test set alone
        return fixed

    @cached_property
    def query(self) -> Query:
        """What each trained model is asked."""
        assert self.test.y is not None
        classes = np.unique(self.test.y) if self.classification else None
        return Query(self._seen(self.test, name="test"), self.metric, classes)

    def _scores(self, S: Points, Z: Points | Bundles) -> Floats:
        if S.y is None or (Z.points if isinstance(Z, Bundles) else Z).y is None:
            raise InputError("these points have no labels, and a model needs them")
        if self.fitted is not None:
            S, Z = self.fitted.set(S), self.fitted.asked(Z)
        scores = self.learner.scores(S, Z, self.query, self.seed)
        if len(S) == 0 and self.empty is not None:
            scores[0] = self.empty
        if not np.isfinite(scores).all():
            raise FitError(
                f"the {self.metric.name} of a model trained on about {len(S)} rows is not a number"
            )
        return scores

    def warm_up(self, database: Points, Z: Points | Bundles) -> None:
        """Have loops compiled, or read from numba's cache, before the clock of a run starts.

        Workers then find them in the cache. A tiny set does; an error that it may raise is not one
        of the run's sets.
        """
        if isinstance(self.learner, Fast) and isinstance(Z, Points):
            with contextlib.suppress(FitError):
                self.marginals(_some_of_each(database), Z.take(slice(0, 2)))

    def work(self, k: Floats) -> Floats:
        """About how much work a marginal of size k takes (see `Learner.work`)."""
        return self.learner.work(k)

    def empty_value(self) -> float:
        """U(empty): `empty` where it was given, else the score of a predictor without features."""
        if self.empty is not None:
            return self.empty
        return float(self.query.score(self.query.constant(self.query.y))[0])

    def describe(self) -> dict[str, Any]:
        """What identifies U, readable, for a run's manifest."""
        return {
            **({} if self.preprocess is None else {"preprocess": self.preprocess}),
            **({} if self.fitted is None else self.fitted.describe()),
            **self.learner.describe(),
            "metric": self.metric.name,
            "metric.score": self.metric.score,
            "test": self.test.fingerprint(),
            "empty": self.empty_value(),
        }

    def _seen(self, points: Points, *, name: str) -> Points:
        """The points as the learner sees them."""
        return points if self.fitted is None else self.fitted.points(points, name=name)

    def check(self, points: Points, *, name: str) -> None:
        """Raise an InputError for points that no model of this potential could be trained on."""
        _check_columns(points, self.test, name=name)
        seen = self._seen(points, name=name)
        called = name if seen is points else f"{name}, transformed,"
        _check_finite(seen, name=called, nan_allowed=self.learner.accepts_nan())
        if isinstance(self.learner, Fast):
            _check_numbers(seen, name=name)
        if points.y is None:
            raise InputError(f"{name} has no labels: give y")
        assert self.test.y is not None
        _check_labels(points.y, self.test.y, name=name, classification=self.classification)

    def check_test(self, test: Points, *, of: Points) -> None:
        """Raise an InputError where the metric says nothing of these test rows, a part of `of`."""
        assert test.y is not None
        assert of.y is not None
        _check_test(self.metric, test.y, classification=self.classification)
        n_classes = len(np.unique(of.y)) if self.classification else 1
        if n_classes == 2 and len(np.unique(test.y)) < 2 and self.metric.name not in _OF_ROWS:
            raise InputError(f"{self.metric.name} is not defined on a test set of one class")
        if isinstance(self.metric.score, ScorerScore):
            _check_scorer(replace(self, test=test))


_OF_ROWS = ("accuracy", "log_score", "brier")
"""Metrics that are means over test rows, whatever their classes."""


def potential(
    estimator: Any,
    *,
    test: Points | tuple[Any, Any],
    metric: str | Metric | Callable[[Array, Array], float] | None = None,
    empty: float | None = None,
    min_rows: int = 1,
    path: Way = "auto",
    preprocess: Preprocess = "each",
    database: Points | tuple[Any, Any] | None = None,
) -> ModelPotential:
    """The potential U(S) = metric, on `test`, of `estimator` trained on S.

    U is total. U(empty) is `empty`, or the score of the predictor that says the same of every
    row: the most frequent test label (so for accuracy the majority rate), the test set's class
    frequencies, for regression its mean. Trained on one class, a model predicts that class. A
    fit that fails is an error, never a zero.

    Parameters
    ----------
    estimator
        Any scikit-learn compatible classifier or regressor, a whole pipeline too. Or the name
        of one from `dshapley.models.MODELS`, such as "logistic"; whether it is a classifier
        follows from the test labels, as for tables (`dshapley.targets.task_of_labels`).
    test
        Points, or a pair (X, y).
    metric
        A name from `dshapley.metrics.METRICS`, a scorer of scikit-learn or its name
        (`make_scorer(...)`, "f1_macro"; docs/theory.md), a `Metric`, or a function
        (y, predictions) -> float. By default accuracy for a classifier and neg_mse for a
        regressor.
    empty
        U(empty), if not the default.
    min_rows
        Smaller sets are not fitted: they get the constant predictor of their own labels. For
        estimators that cannot be trained on a handful of rows.
    path
        "fast": without retraining, exactly, or for trees by loops of our own (docs/fast.md,
        docs/trees.md); an error where that is not possible. "refit": train on S and on every
        S + z. "auto": fast where possible, with a warning where only the estimator's parameters
        stand in the way. But for trees, floats of any size are computed in double precision on
        the fast path.
    preprocess, database
        Where the steps before the final estimator of a scikit-learn Pipeline are fitted: "each",
        within every set, or "once", on `database` with its labels. U then takes the same rows as
        before and transforms them itself, and the final estimator keeps its fast path, tens to
        hundreds of times faster. "each" says so in a warning, unless path="refit" asks for it.
        Without effect on an estimator without such steps.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> test = Points([[0.0], [1.0], [2.0], [9.0]], ["no", "no", "no", "yes"])
    >>> U = potential(LogisticRegression(), test=test)
    >>> U(test.take([])), U(test.take([3])), U(test)
    (0.75, 0.25, 1.0)
    """
    test = as_points(test, name="test")
    if test.y is None:
        raise InputError("test: a model is scored on labels: give y")
    if isinstance(estimator, str):
        estimator = model_from_name(estimator, task_of_labels(test.y))
    if empty is not None and not np.isfinite(empty):
        raise InputError(f"empty = {empty}: U(empty) must be a number")
    steps, final = parts(estimator)
    if preprocess not in ("each", "once"):
        raise InputError(f"preprocess = {preprocess!r}: it is 'each' or 'once'")
    fitted = None
    if steps and preprocess == "once":
        if database is None:
            raise InputError("preprocess = 'once' fits the pipeline's steps: give database=")
        fitted, estimator = fitted_once(steps, as_points(database, name="database")), final
    elif steps:
        _say_that_each_is_slow(steps, final, path)
    chosen = _learner(estimator, path)
    classification = is_classifier(estimator)
    if metric is None:
        metric = "accuracy" if classification else "neg_mse"
    scored = chosen_metric(metric, estimator=estimator, y=test.y, classification=classification)
    if scored.output == "decision" and not isinstance(chosen, Refit):
        chosen = _for_decisions(estimator, scored.name, path)
    if isinstance(chosen, Refit | Fast):
        chosen = replace(chosen, min_rows=min_rows)
    U = ModelPotential(
        chosen, test, scored, classification, empty,
        preprocess=preprocess if steps else None, fitted=fitted,
    )  # fmt: skip
    _check_metric(U.metric, estimator, classification=classification)
    _check_test(U.metric, test.y, classification=classification)
    U.check(test, name="test")
    if isinstance(scored.score, ScorerScore):
        _check_scorer(U)
    return U


def _say_that_each_is_slow(steps: list[Any], final: Any, path: Way) -> None:
    """A pipeline has no fast path, and it may be a surprise that its last step alone has one."""
    kind = type(final).__name__
    if path == "fast":
        raise InputError(
            f"path = 'fast' is not possible: {names(steps)} would be fitted within every set. Give "
            "preprocess='once', or path='refit'"
        )
    if path == "auto" and isinstance(learner(final), Fast):
        warn(
            f"{names(steps)} fitted within every set: each marginal retrains the pipeline, tens to "
            f"hundreds of times slower than {kind} alone. preprocess='once' (--preprocess once) "
            "fits these steps once, on the database; preprocess='each' with path='refit' keeps "
            "this without the notice"
        )


def _for_decisions(estimator: Any, metric: str, path: Way) -> Refit:
    """Fast learners answer with probabilities where there are more than two classes."""
    reason = f"{metric} reads decision values of more than two classes"
    if path == "fast":
        raise InputError(f"path = 'fast' is not possible: {reason}. Use 'auto' or 'refit'")
    warn(f"every marginal is refitted, which is slow: {reason}")
    return Refit(estimator, reason=reason)


def _check_scorer(U: ModelPotential) -> None:
    """An error now where scikit-learn's scorer refuses the test set, not in the first draw."""
    try:
        U.query.score(U.query.constant(U.query.y))
    except FitError as error:
        raise InputError(f"test: {error}") from error


def _some_of_each(points: Points) -> Points:
    """A few points, of every class if there are not many."""
    first = np.arange(min(len(points), _TINY))
    if points.y is None or points.y.dtype.kind == "f":
        return points.take(first)
    _, one_of_each = np.unique(points.y, return_index=True)
    return points.take(np.union1d(first, one_of_each[:_TINY]))


_TINY = 20
"""Points that every loop is tried on."""


def _learner(estimator: Any, path: Way) -> Learner:
    if path not in ("auto", "fast", "refit"):
        raise InputError(f"path = {path!r}: it is 'auto', 'fast' or 'refit'")
    if path == "refit":
        return Refit(estimator)
    chosen = learner(estimator)
    if isinstance(chosen, Refit):
        if path == "fast":
            reason = chosen.reason or f"no fast learner knows {type(estimator).__name__}"
            raise InputError(f"path = 'fast' is not possible: {reason}. Use 'auto' or 'refit'")
        if chosen.reason:
            warn(f"every marginal is refitted, which is slow: {chosen.reason}")
    return chosen


@dataclass(frozen=True, eq=False)
class MeanPotential:
    """The paper's mean estimation: U(S) = R2 - ||mean(S) - mu||^2, U(empty) = 0.

    mu and R2 = E ||s - mu||^2 are those of `database`, the distribution D itself, so that the
    distributional value is known exactly: `value`.

    >>> import numpy as np
    >>> B = Points(np.array([[-1.0], [1.0]]))
    >>> U = MeanPotential(B)
    >>> U(B.take([])), U(B.take([0])), U(B)
    (0.0, 0.0, 1.0)
    """

    database: Points
    mu: Floats = field(init=False)
    R2: float = field(init=False)

    def __post_init__(self) -> None:
        X = np.asarray(self.database.X, dtype=np.float64)
        object.__setattr__(self, "mu", X.mean(axis=0))
        object.__setattr__(self, "R2", float(((X - self.mu) ** 2).sum(axis=1).mean()))

    def __call__(self, S: Points, /) -> float:
        """What S is worth as a sample to estimate mu from."""
        if len(S) == 0:
            return 0.0
        return self.R2 - float(((np.mean(np.asarray(S.X), axis=0) - self.mu) ** 2).sum())

    def marginals(self, S: Points, Z: Points | Bundles) -> Floats:
        """U(S + z) - U(S) for all z at once."""
        total = np.asarray(S.X, dtype=np.float64).sum(axis=0)
        sets = Z.points if isinstance(Z, Bundles) else Z
        rows = np.asarray(sets.X, dtype=np.float64)
        if isinstance(Z, Bundles):
            sums = np.stack([rows[Z.groups == name].sum(axis=0) for name in Z.ids])
            sizes = Z.sizes
        else:
            sums, sizes = rows, np.ones(len(Z), dtype=np.int64)
        means = (total + sums) / (len(S) + sizes)[:, np.newaxis]
        after = self.R2 - ((means - self.mu) ** 2).sum(axis=1)
        return np.asarray(after - self(S), dtype=np.float64)

    def value(self, Z: Points, *, m: int) -> Floats:
        """The exact distributional value of each z (Proposition 2.4).

        (1 - 1/m) R2 / m + C(m) (R2 - ||z - mu||^2) / m with C(m) = sum over k = 1..m of 1/k^2.
        The paper's C(m) = 2 - 1/m + c(m) has lost a sign: it is 2 - 1/m - c(m), which is that
        sum.
        """
        if m < 1:
            raise InputError(f"m = {m}: the data set size must be 1 or more")
        C = float((1.0 / np.arange(1, m + 1) ** 2).sum())
        gap = self.R2 - ((np.asarray(Z.X) - self.mu) ** 2).sum(axis=1)
        return np.asarray(((1 - 1 / m) * self.R2 + C * gap) / m, dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """What identifies U, readable, for a run's manifest."""
        return {"potential": "mean estimation", "mean of": self.database.fingerprint()}


def describe(U: Any) -> dict[str, Plain]:
    """What identifies U, as plain values to be kept with a run and compared when it goes on.

    A plain function is known by its name, its source and what it closes over; an object by its
    own `describe()`, or by a digest of its contents.
    """
    if hasattr(U, "describe"):
        return {name: plain(value) for name, value in U.describe().items()}
    return {"potential": str(plain(U))}


def _check_columns(points: Points, test: Points, *, name: str) -> None:
    if isinstance(points.X, np.ndarray) != isinstance(test.X, np.ndarray):
        raise InputError(f"{name} and test must both be arrays or both be data frames")
    if points.X.shape[1] != test.X.shape[1]:
        raise InputError(
            f"{name} has {points.X.shape[1]} columns but the test set has {test.X.shape[1]}"
        )
    if points.columns != test.columns:
        ours = next(a for a, b in zip(points.columns, test.columns, strict=True) if a != b)
        raise InputError(f"{name} and test have other columns, or in another order: see {ours!r}")


def _check_finite(points: Points, *, name: str, nan_allowed: bool) -> None:
    X = points.X
    if isinstance(X, np.ndarray):
        if X.dtype.kind not in "fc":
            return
        missing, infinite = np.isnan(X).any(axis=0), np.isinf(X).any(axis=0)
    else:
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        missing = np.array([bool(column.isna().any()) for column in columns])
        infinite = np.array(
            [column.dtype.kind == "f" and bool(np.isinf(column).any()) for column in columns]
        )
    for bad, what in ((infinite, "infinity"), (missing & (not nan_allowed), "NaN")):
        if bad.any():
            column = points.columns[int(np.flatnonzero(bad)[0])]
            raise InputError(
                f"{name} has {what} in column {column}"
                + (f" and {bad.sum() - 1} more" if bad.sum() > 1 else "")
                + ": fill it in, or use an estimator that accepts it, such as a pipeline with an "
                "imputer"
            )


def _check_numbers(points: Points, *, name: str) -> None:
    for j, column in enumerate(points.columns):
        part = points.X[:, j] if isinstance(points.X, np.ndarray) else points.X.iloc[:, j]
        try:
            np.asarray(part, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{name}: column {column} holds more than numbers ({error}): encode it, or give a "
                "pipeline that does"
            ) from error


def _check_labels(y: Array, test: Array, *, name: str, classification: bool) -> None:
    if not classification and y.dtype.kind not in "iufb":
        raise InputError(f"{name}: a regressor needs numbers for y, not {y.dtype}")
    if classification and y.dtype.kind == "f" and (y != np.round(y)).any():
        raise InputError(
            f"{name}: y holds fractions, which are no class labels: use a regressor, or cut y "
            "into classes"
        )
    if (y.dtype.kind in "US") != (test.dtype.kind in "US"):
        raise InputError(
            f"the labels of {name} are {'text' if y.dtype.kind in 'US' else 'numbers'} and those "
            "of the test set are not: give both in one kind"
        )


def _check_metric(metric: Metric, estimator: Any, *, classification: bool) -> None:
    task = "classification" if classification else "regression"
    kind = type(estimator).__name__
    if metric.task not in (task, "any"):
        raise InputError(f"{metric.name} is a metric for {metric.task}, but {kind} does {task}")
    if not classification and metric.output != "prediction":
        raise InputError(f"{metric.name} scores classes, but {kind} does regression")
    if not hasattr(estimator, "predict"):
        return  # some estimators get their methods by being fitted
    if metric.output == "probability" and not hasattr(estimator, "predict_proba"):
        raise InputError(f"{metric.name} needs probabilities, which {kind} does not give")
    if metric.output == "score" and not any(
        hasattr(estimator, name) for name in ("predict_proba", "decision_function")
    ):
        raise InputError(f"{metric.name} needs scores, which {kind} does not give")


def _check_test(metric: Metric, y: Array, *, classification: bool) -> None:
    if metric.output == "score" and len(np.unique(y)) < 2:
        raise InputError(f"{metric.name} is not defined on a test set of one class")
    if not classification and len(np.unique(y)) < 2:
        raise InputError("the test set's y is constant: no regression can be scored on it")
