"""OpenDataVal's side, in an environment of its own: it needs PyTorch.

Its Data-OOB is the method that `pydvl_scores` has, so only two others are here.

Where it asks for validation rows it is given each fifth of the rows in turn, with their noisy
labels, since there are no clean rows for anyone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from opendataval.dataval import KNNShapley, LavaEvaluator
from sklearn.model_selection import StratifiedKFold

from benchmarks.labels.score_files import Array, Method, main


def tensors(X: Array, y: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Features in single precision and labels as one-hot rows, as OpenDataVal has them."""
    return torch.tensor(X, dtype=torch.float32), torch.eye(int(y.max()) + 1)[torch.tensor(y)]


def crossed(evaluator: type) -> Method:
    """An evaluator without a model, with its default settings, on each fifth in turn."""

    def scores(X: Array, y: Array) -> Mapping[str, Array]:
        x, labels = tensors(X, y)
        values = np.zeros(len(y))
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            found = evaluator(random_state=0)
            found.input_data(x[train], labels[train], x[test], labels[test])
            values[train] += np.asarray(found.train_data_values().evaluate_data_values())
        return {"value": -values / 4}

    return scores


METHODS = {
    "knn_shapley": crossed(KNNShapley),
    "lava": crossed(LavaEvaluator),
}

if __name__ == "__main__":
    main("opendataval", METHODS)
