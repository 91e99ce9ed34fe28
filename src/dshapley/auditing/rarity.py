"""How unusual a row is: how far from the rows nearest to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats, Points

__all__ = ["distance_from_others", "rare"]

_NEAREST = 5
_MOST_COMPARED = 5000
"""A sample of more rows than these is compared with, which bounds the time."""
_SHARE = 0.1


def rare(points: Points) -> NDArray[np.bool_]:
    """The tenth of the rows that is farthest from others.

    >>> X = np.append(np.linspace(0, 1, 29), 50.0)[:, np.newaxis]
    >>> np.flatnonzero(rare(Points(X)))[-1].item()
    29
    """
    distance = distance_from_others(points)
    return np.asarray(distance > np.quantile(distance, 1 - _SHARE))


def distance_from_others(points: Points) -> Floats:
    """The mean distance of each row from the five nearest other rows, in its columns."""
    from sklearn.neighbors import NearestNeighbors

    X = np.asarray(points.X, dtype=np.float64)
    n = len(X)
    if n < 3:
        return np.zeros(n)
    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(n, min(n, _MOST_COMPARED), replace=False))
    k = min(_NEAREST, len(sample) - 1)
    found, which = NearestNeighbors(n_neighbors=k + 1).fit(X[sample]).kneighbors(X)
    own = sample[which] == np.arange(n)[:, np.newaxis]
    # A row is its own nearest neighbour where it is in the sample; otherwise the last is dropped.
    own[~own.any(axis=1), -1] = True
    first = own.argmax(axis=1)
    own[:] = False
    own[np.arange(n), first] = True
    return np.asarray(found[~own].reshape(n, k).mean(axis=1))
