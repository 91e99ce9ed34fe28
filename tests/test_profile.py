"""Marginals by size, and values beyond m."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import dshapley as ds
from dshapley.inference.profile import extrapolate, measured_gain, size_profile
from records import plain_draws

SCALE = np.array([0.5, 1.0, -0.3, 0.0])


def power_draws(m, n, *, a=1.2, noise=0.5, seed=0):
    """Draws whose mean marginal is c k^-a exactly, with noise that falls as 1/k."""
    rng = np.random.default_rng(seed)
    w = ds.sizes.power(m, 0.7)
    k = 1 + rng.choice(m, size=n, p=w)
    gains = np.outer(k**-a, SCALE) + noise / k[:, np.newaxis] * rng.normal(size=(n, 4))
    return plain_draws(k, gains, w)


def exact(m, a=1.2):
    return SCALE * (np.arange(1.0, m + 1) ** -a).sum() / m


def test_the_profile_is_the_mean_marginal_of_each_band():
    draws = power_draws(100, 4000)
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
    assert abs(z.std() - 1) < 3 / np.sqrt(2 * 27)
    frame = profile.to_frame()
    assert len(frame) == 7 * 4
    assert frame["marginal"].to_numpy()[4] == profile.means[1, 0]


def test_the_exponent_is_found():
    found = [size_profile(power_draws(200, 4000, seed=s)).exponent for s in range(8)]
    assert abs(np.mean(found) - 1.2) < 4 * np.std(found, ddof=1) / np.sqrt(8)
    # 0.005, which of eight runs is known to a quarter of itself.
    assert np.std(found) < 0.005 * (1 + 3 * 0.25)


@pytest.mark.slow
def test_extrapolated_intervals_hold_the_values_of_a_larger_size():
    """All intervals of 60 runs at 3 m, which is more than 95 %: the law holds exactly here.

    Errors allow for laws that do not hold, and only the draws err.
    """
    truth, inside, z = exact(300), [], []
    for seed in range(60):
        valuation = ds.estimate(power_draws(100, 1500, seed=seed))
        larger = extrapolate(valuation, m=300)
        assert larger.m == 300
        low, high = larger.interval(0.95)
        inside.append((low <= truth) & (truth <= high))
        z.append((larger.values - truth) / larger.stderr)
    assert np.all(inside)
    assert np.abs(np.mean(z, axis=0)).max() < 4 / np.sqrt(60)


def test_extrapolation_against_a_run_at_the_larger_size():
    """Mean estimation: marginals are no exact power of k, and the closed form is the judge."""
    database = ds.Points(np.random.default_rng(0).normal(size=(300, 2)))
    U, Z = ds.MeanPotential(database), ds.Points([[0.0, 0.0], [1.0, 1.0], [2.0, -1.0]])
    design = ds.Design(database, m=50, weights="1/k", balanced=True)
    larger = extrapolate(ds.estimate(ds.run(U, design, Z, stop=3000)), m=150)
    run = ds.estimate(
        ds.run(U, ds.Design(database, m=150, weights="1/k", balanced=True), Z, stop=3000)
    )
    assert (np.abs(larger.values - U.value(Z, m=150)) < 3 * larger.stderr).all()
    error = np.hypot(larger.stderr, run.stderr)
    assert (np.abs(larger.values - run.values) < 3 * error).all()


@pytest.fixture(scope="module")
def digits():
    """A run of nearest neighbours at m = 50, and the truth: a longer run at 150."""
    X, y = load_digits(return_X_y=True)
    setting = {
        "model": KNeighborsClassifier(), "test": (X[300:500], y[300:500]),
        "points": (X[:100], y[:100]), "sampling": ds.Sampling(weights="1/k", balanced=True),
    }  # fmt: skip
    run = ds.value(X[:300], y[:300], m=50, stop=800, **setting)
    direct = ds.value(X[:300], y[:300], m=150, stop=2000, seed=9, **setting)
    U = ds.potential(setting["model"], test=setting["test"])
    return run, direct, U, ds.Points(X[:300], y[:300])


@pytest.mark.slow
@pytest.mark.parametrize("m", [100, 150])
def test_extrapolation_stays_within_the_range_of_the_metric(digits, m):
    """A hump in the marginals: the law alone says a gain of 1.5, and accuracy ends at 1."""
    run, direct, U, database = digits
    truth, empty = direct.at(m=m), U(database.take([]))
    plain = extrapolate(run, m=m)
    assert plain.values.mean() * m <= 1 - empty + 1e-9
    gain = measured_gain(U, database, m)
    known = extrapolate(run, m=m, gain=gain)
    assert known.values.mean() * m == pytest.approx(gain[0])
    for larger in (plain, known):
        low, high = larger.interval(0.95)
        assert ((low <= truth.values) & (truth.values <= high)).all()

    def miss(values):
        return np.sqrt(((values - truth.values) ** 2).mean())

    assert miss(known.values) < miss(plain.values)


@pytest.mark.slow
def test_a_measured_gain_is_that_of_a_run(digits):
    """By efficiency the mean value over the database's points, times m, is the gain."""
    _, _, U, database = digits
    mean, stderr = measured_gain(U, database, 150, draws=40)
    run = ds.value(database, model=KNeighborsClassifier(), test=U.test, m=150, stop=600,
                   sampling=ds.Sampling(weights="1/k", balanced=True))  # fmt: skip
    total, error = run.values.mean() * 150, run.error_of_sum()[0] / len(run) * 150
    assert abs(total - mean) < 4 * np.hypot(stderr, error)
    with pytest.raises(ds.InputError, match="needs at least 2"):
        measured_gain(U, database, 150, draws=1)


def test_a_gain_is_what_values_add_up_to():
    valuation = ds.estimate(power_draws(100, 1500))
    for gain in (0.2, -0.5, 40.0):
        larger = extrapolate(valuation, m=200, gain=gain)
        assert larger.values.mean() * 200 == pytest.approx(gain)
    rough = extrapolate(valuation, m=200, gain=(0.2, 3.0))
    assert (rough.stderr > 3.0 / 200).all()
    with pytest.raises(ds.InputError, match="gain = nan"):
        extrapolate(valuation, m=200, gain=np.nan)


@pytest.mark.slow
def test_the_reference_says_what_points_like_the_databases_are_worth(digits):
    """Points that are all mislabelled: the gain is that of the database, not theirs."""
    _, _, U, database = digits
    wrong = ds.Points(database.X[:40], (database.y[:40] + 1) % 10)
    setting = {"model": KNeighborsClassifier(), "test": U.test}
    run = ds.value(
        database,
        points=wrong,
        m=50,
        stop=600,
        sampling=ds.Sampling(weights="1/k", control_variates=True),
        **setting,
    )
    assert run.draws.control_variates is not None
    plain, known = (
        extrapolate(run, m=100, gain=gain) for gain in (None, measured_gain(U, database, 100))
    )
    truth = ds.value(database, points=wrong, m=100, stop=1000, seed=9, sampling="1/k", **setting)
    off = [abs(larger.values.mean() - truth.values.mean()) for larger in (plain, known)]
    assert off[1] < off[0] / 3
    low, high = known.interval(0.95)
    assert ((low <= truth.values) & (truth.values <= high)).all()


def test_too_far_is_refused():
    valuation = ds.estimate(power_draws(100, 500))
    assert extrapolate(valuation, m=300).m == 300
    with pytest.raises(
        ds.InputError, match=r"more than 3 times the run's 100.* at least at m = 101"
    ):
        extrapolate(valuation, m=301)


def test_errors_for_people():
    valuation = ds.estimate(power_draws(100, 500))
    with pytest.raises(ds.InputError, match="above the run's 100"):
        extrapolate(valuation, m=100)
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
