"""Learn with any scikit-learn compatible estimator, by retraining it on S and on every S + z."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.errors import FitError, InputError, is_whole
from dshapley.learners.protocol import Query

__all__ = ["Refit", "check_min_rows", "described", "is_classifier", "seeded", "training_sets"]


@dataclass(frozen=True)
class Refit:
    """A learner that retrains its estimator for every set.

    A set of fewer than `min_rows` rows gets the constant predictor of its labels. `reason` says why
    the estimator is retrained although its type has a fast learner.
    """

    estimator: Any
    min_rows: int = 1
    reason: str = ""

    def __post_init__(self) -> None:
        # Check only for `fit`: some estimators have `predict` only after they are fitted.
        if not hasattr(self.estimator, "fit"):
            what = repr(self.estimator)[:60]
            raise InputError(f"{what} has no method fit: give a scikit-learn estimator")
        check_min_rows(self.min_rows)
        if isinstance(self.estimator, type):
            name = self.estimator.__name__
            raise InputError(f"{name} is a class: give an estimator, {name}()")

    def work(self, k: Floats) -> Floats:
        """The work of a fit on k - 1 rows: a fixed cost of about a thousand rows, plus k."""
        return 1000 + k

    def scores(self, S: Points, Z: Points | Bundles, query: Query, seed: int) -> Floats:
        """The score trained on S, then the score trained on S + z for each z."""
        return self.scores_by_each(S, Z, [query], seed)[:, 0]

    def scores_by_each(
        self, S: Points, Z: Points | Bundles, queries: Sequence[Query], seed: int
    ) -> Floats:
        """A column of scores for each query; see `dshapley.learners.protocol.scores_by_each`."""
        found = np.empty((1 + len(Z), len(queries)))
        for template, columns in self._templates(queries, seed):
            asked = [queries[column] for column in columns]
            for i, T in enumerate(training_sets(S, Z)):
                rows = self._rows(template, T, asked, seed)
                for column, query, row in zip(columns, asked, rows, strict=True):
                    found[i, column] = query.score(row)[0]
        return found

    def _templates(self, queries: Sequence[Query], seed: int) -> list[tuple[Any, list[int]]]:
        """The estimators to train, each with the queries that its models answer: mostly one."""
        plain, ranking = seeded(self.estimator, seed), seeded(self.estimator, seed)
        ranks = [query.output in ("score", "decision") for query in queries]
        everyone = list(range(len(queries)))
        if not _one_score_a_class(ranking):
            return [(plain, everyone)]
        parts = [(plain, [i for i in everyone if not ranks[i]])]
        parts.append((ranking, [i for i in everyone if ranks[i]]))
        return [(template, columns) for template, columns in parts if columns]

    def _rows(self, template: Any, T: Points, queries: list[Query], seed: int) -> list[Array]:
        """One row of outputs for each query."""
        if len(T) == 0:
            return [query.constant(query.y) for query in queries]
        assert T.y is not None
        if len(T) < self.min_rows or (queries[0].classes is not None and _one_class(T.y)):
            return [query.constant(T.y) for query in queries]
        try:
            with _global_seed(seed):
                return _trained(template, T, queries)
        except Exception as error:
            if _finds_nothing(template, error):
                return [query.constant(T.y) for query in queries]
            raise FitError(_what_failed(template, T, error)) from error

    def describe(self) -> dict[str, Any]:
        """The estimator's type and parameters."""
        why = {"path.reason": self.reason} if self.reason else {}
        return {"path": "refit", **why, "min_rows": self.min_rows, **described(self.estimator)}

    def accepts_nan(self) -> bool:
        """Whether missing values may reach the estimator: yes, unless it is known to refuse them.

        scikit-learn's tag is wrong for an estimator made of others: a pipeline with an imputer says
        that it refuses NaN. Such estimators are tried, and a fit that fails is an error.
        """
        if not hasattr(self.estimator, "__sklearn_tags__"):
            return True
        from sklearn.utils import get_tags

        composed = len(self.estimator.get_params(deep=True)) > len(
            self.estimator.get_params(deep=False)
        )
        return composed or bool(get_tags(self.estimator).input_tags.allow_nan)


def check_min_rows(min_rows: int) -> None:
    """Raise an InputError unless `min_rows` is a whole number of at least 1."""
    if not is_whole(min_rows, least=1):
        raise InputError(f"min_rows = {min_rows!r}: it must be a whole number, 1 or more")


def described(estimator: Any) -> dict[str, Any]:
    """The type and the parameters of an estimator, or its contents if it has no `get_params`."""
    kind = type(estimator)
    found: dict[str, Any] = {"estimator": f"{kind.__module__}.{kind.__qualname__}"}
    if not hasattr(estimator, "get_params"):
        return {**found, "estimator.contents": [estimator]}
    for name, value in sorted(estimator.get_params(deep=True).items()):
        if not _is_random_state(name):  # each draw sets a new one
            found[f"estimator.{name}"] = value
    return found


def training_sets(S: Points, Z: Points | Bundles) -> Iterator[Points]:
    """S, then S + z for each z."""
    yield S
    if isinstance(Z, Bundles):
        yield from (S + bundle for bundle in Z)
        return
    # Join S and all z once: each training set is then a cheap selection of rows.
    joined = S + Z
    index = np.arange(len(S) + 1)
    for row in range(len(S), len(joined)):
        index[-1] = row
        yield joined.take(index)


def is_classifier(estimator: Any) -> bool:
    """Whether `estimator` is a classifier; InputError if it is neither that nor a regressor."""
    from sklearn import base

    if hasattr(estimator, "predict_proba"):
        return True
    if hasattr(estimator, "__sklearn_tags__"):
        if base.is_classifier(estimator):
            return True
        if base.is_regressor(estimator):
            return False
    # how estimators said it before there were tags
    kind = getattr(estimator, "_estimator_type", None)
    if kind in ("classifier", "regressor"):
        return bool(kind == "classifier")
    raise InputError(
        f"{type(estimator).__name__} is neither a classifier nor a regressor: give one of "
        "these, or derive your class from ClassifierMixin or RegressorMixin"
    )


def _one_class(y: Array) -> bool:
    return bool((y == y[0]).all())


def _trained(template: Any, T: Points, queries: list[Query]) -> list[Array]:
    """One row of outputs for each query, of one copy of the template, trained on T."""
    from sklearn.base import clone

    model = clone(template, safe=False)
    _cap_neighbours(model, len(T))
    model.fit(T.X, T.y)
    answered = _Answered(model)
    return [_answer(answered, query)[np.newaxis] for query in queries]


class _Answered:
    """A trained model whose methods are each called once for the test rows.

    A model may draw random numbers when it predicts, so each method starts from the state that the
    fit has left: what one query gets does not depend on which others there are.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._after_fit = np.random.get_state()  # noqa: NPY002
        self._found: dict[str, Array] = {}

    def by(self, method: str, query: Query) -> Array:
        """What this method of the model returns for the test rows; a copy for each query."""
        if method not in self._found:
            np.random.set_state(self._after_fit)  # noqa: NPY002
            self._found[method] = np.asarray(getattr(self.model, method)(query.X))
            return self._found[method]
        return self._found[method].copy()


def _answer(answered: _Answered, query: Query) -> Array:
    """The model's outputs for the test rows, of the kind that the query needs."""
    model = answered.model
    if query.output == "prediction":
        return answered.by("predict", query).reshape(len(query.y))
    if query.output == "label":
        return query.codes(answered.by("predict", query))
    if query.output != "decision" and (
        query.output == "probability" or not _prefers_decision(model)
    ):
        return query.spread(model.classes_, answered.by("predict_proba", query), fill=0.0)
    decision = answered.by("decision_function", query)
    if decision.ndim == 1:
        decision = np.column_stack([-decision, decision])
    return query.spread(model.classes_, decision, fill=-np.inf)


def _prefers_decision(model: Any) -> bool:
    """Whether scores are decision values, not probabilities.

    With two classes decision values have fewer ties. With more, only probabilities can be compared
    between rows.
    """
    if not hasattr(model, "decision_function"):
        return False
    return len(model.classes_) == 2 or not hasattr(model, "predict_proba")


def seeded(estimator: Any, seed: int) -> Any:
    """A copy of `estimator` with every random_state, also nested ones, drawn from `seed`.

    S and all S + z of a draw are trained from this one copy, so they share their random numbers.
    """
    from sklearn.base import clone

    copy = clone(estimator, safe=False)
    if not hasattr(copy, "get_params"):
        return copy
    rng = np.random.default_rng(seed)
    states = {
        name: int(rng.integers(2**31 - 1))
        for name in sorted(copy.get_params(deep=True))
        if _is_random_state(name)
    }
    return copy.set_params(**states) if states else copy


def _is_random_state(name: str) -> bool:
    return name.split("__")[-1] == "random_state"


_global_generator = threading.Lock()


@contextlib.contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Seed numpy's global random generator, and restore its state afterwards.

    Some randomness has no other source: a shuffling splitter inside a grid search, for example, is
    not a parameter of the estimator. All threads share the generator, so fits in the threads of one
    process take turns. Small fits hold Python's global lock nearly all the time anyway; use
    processes to use several cores.
    """
    with _global_generator:
        before = np.random.get_state()  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


def _one_score_a_class(template: Any) -> bool:
    """Make support vector machines output one score for each class, not for each pair.

    Returns whether that has changed the template.
    """
    if not hasattr(template, "get_params"):
        return False
    pairwise = [
        name
        for name, value in template.get_params(deep=True).items()
        if name.split("__")[-1] == "decision_function_shape" and value == "ovo"
    ]
    if pairwise:
        template.set_params(**dict.fromkeys(pairwise, "ovr"))
    return bool(pairwise)


def _cap_neighbours(model: Any, n: int) -> None:
    """Lower n_neighbors to the number of rows n: on a small S, kNN uses all rows."""
    if not hasattr(model, "get_params"):
        return
    for name, value in model.get_params(deep=True).items():
        if (
            name.split("__")[-1] == "n_neighbors"
            and isinstance(value, int | np.integer)
            and value > n
        ):
            model.set_params(**{name: n})


def _finds_nothing(template: Any, error: Exception) -> bool:
    """Whether AdaBoost failed because its first tree is no better than chance.

    This happens where equal rows have different labels.
    """
    return type(template).__name__ == "AdaBoostClassifier" and "worse than random" in str(error)


def _what_failed(model: Any, T: Points, error: Exception) -> str:
    reason = " ".join(str(error).split())[:300]
    return (
        f"{type(model).__name__} could not be trained and scored on {len(T)} rows: {reason}. "
        "U(S) must be defined for every S: if only small sets fail, raise min_rows, so that they "
        "get a constant predictor, or choose parameters for small sets (such as fewer inner folds)"
    )
