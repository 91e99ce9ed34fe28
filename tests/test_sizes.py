"""Size weights: positive probabilities over the sizes 1..m."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshapley import InputError
from dshapley.sizes import as_weights, power, uniform

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
    with pytest.raises(InputError, match=r"unknown weights .*: use uniform, 1/k, or k\^-a"):
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
        ([0.6, -0.1, 0.5], r"size k = 2 is -0\.1: weights are probabilities"),
        ([0.5, 0.5, np.nan], "size k = 3 is nan: weights are probabilities"),
        ([np.inf, 0.5, 0.5], "size k = 1 is inf: weights are probabilities"),
        ([0.5, -np.inf, 0.5], "size k = 2 is -inf: weights are probabilities"),
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
    with pytest.raises(InputError, match="exponent of the size weights must be a number"):
        power(3, a)
