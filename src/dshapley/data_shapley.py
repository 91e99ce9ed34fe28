"""Data Shapley values within one fixed data set, and simpler baselines, on the same potentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from pathlib import Path

import numpy as np

from dshapley.draws import Draws
from dshapley.errors import DrawError, InputError
from dshapley.points import Floats, Points
from dshapley.potentials import Potential, check_points, describe, seeded
from dshapley.runs import as_record, gather
from dshapley.stopping import StopRule
from dshapley.valuation import Valuation, estimate
from dshapley.workers import Result

__all__ = ["exact", "leave_one_out", "random_order", "tmc", "tmc_draws"]

_MOST_EXACT = 20


def exact(U: Potential, points: Points) -> Valuation:
    """The data Shapley value of each point (Definition 2.1), by all 2^n subsets.

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
    masks = np.arange(2**n)
    members = (masks[:, np.newaxis] >> np.arange(n)) & 1 == 1
    worth = np.array([float(U(points.take(np.flatnonzero(row)))) for row in members])
    sizes = members.sum(axis=1)
    share = np.array([1.0 / (n * comb(n - 1, size)) for size in range(n)])
    values = np.empty(n)
    for z in range(n):
        without = masks[~members[:, z]]
        gains = worth[without | (1 << z)] - worth[without]
        values[z] = (share[sizes[without]] * gains).sum()
    return _certain(values, points)


def leave_one_out(U: Potential, points: Points) -> Valuation:
    """U(B) - U(B without z) for each point z of B."""
    check_points(U, points, name="points")
    everyone = np.arange(len(points))
    whole = float(U(points))
    rest = [float(U(points.take(np.delete(everyone, z)))) for z in everyone]
    return _certain(whole - np.array(rest), points)


def random_order(points: Points, *, seed: int = 0) -> Valuation:
    """Values 0..n-1 in random order: the ranking that any other should beat."""
    ranks = np.random.default_rng(seed).permutation(len(points)).astype(np.float64)
    return _certain(ranks, points)


def tmc(
    U: Potential,
    points: Points,
    *,
    permutations: int | StopRule = 100,
    tolerance: float = 0.01,
    seed: int = 0,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Valuation:
    """Truncated Monte Carlo Shapley (Ghorbani and Zou 2019): marginals along random permutations.

    Parameters
    ----------
    permutations
        How many, or a stop rule (see `dshapley.stopping`).
    tolerance
        A permutation is cut where |U(B) - U(its points so far)| falls below this: the points
        behind get 0 from it, which saves most fits and biases the values by at most as much as
        the tolerance. With 0 nothing is cut and the values are unbiased.
    seed, store, n_jobs, progress
        As for `dshapley.run`: resumable, and the same bit for bit with any number of workers.
    """
    draws = tmc_draws(
        U, points, permutations=permutations, tolerance=tolerance, seed=seed, store=store,
        n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    return replace(estimate(draws), m=len(points), terms=None)


def tmc_draws(
    U: Potential,
    points: Points,
    *,
    permutations: int | StopRule = 100,
    tolerance: float = 0.01,
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
    check_points(U, points, name="points")
    task = _Permutation(U, points, tolerance, seed, float(U(points)))
    identity = {
        "method": "TMC-Shapley",
        "seed": seed,
        "tolerance": tolerance,
        "points": points.fingerprint(),
        **describe(U),
    }
    # A permutation has one marginal of every point, at all sizes: one stratum of weight 1.
    return gather(
        task,
        Draws.none(points, weights=np.ones(1)),
        identity=identity,
        until=permutations,
        store=store,
        n_jobs=n_jobs,
        progress=progress,
    )


@dataclass(frozen=True)
class _Permutation:
    """The marginals of all points along permutation t."""

    U: Potential
    points: Points
    tolerance: float
    seed: int
    whole: float

    def __call__(self, t: int) -> Result:
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(t,)))
        U = seeded(self.U, int(rng.integers(2**31)))
        order = rng.permutation(len(self.points))
        gains = np.zeros(len(self.points))
        where = f"permutation {t} of seed {self.seed}"
        try:
            before = float(U(self.points.take([])))
            for n, z in enumerate(order, start=1):
                if abs(self.whole - before) < self.tolerance:
                    break
                after = float(U(self.points.take(order[:n])))
                gains[z] = after - before
                before = after
        except Exception as error:
            raise DrawError(f"{where} failed: {error}") from error
        return Result(1, as_record(gains, where))


def _certain(values: Floats, points: Points) -> Valuation:
    """A valuation without sampling error."""
    n = len(points)
    return Valuation(values, np.zeros(n), n, 1, points.ids, np.ones(n, dtype=np.int64))
