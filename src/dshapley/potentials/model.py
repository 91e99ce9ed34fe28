"""The potential of a model: U(S) is the score, on a test set, of the model trained on S.

`potential` checks its arguments and makes a `ModelPotential`, which asks a learner for the scores
of the models trained on S and on every S + z.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points, as_points
from dshapley.data.targets import task_of_labels
from dshapley.errors import FitError, InputError, warn
from dshapley.learners import Fast, Learner, Query, Refit, learner
from dshapley.learners.by_name import model_from_name
from dshapley.learners.protocol import scores_by_each
from dshapley.learners.refit import is_classifier
from dshapley.metrics import Metric, Output
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

__all__ = ["MetricLike", "ModelPotential", "Retrain", "of_each", "potential", "potentials"]


Retrain: TypeAlias = Literal["auto", "never", "always"]
"""Whether models are retrained for marginals; see `potential`."""

MetricLike: TypeAlias = str | Metric | Callable[[Array, Array], float]
"""A metric, or what names one; see `potential`."""


@dataclass(frozen=True, eq=False)
class ModelPotential:
    """U(S) is the score, on the test set, of the model trained on S. `potential` makes it."""

    learner: Learner
    test: Points
    _: KW_ONLY
    metric: Metric
    classification: bool
    empty: float | None = None
    seed: int = 0
    preprocess: Preprocess | None = None
    """Where the first steps of a pipeline are fitted; None for an estimator without such steps."""
    fitted: Fitted | None = None
    """The fitted first steps if preprocess = "once", else None."""

    def __call__(self, S: Points, /) -> float:
        """Train on S and return the score on the test set."""
        return float(self._scores(S, S.take(slice(0)))[0])

    def marginals(self, S: Points, Z: Points | Bundles) -> Floats:
        """U(S + z) - U(S) for each z of Z; all models use the same random state."""
        scores = self._scores(S, Z)
        return scores[1:] - scores[0]

    def seeded(self, seed: int) -> ModelPotential:
        """The same potential with the random seed of its learner set to `seed`."""
        fixed = replace(self, seed=seed)
        fixed.__dict__["query"] = self.query  # the query does not depend on the seed
        return fixed

    @cached_property
    def query(self) -> Query:
        """The test set and the metric that each trained model is scored with."""
        assert self.test.y is not None
        classes = np.unique(self.test.y) if self.classification else None
        return Query(self._seen(self.test, name="test"), self.metric, classes)

    def answers(self, S: Points, points: Points, labels: Array) -> Floats:
        """What the model trained on S says of these points.

        For classes it is the probability of each of `labels` (the classes of the database, sorted);
        of a model without probabilities, 1 for the label that it predicts and 0 for the others. For
        regression it is the prediction.
        """
        output: Output = "prediction"
        if self.classification:
            estimator = getattr(self.learner, "estimator", None)
            output = "probability" if hasattr(estimator, "predict_proba") else "label"
        kept: list[Array] = []

        def keep(_: Array, outputs: Array) -> Floats:
            kept.append(outputs)
            return np.zeros(len(outputs))

        if self.fitted is not None:
            S, points = self.fitted.set(S), self._seen(points, name="points")
        query = Query(points, Metric("answers", output, keep), labels if len(labels) else None)
        self.learner.scores(S, S.take(slice(0)), query, self.seed)
        found = np.asarray(kept[-1][0])
        if output == "label":
            return np.asarray(found[:, np.newaxis] == np.arange(len(labels)), dtype=np.float64)
        return found[:, : len(labels)] if output == "probability" else found

    def _scores(self, S: Points, Z: Points | Bundles) -> Floats:
        return of_each([self], S, Z)[0]

    def warm_up(self, database: Points, Z: Points | Bundles) -> None:
        """Compile the loops, or read them from numba's cache, before the clock of a run starts.

        Workers then find them in the cache. A tiny set is enough for this; its FitError is ignored,
        because the set is not part of the run.
        """
        if isinstance(self.learner, Fast) and isinstance(Z, Points):
            with contextlib.suppress(FitError):
                self.marginals(_some_of_each(database), Z.take(slice(0, 2)))

    def work(self, k: Floats) -> Floats:
        """The approximate work for a marginal of set size k, for each k (see `Learner.work`)."""
        return self.learner.work(k)

    def empty_value(self) -> float:
        """U(empty): `empty` if it was given, else the score of a constant predictor.

        The constant predictor is made from the test labels (see `Query.constant`).
        """
        if self.empty is not None:
            return self.empty
        return float(self.query.score(self.query.constant(self.query.y))[0])

    def describe(self) -> dict[str, Any]:
        """The values that identify U in a run's manifest."""
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
        """The points as the learner gets them, transformed by the fitted steps if there are any."""
        return points if self.fitted is None else self.fitted.points(points, name=name)

    def check(self, points: Points, *, name: str) -> None:
        """Raise an InputError for points that this potential's models cannot be trained on."""
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
        """Raise an InputError if the metric is not defined on these test rows, a part of `of`."""
        assert test.y is not None
        assert of.y is not None
        check_test(self.metric, test.y, classification=self.classification)
        n_classes = len(np.unique(of.y)) if self.classification else 1
        if n_classes == 2 and len(np.unique(test.y)) < 2 and not self.metric.mean_of_rows:
            raise InputError(f"{self.metric.name} is not defined on a test set of one class")
        if isinstance(self.metric.score, ScorerScore):
            _check_scorer(replace(self, test=test))


def of_each(Us: Sequence[ModelPotential], S: Points, Z: Points | Bundles) -> Floats:
    """(q, 1 + |Z|) U(S), then U(S + z) for each z, of q potentials that differ by their metric.

    Models are trained once for all. Each row is, bit for bit, what its potential gives alone.
    """
    if S.y is None or (Z.points if isinstance(Z, Bundles) else Z).y is None:
        raise InputError("these points have no labels, which a model needs: give y")
    first = Us[0]
    if first.fitted is not None:
        S, Z = first.fitted.set(S), first.fitted.asked(Z)
    queries = [U.query for U in Us]
    scores = np.ascontiguousarray(scores_by_each(first.learner, S, Z, queries, first.seed).T)
    for U, row in zip(Us, scores, strict=True):
        if len(S) == 0 and U.empty is not None:
            row[0] = U.empty
        if not np.isfinite(row).all():
            raise FitError(
                f"the {U.metric.name} of a model trained on about {len(S)} rows is not a number"
            )
    return scores


def potential(
    model: Any,
    *,
    test: Points | tuple[Any, Any],
    metric: MetricLike | None = None,
    empty: float | None = None,
    min_rows: int = 1,
    retrain: Retrain = "auto",
    preprocess: Preprocess = "each",
    database: Points | tuple[Any, Any] | None = None,
) -> ModelPotential:
    """The potential U(S): the score by `metric`, on `test`, of `model` trained on S.

    U is defined for every set. U(empty) is `empty` or the score of a constant predictor, which
    predicts the most frequent test label (so accuracy is the majority rate), the class frequencies
    of the test set or, for regression, its mean. A model trained on one class predicts that class.
    A fit that fails raises an error; it never counts as zero.

    Parameters
    ----------
    model
        Any scikit-learn compatible classifier or regressor, or a pipeline that ends in one. Or a
        name from `dshapley.learners.by_name.MODELS`, such as "logistic"; the test labels then
        decide between classifier and regressor, as for tables
        (`dshapley.data.targets.task_of_labels`).
    test
        Points, or a pair (X, y).
    metric
        A name from `dshapley.metrics.METRICS`, a scorer of scikit-learn or its name
        (`make_scorer(...)`, "f1_macro"; docs/theory.md), a `Metric`, or a function
        (y, predictions) -> float. The default is accuracy for a classifier and neg_mse for a
        regressor.
    empty
        U(empty); the default is described above.
    min_rows
        Sets with fewer rows are not fitted but get the constant predictor of their own labels. Use
        it for estimators that cannot be trained on a handful of rows.
    retrain
        "never": compute the marginals exactly without retraining or, for trees, retrain by
        compiled loops (docs/fast.md, docs/trees.md); raise an error if that is not possible.
        "always": retrain the estimator on S and on every S + z. "auto": retrain only if needed,
        with a warning if the estimator's parameters are the reason. Except for trees, models that
        are not retrained are computed in double precision, also for data of lower precision.
    preprocess, database
        Where the steps before the final estimator of a scikit-learn Pipeline are fitted: "each"
        fits them within every set, "once" fits them on `database` with its labels. With "once", U
        takes untransformed rows and transforms them itself, and the final estimator keeps its fast
        path, which is tens to hundreds of times faster. With "each" a warning says so, unless
        retrain="always". These options have no effect on an estimator without such steps.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> test = Points([[0.0], [1.0], [2.0], [9.0]], ["no", "no", "no", "yes"])
    >>> U = potential(LogisticRegression(), test=test)
    >>> U(test.take([])), U(test.take([3])), U(test)
    (0.75, 0.25, 1.0)
    """
    return potentials(
        model, metrics=[metric], test=test, empty=empty, min_rows=min_rows, retrain=retrain,
        preprocess=preprocess, database=database,
    )[0]  # fmt: skip


def potentials(
    model: Any,
    *,
    metrics: Sequence[MetricLike | None],
    test: Points | tuple[Any, Any],
    empty: float | None = None,
    min_rows: int = 1,
    retrain: Retrain = "auto",
    preprocess: Preprocess = "each",
    database: Points | tuple[Any, Any] | None = None,
) -> list[ModelPotential]:
    """One potential for each metric, as `potential` makes it; all share one learner.

    The functions of `dshapley.potentials.together` train its models once for all metrics.
    """
    test = as_points(test, name="test")
    if test.y is None:
        raise InputError("test: the test set has no labels to score models on: give y")
    estimator = model
    if isinstance(model, str):
        estimator = model_from_name(model, task_of_labels(test.y))
    if empty is not None and not np.isfinite(empty):
        raise InputError(f"empty = {empty}: U(empty) must be a number")
    steps, final = parts(estimator)
    if preprocess not in ("each", "once"):
        raise InputError(f"preprocess = {preprocess!r}: use 'each' or 'once'")
    fitted = None
    if steps and preprocess == "once":
        if database is None:
            raise InputError("preprocess = 'once' fits the pipeline's steps: give database=")
        fitted, estimator = fitted_once(steps, as_points(database, name="database")), final
    elif steps:
        _say_that_each_is_slow(steps, final, retrain)
    chosen = _learner(estimator, retrain)
    classification = is_classifier(estimator)
    usual = "accuracy" if classification else "neg_mse"
    scored = [
        chosen_metric(
            usual if metric is None else metric, estimator=estimator, y=test.y,
            classification=classification,
        )
        for metric in metrics
    ]  # fmt: skip
    if not isinstance(chosen, Refit):
        chosen = _for_metrics(chosen, scored, estimator, retrain)
    if isinstance(chosen, Refit | Fast):
        chosen = replace(chosen, min_rows=min_rows)
    found = [
        ModelPotential(
            chosen, test, metric=metric, classification=classification, empty=empty,
            preprocess=preprocess if steps else None, fitted=fitted,
        )
        for metric in scored
    ]  # fmt: skip
    for U in found:
        check_metric(U.metric, estimator, classification=classification)
        check_test(U.metric, test.y, classification=classification)
        U.check(test, name="test")
        if isinstance(U.metric.score, ScorerScore):
            _check_scorer(U)
    return found


def _for_metrics(
    chosen: Learner, metrics: list[Metric], estimator: Any, retrain: Retrain
) -> Learner:
    """The learner for these metrics: another than the one chosen, if they need decision values."""
    decisions = [metric.name for metric in metrics if metric.output == "decision"]
    if not decisions:
        return chosen
    if len(decisions) < len(metrics):
        raise InputError(
            f"{decisions[0]} reads decision values of more than two classes, which only retrained "
            "models give: ask for it in a run of its own, or retrain for all metrics with "
            "retrain='always'"
        )
    return _for_decisions(estimator, decisions[0], retrain)


def _say_that_each_is_slow(steps: list[Any], final: Any, retrain: Retrain) -> None:
    """Warn that a pipeline is retrained although its final estimator alone has a fast path.

    With retrain = "never" it is an error.
    """
    kind = type(final).__name__
    if retrain == "never":
        raise InputError(
            f"retrain = 'never' is not possible: {names(steps)} would be fitted within every set. "
            "Use preprocess='once' or retrain='always'"
        )
    if retrain == "auto" and isinstance(learner(final), Fast):
        warn(
            f"{names(steps)} fitted within every set: each marginal retrains the pipeline, tens to "
            f"hundreds of times slower than {kind} alone. preprocess='once' (--preprocess once) "
            "fits these steps once, on the database; preprocess='each' with retrain='always' "
            "retrains without this warning"
        )


def _for_decisions(estimator: Any, metric: str, retrain: Retrain) -> Refit:
    """A refitted learner, as fast learners give no decision values for three or more classes."""
    reason = f"{metric} reads decision values of more than two classes"
    if retrain == "never":
        raise InputError(f"retrain = 'never' is not possible: {reason}. Use 'auto' or 'always'")
    warn(f"every marginal is refitted, which is slow: {reason}")
    return Refit(estimator, reason=reason)


def _check_scorer(U: ModelPotential) -> None:
    """Raise an InputError before the first draw if the scorer refuses the test set."""
    try:
        U.query.score(U.query.constant(U.query.y))
    except FitError as error:
        raise InputError(f"test: {error}") from error


def _some_of_each(points: Points) -> Points:
    """The first `_TINY` points, and one point of each of the first `_TINY` classes."""
    first = np.arange(min(len(points), _TINY))
    if points.y is None or points.y.dtype.kind == "f":
        return points.take(first)
    _, one_of_each = np.unique(points.y, return_index=True)
    return points.take(np.union1d(first, one_of_each[:_TINY]))


_TINY = 20
"""The number of points, and of classes, for warming up the compiled loops."""


def _learner(estimator: Any, retrain: Retrain) -> Learner:
    if retrain not in ("auto", "never", "always"):
        raise InputError(f"retrain = {retrain!r}: use 'auto', 'never' or 'always'")
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
