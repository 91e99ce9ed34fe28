"""Is the label of a point right? What the models say that were not trained on the point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.draws import Draws
from dshapley.sampling.evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["IMPROBABLE", "LabelEvidence", "label_evidence"]

IMPROBABLE = 0.1
"""A label with a smaller probability is called improbable."""
_FEWEST = 5
"""The fewest models that a point is judged by."""


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
    suggested
        The label that most models predict; None for regression.
    n_models
        The number of models that were asked about each point.
    ids, given
        The name of each point, and its label where the points are known.
    """

    probability: Floats
    stderr: Floats
    votes: Floats
    suggested: Array | None
    n_models: NDArray[np.int64]
    ids: Array
    given: Array | None

    def __len__(self) -> int:
        return len(self.probability)

    @property
    def suspects(self) -> NDArray[np.bool_]:
        """The points whose label has a probability below `IMPROBABLE`, from a few models at least.

        Whether a model is better without them is another question: `dshapley report` measures it.
        """
        if self.suggested is None:
            return np.zeros(len(self), dtype=bool)
        return np.asarray((self.probability < IMPROBABLE) & (self.n_models >= _FEWEST))

    def __repr__(self) -> str:
        low = None if self.suggested is None else int(self.suspects.sum())
        found = "" if low is None else f", {low:,} labels with a probability below {IMPROBABLE}"
        n = int(np.median(self.n_models)) if len(self) else 0
        return f"LabelEvidence of {len(self):,} points from about {n:,} models each{found}"

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
    y = points.y if points is not None else None
    suggested, votes = _votes(evidence, weights, total, y)
    return LabelEvidence(
        probability=mean,
        stderr=np.sqrt(variance),
        votes=votes,
        suggested=suggested,
        n_models=n,
        ids=draws.ids,
        given=y,
    )


def _votes(
    evidence: Evidence, weights: Floats, total: Floats, y: Array | None
) -> tuple[Array | None, Floats]:
    """The label with most votes, and the share of votes for the given label."""
    n_labels = len(evidence.labels)
    if not n_labels:
        return None, np.full(len(total), np.nan)
    counts = np.stack([(weights * (evidence.guess == c)).sum(axis=0) for c in range(n_labels)])
    with np.errstate(invalid="ignore"):
        shares = counts / total
    suggested = evidence.labels[counts.argmax(axis=0)]
    if y is None:
        return suggested, np.full(len(total), np.nan)
    codes = np.searchsorted(evidence.labels, y).clip(max=n_labels - 1)
    own = np.where(evidence.labels[codes] == y, shares[codes, np.arange(len(total))], 0.0)
    return suggested, np.where(total > 0, own, np.nan)
