"""Distances between rows, by the names and parameters that scikit-learn has for them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshapley.data.points import Floats
from dshapley.learners.fast import UnsupportedError
from dshapley.learners.kernels import kernel

__all__ = ["Distance", "named_distance"]


@dataclass(frozen=True, eq=False)
class Distance:
    """A metric for two tables of rows, each number of which depends on its two rows alone."""

    metric: str
    params: dict[str, Any]

    @property
    def name(self) -> Hashable:
        """What tells it apart from others."""
        return self.metric, repr([(p, np.asarray(v).tolist()) for p, v in self.params.items()])

    def between(self, A: Floats, B: Floats) -> Floats:
        """(len(A), len(B)) distances."""
        if len(A) == 0 or len(B) == 0:
            return np.empty((len(A), len(B)))
        if self.metric in ("euclidean", "sqeuclidean", "cosine"):
            found = np.empty((len(A), len(B)))
            if self.metric == "cosine":
                _cosines(_unit(A), _unit(B), found)
            else:
                _euclidean(A, B, self.metric == "sqeuclidean", found)
            return found
        if self.metric == "correlation":
            from sklearn.metrics import pairwise_distances

            return np.asarray(pairwise_distances(A, B, metric=self.metric, **self.params))
        from sklearn.metrics import DistanceMetric

        metric = DistanceMetric.get_metric(self.metric, **self.params)
        return np.asarray(metric.pairwise(A, B))


_SAME = {
    "l2": "euclidean",
    "l1": "manhattan",
    "cityblock": "manhattan",
    "infinity": "chebyshev",
    "p": "minkowski",
}

_KNOWN = {
    *("euclidean", "sqeuclidean", "manhattan", "chebyshev", "minkowski", "cosine", "correlation"),
    *("canberra", "braycurtis", "hamming", "haversine", "seuclidean", "mahalanobis"),
}


def named_distance(metric: Any, p: float | None, params: dict[str, Any]) -> Distance:
    """The distance that an estimator's metric, p and metric_params name."""
    name = _SAME.get(metric, metric) if isinstance(metric, str) else None
    if name not in _KNOWN:
        raise UnsupportedError(f"metric={metric!r} is no distance between rows of numbers alone")
    if name in ("seuclidean", "mahalanobis") and not params:
        raise UnsupportedError(f"metric={metric!r} without metric_params depends on the rows of S")
    if name == "minkowski":
        params = {"p": p, **params}
        plain = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}.get(params["p"])
        if plain is not None and params.get("w") is None:
            return Distance(plain, {})
    return Distance(str(name), params)


def _unit(X: Floats) -> Floats:
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    return np.asarray(X / np.where(norms > 0.0, norms, 1.0)[:, np.newaxis])


@kernel
def _euclidean(A: Floats, B: Floats, squared: bool, out: Floats) -> None:
    # Differences, not products: rows that are equal are 0 apart, wherever they are.
    for i in range(len(A)):
        for j in range(len(B)):
            total = 0.0
            for p in range(A.shape[1]):
                gap = A[i, p] - B[j, p]
                total += gap * gap
            out[i, j] = total if squared else np.sqrt(total)


@kernel
def _cosines(A: Floats, B: Floats, out: Floats) -> None:
    for i in range(len(A)):
        for j in range(len(B)):
            total = 0.0
            for p in range(A.shape[1]):
                total += A[i, p] * B[j, p]
            out[i, j] = min(max(1.0 - total, 0.0), 2.0)
