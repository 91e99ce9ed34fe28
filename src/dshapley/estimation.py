"""From draws to values: sums over the draws, and what each draw contributes to their error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.draws import Draws
from dshapley.errors import InputError
from dshapley.points import Floats
from dshapley.sizes import bands

__all__ = ["CHAIN_EVERY", "Terms", "terms"]

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
_LEAST_FITTED = 6
"""The fewest draws, or chains, that a coefficient of the anchor is fitted to."""
_PER_CONTROL = 8
"""So many draws for each further control."""


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Terms:
    """An estimate as a sum over draws, computed for any columns of the record.

    >>> import numpy as np
    >>> gains = np.array([[1.0], [3.0]], dtype=np.float32)
    >>> one = np.ones(1, int)
    >>> draws = Draws(np.arange(2), np.ones(2, int), gains, np.ones(1), one, one)
    >>> values, influence = terms(draws).block(slice(None))
    >>> values.tolist(), float(np.sqrt((influence**2).sum()))
    ([2.0], 1.0)
    """

    draws: Draws
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
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of sizes k, ends included, with too few draws to tell their part of the error.

        One draw of the empty set tells all there is; of other sizes it takes two.
        """
        edges = bands(self.m)
        # A narrow last band is joined to the one before: its sizes are next to alike.
        if len(edges) > 3 and 2 * (edges[-1] - edges[-2]) < edges[-2] - edges[-3]:
            edges = np.delete(edges, -2)
        k = np.sort(self.draws.k)
        seen = np.diff(np.searchsorted(k, edges))
        least = np.where(edges[:-1] == 1, 1, _LEAST_SEEN)
        ranges = zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), strict=True)
        return tuple(r for r, few in zip(ranges, (seen < least).tolist(), strict=True) if few)

    @cached_property
    def groups(self) -> Index:
        """Of each row of the influences, a number: the same for those about one mean."""
        parts = [self._alike(stratum, self._halves(stratum)) for stratum in self.strata]
        if self.referenced:
            parts += [np.zeros(len(self._steps(half)), dtype=np.intp) for half in (False, True)]
        starts = np.cumsum([0, *(part.max(initial=-1) + 1 for part in parts)])
        return np.concatenate([part + start for part, start in zip(parts, starts, strict=False)])

    def block(self, columns: slice) -> tuple[Floats, Floats]:
        """Values, and the influence of each draw on them: its square sum is the variance.

        A draw's influence is the deviation of its term from its stratum's mean. NaN where a
        single draw gives no idea of it.
        """
        gains = [
            self.draws.marginals[stratum.rows, columns].astype(np.float64)
            * stratum.scale[:, np.newaxis]
            for stratum in self.strata
        ]
        halves = [self._halves(stratum) for stratum in self.strata]
        beta = self._centre(gains, halves)
        values = np.sum([gain.sum(axis=0) for gain in gains], axis=0)
        rows = [
            _deviations(gain, self._alike(stratum, half))
            for gain, stratum, half in zip(gains, self.strata, halves, strict=True)
        ]
        if self.referenced:
            known, chains = self._known(beta)
            return values + known, np.concatenate([*rows, chains])
        return values, np.concatenate(rows)

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

    def _alike(self, stratum: Stratum, halves: NDArray[np.bool_]) -> Index:
        """A number for each draw, the same for draws whose terms differ by chance alone.

        That is a half of the stratum; for balanced sizes a few draws of it with neighbouring
        sizes, since then the differences between sizes are no error.
        """
        if not self.draws.stratified:
            return halves.astype(np.intp)
        found = np.empty(len(halves), dtype=np.intp)
        start = 0
        for half in (False, True):
            here = np.flatnonzero(halves == half)
            order = here[np.argsort(self.draws.k[stratum.rows[here]], kind="stable")]
            n_groups = max(len(here) // _ALIKE, 1)
            found[order] = start + np.arange(len(here)) * n_groups // max(len(here), 1)
            start += n_groups
        return found

    def _halves(self, stratum: Stratum) -> NDArray[np.bool_]:
        """Which half each draw is in; all in one where the stratum cannot be anchored."""
        fold = _fold(self.draws.t[stratum.rows])
        fewest = min(int(fold.sum()), int((~fold).sum()))
        # No chain has a set where a stratum ends at an m' between two rungs.
        has_rungs = bool((bands(self.draws.m) == stratum.b).any())
        split = self.anchored and fewest >= _LEAST_FITTED and has_rungs
        return fold if split else np.zeros(len(fold), dtype=bool)

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

    def _steps(self, fold: bool) -> Floats:
        """What each chain of one half rises in each band of sizes, over m."""
        assert self.draws.anchor is not None
        chain = self.draws.anchor.chain[_fold(self.draws.t) == fold]
        return np.diff(chain[~np.isnan(chain[:, 0])], axis=1) / self.m

    def _known(self, beta: Floats) -> tuple[Floats, Floats]:
        """What the anchor puts back: coefficients (half, band, point) times known means."""
        total, rows = np.zeros(beta.shape[-1]), []
        for fold in (0, 1):
            steps = self._steps(bool(fold))
            put_back = steps @ beta[fold]
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
        raise InputError("this run kept nothing for the anchor: draw with Design(..., anchor=True)")
    if anchor is None:
        anchor = draws.anchor is not None and len(draws) >= _LEAST_ANCHORED
    stratified = draws.stratified or anchor if stratified is None else stratified
    strata = _strata(draws, int(m), stratified=stratified)
    return Terms(draws, int(m), strata, anchor, anchor and _enough_chains(draws))


def _strata(draws: Draws, m: int, *, stratified: bool) -> tuple[Stratum, ...]:
    """The draws with k <= m, by bands of sizes."""
    rows = np.flatnonzero(draws.k <= m)
    if not len(rows):
        raise InputError(f"none of the {len(draws)} draws has k <= {m}: draw more")
    weights = draws.weights[:m] / draws.weights[:m].sum()
    edges = np.array([1, m + 1])
    if stratified:
        edges = _edges(weights, len(rows), balanced=draws.stratified)
    found = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here = rows[(draws.k[rows] >= a) & (draws.k[rows] < b)]
        factor = weights[a - 1 : b - 1].sum() / (weights[draws.k[here] - 1] * m)
        found.append(Stratum(here, a, b, factor / max(len(here), 1)))
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


def _enough_chains(draws: Draws) -> bool:
    if draws.anchor is None:
        return False
    fold = _fold(draws.t)[~np.isnan(draws.anchor.chain[:, 0])]
    return min(int(fold.sum()), int((~fold).sum())) >= _LEAST_FITTED


def _fold(t: NDArray[np.int64]) -> NDArray[np.bool_]:
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


def _deviations(gains: Floats, groups: Index) -> Floats:
    """From the mean of the draws in the same group, so that their square sum is the variance."""
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    means = np.add.reduceat(gains[order], starts, axis=0) / sizes[:, np.newaxis]
    # A draw by itself says nothing of its error.
    widened = np.where(sizes > 1, np.sqrt(sizes / np.maximum(sizes - 1, 1)), np.nan)
    found = np.empty_like(gains)
    found[order] = gains[order] - np.repeat(means, sizes, axis=0)
    found[np.abs(found) <= 1e-13 * np.abs(gains)] = 0.0  # draws that are all alike, rounded
    found[order] *= np.repeat(widened, sizes)[:, np.newaxis]
    return found
