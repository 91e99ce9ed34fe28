"""Naive Bayes without retraining is naive Bayes retrained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

import dshapley as ds
from conftest import labelled
from dshapley.errors import DShapleyWarning
from dshapley.learners import Fast
from dshapley.learners.decisions import Case
from dshapley.potentials.testing import check_learner

METRICS = ["accuracy", "balanced_accuracy", "f1", "roc_auc", "log_score", "brier"]


def both(estimator, S, Z, test, metric):
    """U(S) and the marginals, fast and refitted."""
    fast = ds.potential(estimator, test=test, metric=metric, retrain="never")
    refit = ds.potential(estimator, test=test, metric=metric, retrain="always")
    return [np.append(U.marginals(S, Z), U(S)) for U in (fast, refit)]


def same(estimator, S, Z, test, metric):
    found, expected = both(estimator, S, Z, test, metric)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def counts(n, d, classes, seed, *, dtype=np.float64):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(2.0, size=(classes, d))
    y = rng.integers(classes, size=n)
    return ds.Points(rng.poisson(rates[y]).astype(dtype), np.array(list("abcd"))[y])


@pytest.fixture
def refits(monkeypatch):
    """How many models were refitted after all."""
    seen, plain = [], Case.refitted
    monkeypatch.setattr(Case, "refitted", lambda case, i: seen.append(i) or plain(case, i))
    return seen


@pytest.mark.parametrize(
    ("estimator", "metric"),
    [
        (GaussianNB(), "accuracy"),
        (GaussianNB(var_smoothing=0.1), "log_score"),
        (BernoulliNB(), "roc_auc"),
    ],
    ids=str,
)
def test_they_keep_the_contract(estimator, metric):
    check_learner(estimator, metrics=[metric])


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("estimator", [GaussianNB(), BernoulliNB(), MultinomialNB()], ids=str)
def test_larger_data(estimator, metric, classes, refits):
    make = (
        (lambda n, seed: counts(n, 40, classes, 9 * seed))
        if isinstance(estimator, MultinomialNB)
        else (lambda n, seed: labelled(n, 40, seed=seed, classes=classes))
    )
    database, test, Z = make(400, 0), make(150, 1), make(3, 2)
    rng = np.random.default_rng(3)
    for k in (2, 5, 30, 150):
        refits.clear()
        same(estimator, database.sample(k, rng), Z, test, metric)
        assert k < 150 or metric == "roc_auc" or not refits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "estimator",
    [
        MultinomialNB(),
        MultinomialNB(alpha=0.01, fit_prior=False),
        MultinomialNB(alpha=[0.1, 0.2, 0.5]),
        MultinomialNB(alpha=0.0, force_alpha=False),
        BernoulliNB(alpha=1e-12, force_alpha=False, fit_prior=False, binarize=1.5),
        BernoulliNB(alpha=0.01, binarize=0.3),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:alpha too small")
def test_counts_on_awkward_sets(estimator, dtype):
    database, test = counts(60, 3, 3, 1, dtype=dtype), counts(40, 3, 3, 2, dtype=dtype)
    test = ds.Points(test.X.astype(np.float64), test.y)
    Z = database.take([0, 1, 1, 30])
    ones = np.flatnonzero(database.y == database.y[0])
    two = np.flatnonzero(database.y != database.y[0])
    for rows in ([], [0], [0, 0], ones, two, [*two, *two], range(60)):
        for metric in ("accuracy", "roc_auc", "brier"):
            same(estimator, database.take(rows), Z, test, metric)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (GaussianNB(priors=[0.7, 0.3]), labelled),
        (BernoulliNB(class_prior=[0.7, 0.3]), labelled),
        (MultinomialNB(class_prior=[0.7, 0.3]), lambda n, seed=0: counts(n, 3, 2, seed)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_given_priors(estimator, data):
    for metric in METRICS:
        same(estimator, data(30), data(5, seed=1), data(50, seed=2), metric)
    name = "priors" if isinstance(estimator, GaussianNB) else "class_prior"
    wrong = clone(estimator).set_params(**{name: [0.2, 0.3, 0.5]})
    U = ds.potential(wrong, test=data(50, seed=2))
    with pytest.raises(ds.FitError, match="Number of priors must match number of classes"):
        U(data(30))


def test_what_scikit_learn_refuses_is_refused():
    test = counts(20, 3, 2, 0)
    S = ds.Points(test.X - 1.0, test.y)
    with pytest.raises(ds.FitError, match="Negative values"):
        ds.potential(MultinomialNB(), test=test)(S)
    with pytest.raises(ds.FitError, match="Negative values"):
        ds.potential(MultinomialNB(), test=test).marginals(test, S)
    with pytest.raises(ds.FitError, match="alpha is an array"):
        ds.potential(MultinomialNB(alpha=[1.0, 2.0]), test=test)(test)


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (BernoulliNB(alpha=[1.0, 2.0, 3.0]), "array alpha"),
        (GaussianNB(var_smoothing=-1.0), "'var_smoothing' parameter of GaussianNB must be"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refitted_and_says_so(estimator, reason):
    with pytest.warns(DShapleyWarning, match=reason):
        U = ds.potential(estimator, test=labelled(20))
    assert U.describe()["path"] == "refit"
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(estimator, test=labelled(20), retrain="never")


def test_bits_need_no_threshold():
    bits = [ds.Points((part.X > 0) + 0.0, part.y) for part in (labelled(40), labelled(30, seed=1))]
    for metric in METRICS:
        same(BernoulliNB(binarize=None), bits[0], bits[1].take(range(4)), bits[1], metric)


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(2, 12),
    d=st.integers(1, 4),
    classes=st.integers(2, 4),
    levels=st.integers(1, 3),
    kind=st.sampled_from([GaussianNB(), BernoulliNB(), MultinomialNB(alpha=0.5)]),
)
@settings(max_examples=15, deadline=None)
def test_discrete_data_with_all_their_ties(seed, k, d, classes, levels, kind):
    """Where rounding decides between equal classes, it is scikit-learn's own."""
    rng = np.random.default_rng(seed)

    def draw(n):
        X = rng.integers(levels + 1, size=(n, d)).astype(np.float64)
        X[0, 0] = levels + 1.0  # no set of equal rows: their variance is zero
        return ds.Points(X, rng.integers(classes, size=n))

    S, Z = draw(k), draw(4)
    test = ds.Points(rng.integers(levels + 1, size=(12, d)) + 0.0, np.arange(12) % classes)
    for metric in ("accuracy", "brier"):
        same(kind, S, Z, test, metric)


def test_ties_are_refitted(refits):
    S = ds.Points([[0.0, 1.0], [1.0, 0.0]] * 3, [0, 1] * 3)
    test = ds.Points([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]], [0, 1, 1])
    same(BernoulliNB(), S, S.take([]), test, "accuracy")
    assert refits


def test_bundles_and_a_class_that_is_new():
    database, test = labelled(60, classes=4), labelled(50, seed=1, classes=4)
    S = database.take(np.flatnonzero(database.y != 3))
    Z = database.take(range(12))
    assert {3} < set(Z.y.tolist())
    for estimator in (GaussianNB(), BernoulliNB()):
        for metric in METRICS:
            same(estimator, S, Z, test, metric)
            same(estimator, S, ds.Bundles(Z, np.arange(12) // 3), test, metric)


def test_the_path_is_told():
    U = ds.potential(GaussianNB(), test=labelled(20))
    assert isinstance(U.learner, Fast)
    assert U.describe()["path"] == "fast"
