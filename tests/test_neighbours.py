from itertools import product

import numpy as np
import pytest

import dshapley as ds
from conftest import labelled


def soft_knn(test, K):
    """The potential, written as it is defined; the first of tied points is the nearer one."""

    def U(S):
        right = 0
        for x, y in zip(test.X, test.y, strict=True):
            order = np.argsort(((S.X - x) ** 2).sum(axis=1), kind="stable")[:K]
            right += (S.y[order] == y).sum() / K
        return right / len(test)

    return U


def enumerated(U, database, z, m):
    """The mean over k of the mean over all S of U(z + S) - U(S).

    z first, so that it wins ties; S in the order of the database.
    """
    means = []
    for k in range(1, m + 1):
        sets = [database.take(sorted(S)) for S in product(range(len(database)), repeat=k - 1)]
        means.append(np.mean([U(z + S) - U(S) for S in sets]))
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
    run = ds.estimate(ds.run(U, ds.Design(database, m, "1/k"), offered, until=150))
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
    np.testing.assert_allclose(given.values, one.values, atol=1e-14)


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
        ({"points": (np.full((1, 3), np.nan), [0])}, "points has values that are not finite"),
        ({"test": ds.Points(np.zeros((2, 3)))}, "test has no labels"),
    ],
)
def test_bad_input(database, held_out, change, says):
    with pytest.raises(ds.InputError, match=says):
        ds.knn_values(database, **{"test": held_out, "m": 5, **change})
