"""KNeighborsClassifier and KNeighborsRegressor without retraining: equal to refitting."""

import threading

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import dshapley as ds
from dshapley.errors import DShapleyWarning
from dshapley.learners.cache import Kept
from dshapley.learners.neighbours import nearest
from dshapley.potentials.testing import check_learner


@pytest.fixture(autouse=True)
def one_thread():
    with threadpoolctl.threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    monkeypatch.setattr(nearest, "kept", Kept(1 << 26))


@pytest.fixture
def tables(monkeypatch):
    """Lists are made at once, also for small data; returns what is kept."""
    monkeypatch.setattr(nearest, "_STEP", 0)
    monkeypatch.setattr(nearest, "_worth_a_table", lambda spent, database: True)
    return nearest.kept._tables


def data(kind, n, *, d=40, seed=0, labels=("ash", "birch", "elm", "fir")):
    """n points of d features: numbers, or as many classes as `kind` says."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, :5].sum(axis=1) + rng.normal(size=n)
    if kind == "numbers":
        return ds.Points(X, score)
    cuts = np.quantile(score, np.linspace(0, 1, kind + 1)[1:-1])
    return ds.Points(X, np.array(labels)[np.digitize(score, cuts)])


def gap(estimator, metric, S, Z, test):
    """The largest difference between the fast path and refitting, in U(S) and all U(S + z)."""
    fast, refit = (
        ds.potential(estimator, test=test, metric=metric, retrain=path)
        for path in ("never", "always")
    )
    worth = abs(fast(S) - refit(S))
    return max(worth, np.abs(fast.marginals(S, Z) - refit.marginals(S, Z)).max())


# --- the contract


@pytest.mark.parametrize(
    ("estimator", "metrics"),
    [
        (KNeighborsClassifier(), ["accuracy"]),
        (KNeighborsClassifier(1), ["brier"]),
        (KNeighborsClassifier(50, algorithm="ball_tree"), ["roc_auc"]),
        (KNeighborsClassifier(4, weights="distance", p=1), ["accuracy"]),
        (KNeighborsRegressor(), ["r2"]),
        (KNeighborsRegressor(1, metric="cosine"), ["r2"]),
        (KNeighborsRegressor(3, metric="chebyshev", leaf_size=2), ["neg_mse"]),
        (KNeighborsRegressor(3, metric="canberra", weights="distance"), ["r2"]),
        (KNeighborsRegressor(4, metric="correlation"), ["neg_mse"]),
        (KNeighborsRegressor(2, metric="sqeuclidean", weights="distance"), ["neg_mse"]),
    ],
    ids=repr,
)
def test_equal_to_refitting(estimator, metrics):
    check_learner(estimator, metrics=metrics)


@pytest.mark.parametrize("kind", [KNeighborsClassifier, KNeighborsRegressor])
def test_weights_by_distance_equal_refitting_with_a_tree(kind):
    # Without a tree scikit-learn has |x|^2 - 2x'y + |y|^2 for a distance, to fewer digits.
    metrics = ["log_score"] if kind is KNeighborsClassifier else ["r2"]
    reference = kind(weights="distance", algorithm="kd_tree")
    check_learner(kind(weights="distance"), metrics=metrics, reference=reference)


@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("minkowski", {"w": [1.0, 2.0, 0.5]}),
        ("minkowski", {"p": 1.5}),
        ("minkowski", {"p": 3}),
        ("braycurtis", None),
        ("seuclidean", {"V": [1.0, 4.0, 0.2]}),
        ("mahalanobis", {"VI": np.diag([1.0, 4.0, 0.2])}),
        ("l1", None),
        ("cityblock", None),
        ("l2", None),
    ],
)
@pytest.mark.filterwarnings("ignore:Parameter p")
def test_metrics_with_parameters(metric, params):
    estimator = KNeighborsRegressor(4, metric=metric, metric_params=params)
    B, Z, test = (data("numbers", n, d=3, seed=n) for n in (70, 10, 50))
    assert gap(estimator, "r2", B, Z, test) < 1e-9


def test_angles_on_a_sphere():
    B, Z, test = (data("numbers", n, d=2, seed=n) for n in (70, 10, 50))
    assert gap(KNeighborsRegressor(metric="haversine"), "r2", B, Z, test) < 1e-9


# --- larger data, with tables and without


@pytest.mark.parametrize("k", [1, 2, 5, 30, 150, 400])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("kind", ["numbers", 2, 4])
def test_larger_sets(kind, weights, k, tables):
    B, Z, test = data(kind, 500), data(kind, 5, seed=1), data(kind, 100, seed=2)
    S = B.sample(k - 1, np.random.default_rng(k))
    model = KNeighborsRegressor if kind == "numbers" else KNeighborsClassifier
    metrics = ["r2"] if kind == "numbers" else ["accuracy", "roc_auc"]
    for metric in metrics:
        assert gap(model(weights=weights), metric, S, Z, test) < 1e-9
    assert any(name[0] == "lists" for name in tables) == (k > 1)


@given(
    seed=st.integers(0, 1000),
    k=st.integers(0, 25),
    K=st.integers(1, 7),
    longest=st.integers(1, 12),
    weights=st.sampled_from(["uniform", "distance"]),
)
@settings(max_examples=40, deadline=None)
def test_lists_and_distances_computed_anew_are_the_same_bits(seed, k, K, longest, weights):
    # Few different numbers: nearly all distances tie, many are 0, and lists end among equals.
    rng = np.random.default_rng(seed)
    B, Z, test = (
        ds.Points(rng.integers(3, size=(n, 2)).astype(float), rng.normal(size=n))
        for n in (12, 6, 9)
    )
    S = B.sample(k, rng)
    U = ds.potential(KNeighborsRegressor(K, weights=weights), test=test, metric="r2")
    found = []
    for step, length in ((np.inf, 1), (0, longest)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nearest, "kept", Kept(1 << 26))
            patch.setattr(nearest, "_STEP", step)
            patch.setattr(nearest, "_LONGEST", length)
            patch.setattr(nearest, "_worth_a_table", lambda spent, database: True)
            found.append(U.marginals(S, Z))
    np.testing.assert_array_equal(*found)


def test_where_distances_tie_earlier_rows_come_first_and_z_last():
    S = ds.Points([[1.0], [-1.0], [1.0], [3.0]], [10.0, 20.0, 30.0, 40.0])
    test = ds.Points([[0.0], [0.0]], [0.0, 1.0])

    def said(S, K):
        U = ds.potential(KNeighborsRegressor(K), test=test, metric=lambda y, f: f[0])
        return U(S), U(S) + U.marginals(S, ds.Points([[1.0], [0.5]], [0.0, 50.0]))

    assert said(S, 1)[0] == 10.0
    assert said(S, 2)[0] == 15.0
    assert said(S.take([2, 1, 0, 3]), 2)[0] == 25.0
    np.testing.assert_array_equal(said(S, 2)[1], [15.0, 30.0])
    np.testing.assert_array_equal(said(S.take([2, 1, 0, 3]), 2)[1], [25.0, 40.0])


def test_a_class_that_S_lacks():
    B, Z, test = data(4, 300), data(4, 20, seed=1), data(4, 100, seed=2)
    S = B.take(B.y != "elm").take(range(80))
    for metric in ("accuracy", "log_score"):
        assert gap(KNeighborsClassifier(), metric, S, Z, test) < 1e-9


def test_more_classes_than_a_byte_counts():
    names = [f"class {i:03d}" for i in range(200)]
    B, Z, test = (data(200, n, d=3, seed=n, labels=names) for n in (600, 20, 300))
    assert gap(KNeighborsClassifier(1), "accuracy", B, Z, test) < 1e-9


def test_bundles():
    B, Z, test = data(2, 40, d=5), data(2, 6, d=5, seed=1), data(2, 50, d=5, seed=2)
    assert gap(KNeighborsClassifier(), None, B, ds.Bundles(Z, [0, 0, 0, 1, 1, 2]), test) < 1e-9


# --- tables


def test_lists_are_made_once_draws_have_paid_for_them():
    B, Z, test = data(2, 400), data(2, 5, seed=1), data(2, 20, seed=2)
    U = ds.potential(KNeighborsClassifier(), test=test)
    rng = np.random.default_rng(0)
    made = []
    for _ in range(4):
        U.marginals(B.sample(150, rng), Z)
        made.append(any(name[0] == "lists" for name in nearest.kept._tables))
    assert made == [False, False, True, True]


def test_distances_from_Z_are_kept_for_parts_of_it_too(monkeypatch):
    B, Z, test = data(2, 100), data(2, 9, seed=1), data(2, 20, seed=2)
    computed = []
    between = nearest.Distance.between
    monkeypatch.setattr(
        nearest.Distance, "between", lambda *a: computed.append(len(a[1])) or between(*a)
    )
    U = ds.potential(KNeighborsClassifier(), test=test)
    for some, rows in [(Z, [9]), (Z.take([3, 3, 1]), []), (Z.take([8, 0]), [])]:
        computed.clear()
        U.marginals(B, some)
        assert [n for n in computed if n < 20] == rows
    part = B.take([5, 7])
    assert gap(KNeighborsClassifier(), None, B, part, test) == 0.0
    computed.clear()
    U.marginals(B, B.take([7, 9, 9, 5]))
    assert [n for n in computed if n < 20] == [1]


def test_too_many_rows_are_not_kept(monkeypatch):
    B, Z, test = data(2, 60), data(2, 9, seed=1), data(2, 20, seed=2)
    U = ds.potential(KNeighborsClassifier(), test=test)
    whole = U.marginals(B, Z)
    for most, kept_rows in ((8 * 20 * 8, 0), (8 * 20 * 9, 9)):
        monkeypatch.setattr(nearest, "kept", Kept(1 << 26))
        monkeypatch.setattr(nearest, "_ROWS", most)
        monkeypatch.setattr(nearest, "_BLOCK", 500)
        np.testing.assert_array_equal(U.marginals(B, Z), whole)
        np.testing.assert_array_equal(U.marginals(B, B.take([1, 2])), U.marginals(B, B)[[1, 2]])
        rows = [len(t[1]) for name, t in nearest.kept._tables.items() if name[0] == "rows"]
        assert max(rows) == max(kept_rows, 2)


def test_the_tables_used_last_are_kept():
    kept = Kept(1000)
    for name in "abca":
        kept.get(name, lambda: (np.zeros(50),))
    assert list(kept._tables) == ["c", "a"]
    assert kept.get("huge", lambda: (np.zeros(500),))[0].nbytes == 4000
    assert list(kept._tables) == ["huge"]


def test_threads_share_tables():
    made = []
    kept = Kept(1000)

    def make():
        made.append(1)
        return (np.zeros(3),)

    threads = [threading.Thread(target=kept.get, args=("name", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_workers_find_the_same_bits(weights):
    B, test = data("numbers", 80, d=6), data("numbers", 60, d=6, seed=2)
    U = ds.potential(KNeighborsRegressor(weights=weights), test=test, metric="r2", retrain="never")
    design = ds.Design(B.take(range(5, 75)), m=60, seed=3)
    one, two = (ds.run(U, design, B.take(range(9)), stop=12, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.marginals, two.marginals)


# --- what is refitted


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"weights": lambda distances: distances}, "weights is a function"),
        ({"metric": lambda a, b: abs(a - b).sum()}, "not one of the supported distances"),
        ({"metric": "precomputed"}, "not one of the supported distances"),
        ({"metric": "jaccard"}, "not one of the supported distances"),
        ({"metric": "nan_euclidean"}, "not one of the supported distances"),
        ({"metric": "mahalanobis"}, "depends on the rows of S"),
        ({"n_neighbors": None}, "n_neighbors"),
    ],
)
@pytest.mark.parametrize("kind", [KNeighborsClassifier, KNeighborsRegressor])
def test_other_parameters_are_refitted(kind, parameters, reason):
    test = data(2 if kind is KNeighborsClassifier else "numbers", 20)
    with pytest.warns(DShapleyWarning, match=reason):
        U = ds.potential(kind(**parameters), test=test)
    assert U.describe()["path"] == "refit"
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(kind(**parameters), test=test, retrain="never")
