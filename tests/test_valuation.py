import numpy as np
import pytest
from scipy import stats

import dshapley as ds


@pytest.fixture
def draws():
    rng = np.random.default_rng(0)
    w = ds.sizes.power(6, 1.0)
    k = rng.choice(6, size=300, p=w) + 1
    gains = rng.normal(0.1, 1.0 / k[:, np.newaxis], size=(300, 4)).astype(np.float32)
    ids, rows = np.array(list("abcd")), np.ones(4, np.int64)
    return ds.Draws(t=np.arange(300), k=k, marginals=gains, weights=w, ids=ids, rows=rows)


def test_estimate_is_algorithm_2(draws):
    """The paper's running average, written as in the paper."""
    value, m = np.zeros(4), draws.m
    for t, (k, gain) in enumerate(zip(draws.k, draws.marginals, strict=True), start=1):
        value = gain / (draws.weights[k - 1] * m) / t + (t - 1) / t * value
    found = ds.estimate(draws)
    np.testing.assert_allclose(found.values, value, rtol=1e-10)
    terms = draws.marginals / (draws.weights[draws.k - 1] * m)[:, np.newaxis]
    np.testing.assert_allclose(found.stderr, stats.sem(terms, axis=0), rtol=1e-6)


def test_smaller_m_is_the_run_with_the_weights_given_k(draws):
    keep = draws.k <= 3
    w = draws.weights[:3] / draws.weights[:3].sum()
    small = ds.Draws(
        t=draws.t[keep],
        k=draws.k[keep],
        marginals=draws.marginals[keep],
        weights=w,
        ids=draws.ids,
        rows=draws.rows,
    )
    a, b = ds.estimate(draws, m=3), ds.estimate(small)
    np.testing.assert_allclose(a.values, b.values)
    np.testing.assert_allclose(a.stderr, b.stderr)
    assert a.n_draws == keep.sum()
    assert ds.estimate(draws).at(m=3).values.tolist() == a.values.tolist()


def test_blocks_of_columns_make_no_difference(draws):
    wide = np.tile(draws.marginals, (1, 20_000))  # more columns than a block holds
    ids, rows = np.arange(wide.shape[1]), np.ones(wide.shape[1], np.int64)
    found = ds.estimate(
        ds.Draws(t=draws.t, k=draws.k, marginals=wide, weights=draws.weights, ids=ids, rows=rows)
    )
    assert found.values.reshape(-1, 4).tolist() == [ds.estimate(draws).values.tolist()] * 20_000


@pytest.mark.parametrize("m", [0, 7, 2.5])
def test_bad_m(draws, m):
    with pytest.raises(ds.InputError, match="from 1 to 6"):
        ds.estimate(draws, m=m)


def test_no_draw_small_enough(draws):
    large = draws.k > 2
    only = ds.Draws(
        t=draws.t[large],
        k=draws.k[large],
        marginals=draws.marginals[large],
        weights=draws.weights,
        ids=draws.ids,
        rows=draws.rows,
    )
    with pytest.raises(ds.InputError, match="draw more"):
        ds.estimate(only, m=2)


def test_one_draw_has_no_standard_error(draws):
    single = ds.estimate(draws.first(1))
    assert np.isnan(single.stderr).all()
    assert np.isfinite(single.values).all()
    assert not single.below_zero().any()


def test_intervals_are_student_t(draws):
    v = ds.estimate(draws)
    low, high = v.interval(0.9)
    assert 0.8 * (v.n_draws - 1) < v.freedom <= v.n_draws - 1
    half = stats.t(v.freedom).ppf(0.95) * v.stderr
    np.testing.assert_allclose(high - v.values, half)
    np.testing.assert_allclose(v.values - low, half)
    with pytest.raises(ds.InputError):
        v.interval(1.0)


def test_below_zero_is_one_sided():
    k = np.ones(100, int)
    gains = np.stack([np.tile([-1.0, -0.9], 50), np.tile([-1.0, 0.9], 50)], axis=1)
    draws = ds.Draws(
        t=np.arange(100),
        k=k,
        marginals=gains.astype(np.float32),
        weights=np.ones(1),
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    assert ds.estimate(draws).below_zero().tolist() == [True, False]


def test_draws_that_are_all_alike_claim_nothing():
    gains = np.array([[-1.0, -1.0], [-1.0, -1.1], [-1.0, -0.9]], np.float32)
    draws = ds.Draws(
        t=np.arange(3),
        k=np.ones(3, int),
        marginals=gains,
        weights=np.ones(1),
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    assert ds.estimate(draws).below_zero().tolist() == [False, True]


@pytest.mark.parametrize("n", [7, 50, 1000])
def test_many_draws_that_are_all_alike_claim_nothing(n):
    """Whatever the rounding of their sum makes of them."""
    gains = np.full((n, 2), [-0.1, -3.0], np.float32)
    draws = ds.Draws(
        t=np.arange(n),
        k=np.ones(n, int),
        marginals=gains,
        weights=np.ones(1),
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    assert not ds.estimate(draws).below_zero().any()


def test_frame(draws):
    frame = ds.estimate(draws, m=4).to_frame()
    assert frame.columns.tolist() == ["value", "stderr", "k_min", "k_max"]
    assert frame.index.tolist() == list("abcd")
    assert (frame["k_max"] == 4).all()


def test_frame_of_bundles_has_values_per_row(draws):
    rows = np.array([1, 2, 4, 1])
    bundles = ds.Draws(
        t=draws.t,
        k=draws.k,
        marginals=draws.marginals,
        weights=draws.weights,
        ids=draws.ids,
        rows=rows,
    )
    frame = ds.estimate(bundles).to_frame()
    np.testing.assert_allclose(frame["value_per_row"] * rows, frame["value"])
    np.testing.assert_allclose(frame["stderr_per_row"] * rows, frame["stderr"])


def test_values_without_draws_have_no_other_m():
    v = ds.data_shapley.random_order(ds.Points([[0.0], [1.0]], [0, 1]))
    with pytest.raises(ds.InputError, match="no draws"):
        v.at(m=1)
