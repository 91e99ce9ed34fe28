"""Learners that do without refitting: what all families share.

A family answers for all of Z at once: exactly, from one fit on S, or by growing trees of its own.
Here is the rest: labels become codes, sets that nothing can be trained on get their constant
predictor, a z that brings a class of its own is asked about apart, and outputs become scores.
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
    """An estimator's parameters are beyond the fast path; the message says which, and why."""


class UncertainError(FitError):
    """An optimum that is not certain. It is not refitted: that would be no more certain."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows as a family sees them: numbers X, and for y the codes 0..c-1 of classes, or numbers."""

    X: Floats
    y: Array
    points: Points
    """Where the rows come from, for tables that a family keeps between draws."""

    def __len__(self) -> int:
        return len(self.X)


Kind: TypeAlias = Literal["label", "probability", "score", "number"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """What a family is asked of each of r models: one kind of output for the n rows of X.

    - label: (r, n) codes 0..c-1 of the predicted class, of any integer type;
    - probability: (r, n, c);
    - score: (r, n, c): decision values (-f, f) for two classes where the estimator has a decision
      function, else probabilities;
    - number: (r, n) predictions of a regression.
    """

    X: Floats
    kind: Kind
    classes: Array | None
    """The labels that the codes stand for: those of every S + z, sorted. None for numbers."""
    query: Query
    """The question as it was put: for its metric, and for tables about its test set."""
    seed: int = 0
    """Of the draw: for families that draw at random."""

    @property
    def n_classes(self) -> int:
        """How many classes every S + z has; 0 for numbers."""
        return 0 if self.classes is None else len(self.classes)


@dataclass(frozen=True, eq=False)
class Scored:
    """A block that a family has scored itself, where that is cheaper than the outputs."""

    scores: Floats

    def __len__(self) -> int:
        return len(self.scores)


class Family(Protocol):
    """A kind of model, trained on S and on every S + z at once."""

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array | Scored]:
        """Blocks of rows: trained on S, then on S + z for each z in order; Z may be empty.

        The row of S is there if, and only if, S can be trained on: if it has every one of the
        `asked.n_classes` classes, or for numbers if it is not empty. S never lacks more than one
        class; if it lacks one, this is the class of every z.
        """
        ...


@dataclass(frozen=True, eq=False)
class _Group:
    """Models that have the same classes."""

    rows: Array
    """Of Z: the models of S + z."""
    classes: Array | None
    alone: bool
    """Whether the model of S is one of them."""


@dataclass(frozen=True)
class Fast:
    """A learner that does without refitting: a family with the parameters of an estimator.

    A set of fewer than `min_rows` rows gets the constant predictor of its labels.
    """

    estimator: Any
    family: Family
    min_rows: int = 1

    def __post_init__(self) -> None:
        check_min_rows(self.min_rows)

    def work(self, k: Floats) -> Floats:
        """The same for all sizes, but where a family counts it: one fit serves all of Z."""
        counted = getattr(self.family, "work", np.ones_like)
        return np.asarray(counted(k))

    def scores(self, S: Points, Z: Points | Bundles, query: Query, seed: int) -> Floats:
        """The score trained on S, then the one trained on S + z for each z."""
        if isinstance(Z, Bundles) or 1 < self.min_rows > len(S):
            return np.array([self._alone(T, query, seed) for T in training_sets(S, Z)])
        missing = self._missing(Z)
        if not missing.any():
            return self._scores(S, Z, query, seed)
        # A set with missing values is refitted, and only that.
        found = np.empty(1 + len(Z))
        complete, rest = np.flatnonzero(~missing), np.flatnonzero(missing)
        found[np.append(0, 1 + complete)] = self._scores(S, Z.take(complete), query, seed)
        refit = Refit(self.estimator, self.min_rows)
        found[1 + rest] = refit.scores(S, Z.take(rest), query, seed)[1:]
        return found

    def _missing(self, Z: Points) -> Array:
        """Which rows lack a value, as they may for trees."""
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
        """Fill in the scores of a group."""
        rows, classes = group.rows, group.classes
        if len(rows) < len(Z):
            Z = Z.take(rows)
        kind: Kind = "number"
        if classes is not None:
            assert query.output != "decision", "only refitting answers with these"
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
            # Refitting answers, or says what is wrong.
            refit = Refit(self.estimator, self.min_rows)
            found[places] = refit.scores(double(S), double(Z), query, seed)[
                0 if group.alone else 1 :
            ]
            return
        assert done == len(places), f"{done} models instead of {len(places)}"

    def describe(self) -> dict[str, Any]:
        """The estimator's type and parameters."""
        return {"path": "fast", "min_rows": self.min_rows, **described(self.estimator)}

    def accepts_nan(self) -> bool:
        """Whether missing values may stay in X: arithmetic needs numbers, but trees do not."""
        return getattr(self.family, "accepts_nan", False) and Refit(self.estimator).accepts_nan()


def double(points: Points) -> Points:
    """The points in double precision, as a family computes."""
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
    """Outputs over the classes of S + z, as outputs over those of the test set."""
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
