"""Growing one tree as the learners do, and comparing it with one of scikit-learn."""

import math

import numpy as np

from dshapley.learners.trees.forest import _trees
from dshapley.learners.trees.growth import tree
from dshapley.learners.trees.splits import SQUARES, Limits, Rows, scratch


def limits(criterion, d, *, classes=1, **changed):
    """No limits, but for those that are changed."""
    plain = Limits(
        n_classes=classes, criterion=criterion, random=False, max_features=d, max_depth=2**31 - 1,
        min_split=2, min_leaf=1, keyed=False, sorted_columns=False,
    )  # fmt: skip
    return plain._replace(**changed)


def tree_of(X, y, w, key, allowed):
    """The tree of rows with weights, and its number of nodes."""
    columns = np.ascontiguousarray(X.T, dtype=np.float32)
    rows = Rows(
        columns=columns,
        order=np.argsort(columns, axis=1, kind="stable").astype(np.uint32),
        two_values=np.array([len(np.unique(column)) <= 2 for column in columns]),
        codes=(np.zeros(len(y)) if allowed.criterion == SQUARES else y).astype(np.uint32),
        y=np.array(y, dtype=np.float64),
        w=np.array(w, dtype=np.float64),
    )
    room, found = scratch(*X.shape, allowed), tree(len(X), allowed)
    nothing = np.empty((0, X.shape[1]), dtype=np.float32)
    _trees(rows, allowed, room, found, np.array([key], dtype=np.uint64), nothing)
    return found, _size(found, 0)


def _size(found, node):
    """How many nodes there are from a node on."""
    if found.left[node] < 0:
        return 1
    return 1 + _size(found, found.left[node]) + _size(found, found.right[node])


def first_draw(seed):
    """What a tree with this random state starts its own generator with."""
    return np.random.RandomState(seed).randint(0, 2**31 - 1)


def same_tree(ours, n_nodes, theirs):
    """Node for node: shape, features, thresholds, and the values of the leaves."""
    leaves = theirs.children_left < 0
    assert n_nodes == theirs.node_count
    for mine, other in ((ours.left, theirs.children_left), (ours.right, theirs.children_right)):
        np.testing.assert_array_equal(mine[:n_nodes], other)
    np.testing.assert_array_equal(ours.feature[:n_nodes], np.where(leaves, -1, theirs.feature))
    np.testing.assert_array_equal(ours.threshold[:n_nodes][~leaves], theirs.threshold[~leaves])
    np.testing.assert_array_equal(ours.value[:n_nodes][leaves], theirs.value[leaves, 0])


def differences(ours, theirs, X, w):
    """Where two trees first part, on the way down: the rows there, and both splits."""
    X = X.astype(np.float32)
    stack = [(0, 0, np.flatnonzero(w))]
    while stack:
        i, j, rows = stack.pop()
        mine = (int(ours.feature[i]), float(ours.threshold[i]))
        other = (int(theirs.feature[j]), float(theirs.threshold[j]))
        if ours.left[i] < 0 and theirs.children_left[j] < 0:
            continue
        if mine != other:
            yield rows, mine, other
            continue
        left = X[rows, mine[0]] <= mine[1]
        stack.append((ours.right[i], theirs.children_right[j], rows[~left]))
        stack.append((ours.left[i], theirs.children_left[j], rows[left]))


def improvement(split, rows, X, columns, w):
    """By how much a split lowers the weighted squares of all columns.

    Of the indicators of classes, it is by how much it lowers Gini's impurity.
    """
    feature, threshold = split
    assert feature >= 0, "one of the two is a leaf"
    below = X[rows, feature].astype(np.float32) <= threshold
    left, right = rows[below], rows[~below]
    w_left, w_right = math.fsum(w[left]), math.fsum(w[right])
    gaps = [
        math.fsum(w[left] * y[left]) / w_left - math.fsum(w[right] * y[right]) / w_right
        for y in columns
    ]
    return w_left * w_right / (w_left + w_right) * math.fsum(gap**2 for gap in gaps)


def is_tie(rows, mine, other, X, columns, w):
    """Whether two splits are equally good."""
    a, b = (improvement(split, rows, X, columns, w) for split in (mine, other))
    return abs(a - b) <= 1e-10 * max(a, b)
