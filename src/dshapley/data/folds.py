"""Random splits of rows: into folds for cross-fitting, or into a database and a test set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Points
from dshapley.data.targets import are_classes
from dshapley.errors import InputError, is_whole

__all__ = ["N_FOLDS", "in_folds", "set_aside"]

N_FOLDS = 5
_EACH = 1
"""Each fold gets this many groups of each class, if there are enough."""


def in_folds(
    points: Points, groups: Array | None = None, *, n_folds: int = N_FOLDS, seed: int = 0
) -> NDArray[np.int64]:
    """The fold of each point, chosen at random; the folds have about equal sizes.

    Points of one group share a fold. Each fold gets `_EACH` groups of each class, if there are
    enough, but the split is not stratified beyond that: the spread between folds should show how
    much the values depend on the choice of test rows, and stratified folds would hide part of it.
    The number of folds is odd, and at least three.

    >>> points = Points(np.zeros((10, 1)), ["a", "b"] * 5)
    >>> np.bincount(in_folds(points, seed=1)).tolist()
    [2, 2, 2, 2, 2]
    """
    _, first, group, sizes = np.unique(
        np.arange(len(points)) if groups is None else groups,
        return_index=True, return_inverse=True, return_counts=True,
    )  # fmt: skip
    n = min(n_folds, len(sizes))
    # Nested sets are drawn every 32 draws: with 2 or 4 folds all would test on the same fold.
    n -= 1 - n % 2
    if n < 3:  # with two folds each row is tested on one fold only, which shows no spread
        raise InputError(
            "cross-fitting needs at least three rows or bundles: give separate test rows "
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
    """The fold of the first `_EACH * n` groups of each class, dealt in turn; -1 for the rest."""
    chosen = np.full(len(classes), -1, dtype=np.int64)
    turn = 0
    folds = rng.permutation(n)
    for label in range(int(classes.max()) + 1 if classes.max() > 0 else 0):
        here = np.flatnonzero(classes == label)[: _EACH * n]
        chosen[here] = folds[(turn + np.arange(len(here))) % n]
        turn += len(here)
    return chosen


def _classes(points: Points) -> NDArray[np.intp]:
    """The class code of each point; zeros if the labels are numbers or missing."""
    if points.y is None or not are_classes(points.y):
        return np.zeros(len(points), dtype=np.intp)
    return np.unique(points.y, return_inverse=True)[1]


def set_aside(
    y: Array, share: float, *, stratify: bool, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The positions of the rows to keep and of the rows to test on, both in ascending order."""
    from sklearn.model_selection import train_test_split

    if not 0 < share < 1:
        raise InputError(
            f"test size {share}: give a share of the rows between 0 and 1, such as 0.2"
        )
    # A class with a single row cannot be on both sides, so the split is not stratified then.
    strata = y if stratify and np.unique(y, return_counts=True)[1].min() > 1 else None
    random_state = _checked(seed)
    try:
        kept, held_out = train_test_split(
            np.arange(len(y)), test_size=share, stratify=strata, random_state=random_state
        )
    except ValueError as error:
        raise InputError(
            f"the rows cannot be split into a database and a test set: {error}"
        ) from None
    return np.sort(kept), np.sort(held_out)


def _checked(seed: int) -> int:
    if not is_whole(seed, least=0):
        raise InputError(f"seed = {seed}: a seed is a whole number, 0 or more")
    return int(seed)
