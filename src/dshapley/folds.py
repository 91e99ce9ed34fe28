"""Rows divided at random, labels evenly: into folds, or into rows to test on and others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError, is_whole
from dshapley.points import Array, Points

__all__ = ["N_FOLDS", "in_folds", "set_aside"]

N_FOLDS = 5
_MOST_CLASSES = 20
"""Labels of more distinct values are numbers."""
_RARE = 4
"""A class with fewer rows than so many times the folds is dealt out evenly."""


def in_folds(
    points: Points, groups: Array | None = None, *, n_folds: int = N_FOLDS, seed: int = 0
) -> NDArray[np.int64]:
    """A fold for each point, at random; folds are about equally large.

    Labels are not made even between the folds, since the spread between folds is to show how much
    answers depend on which rows they are tested on, and that is hidden where all folds have the
    same share of each class. Only rare classes are dealt out, so that no fold is without them.
    Points of one group are kept together.

    >>> points = Points(np.zeros((10, 1)), ["a", "b"] * 5)
    >>> np.bincount(in_folds(points, seed=1)).tolist()
    [2, 2, 2, 2, 2]
    """
    names, group = np.unique(
        np.arange(len(points)) if groups is None else groups, return_inverse=True
    )
    n = min(n_folds, len(names))
    if n < 3:  # each would be tested on one fold, and the spread between folds not be known
        raise InputError(
            "cross-fitting needs at least three rows or bundles: bring test rows of your own "
            "(test=, --test)"
        )
    rng = np.random.default_rng(_checked(seed))
    if len(names) < len(points):
        return _whole_groups(group, n, rng)
    # Each n points in this order go to n different folds: first the rare classes, by label.
    order = rng.permutation(len(points))
    label, is_rare = _rare(points, _RARE * n)
    order = order[np.argsort(np.where(is_rare, label, label.max() + 1)[order], kind="stable")]
    folds = np.empty(len(points), dtype=np.int64)
    folds[order] = rng.permutation(n)[np.arange(len(points)) % n]
    return folds


def _rare(points: Points, fewer_than: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """A number for each label, and which points have a label that is rare."""
    y = np.zeros(len(points)) if points.y is None else points.y
    classes, label, counts = np.unique(y, return_inverse=True, return_counts=True)
    few_classes = len(classes) <= _MOST_CLASSES or y.dtype.kind not in "biuf"
    return label, (counts < fewer_than)[label] & few_classes


def _whole_groups(group: NDArray[np.intp], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The largest group first, each to the fold that has the fewest points."""
    sizes = np.bincount(group)
    order = rng.permutation(len(sizes))
    filled = np.zeros(n, dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    for g in order[np.argsort(-sizes[order], kind="stable")].tolist():
        fold[g] = int(np.argmin(filled))
        filled[fold[g]] += sizes[g]
    return fold[group]


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
