"""From draws to values: a value is a sum over the draws, and its error follows from their spread.

Draws are averaged within strata of neighbouring set sizes, then over the strata by their known
probabilities. Control variates are subtracted by a regression whose coefficients are fitted to one
half of the draws and applied to the other half, so the values stay unbiased. Each draw's influence
on each value is returned, because variances, ranks and simultaneous intervals follow from it.
"""

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

__all__ = ["NESTED_EVERY", "OTHERS", "Block", "Part", "Terms", "deviations", "terms"]

Index: TypeAlias = NDArray[np.intp]

NESTED_EVERY = 32
"""In every so many draws, U is also evaluated on nested sets, which control variates need."""

_LEAST, _LEAST_BALANCED, _LEAST_EMPTY = 16, 8, 4
"""The fewest draws that a stratum may be expected to hold, so many that none is found empty: with
independent sizes, with balanced sizes, and for k = 1 with balanced sizes. The last is smaller
because draws of the empty set are nearly alike, and unlike those of any other size.
"""
_LEAST_SEEN = 2
"""With fewer draws in a range of sizes, the range's part of the error is unknown."""
_LEAST_CONTROLLED = 300
"""With fewer draws, control variates are not used: their coefficients would be too uncertain."""
_ALIKE = 2
"""The number of balanced draws with neighbouring sizes whose spread is taken as their error. Two is
the smallest group that yields a variance; larger groups would count size effects as noise.
"""
_ALIKE_FOLDS = 2
"""The same for the spread between folds, times the number of folds: each fold occurs twice."""
_LEAST_FITTED = 6
"""The fewest draws, and the fewest draws with nested sets, that coefficients are fitted to."""
_PER_CONTROL = 8
"""The number of draws needed for each label control that is used."""
_BLOCK = 2**22
"""The most numbers per block of points, which bounds the memory of the float64 marginals."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Stratum:
    """The draws of neighbouring sizes a <= k < b."""

    rows: Index
    """The positions of the draws in the record."""
    a: int
    b: int
    scale: Floats
    """The factor of each draw's marginals in a value: W / (w_k m) / number of draws.

    W is the probability of the stratum. Summed over the strata this is the mean of Algorithm 2,
    taken stratum by stratum.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """The estimates of some of the points."""

    columns: Index
    """The positions of these points."""
    values: Floats
    influence: Floats
    """The influence of each draw (row) on each value (column). The sum of its squares is the
    sampling variance of the value.
    """
    groups: Index
    """A number for each row of `influence`: equal for deviations from one mean; or `OTHERS`."""
    by_fold: Floats
    """How far the draws of each fold (row) move each value; no rows without cross-fitting."""


OTHERS = -1
"""The group of draws that did not value these points; their influences are 0."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The estimates as sums over draws, computed for blocks of points to bound memory.

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
    """Groups of points that were valued in the same draws, each with its sum."""
    whole: Part
    """The sum over all draws, which decides the order of the rows of an influence."""
    within_bands: bool
    """Whether the draws are averaged within bands of sizes first."""

    @property
    def draws(self) -> Draws:
        """The record of the run."""
        return self.whole.draws

    @property
    def m(self) -> int:
        """The data set size that the values are for."""
        return self.whole.m

    @property
    def n_draws(self) -> int:
        """The number of draws used."""
        return self.whole.n_draws

    @property
    def controlled(self) -> bool:
        """Whether control variates are used."""
        return self.parts[0][1].controlled

    @property
    def groups(self) -> Index:
        """The groups of the influences on a sum of values: see `Block.groups`."""
        return self.whole.groups

    @cached_property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """The ranges of sizes k, ends included, that have too few draws to know their error."""
        return tuple(sorted({sizes for _, part in self.parts for sizes in part.unseen}))

    def blocks(self) -> Iterator[Block]:
        """The estimates of all points, in blocks."""
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
    """The estimates as sums over the same draws for all points."""

    draws: Draws
    chosen: NDArray[np.bool_]
    """Which draws valued the points."""
    m: int
    strata: tuple[Stratum, ...]
    controlled: bool
    referenced: bool
    """Whether enough draws have nested sets to know the mean of the reference."""

    @property
    def n_draws(self) -> int:
        """The number of draws used."""
        return sum(len(stratum.rows) for stratum in self.strata)

    @cached_property
    def sources(self) -> Index:
        """The draw of each row of the influences.

        The row that a draw's nested sets give has the draw's position plus the number of draws.
        """
        rows = [stratum.rows for stratum in self.strata]
        if self.referenced:
            rows += [len(self.draws) + self._nested(half) for half in (False, True)]
        return np.concatenate(rows)

    @cached_property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """The ranges of sizes k, ends included, that have too few draws to know their error.

        One draw is enough for k = 1, where S is always empty; other ranges need two.
        """
        edges = bands(self.m)
        # A narrow last band is joined to the previous one, because its sizes are nearly alike.
        if len(edges) > 3 and 2 * (edges[-1] - edges[-2]) < edges[-2] - edges[-3]:
            edges = np.delete(edges, -2)
        k = np.sort(self.draws.k[self.chosen])
        seen = np.diff(np.searchsorted(k, edges))
        least = np.where(edges[:-1] == 1, 1, _LEAST_SEEN)
        ranges = zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), strict=True)
        return tuple(r for r, few in zip(ranges, (seen < least).tolist(), strict=True) if few)

    @cached_property
    def groups(self) -> Index:
        """A number for each row of the influences, the same for deviations from the same mean."""
        parts = [self._alike(stratum, self._halves(stratum)) for stratum in self.strata]
        if self.referenced:
            parts += [np.zeros(len(self._nested(half)), dtype=np.intp) for half in (False, True)]
        starts = np.cumsum([0, *(part.max(initial=-1) + 1 for part in parts)])
        return np.concatenate([part + start for part, start in zip(parts, starts, strict=False)])

    def block(self, columns: Index) -> tuple[Floats, Floats, Floats]:
        """The values, the influence of each draw on them, and that of the draws of each fold.

        The influence of a draw is the deviation of its term from the mean of its group in the
        stratum. It is NaN if the group has a single draw.
        """
        gains, halves, beta = self._gains(columns)
        values = np.sum([gain.sum(axis=0) for gain in gains], axis=0)
        rows = [
            deviations(gain, self._alike(stratum, half))
            for gain, stratum, half in zip(gains, self.strata, halves, strict=True)
        ]
        nested = np.empty((0, len(columns)))
        if self.referenced:
            known, nested = self._known(beta)
            values = values + known
            rows.append(nested)
        return values, np.concatenate(rows), self._by_fold(gains, halves, nested)

    def summands(self, columns: Index) -> Floats:
        """What each row of `sources` adds to the values: the values are the sums over the rows."""
        rows, _, beta = self._gains(columns)
        if self.referenced:
            steps = [self._steps(half) for half in (False, True)]
            rows += [rise @ beta[h] / len(rise) for h, rise in enumerate(steps)]
        return np.concatenate(rows)

    @cached_property
    def cells(self) -> Index:
        """A number for each row of `sources`, the same for rows of one stratum and one half."""
        parts = [
            2 * h + self._halves(stratum).astype(np.intp) for h, stratum in enumerate(self.strata)
        ]
        if self.referenced:
            nested = 2 * len(self.strata)
            parts += [np.full(len(self._nested(half)), nested + half) for half in (False, True)]
        return np.concatenate(parts)

    def _gains(self, columns: Index) -> tuple[list[Floats], list[NDArray[np.bool_]], Floats]:
        """The terms of each stratum without the control variates, the halves, and what was taken.

        The last are the coefficients of the reference: see `_centre`.
        """
        gains = [
            _cells(self.draws.marginals, stratum.rows, columns) * stratum.scale[:, np.newaxis]
            for stratum in self.strata
        ]
        halves = [self._halves(stratum) for stratum in self.strata]
        return gains, halves, self._centre(gains, halves)

    def _by_fold(
        self, gains: list[Floats], halves: list[NDArray[np.bool_]], nested: Floats
    ) -> Floats:
        """The sum of the deviations of each fold's draws.

        The sum of its squares over the folds is the variance of a value between folds.
        """
        folds = self.draws.folds
        if folds is None:
            return np.empty((0, gains[0].shape[1]))
        of = folds.of_draws(self.draws.t)
        here = np.unique(of[self.chosen])
        found = np.zeros((folds.n, gains[0].shape[1]))
        for gain, stratum, half in zip(gains, self.strata, halves, strict=True):
            # Comparing draws of about one size removes the effect of the sizes that a fold had.
            group = self._alike(stratum, half, _ALIKE_FOLDS * folds.n, within_folds=False)
            apart = deviations(gain, group, widened=False)
            for fold in here.tolist():
                found[fold] += apart[of[stratum.rows] == fold].sum(axis=0)
        if self.referenced:
            where = np.concatenate([self._nested(half) for half in (False, True)])
            for fold in here.tolist():
                found[fold] += nested[of[where] == fold].sum(axis=0)
        return found * np.sqrt(len(here) / max(len(here) - 1, 1))

    def _centre(self, gains: list[Floats], halves: list[NDArray[np.bool_]]) -> Floats:
        """Subtract the control variates from the gains, in place.

        Returns the coefficients of the reference, by half, band and point.
        """
        beta = np.zeros((2, len(bands(self.draws.m)) - 1, gains[0].shape[1]))
        if not self.controlled:
            return beta
        controls = [self._controls(*pair) for pair in zip(self.strata, halves, strict=True)]
        fitted = [self._fitted(gains, controls, halves, half) for half in (False, True)]
        for h, stratum in enumerate(self.strata):
            for half in (0, 1):
                here = halves[h] == half
                # The coefficients are fitted to the other half and so are independent of these
                # draws; what is subtracted then has a known mean, and nothing is biased.
                b = fitted[1 - half][h]
                gains[h][here] -= controls[h][here] @ b
                beta[half, _inside(stratum, self.draws.m)] += here.mean() * b[0]
        return beta

    def _controls(self, stratum: Stratum, halves: NDArray[np.bool_]) -> Floats:
        """The reference mean, and as many label controls as there are draws to fit them to."""
        variates = self.draws.control_variates
        assert variates is not None
        reference = variates.reference if self.referenced else np.zeros(len(self.draws))
        all_of_them = np.column_stack([reference, variates.label_controls])[stratum.rows]
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

        These are the draws of one half of the stratum that test on the same fold. With balanced
        sizes they are only a few such draws with neighbouring sizes. Every fold and every balanced
        size has its fixed share of the draws, so differences between folds and sizes are not
        sampling error.
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
        """Which half each draw is in; all are in one if the stratum gets no control variates."""
        half = _half(self.draws.t[stratum.rows])
        fewest = min(int(half.sum()), int((~half).sum()))
        # If m' lies between two nested sizes, no nested set ends where the last stratum ends.
        ends_at_nested = bool((bands(self.draws.m) == stratum.b).any())
        split = self.controlled and fewest >= _LEAST_FITTED and ends_at_nested
        return half if split else np.zeros(len(half), dtype=bool)

    def _fitted(
        self,
        gains: list[Floats],
        controls: list[Floats],
        halves: list[NDArray[np.bool_]],
        half: bool,
    ) -> list[Floats]:
        """The coefficients fitted to one half of the draws, by control and point, for each stratum.

        They minimise the variance of the value. It is the sum over the strata of the variance of
        gain - controls @ b, plus that of the mean of the reference, which the nested sets estimate
        with an error of their own.
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
            # Controls have variance 1. With few draws the observed variance can be far too low,
            # because rare sets are missing, and the coefficients would be far too large.
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
        """The covariance between strata of the mean of the reference, from the nested sets."""
        steps = self._steps(half)
        inside = [_inside(stratum, self.draws.m) for stratum in self.strata]
        rises = np.column_stack([steps[:, part].sum(axis=1) for part in inside])
        found = np.atleast_2d(np.cov(rises, rowvar=False)) / len(rises) * np.outer(share, share)
        # With few nested sets the covariance is singular, as if a combination of strata were known
        # exactly, so it is shrunk towards its diagonal.
        apart = min(1.0, len(found) / len(rises))
        return (1 - apart) * found + apart * np.diag(np.diag(found))

    def _nested(self, half: bool) -> Index:
        """The draws of one half that have nested sets."""
        assert self.draws.control_variates is not None
        has_one = ~np.isnan(self.draws.control_variates.nested[:, 0])
        return np.flatnonzero(self.chosen & has_one & (_half(self.draws.t) == half))

    def _steps(self, half: bool) -> Floats:
        """The rise of U over each band of sizes, divided by m, for each draw with nested sets."""
        assert self.draws.control_variates is not None
        return np.diff(self.draws.control_variates.nested[self._nested(half)], axis=1) / self.m

    def _known(self, beta: Floats) -> tuple[Floats, Floats]:
        """The mean of what was subtracted: coefficients (half, band, point) times known means.

        Returns it with the influence of each draw that has nested sets.
        """
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
    within_bands: bool | None = None,
    control_variates: bool | None = None,
) -> Terms:
    """The estimates of the values for data sets of size m, as sums over the draws with k <= m.

    Parameters
    ----------
    m
        The data set size; by default that of the run.
    within_bands
        Average within bands of neighbouring sizes, so that differences between the bands are not
        sampling error. Default: True for balanced sizes and with control variates.
    control_variates
        Use control variates. Default: True if the record has them, for 300 draws and more.
    """
    m = draws.m if m is None else m
    if not isinstance(m, int | float | np.number) or m % 1 != 0 or not 1 <= m <= draws.m:
        raise InputError(f"m = {m}: this run has values for whole numbers m from 1 to {draws.m}")
    if control_variates and draws.control_variates is None:
        raise InputError(
            "this run kept no control variates: draw with Design(..., control_variates=True)"
        )
    parts = draws.parts()
    if control_variates is None:
        fewest = min(int(chosen.sum()) for _, chosen in parts)
        control_variates = draws.control_variates is not None and fewest >= _LEAST_CONTROLLED
    within_bands = draws.balanced or control_variates if within_bands is None else within_bands

    def part(chosen: NDArray[np.bool_]) -> Part:
        strata = _strata(draws, chosen, int(m), within_bands=within_bands)
        referenced = control_variates and _enough_nested(draws, chosen)
        return Part(
            draws=draws,
            chosen=chosen,
            m=int(m),
            strata=strata,
            controlled=control_variates,
            referenced=referenced,
        )

    found = tuple((columns, part(chosen)) for columns, chosen in parts)
    whole = found[0][1] if len(found) == 1 else part(np.ones(len(draws), dtype=bool))
    return Terms(found, whole, within_bands)


def _strata(
    draws: Draws, chosen: NDArray[np.bool_], m: int, *, within_bands: bool
) -> tuple[Stratum, ...]:
    """The chosen draws with k <= m, by bands of sizes."""
    rows = np.flatnonzero(chosen & (draws.k <= m))
    if len(draws) and not chosen.any():
        raise InputError(
            f"{len(draws)} draws have not valued every point, because each leaves out the fold "
            "that it tests on: draw more"
        )
    if not len(rows):
        raise InputError(f"none of the {len(draws)} draws has k <= {m}: draw more")
    weights = draws.weights[:m] / draws.weights[:m].sum()
    edges = np.array([1, m + 1])
    if within_bands:
        edges = _edges(weights, len(rows), balanced=draws.balanced)
    found = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here = rows[(draws.k[rows] >= a) & (draws.k[rows] < b)]
        factor = weights[a - 1 : b - 1].sum() / (weights[draws.k[here] - 1] * m)
        found.append(Stratum(rows=here, a=a, b=b, scale=factor / max(len(here), 1)))
    return tuple(found)


def _edges(weights: Floats, n_draws: int, *, balanced: bool) -> NDArray[np.int64]:
    """The edges of the bands of sizes, joined until each is expected to hold enough draws.

    The edges may depend only on the number of draws. If they depended on the sizes that were
    drawn, the mean within a band would be biased.
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


def _enough_nested(draws: Draws, chosen: NDArray[np.bool_]) -> bool:
    if draws.control_variates is None:
        return False
    half = _half(draws.t)[chosen & ~np.isnan(draws.control_variates.nested[:, 0])]
    return min(int(half.sum()), int((~half).sum())) >= _LEAST_FITTED


def _half(t: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which half a draw is in: blocks of draws alternate, each with one draw with nested sets."""
    return (t // NESTED_EVERY) % 2 == 1


def _solved(system: Floats, cross: Floats, *, used: NDArray[np.bool_]) -> Floats:
    """The solution for the controls that vary. A small ridge shares coefficients between collinear
    controls.
    """
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
    """The bands of sizes that a stratum consists of."""
    first, last = np.searchsorted(bands(m), [stratum.a, stratum.b])
    return slice(int(first), int(last))


def _cells(marginals: NDArray[np.float32], rows: Index, columns: Index) -> Floats:
    """Some rows and columns, in one fixed memory order, so that sums have the same bits."""
    first, last = int(columns[0]), int(columns[-1]) + 1
    if last - first == len(columns):
        return marginals[rows, first:last].astype(np.float64)
    return marginals[np.ix_(rows, columns)].astype(np.float64)


def deviations(gains: Floats, groups: Index, *, widened: bool = True) -> Floats:
    """The deviation of each draw's gains from the mean of its group.

    Widened by sqrt(n / (n - 1)), the sum of squares is the variance of the sum of the gains.
    """
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    means = np.add.reduceat(gains[order], starts, axis=0) / sizes[:, np.newaxis]
    found = np.empty_like(gains)
    found[order] = gains[order] - np.repeat(means, sizes, axis=0)
    found[np.abs(found) <= 1e-13 * np.abs(gains)] = 0.0  # equal draws, up to rounding
    if widened:  # a single draw has no standard error
        factor = np.where(sizes > 1, np.sqrt(sizes / np.maximum(sizes - 1, 1)), np.nan)
        found[order] *= np.repeat(factor, sizes)[:, np.newaxis]
    return found
