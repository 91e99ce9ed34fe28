"""Grow a decision tree depth first, with the same order of nodes as in scikit-learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.kernels import literal_inlined, literal_part
from dshapley.learners.trees.splits import (
    Limits,
    Node,
    Rows,
    Scratch,
    best_split,
    node_value,
    total_up,
    worth,
)

__all__ = [
    "Root",
    "Tree",
    "child_key",
    "enter",
    "grow",
    "grown",
    "is_leaf",
    "leaf",
    "plant",
    "tree",
]

_EPSILON = float(np.finfo(np.float64).eps)
"""An impurity of at most this counts as zero."""

_ROOT = -1


class Tree(NamedTuple):
    """The nodes of a tree, parents before children; a leaf has left = -1."""

    feature: Array
    threshold: Floats
    left: Array
    right: Array
    start: Array
    end: Array
    """The rows of node i are samples[start[i]:end[i]]."""
    depth: Array
    value: Floats
    """(nodes, c) class shares or the mean; set for leaves only."""


class Root(NamedTuple):
    """The root of a tree or subtree, whose rows are samples[:n_rows]."""

    n_rows: int
    depth: int
    key: Any
    """The random key of the root; unused unless `Limits.keyed`."""
    extra: int
    """A row that is missing in the sorted columns, or -1."""


def tree(n_rows: int, limits: Limits) -> Tree:
    """Memory for a tree of `n_rows` rows."""
    n = max(2 * n_rows - 1, 1)
    return Tree(
        feature=np.empty(n, dtype=np.int32),
        threshold=np.empty(n),
        left=np.empty(n, dtype=np.int32),
        right=np.empty(n, dtype=np.int32),
        start=np.empty(n, dtype=np.int32),
        end=np.empty(n, dtype=np.int32),
        depth=np.empty(n, dtype=np.int32),
        value=np.empty((n, limits.n_classes)),
    )


@literal_inlined
def child_key(key: Any, side: int) -> Any:
    """The random key of a child (0 left, 1 right), made by the mixing function of splitmix64."""
    k = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(side + 1)
    k = (k ^ (k >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    k = (k ^ (k >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return k ^ (k >> np.uint64(31))


@literal_inlined
def _partition(column: Array, samples: Array, start: int, end: int, threshold: float) -> int:
    """Move the rows at or below the threshold to the front; return where the others start."""
    a, b = start, end
    while a < b:
        row = samples[a]
        if column[row] <= threshold:
            a += 1
        else:
            b -= 1
            samples[a], samples[b] = samples[b], row
    return a


@literal_inlined
def _partition_columns(
    rows: Rows, room: Scratch, n_constant: int, start: int, end: int, cut: int, fresh: bool
) -> None:
    """Divide every sorted column that is not constant at `cut`; both sides stay sorted."""
    for i in range(start, cut):
        room.inside[room.samples[i]] = 1
    for place in range(n_constant, len(room.work)):
        f = room.features[place]
        column, spare = room.work[f], room.spare
        source = rows.order[f] if fresh else column
        a, b = start, 0
        for i in range(start, end):
            row = source[i]
            goes_left = room.inside[row]
            column[a] = row
            spare[b] = row
            a += goes_left
            b += 1 - goes_left
        for i in range(b):
            column[a + i] = spare[i]
    for i in range(start, cut):
        room.inside[room.samples[i]] = 0


@literal_part
def grow(  # noqa: C901 - parts would cost reference counting of the arrays at every node
    tree: Tree, rows: Rows, limits: Limits, room: Scratch, root: Root
) -> int:
    """Grow a tree or a subtree; return its number of nodes."""
    n_nodes, top, whole = 0, 0, 0.0
    stack, keys, impurities = room.stack, room.keys, room.impurities
    fresh = limits.sorted_columns and root.n_rows == rows.order.shape[1]
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, root.n_rows, root.depth
    stack[0, 3], stack[0, 5] = _ROOT, 0
    keys[0] = root.key
    while top >= 0:
        start, end, depth = stack[top, 0], stack[top, 1], stack[top, 2]
        parent, is_left, n_constant = stack[top, 3], stack[top, 4], stack[top, 5]
        key = keys[top]
        top -= 1
        node, n_nodes = n_nodes, n_nodes + 1
        if parent >= 0 and is_left:
            tree.left[parent] = node
        elif parent >= 0:
            tree.right[parent] = node
        tree.start[node], tree.end[node], tree.depth[node] = start, end, depth
        weight, impurity = total_up(rows, limits, room, start, end)
        if parent < 0:
            whole = weight
        elif not limits.keyed:  # scikit-learn's impurity, which rounding may leave above zero
            impurity = impurities[top + 1]
        feature, threshold = -1, 0.0
        if not is_leaf(limits, end - start, depth, impurity):
            if limits.keyed:
                n_constant = 0
                enter(room, key)
            feature, threshold, n_constant = best_split(
                rows, limits, room, Node(start, end, weight, root.extra), n_constant, fresh
            )
        cut, sides = start, (0.0, 0.0)
        if feature >= 0:
            cut = _partition(rows.columns[feature], room.samples, start, end, threshold)
        if feature >= 0 and not limits.keyed:
            improvement, sides = worth(
                rows, limits, room, Node(start, end, weight, root.extra), cut, impurity
            )
            if improvement * (weight / whole) + _EPSILON < 0.0:
                feature = -1
        tree.feature[node], tree.threshold[node] = feature, threshold
        if feature < 0:
            tree.left[node] = tree.right[node] = -1
            node_value(tree.value[node], limits, room, weight)
            continue
        if limits.sorted_columns and depth + 1 < limits.max_depth:
            _partition_columns(rows, room, n_constant, start, end, cut, fresh)
        fresh = False
        for side in (1, 0):
            top += 1
            stack[top, 0], stack[top, 1] = (cut, end) if side else (start, cut)
            stack[top, 2], stack[top, 3], stack[top, 4] = depth + 1, node, 1 - side
            stack[top, 5], impurities[top] = n_constant, sides[side]
            if limits.keyed:
                keys[top] = child_key(key, side)
    return n_nodes


@literal_inlined
def is_leaf(limits: Limits, n_rows: int, depth: int, impurity: float) -> bool:
    """Whether a node is not split any further."""
    return (
        depth >= limits.max_depth
        or n_rows < limits.min_split
        or n_rows < 2 * limits.min_leaf
        or impurity <= _EPSILON
    )


@literal_inlined
def enter(room: Scratch, key: Any) -> None:
    """Reset the features and the generator, so that a node's draws depend only on its key."""
    for f in range(len(room.features)):
        room.features[f] = f
    room.state[0] = np.uint32(np.uint64(key) & np.uint64(0xFFFFFFFF))


@literal_inlined
def leaf(tree: Tree, node: int, X: Array, row: int) -> int:
    """The leaf below `node` that a row of X reaches."""
    while tree.left[node] >= 0:
        if X[row, tree.feature[node]] <= tree.threshold[node]:
            node = tree.left[node]
        else:
            node = tree.right[node]
    return node


@literal_inlined
def plant(rows: Rows, limits: Limits, room: Scratch, key: Any) -> int:
    """Prepare a tree of all rows with nonzero weight; return their number."""
    enter(room, key)
    n = 0
    for row in range(len(rows.w)):
        if rows.w[row] != 0.0:
            room.samples[n] = row
            n += 1
    if limits.sorted_columns and n < rows.order.shape[1]:
        for f in range(len(rows.order)):
            found, order, work = 0, rows.order[f], room.work[f]
            for i in range(len(order)):
                if rows.w[order[i]] != 0.0:
                    work[found] = order[i]
                    found += 1
    return n


@literal_part
def grown(tree: Tree, rows: Rows, limits: Limits, room: Scratch, key: Any) -> int:
    """Grow one tree of all rows with nonzero weight; return its number of nodes."""
    return grow(tree, rows, limits, room, Root(plant(rows, limits, room, key), 0, key, -1))
