"""Parameters of trees that are beyond the fast path: refitted, and said."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import dshapley as ds
from conftest import labelled
from dshapley.errors import DShapleyWarning
from dshapley.learners import Fast, Refit
from dshapley.learners.trees.parameters import _PLAIN, _max_features

CHANGED = {
    "min_weight_fraction_leaf": 0.1,
    "max_leaf_nodes": 5,
    "min_impurity_decrease": 0.01,
    "ccp_alpha": 0.02,
    "monotonic_cst": [1, 0, 0],
    "warm_start": True,
}
KINDS = [
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
]


def unsupported():
    """Estimators, and what is said about them."""
    assert CHANGED.keys() == _PLAIN.keys()
    for kind in KINDS:
        known = kind().get_params()
        for name, value in CHANGED.items():
            if name in known:
                yield kind(**{name: value}), f"{name} = .* is not supported"
    for kind in KINDS:
        for name in ("min_samples_split", "min_samples_leaf"):
            yield kind(**{name: 0.1}), f"{name} as a share of the rows is not supported"
    for kind in (DecisionTreeRegressor, RandomForestRegressor, ExtraTreesRegressor):
        for criterion in ("poisson", "absolute_error"):
            yield kind(criterion=criterion), f"criterion = '{criterion}' is not supported"
    yield DecisionTreeClassifier(monotonic_cst=np.array([1, 0, 0])), "monotonic_cst = .* is not"
    for extra in ({"max_samples": 0.5}, {"oob_score": True}):
        yield RandomForestClassifier(bootstrap=False, **extra), "need bootstrap=True"
    for weights in ("balanced", {0: 1.0, 1: 2.0}):
        yield RandomForestClassifier(class_weight=weights), "class_weight with bootstrap=True"
    for kind in (RandomForestClassifier, ExtraTreesClassifier):
        yield (
            kind(class_weight="balanced_subsample", bootstrap=True),
            "class_weight = 'balanced_subsample' is not supported",
        )
    for params in ({"max_samples": 0.5}, {"oob_score": True}):
        for kind in (RandomForestClassifier, ExtraTreesRegressor):
            yield kind(bootstrap=False, **params), "need bootstrap=True"
    yield DecisionTreeClassifier(monotonic_cst=np.array([1, 0, 0])), "monotonic_cst"
    yield GradientBoostingClassifier(loss="exponential"), "loss = 'exponential' is not supported"
    for loss in ("huber", "absolute_error", "quantile"):
        yield GradientBoostingRegressor(loss=loss), f"loss = '{loss}' is not supported"
    yield GradientBoostingClassifier(init="zero"), "init is not supported"
    yield GradientBoostingClassifier(init=DummyClassifier()), "init is not supported"
    for kind in (GradientBoostingClassifier, GradientBoostingRegressor):
        yield kind(n_iter_no_change=3), "n_iter_no_change is not supported"
    yield AdaBoostClassifier(LogisticRegression()), "AdaBoost of LogisticRegression"
    yield AdaBoostClassifier(ExtraTreeClassifier()), "AdaBoost of ExtraTreeClassifier"
    for params in ({"max_leaf_nodes": 4}, {"ccp_alpha": 0.1}, {"class_weight": "balanced"}):
        yield AdaBoostClassifier(DecisionTreeClassifier(**params)), next(iter(params))


def points_for(estimator, n, *, seed=0):
    points = labelled(n, seed=seed)
    return points if hasattr(estimator, "predict_proba") else ds.Points(points.X, points.X[:, 0])


@pytest.mark.parametrize(("estimator", "reason"), list(unsupported()), ids=str)
def test_what_is_not_supported_is_refitted_and_says_so(estimator, reason):
    test = points_for(estimator, 20)
    with pytest.warns(DShapleyWarning, match=reason) as caught:
        U = ds.potential(estimator, test=test)
    assert len(caught) == 1
    assert isinstance(U.learner, Refit)
    described = U.describe()
    assert described["path"] == "refit"
    assert described["path.reason"].startswith(f"{type(estimator).__name__}: ")
    assert described["path.reason"] in str(caught[0].message)
    with pytest.raises(ds.InputError, match=reason):
        ds.potential(estimator, test=test, retrain="never")


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(criterion="log_loss", max_features="log2", max_depth=3),
        DecisionTreeRegressor(splitter="random", min_samples_leaf=2),
        RandomForestClassifier(3, max_samples=5, n_jobs=2, oob_score=True, verbose=0),
        RandomForestClassifier(3, bootstrap=False, class_weight="balanced"),
        ExtraTreesClassifier(3, class_weight={0: 1.0, 1: 2.0}),
        ExtraTreesRegressor(3, max_features=0.5, bootstrap=True),
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), learning_rate=0.5),
        GradientBoostingClassifier(n_estimators=3, subsample=0.5, tol=1e-3),
        GradientBoostingRegressor(n_estimators=3, max_features="sqrt", alpha=0.8),
    ],
    ids=str,
)
def test_what_is_supported_takes_the_fast_path(estimator):
    U = ds.potential(estimator, test=points_for(estimator, 20, seed=1), retrain="never")
    assert isinstance(U.learner, Fast)
    gains = U.marginals(points_for(estimator, 15), points_for(estimator, 3, seed=2))
    assert np.isfinite(gains).all()


@pytest.mark.parametrize("wanted", [None, "sqrt", "log2", 1, 4, 40, 0.01, 0.5, 0.99, 1.0], ids=str)
@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_as_many_features_as_scikit_learn_looks_at(wanted, d):
    X = np.random.default_rng(0).normal(size=(5, d))
    if not isinstance(wanted, int) or wanted <= d:
        model = DecisionTreeClassifier(max_features=wanted).fit(X, [0, 1, 0, 1, 0])
        assert _max_features(wanted, d) == model.max_features_


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_friedmans_criterion_has_the_same_splits():
    S, Z, test = (ds.Points(p.X, p.X[:, 0] ** 2) for p in (labelled(n) for n in (60, 4, 30)))
    model = DecisionTreeRegressor(criterion="friedman_mse", min_samples_leaf=9)
    gains = [
        ds.potential(model, test=test, retrain=path).seeded(2).marginals(S, Z)
        for path in ("never", "always")
    ]
    np.testing.assert_allclose(*gains, rtol=0.0, atol=1e-9)
