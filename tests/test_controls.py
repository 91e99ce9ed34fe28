"""Label controls have mean 0 and variance 1 over sets: by complete enumeration and by sampling."""

import itertools

import numpy as np
import pytest

import dshapley as ds
from dshapley.sampling.controls import LabelControls

LABELS = {
    "two classes": np.array(["a", "a", "a", "b"]),
    "three classes": np.array([0, 0, 0, 1, 2]),
    "numbers": np.array([0.1, 0.4, 0.4, 2.5]),
    "two numbers": np.array([0.5, 0.5, 1.5, 1.5]),
}


def of(y):
    return LabelControls.of(ds.Points(np.zeros((len(y), 1)), y))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("labels", LABELS)
def test_mean_0_and_variance_1_over_all_sets(labels, n):
    y = LABELS[labels]
    controls = of(y)
    sets = np.array(
        [controls(y[list(rows)]) for rows in itertools.product(range(len(y)), repeat=n)]
    )
    np.testing.assert_allclose(sets.mean(axis=0), 0, atol=1e-12)
    # One that is the same for every set, or hardly ever another, is left at 0.
    left = (sets == 0).all(axis=0)
    assert left.sum() < len(controls)
    np.testing.assert_allclose(sets[:, ~left].var(axis=0), 1)


def test_what_is_rare_is_left_alone():
    y = np.repeat([0, 1], [900, 100])
    controls = of(y)
    assert controls(np.zeros(5, int))[2] > 0  # no 1 among 5: the common case, but not sure
    assert controls(np.zeros(200, int))[2] == 0  # among 200 that never happens
    assert controls(np.zeros(200, int))[0] != 0


def test_the_empty_set_and_no_labels():
    assert of(LABELS["three classes"])(np.empty(0, int)).tolist() == [0.0] * 6
    unlabelled = LabelControls.of(ds.Points(np.zeros((3, 1))))
    assert unlabelled(None).shape == (0,)
    assert len(of(np.array([1, 1, 1]))) == 0


def test_many_whole_numbers_are_numbers():
    assert of(np.arange(100)).moments is not None
    assert of(np.arange(10)).moments is None
