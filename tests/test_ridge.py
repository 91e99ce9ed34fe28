"""Ridge, LinearRegression and RidgeClassifier without retraining: equal to refitting."""

import pickle
import warnings

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier

import dshapley as ds
from dshapley.errors import DShapleyWarning
from dshapley.potentials.testing import check_learner

SIZES = [1, 2, 5, 30, 150, 400]


@pytest.fixture(autouse=True)
def one_thread():
    with threadpoolctl.threadpool_limits(1):
        yield


def data(kind, n, *, d=40, seed=0):
    """n points of d features: numbers, or as many classes as `kind` says."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    score = X[:, :5].sum(axis=1) + rng.normal(size=n)
    if kind == "numbers":
        return ds.Points(X, score)
    cuts = np.quantile(score, np.linspace(0, 1, kind + 1)[1:-1])
    return ds.Points(X, np.array(["ash", "birch", "elm", "fir"])[np.digitize(score, cuts)])


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
    ("estimator", "metric"),
    [
        (Ridge(), "r2"),
        (Ridge(alpha=0.01, solver="svd"), "neg_mse"),
        (Ridge(alpha=30.0, fit_intercept=False), "neg_mse"),
        (LinearRegression(), "r2"),
    ],
    ids=repr,
)
def test_numbers_equal_refitting(estimator, metric):
    check_learner(estimator, metrics=[metric])


def test_numbers_without_an_intercept_equal_refitting():
    # An R2 of -1000 has fewer digits after the point.
    check_learner(LinearRegression(fit_intercept=False), metrics=["r2"], tolerance=1e-7)
    check_learner(LinearRegression(fit_intercept=False), metrics=["neg_mse"])


@pytest.mark.parametrize(
    ("estimator", "metric"),
    [
        (RidgeClassifier(), "accuracy"),
        (RidgeClassifier(alpha=0.01, fit_intercept=False), "f1"),
        (RidgeClassifier(class_weight="balanced"), "accuracy"),
        (RidgeClassifier(class_weight={"low": 2.0, "middle": 0.3, "high": 1.0}), "roc_auc"),
    ],
    ids=repr,
)
def test_classes_equal_refitting(estimator, metric):
    check_learner(estimator, metrics=[metric])


# --- larger data


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("metric", ["r2", "neg_mse", lambda y, f: -np.abs(y - f).mean()])
@pytest.mark.parametrize("estimator", [Ridge(), LinearRegression()], ids=repr)
def test_numbers_of_larger_sets(estimator, metric, k):
    B, Z, test = data("numbers", 500), data("numbers", 5, seed=1), data("numbers", 200, seed=2)
    S = B.sample(k - 1, np.random.default_rng(k))
    assert gap(estimator, metric, S, Z, test) < 1e-9


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "weights", [None, "balanced", {"ash": 3.0, "birch": 1.0, "elm": 0.2, "fir": 1.0}]
)
def test_classes_of_larger_sets(weights, classes, k):
    B, Z, test = data(classes, 500), data(classes, 5, seed=1), data(classes, 200, seed=2)
    S = B.sample(k - 1, np.random.default_rng(k))
    estimator = RidgeClassifier(class_weight=weights)
    for metric in ("accuracy", "roc_auc"):
        assert gap(estimator, metric, S, Z, test) < 1e-9


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_a_class_that_S_lacks(weights):
    B, Z, test = data(4, 300), data(4, 20, seed=1), data(4, 100, seed=2)
    S = B.take(B.y != "elm").take(range(80))
    estimator = RidgeClassifier(class_weight=weights)
    for metric in ("accuracy", "roc_auc"):
        assert gap(estimator, metric, S, Z, test) < 1e-9


def test_rows_far_off_count_as_fully_wrong():
    B, Z, test = data("numbers", 60), data("numbers", 200, seed=1), data("numbers", 200, seed=2)
    S = B.take(range(41))  # about as many as features: wild predictions
    U = ds.potential(Ridge(1e-3), test=test, retrain="never")
    worse = ds.potential(Ridge(1e-3), test=test, metric="r2")
    assert gap(Ridge(1e-3), "neg_mse", S, Z, test) < 1e-9
    assert U(S) > 1.0 - (1.0 - worse(S)) / 4.0 + 0.01  # some are clipped


# --- least squares of any rank


@given(
    n=st.integers(0, 12), rank=st.integers(0, 6), seed=st.integers(0, 1000), intercept=st.booleans()
)
@settings(max_examples=40, deadline=None)
def test_least_squares_of_any_rank(n, rank, seed, intercept):
    rng = np.random.default_rng(seed)
    plane = rng.normal(size=(rank, 6))
    X = rng.normal(size=(n, rank)) @ plane
    Z = np.vstack([rng.normal(size=(3, rank)) @ plane, rng.normal(size=(3, 6))])
    S, Z = ds.Points(X, rng.normal(size=n)), ds.Points(Z, rng.normal(size=6))
    test = ds.Points(rng.normal(size=(20, 6)), rng.normal(size=20))
    assert gap(LinearRegression(fit_intercept=intercept), "neg_mse", S, Z, test) < 1e-8


@pytest.mark.parametrize("small", [1e-4, 1e-6, 1e-7, 1e-9])
def test_least_squares_near_the_cutoff_asks_the_solver(small):
    B, Z, test = (data("numbers", n, d=5, seed=n) for n in (30, 10, 50))
    scale = np.array([1.0, 1.0, 1.0, 1.0, small])
    S, Z, test = (ds.Points(points.X * scale, points.y) for points in (B, Z, test))
    assert gap(LinearRegression(), "neg_mse", S, Z, test) < 1e-9


# --- in a run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "kind"),
    [(Ridge(), "numbers"), (LinearRegression(), "numbers"), (RidgeClassifier(), 2)],
)
def test_workers_find_the_same_bits(estimator, kind):
    B, test = data(kind, 80, d=6), data(kind, 60, d=6, seed=2)
    U = ds.potential(estimator, test=test, retrain="never")
    design = ds.Design(B, m=30, seed=3)
    one, two = (ds.run(U, design, B.take(range(9)), stop=6, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.marginals, two.marginals)


@pytest.mark.parametrize("metric", ["r2", "neg_mse"])
def test_a_worker_makes_no_predictions_either(metric, monkeypatch):
    B, Z, test = data("numbers", 40, d=5), data("numbers", 6, d=5), data("numbers", 50, d=5)
    U = ds.potential(Ridge(), test=test, metric=metric)
    there = pickle.loads(pickle.dumps(U))
    monkeypatch.setattr(type(there.query), "score", None)
    np.testing.assert_array_equal(there.marginals(B, Z), U.marginals(B, Z))


@pytest.mark.parametrize("estimator", [Ridge(), RidgeClassifier()])
def test_bundles(estimator):
    kind = 2 if isinstance(estimator, RidgeClassifier) else "numbers"
    B, Z, test = data(kind, 40, d=5), data(kind, 6, d=5, seed=1), data(kind, 50, d=5, seed=2)
    bundles = ds.Bundles(Z, [0, 0, 0, 1, 1, 2])
    assert gap(estimator, None, B, bundles, test) < 1e-9


def test_many_points_in_blocks(monkeypatch):
    from dshapley.learners.linear import ridge

    B, Z, test = data(4, 200, d=5), data(4, 40, d=5, seed=1), data(4, 50, d=5, seed=2)
    whole = {}
    for block in (1 << 24, 1000):
        monkeypatch.setattr(ridge, "_BLOCK", block)
        for metric in ("accuracy", "roc_auc"):
            for weights in (None, "balanced"):
                U = ds.potential(RidgeClassifier(class_weight=weights), test=test, metric=metric)
                gains = U.marginals(B, Z)
                np.testing.assert_allclose(
                    gains, whole.setdefault((metric, weights), gains), atol=1e-12
                )


# --- what is refitted


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (Ridge(positive=True), "positive=True has no closed-form solution"),
        (LinearRegression(positive=True), "positive=True has no closed-form solution"),
        (Ridge(alpha=0.0), "alpha=0"),
        (Ridge(alpha=np.array([1.0])), "alpha is an array"),
        (RidgeClassifier(alpha=0.0), "alpha=0"),
        (RidgeClassifier(class_weight={"ash": 0.0}), "class_weight"),
    ],
)
def test_other_parameters_are_refitted(estimator, reason):
    test = data(2 if isinstance(estimator, RidgeClassifier) else "numbers", 20)
    with pytest.warns(DShapleyWarning, match=reason):
        U = ds.potential(estimator, test=test)
    assert U.describe()["path"] == "refit"
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(estimator, test=test, retrain="never")


def test_known_parameters_are_not_refitted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        U = ds.potential(Ridge(solver="lsqr", max_iter=3), test=data("numbers", 20))
    assert U.describe()["path"] == "fast"
