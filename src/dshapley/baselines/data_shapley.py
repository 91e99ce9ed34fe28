"""Data Shapley values within one fixed data set, and simpler baselines, on the same potentials."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.signatures import with_options_of
from dshapley.baselines.subsets import sampled
from dshapley.data.points import Array, Bundles, Floats, Points, players_of
from dshapley.errors import DrawError, InputError, is_whole
from dshapley.inference.jackknife import widened, width_of
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.potentials import Potential, check_points, describe, seeded
from dshapley.running.marginals import as_record
from dshapley.running.run import gather
from dshapley.running.stopping import StopRule
from dshapley.running.workers import Result
from dshapley.sampling.draws import Draws
from dshapley.sampling.provenance import Identity

__all__ = [
    "exact",
    "leave_one_out",
    "permutation",
    "random_order",
    "sampled",
    "tmc",
    "tmc_draws",
]

_MOST_EXACT = 20


def exact(U: Potential, points: Points | Bundles) -> Valuation:
    """The data Shapley value of each point or bundle (Definition 2.1), from all 2^n subsets.

    >>> import numpy as np
    >>> points = Points(np.zeros((3, 1)), [0, 0, 1])
    >>> exact(lambda S: float(len(set(S.y.tolist()))), points).values.tolist()
    [0.5, 0.5, 1.0]
    """
    n = len(points)
    if n > _MOST_EXACT:
        raise InputError(
            f"exact values of {n} points need 2^{n} evaluations of U: use tmc for more than "
            f"{_MOST_EXACT} points"
        )
    check_points(U, points, name="points")
    rows, players = players_of(points)
    masks = np.arange(2**n)
    members = (masks[:, np.newaxis] >> np.arange(n)) & 1 == 1
    held = np.zeros((n, len(rows)), dtype=bool)
    for z, places in enumerate(players):
        held[z, places] = True
    worth = np.array([float(U(rows.take(present))) for present in members @ held])
    sizes = members.sum(axis=1)
    share = np.array([1.0 / (n * comb(n - 1, size)) for size in range(n)])
    values = np.empty(n)
    for z in range(n):
        without = masks[~members[:, z]]
        gains = worth[without | (1 << z)] - worth[without]
        values[z] = (share[sizes[without]] * gains).sum()
    return _certain(values, points)


def leave_one_out(U: Potential, points: Points | Bundles) -> Valuation:
    """U(B) - U(B without z) for each point or bundle z of B."""
    check_points(U, points, name="points")
    rows, players = players_of(points)
    everyone = np.arange(len(rows))
    whole = float(U(rows))
    rest = [float(U(rows.take(np.delete(everyone, places)))) for places in players]
    return _certain(whole - np.array(rest), points)


def random_order(points: Points, *, seed: int = 0) -> Valuation:
    """The values 0..n-1 in random order: a ranking that any other ranking should beat."""
    ranks = np.random.default_rng(seed).permutation(len(points)).astype(np.float64)
    return _certain(ranks, points)


def tmc_draws(
    U: Potential,
    points: Points | Bundles,
    *,
    permutations: int | StopRule = 100,
    tolerance: float = 0.01,
    patience: int = 1,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Draws:
    """The marginals of all points along random permutations, one row for each permutation.

    `tmc` makes values of them and explains the parameters.
    """
    if len(points) == 0:
        raise InputError("there are no points to value: give at least one")
    if not tolerance >= 0:
        raise InputError(f"tolerance = {tolerance}: give a difference of U of at least 0")
    if not is_whole(patience, least=1):
        raise InputError(f"patience = {patience}: give a whole number of points of at least 1")
    check_points(U, points, name="points")
    rows, players = players_of(points)
    task = _Permutation(
        U=U,
        points=rows,
        players=players,
        tolerance=tolerance,
        patience=patience,
        seed=seed,
        whole=float(_answers(U, rows)[0]),
    )
    identity = Identity(
        method="TMC-Shapley",
        seed=seed,
        points=points.fingerprint(),
        options={"tolerance": tolerance, "patience": patience},
        potential=describe(U),
    )
    # A permutation has one marginal of each point, and their sizes k are random: one stratum.
    return gather(
        task,
        widened(Draws.none(points, weights=np.ones(1)), width_of(U)),
        identity=identity,
        until=permutations,
        store=store,
        n_jobs=n_jobs,
        progress=progress,
    )


@with_options_of(tmc_draws)
def tmc(U: Potential, points: Points | Bundles, **options: Any) -> Valuation:
    """Truncated Monte Carlo Shapley (Ghorbani and Zou 2019): marginals along random permutations.

    Parameters
    ----------
    points
        The rows of one data set, or bundles of them. A bundle is added as a whole.
    permutations
        The number of permutations, or a stop rule (see `dshapley.stopping`).
    tolerance
        A permutation is cut when |U(B) - U(the points so far)| falls below this. The points behind
        the cut get a marginal of 0 from it, which saves most fits. What a cut takes from all of
        them sums to less than the tolerance, but it may take more from one point and give it to
        others. With 0 nothing is cut and the values are unbiased.
    patience
        Cut only after this many points in a row are within the tolerance, since a noisy U comes
        near U(B) by chance long before it stays there. The published algorithm has 1, its authors'
        code has 5.
    seed, store, n_jobs, progress
        As for `dshapley.run`. The values are the same, bit for bit, for any number of workers.
    """
    found = estimate(tmc_draws(U, points, **options))
    return found.without_draws(m=len(players_of(points)[0]))


def permutation(n: int, t: int, *, seed: int) -> tuple[int, NDArray[np.intp]]:
    """The seed of U along permutation t of `tmc`, and the permutation of n players itself."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(t,)))
    return int(rng.integers(2**31)), rng.permutation(n)


@dataclass(frozen=True, kw_only=True)
class _Permutation:
    """The task of one worker: the marginals of all players along permutation t."""

    U: Potential
    points: Points
    players: list[Array]
    """The indices of each player's points."""
    tolerance: float
    patience: int
    seed: int
    whole: float

    def __call__(self, t: int) -> Result:
        seed, order = permutation(len(self.players), t, seed=self.seed)
        U = seeded(self.U, seed)
        gains = np.zeros((len(self.players), width_of(U)))
        where = f"permutation {t} of seed {self.seed}"
        places = np.concatenate([self.players[z] for z in order])
        ends = np.cumsum([len(self.players[z]) for z in order])
        try:
            before, within = _answers(U, self.points.take([])), 0
            for end, z in zip(ends, order, strict=True):
                within = within + 1 if abs(self.whole - before[0]) < self.tolerance else 0
                if within >= self.patience:
                    break
                after = _answers(U, self.points.take(places[:end]))
                gains[z] = after - before
                before = after
        except Exception as error:
            raise DrawError(f"{where} failed: {error}") from error
        return Result(1, as_record(gains.T.ravel(), where))


def _answers(U: Potential, S: Points) -> Floats:
    """U(S): one number, or the several numbers of a `dshapley.inference.jackknife.Grouped`."""
    return np.atleast_1d(np.asarray(U(S), dtype=np.float64))


def _certain(values: Floats, points: Points | Bundles) -> Valuation:
    """A valuation of exact values, whose standard errors are 0."""
    sizes = points.sizes if isinstance(points, Bundles) else np.ones(len(points), dtype=np.int64)
    m = int(sizes.sum())
    return Valuation(
        values=values, stderr=np.zeros(len(values)), m=m, n_draws=1, ids=points.ids, rows=sizes
    )
