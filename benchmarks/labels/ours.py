"""dshapley's side.

- "run": `ds.value` with a logistic regression, and from that one run the D-Shapley value, the
  out-of-bag probability of the given label, and the out-of-bag votes for it.
- the others: `evidence`, the same evidence without the marginals. No public function does this
  yet, so the potential here has marginals of zero, and `ds.run` asks its models as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import dshapley as ds
from benchmarks.labels.score_files import Array, Method, main
from benchmarks.labels.settings import N_DRAWS, N_EVIDENCE, N_FORESTS, SMALLEST
from dshapley.data.points import Bundles, Floats
from dshapley.inference.label_evidence import LabelEvidence, label_evidence
from dshapley.learners.by_name import model_from_name
from dshapley.potentials import ModelPotential


class Asked(ModelPotential):
    """A model's potential that values nothing: its run trains the model of S, and asks it."""

    def marginals(self, S: ds.Points, Z: ds.Points | Bundles) -> Floats:
        return np.zeros(len(Z))


def evidence(points: ds.Points, model: Any, n_draws: int, weights: Any) -> LabelEvidence:
    """The out-of-bag evidence of sets of all rows, without marginals."""
    U = ds.potential(model, test=points)
    asked = Asked(**{f.name: getattr(U, f.name) for f in fields(U)})
    design = ds.Design(
        points, m=len(points), weights=weights, balanced=True, control_variates=False
    )
    draws = ds.run(asked, design, points, stop=n_draws, n_jobs=1, progress=False)
    return label_evidence(draws, points)


def odds(probabilities: Floats, y: Array) -> Floats:
    """The log odds of the likeliest other label against the given label."""
    rows = np.arange(len(y))
    own = probabilities[rows, y]
    others = probabilities.copy()
    others[rows, y] = -1.0
    return np.asarray(np.log(others.max(axis=1) + SMALLEST) - np.log(own + SMALLEST))


def suspicion(found: LabelEvidence) -> dict[str, Array]:
    """Scores from evidence; rows that no model was asked about come last."""
    return {
        "probability": np.nan_to_num(-found.probability, nan=-1.0),
        "votes": np.nan_to_num(-found.votes, nan=-1.0),
    }


def run(X: Array, y: Array) -> Mapping[str, Array]:
    """A cross-fitted run with a logistic regression; all sizes up to the number of rows alike."""
    valuation = ds.value(
        X, y, model="logistic", m=len(y), sampling="uniform", stop=N_DRAWS, n_jobs=1
    )
    return {"value": -valuation.values, **suspicion(valuation.label_evidence())}


def upper_half(m: int) -> Floats:
    """Weights of sizes of at least m / 2, all alike. Smaller sizes are never drawn in practice."""
    weights = np.full(m, 1e-9)
    weights[m // 2 :] = 1.0
    return weights / weights.sum()


def alone(models: Sequence[Any], n_draws: int, sizes: Callable[[int], Any]) -> Method:
    """Evidence without values; of several models, the mean of their probabilities."""

    def scores(X: Array, y: Array) -> Mapping[str, Array]:
        points, weights = ds.Points(X, y), sizes(len(y))
        found = [evidence(points, model, n_draws, weights).probabilities for model in models]
        mean = np.mean([p for p in found if p is not None], axis=0)
        return {"probability": -mean[np.arange(len(y)), y], "odds": odds(mean, y)}

    return scores


METHODS = {
    "run": run,
    "logistic": alone(
        [model_from_name("logistic", "classification")], N_EVIDENCE, ds.sizes.uniform
    ),
    "forests": alone(
        [RandomForestClassifier(10, min_samples_leaf=3), ExtraTreesClassifier(10)],
        N_FORESTS,
        upper_half,
    ),
}

if __name__ == "__main__":
    main("dshapley", METHODS)
