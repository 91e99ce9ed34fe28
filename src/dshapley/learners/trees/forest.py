"""Decision trees, random forests and extra-trees.

Each tree of a forest has a bag of rows. The bags for S and S + z agree in most places, and z takes
the same places whichever point it is. So a tree whose bag does not have z is grown once for all z.
In the other trees only the nodes on z's own path from the root are searched again. Each node draws
its features from a random key of its own, so the parts that z does not reach stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.fast import Asked, Family, Sample, UnsupportedError
from dshapley.learners.kernels import literal, literal_inlined, literal_part, slow_literal
from dshapley.learners.trees.growth import (
    Root,
    Tree,
    child_key,
    enter,
    grow,
    grown,
    is_leaf,
    leaf,
    plant,
    tree,
)
from dshapley.learners.trees.parameters import (
    Columns,
    answered,
    check_plain,
    first_draws,
    limits_of,
    random_state,
    work,
)
from dshapley.learners.trees.splits import (
    Limits,
    Node,
    Rows,
    Scratch,
    best_split,
    node_value,
    scratch,
    total_up,
)

__all__ = ["family"]

_NUMBERS, _MOST = 8_000_000, 128
"""The largest numbers of output values, and of points z, in one call of a compiled loop.

Ctrl-C takes effect only between calls.
"""


def family(estimator: Any) -> Family:
    """The family for a decision tree, a random forest or extra-trees."""
    check_plain(estimator)
    if not hasattr(estimator, "n_estimators"):
        return Trees(estimator)
    if not estimator.bootstrap and (estimator.max_samples is not None or estimator.oob_score):
        raise UnsupportedError("max_samples and oob_score need bootstrap=True")
    if getattr(estimator, "class_weight", None) is None:
        return Forest(estimator)
    if estimator.bootstrap:
        raise UnsupportedError(
            "the meaning of class_weight with bootstrap=True depends on scikit-learn's version"
        )
    return Trees(estimator)


class _Rows(NamedTuple):
    """S or Z in the form that compiled loops take."""

    X: Array
    """(d, n) for S, (r, d) for Z."""
    codes: Array
    y: Floats


class _Bags(NamedTuple):
    """The random keys and the bags of t trees."""

    keys: Array
    """(t,)"""
    alone: Floats
    """(t, n) how often each row of S is in the bag for S."""
    with_z: Floats
    """(t, n) how often each row of S is in the bag for S + z."""
    n_z: Floats
    """(t,) how often z is in the bag for S + z."""


class _Growing(NamedTuple):
    """Memory for growing the trees of a forest."""

    room: Scratch
    base: Tree
    """The tree without z."""
    below: Tree
    """A subtree that is grown again with z."""


class _Way(NamedTuple):
    """The data for following z down a tree."""

    base: Tree
    """The tree without z."""
    below: Tree
    """Memory for a subtree that is grown again with z."""
    kept: Array
    """The rows of `base`, in the order of its nodes."""
    reached: Array
    """The leaf of `base` that each test row reaches."""
    here: Array
    """Memory for the test rows that are in the same node as z."""
    test: Array
    """(q, d) the test rows."""


@dataclass(frozen=True)
class Forest:
    """A forest whose trees are grown once for S and updated for each z."""

    estimator: Any
    accepts_nan = True
    work = staticmethod(work)

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        data = asked.once("columns", lambda: Columns(S, Z, asked, exact_sums=True))
        d, n = data.S.shape
        limits = limits_of(self.estimator, d, asked.n_classes, keyed=True, sort=False)
        growing = _Growing(scratch(n + 1, d, limits), tree(n + 1, limits), tree(n + 1, limits))
        known = _Rows(data.S, data.codes, data.y)
        bags = asked.once("bags", lambda: _bags(self.estimator, n, asked.seed))
        for start, some in _blocks(len(Z), len(asked.X) * limits.n_classes):
            alone = data.trainable and start == 0
            new = _Rows(data.Z[some], data.codes_Z[some], data.y_Z[some])
            of_trees = bags if alone else bags._replace(alone=bags.alone[:0])
            make = partial(_forest, known, data.order, new, of_trees, data.test, limits, growing)
            sums = asked.once("sums", make, start)
            yield answered(sums[0 if alone else 1 :] / self.estimator.n_estimators, asked)


def _blocks(n: int, cost: int) -> Iterator[tuple[int, slice]]:
    """The start and slice of each block of Z, whose points cost `cost` numbers each.

    There is at least one block, which may be empty.
    """
    size = int(np.clip(_NUMBERS // cost, 1, _MOST))
    for start in range(0, max(n, 1), size):
        yield start, slice(start, start + size)


def _bags(estimator: Any, n: int, seed: int) -> _Bags:
    """The keys and bags of the trees for a set S of n rows."""
    n_trees = estimator.n_estimators
    keys = np.random.default_rng([seed, 1]).integers(2**63, size=n_trees, dtype=np.uint64)
    if not estimator.bootstrap:
        ones = np.ones((n_trees, n))
        return _Bags(keys, ones, ones, np.ones(n_trees))
    n_drawn = [_n_drawn(estimator.max_samples, size) for size in (n, n + 1)]
    return _Bags(keys, *_drawn(keys, n, *n_drawn))


@literal
def _drawn(keys: Array, n: int, n_alone: int, n_with: int) -> tuple[Floats, Floats, Floats]:
    """Bags of n_alone rows of S and of n_with rows of S + z that agree as much as possible.

    This is reservoir sampling: a place in a bag visits the rows in order and replaces its row by
    the i-th with probability 1/i. So after n rows each of them is in the place with probability
    1/n, and adding row n + 1 changes few places. The code jumps from one replacement to the next:
    after row i the next one is beyond row m with probability i/m.
    """
    alone, with_z = np.zeros((len(keys), n)), np.zeros((len(keys), n))
    n_z = np.zeros(len(keys))
    for t in range(len(keys)):
        for place in range(max(n_alone, n_with)):
            key = child_key(keys[t], place + 2)
            taken, i = 0, 1
            while i <= n:
                taken = i
                key = child_key(key, 0)
                u = (np.float64(key >> np.uint64(11)) + 1.0) / 2.0**53
                i = int(min(taken / u, 1e15)) + 1
            if place < n_alone:
                alone[t, taken - 1] += 1.0
            if place < n_with and i == n + 1:
                n_z[t] += 1.0
            elif place < n_with:
                with_z[t, taken - 1] += 1.0
    return alone, with_z, n_z


def _n_drawn(max_samples: Any, n: int) -> int:
    """The number of rows that a tree draws from n rows."""
    if max_samples is None or n == 0:
        return n
    if isinstance(max_samples, Integral):
        return int(max_samples)
    return max(int(n * max_samples), 1)


@slow_literal
def _forest(
    S: _Rows, order: Array, Z: _Rows, bags: _Bags, test: Array, limits: Limits, growing: _Growing
) -> Floats:
    """(1 + r, q, c) the sums over trees of their values at the test rows, for S and every S + z.

    The sums for S are zero if `bags.alone` is empty.
    """
    room, base, below = growing.room, growing.base, growing.below
    d, n = S.X.shape
    r, q, c = len(Z.X), len(test), limits.n_classes
    sums = np.zeros((1 + r, q, c))
    columns = np.empty((d, n + 1), dtype=np.float32)
    columns[:, :n] = S.X
    all_codes, all_y, w = np.zeros(n + 1, dtype=np.uint32), np.zeros(n + 1), np.zeros(n + 1)
    all_codes[:n], all_y[:n] = S.codes, S.y
    unknown = np.zeros(d, dtype=np.bool_)
    kept, here = np.empty(n, dtype=np.uint32), np.empty(q, dtype=np.uint32)
    reached, shared = np.empty(q, dtype=np.uint32), np.zeros((q, c))
    for t in range(len(bags.keys)):
        key = bags.keys[t]
        for part in range(0 if len(bags.alone) > 0 else 1, 2 if r > 0 else 1):
            w[:n] = bags.with_z[t] if part else bags.alone[t]
            w[n] = 0.0
            rows = Rows(columns, _in_bag(order, w), unknown, all_codes, all_y, w)
            n_kept = plant(rows, limits, room, key)
            if n_kept > 0:
                grow(base, rows, limits, room, Root(n_kept, 0, key, -1))
                into = shared if part else sums[0]
                for j in range(q):
                    reached[j] = leaf(base, 0, test, j)
                    into[j] += base.value[reached[j]]
            if part == 0 or bags.n_z[t] == 0.0:
                continue
            kept[:n_kept] = room.samples[:n_kept]
            way = _Way(base, below, kept[:n_kept], reached, here, test)
            w[n] = bags.n_z[t]
            for z in range(r):
                columns[:, n] = Z.X[z]
                all_codes[n], all_y[n] = Z.codes[z], Z.y[z]
                _with_z(sums[1 + z], way, rows, limits, room, key)
    for z in range(r):
        sums[1 + z] += shared
    return sums


@literal_inlined
def _in_bag(order: Array, w: Floats) -> Array:
    """The sorted columns without the rows of weight zero."""
    n = 0
    for row in range(order.shape[1]):
        n += w[row] != 0.0
    found = np.empty((len(order), n), dtype=np.uint32)
    for f in range(len(order)):
        i = 0
        for row in order[f]:
            if w[row] != 0.0:
                found[f, i] = row
                i += 1
    return found


@literal_part
def _with_z(sums: Floats, way: _Way, rows: Rows, limits: Limits, room: Scratch, key: Any) -> None:
    """Add to `sums` the changes that z, the last row, makes to the tree's value at each test row.

    The function follows z down the tree and searches for the best split again at each node on the
    path. If the split divides the rows of S as before, the side without z is unchanged. If not, the
    subtree is grown again.
    """
    base, below, reached, test = way.base, way.below, way.reached, way.test
    z, had = len(rows.w) - 1, len(way.kept) > 0
    n_here = len(test)
    for j in range(n_here):
        way.here[j] = j
    node, moved = 0, False
    while True:
        m = _gather(room, way, node, z)
        depth = base.depth[node] if had else 0
        weight, impurity = total_up(rows, limits, room, 0, m)
        feature, threshold = -1, 0.0
        if not is_leaf(limits, m, depth, impurity):
            enter(room, key)
            feature, threshold, _ = best_split(rows, limits, room, Node(0, m, weight, z), 0, False)
        if feature < 0:
            node_value(below.value[0], limits, room, weight)
            for i in range(n_here):
                _replace(sums, way.here[i], below, 0, base, reached, had)
            return
        if feature != base.feature[node] or not _same(rows, base, way.kept, node, threshold):
            grow(below, rows, limits, room, Root(m, depth, key, z))
            for i in range(n_here):
                j = way.here[i]
                _replace(sums, j, below, leaf(below, 0, test, j), base, reached, True)
            return
        z_left = rows.columns[feature, z] <= threshold
        moved = moved or threshold != base.threshold[node]
        n_here = _parted(sums, way, node, threshold, z_left, moved, n_here)
        if n_here == 0:
            return
        node = base.left[node] if z_left else base.right[node]
        key = child_key(key, 0 if z_left else 1)


@literal_inlined
def _gather(room: Scratch, way: _Way, node: int, z: int) -> int:
    """Put the rows of a node and z at the start of `samples`; return their number."""
    m = 0
    if len(way.kept) > 0:
        for i in range(way.base.start[node], way.base.end[node]):
            room.samples[m] = way.kept[i]
            m += 1
    room.samples[m] = z
    return m + 1


@literal_inlined
def _parted(
    sums: Floats, way: _Way, node: int, threshold: float, z_left: bool, moved: bool, n_here: int
) -> int:
    """Put the test rows on z's side of the split first in `here`, and return their number.

    The subtree on the other side is unchanged, so the other test rows only need a new leaf if a
    threshold has moved.
    """
    base, test = way.base, way.test
    feature = base.feature[node]
    other = base.right[node] if z_left else base.left[node]
    n_next = 0
    for i in range(n_here):
        j = way.here[i]
        if (test[j, feature] <= threshold) == z_left:
            way.here[n_next] = j
            n_next += 1
        elif moved:
            _replace(sums, j, base, leaf(base, other, test, j), base, way.reached, True)
    return n_next


@literal_inlined
def _same(rows: Rows, base: Tree, kept: Array, node: int, threshold: float) -> bool:
    """Whether a threshold sends the same rows of S to the left as the node's own threshold."""
    column = rows.columns[base.feature[node]]
    n_left = 0
    for i in range(base.start[node], base.end[node]):
        n_left += column[kept[i]] <= threshold
    return n_left == base.end[base.left[node]] - base.start[node]


@literal_inlined
def _replace(
    sums: Floats, j: int, new: Tree, node: int, base: Tree, reached: Array, had: bool
) -> None:
    """Replace, in the sums of test row j, the value of its old leaf by that of a node of `new`."""
    for c in range(sums.shape[1]):
        sums[j, c] += new.value[node, c]
        if had:
            sums[j, c] -= base.value[reached[j], c]


@dataclass(frozen=True)
class Trees:
    """Trees that are grown again for every z, with the random states that scikit-learn uses."""

    estimator: Any
    accepts_nan = True
    work = staticmethod(work)

    def outputs(self, S: Sample, Z: Sample, asked: Asked) -> Iterator[Array]:
        """The outputs of the models trained on S and on every S + z, in blocks."""
        data = asked.once("columns", lambda: Columns(S, Z, asked))
        d, n = data.S.shape
        limits = limits_of(self.estimator, d, asked.n_classes)
        room, one = scratch(n + 1, d, limits), tree(n + 1, limits)
        weights = np.ones((1 + len(Z), limits.n_classes))
        if asked.classes is not None:
            weights = data.class_weights(self.estimator.class_weight)
        start = random_state(self.estimator, asked.seed)
        n_trees = getattr(self.estimator, "n_estimators", 1)
        if hasattr(self.estimator, "n_estimators"):
            keys = first_draws(start.randint(2**31 - 1, size=n_trees))
        else:
            keys = start.randint(2**31 - 1, size=1).astype(np.uint64)
        for z in range(0 if data.trainable else 1, 1 + len(Z)):

            def make(z: int = z) -> Floats:
                rows = data.rows(z - 1, weights[z])
                return _trees(rows, limits, room, one, keys, data.test)

            sums = asked.once("sums", make, z)
            yield answered(sums[np.newaxis] / n_trees, asked)


@slow_literal
def _trees(
    rows: Rows, limits: Limits, room: Scratch, one: Tree, keys: Array, test: Array
) -> Floats:
    """(q, c) the sums over trees of their values at the test rows."""
    sums = np.zeros((len(test), limits.n_classes))
    for t in range(len(keys)):
        grown(one, rows, limits, room, keys[t])
        for j in range(len(test)):
            sums[j] += one.value[leaf(one, 0, test, j)]
    return sums
