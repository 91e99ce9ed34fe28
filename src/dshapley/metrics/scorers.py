"""Metrics made of scikit-learn's scorers: `make_scorer(...)`, `get_scorer(...)`, or their names.

A scorer calls methods of a trained model, such as `predict`. Here it gets a stand-in for the model,
which returns the outputs that a learner has already computed, so fast learners work with scorers.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import FitError, InputError
from dshapley.metrics import METRICS, Metric, Output, as_metric

__all__ = ["ScorerScore", "chosen_metric", "is_metric_name", "is_scorer"]

_OUTPUTS: dict[str, Output] = {
    "predict": "prediction",
    "predict_proba": "probability",
    "decision_function": "score",
}
"""The output that a learner must give, for each method that a scorer may call."""

_OURS = ("accuracy", "balanced_accuracy", "r2")
"""Scorers that equal our metric of the same name on every test set."""

_MOST_COUNTS = 2 * 10**7
"""The largest table of label-pair counts that is made to find outputs with equal scores."""


def chosen_metric(
    metric: str | Metric | Callable[..., float], *, estimator: Any, y: Array, classification: bool
) -> Metric:
    """The metric that the user means: ours by name, else a scorer of scikit-learn, else a function.

    A scorer that accepts several methods calls the first one that `estimator` has. `y` holds the
    test labels.
    """
    if isinstance(metric, str) and metric not in METRICS:
        metric = _named(metric)
    if not is_scorer(metric):
        return as_metric(metric)
    name = _name(metric)
    if name in _OURS:
        return METRICS[name]
    methods, kind = _methods(metric), type(estimator).__name__
    method = next((one for one in methods if hasattr(estimator, one)), methods[0])
    if method not in _OUTPUTS:
        raise InputError(f"{name} calls {method}, which is not supported: use a function instead")
    if not classification and method != "predict":
        raise InputError(
            f"{name} scores classes, but {kind} does regression: use a metric for regression"
        )
    if hasattr(estimator, "predict") and not hasattr(estimator, method):
        raise InputError(
            f"{name} needs {' or '.join(methods)}, which {kind} does not have: use a different "
            "metric or model"
        )
    output = _OUTPUTS[method]
    classes = np.unique(y) if classification else None
    if method == "decision_function" and classes is not None and len(classes) > 2:
        output = "decision" if hasattr(estimator, "predict_proba") else "score"
    return Metric(name, output, ScorerScore(metric, name, method, classes=classes))


def is_scorer(metric: object) -> bool:
    """Whether this is a scorer of scikit-learn, which is called as scorer(estimator, X, y)."""
    return all(hasattr(metric, part) for part in ("_score_func", "_sign", "_response_method"))


def is_metric_name(name: object) -> bool:
    """Whether this is the name of one of our metrics or of a scorer of scikit-learn."""
    return name in METRICS or name in _scorers()


def _named(name: str) -> Any:
    from sklearn.metrics import get_scorer

    if name in _scorers():
        return get_scorer(name)
    close = difflib.get_close_matches(name, dict.fromkeys([*METRICS, *_scorers()]), n=3)
    if close:
        hint = f"did you mean {' or '.join(repr(other) for other in close)}?"
    else:
        hint = f"there are: {', '.join(METRICS)}; and all of sklearn.metrics.get_scorer_names()"
    raise InputError(f"unknown metric {name!r}: {hint}")


@cache
def _scorers() -> Mapping[str, Any]:
    """scikit-learn's scorers by name."""
    from sklearn.metrics import get_scorer, get_scorer_names

    return {name: get_scorer(name) for name in get_scorer_names()}


def _parts(scorer: Any) -> tuple[Any, ...]:
    kwargs = sorted((name, repr(value)) for name, value in scorer._kwargs.items())
    return scorer._score_func, scorer._sign, kwargs, _methods(scorer)


def _methods(scorer: Any) -> tuple[str, ...]:
    """The methods that a scorer accepts; it calls the first one that the estimator has."""
    methods = scorer._response_method
    return (methods,) if isinstance(methods, str) else tuple(methods)


def _name(scorer: Any) -> str:
    """scikit-learn's name for a scorer if it has one, else the name of its function."""
    known = (name for name, other in _scorers().items() if _parts(other) == _parts(scorer))
    name = next(known, None)
    # Names of our metrics are reserved, as a scorer of the same name may differ (f1, roc_auc).
    if name is not None and (name in _OURS or name not in METRICS):
        return name
    function = scorer._score_func
    return getattr(function, "__name__", type(function).__name__)


@dataclass(frozen=True)
class ScorerScore:
    """The score function of a scorer: (y, outputs) -> one score for each row of outputs."""

    scorer: Any
    name: str
    method: str
    _: KW_ONLY
    classes: Array | None
    """The classes of the test set, sorted; None for regression."""

    def __call__(self, y: Array, outputs: Array) -> Floats:
        if self.classes is not None and self.method != "predict":
            y = self.classes[y]
        X = np.zeros((len(y), 1))  # the stand-in ignores X
        first, group = self._alike(y, outputs)
        with warnings.catch_warnings():
            # With small sets warnings are common, for example of a class without any prediction.
            warnings.simplefilter("ignore", UserWarning)
            try:
                scores = [float(self.scorer(self._model(row), X, y)) for row in outputs[first]]
            except ValueError as error:
                reason = " ".join(str(error).split())
                raise FitError(f"the scorer {self.name} failed: {reason}") from error
        return np.array(scores)[group]

    def _alike(self, y: Array, outputs: Array) -> tuple[Array, Array]:
        """The rows of outputs to score, and for each row the index of the scored row it equals.

        scikit-learn's scores of labels depend only on how often each pair of a true and a predicted
        label occurs, so rows with equal counts share one call of the scorer.
        """
        each = np.arange(len(outputs))
        if self.classes is None or self.method != "predict" or not self._counts_pairs():
            return each, each
        labels, codes = np.unique(outputs, return_inverse=True)
        codes = codes.reshape(outputs.shape)
        pairs = np.searchsorted(self.classes, y) * len(labels) + codes
        n = len(self.classes) * len(labels)
        if n * len(each) > _MOST_COUNTS:
            return each, each
        counts = np.bincount((each[:, np.newaxis] * n + pairs).ravel(), minlength=len(each) * n)
        _, first, group = np.unique(
            counts.reshape(len(each), n), axis=0, return_index=True, return_inverse=True
        )
        return first, group.ravel()

    def _counts_pairs(self) -> bool:
        module = str(getattr(self.scorer._score_func, "__module__", ""))
        return module.startswith("sklearn.metrics.") and "sample_weight" not in self.scorer._kwargs

    def _model(self, row: Array) -> Any:
        """The stand-in for one trained model that the scorer gets."""
        said = self._said(row)

        def answer(X: Any) -> Array:
            return said

        answer.__name__ = self.method  # scikit-learn reads the kind of the answer from this name
        model = _stand_in(self.classes is not None)()
        setattr(model, self.method, answer)
        model.classes_ = self.classes
        return model

    def _said(self, row: Array) -> Array:
        """One row of outputs in scikit-learn's format, with columns for the test classes only."""
        if self.classes is None or self.method == "predict":
            return row
        row = row[:, : len(self.classes)]
        if self.method == "decision_function":
            return row[:, 1] if len(self.classes) == 2 else _finite(row)
        total = row.sum(axis=1, keepdims=True)
        even = np.full_like(row, 1.0 / len(self.classes))
        # Do not divide where the total is about 1, which could change the last digit.
        scaled = np.divide(row, total, out=even, where=total > 0.0)
        shares: Array = np.where(np.abs(total - 1.0) < 1e-9, row, scaled)
        return shares

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The parts that identify the scorer in a run's manifest (`dshapley.identity.plain`)."""
        function = self.scorer._score_func
        known = str(getattr(function, "__module__", "")).startswith("sklearn.")
        return {
            "function": function if not known else f"sklearn.metrics.{function.__name__}",
            "sign": self.scorer._sign,
            "method": self.method,
            **{f"kwargs.{name}": part for name, part in sorted(self.scorer._kwargs.items())},
        }


def _finite(decision: Array) -> Array:
    """Decision values with -infinity, for a class not in S, replaced by one below the row's lowest.

    scikit-learn's scorers refuse infinite values.
    """
    seen = np.isfinite(decision)
    lowest = np.where(seen, decision, np.inf).min(axis=1, keepdims=True)
    return np.where(seen, decision, lowest - 1.0)


@cache
def _stand_in(classifier: bool) -> type[Any]:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    kind = ClassifierMixin if classifier else RegressorMixin
    return type("StandIn", (kind, BaseEstimator), {})
