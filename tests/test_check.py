"""The errors of a check: what the test rows add, and how seldom an honest seller is accused."""

import numpy as np
import pytest
from benchmarks.check import QUICK, points, sale, verdicts
from sklearn.linear_model import LogisticRegression, Ridge

import dshapley as ds
from conftest import labelled
from dshapley import market
from dshapley.baselines.subsets import sampled_draws
from dshapley.inference.jackknife import Grouped, influence_of_test, parted
from dshapley.reporting.market import check_lines

RIDGE = Ridge()


def numbers(n, seed):
    rows = labelled(n, seed=seed)
    return ds.Points(rows.X, rows.X[:, 0] - rows.X[:, 2] ** 2)


@pytest.mark.parametrize(
    ("model", "metric", "path"),
    [
        (LogisticRegression(), "accuracy", "never"),
        (LogisticRegression(), "accuracy", "always"),
        (LogisticRegression(), "brier", "never"),
        (LogisticRegression(), "roc_auc", "never"),
        (LogisticRegression(), "f1_macro", "never"),
        (RIDGE, "neg_mse", "never"),
        (RIDGE, "r2", "never"),
    ],
)
def test_a_grouped_potential_is_that_of_each_part_of_the_test_set(model, metric, path):
    make = numbers if model is RIDGE else lambda n, seed: labelled(n, seed=seed)
    test, S, Z = make(40, 1), make(15, 2), make(6, 3)
    U = ds.potential(model, test=test, metric=metric, retrain=path)
    grouped = Grouped.of(U, n_groups=5)
    assert grouped.width == 6
    parts = [U] + [
        ds.potential(model, test=test.take(grouped.groups != g), metric=metric, retrain=path)
        for g in range(5)
    ]
    for Y in (S, S.take(slice(2, 4))):
        assert grouped(Y) == pytest.approx(np.array([part(Y) for part in parts]))
        expected = np.stack([part.marginals(Y, Z) for part in parts], axis=1)
        assert grouped.marginals(Y, Z) == pytest.approx(expected)
    assert grouped(S.take([]))[0] == U(S.take([]))


def test_u_of_nothing_is_what_was_asked_for():
    U = ds.potential(LogisticRegression(), test=labelled(40, seed=1), empty=0.3)
    assert Grouped.of(U, n_groups=4)(labelled(0)).tolist() == [0.3] * 5


def test_test_sets_that_cannot_be_parted():
    X = np.arange(20.0)[:, np.newaxis]
    one = (X[:, 0] == 3).astype(int)  # without one group there is a single class
    for metric, there in (("accuracy", True), ("roc_auc", False)):
        U = ds.potential(LogisticRegression(), test=(X, one), metric=metric)
        assert (Grouped.of(U, n_groups=10) is not None) == there
    assert (
        Grouped.of(ds.potential(LogisticRegression(), test=(X[:3], [0, 1, 0])), n_groups=9) is None
    )
    assert Grouped.of(lambda S: 0.0, n_groups=10) is None


@pytest.mark.slow
def test_the_jackknife_is_the_spread_over_test_sets():
    """The same draws on 60 fresh test sets: the values spread as one set's groups foresee."""
    B, S = labelled(20, seed=3), labelled(10, seed=4)
    of, sums, each, foreseen, foreseen_each = np.arange(30) >= 20, [], [], [], []
    for seed in range(60):
        U = ds.potential(LogisticRegression(), test=labelled(60, seed=100 + seed))
        drawn = sampled_draws(Grouped.of(U, n_groups=12), B + S, of=of, draws=60)
        like = ds.data_shapley.sampled(U, S, draws=1).draws
        whole, *without = parted(drawn, like)
        values, influence = ds.estimate(whole).values, influence_of_test(without)
        sums.append(values.sum())
        each.append(values)
        foreseen.append((influence.sum(axis=1) ** 2).sum())
        foreseen_each.append((influence**2).sum(axis=0))
    # A variance of 60 is known to sqrt(2 / 59) of itself.
    error = 4 * np.sqrt(2 / 59)
    assert np.mean(foreseen) == pytest.approx(np.var(sums, ddof=1), rel=error)
    assert np.mean(foreseen_each) == pytest.approx(np.var(each, axis=0, ddof=1).mean(), rel=error)


def test_both_sides_of_the_same_record():
    """With groups the buyer's own values are what they are without, bit for bit."""
    B, S, test = labelled(20, seed=3), labelled(8, seed=4), labelled(80, seed=1)
    U = ds.potential(LogisticRegression(), test=test)
    listed = ds.value(
        labelled(100), model=LogisticRegression(), test=labelled(70, seed=9), points=S, m=28,
        stop=60, sampling="1/k",
    )  # fmt: skip
    prices = market.price_list(listed, rate=1.0)
    for way, plain in (
        ("subsets", lambda: ds.data_shapley.sampled(U, B + S, draws=30)),
        ("permutations", lambda: ds.data_shapley.tmc(U, B + S, permutations=30, patience=10)),
    ):
        found = market.check(prices, B, S, U=U, way=way, draws=30)
        assert np.array_equal(found.frame["own"], plain().values[20:])
        assert (found.same_test, found.test_rows) == (False, (80, 70))
        assert found.evidence.test.influence.shape == (20, 8)
        draws_alone = found.evidence.errors
        assert found.total_errors[1] == pytest.approx(
            np.hypot(draws_alone[1], found.evidence.test.of_sum())
        )
        assert found.total_errors[0] > draws_alone[0]


SALES = 12


@pytest.fixture(scope="module")
def sales():
    """What buyers say of honest and of shuffled lists, by their number of test rows."""
    return verdicts(range(2000, 2000 + SALES), (20, 500), QUICK)


@pytest.mark.slow
def test_an_honest_seller_is_hardly_ever_accused(sales):
    """At a rate of 5 % at most, within three standard errors; it was two of three at 20 rows."""
    n = 2 * SALES
    accused = sum(sales[rows, True, "either", "fails"] for rows in (20, 500))
    assert accused <= 0.05 * n + 3 * np.sqrt(n * 0.05 * 0.95)
    assert sales[20, True, "order", "not shown"] > SALES / 2


@pytest.mark.slow
def test_a_shuffled_list_is_told_by_enough_test_rows(sales):
    """At a rate of 90 % or more, within three standard errors."""
    told = sales[500, False, "order", "fails"]
    assert told >= 0.9 * SALES - 3 * np.sqrt(SALES * 0.9 * 0.1)
    assert sales[500, False, "order", "holds"] == 0
    assert sales[20, False, "order", "fails"] < told


@pytest.mark.slow
def test_it_says_how_many_test_rows_it_takes():
    found = sale(2000, (20,), QUICK)[20, True]
    assert found.order == "not shown"
    needed = found.test_rows_needed["order"]
    assert 40 <= needed <= 20_000
    words = "\n".join(check_lines(found))
    assert "your 20 differ from the seller's 1000" in words
    assert f"at least about {needed} test rows" in words


def test_the_same_test_rows_are_known_whatever_their_encoding():
    rng = np.random.default_rng(0)
    theta = np.array([1.0, -1.0, 0.5])
    database, S, B, test = (points(rng, n, theta, 0.1) for n in (200, 20, 30, 100))
    listed = ds.value(database, model=LogisticRegression(), test=test, points=S, m=50, stop=60)
    prices = market.price_list(listed, rate=1.0)
    scaled = ds.Points(2 * test.X, test.y)
    U = ds.potential(LogisticRegression(), test=scaled)
    found = market.check(prices, B, S, U=U, way="subsets", draws=30)
    assert found.same_test
    assert found.evidence.test is None
    other = ds.potential(LogisticRegression(), test=ds.Points(test.X, 1 - test.y))
    assert not market.check(prices, B, S, U=other, way="subsets", draws=30).same_test


def test_an_error_that_cannot_be_measured_accuses_nobody():
    """Three test rows: too few to leave some out."""
    rng = np.random.default_rng(1)
    theta = np.array([1.0, -1.0, 0.5])
    database, S, B, test = (points(rng, n, theta, 0.1) for n in (200, 20, 30, 100))
    listed = ds.value(database, model=LogisticRegression(), test=test, points=S, m=50, stop=60)
    prices = market.price_list(listed, rate=1.0)
    U = ds.potential(LogisticRegression(), test=test.take(slice(3)))
    found = market.check(prices, B, S, U=U, way="subsets", draws=100)
    assert (found.order, found.worth) == ("not shown", "not shown")
    assert any("cannot be measured" in line for line in check_lines(found))
