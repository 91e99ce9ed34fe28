import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import dshapley as ds
from conftest import labelled


def test_value_is_run_and_estimate(database, held_out, offered):
    U = ds.potential(GaussianNB(), test=held_out, metric="brier")
    design = ds.Design(database, m=9, weights="1/k", seed=5)
    by_hand = ds.estimate(ds.run(U, design, offered, stop=12))
    found = ds.value(
        database.X,
        database.y,
        model=GaussianNB(),
        test=(held_out.X, held_out.y),
        points=(offered.X, offered.y),
        metric="brier",
        m=9,
        sampling="1/k",
        stop=12,
        seed=5,
    )
    assert found.values.tolist() == by_hand.values.tolist()
    assert found.about.identity.metric == "brier"
    assert found.about.identity.empty == pytest.approx(U.empty_value())


def test_database_rows_are_valued_by_default(held_out):
    database = labelled(7)
    found = ds.value(database, model=GaussianNB(), test=held_out, stop=4)
    assert len(found) == 7
    assert found.m == 7


def test_frames_keep_their_index(database, held_out, offered):
    names = ["a", "b", "c"]
    frame = pd.DataFrame(database.X, columns=names, index=[f"row{i}" for i in range(60)])
    test = (pd.DataFrame(held_out.X, columns=names), held_out.y)
    found = ds.value(frame, database.y, model=GaussianNB(), test=test, m=5, stop=3)
    assert found.to_frame().index.tolist() == frame.index.tolist()
    as_array = ds.value(database, model=GaussianNB(), test=held_out, m=5, stop=3)
    assert found.values.tolist() == as_array.values.tolist()


def test_groups(database, held_out, offered):
    found = ds.value(
        database,
        model=GaussianNB(),
        test=held_out,
        points=offered,
        groups=["ann", "bob", "ann", "bob", "ann", "cy"],
        m=8,
        stop=6,
    )
    frame = found.to_frame()
    assert frame.index.tolist() == ["ann", "bob", "cy"]
    assert frame["rows"].tolist() == [3, 2, 1]


@pytest.mark.slow
def test_any_estimator(database, held_out, offered):
    for model in (RandomForestClassifier(3), HistGradientBoostingClassifier(max_iter=2)):
        found = ds.value(database, model=model, test=held_out, points=offered, m=30, stop=3)
        assert np.isfinite(found.values).all()


def test_regression(offered):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=90)
    found = ds.value(X[:50], y[:50], model=LinearRegression(), test=(X[50:], y[50:]), m=30, stop=40)
    # Values of m rows add up to what m rows bring (expected efficiency); any 30 are near perfect.
    U = ds.potential(LinearRegression(), test=(X[50:], y[50:]))
    gain = U(ds.Points(X[:30], y[:30])) - U.empty_value()
    total, error = found.values.sum() * 30 / 50, found.error_of_sum()[0] * 30 / 50
    assert abs(total - gain) < 3 * error


def test_stopping_by_precision_and_by_a_rule(database, held_out, offered):
    options = {"model": GaussianNB(), "test": held_out, "points": offered, "m": 3}
    found = ds.value(database, **options, stop=ds.Stop(precision=0.15))
    low, high = found.of_draws.interval(0.95, anytime=True)
    assert ((high - low) / 2).max() <= 0.15
    assert found.n_draws >= 100
    assert found.n_draws % 10 == 0
    rule = ds.stopping.FixedDraws(7)
    assert ds.value(database, **options, stop=rule).n_draws == 7
    assert ds.value(database, **options, stop=lambda draws, seconds: len(draws) == 4).n_draws == 4


def test_a_time_budget(database, held_out, offered):
    found = ds.value(
        database, model=GaussianNB(), test=held_out, points=offered, m=9, stop=ds.Stop(seconds=0.3)
    )
    # The last draw had begun before the time was over: a budget that is ignored goes on.
    assert found.draws.seconds[:-1].sum() < 0.3


def test_store(tmp_path, database, held_out, offered):
    options = {"model": GaussianNB(), "test": held_out, "points": offered, "m": 5}
    straight = ds.value(database, **options, stop=9)
    ds.value(database, **options, stop=4, store=tmp_path / "run")
    resumed = ds.value(database, **options, stop=9, store=tmp_path / "run")
    assert resumed.values.tobytes() == straight.values.tobytes()


def test_unseen_test_labels_are_said(database):
    test = labelled(40, seed=1, classes=3)
    with pytest.warns(UserWarning, match="labels that are not in the database: 2"):
        ds.value(database, model=GaussianNB(), test=test, m=4, stop=2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"m": 0}, "m = 0"),
        ({"sampling": ds.Sampling(weights=[0.5, 0.6, 0.1])}, "sum to 1.2"),
        ({"sampling": ds.Sampling(weights=[0.5, 0.6, -0.1])}, "k = 3 is -0.1"),
        ({"sampling": "often"}, "unknown weights"),
        ({"stop": 0}, "draws = 0"),
        ({"metric": "acuracy"}, "did you mean 'accuracy'"),
        ({"metric": "r2"}, "metric for regression"),
        ({"model": GaussianNB}, "is a class"),
        ({"model": object()}, "no method fit"),
        ({"test": (np.zeros((2, 3)), [7, 8])}, "none of its labels"),
        ({"test": (np.zeros((0, 3)), [])}, "test: there are no rows"),
        ({"test": (np.zeros((2, 3)), [1])}, "test: X has 2 rows but y has 1"),
        ({"test": np.zeros((2, 3))}, "or a pair"),
        ({"points": (np.full((1, 3), np.nan), [1])}, "points has NaN in column 0 and 2 more"),
        ({"points": (np.zeros((1, 2)), [1])}, "points has 2 columns"),
        ({"groups": ["a"]}, "6 points but 1 groups"),
        ({"seed": -3}, "seed = -3"),
    ],
)
def test_bad_input_is_said_clearly(tmp_path, database, held_out, offered, change, says):
    options = {"model": GaussianNB(), "test": held_out, "points": offered, "m": 3, "stop": 2}
    with pytest.raises(ds.InputError, match=says):
        ds.value(database, **{**options, **change}, store=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_constant_target(database, held_out):
    constant = ds.Points(database.X, np.ones(60, int))
    with pytest.raises(ds.InputError, match="at least two different labels"):
        ds.value(constant, model=GaussianNB(), test=held_out, stop=2)


def test_missing_values_need_an_estimator_that_takes_them(database, held_out, offered):
    holes = database.X.copy()
    holes[3, 1] = np.nan
    options = {"test": held_out, "points": offered, "m": 4, "stop": 2}
    with pytest.raises(ds.InputError, match="database has NaN in column 1"):
        ds.value(holes, database.y, model=LogisticRegression(), **options)
    pipeline = make_pipeline(SimpleImputer(), LogisticRegression())
    assert len(ds.value(holes, database.y, model=pipeline, **options)) == 6


@pytest.mark.parametrize("change", [{"stop": "a"}, {"stop": 2.5}, {"seed": "a"}, {"seed": None}])
def test_what_is_no_number_is_an_error_for_people(change):
    data = labelled(20)
    options = {"m": 5, "stop": 5, **change}
    with pytest.raises(ds.InputError, match="whole number"):
        ds.value(data.X, data.y, model=LogisticRegression(), test=data, **options)


def test_points_that_cannot_be_predicted_are_refused_before_any_draw():
    data = labelled(40)
    gap = ds.Points(np.where(np.arange(80).reshape(40, 2) == 3, np.nan, data.X[:, :2]), data.y)
    never = lambda draws, seconds: pytest.fail("a draw was made")  # noqa: E731
    with pytest.raises(ds.InputError, match="NaN"):
        ds.value(
            gap,
            model=HistGradientBoostingClassifier(),
            test=gap,
            m=5,
            sampling=ds.Sampling(share=0.5),
            stop=never,
        )


def test_a_model_by_its_name(database, held_out, offered):
    options = {"test": held_out, "points": offered, "m": 9, "stop": 5}
    named = ds.value(database, model="naive_bayes", **options)
    made = ds.value(database, model=GaussianNB(), **options)
    assert named.values.tolist() == made.values.tolist()
    assert named.about.identity.potential["estimator"] == made.about.identity.potential["estimator"]


def test_the_task_of_a_named_model_is_that_of_the_labels(database, held_out):
    def numbers(points):
        return ds.Points(points.X, points.X[:, 0])

    U = ds.potential("forest", test=held_out)
    assert type(U.learner.estimator) is RandomForestClassifier
    assert ds.potential("auto", test=held_out).metric.name == "accuracy"
    assert ds.potential("auto", test=numbers(held_out)).metric.name == "neg_mse"
    found = ds.value(numbers(database), model="linear", test=numbers(held_out), m=5, stop=3)
    assert found.about.identity.potential["estimator"].endswith("LinearRegression")
    # By the labels of the database, as for tables, where the test set shows only some of them.
    few = ds.Points(held_out.X, np.arange(len(held_out)) % 3)
    many = ds.Points(database.X, np.arange(len(database)))
    assert "neg_mse" in ds.value(many, model="auto", test=few, m=5, stop=3).about.identity.metric


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("forrest", "did you mean 'forest'"),
        ("linear", "does not support classification: try 'logistic'"),
    ],
)
def test_unknown_names_of_models(database, held_out, name, says):
    with pytest.raises(ds.InputError, match=says):
        ds.value(database, model=name, test=held_out, stop=1)
    with pytest.raises(ds.InputError, match=says):
        ds.potential(name, test=held_out)


def test_a_named_model_needs_labels(database, held_out):
    with pytest.raises(ds.InputError, match="database has no labels: give y"):
        ds.value(ds.Points(database.X), model="auto", test=held_out, stop=1)


# --- defaults


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "m"),
    [
        (LogisticRegression(), 1000),
        (RandomForestClassifier(n_estimators=2), 200),
        (SVC(), 200),
    ],
)
def test_models_that_are_trained_anew_are_valued_for_smaller_data_sets(model, m):
    test = labelled(30, seed=1)
    found = ds.value(labelled(1200), model=model, test=test, points=labelled(2, seed=2), stop=1)
    assert found.m == m
    assert ds.value(labelled(40), model=model, test=test, stop=1).m == 40


@pytest.mark.slow
def test_too_many_points_are_measured_in_part_and_it_is_said():
    """By a rule that knows no clock; bundles and points that were asked for are all measured."""
    database, test = labelled(2500), labelled(40_000, seed=1)
    few = {"model": LogisticRegression(), "test": test, "m": 20, "stop": 60}
    with pytest.warns(
        ds.errors.DShapleyWarning, match=r"2,500 points are too many .* a share of 0\.4"
    ):
        found = ds.value(database, **few)
    assert abs(found.predicted.mean() - 0.6) < 3 * np.sqrt(0.6 * 0.4 / 2500)
    assert len(found) == 2500
    with warnings.catch_warnings():
        warnings.simplefilter("error", ds.errors.DShapleyWarning)
        found = ds.value(database, sampling=ds.Sampling(share=1), **{**few, "stop": 2})
        assert not found.predicted.any()
        fewer = {**few, "test": test.take(slice(0, 500)), "stop": 2}
        assert not ds.value(database, **fewer).predicted.any()


@pytest.mark.slow
def test_the_same_call_draws_the_same_bits_whatever_the_clock_says(database, held_out, monkeypatch):
    """Weights are found by counted work; a machine that is ten times slower draws the same."""
    options = {"model": RandomForestClassifier(3, random_state=0), "test": held_out, "stop": 25}
    one = ds.value(database, **options)
    slow, real = [0.0], time.perf_counter

    def later():
        slow[0] += 10.0
        return real() + slow[0]

    monkeypatch.setattr(time, "perf_counter", later)
    two = ds.value(database, **options)
    assert one.values.tobytes() == two.values.tobytes()
    assert one.draws.weights.tobytes() == two.draws.weights.tobytes()
    plain = ds.value(database, **{**options, "model": LogisticRegression()})
    assert plain.draws.weights[-1] > one.draws.weights[-1]  # large sets are dearer for trees


def test_no_control_variates_where_few_points_are_valued(database, held_out, offered):
    options = {"model": LogisticRegression(), "test": held_out, "m": 10, "stop": 2}
    assert ds.value(database, **options).draws.control_variates is not None
    assert ds.value(database, points=offered, **options).draws.control_variates is None
    assert (
        ds.value(
            database, points=offered, sampling=ds.Sampling(control_variates=True), **options
        ).draws.control_variates
        is not None
    )
    plain = ds.value(database, sampling="1/k", **options).draws
    assert (plain.control_variates, plain.balanced) == (None, False)


def test_points_that_are_test_rows_too_are_said(database, offered):
    """A model answers rows that it was trained on from memory."""
    options = {"model": GaussianNB(), "m": 5, "stop": 2}
    with pytest.warns(ds.errors.DShapleyWarning, match="3 of the 60 rows to value are test rows"):
        ds.value(database, test=database.take([0, 3, 9]) + labelled(30, seed=7), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ds.errors.DShapleyWarning)
        ds.value(database, test=offered + labelled(30, seed=7), **options)
