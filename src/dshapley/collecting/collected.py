"""The expected value of each candidate, and a batch of them to collect next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from dshapley.api import affordable
from dshapley.collecting.batch import chosen_batch, doubt
from dshapley.collecting.candidates import Candidates
from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError, is_whole
from dshapley.inference.completed import completed
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.uncertainty import student_quantile
from dshapley.inference.valuation import Valuation
from dshapley.running.label_values import LEVELS, LabelValues, label_values
from dshapley.running.run import run
from dshapley.running.stopping import Stop, StopRule
from dshapley.sampling.crossfitting import MOST_TESTED, CrossFitted
from dshapley.sampling.draws import NO_FOLD
from dshapley.sampling.provenance import Context

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["By", "Collected", "collected"]

By: TypeAlias = Literal["doubt", "value"]
"""What a batch is chosen by."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Collected:
    """The values of the candidates, and a batch of them.

    Attributes
    ----------
    values
        The expected value of each candidate, or for labelled candidates its value.
    stderr
        The standard errors of these, with the error of the labels' probabilities.
    labels
        The value of each measured candidate with each label; None for labelled candidates.
    measured
        Which candidates were measured; the values of the others are predicted.
    batch
        The positions of the candidates of the batch, those of highest score first.
    by
        The score that the batch is chosen by: the values, or how undecided the models are.
    """

    candidates: Candidates
    values: Valuation
    stderr: Floats
    labels: LabelValues | None
    measured: NDArray[np.bool_]
    batch: NDArray[np.intp]
    by: By

    @property
    def guesses(self) -> tuple[Array, Floats] | None:
        """The most probable label of each measured candidate, and its probability."""
        if self.labels is None or not self.candidates.potential.classification:
            return None
        best = self.labels.probability.argmax(axis=1)
        rows = np.arange(len(best))
        return self.labels.labels[rows, best], self.labels.probability[rows, best]

    @property
    def alike(self) -> int | None:
        """How many candidates are not surely worse than the best measured one, itself included.

        None where the errors are not known. Each difference is judged on its own, with 95 %
        confidence for one side. Its error is smaller than those of the two values, because they
        share their draws.
        """
        sampled = self.values.measured
        if sampled.unseen or not isinstance(sampled, SampledValuation):
            return None
        influence = sampled.influence()
        best = int(np.argmax(sampled.values))
        error = np.sqrt(((influence - influence[:, [best]]) ** 2).sum(axis=0))
        gap = sampled.values[best] - sampled.values
        return int((gap <= student_quantile(0.95, sampled.freedom) * error).sum())

    def to_frame(self) -> pd.DataFrame:
        """A data frame by id, the candidates of the batch first, then the others by value."""
        import pandas as pd

        n, value = len(self.stderr), self.values.values
        order = np.argsort(-value, kind="stable")
        place = pd.Series(pd.NA, index=range(n), dtype="Int64")
        place.iloc[self.batch] = np.arange(1, len(self.batch) + 1)
        columns: dict[str, object] = {
            "id": self.values.ids,
            "batch": place.array,
            "rank": np.argsort(order, kind="stable") + 1,
        }
        if self.candidates.labelled:
            columns |= {"label": self.candidates.rows.y, "value": value, "stderr": self.stderr}
        else:
            columns |= {"expected_value": value, "stderr": self.stderr, **self._by_label()}
        if not self.measured.all():
            columns["predicted"] = ~self.measured
        frame = pd.DataFrame(columns)
        return frame.sort_values(["batch", "rank"], kind="stable").reset_index(drop=True)

    def _by_label(self) -> dict[str, Array]:
        """The columns of each label: its value and its probability; empty where not measured."""
        found = self.labels
        assert found is not None
        columns: dict[str, Array] = {}

        def column(part: Array) -> Array:
            whole = np.full(len(self.measured), np.nan)
            whole[self.measured] = part
            return whole

        for c in range(found.labels.shape[1]):
            if not self.candidates.potential.classification:
                columns[f"label_{c + 1}"] = column(found.labels[:, c])
                columns[f"value_{c + 1}"] = column(found.values[:, c])
            else:
                label = found.labels[0, c]
                columns[f"value_{label}"] = column(found.values[:, c])
                columns[f"probability_{label}"] = column(found.probability[:, c])
        return columns


def collected(
    found: Candidates,
    *,
    n: int,
    stop: StopRule | Stop | int,
    by: By | None = None,
    share: float | None = None,
    store: str | Path | None = None,
    n_jobs: int | None = None,
) -> Collected:
    """Value the candidates as the run valued its rows, and choose a batch of n.

    Unlabelled candidates get their expected value (`dshapley.label_values`), labelled ones their
    value. With a `share`, only that share of them is measured and the others are predicted.

    The batch is chosen among the candidates of highest score (`collecting.batch.chosen_batch`). The
    score is by default the doubt of the models for unlabelled candidates of a class, and else the
    value. Doubt is known of measured candidates only.
    """
    if not is_whole(n, least=1):
        raise InputError(f"n = {n}: give the number of rows to collect, at least 1")
    by = _by(found, by)
    rows, U = found.rows, found.potential
    if share is None:
        n_test = min(len(U.test), MOST_TESTED) if found.cross_fitted else len(U.test)
        share = affordable(len(rows) * _n_labels(found), U, n_test)
    measured = np.ones(len(rows), dtype=bool)
    if share != 1:
        measured = chosen_to_measure(rows, share, found.design.seed)
    Z = rows.take(measured)
    options: dict[str, Any] = {"stop": stop, "store": store, "n_jobs": n_jobs}
    options["context"] = Context(share=share, notes={"collect": "candidates of a run"})
    labels, stderr_of_p = None, np.zeros(len(Z))
    if found.labelled:
        V = found.U
        if isinstance(V, CrossFitted):
            V = V.valuing(np.full(len(Z), NO_FOLD))
        sampled = estimate(run(V, found.design, Z, **options), points=Z)
    else:
        labels = label_values(found.U, found.design, Z, **options)
        sampled, stderr_of_p = labels.expected, labels.stderr_of_p
    values: Valuation = sampled if share == 1 else completed(sampled, rows, measured)
    stderr = np.array(values.stderr)
    stderr[measured] = np.hypot(stderr[measured], stderr_of_p)
    return Collected(
        candidates=found,
        values=values,
        stderr=stderr,
        labels=labels,
        measured=measured,
        batch=_batch(values, labels, rows, measured, n=n, by=by),
        by=by,
    )


def _by(found: Candidates, by: str | None) -> By:
    """What to choose by; an error if that is not known."""
    unknown = found.labelled or not found.potential.classification
    if by is None:
        return "value" if unknown else "doubt"
    if by not in ("doubt", "value"):
        raise InputError(f"by = {by!r}: use 'doubt' or 'value'")
    if by == "doubt" and unknown:
        raise InputError(
            "doubt is about the label of an unlabelled candidate, and of classes only: choose by "
            "value, or leave out the target"
        )
    return cast("By", by)


def _batch(
    values: Valuation,
    labels: LabelValues | None,
    rows: Points,
    measured: NDArray[np.bool_],
    *,
    n: int,
    by: By,
) -> NDArray[np.intp]:
    if by == "value":
        return chosen_batch(values.values, rows, n)
    assert labels is not None
    where = np.flatnonzero(measured)
    return where[chosen_batch(doubt(labels.probability), rows.take(measured), n)]


def _n_labels(found: Candidates) -> int:
    """With how many labels each candidate is valued."""
    if found.labelled:
        return 1
    if not found.potential.classification:
        return len(LEVELS)
    return len(np.unique(np.asarray(found.design.database.y)))
