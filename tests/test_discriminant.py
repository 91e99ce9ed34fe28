"""Discriminant analysis and nearest centroids without retraining equal retraining."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.neighbors import NearestCentroid

import dshapley as ds
from conftest import labelled
from dshapley.errors import DShapleyWarning
from dshapley.learners.decisions import Case
from dshapley.potentials.testing import check_learner

METRICS = ["accuracy", "balanced_accuracy", "f1", "roc_auc", "log_score", "brier"]
KINDS = ["normal", "float32", "collinear", "categories", "bits", "shifted", "scaled", "text"]


def data(kind, n, seed, *, d=6, classes=2):
    """n points of one of the KINDS; those of one seed continue those of another."""
    points = labelled(n, d, seed=seed, classes=classes)
    rng = np.random.default_rng(seed)
    X, y = points.X, points.y
    if kind == "float32":
        X = X.astype(np.float32)
    if kind == "collinear":
        X = np.column_stack([X, X[:, 0] - X[:, 1], np.full(n, 0.1)])
    if kind == "categories":  # the last ones are rare
        X = np.column_stack([X[:, :2], np.eye(5)[np.minimum(rng.geometric(0.5, size=n), 5) - 1]])
    if kind == "bits":
        X = (X > 0.0) + 0.0
    if kind == "shifted":
        X = X + 100.0
    if kind == "scaled":
        X = X * np.geomspace(1e-3, 1e3, d)
    if kind == "text":
        y = np.array(["no", "yes", "other", "zero"])[y]
    return ds.Points(X, y)


def same(estimator, S, Z, test, metric, *, min_rows=1):
    """Whether the fast U and marginals are the refitted ones, in double precision."""
    found, expected = (
        ds.potential(estimator, test=test, metric=metric, retrain=path, min_rows=min_rows)
        for path in ("never", "always")
    )
    found = np.append(found.marginals(S, Z), found(S))
    if S.X.dtype == np.float32:
        S, Z = (ds.Points(part.X.astype(np.float64), part.y) for part in (S, Z))
    expected = np.append(expected.marginals(S, Z), expected(S))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.fixture
def refits(monkeypatch):
    """Which models were refitted after all."""
    seen, plain = [], Case.refitted
    monkeypatch.setattr(Case, "refitted", lambda case, i: seen.append(i) or plain(case, i))
    return seen


ESTIMATORS = [
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(tol=0.1),
    LinearDiscriminantAnalysis(n_components=1, store_covariance=True),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=1.0),
    NearestCentroid(),
    NearestCentroid(priors="empirical"),
    NearestCentroid(shrink_threshold=0.4),
    NearestCentroid(shrink_threshold=0.2, priors="empirical"),
]
FULL = [
    LinearDiscriminantAnalysis(solver="lsqr"),
    LinearDiscriminantAnalysis(solver="eigen"),
    QuadraticDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.2, tol=1e-6),
    QuadraticDiscriminantAnalysis(solver="eigen"),
    QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.3),
]


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_ has at least 1 zero")
@pytest.mark.filterwarnings("ignore:Only one sample available")
@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (estimator, kind)
        for i, estimator in enumerate(ESTIMATORS)
        for kind in (KINDS if i in (0, 5) else KINDS[i % 4 :: 4])
    ],
    ids=str,
)
def test_small_sets(estimator, kind):
    """From one row more than classes to more rows than features, with repeats."""
    classes = 3 if kind in ("normal", "categories", "text") else 2
    database, Z = (data(kind, n, i, classes=classes) for i, n in enumerate((40, 3)))
    test = data("normal" if kind == "float32" else kind, 30, 2, classes=classes)
    Z = Z + database.take([0, 3])
    missing = np.flatnonzero(database.y != database.y[3])
    for k, rows in enumerate(([0, 1, 2, 3, 3], missing[:6], range(9), [*range(30), 3, 3, 4])):
        S = database.take(rows)
        for metric in ("accuracy", "roc_auc", "log_score", "accuracy")[k : k + 2]:
            same(estimator, S, Z, test, metric, min_rows=2 * classes)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("estimator", [*ESTIMATORS[:1], *ESTIMATORS[5:6], *FULL], ids=str)
def test_larger_data(estimator, classes):
    d = 6 if estimator in FULL else 40
    database, test, Z = (
        data("normal", n, i, d=d, classes=classes) for i, n in enumerate((500, 100, 3))
    )
    rng = np.random.default_rng(3)
    for k in (120, 150, 400) if estimator in FULL else (5, 30, 39, 42, 150):
        S = database.sample(k, rng)
        for metric in METRICS if k == 150 else METRICS[k % 2 :: 3]:
            same(estimator, S, Z, test, metric, min_rows=classes + 1)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "kind", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, NearestCentroid]
)
def test_given_priors(kind, classes):
    priors = [0.1, 0.2, 0.3, 0.4] if classes == 4 else [0.8, 0.2]
    database, test, Z = (data("normal", n, i, classes=classes) for i, n in enumerate((150, 40, 5)))
    solvers = [{"solver": "lsqr", "shrinkage": 0.1}] if kind is LinearDiscriminantAnalysis else []
    for params in ({}, *solvers):
        for metric in METRICS:
            same(kind(priors=priors, **params), database, Z, test, metric)
    if kind is QuadraticDiscriminantAnalysis:  # takes one prior for all
        same(kind(priors=[1.0]), database, Z, test, "brier")
        return
    with pytest.raises(ds.FitError, match="could not be trained"):
        ds.potential(kind(priors=[1.0]), test=test, metric="brier")(database)


def test_scores_where_the_test_set_has_fewer_classes():
    """Then rows are compared by the decision values of all three classes."""
    database, Z = data("normal", 60, 0, classes=3), data("normal", 5, 1, classes=3)
    test = data("normal", 60, 2, classes=3)
    test = test.take(np.flatnonzero(test.y < 2))
    for estimator in [*ESTIMATORS, *FULL]:
        same(estimator, database, Z, test, "roc_auc")
        same(estimator, database.take(np.flatnonzero(database.y < 2)), Z.take(Z.y < 2), test, "f1")


@pytest.mark.parametrize("estimator", [*ESTIMATORS[:1], *ESTIMATORS[5:6], *FULL[-1:]], ids=str)
def test_bundles_and_a_class_that_is_new(estimator):
    database, test = data("normal", 80, 0, classes=3), data("normal", 40, 1, classes=3)
    S = database.take(np.flatnonzero(database.y != 1))
    rare = database.take(np.flatnonzero(database.y == 1)[:6])
    same(estimator, S, ds.Bundles(rare, np.arange(6) // 3), test, "brier")
    if not isinstance(estimator, QuadraticDiscriminantAnalysis):  # one row has no covariance
        same(estimator, S, rare, test, "accuracy")


@given(seed=st.integers(0, 10**6), k=st.integers(3, 14), d=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_any_rank_of_the_scatter(seed, k, d):
    """Few rows, repeats, bits and columns that repeat others."""
    rng = np.random.default_rng(seed)
    mix = rng.integers(-1, 2, size=(4, d)) + 0.0

    def draw(n):
        base = np.where(
            rng.random((n, 4)) < 0.5, rng.integers(2, size=(n, 4)), rng.normal(size=(n, 4))
        )
        return ds.Points(base @ mix, np.arange(n) % 2)

    S, Z, test = draw(k), draw(4), draw(15)
    S = S.sample(k, rng) + S.take([0, 1, 2])
    for metric in ("accuracy", "brier"):
        try:
            ds.potential(LinearDiscriminantAnalysis(), test=test, retrain="always").marginals(S, Z)
        except ds.FitError:
            with pytest.raises(ds.FitError):
                ds.potential(LinearDiscriminantAnalysis(), test=test).marginals(S, Z)
        else:
            same(LinearDiscriminantAnalysis(), S, Z, test, metric)


@pytest.mark.parametrize("kind", ["normal", "categories"])
def test_nothing_is_refitted_without_a_tie(kind, refits):
    database, test, Z = (data(kind, n, i, d=20) for i, n in enumerate((200, 50, 40)))
    for k in (10, 60, 150):
        for estimator in (LinearDiscriminantAnalysis(), NearestCentroid()):
            ds.potential(estimator, test=test).marginals(database.take(range(k)), Z)
    assert refits == []


def test_a_tie_is_refitted(refits):
    S = ds.Points([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [0, 0, 1, 1])
    test = ds.Points([[1.5, 0.0], [1.5, 0.0], [0.0, 0.0], [3.0, 0.0]], [0, 1, 0, 1])
    for estimator in (LinearDiscriminantAnalysis(), NearestCentroid()):
        same(estimator, S, S.take([]), test, "accuracy")
    assert refits


@pytest.mark.parametrize(
    ("estimator", "rows", "says"),
    [
        (QuadraticDiscriminantAnalysis(), 8, "not full rank"),
        (QuadraticDiscriminantAnalysis(solver="eigen"), 6, "not full rank|ill defined"),
        (LinearDiscriminantAnalysis(solver="eigen"), 4, "could not be trained"),
        (LinearDiscriminantAnalysis(), 2, "more than the number of classes"),
        (LinearDiscriminantAnalysis(n_components=2), 20, "n_components cannot be larger"),
    ],
    ids=str,
)
def test_what_scikit_learn_cannot_train_is_an_error(estimator, rows, says):
    points = data("normal", 40, 0)
    first = [int(np.flatnonzero(points.y == c)[0]) for c in (0, 1)]
    S = points.take([*first, *range(10, 8 + rows)])
    for ask in (lambda U: U(S), lambda U: U.marginals(S.take(range(1, rows)), S.take([0]))):
        with pytest.raises(ds.FitError, match=says):
            ask(ds.potential(estimator, test=points))


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"), "shrinkage='auto'"),
        (LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=OAS()), "fitted again"),
        (LinearDiscriminantAnalysis(shrinkage=0.5), "does not support shrinkage"),
        (LinearDiscriminantAnalysis(tol=0.0), "rounding decides"),
        (QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"), "shrinkage='auto'"),
        (QuadraticDiscriminantAnalysis(reg_param=-1.0), "'reg_param' parameter"),
        (NearestCentroid(metric="manhattan"), "does not use means"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refitted_and_says_so(estimator, reason):
    with pytest.warns(DShapleyWarning, match=reason):
        U = ds.potential(estimator, test=labelled(20))
    assert U.describe()["path"] == "refit"
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(estimator, test=labelled(20), retrain="never")


@pytest.mark.parametrize(
    "estimator",
    [
        LinearDiscriminantAnalysis(),
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2),
        QuadraticDiscriminantAnalysis(reg_param=0.3),
        NearestCentroid(),
    ],
    ids=str,
)
def test_the_public_contract_is_kept(estimator):
    """Also that what scikit-learn cannot train fails here too."""
    check_learner(estimator, metrics=["accuracy"])


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")
@pytest.mark.parametrize(
    "estimator",
    [LinearDiscriminantAnalysis(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5)],
    ids=str,
)
def test_ties_of_conflicting_duplicates_are_refitted(estimator):
    """The means of both classes are equal: the decision value is 0, or rounding."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(2, 2))
        test = ds.Points(rng.normal(size=(20, 2)), rng.integers(0, 2, 20))
        S, Z = ds.Points([a, a, b], [0, 1, 1]), ds.Points([b], [0])
        fast, refit = (
            ds.potential(estimator, test=test, retrain=path).marginals(S, Z)
            for path in ("never", "always")
        )
        np.testing.assert_allclose(fast, refit, rtol=0.0, atol=1e-12)


def test_quadratic_with_a_metric_of_ones_own():
    S, Z, test = (labelled(n, 3, seed=seed) for n, seed in ((60, 0), (5, 1), (40, 2)))
    fast, refit = (
        ds.potential(
            QuadraticDiscriminantAnalysis(reg_param=0.1),
            test=test,
            metric=lambda y, predicted: float((y == predicted).mean()),
            retrain=path,
        ).marginals(S, Z)
        for path in ("never", "always")
    )
    np.testing.assert_allclose(fast, refit, rtol=0.0, atol=1e-12)
