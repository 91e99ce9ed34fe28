"""Values of counterfactual labels: what would (x, y') be worth, for every label y'?

A point need not be in the data set, so a row x can be valued with every label, in the same draws.
With the probability p(y' | x) that the models of these draws give to each label, the values become
one number that needs no label: the expected value, sum over y' of p(y' | x) v(x, y').
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.inference.label_evidence import label_evidence
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.potentials import ModelPotential
from dshapley.running.run import run
from dshapley.running.stopping import Stop, StopRule
from dshapley.sampling.crossfitting import CrossFitted, equal_rows, places_of
from dshapley.sampling.design import Design, Draw
from dshapley.sampling.draws import NO_FOLD, Draws, Folds
from dshapley.sampling.provenance import Context

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEVELS", "LabelValues", "label_values"]

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""For regression the labels are the prediction plus these quantiles of the residuals: the middles
of five equal parts, so that their plain mean stands for the mean over the distribution.
"""
_ASKED, _LEAST_SHARE = 30, 0.25
"""For regression this many models predict each row, from sets of at least this share of m rows."""
_MOST_TRIED = 40 * _ASKED
"""Draws after this one are not tried for predictions."""
_N_FOLDS = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelValues:
    """The value of each row with each label, and its expected value. Made by `label_values`.

    Attributes
    ----------
    labels
        The label y' of each row (first axis) and each column: for classes every row has the same,
        the classes of the database in order; for regression each row has its own numbers.
    values, stderr
        v(x, y') and its standard error, for each row and label.
    probability
        p(y' | x): the mean probability that the models of larger sets give to each label, by the
        models that were not trained on the row. For regression the same for every label.
    expected
        The expected values as a valuation of their own, which knows ranks, intervals and other m:
        the values of the mixed marginals sum over y' of p(y' | x) (U(S + (x, y')) - U(S)). Its
        errors hold p fixed.
    stderr_of_p
        The standard error of the expected value that p causes: how much the expected value would
        differ with the p of other draws. It is not the error of the models themselves: where p is
        wrong on average, so is the expected value. 0 for regression, where the error of the
        predictions is not known.
    """

    labels: Array
    values: Floats
    stderr: Floats
    probability: Floats
    expected: SampledValuation
    stderr_of_p: Floats

    def __len__(self) -> int:
        return len(self.values)

    @property
    def expected_stderr(self) -> Floats:
        """The standard error of the expected values, that of the values and that of p together.

        The two are added as if they were independent. Both come from the same draws and partly
        cancel, so the sum is somewhat too large (`tests/test_label_values.py` has the figures).
        """
        return np.sqrt(self.expected.stderr**2 + self.stderr_of_p**2)

    def to_frame(self) -> pd.DataFrame:
        """A data frame with a row for each row and label."""
        import pandas as pd

        n_labels = self.values.shape[1]
        return pd.DataFrame(
            {
                "id": np.repeat(self.expected.ids, n_labels),
                "label": self.labels.ravel(),
                "probability": self.probability.ravel(),
                "value": self.values.ravel(),
                "stderr": self.stderr.ravel(),
            }
        )


def label_values(
    U: ModelPotential | CrossFitted,
    design: Design,
    rows: Points,
    *,
    stop: StopRule | Stop | int,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    context: Context | None = None,
) -> LabelValues:
    """The value of each row with every label, in the same draws, and its expected value.

    Parameters
    ----------
    U, design
        The potential, or a cross-fitted one (made for any points), and how sets are drawn. With the
        potential and the design of a run, the values are comparable with those of the run.
    rows
        The rows to value. Their labels are not used. A row that is in the database, whatever its
        label, keeps its fold, and is judged only by models that were not trained on it.
    stop, store, n_jobs, context
        See `dshapley.run`. A draw computes a marginal for every row and label.

    Examples
    --------
    >>> import dshapley as ds
    >>> X = np.linspace(-1, 1, 60)[:, np.newaxis]
    >>> database = ds.Points(X, (X[:, 0] > 0).astype(int))
    >>> U = ds.potential("logistic", test=database)
    >>> found = label_values(U, ds.Design(database, m=20), ds.Points([[-0.9], [0.9]]), stop=60)
    >>> found.labels.tolist(), found.probability.argmax(axis=1).tolist()
    ([[0, 1], [0, 1]], [0, 1])
    >>> bool((found.values[[0, 1], [0, 1]] > found.values[[0, 1], [1, 0]]).all())
    True
    """
    if design.database.y is None:
        raise InputError("database has no labels: give y")
    places = places_of(Points(rows.X), Points(design.database.X))
    classes = (U.U if isinstance(U, CrossFitted) else U).classification
    labels = (
        np.tile(np.unique(design.database.y), (len(rows), 1))
        if classes
        else _likely_numbers(U, design, rows, places)
    )
    Z = _with_labels(rows, labels)
    if isinstance(U, CrossFitted):
        fold = np.where(places < 0, NO_FOLD, U.rows[places])
        U = U.valuing(np.repeat(fold, labels.shape[1]))
    draws = run(U, design, Z, stop=stop, store=store, n_jobs=n_jobs, context=context)
    return of_draws(draws, design, rows, labels, classes=classes)


def of_draws(
    draws: Draws, design: Design, rows: Points, labels: Array, *, classes: bool
) -> LabelValues:
    """The values of all labels, from draws with a column for each row and label."""
    shape = labels.shape
    each = estimate(draws)
    values = each.values.reshape(shape)
    probability, stderr_of_p = np.full(shape, 1 / shape[1]), np.zeros(len(rows))
    if classes:
        asked = _out_of_bag(draws, design, rows, shape[1])
        probability, stderr_of_p = _probabilities(asked, values)
    mixed = np.einsum("tic,ic->ti", draws.marginals.reshape(-1, *shape), probability)
    folds = draws.folds
    record = replace(
        draws,
        marginals=mixed.astype(np.float32),
        ids=np.asarray(rows.ids),
        rows=np.ones(len(rows), dtype=np.int64),
        folds=None if folds is None else Folds(folds.n, folds.of[:: shape[1]]),
        evidence=None,
    )
    return LabelValues(
        labels=labels,
        values=values,
        stderr=each.stderr.reshape(shape),
        probability=probability,
        expected=estimate(record, points=Points(rows.X, ids=rows.ids)),
        stderr_of_p=stderr_of_p,
    )


def _with_labels(rows: Points, labels: Array) -> Points:
    """Each row once for each of its labels, one after the other."""
    repeated = rows.take(np.repeat(np.arange(len(rows)), labels.shape[1]))
    return Points(repeated.X, labels.ravel(), ids=repeated.ids)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Which sets contain which rows: by their features, since a label may be counterfactual."""

    of_database: NDArray[np.intp]
    of_rows: NDArray[np.intp]

    @staticmethod
    def of(design: Design, rows: Points) -> _Seen:
        database = Points(design.database.X)
        places, equal = places_of(Points(rows.X), database), equal_rows(database, _N_FOLDS)
        return _Seen(equal, np.where(places < 0, -1, equal[places]))

    def by(self, draw: Draw) -> NDArray[np.bool_]:
        """The rows that the set of a draw contains."""
        return np.isin(self.of_rows, self.of_database[draw.rows])


def _out_of_bag(draws: Draws, design: Design, rows: Points, n_labels: int) -> Draws:
    """One column for each row, with evidence only of models that know no label of the row.

    The run itself counts (x, y') as unseen where S contains x with a different label.
    """
    of_rows = draws.points(np.arange(draws.marginals.shape[1]) % n_labels == 0)
    evidence = of_rows.evidence
    if evidence is None or len(evidence) == 0:
        raise InputError(f"{len(draws)} draws are too few: no model of a large set was asked yet")
    seen = _Seen.of(design, rows)
    answers = evidence.answers.copy()
    if (seen.of_rows >= 0).any():
        for said, t in zip(answers, evidence.t.tolist(), strict=True):
            said[seen.by(design.draw(t))] = np.nan
    return replace(of_rows, evidence=replace(evidence, answers=answers))


def _probabilities(draws: Draws, values: Floats) -> tuple[Floats, Floats]:
    """p(y' | x) for each row and label, and the standard error of sum over y' of p(y' | x) v."""
    evidence = draws.evidence
    assert evidence is not None
    probability = label_evidence(draws).probabilities
    assert probability is not None
    unknown = np.isnan(probability).any(axis=1)
    if unknown.any():
        raise InputError(
            f"{len(draws)} draws are too few: every model of a large set was trained on "
            f"{int(unknown.sum())} of the rows: make more draws"
        )
    # Each model's expected value takes the place of a number that it predicts.
    by_model = np.einsum("tic,ic->ti", evidence.answers, values)[..., np.newaxis]
    numbers = replace(
        evidence, answers=by_model.astype(np.float32), labels=np.empty(0), codes=np.empty(0, int)
    )
    return probability, label_evidence(replace(draws, evidence=numbers)).stderr


def _likely_numbers(
    U: ModelPotential | CrossFitted, design: Design, rows: Points, places: NDArray[np.intp]
) -> Floats:
    """For regression: a few numbers that each row may have, equally likely.

    They are the mean prediction of models that were not trained on the row, plus quantiles of the
    database's residuals from such predictions.
    """
    database = design.database
    assert database.y is not None
    both = Points(database.X, database.y) + Points(rows.X, np.zeros(len(rows)))
    seen = _Seen.of(design, both)
    total, weight = np.zeros(len(both)), np.zeros(len(both))
    for draw in _large_sets(design):
        V = U.on(draw.t) if isinstance(U, CrossFitted) else U
        said = V.seeded(draw.seed).answers(draw.S, both, np.empty(0))
        size = np.where(seen.by(draw), 0.0, len(draw.S))
        total, weight = total + size * said, weight + size
    if (weight == 0).any():
        raise InputError("the database has too few rows to predict each from sets without it")
    predicted = total / weight
    residuals = database.y - predicted[: len(database)]
    levels = np.quantile(residuals, LEVELS)
    return np.asarray(predicted[len(database) :, np.newaxis] + levels)


def _large_sets(design: Design) -> Iterator[Draw]:
    """The first draws of the design whose sets are large enough to predict from."""
    found = 0
    for t in range(_MOST_TRIED):
        draw = design.draw(t)
        if len(draw.S) >= max(1, _LEAST_SHARE * (design.m - 1)):
            found += 1
            yield draw
        if found == _ASKED:
            return
