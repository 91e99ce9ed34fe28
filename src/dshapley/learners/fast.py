"""Learners that do not retrain: the part that all families share.

A family computes the outputs of all models S + z together, either exactly from one fit on S or by
growing trees with compiled loops. This module does the rest: it turns labels into codes, gives the
constant predictor to sets that cannot be trained on, handles each z that adds a new class
separately, and turns outputs into scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.errors import FitError
from dshapley.learners.protocol import Query
from dshapley.learners.refit import Refit, check_min_rows, described, training_sets

__all__ = [
    "Asked",
    "Family",
    "Fast",
    "Sample",
    "Scored",
    "UncertainError",
    "UnsupportedError",
    "double",
]


class UnsupportedError(Exception):
    """The fast path does not support the estimator's parameters; the message says which and why."""


class UncertainError(FitError):
    """Rounding errors leave the optimum uncertain.

    `Fast` does not refit after this error, because scikit-learn's optimum would be as uncertain.
    """


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows as a family sees them.

    X holds floats; y holds the codes 0..c-1 of the classes, or the numbers of a regression.
    """

    X: Floats
    y: Array
    points: Points
    """The same rows as Points, whose key names the tables that a family keeps between draws."""

    def __len__(self) -> int:
        return len(self.X)


Kind: TypeAlias = Literal["label", "probability", "score", "number"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """What a family must output for each of r models: one kind of output for the n rows of X.

    - label: (r, n) codes 0..c-1 of the predicted classes, of any integer type;
    - probability: (r, n, c);
    - score: (r, n, c) decision values, (-f, f) for two classes, if the estimator has a decision
      function; else probabilities;
    - number: (r, n) predictions of a regression.
    """

    X: Floats
    kind: Kind
    classes: Array | None
    """The labels that the codes stand for, sorted: the classes of every S + z. None for regression.
    """
    query: Query
    """The original query: its metric, and the key of its test set for cached tables."""
    seed: int = 0
    """The seed of the draw, for families that use random numbers."""

    @property
    def n_classes(self) -> int:
        """The number of classes of every S + z; 0 for regression."""
        return 0 if self.classes is None else len(self.classes)


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a block of models, from a family that computes scores faster than outputs."""

    scores: Floats

    def __len__(self) -> int:
        return len(self.scores)


class Family(Protocol):
    """A kind of model that is trained on S and on every S + z together."""

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """Blocks of rows: the outputs of the model of S, then of S + z for each z in order.

        Z may be empty. The row of S is present if and only if S can be trained on: it must have all
        `asked.n_classes` classes, or at least one row for regression. S lacks at most one class; if
        it lacks one, every z is of that class.
        """
        ...


@dataclass(frozen=True, eq=False)
class _Group:
    """Models that are trained on the same set of classes."""

    rows: Array
    """The rows of Z whose models S + z belong to the group."""
    classes: Array | None
    alone: bool
    """Whether the model of S belongs to the group."""


@dataclass(frozen=True)
class Fast:
    """A learner that does not retrain: a family, with the estimator that it stands for.

    A set of fewer than `min_rows` rows gets the constant predictor of its labels.
    """

    estimator: Any
    family: Family
    min_rows: int = 1

    def __post_init__(self) -> None:
        check_min_rows(self.min_rows)

    def work(self, k: Floats) -> Floats:
        """The work for each size k: equal for all k, unless the family counts it.

        One fit on S serves all of Z, so the size of S matters little.
        """
        counted = getattr(self.family, "work", np.ones_like)
        return np.asarray(counted(k))

    def scores(self, S: Points, Z: Points | Bundles, query: Query, seed: int) -> Floats:
        """The score trained on S, then the score trained on S + z for each z."""
        if isinstance(Z, Bundles) or 1 < self.min_rows > len(S):
            return np.array([self._alone(T, query, seed) for T in training_sets(S, Z)])
        missing = self._missing(Z)
        if not missing.any():
            return self._scores(S, Z, query, seed)
        # Refit only the sets S + z in which z has missing values.
        found = np.empty(1 + len(Z))
        complete, rest = np.flatnonzero(~missing), np.flatnonzero(missing)
        found[np.append(0, 1 + complete)] = self._scores(S, Z.take(complete), query, seed)
        refit = Refit(self.estimator, self.min_rows)
        found[1 + rest] = refit.scores(S, Z.take(rest), query, seed)[1:]
        return found

    def _missing(self, Z: Points) -> Array:
        """Whether each row has a missing value; always false for families that refuse them."""
        if not getattr(self.family, "accepts_nan", False):
            return np.zeros(len(Z), dtype=np.bool_)
        return np.isnan(np.asarray(Z.X, dtype=np.float64)).sum(axis=1) > 0

    def _alone(self, T: Points, query: Query, seed: int) -> float:
        if 0 < len(T) < self.min_rows:
            return _constant(query, _labels(T))
        return float(self._scores(T, T.take(slice(0)), query, seed)[0])

    def _scores(self, S: Points, Z: Points, query: Query, seed: int) -> Floats:
        found = np.empty(1 + len(Z))
        if len(S) == 0:
            found[0] = _constant(query, query.y)
        if query.classes is None:
            group = _Group(np.arange(len(Z)), None, len(S) > 0)
            self._train(S, Z, group, query, seed, found)
            return found
        known, labels = np.unique(_labels(S)), _labels(Z)
        apart = np.unique(labels)
        if len(known) == 1:
            found[0] = _constant(query, known)
        elif len(known) > 1:
            apart = apart[~np.isin(apart, known)]
            rows = np.flatnonzero(~np.isin(labels, apart))
            self._train(S, Z, _Group(rows, known, True), query, seed, found)
        for label in apart:
            rows = np.flatnonzero(labels == label)
            classes = np.union1d(known, [label])
            if len(classes) == 1:
                found[1 + rows] = _constant(query, classes)
            else:
                self._train(S, Z, _Group(rows, classes, False), query, seed, found)
        return found

    def _train(
        self, S: Points, Z: Points, group: _Group, query: Query, seed: int, found: Floats
    ) -> None:
        """Compute the scores of one group and write them to `found`."""
        rows, classes = group.rows, group.classes
        if len(rows) < len(Z):
            Z = Z.take(rows)
        kind: Kind = "number"
        if classes is not None:
            assert query.output != "decision", "no family has outputs of kind 'decision'"
            kind = "label" if query.output == "prediction" else query.output
        asked = Asked(X=query.numbers, kind=kind, classes=classes, query=query, seed=seed)
        places = 1 + rows
        if group.alone:
            places = np.concatenate([[0], places])
        done = 0
        try:
            for block in self.family.outputs(_sample(S, classes), _sample(Z, classes), asked):
                if isinstance(block, Scored):
                    scores = block.scores
                else:
                    scores = query.score(_for_the_metric(block, classes, query))
                found[places[done : done + len(block)]] = scores
                done += len(block)
        except UncertainError:
            raise
        except (FitError, np.linalg.LinAlgError):
            # Refit: scikit-learn either solves this, or its error says what is wrong.
            refit = Refit(self.estimator, self.min_rows)
            found[places] = refit.scores(double(S), double(Z), query, seed)[
                0 if group.alone else 1 :
            ]
            return
        assert done == len(places), f"the family returned {done} models instead of {len(places)}"

    def describe(self) -> dict[str, Any]:
        """The estimator's type and parameters."""
        return {"path": "fast", "min_rows": self.min_rows, **described(self.estimator)}

    def accepts_nan(self) -> bool:
        """Whether X may have missing values: the family and the estimator must both accept them."""
        return getattr(self.family, "accepts_nan", False) and Refit(self.estimator).accepts_nan()


def double(points: Points) -> Points:
    """The points with X in double precision, in which families compute."""
    return Points(np.asarray(points.X, dtype=np.float64), points.y)


def _constant(query: Query, y: Array) -> float:
    return float(query.score(query.constant(y))[0])


def _labels(points: Points) -> Array:
    assert points.y is not None
    return points.y


def _sample(points: Points, classes: Array | None) -> Sample:
    X = np.ascontiguousarray(points.X, dtype=np.float64)
    y = _labels(points)
    if classes is None:
        return Sample(X, np.asarray(y, dtype=np.float64), points)
    return Sample(X, np.searchsorted(classes, y), points)


def _for_the_metric(block: Array, classes: Array | None, query: Query) -> Array:
    """Convert outputs for the classes of S + z to outputs for the classes of the test set."""
    if classes is None:
        return block
    if query.output == "prediction":
        return classes[block]
    assert query.classes is not None
    if np.array_equal(classes, query.classes):
        return block
    if query.output == "label":
        return query.codes(classes)[block]
    return query.spread(classes, block, fill=0.0 if query.output == "probability" else -np.inf)
