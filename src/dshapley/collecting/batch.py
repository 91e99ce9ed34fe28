"""A batch of candidates that is not n copies of one row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats, Points
from dshapley.inference.regression import numbers

__all__ = ["chosen_batch", "doubt"]

_TIMES = 5
"""The batch is chosen among so many times its size, the candidates of highest score."""
_STARTS = 4
"""How often k-means starts anew."""


def doubt(probability: Floats) -> Floats:
    """How undecided models are about each row: the second highest probability minus the highest.

    It is 0 where two labels are equally probable, and -1 where one label is certain.

    >>> doubt(np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])).round(2).tolist()
    [0.0, -0.8]
    """
    ordered = np.sort(probability, axis=1)
    return np.asarray(ordered[:, -2] - ordered[:, -1])


def chosen_batch(score: Floats, rows: Points, n: int, *, seed: int = 0) -> NDArray[np.intp]:
    """The positions of n candidates of high score that differ from each other, the best first.

    The 5 n candidates of highest score are divided into n clusters by k-means, and of each the
    candidate nearest to its centre is taken. Of equal rows only one is considered.

    >>> X = np.array([[0.0], [0.1], [0.2], [9.0]])
    >>> chosen_batch(np.array([3.0, 2.9, 2.8, 1.0]), Points(X), 2).tolist()
    [1, 3]
    """
    X = numbers(Points(rows.X))
    order = np.argsort(-score, kind="stable")
    first = np.unique(X[order], axis=0, return_index=True)[1]
    best = order[np.sort(first)][: _TIMES * n]
    if len(best) <= n:
        return np.asarray(best)
    distance = _to_centres(X[best], n, seed)
    taken: list[int] = []
    for centre in range(n):
        nearest = np.argsort(distance[:, centre], kind="stable").tolist()
        taken.append(next(i for i in nearest if i not in taken))
    return np.asarray(best[np.sort(taken)])


def _to_centres(X: Floats, n: int, seed: int) -> Floats:
    """The distance of each row to the centre of each of n clusters."""
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(n, n_init=_STARTS, random_state=seed).fit(X).transform(X))
