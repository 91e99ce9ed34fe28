"""Find the best split of a node in the same way as scikit-learn.

Features are drawn in the same order, and splits are compared with the same arithmetic, so equal
seeds give equal trees. The exception is two equally good splits, where sums of fractions that are
added in a different order may decide differently. Sorting is different: columns are sorted once for
all trees, large nodes read their rows from the sorted columns, and only small nodes sort their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.learners.kernels import literal_inlined, literal_part

__all__ = [
    "ENTROPY",
    "GINI",
    "SQUARES",
    "Limits",
    "Node",
    "Rows",
    "Scratch",
    "best_split",
    "node_value",
    "scratch",
    "total_up",
    "worth",
]

GINI, ENTROPY, SQUARES = 0, 1, 2

_EQUAL = np.float32(1e-7)
"""Values of a column that differ by at most this count as equal, as in scikit-learn."""

_MARGIN = 1e-10
"""The margin of the quick check for better splits, much larger than its rounding errors."""

_LARGEST_DRAW = 2147483647


class Limits(NamedTuple):
    """The limits on growing a tree: the parameters of the estimator as numbers."""

    n_classes: int
    """The number of classes; 1 for regression."""
    criterion: int
    """GINI, ENTROPY or SQUARES."""
    random: bool
    """Draw thresholds at random, as in extra-trees, instead of searching for the best."""
    max_features: int
    max_depth: int
    min_split: int
    min_leaf: int
    keyed: bool
    """Draw the features of a node with its own random key, so other nodes cannot affect a subtree.

    If False, the whole tree draws from one stream, as in scikit-learn, and the features of a node
    depend on all nodes before it.
    """
    sorted_columns: bool
    """Keep every column of every node sorted, which pays off if most columns are searched."""


class Rows(NamedTuple):
    """The data that a tree is trained on."""

    columns: Array
    """(d, n) the features in single precision, as in scikit-learn."""
    order: Array
    """(d, r) the rows sorted by each column, ascending.

    Rows of weight zero may be missing, and so may the row `Node.extra`.
    """
    two_values: Array
    """(d,) 1 for columns that are known to have at most two values."""
    codes: Array
    """(n,) the class codes; zeros for regression."""
    y: Floats
    """(n,) the targets of a regression, or the class codes as floats."""
    w: Floats
    """(n,) the weights of the rows."""


class Node(NamedTuple):
    """A node to be split, with the rows samples[start:end]."""

    start: int
    end: int
    weight: float
    """The total weight of its rows (see `total_up`)."""
    extra: int
    """A row of the node that is missing in the sorted columns, or -1."""


class Scratch(NamedTuple):
    """Working memory that is reused for every tree."""

    samples: Array
    """(n,) the rows of the tree, so ordered that those of each node are adjacent."""
    features: Array
    """(d,) the features, permuted by `best_split`; those known to be constant come first."""
    constants: Array
    """(d,) the features that are known to be constant."""
    sorted: Array
    """(n,) the rows of a node, sorted by one column."""
    values: Array
    """(n,) the values of one column for the rows of a node."""
    inside: Array
    """(n,) 1 for marked rows, such as those of the current node."""
    work: Array
    """(d, n) the sorted columns of the tree, divided by nodes, if `Limits.sorted_columns`."""
    spare: Array
    """(n,) temporary memory for dividing a sorted column."""
    total: Floats
    """(c,) the weight of each class, or the weighted sum of y, in a node."""
    left: Floats
    """(c,) the same for one side of a split."""
    stack: Array
    keys: Array
    impurities: Floats
    state: Array
    """(1,) the state of the random generator."""
    so_far: Floats
    """(3, n) running sums over the rows of a node."""


def scratch(n_rows: int, n_features: int, limits: Limits) -> Scratch:
    """Working memory to grow trees of `n_rows` rows."""
    shape = (n_features, n_rows) if limits.sorted_columns else (0, 0)
    return Scratch(
        samples=np.empty(n_rows, dtype=np.uint32),
        features=np.arange(n_features, dtype=np.uint32),
        constants=np.empty(n_features, dtype=np.uint32),
        sorted=np.empty(n_rows, dtype=np.uint32),
        values=np.empty(n_rows, dtype=np.float32),
        inside=np.zeros(n_rows, dtype=np.uint8),
        work=np.empty(shape, dtype=np.uint32),
        spare=np.empty(n_rows, dtype=np.uint32),
        total=np.zeros(limits.n_classes),
        left=np.zeros(limits.n_classes),
        stack=np.empty((n_rows + 2, 6), dtype=np.int32),
        keys=np.empty(n_rows + 2, dtype=np.uint64),
        impurities=np.empty(n_rows + 2),
        state=np.zeros(1, dtype=np.uint32),
        so_far=np.empty((3, n_rows)),
    )


@literal_inlined
def _draw(state: Array) -> int:
    """The next number, below 2^31, of the generator that scikit-learn's trees use."""
    mask = np.uint64(0xFFFFFFFF)
    s = np.uint64(state[0])
    if s == np.uint64(0):
        s = np.uint64(1)
    s ^= (s << np.uint64(13)) & mask
    s ^= s >> np.uint64(17)
    s ^= (s << np.uint64(5)) & mask
    state[0] = np.uint32(s)
    return int(s & np.uint64(0x7FFFFFFF))


@literal_inlined
def total_up(
    rows: Rows, limits: Limits, room: Scratch, start: int, end: int
) -> tuple[float, float]:
    """Fill room.total for a node; return its total weight and its impurity."""
    total = room.total
    weight, squares = 0.0, 0.0
    for c in range(limits.n_classes):
        total[c] = 0.0
    if limits.criterion == SQUARES:
        for i in range(start, end):
            row = room.samples[i]
            w, y = rows.w[row], rows.y[row]
            total[0] += w * y
            squares += w * y * y
            weight += w
        return weight, squares / weight - (total[0] / weight) ** 2
    for i in range(start, end):
        row = room.samples[i]
        total[rows.codes[row]] += rows.w[row]
        weight += rows.w[row]
    return weight, _impurity(total, weight, limits)


@literal_inlined
def _impurity(total: Floats, weight: float, limits: Limits) -> float:
    """The Gini impurity or the entropy of class weights."""
    if limits.criterion == GINI:
        squares = 0.0
        for c in range(limits.n_classes):
            squares += total[c] * total[c]
        return 1.0 - squares / (weight * weight)
    entropy = 0.0
    for c in range(limits.n_classes):
        if total[c] > 0.0:
            share = total[c] / weight
            entropy -= share * (np.log(share) / np.log(2.0))
    return entropy


@literal_inlined
def worth(
    rows: Rows, limits: Limits, room: Scratch, node: Node, cut: int, impurity: float
) -> tuple[float, tuple[float, float]]:
    """The decrease in impurity by a split at `cut`, and the impurities of the two sides.

    As in scikit-learn, sums run over the smaller side, and the other side is the difference from
    the total.
    """
    start, end, weight = node.start, node.end, node.weight
    left, w_left = room.left, 0.0
    forward = cut - start <= end - cut
    if not forward:
        w_left = weight
    for c in range(limits.n_classes):
        left[c] = 0.0 if forward else room.total[c]
    for i in range(start, cut) if forward else range(end - 1, cut - 1, -1):
        w_left += _count(rows, limits, left, room.samples[i], 1.0 if forward else -1.0)
    w_right = weight - w_left
    if limits.criterion == SQUARES:
        squares, squares_left = 0.0, 0.0
        for i in range(start, end):
            row = room.samples[i]
            squares += rows.w[row] * rows.y[row] * rows.y[row]
            if i < cut:
                squares_left = squares
        right = room.total[0] - left[0]
        low = squares_left / w_left - (left[0] / w_left) ** 2
        high = (squares - squares_left) / w_right - (right / w_right) ** 2
    else:
        low = _impurity(left, w_left, limits)
        for c in range(limits.n_classes):
            left[c] = room.total[c] - left[c]
        high = _impurity(left, w_right, limits)
    gain = impurity - w_right / weight * high - w_left / weight * low
    return gain, (low, high)


@literal_inlined
def node_value(value: Floats, limits: Limits, room: Scratch, weight: float) -> None:
    """Fill `value` with the value of a leaf: the class shares or the mean of its rows."""
    for c in range(limits.n_classes):
        value[c] = room.total[c] / weight


@literal_inlined
def _sort(rows: Rows, room: Scratch, node: Node, f: int) -> bool:
    """Sort the rows of a node by column f into `sorted`; return False if the column is constant.

    A small node sorts its rows. A large node, whose rows are marked in `inside`, reads them from
    the sorted column.
    """
    start, m = node.start, node.end - node.start
    column, values, ordered = rows.columns[f], room.values, room.sorted
    low = high = column[room.samples[start]]
    for i in range(m):
        row = room.samples[start + i]
        v = column[row]
        ordered[i], values[i] = row, v
        low, high = min(low, v), max(high, v)
    if high <= low + _EQUAL:
        return False
    if not _is_large(m, rows.order.shape[1]):
        for i in range(1, m):
            v, row = values[i], ordered[i]
            j = i
            while j > 0 and values[j - 1] > v:
                values[j], ordered[j] = values[j - 1], ordered[j - 1]
                j -= 1
            values[j], ordered[j] = v, row
        return True
    found, order = 0, rows.order[f]
    for i in range(len(order)):
        ordered[found] = order[i]
        found += room.inside[order[i]]
        if found == m:
            break
    if found < m:  # the extra row is missing in the sorted columns: insert it
        v = column[node.extra]
        j = found
        while j > 0 and column[ordered[j - 1]] > v:
            ordered[j] = ordered[j - 1]
            j -= 1
        ordered[j] = node.extra
    return True


@literal_inlined
def _is_large(m: int, n: int) -> bool:
    """Whether m of n rows are read from a sorted column faster than sorted by insertion."""
    return m * m > 4 * n


@literal_inlined
def _search(
    rows: Rows, limits: Limits, room: Scratch, column: Array, ordered: Array, weight: float,
    best: float,
) -> tuple[float, int]:  # fmt: skip
    """The score and position of the best split of sorted rows; position 0 if none beats `best`.

    A split at position i puts the first i rows on the left.
    """
    if limits.criterion == SQUARES:
        return _search_squares(rows, limits, room, column, ordered, weight, best)
    if limits.criterion == GINI and limits.n_classes == 2:
        return _search_two(rows, limits, room, column, ordered, weight, best)
    if limits.criterion == GINI:
        return _search_gini(rows, limits, room, column, ordered, weight, best)
    return _search_entropy(rows, limits, room, column, ordered, weight, best)


@literal_inlined
def _search_squares(
    rows: Rows, limits: Limits, room: Scratch, column: Array, ordered: Array, weight: float,
    best: float,
) -> tuple[float, int]:  # fmt: skip
    m, total, min_leaf = len(ordered), room.total[0], limits.min_leaf
    left, w_left = room.so_far[0], room.so_far[2]
    sum_y, sum_w, place = 0.0, 0.0, 0
    for i in range(m - 1):
        row = ordered[i]
        sum_y += rows.w[row] * rows.y[row]
        sum_w += rows.w[row]
        left[i], w_left[i] = sum_y, sum_w
    # Most columns have no better split. This loop finds that out quickly, because it does not
    # divide and can be vectorised.
    bar = best - abs(best) * _MARGIN
    n_better = 0
    for i in range(m - 1):
        right, w_right = total - left[i], weight - w_left[i]
        better = left[i] * left[i] * w_right + right * right * w_left[i]
        n_better += better >= bar * (w_left[i] * w_right)
    if n_better == 0:
        return best, 0
    for i in range(min_leaf - 1, m - min_leaf):
        if column[ordered[i + 1]] <= column[ordered[i]] + _EQUAL:
            continue
        right, w_right = total - left[i], weight - w_left[i]
        proxy = left[i] * left[i] / w_left[i] + right * right / w_right
        if proxy > best:
            best, place = proxy, i + 1
    return best, place


@literal_inlined
def _search_two(
    rows: Rows, limits: Limits, room: Scratch, column: Array, ordered: Array, weight: float,
    best: float,
) -> tuple[float, int]:  # fmt: skip
    """`_search` for the Gini impurity of two classes, with a quick check like _search_squares."""
    m, total, min_leaf = len(ordered), room.total, limits.min_leaf
    left_0, left_1, w_left = room.so_far[0], room.so_far[1], room.so_far[2]
    sum_0, sum_1, sum_w, place = 0.0, 0.0, 0.0, 0
    for i in range(m - 1):
        row = ordered[i]
        w = rows.w[row]
        w_1 = w * rows.y[row]
        sum_1 += w_1
        sum_0 += w - w_1
        sum_w += w
        left_0[i], left_1[i], w_left[i] = sum_0, sum_1, sum_w
    bar = best + weight * (1.0 - _MARGIN)
    n_better = 0
    for i in range(m - 1):
        right_0, right_1 = total[0] - left_0[i], total[1] - left_1[i]
        squares_left = left_0[i] * left_0[i] + left_1[i] * left_1[i]
        squares_right = right_0 * right_0 + right_1 * right_1
        w_right = weight - w_left[i]
        better = squares_left * w_right + squares_right * w_left[i]
        n_better += better >= bar * (w_left[i] * w_right)
    if n_better == 0:
        return best, 0
    for i in range(min_leaf - 1, m - min_leaf):
        if column[ordered[i + 1]] <= column[ordered[i]] + _EQUAL:
            continue
        room.left[0], room.left[1] = left_0[i], left_1[i]
        proxy = _gini(total, room.left, weight, w_left[i], limits)
        if proxy > best:
            best, place = proxy, i + 1
    return best, place


@literal_inlined
def _search_gini(
    rows: Rows, limits: Limits, room: Scratch, column: Array, ordered: Array, weight: float,
    best: float,
) -> tuple[float, int]:  # fmt: skip
    total, left, min_leaf = room.total, room.left, limits.min_leaf
    squares_left, squares_right, w_left, place = 0.0, 0.0, 0.0, 0
    for c in range(limits.n_classes):
        left[c] = 0.0
        squares_right += total[c] * total[c]
    bar = best + weight * (1.0 - _MARGIN)
    v = column[ordered[0]]
    for i in range(len(ordered) - min_leaf):
        row = ordered[i]
        c, w = rows.codes[row], rows.w[row]
        before_c = left[c]
        squares_left += w * (2.0 * before_c + w)
        squares_right += w * (w - 2.0 * (total[c] - before_c))
        left[c] = before_c + w
        w_left += w
        before, v = v, column[ordered[i + 1]]
        w_right = weight - w_left
        if squares_left * w_right + squares_right * w_left < bar * (w_left * w_right):
            continue
        if v <= before + _EQUAL or i + 1 < min_leaf:
            continue
        proxy = _gini(total, left, weight, w_left, limits)
        if proxy > best:
            best, place = proxy, i + 1
            bar = best + weight * (1.0 - _MARGIN)
    return best, place


@literal_inlined
def _gini(total: Floats, left: Floats, weight: float, w_left: float, limits: Limits) -> float:
    """The score of a split by Gini impurity, in the arithmetic of scikit-learn."""
    squares_left, squares_right = 0.0, 0.0
    w_right = weight - w_left
    for c in range(limits.n_classes):
        squares_left += left[c] * left[c]
        right = total[c] - left[c]
        squares_right += right * right
    gini_left = 1.0 - squares_left / (w_left * w_left)
    gini_right = 1.0 - squares_right / (w_right * w_right)
    return -w_right * gini_right - w_left * gini_left


@literal_inlined
def _entropy(total: Floats, left: Floats, weight: float, w_left: float, limits: Limits) -> float:
    entropy_left, entropy_right = 0.0, 0.0
    w_right = weight - w_left
    for c in range(limits.n_classes):
        if left[c] > 0.0:
            share = left[c] / w_left
            entropy_left -= share * (np.log(share) / np.log(2.0))
        right = total[c] - left[c]
        if right > 0.0:
            share = right / w_right
            entropy_right -= share * (np.log(share) / np.log(2.0))
    return -w_right * entropy_right - w_left * entropy_left


@literal_inlined
def _search_entropy(
    rows: Rows, limits: Limits, room: Scratch, column: Array, ordered: Array, weight: float,
    best: float,
) -> tuple[float, int]:  # fmt: skip
    left, min_leaf = room.left, limits.min_leaf
    w_left, place = 0.0, 0
    for c in range(limits.n_classes):
        left[c] = 0.0
    for i in range(len(ordered) - min_leaf):
        row = ordered[i]
        left[rows.codes[row]] += rows.w[row]
        w_left += rows.w[row]
        if column[ordered[i + 1]] <= column[row] + _EQUAL or i + 1 < min_leaf:
            continue
        proxy = _entropy(room.total, left, weight, w_left, limits)
        if proxy > best:
            best, place = proxy, i + 1
    return best, place


@literal_inlined
def _proxy(limits: Limits, room: Scratch, weight: float, w_left: float) -> float:
    """The score of a split whose left side has the sums room.left; higher is better."""
    if limits.criterion == SQUARES:
        left, right = room.left[0], room.total[0] - room.left[0]
        return left * left / w_left + right * right / (weight - w_left)
    if limits.criterion == GINI:
        return _gini(room.total, room.left, weight, w_left, limits)
    return _entropy(room.total, room.left, weight, w_left, limits)


@literal_inlined
def _count(rows: Rows, limits: Limits, left: Floats, row: int, sign: float) -> float:
    """Add a row to `left` (sign 1) or remove it (sign -1); return its signed weight."""
    w = sign * rows.w[row]
    if limits.criterion == SQUARES:
        left[0] += w * rows.y[row]
    else:
        left[rows.codes[row]] += w
    return w


@literal_inlined
def _at(
    rows: Rows, limits: Limits, room: Scratch, node: Node, column: Array, threshold: float
) -> float:
    """The score of a given threshold; -inf if a side gets fewer than min_leaf rows."""
    n_left, w_left = 0, 0.0
    for c in range(limits.n_classes):
        room.left[c] = 0.0
    for i in range(node.start, node.end):
        row = room.samples[i]
        if column[row] <= threshold:
            n_left += 1
            w_left += _count(rows, limits, room.left, row, 1.0)
    if n_left < limits.min_leaf or node.end - node.start - n_left < limits.min_leaf:
        return -np.inf
    return _proxy(limits, room, node.weight, w_left)


@literal_inlined
def _only_place(column: Array, ordered: Array) -> int:
    """The position at which a sorted column of two values changes from the lower to the higher."""
    a, b = 0, len(ordered) - 1
    low = column[ordered[0]]
    while b - a > 1:
        middle = (a + b) // 2
        if column[ordered[middle]] > low:
            b = middle
        else:
            a = middle
    return b


@literal_inlined
def _at_place(
    rows: Rows, limits: Limits, room: Scratch, ordered: Array, place: int, weight: float
) -> float:
    """The score of a split at `place`; -inf if a side gets fewer than min_leaf rows.

    The sums run over the smaller side only.
    """
    m, w_left = len(ordered), 0.0
    if place < limits.min_leaf or m - place < limits.min_leaf:
        return -np.inf
    if 2 * place <= m:
        for c in range(limits.n_classes):
            room.left[c] = 0.0
        for i in range(place):
            w_left += _count(rows, limits, room.left, ordered[i], 1.0)
    else:
        w_left = weight
        for c in range(limits.n_classes):
            room.left[c] = room.total[c]
        for i in range(m - 1, place - 1, -1):
            w_left += _count(rows, limits, room.left, ordered[i], -1.0)
    return _proxy(limits, room, weight, w_left)


@literal_part
def best_split(  # noqa: C901, PLR0915 - parts would cost reference counting at every column
    rows: Rows, limits: Limits, room: Scratch, node: Node, n_known: int, fresh: bool
) -> tuple[int, float, int]:
    """The feature and threshold of the best split, and the number of known constant features.

    The feature is -1 if there is no valid split. As in scikit-learn, features that are constant in
    a node are remembered for its children: they are the first `n_known` of `features`. If `fresh`,
    the node has all rows of the tree, and its sorted columns are those in `rows.order`.
    """
    start, end, weight = node.start, node.end, node.weight
    m, n_features = end - start, len(rows.columns)
    features, constants = room.features, room.constants
    large = not limits.random and not limits.sorted_columns and _is_large(m, rows.order.shape[1])
    if large:
        for i in range(start, end):
            room.inside[room.samples[i]] = 1
    own = room.sorted[:m]
    best, feature, threshold = -np.inf, -1, 0.0
    f_i, n_visited, n_found, n_drawn, n_constant = n_features, 0, 0, 0, n_known
    while f_i > n_constant and (n_visited < limits.max_features or n_visited <= n_found + n_drawn):
        n_visited += 1
        f_j = n_drawn + _draw(room.state) % (f_i - n_found - n_drawn)
        if f_j < n_known:
            features[n_drawn], features[f_j] = features[f_j], features[n_drawn]
            n_drawn += 1
            continue
        f_j += n_found
        f = features[f_j]
        low = high = np.float32(0.0)
        column, ordered = rows.columns[f], own
        if limits.random:
            low, high = _range(rows, room, node, f)
            varies = high > low + _EQUAL
        elif limits.sorted_columns:
            ordered = rows.order[f] if fresh else room.work[f, start:end]
            varies = column[ordered[m - 1]] > column[ordered[0]] + _EQUAL
        else:
            varies = _sort(rows, room, node, f)
        if not varies:
            features[f_j], features[n_constant] = features[n_constant], features[f_j]
            n_found += 1
            n_constant += 1
            continue
        f_i -= 1
        features[f_i], features[f_j] = features[f_j], features[f_i]
        if limits.random:
            a, b = np.float64(low), np.float64(high)
            cut = (b - a) * np.float64(_draw(room.state)) / _LARGEST_DRAW + a
            if cut == b:
                cut = a
            proxy = _at(rows, limits, room, node, column, cut)
            if proxy > best:
                best, feature, threshold = proxy, f, cut
        else:
            place = 0
            if limits.sorted_columns and rows.two_values[f]:
                place = _only_place(column, ordered)
                proxy = _at_place(rows, limits, room, ordered, place, weight)
                if proxy > best:
                    best = proxy
                else:
                    place = 0
            else:
                best, place = _search(rows, limits, room, column, ordered, weight, best)
            if place > 0:
                low, high = column[ordered[place - 1]], column[ordered[place]]
                feature, threshold = f, np.float64(low) / 2.0 + np.float64(high) / 2.0
    for i in range(n_known):
        features[i] = constants[i]
    for i in range(n_known, n_constant):
        constants[i] = features[i]
    if large:
        for i in range(start, end):
            room.inside[room.samples[i]] = 0
    return feature, threshold, n_constant


@literal_inlined
def _range(rows: Rows, room: Scratch, node: Node, f: int) -> tuple[Any, Any]:
    column = rows.columns[f]
    low = high = column[room.samples[node.start]]
    for i in range(node.start, node.end):
        v = column[room.samples[i]]
        low, high = min(low, v), max(high, v)
    return low, high
