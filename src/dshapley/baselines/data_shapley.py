"""Data Shapley values within one fixed data set, and simpler baselines, on the same potentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.subsets import sampled
from dshapley.data.points import Array, Bundles, Floats, Points, players_of
from dshapley.errors import DrawError, InputError, is_whole
from dshapley.inference.jackknife import widened, width_of
from dshapley.inference.valuation import Valuation, estimate
from dshapley.potentials import Potential, check_points, describe, seeded
from dshapley.running.run import as_record, gather
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
    """The data Shapley value of each point or bundle (Definition 2.1), by all 2^n subsets.

    >>> import numpy as np
    >>> points = Points(np.zeros((3, 1)), [0, 0, 1])
    >>> exact(lambda S: float(len(set(S.y.tolist()))), points).values.tolist()
    [0.5, 0.5, 1.0]
    """
    n = len(points)
    if n > _MOST_EXACT:
        raise InputError(
            f"exact values of {n} points need 2^{n} evaluations of U; {_MOST_EXACT} points are "
            "the most: use tmc"
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
    """Values 0..n-1 in random order: the ranking that any other should beat."""
    ranks = np.random.default_rng(seed).permutation(len(points)).astype(np.float64)
    return _certain(ranks, points)


def tmc(
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
) -> Valuation:
    """Truncated Monte Carlo Shapley (Ghorbani and Zou 2019): marginals along random permutations.

    Parameters
    ----------
    points
        The rows of one data set; or bundles of them, each of which comes and goes as one.
    permutations
        How many, or a stop rule (see `dshapley.stopping`).
    tolerance
        A permutation is cut where |U(B) - U(its points so far)| falls below this: the points
        behind get 0 from it, which saves most fits. What it takes from them all sums to less than
        the tolerance, though from one it can take more, and give it to others. With 0 nothing is
        cut and the values are unbiased.
    patience
        Cut only after so many points in a row within the tolerance: a noisy U comes near U(B) by
        chance long before it stays there. 1 is the published algorithm, its authors' code has 5.
    seed, store, n_jobs, progress
        As for `dshapley.run`: resumable, and the same bit for bit with any number of workers.
    """
    draws = tmc_draws(
        U, points, permutations=permutations, tolerance=tolerance, patience=patience, seed=seed,
        store=store, n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    return replace(estimate(draws), m=len(players_of(points)[0]), terms=None)


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
    """The marginals behind `tmc`, a row a permutation: for errors of sums and of ranks."""
    if len(points) == 0:
        raise InputError("there are no points to value")
    if not tolerance >= 0:
        raise InputError(f"tolerance = {tolerance}: it is a difference of U, 0 or more")
    if not is_whole(patience, least=1):
        raise InputError(f"patience = {patience}: it is a number of points, 1 or more")
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
    # A permutation has one marginal of every point, at all sizes: one stratum of weight 1.
    return gather(
        task,
        widened(Draws.none(points, weights=np.ones(1)), width_of(U)),
        identity=identity,
        until=permutations,
        store=store,
        n_jobs=n_jobs,
        progress=progress,
    )


def permutation(n: int, t: int, *, seed: int) -> tuple[int, NDArray[np.intp]]:
    """Permutation t of `tmc` with this seed, of n players, and the seed of U along it."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(t,)))
    return int(rng.integers(2**31)), rng.permutation(n)


@dataclass(frozen=True, kw_only=True)
class _Permutation:
    """The marginals of all players along permutation t."""

    U: Potential
    points: Points
    players: list[Array]
    """The places of each player's points."""
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
    """What U says of S: a number, or all those of `dshapley.inference.jackknife.Grouped`."""
    return np.atleast_1d(np.asarray(U(S), dtype=np.float64))


def _certain(values: Floats, points: Points | Bundles) -> Valuation:
    """A valuation without sampling error."""
    sizes = points.sizes if isinstance(points, Bundles) else np.ones(len(points), dtype=np.int64)
    m = int(sizes.sum())
    return Valuation(
        values=values, stderr=np.zeros(len(values)), m=m, n_draws=1, ids=points.ids, rows=sizes
    )
