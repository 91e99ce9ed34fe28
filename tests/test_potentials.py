"""Potentials: U is defined for every set, and its marginals are what one by one gives."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from dshapley import (
    Bundles,
    DShapleyError,
    FitError,
    InputError,
    MeanPotential,
    Metric,
    Points,
    marginals,
    potential,
)
from dshapley.potentials import check_points, describe, seeded

# Scores of order one, from the same models: rounding only.
EXACT = {"rtol": 0.0, "atol": 1e-12}
# Probabilities and predictions may come by another formula than scikit-learn's.
CLOSE = {"rtol": 0.0, "atol": 1e-9}

CLASSIFICATION = ["accuracy", "balanced_accuracy", "f1", "roc_auc", "log_score", "brier"]
REGRESSION = ["r2", "neg_mse"]

# The same is promised of models that are retrained, and of those that need not be.
PATHS = pytest.mark.parametrize("path", ["auto", "always"])


def classified(n, classes, *, seed):
    """Points around one centre for each class; every class is there."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(len(classes)), rng.integers(len(classes), size=n)])[:n]
    X = rng.normal(size=(n, 2)) + 1.5 * codes[:, np.newaxis]
    return Points(X, np.asarray(classes)[codes])


def measured(n, *, seed):
    """Points with numbers for labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return Points(X, X @ [1.0, -2.0] + rng.normal(scale=0.5, size=n))


def framed(points):
    """The same points as a data frame with a categorical column besides."""
    table = pd.DataFrame(points.X, columns=["a", "b"])
    kinds = np.where(points.X[:, 0] > 1, "high", np.where(points.X[:, 0] > 0, "mid", "low"))
    table["kind"] = pd.Categorical(kinds, categories=["low", "mid", "high"])
    return Points(table, points.y)


def frame_model(final):
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough"
    )
    return make_pipeline(columns, final)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The fits here are tiny: threads would only wait for each other."""
    with threadpool_limits(1):
        yield


TWO = classified(40, ["no", "yes"], seed=0)
THREE = classified(45, ["a", "b", "c"], seed=1)
NUMBERS = measured(40, seed=2)


# --- U(empty)


def uneven(classes, counts):
    y = np.repeat(classes, counts)
    return Points(np.random.default_rng(3).normal(size=(len(y), 2)), y)


def test_nothing_is_worth_the_majority_rate_of_the_test_set():
    test = uneven(["x", "y", "z"], [2, 5, 3])
    U = potential(GaussianNB(), test=test)
    assert U(test.take([])) == 0.5
    assert U.empty_value() == 0.5


@PATHS
@pytest.mark.parametrize("metric", CLASSIFICATION)
@pytest.mark.parametrize("counts", [[7, 3], [3, 7], [2, 5, 3], [4, 4, 4]], ids=str)
def test_nothing_is_worth_the_best_constant_classifier(metric, counts, path):
    c = len(counts)
    test = uneven(["x", "y", "z"][:c], counts)
    p = np.array(counts) / sum(counts)
    majority = np.repeat(np.array(["x", "y", "z"])[[np.argmax(counts)]], len(test))
    f1 = {"average": "macro"} if c > 2 else {"average": "binary", "pos_label": "y"}
    expected = {
        "accuracy": p.max(),
        "balanced_accuracy": 1 / c,
        "f1": reference.f1_score(test.y, majority, zero_division=0, **f1),
        "roc_auc": 0.5,
        "log_score": 1 + (p * np.log(p)).sum() / np.log(1000),
        "brier": 1 - 0.5 * (1 - (p**2).sum()),
    }
    U = potential(GaussianNB(), test=test, metric=metric, retrain=path)
    np.testing.assert_allclose(U(test.take([])), expected[metric], **EXACT)
    np.testing.assert_allclose(U.empty_value(), expected[metric], **EXACT)


@PATHS
@pytest.mark.parametrize("metric", [None, "neg_mse", "r2"])
def test_nothing_is_worth_the_test_mean_to_a_regressor(metric, path):
    y = NUMBERS.y
    error = np.minimum((y - y.mean()) ** 2 / (4 * y.var()), 1.0).mean()
    U = potential(LinearRegression(), test=NUMBERS, metric=metric, retrain=path)
    expected = 0.0 if metric == "r2" else 1 - error
    np.testing.assert_allclose(U(NUMBERS.take([])), expected, **EXACT)
    np.testing.assert_allclose(U.empty_value(), expected, **EXACT)


@PATHS
def test_nothing_is_worth_what_a_function_says_of_the_constant_predictor(path):
    test = uneven(["x", "y"], [3, 1])
    U = potential(GaussianNB(), test=test, metric=reference.accuracy_score, retrain=path)
    assert U(U.test.take([])) == 0.75
    V = potential(Ridge(), test=NUMBERS, metric=lambda y, p: -np.abs(y - p).mean(), retrain=path)
    spread = np.abs(NUMBERS.y - NUMBERS.y.mean()).mean()
    np.testing.assert_allclose(V(NUMBERS.take([])), -spread, **EXACT)


@PATHS
@pytest.mark.parametrize("empty", [0.0, 0.123, -2, np.float64(1.5)])
@pytest.mark.parametrize(("model", "test"), [(GaussianNB(), TWO), (Ridge(), NUMBERS)])
def test_the_worth_of_nothing_can_be_given(model, test, empty, path):
    plain = potential(model, test=test, retrain=path)
    U = potential(model, test=test, empty=empty, retrain=path)
    nothing = test.take([])
    assert U(nothing) == empty
    assert U.empty_value() == empty
    assert U(test) == plain(test)
    Z = test.take([0, 1])
    expected = [plain(z) - empty for z in Z]
    np.testing.assert_allclose(marginals(U, nothing, Z), expected, **EXACT)


@pytest.mark.parametrize("empty", [np.nan, np.inf])
def test_the_worth_of_nothing_is_a_number(empty):
    with pytest.raises(DShapleyError):
        potential(GaussianNB(), test=TWO, empty=empty)(TWO.take([]))


@PATHS
def test_nothing_may_come_without_types(path):
    """An empty array has no labels to take a type from."""
    nothing = Points(np.zeros((0, 2)), [])
    U = potential(GaussianNB(), test=TWO, retrain=path)
    assert U(nothing) == U(TWO.take([]))
    Z = TWO.take([0, 1, 2])
    np.testing.assert_array_equal(marginals(U, nothing, Z), marginals(U, TWO.take([]), Z))


# --- sets of one class, of fewer classes, of other classes, with repeats


@PATHS
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize(
    "model",
    [GaussianNB(), LogisticRegression(), DecisionTreeClassifier(), SVC(), KNeighborsClassifier()],
    ids=lambda model: type(model).__name__,
)
def test_trained_on_one_class_a_model_predicts_that_class(model, n, path):
    U = potential(model, test=THREE, retrain=path)
    for label in ["a", "b", "c", "unheard of"]:
        S = Points(THREE.X[:n], [label] * n)
        np.testing.assert_allclose(U(S), np.mean(THREE.y == label), **EXACT)


@PATHS
@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("balanced_accuracy", lambda y, label: 1 / 3 if label in y else 0.0),
        ("roc_auc", lambda y, label: 0.5),
        ("log_score", lambda y, label: np.mean(y == label)),  # wrong rows are at the floor
        ("brier", lambda y, label: np.mean(y == label)),
        (reference.accuracy_score, lambda y, label: np.mean(y == label)),
    ],
)
def test_one_class_by_every_metric(metric, expected, path):
    U = potential(GaussianNB(), test=THREE, metric=metric, retrain=path)
    for label in ["a", "b", "c"]:
        S = Points(THREE.X[:4], [label] * 4)
        np.testing.assert_allclose(U(S), expected(THREE.y, label), **EXACT)


def by_hand(S, metric):
    """The score on THREE of naive Bayes trained on S, through scikit-learn's own functions."""
    model = GaussianNB().fit(S.X, S.y)
    y = THREE.y
    if metric == "accuracy":
        return reference.accuracy_score(y, model.predict(THREE.X))
    if metric == "balanced_accuracy":
        return np.mean([np.mean(model.predict(THREE.X)[y == c] == c) for c in "abc"])
    if metric == "f1":
        return reference.f1_score(
            y, model.predict(THREE.X), labels=["a", "b", "c"], average="macro", zero_division=0
        )
    p = dict(zip(model.classes_, model.predict_proba(THREE.X).T, strict=True))
    nothing = np.zeros(len(y))
    known = np.column_stack([p.get(c, nothing) for c in "abc"])
    if metric == "roc_auc":
        return reference.roc_auc_score((y[:, np.newaxis] == list("abc")), known, average="macro")
    p_true = np.array([known[i, "abc".index(label)] for i, label in enumerate(y)])
    if metric == "log_score":
        return 1 + np.log(np.maximum(p_true, 1e-3)).mean() / np.log(1000)
    everything = np.column_stack(list(p.values()))
    return 1 - 0.5 * ((everything**2).sum(axis=1) - 2 * p_true + 1).mean()


@PATHS
@pytest.mark.parametrize("metric", CLASSIFICATION)
@pytest.mark.parametrize("classes", ["abc", "ab", "ac", "bc", "abcd", "ad", "bd", "de", "aBc"])
def test_classes_need_not_be_those_of_the_test_set(metric, classes, path):
    S = classified(15, list(classes), seed=4)
    U = potential(GaussianNB(), test=THREE, metric=metric, retrain=path)
    np.testing.assert_allclose(U(S), by_hand(S, metric), **CLOSE)


@PATHS
@pytest.mark.parametrize("metric", CLASSIFICATION)
def test_points_may_repeat(metric, path):
    S = THREE.take([0, 0, 0, 1, 1, 5, 6, 6, 2])
    U = potential(GaussianNB(), test=THREE, metric=metric, retrain=path)
    np.testing.assert_allclose(U(S), by_hand(S, metric), **CLOSE)
    nearest = potential(KNeighborsClassifier(3), test=THREE, retrain=path)
    model = KNeighborsClassifier(3).fit(S.X, S.y)
    assert nearest(S) == model.score(THREE.X, THREE.y)


@given(index=st.lists(st.integers(0, len(THREE) - 1), max_size=8))
@settings(max_examples=40, deadline=None)
def test_every_set_has_the_worth_of_a_refitted_model(index):
    S = THREE.take(index)
    for metric in ("accuracy", "roc_auc", "brier"):
        fast, refit = (
            potential(KNeighborsClassifier(3), test=THREE, metric=metric, retrain=path)
            for path in ("never", "always")
        )
        np.testing.assert_allclose(fast(S), refit(S), **CLOSE)


@PATHS
@pytest.mark.parametrize("metric", REGRESSION)
@pytest.mark.parametrize(
    "model",
    [LinearRegression(), Ridge(), KNeighborsRegressor(), DecisionTreeRegressor()],
    ids=lambda model: type(model).__name__,
)
def test_a_regressor_can_be_trained_on_one_point(model, metric, path):
    U = potential(model, test=NUMBERS, metric=metric, retrain=path)
    constant = np.full((1, len(NUMBERS)), NUMBERS.y[3])
    expected = U.metric.score(NUMBERS.y, constant)[0]
    np.testing.assert_allclose(U(NUMBERS.take([3])), expected, **CLOSE)
    np.testing.assert_allclose(U(NUMBERS.take([3, 3, 3])), expected, **CLOSE)


@PATHS
@pytest.mark.parametrize(
    "labels",
    [[0, 1], [1, 2], [-1, 1], [False, True], [0.0, 1.0], ["no", "yes"], ["0", "10"]],
    ids=str,
)
@pytest.mark.parametrize("metric", CLASSIFICATION)
def test_labels_may_be_of_any_kind(labels, metric, path):
    codes = (TWO.y == "yes").astype(int)
    plain, named = (
        potential(GaussianNB(), test=Points(TWO.X, y), metric=metric, retrain=path)
        for y in (codes, np.array(labels)[codes])
    )
    for index in ([], [0], list(range(9))):
        S, N = (
            Points(TWO.X[index], codes[index]),
            Points(TWO.X[index], np.array(labels)[codes[index]]),
        )
        np.testing.assert_allclose(named(N), plain(S), **EXACT)


# --- marginals


def one_by_one(U, S, Z):
    return np.array([U(S + z) - U(S) for z in Z])


CASES = [
    (GaussianNB(), "accuracy", THREE),
    (GaussianNB(), "brier", THREE),
    (KNeighborsClassifier(3), "accuracy", THREE),
    (LogisticRegression(), "accuracy", TWO),
    (SVC(), "roc_auc", TWO),
    (DecisionTreeClassifier(random_state=0), "f1", TWO),
    (RandomForestClassifier(n_estimators=3), "log_score", TWO),
    (Ridge(), "neg_mse", NUMBERS),
    (KNeighborsRegressor(3), "r2", NUMBERS),
    (LinearRegression(), None, NUMBERS),
]
SLOW = {RandomForestClassifier: pytest.mark.slow}
"""Whose loops take long to compile."""
MODELS = pytest.mark.parametrize(
    ("model", "metric", "data"),
    [
        pytest.param(m, s, d, id=f"{type(m).__name__}-{s}", marks=SLOW.get(type(m), ()))
        for m, s, d in CASES
    ],
)
SETS = pytest.mark.parametrize(
    "index", [[], [0], [0, 0], [3, 7, 7, 9, 1], list(range(12))], ids=lambda i: f"S{len(i)}"
)


@PATHS
@MODELS
@SETS
def test_marginals_equal_one_by_one(model, metric, data, index, path):
    U = potential(model, test=data.take(slice(20, 40)), metric=metric, retrain=path)
    S, Z = data.take(index), data.take([0, 1, 2, 2, 13, 14])
    gains = marginals(U, S, Z)
    assert gains.shape == (6,)
    assert gains.dtype == np.float64
    np.testing.assert_allclose(gains, one_by_one(U, S, Z), **CLOSE)
    assert gains[2] == gains[3]


@PATHS
@MODELS
@SETS
def test_marginals_of_bundles_equal_one_by_one(model, metric, data, index, path):
    U = potential(model, test=data.take(slice(20, 40)), metric=metric, retrain=path)
    S = data.take(index)
    Z = Bundles(data.take([0, 1, 2, 2, 13, 14]), ["q", "p", "q", "q", "r", "p"])
    gains = marginals(U, S, Z)
    assert gains.shape == (3,)
    np.testing.assert_allclose(gains, one_by_one(U, S, Z), **CLOSE)


@pytest.mark.parametrize("index", [[], [0], [3, 7, 7, 9, 1], list(range(12))], ids=len)
@pytest.mark.parametrize("bundled", [False, True], ids=["points", "bundles"])
@pytest.mark.parametrize(
    ("final", "data"),
    [(GaussianNB(), THREE), (DecisionTreeClassifier(), TWO), (Ridge(), NUMBERS)],
    ids=["bayes", "tree", "ridge"],
)
def test_marginals_of_frames_equal_one_by_one(final, data, bundled, index):
    data = framed(data)
    U = potential(frame_model(final), test=data.take(slice(20, 40)))
    S, Z = data.take(index), data.take([0, 1, 2, 2])
    if bundled:
        Z = Bundles(Z, [1, 0, 1, 2])
    np.testing.assert_allclose(marginals(U, S, Z), one_by_one(U, S, Z), **CLOSE)


@PATHS
def test_marginals_may_be_of_points_from_elsewhere(path):
    U = potential(GaussianNB(), test=THREE, retrain=path)
    S, Z = THREE.take(range(8)), classified(5, ["c", "d"], seed=9)
    np.testing.assert_allclose(marginals(U, S, Z), one_by_one(U, S, Z), **CLOSE)


def test_marginals_of_no_points_are_no_numbers():
    U = potential(GaussianNB(), test=THREE)
    assert marginals(U, THREE, THREE.take([])).shape == (0,)
    assert marginals(len, THREE, THREE.take([])).shape == (0,)


@pytest.mark.parametrize(
    "U",
    [
        lambda S: len(S) ** 2,
        lambda S: float(np.sum(S.X)),
        lambda S: np.float32(len(np.unique(S.y))),
    ],
    ids=["size", "sum", "classes"],
)
def test_a_plain_function_is_a_potential(U):
    S, Z = THREE.take([0, 1, 1]), THREE.take([0, 4, 5])
    np.testing.assert_allclose(marginals(U, S, Z), one_by_one(U, S, Z), **EXACT)
    bundles = Bundles(Z, [1, 0, 1])
    np.testing.assert_allclose(marginals(U, S, bundles), one_by_one(U, S, bundles), **EXACT)


def test_a_plain_function_is_asked_once_for_s_and_once_for_each_z():
    asked = []

    def U(S):
        asked.append(len(S))
        return 0.0

    marginals(U, THREE.take([0, 1]), Bundles(THREE.take([0, 1, 2]), [0, 0, 1]))
    assert asked == [2, 4, 3]


class Sizes:
    """A potential with marginals of its own."""

    def __call__(self, S):
        raise AssertionError("its marginals should be asked")

    def marginals(self, S, Z):
        return [len(S)] * len(Z)


def test_marginals_of_its_own_are_used():
    gains = marginals(Sizes(), THREE.take([0, 1]), THREE.take([0, 1, 2]))
    assert gains.tolist() == [2.0, 2.0, 2.0]
    assert gains.dtype == np.float64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_marginal_that_is_no_number_is_an_error_that_names_the_point(bad):
    def U(S):
        return bad if 9.0 in S.X else 0.0

    Z = Points([[1.0], [9.0], [9.0]])
    message = r"U\(S \+ z\) - U\(S\) = -?(nan|inf) for point 1 and \|S\| = 1"
    with pytest.raises(FitError, match=message):
        marginals(U, Points([[0.0]]), Z)


@PATHS
def test_a_score_that_is_no_number_is_an_error(path):
    odd = Metric("odd", "label", lambda y, p: p[:, 0] * np.nan)
    U = potential(GaussianNB(), test=TWO, metric=odd, retrain=path)
    with pytest.raises(FitError, match="the odd of a model trained on about 10 rows is not a num"):
        U(TWO.take(range(10)))
    with pytest.raises(FitError, match="is not a number"):
        marginals(U, TWO.take([]), TWO.take([0]))


@pytest.mark.parametrize("path", ["never", "always"])
def test_unlabelled_points_train_no_model(path):
    U = potential(GaussianNB(), test=TWO, retrain=path)
    nameless = Points(TWO.X)
    with pytest.raises(InputError, match="these points have no labels, which a model needs"):
        U(nameless)
    for S in (TWO, TWO.take([]), TWO.take([0]), nameless):
        for Z in (nameless, Bundles(nameless, TWO.y)):
            with pytest.raises(InputError, match="these points have no labels"):
                marginals(U, S, Z)
    with pytest.raises(InputError, match="these points have no labels"):
        marginals(U, nameless, TWO)


# --- seeds


@pytest.mark.slow
def test_a_seed_fixes_the_randomness_and_a_plain_function_has_none():
    forest = potential(RandomForestClassifier(n_estimators=3), test=TWO, metric="brier")
    S = TWO.take(range(10))
    assert seeded(forest, 5)(S) == seeded(forest, 5)(S)
    assert len({seeded(forest, s)(S) for s in range(6)}) > 1
    assert seeded(len, 5) is len


def test_a_seeded_potential_is_the_same_in_all_else():
    U = potential(GaussianNB(), test=TWO, metric="roc_auc", empty=0.3)
    fixed = seeded(U, 5)
    assert fixed.seed == 5
    assert U.seed == 0
    assert describe(fixed) == describe(U)
    for index in ([], [0], range(10)):
        assert fixed(TWO.take(index)) == U(TWO.take(index))


# --- mean estimation


MEANS = Points(np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 0.5]]))


def test_the_mean_potential_by_hand():
    U = MeanPotential(MEANS)
    np.testing.assert_allclose(U.mu, MEANS.X.mean(axis=0), **EXACT)
    np.testing.assert_allclose(U.R2, MEANS.X.var(axis=0).sum(), **EXACT)
    assert U(MEANS.take([])) == 0.0
    np.testing.assert_allclose(U(MEANS), U.R2, **EXACT)
    off = MEANS.X[[0, 0, 1]].mean(axis=0) - MEANS.X.mean(axis=0)
    np.testing.assert_allclose(U(MEANS.take([0, 0, 1])), U.R2 - off @ off, **EXACT)


@pytest.mark.parametrize("index", [[], [0], [1, 1], [0, 1, 2, 2, 1]], ids=len)
@pytest.mark.parametrize(
    "database",
    [MEANS, Points(pd.DataFrame(MEANS.X, columns=["u", "v"])), Points(MEANS.X.astype(int))],
    ids=["array", "frame", "integers"],
)
def test_marginals_of_the_mean_equal_one_by_one(database, index):
    U = MeanPotential(database)
    S, Z = database.take(index), database.take([2, 1, 0, 0])
    np.testing.assert_allclose(marginals(U, S, Z), one_by_one(U, S, Z), **EXACT)
    bundles = Bundles(Z, ["b", "a", "b", "c"])
    np.testing.assert_allclose(marginals(U, S, bundles), one_by_one(U, S, bundles), **EXACT)


def enumerated(U, B, z, m):
    """The definition: the mean over k = 1..m and over all S in B^(k - 1) of U(S + z) - U(S)."""
    by_size = []
    for k in range(1, m + 1):
        sets = [B.take(list(rows)) for rows in itertools.product(range(len(B)), repeat=k - 1)]
        by_size.append(np.mean([U(S + z) - U(S) for S in sets]))
    return np.mean(by_size)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "B", [MEANS, Points([[-1.0], [1.0]]), Points([[3.0], [3.0], [4.5]])], ids=["2d", "1d", "twins"]
)
def test_the_exact_value_is_the_enumeration_of_every_set(B, m):
    U = MeanPotential(B)
    elsewhere = Points(np.full((1, B.X.shape[1]), 7.0))
    Z = B + elsewhere
    expected = [enumerated(U, B, z, m) for z in Z]
    # Values of order ten, sums of some hundred terms.
    np.testing.assert_allclose(U.value(Z, m=m), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("m", [1, 4, 50])
def test_the_mean_value_is_a_share_of_what_a_random_set_is_worth(m):
    U = MeanPotential(MEANS)
    worth = U.R2 - U.R2 / m  # E U(S) for |S| = m, U(empty) = 0
    np.testing.assert_allclose(U.value(MEANS, m=m).mean(), worth / m, **EXACT)


@given(
    rows=st.lists(st.floats(-5, 5), min_size=2, max_size=6),
    index=st.lists(st.integers(0, 1), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_marginals_of_any_mean_equal_one_by_one(rows, index):
    B = Points(np.array(rows).reshape(-1, 1))
    U = MeanPotential(B)
    S = B.take(index)
    np.testing.assert_allclose(marginals(U, S, B), one_by_one(U, S, B), rtol=0, atol=1e-11)


# --- what cannot be used: the points


def with_bad(points, bad, *, frame):
    X = points.X.copy()
    X[4, 1] = bad
    return Points(pd.DataFrame(X, columns=["age", "pay"]) if frame else X, points.y)


@PATHS
@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize(
    ("bad", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()], ids=["logistic", "bayes"])
def test_what_is_not_finite_is_refused_and_its_column_named(model, bad, what, frame, path):
    good, wrong = with_bad(TWO, 1.0, frame=frame), with_bad(TWO, bad, frame=frame)
    column = "pay" if frame else "1"
    with pytest.raises(InputError, match=f"test has {what} in column {column}: replace it"):
        potential(model, test=wrong, retrain=path)
    U = potential(model, test=good, retrain=path)
    U.check(good, name="database")
    with pytest.raises(InputError, match=f"database has {what} in column {column}: "):
        U.check(wrong, name="database")


def test_the_number_of_bad_columns_is_told():
    X = TWO.X.copy()
    X[0, 0] = X[1, 1] = np.nan
    with pytest.raises(InputError, match="NaN in column 0 and 1 more"):
        potential(GaussianNB(), test=(X, TWO.y))


@PATHS
def test_a_missing_category_is_refused_or_accepted_as_the_model_says(path):
    data = framed(TWO)
    gaps = data.X.assign(kind=data.X["kind"].where(data.X["kind"] != "mid"))
    assert gaps["kind"].isna().any()
    with pytest.raises(InputError, match="test has NaN in column kind"):
        potential(KNeighborsClassifier(), test=Points(gaps, data.y), retrain=path)
    boosting = HistGradientBoostingClassifier(
        max_iter=2, min_samples_leaf=2, categorical_features="from_dtype"
    )
    U = potential(boosting, test=Points(gaps, data.y))
    assert U(Points(gaps, data.y)) == boosting.fit(gaps, data.y).score(gaps, data.y)


@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2),
        make_pipeline(SimpleImputer(), LogisticRegression()),
    ],
    ids=["boosting", "imputer"],
)
def test_nan_is_accepted_by_models_that_accept_it(model, frame):
    data = with_bad(TWO, np.nan, frame=frame)
    U = potential(model, test=data)
    U.check(data, name="database")
    assert U(data) == clone(model).fit(data.X, data.y).score(data.X, data.y)
    with pytest.raises(InputError, match="infinity in column"):
        U.check(with_bad(TWO, np.inf, frame=frame), name="database")


def test_points_must_have_the_columns_of_the_test_set():
    array = potential(GaussianNB(), test=TWO)
    with pytest.raises(InputError, match="database has 3 columns but the test set has 2"):
        array.check(Points(np.zeros((2, 3)), ["no", "yes"]), name="database")
    table = pd.DataFrame(TWO.X, columns=["age", "pay"])
    with pytest.raises(InputError, match="database and test must both be arrays or both be data"):
        array.check(Points(table, TWO.y), name="database")
    frame = potential(GaussianNB(), test=Points(table, TWO.y))
    with pytest.raises(InputError, match="both be arrays or both be data frames"):
        frame.check(TWO, name="database")
    for other in (table[["pay", "age"]], table.rename(columns={"pay": "wage"})):
        with pytest.raises(InputError, match="differ from the test set's, starting at"):
            frame.check(Points(other, TWO.y), name="database")


def test_points_must_have_labels_that_fit_the_task():
    with pytest.raises(InputError, match="Z has no labels: give y"):
        potential(GaussianNB(), test=TWO).check(Points(TWO.X), name="Z")
    with pytest.raises(InputError, match=r"Z: y holds fractions.*use a regressor"):
        potential(GaussianNB(), test=TWO).check(NUMBERS, name="Z")
    with pytest.raises(InputError, match="Z: a regressor needs numbers for y, not <U3"):
        potential(Ridge(), test=NUMBERS).check(TWO, name="Z")


@PATHS
def test_check_points_looks_into_bundles_and_leaves_plain_functions_alone(path):
    wrong = with_bad(TWO, np.nan, frame=False)
    U = potential(GaussianNB(), test=TWO, retrain=path)
    check_points(U, TWO, name="Z")
    check_points(U, Bundles(TWO, TWO.y), name="Z")
    for points in (wrong, Bundles(wrong, wrong.y)):
        with pytest.raises(InputError, match="Z has NaN in column 1"):
            check_points(U, points, name="Z")
        check_points(len, points, name="Z")


# --- what cannot be used: the test set, the metric, the estimator


class OnlyLabels(ClassifierMixin, BaseEstimator):
    """A classifier with neither probabilities nor decision values."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.best_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return np.repeat(self.best_, len(X))


class Unknown:
    """An object that can be trained but has never heard of scikit-learn."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.p_ = counts / counts.sum()
        return self

    def predict(self, X):
        return np.repeat(self.classes_[self.p_.argmax()], len(X))


class UnknownClassifier(Unknown):
    """The same with probabilities, which make it a classifier."""

    def predict_proba(self, X):
        return np.tile(self.p_, (len(X), 1))


@pytest.mark.parametrize(
    ("model", "test", "metric", "message"),
    [
        (GaussianNB(), TWO, "r2", "r2 is a metric for regression, but GaussianNB does classif"),
        (Ridge(), NUMBERS, "accuracy", "accuracy is a metric for classification, but Ridge does"),
        (SVC(), TWO, "log_score", "log_score needs probabilities, which SVC does not give"),
        (SVC(), TWO, "brier", "brier needs probabilities, which SVC does not give"),
        (OnlyLabels(), TWO, "roc_auc", "roc_auc needs scores, which OnlyLabels does not give"),
        (OnlyLabels(), TWO, "brier", "brier needs probabilities, which OnlyLabels does not give"),
        (GaussianNB(), TWO.take([0, 0]), "roc_auc", "not defined on a test set of one class"),
        (Ridge(), NUMBERS.take([0, 0]), "r2", "the test set's y is constant"),
        (Ridge(), NUMBERS.take([0]), None, "the test set's y is constant"),
        (Ridge(), TWO, None, "test: a regressor needs numbers for y"),
        (GaussianNB(), NUMBERS, None, "test: y holds fractions"),
        (GaussianNB(), TWO, "acuracy", "unknown metric 'acuracy': did you mean 'accuracy'"),
        (
            GaussianNB(),
            Points(TWO.X),
            None,
            "test: the test set has no labels to score models on: give y",
        ),
        (GaussianNB(), TWO.take([]), None, "test: there are no rows"),
        (GaussianNB(), (TWO.X, TWO.y[:3]), None, "test: X has 40 rows but y has 3"),
        (GaussianNB(), TWO.X, None, "test: expected Points or a pair"),
        (KMeans(), TWO, None, "KMeans is neither a classifier nor a regressor"),
        (StandardScaler(), TWO, None, "StandardScaler is neither a classifier nor a regressor"),
        (GaussianNB, TWO, None, r"GaussianNB is a class: give an estimator, GaussianNB\(\)"),
        (7, TWO, None, "7 has no method fit: give a scikit-learn estimator"),
        (None, TWO, None, "None has no method fit"),
    ],
)
def test_what_does_not_fit_together_is_named(model, test, metric, message):
    with pytest.raises(InputError, match=message):
        potential(model, test=test, metric=metric)


def test_a_metric_of_labels_is_refused_for_a_regressor():
    metric = Metric("share right", "label", lambda y, p: (y == p).mean(axis=1))
    with pytest.raises(InputError, match="share right"):
        potential(Ridge(), test=NUMBERS, metric=metric)


def test_an_object_that_is_neither_classifier_nor_regressor_is_named():
    with pytest.raises(InputError, match="Unknown is neither a classifier nor a regressor"):
        potential(Unknown(), test=TWO)


def test_an_object_with_probabilities_is_a_classifier():
    U = potential(UnknownClassifier(), test=TWO, metric="brier")
    S = TWO.take(range(10))
    p = np.mean(S.y == "yes")
    expected = 1 - np.mean((p - (TWO.y == "yes")) ** 2)
    np.testing.assert_allclose(U(S), expected, **EXACT)


def test_a_classifier_without_scores_can_be_scored_by_its_labels():
    U = potential(OnlyLabels(), test=TWO)
    S = Points(TWO.X[:3], ["yes", "yes", "no"])
    assert U(S) == np.mean(TWO.y == "yes")


def test_the_default_metric_is_that_of_the_task():
    assert potential(GaussianNB(), test=TWO).metric.name == "accuracy"
    assert potential(Ridge(), test=NUMBERS).metric.name == "neg_mse"


def test_a_pair_is_a_test_set():
    pair, points = (TWO.X, TWO.y), TWO
    assert potential(GaussianNB(), test=pair)(TWO) == potential(GaussianNB(), test=points)(TWO)


class FlatRegressor(RegressorMixin, BaseEstimator):
    """A regressor that answers with a column, as some libraries do."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full((len(X), 1), self.mean_)


def test_predictions_may_come_as_a_column():
    U = potential(FlatRegressor(), test=NUMBERS, metric="r2")
    np.testing.assert_allclose(U(NUMBERS), 0.0, **EXACT)


# --- describe


def forest(**params):
    params = {"n_estimators": 5, "max_depth": 2} | params
    return make_pipeline(StandardScaler(), RandomForestClassifier(**params))


def one_metric(y, predictions):
    return float(np.mean(y == predictions))


def other_metric(y, predictions):
    return float(np.mean(y != predictions))


def described():
    """Potentials that must not be taken for each other."""
    X = TWO.X.copy()
    X[0, 0] += 1e-9
    flipped = TWO.y.copy()
    flipped[0] = "yes" if flipped[0] == "no" else "no"
    return {
        "base": potential(forest(), test=TWO),
        "a parameter": potential(forest(max_depth=3), test=TWO),
        "another step": potential(
            make_pipeline(StandardScaler(), DecisionTreeClassifier()), test=TWO
        ),
        "a step less": potential(RandomForestClassifier(n_estimators=5, max_depth=2), test=TWO),
        "the metric": potential(forest(), test=TWO, metric="f1"),
        "a function": potential(forest(), test=TWO, metric=one_metric),
        "another function": potential(forest(), test=TWO, metric=other_metric),
        "a number of the test set": potential(forest(), test=(X, TWO.y)),
        "a label of the test set": potential(forest(), test=(TWO.X, flipped)),
        "the worth of nothing": potential(forest(), test=TWO, empty=0.1),
        "min_rows": potential(forest(), test=TWO, min_rows=4),
        "mean": MeanPotential(TWO),
        "another mean": MeanPotential(Points(X, TWO.y)),
    }


@pytest.mark.parametrize("name", list(described()))
def test_a_description_is_stable_and_plain(name):
    first = describe(described()[name])
    assert first == describe(described()[name])
    assert json.loads(json.dumps(first, allow_nan=False)) == first


def test_descriptions_tell_potentials_apart():
    texts = {name: json.dumps(describe(U)) for name, U in described().items()}
    for one, other in itertools.combinations(texts, 2):
        assert texts[one] != texts[other], (one, other)


def test_a_description_can_be_read_by_people():
    shown = describe(described()["base"])
    assert shown["estimator"] == "sklearn.pipeline.Pipeline"
    assert shown["estimator.randomforestclassifier__max_depth"] == 2
    assert shown["metric"] == "accuracy"
    assert shown["test"] == TWO.fingerprint()
    assert shown["empty"] == potential(forest(), test=TWO).empty_value()


def test_training_does_not_change_a_description():
    U = described()["base"]
    before = describe(U)
    U(TWO.take(range(10)))
    assert describe(U) == before


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(SimpleImputer(), LogisticRegression()),
        HistGradientBoostingClassifier(),
        frame_model(GaussianNB()),
    ],
    ids=["imputer", "boosting", "columns"],
)
def test_each_part_of_a_description_equals_itself_when_read_back(model):
    data = framed(TWO) if "columntransformer" in str(model).lower() else TWO
    shown = describe(potential(model, test=data))
    back = json.loads(json.dumps(shown))
    assert [name for name in shown if back[name] != shown[name]] == []


def weighted():
    """A potential whose description holds a dictionary and a decorated function."""
    model = forest(class_weight={"no": 1, "yes": 2})
    test = (np.eye(4), ["no", "yes", "no", "yes"])
    return potential(model, test=test, metric=reference.f1_score, empty=0.0)


@pytest.mark.slow
def test_a_description_is_the_same_in_another_process():
    code = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_potentials import weighted
from dshapley.potentials import describe
print(json.dumps(describe(weighted())))
"""
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(there) == describe(weighted())
    assert json.loads(there)["metric"] == "f1_score"
