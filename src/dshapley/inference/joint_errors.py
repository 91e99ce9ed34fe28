"""The errors of two runs of the same points together: what they share, and what each has alone.

Runs of one database and one seed draw the same sets S, whatever their models and metrics are. A set
that happens to raise a point's value in one run then often raises it in the other. The error of
their difference is not the sum of both errors, and their values agree more than their truths do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats
from dshapley.inference.estimation import Part, deviations
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation

__all__ = [
    "JointErrors",
    "errors_of_draws",
    "same_draws",
    "same_table_in_turn",
    "same_test_rows",
    "with_test_rows",
]

Index: TypeAlias = NDArray[np.intp]
Pair: TypeAlias = tuple[Floats, Floats]

_OF_TEST = {"test", "empty", "path", "preprocess.fitted"}
"""What the description of a potential says of the test rows, or of how it is computed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JointErrors:
    """The errors of two runs' values of the same points, each as one column.

    Attributes
    ----------
    shared
        Influences on the values of the first run and of the second. Row i of both is of the same
        draw, or of the same fold of test rows.
    own
        The influences that a run has alone.
    independent
        For values that keep no draws: their standard errors, which count as independent.
    """

    shared: Pair
    own: Pair
    independent: Pair

    @property
    def variances(self) -> Pair:
        """The variance of each value, in the first run and in the second."""
        return self._variance(0), self._variance(1)

    def _variance(self, i: int) -> Floats:
        found: Floats = (self.shared[i] ** 2).sum(axis=0) + (self.own[i] ** 2).sum(axis=0)
        return found + self.independent[i] ** 2

    @property
    def covariance(self) -> Floats:
        """The covariance of each point's two errors."""
        found: Floats = (self.shared[0] * self.shared[1]).sum(axis=0)
        return found

    @property
    def of_difference(self) -> Floats:
        """The standard error of the first value minus the second, of each point."""
        first, second = self.variances
        return np.sqrt(np.maximum(first + second - 2 * self.covariance, 0.0))

    def simulated(self, n: int, rng: np.random.Generator, *, signs: bool = False) -> Pair:
        """Simulated errors of both runs: (n, points) each, as correlated as the real ones are.

        They are the influences times independent standard normals; or times random signs, which
        moves the values to those of a random half of the draws.
        """

        def random(size: int) -> Floats:
            shape = (n, size)
            return rng.choice([-1.0, 1.0], size=shape) if signs else rng.normal(size=shape)

        together = random(len(self.shared[0]))
        first, second = (
            together @ self.shared[i]
            + random(len(self.own[i])) @ self.own[i]
            + random(len(self.independent[i])) * self.independent[i]
            for i in (0, 1)
        )
        return first, second

    def joined(self, *, shared: Pair | None = None, own: Pair | None = None) -> JointErrors:
        """These errors, and more influences."""
        return replace(
            self,
            shared=self.shared if shared is None else _stacked(self.shared, shared),
            own=self.own if own is None else _stacked(self.own, own),
        )

    @staticmethod
    def none(n: int) -> JointErrors:
        """No errors of n points."""
        nothing, zero = np.empty((0, n)), np.zeros(n)
        return JointErrors(
            shared=(nothing, nothing), own=(nothing, nothing), independent=(zero, zero)
        )

    def spreads(self, values: Pair, among: NDArray[np.bool_]) -> tuple[float, float]:
        """The standard deviation of both runs' true values among some points.

        It is that of the values without the noise.
        """
        found = []
        for i in (0, 1):
            noise = float((self.independent[i][among] ** 2).mean())
            for table in (self.shared[i][:, among], self.own[i][:, among]):
                centred = table - table.mean(axis=1, keepdims=True)
                noise += float((centred**2).sum(axis=0).mean())
            found.append(float(np.sqrt(max(float(values[i][among].var()) - noise, 0.0))))
        return found[0], found[1]

    def standardised(
        self, values: Pair, spreads: tuple[float, float], among: NDArray[np.bool_]
    ) -> tuple[Pair, JointErrors]:
        """Both runs' values in spreads of the true values from the mean, with their errors.

        Mean and spread are those of some points. They have errors too, and these are in the
        influences (delta method): what shifts or scales all values of a run does not change
        a standardised value.
        """
        scaled = [
            (value - value[among].mean()) / spread
            for value, spread in zip(values, spreads, strict=True)
        ]
        first, second = (_standardise(scaled[i], spreads[i], among) for i in (0, 1))
        errors = JointErrors(
            shared=(first(self.shared[0]), second(self.shared[1])),
            own=(first(self.own[0]), second(self.own[1])),
            independent=(self.independent[0] / spreads[0], self.independent[1] / spreads[1]),
        )
        return (scaled[0], scaled[1]), errors


def _stacked(a: Pair, b: Pair) -> Pair:
    return np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])


def _standardise(
    scaled: Floats, spread: float, among: NDArray[np.bool_]
) -> Callable[[Floats], Floats]:
    """The map from influences on values to those on standardised values."""

    def of(table: Floats) -> Floats:
        centred = (table - table[:, among].mean(axis=1, keepdims=True)) / spread
        stretch = centred[:, among] @ scaled[among] / int(among.sum())
        return np.asarray(centred - np.outer(stretch, scaled))

    return of


def _same_folds(a: Valuation, b: Valuation, places: tuple[Index, Index]) -> bool:
    """Whether both runs test on the same folds of one table, or neither is cross-fitted."""
    if a.draws is None or b.draws is None:
        return False
    first, second = a.draws.folds, b.draws.folds
    if first is None or second is None:
        return first is None and second is None
    same = np.array_equal(first.of[places[0]], second.of[places[1]])
    return _same_database(a, b) and first.n == second.n and same


def same_test_rows(a: Valuation, b: Valuation, places: tuple[Index, Index]) -> bool:
    """Whether both runs test on the same rows: in the same folds, or on the same test table."""
    if not _same_folds(a, b, places):
        return False
    if a.draws is not None and a.draws.folds is not None:
        return True
    tests = [x.about.identity.potential.get("test") for x in (a, b)]
    return tests[0] == tests[1]


def same_table_in_turn(a: Valuation, b: Valuation) -> bool:
    """Whether both runs are cross-fitted on the same table, in the same folds or others."""
    if a.draws is None or b.draws is None or not _same_database(a, b):
        return False
    return a.draws.folds is not None and b.draws.folds is not None


def same_draws(a: Valuation, b: Valuation, places: tuple[Index, Index]) -> bool:
    """Whether draw t of both runs has the same set S, or the larger of two nested sets.

    S depends on the database, the seed and t alone; the size weights and m decide how many of its
    rows are taken.
    """
    mine, theirs = a.about.identity, b.about.identity
    return _same_database(a, b) and mine.seed == theirs.seed and _same_folds(a, b, places)


def _same_database(a: Valuation, b: Valuation) -> bool:
    mine, theirs = a.about.identity.database, b.about.identity.database
    return mine is not None and mine == theirs


def _same_question(a: Valuation, b: Valuation) -> bool:
    """Whether the runs differ in their draws and test rows only."""
    mine, theirs = (
        {k: v for k, v in x.about.identity.potential.items() if k not in _OF_TEST} for x in (a, b)
    )
    return a.m == b.m and bool(mine) and mine == theirs


def errors_of_draws(a: Valuation, b: Valuation, places: tuple[Index, Index]) -> JointErrors:
    """The errors of the draws, and of the test rows as far as the runs do not share them.

    They are what two runs can differ by that value the same points on the same test rows.
    `places` are the positions of the points in both runs.
    """
    n = len(places[0])
    if not isinstance(a, SampledValuation) or not isinstance(b, SampledValuation):
        own = [_of_draws(x, where) for x, where in zip((a, b), places, strict=True)]
        alone = [
            np.zeros(n) if isinstance(x, SampledValuation) else x.stderr[where]
            for x, where in zip((a, b), places, strict=True)
        ]
        found = JointErrors.none(n).joined(own=(own[0], own[1]))
        return replace(found, independent=(alone[0], alone[1]))
    found = JointErrors.none(n)
    if same_draws(a, b, places):
        shared, own_draws = _paired(a, b, places)
        found = found.joined(shared=shared, own=own_draws)
    else:
        found = found.joined(own=(_of_draws(a, places[0]), _of_draws(b, places[1])))
    if same_test_rows(a, b, places):
        return found
    share = np.sqrt(1 - _in_common(a, b))
    return found.joined(own=_of_folds(a, b, places, share))


def with_test_rows(
    errors: JointErrors, a: Valuation, b: Valuation, places: tuple[Index, Index]
) -> JointErrors:
    """`errors_of_draws`, with the error of the test rows that the runs share.

    The same test rows can move a point's values in both runs differently. Where the runs are in
    the same folds, or have the same test table, it is seen how differently. Where they are not, the
    error counts as independent in both, which is too much rather than too little; runs that ask the
    same of the same rows have no such error.
    """
    if not isinstance(a, SampledValuation) or not isinstance(b, SampledValuation):
        return errors
    if same_test_rows(a, b, places):
        return errors.joined(shared=_of_folds(a, b, places, 1.0))
    if _same_question(a, b):
        return errors
    return errors.joined(own=_of_folds(a, b, places, np.sqrt(_in_common(a, b))))


def _in_common(a: SampledValuation, b: SampledValuation) -> float:
    """The share of the variance of the test rows' error that runs with different folds share.

    Runs of one table in n folds each test a row on the other folds: on a random share 1 - 1/n of
    the table. The means over two such samples of N rows have the covariance sigma^2 / N, and each
    the variance sigma^2 / (N (1 - 1/n)).
    """
    first, second = a.draws.folds, b.draws.folds
    if first is None or second is None or not _same_database(a, b):
        return 0.0
    return 1 - 1 / min(first.n, second.n)


def _of_folds(
    a: SampledValuation, b: SampledValuation, places: tuple[Index, Index], times: float
) -> Pair:
    """The influence of each fold, or group of test rows, times this.

    Zeros where these add nothing to the errors, or where it is not known what they add.
    """
    known = [0 if x.fold_influence is None else len(x.fold_influence) for x in (a, b)]
    found = []
    for x, where in zip((a, b), places, strict=True):
        n = max(known)
        influence = np.zeros((n, len(x))) if x.fold_influence is None else x.fold_influence
        found.append(times * influence[:, where])
    return found[0], found[1]


def _of_draws(a: Valuation, where: Index) -> Floats:
    """The influence of each draw on the values; no rows for values that keep no draws."""
    if not isinstance(a, SampledValuation):
        return np.empty((0, len(where)))
    return a.of_draws.influence()[:, where]


def _paired(
    a: SampledValuation, b: SampledValuation, places: tuple[Index, Index]
) -> tuple[Pair, Pair]:
    """The influences of the draws that both runs made, and of those that one has alone."""
    keys = [_keys(x.terms.whole) for x in (a, b)]
    common = np.intersect1d(keys[0], keys[1])
    n = len(places[0])
    shared = np.zeros((len(common), n)), np.zeros((len(common), n))
    own = np.zeros((len(keys[0]), n)), np.zeros((len(keys[1]), n))
    for points, parts in _by_part(a, b, places):
        of = [_keys(part) for part in parts]
        groups = _alike(parts, of)
        for i, part in enumerate(parts):
            summands, alone = _columns(part, places[i][points])
            at = np.searchsorted(of[i], groups.keys, sorter=np.argsort(of[i]))
            rows = np.argsort(of[i])[at]
            matched = deviations(summands[rows], groups.of)
            shared[i][np.ix_(np.searchsorted(common, groups.keys), points)] = matched
            rest = np.setdiff1d(np.arange(len(of[i])), rows)
            order = np.argsort(keys[i])
            there = order[np.searchsorted(keys[i], of[i][rest], sorter=order)]
            own[i][np.ix_(there, points)] = alone[rest]
    return shared, (own[0][own[0].any(axis=1)], own[1][own[1].any(axis=1)])


@dataclass(frozen=True, eq=False)
class _Groups:
    """The draws of two runs that are compared with each other, and their groups."""

    keys: NDArray[np.int64]
    of: Index


def _keys(part: Part) -> NDArray[np.int64]:
    """A number for each row of the influences: 2 t for draw t, 2 t + 1 for its nested sets."""
    n = len(part.draws)
    return np.asarray(2 * part.draws.t[part.sources % n] + (part.sources >= n))


def _by_part(
    a: SampledValuation, b: SampledValuation, places: tuple[Index, Index]
) -> Iterator[tuple[Index, tuple[Part, Part]]]:
    """The points that were valued in the same draws, and the sums that value them in both runs."""
    of = []
    for x, where in zip((a, b), places, strict=True):
        number = np.empty(len(x), dtype=np.intp)
        for i, (columns, _) in enumerate(x.terms.parts):
            number[columns] = i
        of.append(number[where])
    for i, j in np.unique(np.column_stack(of), axis=0).tolist():
        points = np.flatnonzero((of[0] == i) & (of[1] == j))
        yield points, (a.terms.parts[i][1], b.terms.parts[j][1])


def _columns(part: Part, columns: Index) -> tuple[Floats, Floats]:
    """The summands and the influences of these columns, in the order asked for."""
    order = np.argsort(columns)
    back = np.argsort(order)
    influence = part.block(columns[order])[1]
    return part.summands(columns[order])[:, back], influence[:, back]


def _alike(parts: tuple[Part, Part], of: list[NDArray[np.int64]]) -> _Groups:
    """Groups of common draws that differ by chance alone in both runs.

    A deviation within such a group multiplied by the other run's gives their covariance. The
    groups of the runs themselves will not do: runs that differ in m or in their number of draws
    form different ones. Draws in no group of two or more count as each run's own.
    """
    keys, first, second = np.intersect1d(of[0], of[1], return_indices=True)
    if any(part.draws.balanced for part in parts):
        cells = np.column_stack([parts[0].cells[first], parts[1].cells[second]])
        cell = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
        folds = parts[0].draws.folds
        fold = np.zeros(len(keys), np.int64) if folds is None else folds.of_draws(keys // 2)
        sizes = [part.draws.k[part.sources % len(part.draws)] for part in parts]
        group = _neighbours(cell, (sizes[1][second], sizes[0][first], fold))
    else:
        own = np.column_stack([parts[0].groups[first], parts[1].groups[second]])
        group = np.unique(own, axis=0, return_inverse=True)[1].reshape(-1)
    enough = np.bincount(group, minlength=1)[group] > 1
    return _Groups(keys[enough], group[enough])


def _neighbours(cell: Index, order: tuple[NDArray[np.int64], ...]) -> Index:
    """Within each cell, groups of two neighbours in this order (the last is the first key)."""
    found = np.empty(len(cell), dtype=np.intp)
    start = 0
    for number in np.unique(cell).tolist():
        here = np.flatnonzero(cell == number)
        here = here[np.lexsort(tuple(key[here] for key in order))]
        n_groups = max(len(here) // 2, 1)
        found[here] = start + np.arange(len(here)) * n_groups // len(here)
        start += n_groups
    return found
