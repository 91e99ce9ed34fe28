"""Distances between rows, chosen by scikit-learn's names and parameters for metrics."""

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
    """A metric between rows; a distance depends only on its two rows, not on the rest of S."""

    metric: str
    params: dict[str, Any]

    @property
    def name(self) -> Hashable:
        """A key for tables of distances: equal metrics with equal parameters have equal names."""
        return self.metric, repr([(p, np.asarray(v).tolist()) for p, v in self.params.items()])

    def between(self, A: Floats, B: Floats) -> Floats:
        """(len(A), len(B)) the distances between the rows of A and of B."""
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
    """The distance for the parameters metric, p and metric_params of an estimator."""
    name = _SAME.get(metric, metric) if isinstance(metric, str) else None
    if name not in _KNOWN:
        raise UnsupportedError(f"metric={metric!r} is not one of the supported distances")
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
    # Sum squared differences, because |a|^2 - 2ab + |b|^2 is not exactly 0 for equal rows.
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
