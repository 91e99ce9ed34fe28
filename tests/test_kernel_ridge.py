"""KernelRidge without retraining: equal to refitting."""

import numpy as np
import pytest
import threadpoolctl
from sklearn.kernel_ridge import KernelRidge

import dshapley as ds
from dshapley.errors import DShapleyWarning
from dshapley.potentials.testing import check_learner


@pytest.fixture(autouse=True)
def one_thread():
    with threadpoolctl.threadpool_limits(1):
        yield


def data(n, *, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return ds.Points(X, X[:, :5].sum(axis=1) + rng.normal(size=n))


def gap(estimator, metric, S, Z, test):
    """The largest difference between the fast path and refitting, in U(S) and all U(S + z)."""
    fast, refit = (
        ds.potential(estimator, test=test, metric=metric, retrain=path)
        for path in ("never", "always")
    )
    worth = abs(fast(S) - refit(S))
    return max(worth, np.abs(fast.marginals(S, Z) - refit.marginals(S, Z)).max())


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        (KernelRidge(kernel="rbf", gamma=0.05, alpha=0.1), 1e-9),
        (KernelRidge(kernel="laplacian"), 1e-9),
        (KernelRidge(kernel="cosine"), 1e-9),
        (KernelRidge(kernel="sigmoid", gamma=0.01), 1e-9),
        # Where columns differ by 1e8 scikit-learn's own solution has these digits.
        (KernelRidge(), 1e-7),
    ],
    ids=repr,
)
def test_equal_to_refitting(estimator, tolerance):
    check_learner(estimator, metrics=["neg_mse"], tolerance=tolerance)


@pytest.mark.parametrize("k", [1, 2, 5, 30, 150, 400])
@pytest.mark.parametrize(
    "estimator",
    [
        KernelRidge(),
        KernelRidge(kernel="rbf"),
        KernelRidge(kernel="poly", degree=2, coef0=0.5, gamma=0.1),
        KernelRidge(kernel="polynomial"),
        KernelRidge(kernel="sigmoid", gamma=0.01),
    ],
    ids=repr,
)
def test_larger_sets(estimator, k):
    B, Z, test = data(500), data(4, seed=1), data(100, seed=2)
    S = B.sample(k - 1, np.random.default_rng(k))
    for metric in ("r2", "neg_mse"):
        assert gap(estimator, metric, S, Z, test) < 1e-9


def test_a_matrix_that_is_not_positive():
    # k(x, x) = tanh(x'x - 9) is -1 for small x: with itself, nothing is similar.
    kernel = KernelRidge(kernel="sigmoid", gamma=1.0, coef0=-9.0, alpha=0.5)
    B, Z, test = (data(n, d=2, seed=n) for n in (12, 8, 30))
    K = kernel._get_kernel(B.X) + 0.5 * np.eye(12)
    assert np.linalg.eigvalsh(K)[0] < -0.1
    with pytest.warns(UserWarning, match="Singular matrix"):  # so says the refit
        assert gap(kernel, "neg_mse", B, Z, test) < 1e-9


@pytest.mark.filterwarnings("ignore")
def test_a_matrix_near_a_singular_one_asks_the_solver(monkeypatch):
    from dshapley.learners.linear import kernel_ridge

    monkeypatch.setattr(kernel_ridge, "_CERTAIN", 1.0)  # nothing is
    B, Z, test = (data(n, d=3, seed=n) for n in (12, 5, 30))
    asked = []
    refitted = kernel_ridge.Bordered._refitted
    monkeypatch.setattr(
        kernel_ridge.Bordered,
        "_refitted",
        lambda self, X, y, test: asked.append(len(X)) or refitted(self, X, y, test),
    )
    assert gap(KernelRidge(kernel="rbf"), "r2", B, Z, test) < 1e-12
    assert asked == [12, 12, *[13] * 5]


def test_points_too_many_to_keep(monkeypatch):
    from dshapley.learners.linear import kernel_ridge

    monkeypatch.setattr(kernel_ridge, "_TABLE", 100)
    monkeypatch.setattr(kernel_ridge, "_BLOCK", 1000)
    assert gap(KernelRidge(kernel="rbf"), "r2", data(20), data(10, seed=1), data(30)) < 1e-9


def test_workers_find_the_same_bits():
    B, test = data(80, d=6), data(60, d=6, seed=2)
    U = ds.potential(KernelRidge(kernel="rbf"), test=test, retrain="never")
    design = ds.Design(B, m=30, seed=3)
    one, two = (ds.run(U, design, B.take(range(9)), stop=6, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.marginals, two.marginals)


def test_bundles():
    Z = ds.Bundles(data(6, d=5, seed=1), [0, 0, 0, 1, 1, 2])
    assert gap(KernelRidge(kernel="rbf"), None, data(40, d=5), Z, data(50, d=5, seed=2)) < 1e-9


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (KernelRidge(kernel="precomputed"), "kernel='precomputed' has no fast path"),
        (KernelRidge(kernel=np.dot), "kernel is a function"),
        (KernelRidge(alpha=0), "alpha=0"),
        (KernelRidge(alpha=np.array([1.0, 2.0])), "alpha is an array"),
    ],
)
def test_other_parameters_are_refitted(estimator, reason):
    with pytest.warns(DShapleyWarning, match=reason):
        U = ds.potential(estimator, test=data(20))
    assert U.describe()["path"] == "refit"
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(estimator, test=data(20), retrain="never")
