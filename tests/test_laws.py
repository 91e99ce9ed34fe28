"""The laws of the value (appendix B) and the identities that the paper proves."""

from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dshapley as ds
from conftest import labelled
from dshapley.baselines import data_shapley

TINY = ds.Points([[0.0], [1.0], [3.0]], [0, 1, 0])
TEST = ds.Points([[0.2], [0.9], [1.4], [2.8], [0.6]], [0, 1, 1, 0, 1])


def tree():
    """A decision tree on TINY, each training set fitted once; one feature leaves it no chance."""
    U, known = ds.potential(DecisionTreeClassifier(), test=TEST), {}

    def remembered(S):
        key = (*S.X[:, 0], *S.y)
        if key not in known:
            known[key] = U(S)
        return known[key]

    return remembered


def exact_value(U, database, z, m):
    """Theorem 2.3 by complete enumeration: the mean over k of the mean over all S of size k - 1."""
    means = []
    for k in range(1, m + 1):
        sets = product(range(len(database)), repeat=k - 1)
        means.append(np.mean([ds.marginals(U, database.take(S), z)[0] for S in map(list, sets)]))
    return float(np.mean(means))


def values(U, database, Z, *, m, draws, weights="uniform", seed=0):
    return ds.estimate(ds.run(U, ds.Design(database, m, weights=weights, seed=seed), Z, stop=draws))


def within(valuation, truth, n_errors=4.0):
    return np.abs(valuation.values - truth) <= n_errors * valuation.stderr + 1e-7


@pytest.mark.parametrize("z", [0, 1, 2])
def test_value_is_the_mean_data_shapley_value(z):
    """Definition 2.2 and Theorem 2.3 agree, both enumerated completely."""
    U, m, one = tree(), 4, TINY.take([z])
    data_sets = list(product(range(3), repeat=m - 1))
    shapley = [data_shapley.exact(U, TINY.take(list(rest)) + one).values[-1] for rest in data_sets]
    assert np.mean(shapley) == pytest.approx(exact_value(U, TINY, one, m), abs=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "1/k", "k^-2", [0.1, 0.2, 0.3, 0.4]])
def test_estimates_meet_the_enumerated_value(weights):
    """Algorithms 1 and 2 are unbiased, whatever the size weights."""
    U = tree()
    truth = [exact_value(U, TINY, z, 4) for z in TINY]
    assert within(values(U, TINY, TINY, m=4, draws=4000, weights=weights), truth).all()


def test_weights_that_are_forgotten_would_be_seen():
    """The estimator without 1/(w_k m) is off by many standard errors: the test above can fail."""
    U = tree()
    draws = ds.run(U, ds.Design(TINY, 4, weights="k^-2"), TINY, stop=4000)
    truth = np.array([exact_value(U, TINY, z, 4) for z in TINY])
    naive = draws.marginals.mean(axis=0)
    stderr = draws.marginals.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(naive - truth) > 6 * stderr).any()


def test_smaller_m_from_the_same_draws_meets_the_enumerated_value():
    U = tree()
    run = values(U, TINY, TINY, m=5, draws=6000, weights="1/k")
    for m in (1, 2, 3):
        truth = [exact_value(U, TINY, z, m) for z in TINY]
        assert within(run.at(m=m), truth).all(), m


def test_smaller_m_agrees_with_a_run_of_its_own(database, held_out, offered):
    U = ds.potential(GaussianNB(), test=held_out)
    cut = values(U, database, offered, m=30, draws=450, seed=1).at(m=10)
    own = values(U, database, offered, m=10, draws=150, seed=2)
    z = (cut.values - own.values) / np.hypot(cut.stderr, own.stderr)
    assert cut.m == own.m == 10
    assert np.abs(z).max() < 4


def test_symmetry():
    """Points that are alike have the same value, draw by draw."""
    U = ds.potential(GaussianNB(), test=labelled(40, seed=1))
    twins = labelled(1, seed=3) + labelled(1, seed=3)
    a, b = values(U, labelled(30), twins, m=10, draws=50).values
    assert a == b


def test_null_point():
    """A point that never changes U is worth nothing."""
    rng = np.random.default_rng(0)
    database = ds.Points(rng.normal(size=(20, 1)), [0, 1] * 10)
    mark = ds.Points([[99.0], [0.5]], [0, 0])

    def U(S):
        return float(np.sum(np.tanh(S.X[S.X[:, 0] != 99.0])))

    null, other = values(U, database, mark, m=8, draws=40).values
    assert null == 0.0
    assert other != 0.0


def test_additivity(database, held_out, offered):
    """The value under U1 + U2 is the sum of the values, draw by draw."""
    U1 = ds.potential(GaussianNB(), test=held_out)
    U2 = ds.potential(LogisticRegression(), test=held_out, metric="brier")
    parts = [values(U, database, offered, m=12, draws=30).values for U in (U1, U2)]
    both = values(lambda S: U1(S) + U2(S), database, offered, m=12, draws=30).values
    np.testing.assert_allclose(both, parts[0] + parts[1], atol=1e-6)


def test_expected_efficiency_exactly():
    """E_z value(z) = (E U(B) - U(empty)) / m, enumerated over all z and all B of m points."""
    U, m = tree(), 3
    mean = np.mean([exact_value(U, TINY, z, m) for z in TINY])
    whole = np.mean([U(TINY.take(list(B))) for B in product(range(3), repeat=m)])
    assert mean == pytest.approx((whole - U(TINY.take([]))) / m, abs=1e-12)


def test_expected_efficiency_of_a_run(held_out):
    """The mean over the database itself meets it within the error of the mean."""
    database = labelled(20)
    U, m = ds.potential(GaussianNB(), test=held_out), 10
    draws = ds.run(U, ds.Design(database, m), database, stop=200)
    each = draws.marginals.mean(axis=1)
    rng = np.random.default_rng(5)
    wholes = np.array([U(database.sample(m, rng)) for _ in range(500)])
    target = (wholes.mean() - U(database.take([]))) / m
    error = np.hypot(each.std() / np.sqrt(len(each)), wholes.std() / m / np.sqrt(len(wholes)))
    assert abs(each.mean() - target) < 4 * error


class TestMeanEstimation:
    """Proposition 2.4, with the sign that the paper's constant has lost."""

    database = ds.Points(np.random.default_rng(0).gamma(2.0, size=(200, 3)))
    Z = database.take(range(8))
    m = 20

    def test_closed_form_by_enumeration(self):
        B = ds.Points(np.array([[0.0], [1.0], [5.0]]))
        U = ds.MeanPotential(B)
        truth = [exact_value(U, B, z, 5) for z in B]
        np.testing.assert_allclose(U.value(B, m=5), truth, atol=1e-12)

    def test_constant(self):
        """Values fall by C(m) |z - mu|^2 / m, C(m) = 2 - 1/m - c(m); the paper prints a plus."""
        U = ds.MeanPotential(self.database)
        apart = np.array([0.5, -2.0, 1.0])
        for m in (1, 2, 7, 40):
            k = np.arange(2, m + 1)
            c = (1.0 / (k**2 * (k - 1))).sum()
            at_mean, beyond = U.value(ds.Points([U.mu, U.mu + apart]), m=m)
            assert (at_mean - beyond) * m / (apart @ apart) == pytest.approx(2 - 1 / m - c)

    @pytest.mark.parametrize("weights", ["uniform", "1/k"])
    def test_runs_meet_it(self, weights):
        U = ds.MeanPotential(self.database)
        run = values(U, self.database, self.Z, m=self.m, draws=3000, weights=weights)
        for m in (self.m, 5):
            assert within(run.at(m=m), U.value(self.Z, m=m)).all()

    @pytest.mark.slow
    @pytest.mark.parametrize("weights", ["uniform", "1/k"])
    def test_standard_errors_are_honest(self, weights):
        """Over 50 seeds the z-scores of each point have mean 0 and spread 1."""
        U = ds.MeanPotential(self.database)
        truth = U.value(self.Z, m=self.m)
        z = np.array(
            [
                (run.values - truth) / run.stderr
                for seed in range(50)
                for run in [
                    values(
                        U, self.database, self.Z, m=self.m, draws=400, weights=weights, seed=seed
                    )
                ]
            ]
        )
        assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(50)
        # The spread of 50 normal scores has a standard error of 1/sqrt(2 * 49) = 0.10.
        spread = z.std(axis=0, ddof=1)
        assert np.abs(spread - 1).max() < 4 * 0.10
        assert abs(spread.mean() - 1) < 0.2
