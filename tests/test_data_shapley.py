from itertools import permutations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import dshapley as ds
from conftest import labelled
from dshapley import data_shapley


@pytest.fixture
def U(held_out):
    return ds.potential(GaussianNB(), test=held_out)


def by_permutations(U, points):
    """The other definition: the mean marginal over all orders."""
    n = len(points)
    total = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        worth = [U(points.take(order[:i])) for i in range(n + 1)]
        total[list(order)] += np.diff(worth)
    return total / len(orders)


def test_exact_is_the_mean_over_all_orders(U, offered):
    points = offered.take(range(5))
    found = data_shapley.exact(U, points)
    np.testing.assert_allclose(found.values, by_permutations(U, points), atol=1e-12)
    assert (found.stderr == 0).all()
    assert found.m == 5


def test_exact_is_efficient(U, offered):
    values = data_shapley.exact(U, offered).values
    assert values.sum() == pytest.approx(U(offered) - U(offered.take([])), abs=1e-12)


def test_exact_has_a_limit(U):
    with pytest.raises(ds.InputError, match="use tmc"):
        data_shapley.exact(U, labelled(21))


def test_tmc_meets_exact(U, offered):
    exact = data_shapley.exact(U, offered).values
    found = data_shapley.tmc(U, offered, permutations=300, tolerance=0)
    assert (np.abs(found.values - exact) < 4 * found.stderr + 1e-7).all()
    assert found.m == len(offered)
    assert found.n_draws == 300


def test_bundles_come_and_go_as_one(U):
    lots = ds.Bundles(labelled(7, seed=4), ["b", "a", "c", "a", "b", "c", "c"])
    rows, total = lots.points, np.zeros(3)
    for order in permutations(range(3)):
        places = [np.concatenate([[], *(lots.members()[z] for z in order[:n])]) for n in range(4)]
        worth = [U(rows.take(np.sort(here).astype(int))) for here in places]
        total[list(order)] += np.diff(worth)
    exact = data_shapley.exact(U, lots)
    np.testing.assert_allclose(exact.values, total / 6, atol=1e-12)
    assert (exact.ids.tolist(), exact.rows.tolist(), exact.m) == (["a", "b", "c"], [2, 2, 3], 7)
    found = data_shapley.tmc(U, lots, permutations=200, tolerance=0)
    assert (np.abs(found.values - exact.values) < 4 * found.stderr + 1e-7).all()
    assert (found.ids.tolist(), found.rows.tolist(), found.m) == (["a", "b", "c"], [2, 2, 3], 7)
    without_b = U(rows.take([1, 2, 3, 5, 6]))
    assert data_shapley.leave_one_out(U, lots).values[1] == U(rows) - without_b


def test_tmc_standard_errors_are_honest(U):
    points = labelled(5, seed=4)
    exact = data_shapley.exact(U, points).values
    known = {}

    def remembered(S):  # so that 40 runs cost 32 fits
        key = tuple(sorted(S.ids))
        if key not in known:
            known[key] = U(points.take(list(key)))
        return known[key]

    runs = [
        data_shapley.tmc(remembered, points, permutations=100, tolerance=0, seed=s)
        for s in range(40)
    ]
    z = np.array([(run.values - exact) / run.stderr for run in runs])
    assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(40)
    assert np.abs(z.std(axis=0, ddof=1) - 1).max() < 4 / np.sqrt(2 * 39)


def test_tmc_is_the_same_bit_for_bit_with_any_workers(held_out, offered):
    U = ds.potential(RandomForestClassifier(4), test=held_out)
    one, two = (data_shapley.tmc(U, offered, permutations=12, n_jobs=n, seed=1) for n in (1, 2))
    assert one.values.tobytes() == two.values.tobytes()
    assert one.stderr.tobytes() == two.stderr.tobytes()


def test_truncation_saves_evaluations_and_stays_close(U):
    points = labelled(30, seed=6)
    calls = []

    def counted(S):
        calls.append(len(S))
        return U(S)

    full = data_shapley.tmc(counted, points, permutations=10, tolerance=0)
    n_full = len(calls)
    calls.clear()
    cut = data_shapley.tmc(counted, points, permutations=10, tolerance=0.05)
    assert n_full == 1 + 10 * 31
    assert len(calls) < 0.8 * n_full
    # What is cut off a permutation sums to less than the tolerance.
    assert abs(full.values.sum() - cut.values.sum()) < 0.05


def test_tmc_resumes(tmp_path, U, offered):
    straight = data_shapley.tmc(U, offered, permutations=20)
    data_shapley.tmc(U, offered, permutations=7, store=tmp_path / "run")
    again = data_shapley.tmc(U, offered, permutations=20, store=tmp_path / "run")
    assert again.values.tobytes() == straight.values.tobytes()
    with pytest.raises(ds.RunFolderError, match=r"tolerance was 0\.01, is 0\.5"):
        data_shapley.tmc(U, offered, permutations=20, tolerance=0.5, store=tmp_path / "run")


def test_tmc_and_a_run_share_no_folder(tmp_path, U, database, offered):
    ds.run(U, ds.Design(database, m=3), offered, until=3, store=tmp_path / "run")
    with pytest.raises(ds.RunFolderError, match="method was distributional Shapley"):
        data_shapley.tmc(U, offered, permutations=3, store=tmp_path / "run")


def test_tmc_stops_by_any_rule(U, offered):
    rule = ds.stopping.Precision(0.1, at_least=20)
    found = data_shapley.tmc(U, offered, permutations=rule)
    low, high = found.interval(0.95, anytime=True)
    assert ((high - low) / 2).max() <= 0.1
    assert found.n_draws > 20


def test_leave_one_out(U, offered):
    found = data_shapley.leave_one_out(U, offered).values
    rest = [U(offered.take([i for i in range(6) if i != z])) for z in range(6)]
    np.testing.assert_allclose(found, U(offered) - np.array(rest), atol=1e-12)


def test_random_order(offered):
    a, b, c = (data_shapley.random_order(offered, seed=s).values for s in (0, 0, 1))
    assert a.tolist() == b.tolist() != c.tolist()
    assert sorted(a) == list(range(6))


@pytest.mark.parametrize("wrong", [{"tolerance": -0.1}, {"permutations": 0}])
def test_bad_input(U, offered, wrong):
    with pytest.raises(ds.InputError):
        data_shapley.tmc(U, offered, **wrong)


def test_no_points(U, offered):
    with pytest.raises(ds.InputError, match="no points"):
        data_shapley.tmc(U, offered.take([]))
