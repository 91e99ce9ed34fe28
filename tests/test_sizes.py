"""Size weights: positive probabilities over the sizes 1..m."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshapley import InputError
from dshapley.sampling.sizes import (
    as_weights,
    balanced_by_default,
    bands,
    by_work,
    from_stability,
    per_size,
    power,
    uniform,
)

SIZES = [1, 2, 3, 10, 1000]

# A sum of at most a thousand probabilities: rounding only.
EXACT = {"rtol": 1e-12, "atol": 0.0}


# --- the weights themselves


@pytest.mark.parametrize("m", SIZES)
def test_uniform_gives_each_size_the_same_share(m):
    w = uniform(m)
    assert w.shape == (m,)
    assert w.dtype == np.float64
    assert w.tolist() == [1 / m] * m


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("a", [0.5, 1.0, 2.0])
def test_power_falls_as_a_power_of_the_size(m, a):
    w = power(m, a)
    k = np.arange(1, m + 1)
    assert w.shape == (m,)
    np.testing.assert_allclose(w.sum(), 1.0, **EXACT)
    np.testing.assert_allclose(w / w[0], k**-a, **EXACT)


def test_power_by_hand():
    np.testing.assert_allclose(power(3, 1.0), np.array([6, 3, 2]) / 11, **EXACT)
    np.testing.assert_allclose(power(2, 2), [0.8, 0.2], **EXACT)


def test_a_negative_exponent_draws_large_sets_more_often():
    np.testing.assert_allclose(power(3, -1), np.array([1, 2, 3]) / 6, **EXACT)


@pytest.mark.parametrize("m", SIZES)
def test_power_zero_is_uniform(m):
    np.testing.assert_allclose(power(m, 0.0), uniform(m), **EXACT)


@given(m=st.integers(1, 300), a=st.floats(0, 4))
@settings(max_examples=60, deadline=None)
def test_weights_are_positive_decrease_and_sum_to_one(m, a):
    w = power(m, a)
    assert (w > 0).all()
    assert (np.diff(w) <= 0).all()
    np.testing.assert_allclose(w.sum(), 1.0, **EXACT)


# --- by name


@pytest.mark.parametrize(
    ("name", "a"),
    [
        ("1/k", 1.0),
        ("1 / k", 1.0),
        ("k^-1", 1.0),
        ("k^-0.5", 0.5),
        ("k^-.5", 0.5),
        ("k**-0.5", 0.5),
        ("k ** -2", 2.0),
        ("k^-2.", 2.0),
        ("k^-0", 0.0),
    ],
)
def test_names_of_powers(name, a):
    np.testing.assert_array_equal(as_weights(name, 7), power(7, a))


def test_the_name_uniform():
    np.testing.assert_array_equal(as_weights("uniform", 7), uniform(7))


@pytest.mark.parametrize(
    "name",
    ["", "unifrom", "Uniform", "k", "k^", "k^-", "k^2", "2/k", "k^-a", "k^--1", "k^-1e3", "xk^-1"],
)
def test_an_unknown_name_says_what_there_is(name):
    with pytest.raises(
        InputError, match=r"unknown weights .*: use auto, uniform .*, 1/k .*, or k\^-a"
    ):
        as_weights(name, 5)


@pytest.mark.parametrize("name", ["k^-400", "k^-0.5", "1/k", "uniform"])
def test_no_name_gives_a_size_that_is_never_drawn(name):
    try:
        w = as_weights(name, 10)
    except InputError:
        return  # too steep for floating point: to refuse it is right
    assert (w > 0).all()


# --- from numbers


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda w: np.array(w, dtype=np.float32)])
def test_an_array_is_taken_as_it_is(kind):
    w = as_weights(kind([0.5, 0.25, 0.25]), 3)
    assert w.dtype == np.float64
    assert w.tolist() == [0.5, 0.25, 0.25]


def test_one_size_has_all_the_weight():
    assert as_weights([1], 1).tolist() == [1.0]


def test_a_rounding_error_in_the_sum_is_put_right():
    w = as_weights([0.1, 0.2, 0.7 + 5e-7], 3)
    np.testing.assert_allclose(w.sum(), 1.0, rtol=1e-15)
    np.testing.assert_allclose(w, [0.1, 0.2, 0.7], rtol=1e-6)


def test_the_given_array_is_left_alone():
    given_weights = np.array([0.1, 0.2, 0.7 + 5e-7])
    before = given_weights.copy()
    as_weights(given_weights, 3)[0] = 9.0
    np.testing.assert_array_equal(given_weights, before)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5], r"one number for each size 1\.\.3, not \(2,\)"),
        ([0.25] * 4, r"one number for each size 1\.\.3, not \(4,\)"),
        ([[0.2, 0.3, 0.5]], r"one number for each size 1\.\.3, not \(1, 3\)"),
        (1.0, r"one number for each size 1\.\.3, not \(\)"),
        ([0.6, -0.1, 0.5], r"size k = 2 is -0\.1: give a probability above 0"),
        ([0.5, 0.5, np.nan], "size k = 3 is nan: give a probability above 0"),
        ([np.inf, 0.5, 0.5], "size k = 1 is inf: give a probability above 0"),
        ([0.5, -np.inf, 0.5], "size k = 2 is -inf: give a probability above 0"),
        ([0.5, 0.0, 0.5], "size k = 2 is 0: .*would be biased"),
        ([0.5, 0.25, 0.2], r"sum to 0\.95, not 1: divide them by their sum"),
        ([1, 1, 1], "sum to 3, not 1"),
    ],
)
def test_weights_that_are_no_probabilities_are_named(weights, message):
    with pytest.raises(InputError, match=message):
        as_weights(weights, 3)


# --- the size m


@pytest.mark.parametrize("m", [0, -1, 2.5, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "make",
    [uniform, lambda m: power(m, 1.0), lambda m: as_weights("1/k", m), lambda m: as_weights([], m)],
    ids=["uniform", "power", "named", "array"],
)
def test_m_is_a_whole_number_from_one(make, m):
    with pytest.raises(InputError, match="must be a whole number from 1 to 10,000,000"):
        make(m)


@pytest.mark.parametrize("m", [np.int64(3), 3.0])
def test_m_may_be_any_whole_number(m):
    assert uniform(m).tolist() == [1 / 3] * 3
    assert power(m, 1.0).shape == (3,)
    assert as_weights([0.2, 0.3, 0.5], m).shape == (3,)


@pytest.mark.parametrize("a", [np.nan, np.inf, -np.inf])
def test_the_exponent_is_a_number(a):
    with pytest.raises(InputError, match="exponent of the size weights must be a finite number"):
        power(3, a)


# --- the default


@pytest.mark.parametrize("m", SIZES)
def test_the_default_covers_every_band_and_follows_its_rule(m):
    w = by_work(m, lambda k: k**0.5)
    np.testing.assert_allclose(w.sum(), 1.0, **EXACT)
    share = np.add.reduceat(w, bands(m)[:-1] - 1)
    assert (share[1:] >= 0.25 / len(share)).all()
    assert share[0] >= 0.125 / len(share)


@pytest.mark.parametrize("work", [1.0, lambda k: k**0.5, lambda k: 10 + k])
def test_within_a_band_the_default_follows_the_rule(work):
    """Three quarters 1 / (k sqrt(work)); the quarter for all bands is flat within each."""
    m, k = 1000, np.arange(1.0, 1001)
    rule = 1 / (k * np.sqrt(per_size(work, m, name="work")))
    w = by_work(m, work)
    slopes = [
        np.diff(w[a - 1 : b - 1]) / np.diff(rule[a - 1 : b - 1])
        for a, b in itertools.pairwise(bands(m)[1:])
    ]
    np.testing.assert_allclose(np.concatenate(slopes), slopes[0][0], rtol=1e-6)
    assert w[0] == pytest.approx(0.5 * (slopes[0][0] * rule[0] + even_share(w, rule, slopes[0][0])))


def even_share(w, rule, slope):
    """What a whole band gets beyond the rule's part: that of sizes 2 and 3."""
    return (w[1:3] - slope * rule[1:3]).sum()


def test_dearer_sizes_are_drawn_less_often():
    cheap, dear = by_work(100), by_work(100, lambda k: 1 + k)
    assert (dear[64:] < cheap[64:]).all()
    np.testing.assert_allclose(by_work(100, 7.0), cheap, **EXACT)
    assert as_weights("auto", 100).tolist() == cheap.tolist()


@pytest.mark.parametrize("work", [0.0, lambda k: k - 1])
def test_work_is_above_zero(work):
    with pytest.raises(InputError, match="work must be above 0 at every size"):
        by_work(5, work)


def test_names_of_the_algorithms():
    assert as_weights("algorithm-1", 9).tolist() == uniform(9).tolist()
    assert as_weights("algorithm-2", 9).tolist() == power(9, 1.0).tolist()
    assert [balanced_by_default(w) for w in ("auto", "1/k", uniform(3))] == [True, False, False]


# --- size weights from what is known


def test_weights_from_stability_by_hand():
    w = from_stability([1.0, 0.5, 0.25], [1.0, 4.0, 1.0])
    np.testing.assert_allclose(w, np.array([4, 1, 1]) / 6)
    np.testing.assert_allclose(from_stability(lambda k: 1 / k, lambda k: k**2, m=2), [0.8, 0.2])
    np.testing.assert_allclose(from_stability([3.0, 1.5], lambda k: 1.0), [2 / 3, 1 / 3])
    np.testing.assert_allclose(from_stability(lambda k: 1 / k, [1.0, 1.0]), [2 / 3, 1 / 3])


def bound(w, beta, cost):
    """Of appendix E: draws as the sum of beta^2 / w, each of the mean cost."""
    return (beta**2 / w).sum() * (w * cost).sum()


@pytest.mark.parametrize("c", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("b", [0.5, 1.0, 1.5])
def test_weights_from_stability_make_the_bound_least(b, c):
    m, k = 40, np.arange(1.0, 41)
    beta, cost = k**-b, k**c
    w = from_stability(beta, cost)
    least = bound(w, beta, cost)
    assert least == pytest.approx((beta * np.sqrt(cost)).sum() ** 2)
    assert least <= bound(power(m, 1.0), beta, cost) * (1 + 1e-12)
    if b + c / 2 != 1:
        assert least < 0.97 * bound(power(m, 1.0), beta, cost)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = w * np.exp(0.1 * rng.normal(size=m))
        assert least < bound(other / other.sum(), beta, cost)


@pytest.mark.parametrize(
    ("beta", "cost", "m", "says"),
    [
        (lambda k: 1 / k, lambda k: k, None, "give m="),
        ([1.0, 0.5], [1.0, 1.0, 1.0], None, r"cost must hold one number for each size 1\.\.2"),
        ([1.0, 0.5], [1.0, 1.0], 3, r"beta must hold one number for each size 1\.\.3"),
        ([1.0, 0.0], [1.0, 1.0], None, "above 0 at every size"),
        ([1.0, 1.0], [1.0, 0.0], None, "above 0 at every size"),
        ([1.0, -1.0], [1.0, 1.0], None, r"beta\(2\) is -1\.0"),
        ([1.0, 1.0], [np.nan, 1.0], None, r"cost\(1\) is nan"),
        (lambda k: np.inf, [1.0], None, r"beta\(1\) is inf"),
        (lambda k: 1.0, lambda k: 1.0, 0, "whole number from 1 to"),
    ],
)
def test_bad_stability(beta, cost, m, says):
    with pytest.raises(InputError, match=says):
        from_stability(beta, cost, m=m)


@pytest.mark.parametrize(
    ("m", "edges"),
    [(1, [1, 2]), (2, [1, 2, 3]), (3, [1, 2, 4]), (4, [1, 2, 4, 5]), (16, [1, 2, 4, 8, 16, 17])],
)
def test_bands(m, edges):
    assert bands(m).tolist() == edges


@pytest.mark.parametrize("m", [1, 5, 64, 1000])
def test_bands_hold_every_size_once_and_double(m):
    edges = bands(m)
    assert edges[0] == 1
    assert edges[-1] == m + 1
    widths = np.diff(edges)
    assert (widths > 0).all()
    assert widths[:-1].tolist() == (2 ** np.arange(len(widths) - 1)).tolist()
    assert widths[-1] <= 2 ** (len(widths) - 1)


def test_a_number_for_each_size():
    assert per_size(lambda k: 2.0 * k, 3, name="x").tolist() == [2, 4, 6]
    assert per_size([1, 2, 0], 3, name="x").tolist() == [1, 2, 0]
    assert per_size(0.5, 3, name="x").tolist() == [0.5] * 3
    for wrong, says in (
        ([1, 2], r"x must hold one number for each size 1\.\.3, not \(2,\)"),
        ([[1, 2, 3]], r"not \(1, 3\)"),
        ([1, np.nan, 3], r"x\(2\) is nan: give a finite number of at least 0"),
        ([1, 2, -3], r"x\(3\) is -3\.0"),
        (lambda k: -np.inf, r"x\(1\) is -inf"),
        (lambda k: "much", r"x must give a number for each size 1\.\.3"),
    ):
        with pytest.raises(InputError, match=says):
            per_size(wrong, 3, name="x")
