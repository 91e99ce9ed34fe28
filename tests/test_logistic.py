"""Logistic regression without retraining: equal to refitting with a tight tolerance."""

import warnings

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import dshapley as ds
from dshapley.errors import DShapleyWarning
from dshapley.learners.logistic import learner as logistic
from dshapley.learners.logistic import passes
from dshapley.potentials.testing import check_learner

pytestmark = pytest.mark.slow

SIZES = [2, 5, 30, 150, 400]
STEPS = ["accuracy", "balanced_accuracy", "f1", "roc_auc"]
"""Metrics that change in steps: any error in them would be far above rounding."""
SMOOTH = ["log_score", "brier"]
NEAR = 1e-11
"""How near the fast path goes to an optimum; at most 2e-12 is measured at C = 1, in U."""
NAMES = np.array(["ash", "birch", "elm", "fir"])


@pytest.fixture(autouse=True)
def one_thread():
    with threadpoolctl.threadpool_limits(1):
        yield


def tight(**parameters):
    """The same model, solved by scikit-learn as well as it can."""
    how = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 10_000}
    return LogisticRegression(**{**parameters, **how})


def data(classes, n, *, d=3, seed=0):
    """n points of d features with this many noisy classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, :3].sum(axis=1) + rng.normal(size=n)
    cuts = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return ds.Points(X, NAMES[np.digitize(score, cuts)])


def gap(metric, S, Z, test, **parameters):
    """The largest difference from refitting, in U(S) and all U(S + z)."""
    fast = ds.potential(LogisticRegression(**parameters), test=test, metric=metric, retrain="never")
    slow = ds.potential(tight(**parameters), test=test, metric=metric, retrain="always")
    # scikit-learn warns where rounding stops it; its solution is then near enough.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        expected, gains = slow(S), slow.marginals(S, Z)
    return max(abs(fast(S) - expected), np.abs(fast.marginals(S, Z) - gains).max(initial=0.0))


def check(S, Z, test, *, metrics=(*STEPS, *SMOOTH), smooth=NEAR, **parameters):
    for metric in metrics:
        tolerance = 1e-12 if metric in STEPS else smooth
        assert gap(metric, S, Z, test, **parameters) <= tolerance, metric


# --- the contract


@pytest.mark.parametrize(
    ("parameters", "metrics"),
    [
        ({}, ["accuracy", "log_score"]),
        ({"C": 0.01}, ["brier"]),
        ({"C": 100.0}, ["log_score"]),
        ({"fit_intercept": False}, ["accuracy"]),
        ({"class_weight": "balanced"}, ["balanced_accuracy"]),
        ({"class_weight": {"low": 2.0, "middle": 0.3, "high": 1.0}}, ["f1"]),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # rounding stops the reference
def test_equals_refitting(parameters, metrics):
    """Badly scaled columns leave the reference 2e-9 from the optimum, on smooth metrics."""
    for metric in metrics:
        check_learner(
            LogisticRegression(**parameters),
            metrics=[metric],
            tolerance=1e-12 if metric in STEPS else 1e-8,
            reference=tight(**parameters),
        )


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
@pytest.mark.parametrize("classes", [2, 4])
def test_how_it_is_solved_does_not_matter(classes, metric):
    S, Z, test = data(classes, 40), data(classes, 6, seed=1), data(classes, 60, seed=2)
    gains = [
        ds.potential(model, test=test, metric=metric, retrain="never").marginals(S, Z)
        for model in (
            LogisticRegression(),
            LogisticRegression(solver="newton-cg", tol=0.1),
            LogisticRegression(solver="saga", max_iter=1, random_state=3),
            LogisticRegression(solver="sag", warm_start=True, n_jobs=2),
            LogisticRegression(solver="newton-cholesky", verbose=1),
        )
    ]
    assert np.abs(gains[0]).max() > 0.004  # measured: 0.0041 to 0.033
    for others in gains[1:]:
        np.testing.assert_array_equal(others, gains[0])


# --- larger data


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("classes", [2, 4])
def test_larger_sets(classes, d, k):
    B, Z, test = (data(classes, n, d=d, seed=seed) for seed, n in enumerate((500, 5, 150)))
    check(B.sample(k - 1, np.random.default_rng(k)), Z, test)


@pytest.mark.parametrize("k", [5, 30, 400])
@pytest.mark.parametrize("C", [0.01, 100.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_larger_sets_with_more_or_less_of_a_penalty(classes, C, k):
    B, Z, test = (data(classes, n, d=10, seed=seed) for seed, n in enumerate((500, 5, 150)))
    S = B.sample(k - 1, np.random.default_rng(k))
    # At C = 100 an error of the step weighs more: 8e-11 is measured.
    smooth = NEAR if C < 1 else 4e-10
    check(S, Z, test, C=C, metrics=["accuracy", "roc_auc", "log_score"], smooth=smooth)


@pytest.mark.parametrize("k", [5, 150])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "weights", [None, "balanced", {"ash": 3.0, "birch": 1.0, "elm": 0.2, "fir": 1.0}, {"birch": 4}]
)
@pytest.mark.parametrize("classes", [2, 4])
def test_larger_sets_with_weights(classes, weights, intercept, k):
    B, Z, test = (data(classes, n, seed=seed) for seed, n in enumerate((300, 5, 150)))
    S = B.sample(k - 1, np.random.default_rng(k))
    parameters = {"class_weight": weights, "fit_intercept": intercept}
    check(S, Z, test, metrics=["accuracy", "log_score"], **parameters)


@pytest.mark.parametrize("classes", [2, 4])
def test_more_features_than_rows_and_points_far_off(classes):
    B, Z, test = (data(classes, n, d=40, seed=seed) for seed, n in enumerate((20, 6, 150)))
    Z = ds.Points(Z.X * [[0.0], [1e-3], [1.0], [10.0], [100.0], [1.0]], Z.y)
    check(B, Z, test, metrics=["accuracy", "roc_auc", "log_score"])


# --- sets that are hard to fit


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_separable_sets(classes, C):
    S, Z, test = (data(classes, n, seed=seed) for seed, n in enumerate((60, 8, 100)))
    shift = 6.0 * np.searchsorted(NAMES, S.y)
    apart = ds.Points(S.X + shift[:, np.newaxis], S.y)
    middle = ds.Points(Z.X + 3.0 * classes - 3.0, Z.y)
    wide = ds.Points(4.0 * test.X + 3.0 * classes - 3.0, test.y)
    check(apart, middle, wide, C=C, metrics=["accuracy", "roc_auc", "log_score"])


@pytest.mark.parametrize("weights", [None, "balanced"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_class_of_one_row(classes, weights):
    B, Z, test = (data(classes, n, seed=seed) for seed, n in enumerate((120, 8, 100)))
    rows = np.flatnonzero(B.y == "birch")
    S = B.take(B.y != "birch") + B.take(rows[:1])
    check(S, Z, test, class_weight=weights, metrics=["f1", "roc_auc", "log_score"])


@pytest.mark.parametrize("weights", [None, "balanced"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_class_that_only_z_brings(classes, weights):
    B, Z, test = (data(classes, n, seed=seed) for seed, n in enumerate((90, 12, 100)))
    S = B.take(B.y != "birch")
    assert "birch" in Z.y
    check(S, Z, test, class_weight=weights, metrics=["f1", "roc_auc", "log_score"])


@pytest.mark.parametrize("classes", [2, 4])
def test_repeated_rows(classes):
    B, test = data(classes, 30), data(classes, 100, seed=2)
    S = B.take(np.repeat(np.arange(15), 7))
    assert len(np.unique(S.y)) == classes
    check(S, B.take([0, 0, 3, 15, 15]), test, metrics=["accuracy", "roc_auc", "log_score"])


@pytest.mark.parametrize("classes", [2, 4])
def test_a_feature_that_is_constant_in_S(classes):
    S, Z, test = (data(classes, n, d=6, seed=seed) for seed, n in enumerate((50, 6, 100)))
    X = S.X.copy()
    X[:, 4], X[:, 5] = 1.0, X[:, 0]
    check(ds.Points(X, S.y), Z, test, metrics=["accuracy", "log_score"])


# --- the value of z depends on no other z


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}], ids=str)
@pytest.mark.parametrize("lacking", ["nothing", "birch"])
@pytest.mark.parametrize("classes", [2, 4])
def test_alone_and_in_company(classes, lacking, parameters):
    S, Z, test = (data(classes, n, d=5, seed=seed) for seed, n in enumerate((60, 25, 100)))
    S = S.take(S.y != lacking)
    for metric in ("accuracy", "log_score"):
        U = ds.potential(
            LogisticRegression(**parameters), test=test, metric=metric, retrain="never"
        )
        together = U.marginals(S, Z)
        alone = [U.marginals(S, z)[0] for z in Z]
        backwards = U.marginals(S, Z.take(slice(None, None, -1)))[::-1]
        rounding = 0.0 if metric == "accuracy" else NEAR  # measured: 7e-13
        np.testing.assert_allclose(alone, together, rtol=0.0, atol=rounding)
        np.testing.assert_allclose(backwards, together, rtol=0.0, atol=rounding)
        refitted = [U(S + z) - U(S) for z in Z]
        np.testing.assert_allclose(refitted, together, rtol=0.0, atol=max(rounding, 1e-15))


def test_more_points_than_a_block(monkeypatch):
    sizes = []

    def outputs(self, S, Z, asked, plain=logistic.Logistic.outputs):
        for block in plain(self, S, Z, asked):
            sizes.append(len(block))
            yield block

    monkeypatch.setattr(logistic.Logistic, "outputs", outputs)
    S, Z, test = data(2, 2000), data(2, 300, seed=1), data(2, 50, seed=2)
    check(S, Z, test, metrics=["accuracy"])
    assert sizes == [1, 1, 262, 38]  # S; then S, a whole block and the rest


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}], ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_blocks_of_any_size(classes, parameters, monkeypatch):
    S, Z, test = (data(classes, n, seed=seed) for seed, n in enumerate((80, 50, 100)))
    for metric in ("accuracy", "brier"):
        U = ds.potential(
            LogisticRegression(**parameters), test=test, metric=metric, retrain="never"
        )
        monkeypatch.setattr(logistic, "_block_size", lambda *_: 1024)
        whole = U.marginals(S, Z)
        for size in (1, 7, 50):
            monkeypatch.setattr(logistic, "_block_size", lambda *_, size=size: size)
            rounding = 0.0 if metric == "accuracy" else NEAR
            np.testing.assert_allclose(U.marginals(S, Z), whole, rtol=0.0, atol=rounding)


@pytest.mark.parametrize("classes", [2, 4])
def test_what_is_not_found_together_is_fitted_alone(classes, monkeypatch):
    alone = []
    for kind in (logistic._Base, logistic.Softmax):

        def with_lost(self, outputs, lost, *rest, plain=kind._with_lost):
            alone.append(len(lost))
            return plain(self, outputs, lost, *rest)

        monkeypatch.setattr(kind, "_with_lost", with_lost)
    S, Z, test = (data(classes, n, d=5, seed=seed) for seed, n in enumerate((60, 8, 100)))
    for metric in ("accuracy", "roc_auc", "brier"):
        U = ds.potential(LogisticRegression(), test=test, metric=metric, retrain="never")
        found = U.marginals(S, Z)
        with monkeypatch.context() as patch:
            patch.setattr(passes, "_PASSES", 0)
            np.testing.assert_allclose(U.marginals(S, Z), found, rtol=0.0, atol=NEAR)
    assert alone[::2] == [0, 0, 0]
    assert min(alone[1::2]) >= 4  # of eight z, whose labels may be sure without a pass


# --- any small set


def margins(model, X):
    """How far the predicted class is ahead of the next, at each row."""
    f = model.decision_function(X)
    if f.ndim == 1:
        return np.abs(f)
    best = np.sort(f, axis=1)
    return best[:, -1] - best[:, -2]


@given(
    k=st.integers(2, 12),
    d=st.integers(1, 5),
    classes=st.integers(2, 4),
    logC=st.floats(-2, 2),
    intercept=st.booleans(),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60, deadline=None)
def test_any_small_set(k, d, classes, logC, intercept, seed):
    rng = np.random.default_rng(seed)
    S = ds.Points(rng.normal(size=(k, d)), rng.choice(NAMES[:classes], size=k))
    Z = ds.Points(rng.normal(size=(4, d)), rng.choice(NAMES[:classes], size=4))
    test = ds.Points(rng.normal(size=(40, d)), rng.choice(NAMES[:classes], size=40))
    parameters = {"C": 10.0**logC, "fit_intercept": intercept}
    sure = np.ones(len(test), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        for T in (S, *(S + z for z in Z)):
            if len(np.unique(T.y)) > 1:
                sure &= margins(tight(**parameters).fit(T.X, T.y), test.X) > 1e-6
    assert sure.mean() >= 0.9  # the least of 10,000 examples: 0.95
    assert gap("accuracy", S, Z, test.take(sure), **parameters) <= 1e-12


# --- what is refitted


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"solver": "liblinear"}, "solver='liblinear' has a different optimum"),
        ({"l1_ratio": 1.0, "solver": "saga"}, "only the L2 penalty has a fast path"),
        ({"l1_ratio": 0.5, "solver": "saga"}, "only the L2 penalty has a fast path"),
        ({"penalty": "l1", "solver": "saga"}, "only the L2 penalty has a fast path"),
        ({"penalty": "elasticnet", "solver": "saga"}, "only the L2 penalty has a fast path"),
        ({"penalty": None}, "only the L2 penalty has a fast path"),
        ({"C": np.inf}, "without a penalty small sets have no optimum"),
    ],
    ids=str,
)
def test_other_parameters_are_refitted(parameters, reason):
    estimator, test = LogisticRegression(**parameters), data(2, 20)
    with pytest.warns(DShapleyWarning, match=reason):
        U = ds.potential(estimator, test=test)
    assert U.describe()["path"] == "refit"
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(estimator, test=test, retrain="never")


def test_known_parameters_are_not_refitted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        U = ds.potential(LogisticRegression(C=3.0, class_weight="balanced"), test=data(2, 20))
    assert U.describe()["path"] == "fast"


# --- regressions


def test_roc_auc_of_a_test_set_that_lacks_a_class():
    S, Z, test = data(3, 60), data(3, 8, seed=1), data(3, 80, seed=2)
    check(S, Z, test.take(test.y != "elm"), metrics=["roc_auc"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_roc_auc_keeps_the_contract():
    check_learner(LogisticRegression(), metrics=["roc_auc"], tolerance=1e-12, reference=tight())


@pytest.mark.parametrize("classes", [2, 4])
def test_a_weak_penalty_does_not_overflow(classes):
    B, Z, test = (data(classes, n, d=40, seed=seed) for seed, n in enumerate((500, 8, 150)))
    check(B.sample(149, np.random.default_rng(150)), Z, test, C=100.0, metrics=["accuracy"])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "parameters",
    [{"C": 100.0}, {"class_weight": "balanced", "C": 10.0, "fit_intercept": False}],
    ids=str,
)
def test_a_weak_penalty_keeps_the_contract(parameters):
    check_learner(
        LogisticRegression(**parameters),
        metrics=["accuracy"],
        tolerance=1e-12,
        reference=tight(**parameters),
    )


@pytest.mark.parametrize("metric", ["balanced_accuracy", lambda y, p: float(np.mean(y == p))])
@pytest.mark.parametrize(
    ("model", "reference"), [(GaussianNB(), GaussianNB()), (LogisticRegression(), tight())]
)
def test_more_classes_than_a_byte_holds(model, reference, metric):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(150), 3)
    X = 5.0 * rng.normal(size=(150, 4))[y] + 0.3 * rng.normal(size=(450, 4))
    S, test = ds.Points(X[::3], y[::3]), ds.Points(X[2::3], y[2::3])
    found, expected = (
        ds.potential(estimator, test=test, metric=metric, retrain=path)(S + S.take([0]))
        for estimator, path in ((model, "never"), (reference, "always"))
    )
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scale", [1e3, 1e6])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_three_classes_of_large_features(scale, C):
    """The preconditioner has entries that single precision cannot hold."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(130, 1))
    y = (X @ rng.normal(size=(1, 3))).argmax(axis=1)
    y = np.where(rng.random(130) < 0.5, y, rng.integers(0, 3, 130))
    S, Z, test = (ds.Points(scale * X[a:b], y[a:b]) for a, b in ((0, 10), (10, 30), (30, 130)))
    U = ds.potential(LogisticRegression(C=C), test=test, retrain="never")
    one_by_one = [U(S + z) - U(S) for z in Z]
    np.testing.assert_allclose(U.marginals(S, Z), one_by_one, rtol=0.0, atol=1e-12)
