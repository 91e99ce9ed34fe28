"""Rows divided at random: into folds, or into rows to test on and others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Points
from dshapley.data.targets import are_classes
from dshapley.errors import InputError, is_whole

__all__ = ["N_FOLDS", "in_folds", "set_aside"]

N_FOLDS = 5
_EACH = 1
"""So many rows of each class are put into every fold, if there are enough."""


def in_folds(
    points: Points, groups: Array | None = None, *, n_folds: int = N_FOLDS, seed: int = 0
) -> NDArray[np.int64]:
    """A fold for each point, at random; folds are about equally large.

    Points of one group are kept together. Every fold gets `_EACH` groups of each class, as far as
    there are so many. Beyond that labels are not made even between the folds: the spread between
    folds is to show how much answers depend on which rows they are tested on, and that is hidden
    where all folds have the same share of each class.

    >>> points = Points(np.zeros((10, 1)), ["a", "b"] * 5)
    >>> np.bincount(in_folds(points, seed=1)).tolist()
    [2, 2, 2, 2, 2]
    """
    _, first, group, sizes = np.unique(
        np.arange(len(points)) if groups is None else groups,
        return_index=True, return_inverse=True, return_counts=True,
    )  # fmt: skip
    n = min(n_folds, len(sizes))
    # Chains of nested sets come every 32 draws and would all test on the same of 2 or 4 folds.
    n -= 1 - n % 2
    if n < 3:  # each would be tested on one fold, and the spread between folds not be known
        raise InputError(
            "cross-fitting needs at least three rows or bundles: bring test rows of your own "
            "(test=, --test)"
        )
    rng = np.random.default_rng(_checked(seed))
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    chosen = _dealt(_classes(points)[first[order]], n, rng)
    filled = np.bincount(chosen[chosen >= 0], sizes[order][chosen >= 0], minlength=n)
    for place in np.flatnonzero(chosen < 0).tolist():
        chosen[place] = np.argmin(filled)
        filled[chosen[place]] += sizes[order[place]]
    fold = np.empty(len(sizes), dtype=np.int64)
    fold[order] = chosen
    return fold[group]


def _dealt(classes: NDArray[np.intp], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The fold of the first groups of each class, enough for all folds; -1 for others."""
    chosen = np.full(len(classes), -1, dtype=np.int64)
    turn = 0
    folds = rng.permutation(n)
    for label in range(int(classes.max()) + 1 if classes.max() > 0 else 0):
        here = np.flatnonzero(classes == label)[: _EACH * n]
        chosen[here] = folds[(turn + np.arange(len(here))) % n]
        turn += len(here)
    return chosen


def _classes(points: Points) -> NDArray[np.intp]:
    """A number for the class of each point; zeros where labels are numbers, or there are none."""
    if points.y is None or not are_classes(points.y):
        return np.zeros(len(points), dtype=np.intp)
    return np.unique(points.y, return_inverse=True)[1]


def set_aside(
    y: Array, share: float, *, stratify: bool, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places of the rows to keep and of those to test on, in their order."""
    from sklearn.model_selection import train_test_split

    if not 0 < share < 1:
        raise InputError(f"test size {share}: give the share of rows to test on, such as 0.2")
    # A class with a single row cannot be on both sides; then the split is a plain one.
    strata = y if stratify and np.unique(y, return_counts=True)[1].min() > 1 else None
    random_state = _checked(seed)
    try:
        kept, held_out = train_test_split(
            np.arange(len(y)), test_size=share, stratify=strata, random_state=random_state
        )
    except ValueError as error:
        raise InputError(f"the rows cannot be split into database and test set: {error}") from None
    return np.sort(kept), np.sort(held_out)


def _checked(seed: int) -> int:
    if not is_whole(seed, least=0):
        raise InputError(f"seed = {seed}: a seed is a whole number, 0 or more")
    return int(seed)
