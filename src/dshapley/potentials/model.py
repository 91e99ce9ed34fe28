"""U(S) = a metric, on a test set, of a model trained on S."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points, as_points
from dshapley.data.targets import task_of_labels
from dshapley.errors import FitError, InputError, warn
from dshapley.learners import Fast, Learner, Query, Refit, learner
from dshapley.learners.by_name import model_from_name
from dshapley.learners.refit import is_classifier
from dshapley.metrics import Metric
from dshapley.metrics.scorers import ScorerScore, chosen_metric
from dshapley.potentials.checks import (
    check_columns,
    check_finite,
    check_labels,
    check_metric,
    check_numbers,
    check_test,
)
from dshapley.potentials.preprocessing import Fitted, Preprocess, fitted_once, names, parts

__all__ = ["ModelPotential", "Retrain", "potential"]


Retrain: TypeAlias = Literal["auto", "never", "always"]
"""How marginals are computed: see `potential`."""


@dataclass(frozen=True, eq=False)
class ModelPotential:
    """U(S) = the metric, on the test set, of the model trained on S. Made by `potential`."""

    learner: Learner
    test: Points
    _: KW_ONLY
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
        check_columns(points, self.test, name=name)
        seen = self._seen(points, name=name)
        called = name if seen is points else f"{name}, transformed,"
        check_finite(seen, name=called, nan_allowed=self.learner.accepts_nan())
        if isinstance(self.learner, Fast):
            check_numbers(seen, name=name)
        if points.y is None:
            raise InputError(f"{name} has no labels: give y")
        assert self.test.y is not None
        check_labels(points.y, self.test.y, name=name, classification=self.classification)

    def check_test(self, test: Points, *, of: Points) -> None:
        """Raise an InputError where the metric says nothing of these test rows, a part of `of`."""
        assert test.y is not None
        assert of.y is not None
        check_test(self.metric, test.y, classification=self.classification)
        n_classes = len(np.unique(of.y)) if self.classification else 1
        if n_classes == 2 and len(np.unique(test.y)) < 2 and not self.metric.mean_of_rows:
            raise InputError(f"{self.metric.name} is not defined on a test set of one class")
        if isinstance(self.metric.score, ScorerScore):
            _check_scorer(replace(self, test=test))


def potential(
    model: Any,
    *,
    test: Points | tuple[Any, Any],
    metric: str | Metric | Callable[[Array, Array], float] | None = None,
    empty: float | None = None,
    min_rows: int = 1,
    retrain: Retrain = "auto",
    preprocess: Preprocess = "each",
    database: Points | tuple[Any, Any] | None = None,
) -> ModelPotential:
    """The potential U(S) = metric, on `test`, of `model` trained on S.

    U is total. U(empty) is `empty`, or the score of the predictor that says the same of every
    row: the most frequent test label (so for accuracy the majority rate), the test set's class
    frequencies, for regression its mean. Trained on one class, a model predicts that class. A
    fit that fails is an error, never a zero.

    Parameters
    ----------
    model
        Any scikit-learn compatible classifier or regressor, a whole pipeline too. Or the name
        of one from `dshapley.models.MODELS`, such as "logistic"; whether it is a classifier
        follows from the test labels, as for tables (`dshapley.data.targets.task_of_labels`).
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
    retrain
        "never": without retraining, exactly, or for trees by loops of our own (docs/fast.md,
        docs/trees.md); an error where that is not possible. "always": train on S and on every
        S + z. "auto": only where it must be, with a warning where only the estimator's parameters
        stand in the way. But for trees, floats of any size are computed in double precision on
        the fast path.
    preprocess, database
        Where the steps before the final estimator of a scikit-learn Pipeline are fitted: "each",
        within every set, or "once", on `database` with its labels. U then takes the same rows as
        before and transforms them itself, and the final estimator keeps its fast path, tens to
        hundreds of times faster. "each" says so in a warning, unless retrain="always" asks for it.
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
    estimator = model
    if isinstance(model, str):
        estimator = model_from_name(model, task_of_labels(test.y))
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
        _say_that_each_is_slow(steps, final, retrain)
    chosen = _learner(estimator, retrain)
    classification = is_classifier(estimator)
    if metric is None:
        metric = "accuracy" if classification else "neg_mse"
    scored = chosen_metric(metric, estimator=estimator, y=test.y, classification=classification)
    if scored.output == "decision" and not isinstance(chosen, Refit):
        chosen = _for_decisions(estimator, scored.name, retrain)
    if isinstance(chosen, Refit | Fast):
        chosen = replace(chosen, min_rows=min_rows)
    U = ModelPotential(
        chosen, test, metric=scored, classification=classification, empty=empty,
        preprocess=preprocess if steps else None, fitted=fitted,
    )  # fmt: skip
    check_metric(U.metric, estimator, classification=classification)
    check_test(U.metric, test.y, classification=classification)
    U.check(test, name="test")
    if isinstance(scored.score, ScorerScore):
        _check_scorer(U)
    return U


def _say_that_each_is_slow(steps: list[Any], final: Any, retrain: Retrain) -> None:
    """A pipeline has no fast path, and it may be a surprise that its last step alone has one."""
    kind = type(final).__name__
    if retrain == "never":
        raise InputError(
            f"retrain = 'never' is not possible: {names(steps)} would be fitted within every set. "
            "Give preprocess='once', or retrain='always'"
        )
    if retrain == "auto" and isinstance(learner(final), Fast):
        warn(
            f"{names(steps)} fitted within every set: each marginal retrains the pipeline, tens to "
            f"hundreds of times slower than {kind} alone. preprocess='once' (--preprocess once) "
            "fits these steps once, on the database; preprocess='each' with retrain='always' keeps "
            "this without the notice"
        )


def _for_decisions(estimator: Any, metric: str, retrain: Retrain) -> Refit:
    """Fast learners answer with probabilities where there are more than two classes."""
    reason = f"{metric} reads decision values of more than two classes"
    if retrain == "never":
        raise InputError(f"retrain = 'never' is not possible: {reason}. Use 'auto' or 'always'")
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


def _learner(estimator: Any, retrain: Retrain) -> Learner:
    if retrain not in ("auto", "never", "always"):
        raise InputError(f"retrain = {retrain!r}: it is 'auto', 'never' or 'always'")
    if retrain == "always":
        return Refit(estimator)
    chosen = learner(estimator)
    if isinstance(chosen, Refit):
        if retrain == "never":
            reason = chosen.reason or f"no fast learner knows {type(estimator).__name__}"
            raise InputError(f"retrain = 'never' is not possible: {reason}. Use 'auto' or 'always'")
        if chosen.reason:
            warn(f"every marginal is refitted, which is slow: {chosen.reason}")
    return chosen
