"""Refitting: equal to scikit-learn's own fit and score, with common random numbers."""

import contextlib
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from dshapley import (
    Bundles,
    Design,
    FitError,
    InputError,
    Metric,
    Points,
    learner,
    marginals,
    potential,
    run,
)
from dshapley.learners import Query, Refit
from dshapley.learners.refit import is_classifier
from dshapley.metrics import as_metric
from dshapley.potentials import ModelPotential

# The same model, scored by another formula: rounding only.
EXACT = {"rtol": 0.0, "atol": 1e-12}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The fits here are tiny: threads would only wait for each other."""
    with threadpool_limits(1):
        yield


def refit(estimator, test, metric=None, *, min_rows=1):
    """The potential by refitting, also where a faster learner knows the estimator."""
    classification = is_classifier(estimator)
    metric = metric or ("accuracy" if classification else "r2")
    return ModelPotential(
        Refit(estimator, min_rows), test, metric=as_metric(metric), classification=classification
    )


def classified(n, classes, *, seed, columns=3):
    """Points around one centre for each class; every class is there."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(len(classes)), rng.integers(len(classes), size=n)])[:n]
    X = rng.normal(size=(n, columns)) + codes[:, np.newaxis]
    return Points(X, np.asarray(classes)[codes])


def measured(n, *, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return Points(X, X @ [1.0, -2.0, 0.0] + rng.normal(scale=0.5, size=n))


TWO, TWO_TEST = classified(40, [0, 1], seed=0), classified(60, [0, 1], seed=1)
THREE, THREE_TEST = classified(45, list("abc"), seed=2), classified(60, list("abc"), seed=3)
NUMBERS, NUMBERS_TEST = measured(40, seed=4), measured(50, seed=5)


def name_of(estimator):
    return type(estimator).__name__


# --- equal to plain scikit-learn


CLASSIFIERS = [
    LogisticRegression(),
    LogisticRegression(C=0.01, class_weight="balanced"),
    GaussianNB(),
    BernoulliNB(),
    KNeighborsClassifier(3),
    KNeighborsClassifier(4, weights="distance"),
    NearestCentroid(),
    SVC(),
    SVC(kernel="linear", C=10),
    RidgeClassifier(),
    LinearDiscriminantAnalysis(),
    DummyClassifier(strategy="prior"),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(PCA(2, svd_solver="full"), SVC()),
    GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 2]}, cv=2),
]
REGRESSORS = [
    LinearRegression(),
    Ridge(),
    Ridge(alpha=100.0, fit_intercept=False),
    KNeighborsRegressor(3),
    SVR(),
    DummyRegressor(strategy="median"),
    make_pipeline(StandardScaler(), Ridge()),
]


@pytest.mark.parametrize("n", [9, 40])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
@pytest.mark.parametrize(
    ("data", "test"), [(TWO, TWO_TEST), (THREE, THREE_TEST)], ids=["numbers", "text"]
)
def test_classifiers_equal_a_plain_fit_and_score(estimator, data, test, n):
    S = data.take(range(n))
    plain = clone(estimator).fit(S.X, S.y)
    expected = plain.score(test.X, test.y)
    np.testing.assert_allclose(refit(estimator, test)(S), expected, **EXACT)
    np.testing.assert_allclose(refit(estimator, test, accuracy_score)(S), expected, **EXACT)


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("estimator", REGRESSORS, ids=name_of)
def test_regressors_equal_a_plain_fit_and_score(estimator, n):
    S = NUMBERS.take(range(n))
    expected = clone(estimator).fit(S.X, S.y).score(NUMBERS_TEST.X, NUMBERS_TEST.y)
    np.testing.assert_allclose(refit(estimator, NUMBERS_TEST)(S), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bundled", [False, True], ids=["points", "bundles"])
@pytest.mark.parametrize("estimator", [GaussianNB(), SVC(), KNeighborsClassifier(3)], ids=name_of)
def test_marginals_equal_plain_fits(estimator, bundled):
    S, Z = THREE.take(range(12)), THREE.take([20, 21, 21, 30])
    if bundled:
        Z = Bundles(Z, ["west", "east", "west", "north"])

    def score(T):
        return clone(estimator).fit(T.X, T.y).score(THREE_TEST.X, THREE_TEST.y)

    expected = [score(S + z) - score(S) for z in Z]
    gains = marginals(refit(estimator, THREE_TEST), S, Z)
    np.testing.assert_allclose(gains, expected, **EXACT)


def recording(kind):
    """A subclass that keeps the random states it was trained with."""

    class Recording(kind):
        states: ClassVar[list] = []

        def fit(self, X, y):
            self.states.append(self.random_state)
            return super().fit(X, y)

    # The parameters are those of the parent's signature.
    Recording.__init__ = kind.__init__
    return Recording


@pytest.mark.parametrize(
    ("kind", "params", "data", "test"),
    [
        (DecisionTreeClassifier, {"max_features": 1}, THREE, THREE_TEST),
        (RandomForestClassifier, {"n_estimators": 4}, THREE, THREE_TEST),
        (ExtraTreesClassifier, {"n_estimators": 4}, TWO, TWO_TEST),
        (SGDClassifier, {"max_iter": 5, "tol": None}, TWO, TWO_TEST),
        (DecisionTreeRegressor, {"max_features": 1}, NUMBERS, NUMBERS_TEST),
        (RandomForestRegressor, {"n_estimators": 4}, NUMBERS, NUMBERS_TEST),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_random_learners_equal_a_plain_fit_of_the_same_state(kind, params, data, test):
    kept = recording(kind)
    S = data.take(range(20))
    found = refit(kept(**params), test).seeded(7)(S)
    assert len(kept.states) == 1
    assert isinstance(kept.states[0], int)
    plain = kind(**params, random_state=kept.states[0]).fit(S.X, S.y)
    np.testing.assert_allclose(found, plain.score(test.X, test.y), **EXACT)


def test_the_given_estimator_is_never_trained():
    estimator = LogisticRegression()
    U = refit(estimator, TWO_TEST)
    U(TWO)
    marginals(U, TWO, TWO.take([0]))
    assert not hasattr(estimator, "coef_")


# --- common random numbers


FORESTS = [
    RandomForestClassifier(n_estimators=3),
    make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=3)),
    BaggingClassifier(DecisionTreeClassifier(max_features=1), n_estimators=3),
    VotingClassifier(
        [("forest", RandomForestClassifier(n_estimators=3)), ("bayes", GaussianNB())],
        voting="soft",
    ),
]


@pytest.mark.parametrize("estimator", FORESTS, ids=name_of)
def test_a_point_added_twice_gains_the_same(estimator):
    U = refit(estimator, TWO_TEST, "brier").seeded(3)
    S = TWO.take(range(12))
    first, again = marginals(U, S, TWO.take([20, 20]))
    assert first == again
    assert marginals(U, S, TWO.take([30, 20]))[1] == first
    assert U(S + TWO.take([20])) - U(S) == first


@pytest.mark.parametrize("estimator", FORESTS, ids=name_of)
def test_a_seed_gives_the_same_number_and_another_seed_another(estimator):
    U = refit(estimator, TWO_TEST, "brier")
    S = TWO.take(range(12))
    assert U.seeded(1)(S) == U.seeded(1)(S)
    assert U.seeded(1)(S) != U.seeded(2)(S)
    assert U.seeded(1)(S) == refit(clone(estimator), TWO_TEST, "brier").seeded(1)(S)


@pytest.mark.parametrize("state", [None, 0, 1, np.random.RandomState(5)], ids=str)
def test_the_users_random_state_is_overridden(state):
    S = TWO.take(range(12))
    plain = refit(RandomForestClassifier(n_estimators=3), TWO_TEST, "brier")
    given = RandomForestClassifier(n_estimators=3, random_state=state)
    U = refit(given, TWO_TEST, "brier")
    for seed in (1, 2):
        assert U.seeded(seed)(S) == plain.seeded(seed)(S)
    assert given.random_state is state


class Noisy(ClassifierMixin, BaseEstimator):
    """Predicts at random, and keeps the random states that it was trained with."""

    log: ClassVar[list] = []

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.log.append((self.random_state, len(X)))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        rng = np.random.default_rng(self.random_state)
        return rng.choice(self.classes_, size=len(X))


@pytest.fixture
def log():
    Noisy.log.clear()
    return Noisy.log


def test_s_and_every_s_plus_z_are_trained_with_one_state(log):
    U = refit(Noisy(), TWO_TEST)
    S = TWO.take(range(5))
    marginals(U.seeded(1), S, TWO.take([7, 8, 9]))
    marginals(U.seeded(1), S, Bundles(TWO.take([7, 8, 9]), [0, 0, 1]))
    assert [rows for _, rows in log] == [5, 6, 6, 6, 5, 7, 6]
    assert len({state for state, _ in log}) == 1
    marginals(U.seeded(2), S, TWO.take([7]))
    assert log[-1][0] == log[-2][0] != log[0][0]


def test_common_random_numbers_cancel(log):
    U = refit(Noisy(), TWO_TEST).seeded(1)
    S = TWO.take(range(5))
    assert 0.0 < U(S) < 1.0
    assert marginals(U, S, TWO.take([7, 8])).tolist() == [0.0, 0.0]


def test_every_nested_state_is_set_and_each_to_its_own(log):
    steps = [("one", Noisy(random_state=0)), ("two", Noisy()), ("three", Noisy(random_state=0))]
    U = refit(VotingClassifier(steps), TWO_TEST)
    U.seeded(1)(TWO)
    first = [state for state, _ in log]
    assert len(set(first)) == 3
    assert all(isinstance(state, int) for state in first)
    log.clear()
    U.seeded(1)(TWO)
    assert [state for state, _ in log] == first
    log.clear()
    U.seeded(2)(TWO)
    assert not set(first) & {state for state, _ in log}


# --- neighbours


@pytest.mark.parametrize("neighbours", [5, 50, np.int64(50)], ids=["few", "many", "numpy"])
@pytest.mark.parametrize("n", [2, 4, 7])
def test_nearest_neighbours_use_all_of_a_small_set(neighbours, n):
    S, capped = THREE.take(range(n)), min(int(neighbours), n)
    expected = KNeighborsClassifier(capped).fit(S.X, S.y).score(THREE_TEST.X, THREE_TEST.y)
    assert refit(KNeighborsClassifier(neighbours), THREE_TEST)(S) == expected
    model = KNeighborsRegressor(capped).fit(NUMBERS.X[:n], NUMBERS.y[:n])
    expected = model.score(NUMBERS_TEST.X, NUMBERS_TEST.y)
    U = refit(KNeighborsRegressor(neighbours), NUMBERS_TEST)
    np.testing.assert_allclose(U(NUMBERS.take(range(n))), expected, **EXACT)


def test_nearest_neighbours_in_a_pipeline_use_all_of_a_small_set():
    S = THREE.take(range(4))
    expected = make_pipeline(StandardScaler(), KNeighborsClassifier(4)).fit(S.X, S.y)
    estimator = make_pipeline(StandardScaler(), KNeighborsClassifier(30))
    found = refit(estimator, THREE_TEST)(S)
    assert found == expected.score(THREE_TEST.X, THREE_TEST.y)
    assert estimator[-1].n_neighbors == 30


def test_one_neighbour_more_counts_as_soon_as_it_is_there():
    """With 4 rows and n_neighbors = 5, S + z is voted on by all five."""
    S, Z = THREE.take(range(4)), THREE.take([10, 11])
    estimator = KNeighborsClassifier(5)
    before = KNeighborsClassifier(4).fit(S.X, S.y).score(THREE_TEST.X, THREE_TEST.y)
    after = [estimator.fit(T.X, T.y).score(THREE_TEST.X, THREE_TEST.y) for T in (S + z for z in Z)]
    gains = marginals(refit(KNeighborsClassifier(5), THREE_TEST), S, Z)
    np.testing.assert_allclose(gains, np.array(after) - before, **EXACT)


# --- fits that fail


class Demanding(ClassifierMixin, BaseEstimator):
    """Cannot be trained on fewer than `least` rows."""

    def __init__(self, least=5):
        self.least = least

    def fit(self, X, y):
        if len(X) < self.least:
            raise ArithmeticError(f"there must be\n   {self.least} rows")
        self.inner_ = GaussianNB().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


def test_a_failing_fit_names_the_estimator_the_rows_and_the_reason():
    U = refit(Demanding(), THREE_TEST)
    with pytest.raises(FitError) as caught:
        U(THREE.take(range(3)))
    message = str(caught.value)
    assert "Demanding could not be trained and scored on 3 rows" in message
    assert "there must be 5 rows" in message
    assert "min_rows" in message
    assert isinstance(caught.value.__cause__, ArithmeticError)


def test_a_failing_fit_is_never_a_zero():
    U = refit(Demanding(), THREE_TEST)
    with pytest.raises(FitError, match="on 4 rows"):
        marginals(U, THREE.take(range(4)), THREE.take([10]))
    with pytest.raises(FitError, match="on 2 rows"):
        marginals(U, THREE.take([]), Bundles(THREE.take([0, 1]), [0, 0]))


@pytest.mark.parametrize(
    ("estimator", "least"),
    [(Demanding(5), 5), (make_pipeline(PCA(3), GaussianNB()), 3)],
    ids=["demanding", "components"],
)
def test_min_rows_gives_small_sets_a_constant_predictor(estimator, least):
    U = potential(estimator, test=THREE_TEST, min_rows=least)
    S = Points(THREE.X[: least - 1], np.array(["b", "b", "a", "c"])[: least - 1])
    assert U(S) == np.mean(THREE_TEST.y == "b")
    T = THREE.take(range(least))
    expected = clone(estimator).fit(T.X, T.y).score(THREE_TEST.X, THREE_TEST.y)
    np.testing.assert_allclose(U(T), expected, **EXACT)
    gains = marginals(U, THREE.take(range(least - 1)), THREE.take([least - 1]))
    np.testing.assert_allclose(gains, [expected - U(THREE.take(range(least - 1)))], **EXACT)


def test_min_rows_gives_a_small_set_the_mean_of_its_labels():
    U = refit(LinearRegression(), NUMBERS_TEST, "neg_mse", min_rows=4)
    S = NUMBERS.take(range(3))
    constant = np.full((1, len(NUMBERS_TEST)), S.y.mean())
    expected = U.metric.score(NUMBERS_TEST.y, constant)[0]
    np.testing.assert_allclose(U(S), expected, **EXACT)


class Interrupted(Demanding):
    def fit(self, X, y):
        raise KeyboardInterrupt


def test_an_interrupt_is_not_taken_for_a_failing_fit():
    with pytest.raises(KeyboardInterrupt):
        refit(Interrupted(), THREE_TEST)(THREE)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(copy=False), LinearRegression()),
        LinearRegression(copy_X=False),
    ],
    ids=["scaler", "linear"],
)
def test_an_estimator_that_writes_into_its_input_changes_no_points(estimator):
    S, Z, test = (
        Points(points.X.copy(), points.y)
        for points in (NUMBERS.take(range(10)), NUMBERS.take([20, 21]), NUMBERS_TEST)
    )
    with contextlib.suppress(FitError):  # to refuse such an estimator is as good
        marginals(refit(estimator, test), S, Z)
    np.testing.assert_array_equal(test.X, NUMBERS_TEST.X)
    np.testing.assert_array_equal(S.X, NUMBERS.X[:10])
    np.testing.assert_array_equal(Z.X, NUMBERS.X[[20, 21]])


# --- AUC


@pytest.mark.parametrize(
    "estimator",
    [SVC(), LinearSVC(random_state=0), RidgeClassifier(), LogisticRegression()],
    ids=name_of,
)
def test_auc_of_two_classes_through_the_decision_function(estimator):
    S = TWO.take(range(20))
    model = clone(estimator).fit(S.X, S.y)
    expected = roc_auc_score(TWO_TEST.y, model.decision_function(TWO_TEST.X))
    np.testing.assert_allclose(refit(estimator, TWO_TEST, "roc_auc")(S), expected, **EXACT)


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), KNeighborsClassifier(5), make_pipeline(StandardScaler(), GaussianNB())],
    ids=name_of,
)
def test_auc_of_two_classes_through_probabilities(estimator):
    S = TWO.take(range(20))
    model = clone(estimator).fit(S.X, S.y)
    expected = roc_auc_score(TWO_TEST.y, model.predict_proba(TWO_TEST.X)[:, 1])
    np.testing.assert_allclose(refit(estimator, TWO_TEST, "roc_auc")(S), expected, **EXACT)


def test_auc_of_two_named_classes_has_the_second_for_its_positive():
    S, test = (
        Points(points.X, np.where(points.y == 1, "worse", "fine")) for points in (TWO, TWO_TEST)
    )
    numbered, named = refit(SVC(), TWO_TEST, "roc_auc"), refit(SVC(), test, "roc_auc")
    assert named(S) == numbered(TWO)


@pytest.mark.parametrize("estimator", [GaussianNB(), LogisticRegression()], ids=name_of)
def test_auc_of_three_classes_through_probabilities(estimator):
    model = clone(estimator).fit(THREE.X, THREE.y)
    p = model.predict_proba(THREE_TEST.X)
    expected = roc_auc_score(THREE_TEST.y, p, multi_class="ovr", average="macro")
    np.testing.assert_allclose(refit(estimator, THREE_TEST, "roc_auc")(THREE), expected, **EXACT)


def one_against_rest(y, columns):
    """The mean AUC over the classes a, b, c of the given columns."""
    return np.mean(
        [roc_auc_score(y == c, column) for c, column in zip("abc", columns, strict=True)]
    )


@pytest.mark.parametrize("estimator", [RidgeClassifier(), SVC()], ids=name_of)
def test_auc_of_three_classes_through_the_decision_function(estimator):
    model = clone(estimator).fit(THREE.X, THREE.y)
    expected = one_against_rest(THREE_TEST.y, model.decision_function(THREE_TEST.X).T)
    np.testing.assert_allclose(refit(estimator, THREE_TEST, "roc_auc")(THREE), expected, **EXACT)


@pytest.mark.parametrize("estimator", [RidgeClassifier(), SVC(), GaussianNB()], ids=name_of)
def test_auc_where_one_of_three_classes_was_never_seen(estimator):
    S = THREE.take(np.flatnonzero(THREE.y != "b"))
    model = clone(estimator).fit(S.X, S.y)
    if hasattr(model, "predict_proba"):
        first, last = model.predict_proba(THREE_TEST.X).T
    else:
        last = model.decision_function(THREE_TEST.X)
        first = -last
    expected = one_against_rest(THREE_TEST.y, [first, np.zeros(len(last)), last])
    np.testing.assert_allclose(refit(estimator, THREE_TEST, "roc_auc")(S), expected, **EXACT)


@pytest.mark.parametrize("estimator", [RidgeClassifier(), SVC(), GaussianNB()], ids=name_of)
def test_a_class_that_was_never_seen_ranks_below_all_others(estimator):
    """Also where every decision value is below zero."""
    test = classified(80, list("abcd"), seed=8)
    top = Metric("top", "score", lambda y, scores: (scores.argmax(axis=2) == y).mean(axis=1))
    expected = clone(estimator).fit(THREE.X, THREE.y).score(test.X, test.y)
    np.testing.assert_allclose(refit(estimator, test, top)(THREE), expected, **EXACT)


def test_auc_does_not_take_pairs_of_classes_for_classes():
    """One decision value for each pair of classes says nothing class by class."""
    expected = refit(SVC(), THREE_TEST, "roc_auc")(THREE)
    pairs = SVC(decision_function_shape="ovo")
    with contextlib.suppress(InputError, FitError):  # to refuse it is as good
        found = refit(pairs, THREE_TEST, "roc_auc")(THREE)
        # The two shapes rank by the same votes: nearly the same areas.
        assert abs(found - expected) < 0.1


# --- whole pipelines on data frames


def people(n, *, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, size=n),
            "city": pd.Categorical(
                rng.choice(["Oslo", "Bergen", "Bodo"], size=n),
                categories=["Oslo", "Bergen", "Bodo"],
            ),
            "job": rng.choice(["baker", "smith"], size=n),
        }
    )
    score = 0.1 * (table["age"] - 40) + 2.0 * (table["city"] == "Oslo")
    return Points(table, np.where(score + rng.normal(size=n) > 0.5, "buys", "leaves"))


PEOPLE, PEOPLE_TEST = people(40, seed=6), people(50, seed=7)


def by_names(**encoder):
    return make_column_transformer(
        (OneHotEncoder(**encoder), ["city", "job"]), (StandardScaler(), ["age"])
    )


def by_types():
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("columns", [by_names(handle_unknown="ignore"), by_types()], ids=["n", "t"])
def test_a_whole_pipeline_is_refitted_on_a_frame(columns, metric):
    estimator = make_pipeline(columns, LogisticRegression())
    U = refit(estimator, PEOPLE_TEST, metric)
    S, Z = PEOPLE.take([0, 1, 2, 3, 4, 5, 5, 7]), PEOPLE.take([20, 21, 30])

    def score(T):
        model = clone(estimator).fit(T.X, T.y)
        if metric == "accuracy":
            return model.score(PEOPLE_TEST.X, PEOPLE_TEST.y)
        decision = model.decision_function(PEOPLE_TEST.X)
        return roc_auc_score(PEOPLE_TEST.y == "leaves", decision)

    np.testing.assert_allclose(U(S), score(S), **EXACT)
    expected = [score(S + z) - score(S) for z in Z]
    np.testing.assert_allclose(marginals(U, S, Z), expected, **EXACT)


def test_a_category_that_s_lacks_fails_by_name_where_the_encoder_is_strict():
    U = potential(make_pipeline(by_names(), LogisticRegression()), test=PEOPLE_TEST)
    lacking = PEOPLE.take(np.flatnonzero(PEOPLE.X["city"] == "Oslo"))
    assert len(set(lacking.y)) == 2
    with pytest.raises(FitError, match=r"Pipeline could not be trained .*unknown"):
        U(lacking)


# --- what is no estimator


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (
            LogisticRegression,
            r"LogisticRegression is a class: give an estimator, LogisticReg.*\(\)",
        ),
        (7, "7 has no method fit"),
        (len, "has no method fit"),
        (None, "None has no method fit"),
    ],
)
def test_what_is_no_estimator_is_refused(thing, message):
    with pytest.raises(InputError, match=message):
        Refit(thing)
    with pytest.raises(InputError, match=message):
        potential(thing, test=TWO_TEST)


# --- the query


def query(output, y, classes=True):
    y = np.asarray(y)
    metric = Metric("none", output, lambda y, outputs: np.zeros(len(outputs)))
    return Query(Points(np.zeros((len(y), 1)), y), metric, np.unique(y) if classes else None)


def test_codes_are_the_places_of_labels_among_the_classes():
    asked = query("label", ["b", "a", "c", "a"])
    assert asked.targets.tolist() == [1, 0, 2, 0]
    assert asked.codes(np.array(["c", "aa", "zz", "A", "b"])).tolist() == [2, -1, -1, -1, 1]


def test_plain_predictions_are_compared_with_the_labels_themselves():
    asked = query("prediction", ["b", "a", "c", "a"])
    assert asked.targets.tolist() == ["b", "a", "c", "a"]


def test_spread_moves_columns_to_their_classes_and_the_unknown_behind():
    asked = query("probability", ["a", "b", "c"])
    columns = np.array([[0.1, 0.2, 0.7]])
    wide = asked.spread(np.array(["A", "c", "d"]), columns, fill=0.0)
    assert wide.tolist() == [[0.0, 0.0, 0.2, 0.1, 0.7]]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("label", [[1, 1, 1]]),
        ("prediction", [["b", "b", "b"]]),
        ("probability", [[[0.25, 0.5, 0.25]] * 3]),
        ("score", [[[0.25, 0.5, 0.25]] * 3]),
    ],
)
def test_the_constant_predictor_of_some_labels(output, expected):
    asked = query(output, ["a", "b", "a"])  # the label d is none of these
    constant = asked.constant(np.array(["b", "a", "b", "d"]))
    assert constant.tolist() == expected


def test_the_constant_predictor_of_equals_takes_the_first():
    assert query("prediction", ["a", "b"]).constant(np.array(["b", "a"])).tolist() == [["a", "a"]]


def test_the_constant_predictor_of_numbers_is_their_mean():
    asked = query("prediction", [0.0, 5.0, 9.0], classes=False)
    assert asked.constant(np.array([1.0, 4.0])).tolist() == [[2.5, 2.5, 2.5]]


# --- a learner of one's own


class Oracle(ClassifierMixin, BaseEstimator):
    """An estimator whose learner is registered below."""

    def __init__(self, label="a"):
        self.label = label

    def fit(self, X, y):
        raise AssertionError("its own learner should be asked")

    predict = fit


class YoungOracle(Oracle):
    """A subclass: served by its parent's learner."""


class OracleLearner:
    """Right for as many test rows as it has training rows."""

    def __init__(self, estimator):
        self.estimator = estimator

    def scores(self, S, Z, query, seed):
        sizes = [len(S), *(len(S) + len(z) for z in Z)]
        right = query.codes(query.y)
        rows = [np.where(np.arange(len(right)) < n, right, -1) for n in sizes]
        return query.score(np.array(rows))

    def describe(self):
        return {"estimator": "oracle", "label": self.estimator.label}

    def accepts_nan(self):
        return True

    def work(self, k):
        return k


@pytest.fixture
def registered():
    learner.register(Oracle, OracleLearner)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("kind", [Oracle, YoungOracle])
def test_a_learner_of_ones_own_is_used(kind):
    estimator = kind(label="b")
    assert isinstance(learner(estimator), OracleLearner)
    U = potential(estimator, test=THREE_TEST)
    n = len(THREE_TEST)
    assert U(THREE.take(range(6))) == 6 / n
    gains = marginals(U, THREE.take(range(6)), THREE.take([7, 8]))
    np.testing.assert_allclose(gains, [1 / n, 1 / n], **EXACT)
    bundles = Bundles(THREE.take([7, 8, 9]), [0, 0, 1])
    np.testing.assert_allclose(marginals(U, THREE, bundles), [2 / n, 1 / n], **EXACT)
    assert U.describe()["label"] == "b"
    U.check(Points(np.full((1, 3), np.nan), ["a"]), name="Z")


def test_other_estimators_are_refitted():
    assert isinstance(learner(DummyClassifier()), Refit)
    assert learner(DummyClassifier()).min_rows == 1


def test_an_estimator_that_gets_its_predict_by_being_fitted():
    stack = StackingClassifier([("nb", GaussianNB())], cv=2)
    assert not hasattr(stack, "predict")
    S = TWO.take(range(20))
    plain = clone(stack).fit(S.X, S.y)
    p = plain.predict_proba(TWO_TEST.X)[:, 1]
    expected = {
        "accuracy": plain.score(TWO_TEST.X, TWO_TEST.y),
        "brier": 1.0 - np.mean((p - TWO_TEST.y) ** 2),
    }
    for metric, score in expected.items():
        U = potential(stack, test=TWO_TEST, metric=metric)
        np.testing.assert_allclose(U(S), score, **EXACT)


def test_an_older_way_to_say_what_one_is():
    class Old:
        _estimator_type = "regressor"

        def fit(self, X, y):
            self.mean = y.mean()
            return self

        def predict(self, X):
            return np.full(len(X), self.mean)

    test = Points(np.zeros((4, 1)), [0.0, 1.0, 2.0, 5.0])
    assert potential(Old(), test=test, metric="r2")(test) == pytest.approx(0.0)


class GlobalNoise(ClassifierMixin, BaseEstimator):
    """A classifier whose randomness is numpy's global generator and nothing else."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.chosen = int(np.random.random() * 1000)  # noqa: NPY002
        return self

    def predict(self, X):
        rows = np.arange(len(X))
        return self.classes_[(rows * self.chosen) % 7 % len(self.classes_)]


def test_global_randomness_is_seeded_shared_and_put_back():
    U, S = potential(GlobalNoise(), test=TWO_TEST), TWO.take(range(10))
    np.random.seed(5)  # noqa: NPY002
    scores = [U.seeded(seed)(S) for seed in range(20)]
    assert [U.seeded(seed)(S) for seed in range(20)] == scores
    assert len(set(scores)) > 1
    assert (U.seeded(1).marginals(S, TWO.take([11, 12])) == 0).all()  # common numbers
    assert np.random.random() == np.random.RandomState(5).random_sample()  # noqa: NPY002


def test_global_randomness_is_the_same_in_threads():
    U, design = potential(GlobalNoise(), test=TWO_TEST), Design(TWO, m=10)
    alone = run(U, design, TWO.take([0, 1]), stop=30)
    with joblib.parallel_config("threading", n_jobs=4):
        threads = run(U, design, TWO.take([0, 1]), stop=30)
    assert threads.marginals.tobytes() == alone.marginals.tobytes()
