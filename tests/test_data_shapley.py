from itertools import permutations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import dshapley as ds
from conftest import labelled
from dshapley.baselines import data_shapley, subsets


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


@pytest.mark.parametrize("weights", [None, "1/k", "uniform"])
def test_subsets_meet_exact(U, offered, weights):
    exact = data_shapley.exact(U, offered).values
    found = data_shapley.sampled(U, offered, draws=600, weights=weights)
    assert (np.abs(found.values - exact) < 4 * found.stderr + 1e-7).all()
    assert (found.m, found.n_draws) == (len(offered), 600)
    assert found.ids.tolist() == offered.ids.tolist()


@pytest.mark.slow
def test_subsets_are_unbiased_and_their_errors_honest(U):
    """Against complete enumeration, over 40 seeds: the mean, and the spread that errors say."""
    points = labelled(10, seed=4)
    exact = data_shapley.exact(U, points).values
    runs = [data_shapley.sampled(U, points, draws=120, seed=s) for s in range(40)]
    values, errors = (np.array([getattr(r, name) for r in runs]) for name in ("values", "stderr"))
    spread = values.std(axis=0, ddof=1)
    assert np.abs((values.mean(axis=0) - exact) / spread).max() < 4 / np.sqrt(40)
    told = np.sqrt((errors**2).mean(axis=0))
    assert np.abs(told / spread - 1).max() < 4 / np.sqrt(2 * 39)


def test_subsets_of_some_points_resume(tmp_path, U, offered):
    some = np.arange(len(offered)) % 2 == 0
    of = subsets.sampled_draws(U, offered, of=some, draws=9)
    every = subsets.sampled_draws(U, offered, draws=9)
    assert of.marginals.tobytes() == every.marginals[:, some].tobytes()
    store = {"store": tmp_path / "run"}
    data_shapley.sampled(U, offered, draws=4, **store)
    again = data_shapley.sampled(U, offered, draws=9, n_jobs=2, **store)
    assert again.values.tobytes() == ds.estimate(every).values.tobytes()
    with pytest.raises(ds.InputError, match="give a mask of 6"):
        subsets.sampled_draws(U, offered, of=some[:2])


def test_patience_waits_for_a_noisy_score():
    """It comes near that of all points by chance, and goes away again."""
    scores = [0.0, 1.0, 0.2, 0.6, 1.0, 1.0, 1.0]
    points = labelled(6)

    def U(S):
        return scores[len(S)]

    for patience, gains in ((1, [1.0]), (2, [1.0, -0.8, 0.4, 0.4, 0.0])):
        found = data_shapley.tmc(U, points, permutations=1, patience=patience).values
        order = found[found != 0]
        assert sorted(order) == pytest.approx(sorted(gain for gain in gains if gain))
    with pytest.raises(ds.InputError, match="patience = 0"):
        data_shapley.tmc(U, points, patience=0)


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
    for found in (
        data_shapley.tmc(U, lots, permutations=200, tolerance=0),
        data_shapley.sampled(U, lots, draws=400),
    ):
        assert (np.abs(found.values - exact.values) < 4 * found.stderr + 1e-7).all()
        assert (found.ids.tolist(), found.rows.tolist()) == (["a", "b", "c"], [2, 2, 3])
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


@pytest.mark.slow
def test_tmc_is_the_same_bit_for_bit_with_any_workers(held_out, offered):
    U = ds.potential(RandomForestClassifier(4), test=held_out)
    one, two = (data_shapley.tmc(U, offered, permutations=12, n_jobs=n, seed=1) for n in (1, 2))
    assert one.values.tobytes() == two.values.tobytes()
    assert one.stderr.tobytes() == two.stderr.tobytes()


def test_truncation_saves_evaluations_and_stays_close(U):
    points = labelled(30, seed=8)
    calls = []

    def counted(S):
        calls.append(len(S))
        return U(S)

    full = data_shapley.tmc(counted, points, permutations=10, tolerance=0)
    n_full = len(calls)
    calls.clear()
    cut = data_shapley.tmc(counted, points, permutations=10, tolerance=0.05)
    assert n_full == 1 + 10 * 31
    assert len(calls) == 124  # 12 of 31 in each permutation: cut in the middle, not at once
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
    ds.run(U, ds.Design(database, m=3), offered, stop=3, store=tmp_path / "run")
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
