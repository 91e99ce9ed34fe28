"""Boosting in one loop is scikit-learn's boosting."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, softmax
from sklearn import datasets
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
from sklearn.tree import DecisionTreeClassifier

import dshapley as ds
from conftest import labelled
from dshapley.learners.trees.parameters import limits_of
from dshapley.learners.trees.splits import SQUARES
from trees import differences, first_draw, is_tie, tree_of

pytestmark = pytest.mark.slow

METRICS = ["accuracy", "balanced_accuracy", "f1", "roc_auc", "log_score", "brier"]


def numbers(n, d=4, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return ds.Points(X, X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=n))


def same(estimator, S, Z, test, metrics, *, seeds=(5,), atol=1e-9):
    """U(S) and every U(S + z) equal refitting."""
    for metric in metrics:
        U, refit = (
            ds.potential(estimator, test=test, metric=metric, retrain=path)
            for path in ("never", "always")
        )
        for seed in seeds:
            found, expected = (V.learner.scores(S, Z, V.query, seed) for V in (U, refit))
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol, err_msg=str(metric))


# --- AdaBoost


def boosted(depth, n_estimators=5, **params):
    tree = DecisionTreeClassifier(max_depth=depth, **params)
    return AdaBoostClassifier(tree, n_estimators=n_estimators)


@pytest.mark.parametrize(
    ("estimator", "classes"),
    [
        (AdaBoostClassifier(n_estimators=12), 2),
        (AdaBoostClassifier(n_estimators=12), 5),
        (AdaBoostClassifier(n_estimators=10, learning_rate=0.4), 3),
        (boosted(2), 2),
        (boosted(2), 3),
        (boosted(3, min_samples_leaf=8), 3),
        (boosted(2, max_features=2, criterion="entropy"), 2),
        (boosted(1, splitter="random"), 4),
    ],
    ids=["stumps", "stumps", "slow", "depth 2", "depth 2", "depth 3", "some features", "random"],
)
def test_adaboost(estimator, classes):
    S, Z, test = (labelled(n, 4, seed=n, classes=classes) for n in (150, 2, 60))
    # Of several classes a few trees give the same probability in many ways, and areas under the
    # curve depend on their last bits.
    metrics = METRICS if classes == 2 else [name for name in METRICS if name != "roc_auc"]
    same(estimator, S, Z, test, metrics)


@pytest.mark.parametrize(
    ("depth", "classes", "n", "same_trees"),
    [(1, 2, 30, 15), (1, 2, 150, 15), (1, 4, 30, 15), (1, 4, 150, 15),
     (3, 2, 30, 4), (3, 2, 150, 15), (3, 4, 30, 9), (3, 4, 150, 13)],
)  # fmt: skip
def test_adaboost_stage_by_stage(depth, classes, n, same_trees):
    """From the same weights the same tree, or another from a node on with an equal split.

    Or the rows there are of one class, which rounding may hide from scikit-learn.
    """
    S = labelled(n, 5, seed=n, classes=classes)
    model = boosted(depth, 15).set_params(random_state=3).fit(S.X, S.y)
    allowed = limits_of(model.estimators_[0], S.X.shape[1], classes)
    indicators = (S.y == np.arange(classes)[:, np.newaxis]) + 0.0
    w = np.full(n, 1.0 / n)
    n_same = 0
    for theirs, say in zip(model.estimators_, model.estimator_weights_, strict=False):
        ours, _ = tree_of(S.X, S.y, w, first_draw(theirs.random_state), allowed)
        parted = list(differences(ours, theirs.tree_, S.X, w))
        for rows, *splits in parted:
            assert len(set(S.y[rows])) == 1 or is_tie(rows, *splits, S.X, indicators, w)
        n_same += not parted
        w = w * np.exp(say * (theirs.predict(S.X) != S.y))
        w /= w.sum()
    # Of 15. Sums that another machine rounds otherwise may part two more.
    assert n_same >= same_trees - 2


def separable(n, seed):
    """The first column tells the classes apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return ds.Points(X, (X[:, 0] > 0.0).astype(int))


@pytest.mark.parametrize("metric", METRICS)
def test_adaboost_stops_at_a_perfect_tree(metric):
    S, Z, test = separable(40, 0), separable(4, 1), separable(50, 2)
    model = AdaBoostClassifier(n_estimators=20)
    assert len(model.fit(S.X, S.y).estimators_) == 1
    same(model, S, Z, test, [metric])


def test_adaboost_stops_where_a_tree_is_no_better_than_a_guess():
    """Of two values there is one stump; after it all that is left is an error of a half."""
    S = ds.Points([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 1, 1, 0])
    test = ds.Points([[0.0], [1.0], [1.0]], [0, 1, 0])
    model = AdaBoostClassifier(n_estimators=10)
    assert len(model.fit(S.X, S.y).estimators_) < 10
    same(model, S, S.take([0, 3]), test, METRICS)


@pytest.mark.parametrize("path", ["never", "always"])
def test_adaboost_that_cannot_start_predicts_its_labels(path):
    """Where no feature tells the classes apart the first tree is a guess, an error to sklearn."""
    S = ds.Points(np.ones((6, 2)), [0, 1, 0, 1, 0, 1])
    test = labelled(10, 2)
    with pytest.raises(ValueError, match="worse than random"):
        AdaBoostClassifier(n_estimators=3).fit(S.X, S.y)
    U = ds.potential(AdaBoostClassifier(n_estimators=3), test=test, metric="brier", retrain=path)
    expected = U.query.score(U.query.constant(S.y))[0]
    assert U(S) == expected
    assert U.marginals(S, S.take([0, 1])).shape == (2,)


# --- gradient boosting


BOOSTERS = [
    {"n_estimators": 8, "min_samples_leaf": 12},
    {"n_estimators": 12, "max_depth": 1, "learning_rate": 0.5},
    {"n_estimators": 6, "subsample": 0.6, "min_samples_leaf": 12},
    {"n_estimators": 6, "max_features": 2, "max_depth": 2, "min_samples_leaf": 12},
    {"n_estimators": 6, "min_samples_split": 60, "subsample": 0.8, "max_features": "sqrt"},
]
"""Leaves of many rows, for splits without ties."""


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("params", BOOSTERS, ids=str)
def test_gradient_boosting_of_classes(params, classes):
    S, Z, test = (labelled(n, 4, seed=n, classes=classes) for n in (220, 2, 60))
    same(GradientBoostingClassifier(**params), S, Z, test, METRICS)


@pytest.mark.parametrize("params", BOOSTERS, ids=str)
def test_gradient_boosting_of_numbers(params):
    S, Z, test = (numbers(n, seed=n) for n in (220, 3, 60))
    metrics = ["r2", "neg_mse", lambda y, f: -float(np.abs(y - f).max())]
    same(GradientBoostingRegressor(**params), S, Z, test, metrics)


def test_gradient_boosting_with_a_class_that_is_new():
    S, Z, test = (labelled(n, 4, seed=n, classes=3) for n in (220, 7, 60))
    S = S.take(np.flatnonzero(S.y != 2))
    assert set(Z.y.tolist()) == {0, 1, 2}
    same(GradientBoostingClassifier(**BOOSTERS[1]), S, Z, test, METRICS)
    same(AdaBoostClassifier(n_estimators=6), S, Z, test, METRICS)


def raw_predictions(model, S):
    """(stages, rows, columns) before each stage."""
    if isinstance(model, GradientBoostingRegressor):
        stages, start = model.staged_predict(S.X), np.full(1, S.y.mean())
    else:
        stages, shares = model.staged_decision_function(S.X), np.bincount(S.y) / len(S)
        logs = np.log(shares)
        start = logs - logs.mean() if len(shares) > 2 else logs[1:] - logs[:1]
    before = np.broadcast_to(start, (len(S), len(start)))
    for after in stages:
        yield before
        before = after.reshape(before.shape)


def residuals(model, raw, y):
    if isinstance(model, GradientBoostingRegressor):
        return y[:, np.newaxis] - raw
    if raw.shape[1] == 1:
        return y[:, np.newaxis] - expit(raw)
    return (y[:, np.newaxis] == np.arange(raw.shape[1])) - softmax(raw, axis=1)


@pytest.mark.parametrize("n", [30, 150])
@pytest.mark.parametrize(
    ("kind", "classes"),
    [(GradientBoostingClassifier, 2), (GradientBoostingClassifier, 4),
     (GradientBoostingRegressor, 0)],
)  # fmt: skip
def test_gradient_boosting_stage_by_stage(kind, classes, n):
    """From the same residuals the same tree, or another from a node on with an equal split.

    Or the residuals there are all equal, which rounding may hide from scikit-learn.
    """
    S = labelled(n, 5, seed=n, classes=classes) if classes else numbers(n, seed=n)
    model = kind(n_estimators=25, random_state=3).fit(S.X, S.y)
    allowed = limits_of(model, S.X.shape[1], 0)._replace(criterion=SQUARES)
    rng = np.random.RandomState(3)
    w = np.ones(n)
    n_same = 0
    for raw, stage in zip(raw_predictions(model, S), model.estimators_, strict=True):
        for column, theirs in zip(residuals(model, raw, S.y).T, stage, strict=True):
            ours, _ = tree_of(S.X, column, w, rng.randint(0, 2**31 - 1), allowed)
            parted = list(differences(ours, theirs.tree_, S.X, w))
            for rows, *splits in parted:
                equal = np.ptp(column[rows]) <= 1e-12
                assert equal or is_tie(rows, *splits, S.X, [column], w)
            n_same += not parted
    assert n_same >= 0.9 * model.estimators_.size  # 94 % or more


# --- at scikit-learn's default parameters


def training_sets(name, n, *, k=80):
    """n times: S of k rows of a real table, one z, and 300 test rows or those that are left."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    for seed in range(n):
        order = np.random.default_rng(seed).permutation(len(X))
        parts = order[:k], order[k : k + 1], order[k + 1 : k + 301]
        yield [ds.Points(X[part], y[part]) for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "name", "metric"),
    [
        (GradientBoostingClassifier(), "breast_cancer", "log_score"),
        (GradientBoostingClassifier(), "wine", "brier"),
        (GradientBoostingRegressor(), "diabetes", "neg_mse"),
        (AdaBoostClassifier(), "breast_cancer", "brier"),
        (AdaBoostClassifier(), "wine", "brier"),
    ],
    ids=str,
)
def test_defaults_equal_scikit_learn_in_distribution(estimator, name, metric):
    """U(S) and U(S + z), over training sets and seeds.

    The seed decides between equal splits, of which there are many in small leaves. So scores of
    the same training set differ, and as much as those of two seeds of scikit-learn do.
    """
    n, columns = 30, []
    for seed, (S, z, test) in enumerate(training_sets(name, n)):
        fast, refit = (
            ds.potential(estimator, test=test, metric=metric, retrain=path)
            for path in ("never", "always")
        )
        draws = ((fast, seed), (refit, 1000 + seed), (refit, 2000 + seed))
        columns.append([U.learner.scores(S, z, U.query, s) for U, s in draws])
    ours, theirs, again = np.moveaxis(np.round(columns, 9), 1, 0)  # sums in another order
    apart, luck = ours - theirs, again - theirs
    error = apart.std(axis=0, ddof=1) / np.sqrt(n)
    assert (np.abs(apart.mean(axis=0)) <= 3.0 * error).all(), apart.mean(axis=0) / error
    ratio = np.log(ours.std(axis=0) / theirs.std(axis=0))
    assert np.abs(ratio).max() <= 3.0 / np.sqrt(n), np.exp(ratio)
    # By ranks, since a few training sets make up most of the spread; 0.0027 is three errors.
    assert stats.mannwhitneyu(np.abs(apart), np.abs(luck)).pvalue.min() > 0.0027
