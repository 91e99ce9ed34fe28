"""Intervals, ranks and probabilities: how often they are right, over thousands of simulated runs.

Errors are simulated where it is enough: with m = 1 an estimate is a plain mean over the draws.
"""

import numpy as np
import pytest
from scipy import stats

import dshapley as ds
from dshapley.inference import uncertainty
from dshapley.running.stopping import Precision
from records import plain_draws


def means(gains, **more):
    """The record of draws of k = 1: values are the means of the columns."""
    return plain_draws(np.ones(len(gains), int), gains, np.ones(1), **more)


def correlated(rng, n, n_points, common):
    """Standard normals that share so much of their variance, row by row."""
    shared = rng.normal(size=(n, 1))
    return np.sqrt(common) * shared + np.sqrt(1 - common) * rng.normal(size=(n, n_points))


def binomial_error(p, n):
    return np.sqrt(p * (1 - p) / n)


# --- all at once


@pytest.mark.slow
@pytest.mark.parametrize(("common", "each"), [(0.0, 0.996), (0.5, 0.993), (0.95, 0.979)])
def test_simultaneous_intervals_hold_all_points_at_once(common, each):
    """In 95 % of 500 runs, and each alone in more: the less errors have in common, the more."""
    rng, held, alone = np.random.default_rng(1), [], []
    spread = np.linspace(0.2, 3.0, 12)
    for _ in range(500):
        low, high = ds.estimate(means(spread * correlated(rng, 150, 12, common))).interval(
            0.95, simultaneous=True
        )
        held.append(((low <= 0) & (high >= 0)).all())
        alone.append((low <= 0) & (high >= 0))
    assert abs(np.mean(held) - 0.95) < 2 * binomial_error(0.95, 500)
    shares = np.mean(alone, axis=1)
    assert shares.mean() == pytest.approx(each, abs=3 * shares.std() / np.sqrt(500))


@pytest.mark.slow
def test_each_by_itself_would_not():
    """Plain intervals of 12 independent values all hold in 0.95^12 = 54 % of runs."""
    rng = np.random.default_rng(1)
    held = []
    for _ in range(400):
        low, high = ds.estimate(means(correlated(rng, 150, 12, 0.0))).interval(0.95)
        held.append(((low <= 0) & (high >= 0)).all())
    assert abs(np.mean(held) - 0.95**12) < 4 * binomial_error(0.54, 400)


def test_simultaneous_intervals_make_use_of_what_errors_have_in_common():
    rng = np.random.default_rng(0)

    def in_standard_errors(common):
        found = ds.estimate(means(correlated(rng, 400, 50, common)))
        low, high = found.interval(0.95, simultaneous=True)
        widths = (high - low) / (2 * found.stderr)
        np.testing.assert_allclose(widths, widths[0])
        return widths[0]

    bonferroni = uncertainty.bonferroni_quantile(0.95, 50, 399)
    single = uncertainty.student_quantile(0.975, 399)
    # The quantile of 2,000 simulated maxima has an error of about 0.03.
    assert in_standard_errors(0.0) == pytest.approx(bonferroni, abs=0.12)
    assert in_standard_errors(0.98) < bonferroni - 0.6
    assert in_standard_errors(1.0) == pytest.approx(single, abs=0.12)


def test_simultaneous_intervals_of_few_draws_are_wider():
    """As Student's t is: with five draws and one point it is Student's t."""
    rng = np.random.default_rng(0)
    found = ds.estimate(means(rng.normal(size=(5, 1))))
    low, high = found.interval(0.95, simultaneous=True)
    assert (high - low)[0] / 2 == pytest.approx(stats.t(4).ppf(0.975) * found.stderr[0], rel=0.08)


@pytest.mark.slow
def test_simultaneous_intervals_hold_for_balanced_sizes():
    """Influences are deviations within groups of a few draws; the freedom counts the groups."""
    rng = np.random.default_rng(2)
    held = []
    for _ in range(500):
        gains = correlated(rng, 120, 6, 0.5)
        low, high = ds.estimate(means(gains, balanced=True)).interval(simultaneous=True)
        held.append(((low <= 0) & (high >= 0)).all())
    assert abs(np.mean(held) - 0.95) < 2 * binomial_error(0.95, 500)


# --- at any time


CHECKPOINTS = np.unique(np.geomspace(100, 3000, 60).astype(int))


def sure_of_zero(gains, quantile):
    """Of paths (paths, draws): which were ever surer of their mean than is right."""
    n = CHECKPOINTS
    mean = np.cumsum(gains, axis=1)[:, n - 1] / n
    square = np.cumsum(gains**2, axis=1)[:, n - 1] / n
    stderr = np.sqrt((square - mean**2) / (n - 1))
    return (np.abs(mean) > np.array([quantile(i) for i in n]) * stderr).any(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "plain_fails"),
    [("normal", 0.33), ("skewed", 0.35), ("of another spread at first", 0.22)],
)
def test_anytime_intervals_hold_at_every_look(kind, plain_fails):
    """In 2,000 paths of 100 to 3,000 draws; plain intervals fail in a third of them."""
    rng, n = np.random.default_rng(0), 2000
    gains = rng.normal(size=(n, 3000))
    if kind == "skewed":
        gains = rng.exponential(size=(n, 3000)) - 1
    elif kind != "normal":
        gains[:, :100] *= 3
    ever = sure_of_zero(gains, lambda i: uncertainty.anytime_quantile(i, 0.95)).mean()
    plain = sure_of_zero(gains, lambda i: uncertainty.student_quantile(0.975, i - 1)).mean()
    assert ever <= 0.05 + 2 * binomial_error(0.05, n)
    assert abs(plain - plain_fails) < 3 * binomial_error(plain_fails, n)


@pytest.mark.slow
def test_anytime_intervals_are_for_all_points_at_once():
    """Twenty independent points: none leaves its interval in 95 % of paths."""
    rng, n_points = np.random.default_rng(1), 20
    violated = [
        sure_of_zero(
            rng.normal(size=(n_points, 3000)),
            lambda i: uncertainty.anytime_quantile(i, 0.95, n_points=n_points),
        ).any()
        for _ in range(300)
    ]
    assert np.mean(violated) <= 0.05 + 2 * binomial_error(0.05, 300)


def test_the_interval_of_a_valuation_is_that_quantile():
    rng = np.random.default_rng(0)
    found = ds.estimate(means(rng.normal(size=(400, 7))))
    low, high = found.interval(0.9, anytime=True)
    half = uncertainty.anytime_quantile(400, 0.9, n_points=7, freedom=found.freedom) * found.stderr
    assert half[0] > uncertainty.anytime_quantile(400, 0.9, n_points=7) * found.stderr[0]
    np.testing.assert_allclose(high - found.values, half)
    np.testing.assert_allclose(found.values - low, half)


def test_the_confidence_sequence_is_robbins_mixture():
    """The mixture over normal drifts of variance rho^2 exceeds 1 / alpha at the boundary."""
    alpha = 0.05
    rho2 = (-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / 1000
    for n in (10, 100, 1000, 50_000):
        s = uncertainty.anytime_quantile(n, 1 - alpha) * np.sqrt(n)  # the sum of n normals
        mixture = np.exp(rho2 * s**2 / (2 * (n * rho2 + 1))) / np.sqrt(n * rho2 + 1)
        assert mixture == pytest.approx(1 / alpha)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_it_is_narrowest_at_a_thousand_draws(confidence):
    """Of all mixtures: no other rho does better there, by more than a thousandth."""
    c = np.geomspace(0.1, 1000, 4000)
    widths = np.sqrt(2 * (1 + 1 / c) * (0.5 * np.log(c + 1) - np.log(1 - confidence)))
    assert uncertainty.anytime_quantile(1000, confidence) < 1.001 * widths.min()
    assert uncertainty.anytime_quantile(30, confidence) > 1.1 * widths.min()


# --- stopping at a precision


@pytest.mark.slow
@pytest.mark.parametrize("common", [0.0, 0.9])
def test_a_precision_that_was_asked_for_is_met(common):
    """All values within +-0.2 in each of 400 runs, stopped where they first say so.

    95 % would do: the bound allows for a look after every draw, for ever.
    """
    rng, rule = np.random.default_rng(3), Precision(0.2)
    met, stops = [], []
    for _ in range(400):
        draws = means(correlated(rng, 600, 3, common))
        n = next(n for n in range(100, 601, 10) if rule(draws.first(n), 0.0))
        met.append(np.abs(ds.estimate(draws.first(n)).values).max() <= 0.2)
        stops.append(n)
    assert all(met)
    # It does not wait for certainty: so many draws are needed at the quantile for three points.
    quantile = uncertainty.anytime_quantile(300, 0.95, n_points=3)
    assert np.median(stops) == pytest.approx((quantile / 0.2) ** 2, rel=0.1)


# --- ranks


def ranks(values):
    """1 is the most valuable."""
    return 1 + (values[:, np.newaxis] < values).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("common", [0.0, 0.95])
def test_rank_intervals_hold_the_true_ranks(common):
    """Each in 99 % of 400 runs or more, points of nearly the same value among them.

    95 % would do: Bonferroni's quantile is for differences that have nothing to do with each other.
    """
    rng = np.random.default_rng(0)
    truth = np.array([0.0, 0.02, 0.3, 0.3001, 0.5, 1.0, 1.1, 2.0])
    held = []
    for _ in range(400):
        best, worst = ds.estimate(means(truth + correlated(rng, 100, 8, common))).rank_interval()
        held.append((best <= ranks(truth)) & (ranks(truth) <= worst))
    assert np.mean(held, axis=0).min() >= 0.99 - 2 * binomial_error(0.99, 400)
    assert (best < worst)[:4].all()  # of the last run: 0 and 0.02, 0.3 and 0.3001 cannot be told


def test_rank_intervals_shrink_with_more_draws():
    rng = np.random.default_rng(0)
    draws = means(np.linspace(0, 1, 10) + rng.normal(size=(20_000, 10)))
    widths = []
    for n in (50, 500, 20_000):
        best, worst = ds.estimate(draws.first(n)).rank_interval()
        widths.append((worst - best).mean())
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] == 0
    assert best.tolist() == worst.tolist() == list(range(10, 0, -1))


def test_what_errors_have_in_common_does_not_widen_rank_intervals():
    """Noise a hundred times the differences, the same for all points."""
    rng = np.random.default_rng(0)
    truth, own = np.linspace(0, 1, 10), 0.1 * rng.normal(size=(200, 10))
    quiet = ds.estimate(means(truth + own))
    loud = ds.estimate(means(truth + own + 10 * rng.normal(size=(200, 1))))
    assert (loud.stderr > 50 * quiet.stderr).all()
    for a, b in zip(quiet.rank_interval(), loud.rank_interval(), strict=True):
        assert a.tolist() == b.tolist()
    best, worst = loud.rank_interval()
    assert best.tolist() == worst.tolist()


def test_ranks_by_hand():
    """Differences against their own standard errors, at Bonferroni's quantile for two others."""
    rng = np.random.default_rng(5)
    gains = np.array([0.0, 0.25, 0.6]) + rng.normal(size=(80, 3))
    found = ds.estimate(means(gains))
    best, worst = found.rank_interval(0.9)
    quantile = stats.t(79).ppf(1 - 0.1 / 4)
    kept = gains.astype(np.float32).astype(float)
    for i in range(3):
        gaps = kept - kept[:, [i]]
        sure = gaps.mean(axis=0) / np.maximum(stats.sem(gaps, axis=0), 1e-300)
        assert best[i] == 1 + (sure > quantile).sum()
        assert worst[i] == 3 - (sure < -quantile).sum()


@pytest.mark.slow
def test_ranks_in_blocks():
    """Of more points than fit in a block of differences at once."""
    rng = np.random.default_rng(0)
    n = 5000
    values, influence = rng.normal(size=n), 0.01 * rng.normal(size=(3, n))
    best, worst = uncertainty.rank_bounds(values, influence, 2.0)
    for i in (0, 3355, 3356, n - 1):
        reach = 2.0 * np.sqrt(((influence - influence[:, [i]]) ** 2).sum(axis=0))
        assert best[i] == 1 + (values - values[i] > reach + 1e-12).sum()
        assert worst[i] == n - (values - values[i] < -reach - 1e-12).sum()


# --- the top


def calibration(true_values, *, n_runs, n_points, noise, share, common=0.0, seed=0):
    """Probabilities said, and whether it was so, over many runs."""
    rng = np.random.default_rng(seed)
    said, so = [], []
    for _ in range(n_runs):
        truth = true_values(rng, n_points)
        errors = noise * correlated(rng, 50, n_points, common)
        said.append(ds.estimate(means(truth + errors)).top_probability(share))
        so.append(ranks(truth) <= round(share * n_points))
    return np.concatenate(said), np.concatenate(so)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("true_values", "common", "within"),
    [
        (lambda rng, n: rng.normal(size=n), 0.0, 0.05),
        (lambda rng, n: rng.normal(size=n), 0.9, 0.05),
        (lambda rng, n: rng.standard_t(4, size=n), 0.0, 0.07),
        (lambda rng, n: rng.exponential(size=n), 0.0, 0.07),
    ],
    ids=["normal", "normal, common errors", "t with 4 degrees of freedom", "exponential"],
)
def test_top_probabilities_are_as_frequent_as_they_say(true_values, common, within):
    """In fifths of the stated probability; estimates are as far off as values are apart."""
    noise = 5.0 / np.sqrt(1 - common)
    said, so = calibration(
        true_values, n_runs=60, n_points=100, noise=noise, share=0.2, common=common
    )
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        here = (said >= low) & (said < low + 0.2 + 1e-9)
        assert here.sum() > 250
        assert abs(said[here].mean() - so[here].mean()) < within + 2 * binomial_error(
            so[here].mean(), here.sum()
        )


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_top_probabilities_sum_to_the_number_of_top_points(share):
    rng = np.random.default_rng(0)
    found = ds.estimate(means(rng.normal(size=40) + rng.normal(size=(30, 40))))
    p = found.top_probability(share)
    assert p.sum() == pytest.approx(round(share * 40))
    assert ((p >= 0) & (p <= 1)).all()


def test_top_probabilities_of_sure_values_are_certain():
    rng = np.random.default_rng(0)
    truth = rng.permutation(20) * 1.0
    p = ds.estimate(means(truth + 1e-3 * rng.normal(size=(50, 20)))).top_probability(0.25)
    assert p.tolist() == (truth >= 15).astype(float).tolist()


def test_top_probabilities_of_values_that_noise_explains_are_all_alike():
    """True values that do not differ: in most runs no point stands out at all."""
    rng = np.random.default_rng(0)
    spread = [
        np.ptp(ds.estimate(means(rng.normal(size=(50, 30)))).top_probability(0.2))
        for _ in range(20)
    ]
    assert np.median(spread) == 0.0


def test_top_probabilities_of_values_without_draws():
    exact = ds.data_shapley.random_order(ds.Points(np.zeros((10, 1))))
    assert exact.top_probability(0.2).tolist() == (exact.values >= 8).astype(float).tolist()


# --- simulated errors


def test_noise_has_the_covariance_of_the_influences():
    rng = np.random.default_rng(0)
    found = ds.estimate(means(np.array([1.0, 2.0, 0.5]) * correlated(rng, 60, 3, 0.6)))
    noise = found.noise(20_000)
    gains = found.draws.marginals.astype(float)
    truth = np.cov(gains, rowvar=False) / 60
    sampled = np.cov(noise, rowvar=False)
    error = np.sqrt((truth**2 + np.outer(np.diag(truth), np.diag(truth))) / 20_000)
    assert (np.abs(sampled - truth) < 4 * error).all()
    assert (np.abs(noise.mean(axis=0)) < 4 * found.stderr / np.sqrt(20_000)).all()
    assert noise.shape == (20_000, 3)
    np.testing.assert_array_equal(found.noise(5, seed=1), found.noise(5, seed=1))
    assert (found.noise(5, seed=1) != found.noise(5, seed=2)).all()


def test_noise_of_values_without_draws():
    values = ds.Valuation(
        values=np.zeros(2),
        stderr=np.array([1.0, 3.0]),
        m=5,
        n_draws=10,
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    noise = values.noise(5000)
    np.testing.assert_allclose(noise.std(axis=0), [1.0, 3.0], rtol=4 / np.sqrt(2 * 5000))
    assert abs(np.corrcoef(noise.T)[0, 1]) < 4 / np.sqrt(5000)


def test_the_error_of_a_difference_from_the_mean():
    """By blocks of points, with what is common to all of them taken out."""
    rng = np.random.default_rng(0)
    influence = 0.1 * rng.normal(size=(50, 6)) + rng.normal(size=(50, 1))
    blocks = [(columns, influence[:, columns]) for columns in (np.arange(4, 6), np.arange(4))]
    found = uncertainty.stderr_of_differences(blocks, 6)
    apart = influence - influence.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, np.sqrt((apart**2).sum(axis=0)))


# --- edges


def test_a_single_draw_says_nothing():
    found = ds.estimate(means(np.array([[3.0, 1.0, 2.0]])))
    assert np.isnan(found.stderr).all()
    for options in ({}, {"simultaneous": True}, {"anytime": True}):
        assert np.isnan(found.interval(**options)).all()
    best, worst = found.rank_interval()
    assert best.tolist() == [1, 1, 1]
    assert worst.tolist() == [3, 3, 3]
    assert not Precision(100.0, at_least=1)(found.draws, 0.0)
    assert np.isnan(found.top_probability(0.34)).all()


def test_draws_that_are_all_alike():
    found = ds.estimate(means(np.tile([3.0, 1.0, 2.0], (5, 1))))
    for options in ({}, {"simultaneous": True}, {"anytime": True}):
        low, high = found.interval(**options)
        np.testing.assert_allclose([low, high], [[3.0, 1.0, 2.0]] * 2, rtol=1e-12)
    assert found.rank_interval()[0].tolist() == [1, 3, 2]
    assert found.top_probability(0.34).tolist() == [1.0, 0.0, 0.0]
    assert (np.abs(found.noise(3)) < 1e-12).all()


def test_points_that_are_all_alike():
    found = ds.estimate(means(np.ones((5, 4))))
    best, worst = found.rank_interval()
    assert best.tolist() == [1] * 4
    assert worst.tolist() == [4] * 4
    assert found.top_probability(0.25).tolist() == [0.25] * 4


def test_one_point_that_does_not_vary_among_others():
    rng = np.random.default_rng(0)
    gains = np.column_stack([np.full(50, 2.0), rng.normal(size=(50, 2))])
    low, high = ds.estimate(means(gains)).interval(simultaneous=True)
    np.testing.assert_allclose([low[0], high[0]], 2.0, rtol=1e-12)
    assert (low[1:] < high[1:] - 0.1).all()


def test_one_point():
    rng = np.random.default_rng(0)
    found = ds.estimate(means(rng.normal(size=(50, 1))))
    assert [rank.tolist() for rank in found.rank_interval()] == [[1], [1]]
    assert found.top_probability(0.5).tolist() == [1.0]
    low, high = found.interval(simultaneous=True)
    half = uncertainty.student_quantile(0.975, 49) * found.stderr[0]
    assert (high - low)[0] / 2 == pytest.approx(half, rel=0.06)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5, -0.1, 95, float("nan")])
@pytest.mark.parametrize(
    "ask",
    [
        lambda v, c: v.interval(c),
        lambda v, c: v.interval(c, simultaneous=True),
        lambda v, c: v.interval(c, anytime=True),
        lambda v, c: v.rank_interval(c),
        lambda v, c: v.below_zero(c),
        lambda v, c: Precision(0.1, c),
    ],
    ids=["interval", "simultaneous", "anytime", "ranks", "below zero", "precision"],
)
def test_a_confidence_is_between_0_and_1(ask, confidence):
    found = ds.estimate(means(np.random.default_rng(0).normal(size=(9, 2))))
    with pytest.raises(ds.InputError, match=r"between 0 and 1, such as 0\.95"):
        ask(found, confidence)


@pytest.mark.parametrize("share", [0, 1, -0.5, 10, float("nan")])
def test_a_share_is_between_0_and_1(share):
    found = ds.estimate(means(np.random.default_rng(0).normal(size=(9, 2))))
    with pytest.raises(ds.InputError, match=r"share = .*: give a share of the points"):
        found.top_probability(share)


def test_what_needs_draws_says_so():
    exact = ds.data_shapley.random_order(ds.Points(np.zeros((3, 1))))
    for ask in (lambda: exact.interval(simultaneous=True), exact.rank_interval):
        with pytest.raises(ds.InputError, match="keep no draws"):
            ask()
