"""From draws to values: sums over the draws, and what each draw contributes to their error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats
from dshapley.errors import InputError
from dshapley.sampling.draws import Draws
from dshapley.sampling.sizes import bands

__all__ = ["CHAIN_EVERY", "OTHERS", "Block", "Part", "Terms", "terms"]

Index: TypeAlias = NDArray[np.intp]

CHAIN_EVERY = 32
"""Every so many draws U is also evaluated on a chain of nested sets, for the anchor."""

_LEAST, _LEAST_BALANCED, _LEAST_EMPTY = 16, 8, 4
"""The fewest draws that a stratum is expected to hold, so many that it is never found empty: of
independent sizes, of balanced ones, and of k = 1 where these are balanced, since draws of the
empty set are all alike or nearly, and unlike those of any other size."""
_LEAST_SEEN = 2
"""Fewer draws in a range of sizes leave its part of the error unknown."""
_LEAST_ANCHORED = 300
"""Fewer draws do better without the anchor: its coefficients are themselves too uncertain."""
_ALIKE = 2
"""Balanced draws whose sizes are next to each other, taken for draws of one size: as few as tell
an error, since what differs between their sizes is none and would be counted as one."""
_ALIKE_FOLDS = 2
"""For the spread between folds the same, but so many times the folds: each is there a few times."""
_LEAST_FITTED = 6
"""The fewest draws, or chains, that a coefficient of the anchor is fitted to."""
_PER_CONTROL = 8
"""So many draws for each further control."""
_BLOCK = 2**22
"""Numbers held at once, so that the float64 copy of the marginals stays small."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Stratum:
    """Draws of neighbouring sizes a <= k < b."""

    rows: Index
    """Where in the record."""
    a: int
    b: int
    scale: Floats
    """By what a marginal counts in the value: W / (w_k m) / number of draws,

    where W is the probability of the stratum. Summed over the strata this is Algorithm 2's mean,
    stratum by stratum."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """The estimates of some points."""

    columns: Index
    """Which points."""
    values: Floats
    influence: Floats
    """Of each draw (row) on each value: its square sum is the variance, as far as draws go."""
    groups: Index
    """Of each row of the influences, a number: the same for those about one mean; or `OTHERS`."""
    by_fold: Floats
    """By how much the draws of each fold (row) move each value; no rows without cross-fitting."""


OTHERS = -1
"""The group of influences that are 0, of draws that did not value these points."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Estimates as sums over draws, computed for some points at a time.

    >>> import numpy as np
    >>> gains = np.array([[1.0], [3.0]], dtype=np.float32)
    >>> one = np.ones(1, int)
    >>> draws = Draws(t=np.arange(2), k=np.ones(2, int), marginals=gains, weights=np.ones(1),
    ...               ids=one, rows=one)
    >>> block = next(terms(draws).blocks())
    >>> block.values.tolist(), float(np.sqrt((block.influence**2).sum()))
    ([2.0], 1.0)
    """

    parts: tuple[tuple[Index, Part], ...]
    """Points that were valued in the same draws, and the sum over these."""
    whole: Part
    """The sum over all draws: it says which row of an influence is which draw's."""

    @property
    def draws(self) -> Draws:
        """The record."""
        return self.whole.draws

    @property
    def m(self) -> int:
        """The data set size that the values are for."""
        return self.whole.m

    @property
    def n_draws(self) -> int:
        """How many draws count."""
        return self.whole.n_draws

    @property
    def anchored(self) -> bool:
        """Whether there are control variates."""
        return self.parts[0][1].anchored

    @property
    def groups(self) -> Index:
        """Of each row of the influences on a sum of values, a number: see `Block.groups`."""
        return self.whole.groups

    @cached_property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of sizes k, ends included, with too few draws to tell their part of the error."""
        return tuple(sorted({sizes for _, part in self.parts for sizes in part.unseen}))

    def blocks(self) -> Iterator[Block]:
        """The estimates of all points, of some at a time."""
        width = max(1, _BLOCK // self.n_draws)
        for points, part in self.parts:
            for start in range(0, len(points), width):
                yield self._block(points[start : start + width], part)

    def _block(self, columns: Index, part: Part) -> Block:
        values, influence, by_fold = part.block(columns)
        if part is self.whole:
            return Block(
                columns=columns,
                values=values,
                influence=influence,
                groups=part.groups,
                by_fold=by_fold,
            )
        n_rows = len(self.whole.sources)
        where = np.empty(2 * len(self.draws), dtype=np.intp)
        where[self.whole.sources] = np.arange(n_rows)
        rows = where[part.sources]
        everyone, groups = np.zeros((n_rows, len(columns))), np.full(n_rows, OTHERS)
        everyone[rows], groups[rows] = influence, part.groups
        return Block(
            columns=columns, values=values, influence=everyone, groups=groups, by_fold=by_fold
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Estimates as sums over some draws, the same for all points."""

    draws: Draws
    chosen: NDArray[np.bool_]
    """Which draws valued the points."""
    m: int
    strata: tuple[Stratum, ...]
    anchored: bool
    referenced: bool
    """Whether the anchor has chains enough to know the mean of the reference by."""

    @property
    def n_draws(self) -> int:
        """How many draws count."""
        return sum(len(stratum.rows) for stratum in self.strata)

    @cached_property
    def sources(self) -> Index:
        """Of each row of the influences its draw; its draw + the number of draws for a chain."""
        rows = [stratum.rows for stratum in self.strata]
        if self.referenced:
            rows += [len(self.draws) + self._chains(half) for half in (False, True)]
        return np.concatenate(rows)

    @cached_property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of sizes k, ends included, with too few draws to tell their part of the error.

        One draw of the empty set tells all there is; of other sizes it takes two.
        """
        edges = bands(self.m)
        # A narrow last band is joined to the one before: its sizes are next to alike.
        if len(edges) > 3 and 2 * (edges[-1] - edges[-2]) < edges[-2] - edges[-3]:
            edges = np.delete(edges, -2)
        k = np.sort(self.draws.k[self.chosen])
        seen = np.diff(np.searchsorted(k, edges))
        least = np.where(edges[:-1] == 1, 1, _LEAST_SEEN)
        ranges = zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), strict=True)
        return tuple(r for r, few in zip(ranges, (seen < least).tolist(), strict=True) if few)

    @cached_property
    def groups(self) -> Index:
        """Of each row of the influences, a number: the same for those about one mean."""
        parts = [self._alike(stratum, self._halves(stratum)) for stratum in self.strata]
        if self.referenced:
            parts += [np.zeros(len(self._chains(half)), dtype=np.intp) for half in (False, True)]
        starts = np.cumsum([0, *(part.max(initial=-1) + 1 for part in parts)])
        return np.concatenate([part + start for part, start in zip(parts, starts, strict=False)])

    def block(self, columns: Index) -> tuple[Floats, Floats, Floats]:
        """Values, the influence of each draw on them, and that of the draws of each fold.

        A draw's influence is the deviation of its term from its stratum's mean. NaN where a
        single draw gives no idea of it.
        """
        gains = [
            _cells(self.draws.marginals, stratum.rows, columns) * stratum.scale[:, np.newaxis]
            for stratum in self.strata
        ]
        halves = [self._halves(stratum) for stratum in self.strata]
        beta = self._centre(gains, halves)
        values = np.sum([gain.sum(axis=0) for gain in gains], axis=0)
        rows = [
            _deviations(gain, self._alike(stratum, half))
            for gain, stratum, half in zip(gains, self.strata, halves, strict=True)
        ]
        chains = np.empty((0, len(columns)))
        if self.referenced:
            known, chains = self._known(beta)
            values = values + known
            rows.append(chains)
        return values, np.concatenate(rows), self._by_fold(gains, halves, chains)

    def _by_fold(
        self, gains: list[Floats], halves: list[NDArray[np.bool_]], chains: Floats
    ) -> Floats:
        """Sums of the deviations of each fold's draws; square sums are variances between folds."""
        folds = self.draws.folds
        if folds is None:
            return np.empty((0, gains[0].shape[1]))
        of = folds.of_draws(self.draws.t)
        here = np.unique(of[self.chosen])
        found = np.zeros((folds.n, gains[0].shape[1]))
        for gain, stratum, half in zip(gains, self.strata, halves, strict=True):
            # Among draws of about one size, so that which sizes a fold had makes no difference.
            group = self._alike(stratum, half, _ALIKE_FOLDS * folds.n, within_folds=False)
            apart = _deviations(gain, group, widened=False)
            for fold in here.tolist():
                found[fold] += apart[of[stratum.rows] == fold].sum(axis=0)
        if self.referenced:
            where = np.concatenate([self._chains(half) for half in (False, True)])
            for fold in here.tolist():
                found[fold] += chains[of[where] == fold].sum(axis=0)
        return found * np.sqrt(len(here) / max(len(here) - 1, 1))

    def _centre(self, gains: list[Floats], halves: list[NDArray[np.bool_]]) -> Floats:
        """Subtract the anchor from the gains, in place; the coefficients, by half and band."""
        beta = np.zeros((2, len(bands(self.draws.m)) - 1, gains[0].shape[1]))
        if not self.anchored:
            return beta
        controls = [self._controls(*pair) for pair in zip(self.strata, halves, strict=True)]
        fitted = [self._fitted(gains, controls, halves, half) for half in (False, True)]
        for h, stratum in enumerate(self.strata):
            for half in (0, 1):
                here = halves[h] == half
                # Fitted to the other half: what is subtracted has a known mean, and the
                # coefficients know nothing of these draws, so that nothing is biased.
                b = fitted[1 - half][h]
                gains[h][here] -= controls[h][here] @ b
                beta[half, _inside(stratum, self.draws.m)] += here.mean() * b[0]
        return beta

    def _controls(self, stratum: Stratum, halves: NDArray[np.bool_]) -> Floats:
        """The reference mean, and as many of the controls as there are draws to fit them to."""
        anchor = self.draws.anchor
        assert anchor is not None
        reference = anchor.reference if self.referenced else np.zeros(len(self.draws))
        all_of_them = np.column_stack([reference, anchor.controls])[stratum.rows]
        fewest = min(int(halves.sum()), int((~halves).sum()))
        return all_of_them[:, : max(1, fewest // _PER_CONTROL)] * stratum.scale[:, np.newaxis]

    def _alike(
        self,
        stratum: Stratum,
        halves: NDArray[np.bool_],
        at_least: int = _ALIKE,
        *,
        within_folds: bool = True,
    ) -> Index:
        """A number for each draw, the same for draws whose terms differ by chance alone.

        Those are the draws of a half of the stratum that test on the same fold; for balanced sizes
        a few of these with neighbouring sizes. Every fold has its share of the draws, and every
        size of balanced draws, so what differs between folds and sizes is not an error of draws.
        """
        folds, t = self.draws.folds, self.draws.t[stratum.rows]
        of = np.zeros(len(t), dtype=np.int64)
        if folds is not None and within_folds:
            of = folds.of_draws(t)
        if not self.draws.balanced:
            of_half = 2 * of + halves
            found, sizes = np.unique(of_half, return_inverse=True, return_counts=True)[1:]
            return found if sizes.min() > 1 else halves.astype(np.intp)
        found = np.empty(len(halves), dtype=np.intp)
        start = 0
        for half in (False, True):
            here = np.flatnonzero(halves == half)
            order = here[np.lexsort((self.draws.k[stratum.rows[here]], of[here]))]
            n_groups = max(len(here) // at_least, 1)
            found[order] = start + np.arange(len(here)) * n_groups // max(len(here), 1)
            start += n_groups
        return found

    def _halves(self, stratum: Stratum) -> NDArray[np.bool_]:
        """Which half each draw is in; all in one where the stratum cannot be anchored."""
        half = _half(self.draws.t[stratum.rows])
        fewest = min(int(half.sum()), int((~half).sum()))
        # No chain has a set where a stratum ends at an m' between two rungs.
        has_rungs = bool((bands(self.draws.m) == stratum.b).any())
        split = self.anchored and fewest >= _LEAST_FITTED and has_rungs
        return half if split else np.zeros(len(half), dtype=bool)

    def _fitted(
        self,
        gains: list[Floats],
        controls: list[Floats],
        halves: list[NDArray[np.bool_]],
        half: bool,
    ) -> list[Floats]:
        """The coefficients with the least variance, from one half: of each stratum, by control.

        The variance is the sum over the strata of that of gain - controls @ b, and that of the
        known mean of the reference, which chains tell with an error of their own.
        """
        ends = np.cumsum([0, *(part.shape[1] for part in controls)])
        own = np.zeros((ends[-1], ends[-1]))
        cross = np.zeros((ends[-1], gains[0].shape[1]))
        for h, (gain, control) in enumerate(zip(gains, controls, strict=True)):
            here = halves[h] == half
            if here.all() or not here.any():
                continue
            block = slice(ends[h], ends[h + 1])
            n = int(here.sum())
            centred = control[here] - control[here].mean(axis=0)
            own[block, block] = centred.T @ centred * (n / (n - 1))
            cross[block] = centred.T @ (gain[here] - gain[here].mean(axis=0)) * (n / (n - 1))
            # Controls have variance 1. Where few draws show less, by missing what is rare, their
            # coefficients would be wild.
            known = float((self.strata[h].scale[here] ** 2).sum())
            rest = np.arange(ends[h] + 1, ends[h + 1])
            own[rest, rest] = np.where(own[rest, rest] > 0, np.maximum(own[rest, rest], known), 0.0)
        system = own.copy()
        if self.referenced:
            share = np.array([(part == half).mean() for part in halves])
            system[np.ix_(ends[:-1], ends[:-1])] += self._noise(share, half)
        beta = _solved(system, cross, used=np.diag(own) > 0)
        return np.split(beta, ends[1:-1])

    def _noise(self, share: Floats, half: bool) -> Floats:
        """The covariance of what the chains say of the strata."""
        steps = self._steps(half)
        inside = [_inside(stratum, self.draws.m) for stratum in self.strata]
        rises = np.column_stack([steps[:, part].sum(axis=1) for part in inside])
        found = np.atleast_2d(np.cov(rises, rowvar=False)) / len(rises) * np.outer(share, share)
        # Few chains would show some combination of strata to be known exactly. It is not.
        apart = min(1.0, len(found) / len(rises))
        return (1 - apart) * found + apart * np.diag(np.diag(found))

    def _chains(self, half: bool) -> Index:
        """The draws of one half that have a chain."""
        assert self.draws.anchor is not None
        has_one = ~np.isnan(self.draws.anchor.chain[:, 0])
        return np.flatnonzero(self.chosen & has_one & (_half(self.draws.t) == half))

    def _steps(self, half: bool) -> Floats:
        """What each chain of one half rises in each band of sizes, over m."""
        assert self.draws.anchor is not None
        return np.diff(self.draws.anchor.chain[self._chains(half)], axis=1) / self.m

    def _known(self, beta: Floats) -> tuple[Floats, Floats]:
        """What the anchor puts back: coefficients (half, band, point) times known means."""
        total, rows = np.zeros(beta.shape[-1]), []
        for half in (0, 1):
            steps = self._steps(bool(half))
            put_back = steps @ beta[half]
            total += put_back.mean(axis=0)
            n = len(put_back)
            rows.append((put_back - put_back.mean(axis=0)) / np.sqrt(n * (n - 1)))
        return total, np.concatenate(rows)


def terms(
    draws: Draws,
    *,
    m: int | None = None,
    stratified: bool | None = None,
    anchor: bool | None = None,
) -> Terms:
    """The estimate of the values for data sets of size m, as a sum over the draws with k <= m.

    Parameters
    ----------
    m
        By default the run's own.
    stratified
        Whether to average within bands of neighbouring sizes, so that what is between them adds
        no error: by default for balanced sizes, and with the anchor.
    anchor
        Whether to use the efficiency anchor: by default where the record has one.
    """
    m = draws.m if m is None else m
    if not isinstance(m, int | float | np.number) or m % 1 != 0 or not 1 <= m <= draws.m:
        raise InputError(f"m = {m}: this run has values for m from 1 to {draws.m}")
    if anchor and draws.anchor is None:
        raise InputError(
            "this run kept nothing for the anchor: draw with Design(..., control_variates=True)"
        )
    parts = draws.parts()
    if anchor is None:
        fewest = min(int(chosen.sum()) for _, chosen in parts)
        anchor = draws.anchor is not None and fewest >= _LEAST_ANCHORED
    stratified = draws.balanced or anchor if stratified is None else stratified

    def part(chosen: NDArray[np.bool_]) -> Part:
        strata = _strata(draws, chosen, int(m), stratified=stratified)
        referenced = anchor and _enough_chains(draws, chosen)
        return Part(
            draws=draws,
            chosen=chosen,
            m=int(m),
            strata=strata,
            anchored=anchor,
            referenced=referenced,
        )

    found = tuple((columns, part(chosen)) for columns, chosen in parts)
    whole = found[0][1] if len(found) == 1 else part(np.ones(len(draws), dtype=bool))
    return Terms(found, whole)


def _strata(
    draws: Draws, chosen: NDArray[np.bool_], m: int, *, stratified: bool
) -> tuple[Stratum, ...]:
    """The chosen draws with k <= m, by bands of sizes."""
    rows = np.flatnonzero(chosen & (draws.k <= m))
    if len(draws) and not chosen.any():
        raise InputError(
            f"{len(draws)} draws have not valued every point, since each leaves out the fold that "
            "it tests on: draw more"
        )
    if not len(rows):
        raise InputError(f"none of the {len(draws)} draws has k <= {m}: draw more")
    weights = draws.weights[:m] / draws.weights[:m].sum()
    edges = np.array([1, m + 1])
    if stratified:
        edges = _edges(weights, len(rows), balanced=draws.balanced)
    found = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here = rows[(draws.k[rows] >= a) & (draws.k[rows] < b)]
        factor = weights[a - 1 : b - 1].sum() / (weights[draws.k[here] - 1] * m)
        found.append(Stratum(rows=here, a=a, b=b, scale=factor / max(len(here), 1)))
    return tuple(found)


def _edges(weights: Floats, n_draws: int, *, balanced: bool) -> NDArray[np.int64]:
    """Bands of sizes, joined until each is expected to hold draws enough.

    They depend on the number of draws, not on which sizes were drawn: that would bias the mean
    within a band.
    """
    m = len(weights)
    below = np.append(0.0, np.cumsum(weights))
    edges = [1]
    for edge in bands(m)[1:].tolist():
        least = _LEAST if not balanced else _LEAST_EMPTY if edge == 2 else _LEAST_BALANCED
        if n_draws * (below[edge - 1] - below[edges[-1] - 1]) >= least:
            edges.append(edge)
    edges = edges if len(edges) > 1 else [1, m + 1]
    edges[-1] = m + 1
    return np.array(edges)


def _enough_chains(draws: Draws, chosen: NDArray[np.bool_]) -> bool:
    if draws.anchor is None:
        return False
    half = _half(draws.t)[chosen & ~np.isnan(draws.anchor.chain[:, 0])]
    return min(int(half.sum()), int((~half).sum())) >= _LEAST_FITTED


def _half(t: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which half a draw is in: blocks of draws in turn, each with one chain."""
    return (t // CHAIN_EVERY) % 2 == 1


def _solved(system: Floats, cross: Floats, *, used: NDArray[np.bool_]) -> Floats:
    """The solution in the controls that vary; those that vary together share."""
    found = np.zeros(cross.shape)
    if used.any():
        scale = 1 / np.sqrt(np.diag(system)[used])
        matrix = system[np.ix_(used, used)] * np.outer(scale, scale)
        matrix += 1e-8 * np.eye(len(matrix))
        found[used] = scale[:, np.newaxis] * np.linalg.solve(
            matrix, scale[:, np.newaxis] * cross[used]
        )
    return found


def _inside(stratum: Stratum, m: int) -> slice:
    """The bands of sizes that make up a stratum."""
    first, last = np.searchsorted(bands(m), [stratum.a, stratum.b])
    return slice(int(first), int(last))


def _cells(marginals: NDArray[np.float32], rows: Index, columns: Index) -> Floats:
    """Some rows and columns, in one order in memory, so that sums have the same bits."""
    first, last = int(columns[0]), int(columns[-1]) + 1
    if last - first == len(columns):
        return marginals[rows, first:last].astype(np.float64)
    return marginals[np.ix_(rows, columns)].astype(np.float64)


def _deviations(gains: Floats, groups: Index, *, widened: bool = True) -> Floats:
    """From the mean of the draws in the same group.

    Widened, so that their square sum is the variance of the sum of the gains.
    """
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    means = np.add.reduceat(gains[order], starts, axis=0) / sizes[:, np.newaxis]
    found = np.empty_like(gains)
    found[order] = gains[order] - np.repeat(means, sizes, axis=0)
    found[np.abs(found) <= 1e-13 * np.abs(gains)] = 0.0  # draws that are all alike, rounded
    if widened:  # a draw by itself says nothing of its error
        factor = np.where(sizes > 1, np.sqrt(sizes / np.maximum(sizes - 1, 1)), np.nan)
        found[order] *= np.repeat(factor, sizes)[:, np.newaxis]
    return found
