"""Marginals by size, and values beyond m."""

import numpy as np
import pytest

import dshapley as ds
from dshapley.draws import Pilot
from dshapley.profile import extrapolate, size_profile
from records import plain_draws

SCALE = np.array([0.5, 1.0, -0.3, 0.0])


def power_draws(m, n, *, a=1.2, noise=0.5, seed=0, pilot=0):
    """Draws whose mean marginal is c k^-a exactly, with noise that falls as 1/k."""
    rng = np.random.default_rng(seed)
    w, first = ds.sizes.power(m, 0.7), ds.sizes.power(m, 1.0)
    k = 1 + np.concatenate(
        [rng.choice(m, size=pilot, p=first), rng.choice(m, size=n - pilot, p=w)]
    ).astype(int)  # fmt: skip
    gains = np.outer(k**-a, SCALE) + noise / k[:, np.newaxis] * rng.normal(size=(n, 4))
    return ds.Draws(
        np.arange(n), k, gains.astype(np.float32), w, np.arange(4), np.ones(4, int),
        pilot=Pilot(pilot, first) if pilot else None,
    )  # fmt: skip


def exact(m, a=1.2):
    return SCALE * (np.arange(1.0, m + 1) ** -a).sum() / m


@pytest.mark.parametrize("pilot", [0, 500])
def test_the_profile_is_the_mean_marginal_of_each_band(pilot):
    draws = power_draws(100, 4000, pilot=pilot)
    profile = size_profile(draws)
    assert profile.smallest.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert profile.largest.tolist() == [1, 3, 7, 15, 31, 63, 100]
    assert profile.n_draws.sum() == 4000
    truth = np.array(
        [
            SCALE * (np.arange(float(a), b + 1) ** -1.2).mean()
            for a, b in zip(profile.smallest, profile.largest, strict=True)
        ]
    )
    z = (profile.means - truth) / profile.stderr
    assert np.abs(z).max() < 4
    assert 0.5 < z.std() < 1.5
    frame = profile.to_frame()
    assert len(frame) == 7 * 4
    assert frame["marginal"].to_numpy()[4] == profile.means[1, 0]


def test_the_exponent_is_found():
    found = [size_profile(power_draws(200, 4000, seed=s)).exponent for s in range(8)]
    assert abs(np.mean(found) - 1.2) < 4 * np.std(found, ddof=1) / np.sqrt(8)
    assert np.std(found) < 0.3


def test_extrapolated_intervals_hold_the_values_of_a_larger_size():
    """Each run's 95 % intervals at 4 m; the law holds exactly, so only the draws err."""
    truth, inside, z = exact(400), [], []
    for seed in range(60):
        valuation = ds.estimate(power_draws(100, 1500, seed=seed))
        larger = extrapolate(valuation, m=400)
        assert larger.m == 400
        low, high = larger.interval(0.95)
        inside.append((low <= truth) & (truth <= high))
        z.append((larger.values - truth) / larger.stderr)
    assert 0.9 < np.mean(inside) <= 1.0
    assert np.abs(np.mean(z, axis=0)).max() < 4 / np.sqrt(60)


def test_extrapolation_against_a_run_at_the_larger_size():
    """Mean estimation: marginals are no exact power of k, and the closed form is the judge."""
    database = ds.Points(np.random.default_rng(0).normal(size=(300, 2)))
    U, Z = ds.MeanPotential(database), ds.Points([[0.0, 0.0], [1.0, 1.0], [2.0, -1.0]])
    design = ds.Design(database, m=50, weights="1/k", stratified=True)
    larger = extrapolate(ds.estimate(ds.run(U, design, Z, until=3000)), m=150)
    run = ds.estimate(
        ds.run(U, ds.Design(database, m=150, weights="1/k", stratified=True), Z, until=3000)
    )
    assert (np.abs(larger.values - U.value(Z, m=150)) < 3 * larger.stderr).all()
    error = np.hypot(larger.stderr, run.stderr)
    assert (np.abs(larger.values - run.values) < 3 * error).all()


def test_errors_for_people():
    valuation = ds.estimate(power_draws(100, 500))
    with pytest.raises(ds.InputError, match="above the run's 100"):
        extrapolate(valuation, m=100)
    known = ds.MeanPotential(ds.Points(np.zeros((2, 1))))
    assert known.R2 == 0
    with pytest.raises(ds.InputError, match="keep no draws"):
        extrapolate(ds.data_shapley.random_order(ds.Points(np.zeros((3, 1)))), m=10)
    small = power_draws(100, 500).take(power_draws(100, 500).k < 4)
    assert np.isnan(size_profile(small).exponent)
    with pytest.raises(ds.InputError, match="several sizes near m"):
        extrapolate(ds.estimate(small), m=200)
    with pytest.raises(ds.InputError, match="m = nan"):
        extrapolate(valuation, m=np.nan)


def test_a_size_without_any_spread_does_not_decide_alone():
    """For k = 1 S is empty: all draws are alike, and their error is exactly 0."""
    k = np.tile(np.arange(1, 17), 40)
    noise = np.random.default_rng(0).normal(0, 0.01, size=(len(k), 3)) * (k > 1)[:, np.newaxis]
    c = np.array([1.0, 2.0, 3.0])
    gains = np.where(k[:, np.newaxis] == 1, 100.0, c * k[:, np.newaxis] ** -1.0) + noise
    draws = plain_draws(k, gains, np.full(16, 1 / 16))
    with np.errstate(all="raise"):
        found = size_profile(draws)
    assert found.exponent == pytest.approx(1.0, abs=0.05)
    with np.errstate(all="raise"):
        larger = extrapolate(ds.estimate(draws), m=32)
    assert np.isfinite(larger.stderr).all()
