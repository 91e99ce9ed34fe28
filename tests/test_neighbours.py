from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

import dshapley as ds
from conftest import labelled


def soft_knn(test, K):
    """The potential, written as it is defined; of tied points the earlier one in S counts first."""

    def U(S):
        right = 0
        for x, y in zip(test.X, test.y, strict=True):
            order = np.argsort(((S.X - x) ** 2).sum(axis=1), kind="stable")[:K]
            right += (S.y[order] == y).sum() / K
        return right / len(test)

    return U


def enumerated(U, database, z, m):
    """The mean over k of the mean over all S, in the order drawn, of U(S + z) - U(S)."""
    means = []
    for k in range(1, m + 1):
        sets = [database.take(S) for S in product(range(len(database)), repeat=k - 1)]
        means.append(np.mean([U(S + z) - U(S) for S in sets]))
    return float(np.mean(means))


@pytest.mark.parametrize("K", [1, 2, 3, 5])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_equal_to_enumeration(K, m):
    database, test, Z = (
        labelled(4),
        labelled(3, seed=1),
        labelled(2, seed=2) + labelled(4).take([1]),
    )
    truth = [enumerated(soft_knn(test, K), database, z, m) for z in Z]
    found = ds.knn_values(database, test=test, points=Z, n_neighbors=K, m=m)
    np.testing.assert_allclose(found.values, truth, atol=1e-12)
    assert (found.stderr == 0).all()
    assert found.m == m


def test_ties_go_as_stated():
    """Two database points and two valued ones at one place, of either label."""
    database = ds.Points([[1.0], [1.0], [3.0]], [0, 1, 1])
    Z = ds.Points([[1.0], [1.0], [-1.0]], [0, 1, 1])
    test = ds.Points([[0.0], [1.0]], [1, 0])
    for K in (1, 2):
        truth = [enumerated(soft_knn(test, K), database, z, 3) for z in Z]
        found = ds.knn_values(database, test=test, points=Z, n_neighbors=K, m=3)
        np.testing.assert_allclose(found.values, truth, atol=1e-12)


def test_met_by_sampling(database, held_out, offered):
    U, m = soft_knn(held_out, 5), 25
    run = ds.estimate(ds.run(U, ds.Design(database, m, weights="1/k"), offered, stop=150))
    exact = ds.knn_values(database, test=held_out, points=offered, n_neighbors=5, m=m)
    assert (np.abs(run.values - exact.values) < 4 * run.stderr).all()


def test_several_m_at_once(database, held_out, offered):
    several = ds.knn_values(database, test=held_out, points=offered, m=[3, 10, 50])
    for valuation, m in zip(several, [3, 10, 50], strict=True):
        alone = ds.knn_values(database, test=held_out, points=offered, m=m)
        assert valuation.m == m
        np.testing.assert_allclose(valuation.values, alone.values, atol=1e-15)


def test_expected_efficiency(database, held_out):
    """The mean over the database is (E U(B) - 0) / m; for m = 1, E U is the mean of U(z)."""
    found = ds.knn_values(database, test=held_out, n_neighbors=3, m=1)
    U = soft_knn(held_out, 3)
    assert found.values.mean() == pytest.approx(np.mean([U(z) for z in database]))


def test_database_points_by_default_and_any_workers():
    database, test = labelled(50), labelled(100, seed=1)  # more than one block of tests
    one = ds.knn_values(database, test=test, m=20, n_jobs=1)
    two = ds.knn_values(database, test=test, m=20, n_jobs=2)
    given = ds.knn_values(database, test=test, points=labelled(50), m=20)
    assert one.values.tobytes() == two.values.tobytes()
    assert given.values.tobytes() == one.values.tobytes()


# --- ties


def in_fractions(database, test, z, K, m):
    """The value of z, enumerated in exact arithmetic: lists of whole numbers throughout."""
    (x, label), total = z, Fraction(0)
    for k in range(1, m + 1):
        for S in product(range(len(database)), repeat=k - 1):
            for t, y in test:
                rows = [*(database[i] for i in S), (x, label)]  # as drawn, and z last
                gaps = [sum((p - q) ** 2 for p, q in zip(row, t, strict=True)) for row, _ in rows]
                right = [u == y for _, u in rows]
                before = sorted(range(len(S)), key=lambda i: (gaps[i], i))[:K]
                after = sorted(range(len(rows)), key=lambda i: (gaps[i], i))[:K]
                gain = sum(right[i] for i in after) - sum(right[i] for i in before)
                total += Fraction(gain, K * len(test) * m * len(database) ** (k - 1))
    return total


@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_many_ties_as_in_exact_arithmetic(K, seed):
    """Points of a 3 x 3 grid: copies with other labels, and other points at the same distance."""
    rng = np.random.default_rng(seed)
    X, T, Z = (rng.integers(0, 3, size=(n, 2)) for n in (5, 3, 4))
    y, u, v = (rng.integers(0, 2, size=n) for n in (5, 3, 4))
    Z = np.vstack([Z, X])
    v = np.append(v, y)
    database, test, points = (
        list(zip(rows.tolist(), labels.tolist(), strict=True))
        for rows, labels in ((X, y), (T, u), (Z, v))
    )
    truth = np.array([float(in_fractions(database, test, z, K, 4)) for z in points])
    setting = {"test": (T, u), "n_neighbors": K, "m": 4}
    # 1e-15: values are sums of a dozen numbers below 1.
    found = ds.knn_values((X, y), points=(Z, v), **setting)
    np.testing.assert_allclose(found.values, truth, rtol=0.0, atol=1e-15)
    found = ds.knn_values((X, y), **setting)
    np.testing.assert_allclose(found.values, truth[4:], rtol=0.0, atol=1e-15)
    reordered = rng.permutation(5)
    found = ds.knn_values((X[reordered], y[reordered]), points=(Z, v), **setting)
    np.testing.assert_allclose(found.values, truth, rtol=0.0, atol=1e-15)


def test_ties_go_as_in_the_fast_path():
    """With one neighbour the potential is the accuracy of KNeighborsClassifier."""
    rng = np.random.default_rng(5)
    X, T = rng.integers(0, 2, size=(4, 2)), rng.integers(0, 3, size=(6, 2))
    y, u = np.array([0, 1, 1, 0]), rng.integers(0, 2, size=6)
    X[1] = X[0]
    database, test = ds.Points(X, y), ds.Points(T, u)
    U = ds.potential(KNeighborsClassifier(1), test=test, empty=0.0, retrain="never")
    truth = np.zeros(len(database))
    for k in (1, 2, 3, 4):
        sets = [database.take(list(S)) for S in product(range(4), repeat=k - 1)]
        truth += np.mean([ds.marginals(U, S, database) for S in sets], axis=0) / 4
    found = ds.knn_values(database, test=test, n_neighbors=1, m=4)
    np.testing.assert_allclose(found.values, truth, rtol=0.0, atol=1e-15)


def test_a_row_alone_has_the_value_that_it_has_among_others():
    X, y = load_iris(return_X_y=True)  # copies, and a grid of 0.1 on which distances tie
    order = np.random.default_rng(0).permutation(150)
    X, y = np.vstack([X, X[:5]])[order], np.append(y, [2] * 5)[order]
    database, setting = (X[:75], y[:75]), {"test": (X[75:], y[75:]), "m": 50}
    together = ds.knn_values(database, **setting).values
    alone = [ds.knn_values(database, points=(X[[i]], y[[i]]), **setting).values for i in range(75)]
    assert np.concatenate(alone).tobytes() == together.tobytes()
    some = ds.knn_values(database, points=(X[5:60:7], y[5:60:7]), **setting).values
    assert some.tobytes() == together[5:60:7].tobytes()
    columns = ds.knn_values(database, points=(np.asfortranarray(X[:75]), y[:75]), **setting).values
    assert columns.tobytes() == together.tobytes()


# --- columns far from zero


@pytest.mark.parametrize("shift", [1e6, 1e8, 1.7e9])
def test_a_shift_of_the_columns_changes_nothing(shift):
    """Unix seconds are 1.7e9. What was shifted back without rounding has the same differences."""
    rng = np.random.default_rng(0)
    far = rng.normal(size=(200, 3)) + shift
    near = far - shift
    y = (near[:, 0] > 0).astype(int) ^ (rng.random(200) < 0.1)
    moved, true = (
        ds.knn_values((X[:100], y[:100]), test=(X[100:], y[100:]), m=50).values for X in (far, near)
    )
    assert moved.tobytes() == true.tobytes()


def test_text_labels(database, held_out):
    names = np.array(["no", "yes"])
    a = ds.knn_values(database, test=held_out, m=9)
    b = ds.knn_values((database.X, names[database.y]), test=(held_out.X, names[held_out.y]), m=9)
    assert a.values.tolist() == b.values.tolist()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"m": 0}, "m = 0"),
        ({"n_neighbors": 0}, "n_neighbors = 0"),
        ({"points": (np.zeros((1, 2)), [0])}, "points has 2 columns"),
        ({"points": (np.full((1, 3), np.nan), [0])}, "points has missing or infinite values"),
        ({"test": ds.Points(np.zeros((2, 3)))}, "test has no labels"),
    ],
)
def test_bad_input(database, held_out, change, says):
    with pytest.raises(ds.InputError, match=says):
        ds.knn_values(database, **{"test": held_out, "m": 5, **change})
