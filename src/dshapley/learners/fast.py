"""Learners that do not retrain: the part that all families share.

A family computes the outputs of all models S + z together, either exactly from one fit on S or by
growing trees with compiled loops. This module does the rest: it turns labels into codes, gives the
constant predictor to sets that cannot be trained on, handles each z that adds a new class
separately, and turns outputs into scores.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.errors import FitError
from dshapley.learners.protocol import Query
from dshapley.learners.refit import Refit, check_min_rows, described, training_sets
from dshapley.metrics import METRICS, SomeRows, WithoutGroup

__all__ = [
    "Asked",
    "Family",
    "Fast",
    "Sample",
    "Scored",
    "Shared",
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

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Shared:
    """What a family shares between the kinds of output that are asked for of the same models."""

    queries: Sequence[Query]
    """The queries of all kinds."""
    columns: dict[Kind, list[int]]
    """The kinds that are asked for, each with the positions of its queries."""
    _latest: dict[str, tuple[Hashable, Any]] = field(default_factory=dict)

    def once(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """What `make()` returns, made once for all kinds.

        Only the result for the latest key is kept under a name, which bounds memory: `Fast` asks
        for the blocks of all kinds side by side.
        """
        if len(self.columns) == 1:
            return make()
        if name not in self._latest or self._latest[name][0] != key:
            self._latest[name] = key, make()
        found: T = self._latest[name][1]
        return found


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
    queries: Sequence[Query]
    """The original queries, one for each metric that reads this kind of output."""
    shared: Shared
    seed: int = 0
    """The seed of the draw, for families that use random numbers."""

    @property
    def query(self) -> Query:
        """The first query. All have the same test set, whose key names cached tables."""
        return self.queries[0]

    @property
    def is_shared(self) -> bool:
        """Whether outputs, or what they are made of, serve several queries."""
        return len(self.queries) > 1 or len(self.shared.columns) > 1

    def once(self, name: str, make: Callable[[], T], key: Hashable = None) -> T:
        """What `make()` returns, made once for all kinds of output; see `Shared.once`.

        It must not depend on the kind, and must not be changed afterwards.
        """
        return self.shared.once(name, key, make)

    @property
    def n_classes(self) -> int:
        """The number of classes of every S + z; 0 for regression."""
        return 0 if self.classes is None else len(self.classes)


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a block of models, from a family that computes scores faster than outputs."""

    scores: Floats
    """(r, q), a column for each of `Asked.queries`; (r,) will do for one query."""

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
        return self.scores_by_each(S, Z, [query], seed)[:, 0]

    def scores_by_each(
        self, S: Points, Z: Points | Bundles, queries: Sequence[Query], seed: int
    ) -> Floats:
        """A column of scores for each query; see `dshapley.learners.protocol.scores_by_each`."""
        if isinstance(Z, Bundles) or 1 < self.min_rows > len(S):
            return np.array([self._alone(T, queries, seed) for T in training_sets(S, Z)])
        missing = self._missing(Z)
        if not missing.any():
            return self._scores(S, Z, queries, seed)
        # Refit only the sets S + z in which z has missing values.
        found = np.empty((1 + len(Z), len(queries)))
        complete, rest = np.flatnonzero(~missing), np.flatnonzero(missing)
        found[np.append(0, 1 + complete)] = self._scores(S, Z.take(complete), queries, seed)
        refit = Refit(self.estimator, self.min_rows)
        found[1 + rest] = refit.scores_by_each(S, Z.take(rest), queries, seed)[1:]
        return found

    def _missing(self, Z: Points) -> Array:
        """Whether each row has a missing value; always false for families that refuse them."""
        if not getattr(self.family, "accepts_nan", False):
            return np.zeros(len(Z), dtype=np.bool_)
        return np.isnan(np.asarray(Z.X, dtype=np.float64)).sum(axis=1) > 0

    def _alone(self, T: Points, queries: Sequence[Query], seed: int) -> Floats:
        if 0 < len(T) < self.min_rows:
            return _constant(queries, _labels(T))
        found: Floats = self._scores(T, T.take(slice(0)), queries, seed)[0]
        return found

    def _scores(self, S: Points, Z: Points, queries: Sequence[Query], seed: int) -> Floats:
        found = np.empty((1 + len(Z), len(queries)))
        if len(S) == 0:
            found[0] = _constant(queries, queries[0].y)
        if queries[0].classes is None:
            group = _Group(np.arange(len(Z)), None, len(S) > 0)
            self._train(S, Z, group, queries, seed, found)
            return found
        known, labels = np.unique(_labels(S)), _labels(Z)
        apart = np.unique(labels)
        if len(known) == 1:
            found[0] = _constant(queries, known)
        elif len(known) > 1:
            apart = apart[~np.isin(apart, known)]
            rows = np.flatnonzero(~np.isin(labels, apart))
            self._train(S, Z, _Group(rows, known, True), queries, seed, found)
        for label in apart:
            rows = np.flatnonzero(labels == label)
            classes = np.union1d(known, [label])
            if len(classes) == 1:
                found[1 + rows] = _constant(queries, classes)
            else:
                self._train(S, Z, _Group(rows, classes, False), queries, seed, found)
        return found

    def _train(
        self,
        S: Points,
        Z: Points,
        group: _Group,
        queries: Sequence[Query],
        seed: int,
        found: Floats,
    ) -> None:
        """Compute the scores of one group and write them to `found`."""
        rows, classes = group.rows, group.classes
        if len(rows) < len(Z):
            Z = Z.take(rows)
        places = 1 + rows
        if group.alone:
            places = np.concatenate([[0], places])
        columns = _columns_of_kinds(queries, classes)
        shared = Shared(queries, columns)
        samples = _sample(S, classes), _sample(Z, classes)
        fills = []
        for kind, some in columns.items():
            asked = Asked(
                X=queries[0].numbers, kind=kind, classes=classes,
                queries=[queries[i] for i in some], shared=shared, seed=seed,
            )  # fmt: skip
            where = places[:, np.newaxis], np.array(some)
            fills.append(self._filled(*samples, asked, found, where))
        # Advance the kind that is furthest behind, so that all need the same blocks about together.
        done = dict.fromkeys(range(len(fills)), 0)
        while done:
            behind = min(done, key=lambda i: done[i])
            n = next(fills[behind], None)
            if n is None:
                del done[behind]
            else:
                done[behind] = n

    def _filled(
        self, S: Sample, Z: Sample, asked: Asked, found: Floats, where: tuple[Array, ...]
    ) -> Iterator[int]:
        """Write the scores of one kind to `found`, and yield after each block how many are there.

        `where` are the places of the models and the columns of the queries.
        """
        (places, columns), done = where, 0
        try:
            for block in self.family.outputs(S, Z, asked):
                found[places[done : done + len(block)], columns] = _scores_of(block, asked)
                done += len(block)
                yield done
        except UncertainError:
            raise
        except (FitError, np.linalg.LinAlgError):
            # Refit: scikit-learn either solves this, or its error says what is wrong.
            refit = Refit(self.estimator, self.min_rows)
            scores = refit.scores_by_each(
                double(S.points), double(Z.points), asked.queries, asked.seed
            )
            found[places, columns] = scores[len(scores) - len(places) :]
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


def _columns_of_kinds(queries: Sequence[Query], classes: Array | None) -> dict[Kind, list[int]]:
    """The kinds of output that are needed, each with the positions of the queries that read it."""
    found: dict[Kind, list[int]] = {}
    for i, query in enumerate(queries):
        kind: Kind = "number"
        if classes is not None:
            assert query.output != "decision", "no family has outputs of kind 'decision'"
            kind = "label" if query.output == "prediction" else query.output
        found.setdefault(kind, []).append(i)
    return found


_OURS = frozenset(id(metric.score) for metric in METRICS.values())
"""The scores that are known to leave the outputs as they are: by identity, since others may not
be hashable.
"""


def _scores_of(block: Array | Scored, asked: Asked) -> Floats:
    """(r, q) the scores of a block of models by each query."""
    if isinstance(block, Scored):
        scores = block.scores if block.scores.ndim == 2 else block.scores[:, np.newaxis]
        n = len(asked.queries)
        assert scores.shape[1] == n, f"the family scored {scores.shape[1]} metrics instead of {n}"
        return scores
    found = np.empty((len(block), len(asked.queries)))
    for i, query in enumerate(asked.queries):
        outputs = _for_the_metric(block, asked.classes, query)
        score = query.metric.score
        if (
            asked.is_shared
            and id(score) not in _OURS
            and not isinstance(score, SomeRows | WithoutGroup)
        ):
            outputs = outputs.copy()  # a metric that changes its argument must harm no other
        found[:, i] = query.score(outputs)
    return found


def _constant(queries: Sequence[Query], y: Array) -> Floats:
    return np.array([query.score(query.constant(y))[0] for query in queries])


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
