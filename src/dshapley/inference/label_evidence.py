"""Is the label of a point right? What the models say that were not trained on the point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.inference.label_noise import LabelNoise, label_noise
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.draws import Draws
from dshapley.sampling.evidence import UNKNOWN, Evidence

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PROBABLY", "LabelEvidence", "label_evidence"]

PROBABLY = 0.5
"""A label that is wrong with a higher probability is called probably wrong."""
_FEWEST = 5
"""The fewest models that a point is judged by."""


_FLOATS = ("probability", "stderr", "votes")


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelEvidence(NotebookDisplay):
    """The out-of-bag evidence about the label of each point; made by `valuation.label_evidence()`.

    Every model of a larger set is asked about the points that it was not trained on. Means are
    weighted by the size of the set, because models of more rows know more.

    Attributes
    ----------
    probability
        The mean probability that the models give to the point's label; for regression the mean of
        y minus the prediction. NaN for points that every model was trained on.
    stderr
        The standard error of `probability` over the models. It says nothing of how good the models
        are.
    votes
        The share of models that predict the point's label (Data-OOB of Kwon and Zou, 2023); NaN for
        regression.
    labels, probabilities
        The classes of the database, and the mean probability of each, along the last axis; None for
        regression.
    suggested
        The label with the highest mean probability; None for regression.
    n_models
        The number of models that were asked about each point.
    n_informed
        The number of these whose training set had the point's class; others cannot but call it
        improbable. A label is judged from five such models on.
    ids, given
        The name of each point, and its label where it is known.
    noise
        How many labels are wrong, and the probability that each is (`inference.label_noise`); None
        for regression, and while no point was judged by a few models.
    """

    probability: Floats
    stderr: Floats
    votes: Floats
    labels: Array | None
    probabilities: Floats | None
    n_models: NDArray[np.int64]
    n_informed: NDArray[np.int64]
    ids: Array
    given: Array | None

    @cached_property
    def suggested(self) -> Array | None:
        """See the class."""
        if self.labels is None or self.probabilities is None:
            return None
        # A point that no model was asked about keeps the first label; `n_models` says so.
        return np.asarray(self.labels[np.nan_to_num(self.probabilities, nan=-1.0).argmax(axis=1)])

    def __len__(self) -> int:
        return len(self.probability)

    @cached_property
    def noise(self) -> LabelNoise | None:
        """See the class."""
        if self.labels is None or self.probabilities is None or self.given is None:
            return None
        codes = np.searchsorted(self.labels, self.given).clip(max=len(self.labels) - 1)
        known = (self.labels[codes] == self.given) & (self.n_informed >= _FEWEST)
        if not known.any():
            return None
        return label_noise(self.probabilities, np.where(known, codes, UNKNOWN))

    @property
    def wrong(self) -> Floats:
        """The probability that each label is wrong; NaN where it is not known."""
        return np.full(len(self), np.nan) if self.noise is None else self.noise.wrong

    @property
    def suspects(self) -> NDArray[np.bool_]:
        """The points whose label is more likely wrong than right.

        Whether a model is better without them is another question: `dshapley audit` measures it.
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self.wrong > PROBABLY)

    def __repr__(self) -> str:
        low = None if self.noise is None else int(self.suspects.sum())
        found = "" if low is None else f", {low:,} labels that are probably wrong"
        n = int(np.median(self.n_models)) if len(self) else 0
        return f"LabelEvidence of {len(self):,} points from about {n:,} models each{found}"

    def among(self, asked: NDArray[np.bool_], ids: Array, given: Array) -> LabelEvidence:
        """The same evidence about more points, of which only some were `asked` about."""

        def spread(part: Array, fill: float) -> Array:
            found = np.full((len(asked), *part.shape[1:]), fill, dtype=part.dtype)
            found[asked] = part
            return found

        return LabelEvidence(
            **{name: spread(getattr(self, name), np.nan) for name in _FLOATS},
            probabilities=None
            if self.probabilities is None
            else spread(self.probabilities, np.nan),
            n_models=spread(self.n_models, 0),
            n_informed=spread(self.n_informed, 0),
            labels=self.labels,
            ids=ids,
            given=given,
        )

    def to_frame(self) -> pd.DataFrame:
        """A data frame with one row for each point, in the order of the points."""
        import pandas as pd

        columns: dict[str, Array] = {} if self.given is None else {"given": self.given}
        if self.suggested is None:
            columns |= {"residual": self.probability, "stderr": self.stderr}
        else:
            columns |= {
                "suggested": self.suggested,
                "probability": self.probability,
                "stderr": self.stderr,
                "votes": self.votes,
                "wrong": self.wrong,
            }
        columns["n_models"] = self.n_models
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


def label_evidence(draws: Draws, points: Points | None = None) -> LabelEvidence:
    """What the models of a run say of the labels of its points.

    Examples
    --------
    >>> import dshapley as ds
    >>> X = np.linspace(-1, 1, 60)[:, np.newaxis]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[5] = 1                                    # a wrong label
    >>> valuation = ds.value(X, y, model="logistic", m=40, stop=100)
    >>> found = valuation.label_evidence()
    >>> int(found.probability.argmin()), int(found.suggested[5])
    (5, 0)
    """
    evidence = draws.evidence
    if evidence is None:
        raise InputError(
            "this run keeps no evidence about labels: that is kept for single rows with labels and "
            "a model of ds.potential"
        )
    if len(evidence) == 0:
        raise InputError(f"{len(draws)} draws are too few: no model of a large set was asked yet")
    seen = ~np.isnan(evidence.given)
    size = draws.k[np.searchsorted(draws.t, evidence.t)] - 1.0
    weights = np.where(seen, size[:, np.newaxis], 0.0)
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        given = np.where(seen, evidence.given, 0.0)
        mean = (weights * given).sum(axis=0) / total
        spread = np.where(seen, given - mean, 0.0)
        n = seen.sum(axis=0)
        variance = (weights**2 * spread**2).sum(axis=0) / total**2 * n / (n - 1)
    classes = len(evidence.labels) > 0
    return LabelEvidence(
        probability=mean,
        stderr=np.sqrt(variance),
        votes=_votes(evidence, weights / np.where(total > 0, total, np.nan)),
        labels=evidence.labels if classes else None,
        probabilities=_means(evidence, weights, total) if classes else None,
        n_models=n,
        n_informed=(seen & _informed(evidence)).sum(axis=0),
        ids=draws.ids,
        given=_labels_of(evidence, points),
    )


def _informed(evidence: Evidence) -> NDArray[np.bool_]:
    """(draws, points) whether the model knew the class of the point: whether it gave that class a
    probability above 0 anywhere.
    """
    if not len(evidence.labels):
        return np.ones(evidence.given.shape, dtype=bool)
    knew = np.asarray((np.nan_to_num(evidence.answers) > 0).any(axis=1))
    return np.asarray(knew[:, evidence.codes.clip(min=0)] & (evidence.codes != UNKNOWN))


def _labels_of(evidence: Evidence, points: Points | None) -> Array | None:
    """The label of each point: of the points, or of classes also from the record alone."""
    if points is not None and points.y is not None:
        return points.y
    if not len(evidence.labels) or (evidence.codes == UNKNOWN).any():
        return None
    return np.asarray(evidence.labels[evidence.codes])


def _means(evidence: Evidence, weights: Floats, total: Floats) -> Floats:
    """(points, labels) the mean probability of each label; NaN for points that nobody was asked."""
    answers = np.nan_to_num(evidence.answers)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.einsum("tn,tnc->nc", weights, answers) / total[:, np.newaxis])


def _votes(evidence: Evidence, weights: Floats) -> Floats:
    """The weighted share of models whose most probable label is the given one."""
    if not len(evidence.labels):
        return np.full(weights.shape[1], np.nan)
    with_votes = np.nan_to_num(evidence.answers, nan=-1.0).argmax(axis=2) == evidence.codes
    return np.asarray((weights * with_votes).sum(axis=0))
