"""Several metrics in one run: what each gets is, bit for bit, what a run of it alone gives."""

import json
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import SVC
from typer.testing import CliRunner

import dshapley as ds
from conftest import labelled
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.learners.logistic.long_double import Exact
from dshapley.potentials import marginals_of_each, potentials
from dshapley.running.metric_folders import folder_name

CLASSES = ["accuracy", "roc_auc", "brier", "log_score", "f1"]
NUMBERS = ["r2", "neg_mse", "neg_median_absolute_error"]


def agreement(y, predictions):
    """A metric that spoils its argument, which must harm no other."""
    share = float(np.mean(y == predictions))
    predictions[:] = predictions[0]
    return share


def numbers(n, *, seed):
    points = labelled(n, seed=seed, classes=2)
    noise = np.random.default_rng(seed).normal(size=n)
    return ds.Points(points.X, points.X[:, 0] - points.X[:, 1] ** 2 + noise)


DATA = {c: (labelled(70, d=4, classes=c), labelled(45, d=4, seed=1, classes=c)) for c in (2, 3)}
DATA[0] = (numbers(70, seed=2), numbers(45, seed=3))


def columns(draws):
    """All that a draw is made of; its time is the only number that may differ."""
    parts = {name: part for name, part in draws.columns().items() if name != "seconds"}
    if draws.evidence is not None:
        parts |= {name: getattr(draws.evidence, name) for name in ("t", "answers")}
    return parts


def assert_same(found, expected):
    assert found.about.identity == expected.about.identity
    ours, theirs = columns(found), columns(expected)
    assert ours.keys() == theirs.keys()
    for name, part in ours.items():
        np.testing.assert_array_equal(part, theirs[name], err_msg=name)


CASES = [
    ("logistic", LogisticRegression(), 2, [*CLASSES, agreement]),
    ("logistic, balanced", LogisticRegression(class_weight="balanced"), 2, CLASSES),
    ("softmax", LogisticRegression(), 3, CLASSES),
    ("ridge", Ridge(), 0, NUMBERS),
    ("least squares", LinearRegression(), 0, NUMBERS),
    ("ridge classifier", RidgeClassifier(), 2, ["accuracy", "roc_auc", agreement]),
    ("naive Bayes", GaussianNB(), 3, [*CLASSES, agreement]),
    ("Bernoulli naive Bayes", BernoulliNB(), 2, ["accuracy", "brier"]),
    ("kNN", KNeighborsClassifier(), 3, [*CLASSES, agreement]),
    ("kNN by distance", KNeighborsClassifier(weights="distance"), 2, CLASSES),
    ("kNN of numbers", KNeighborsRegressor(), 0, NUMBERS),
    ("kernel ridge", KernelRidge(kernel="rbf"), 0, NUMBERS),
    ("retrained", GaussianNB(), 2, ["roc_auc", "accuracy", "brier", agreement]),
    ("support vectors", SVC(decision_function_shape="ovo"), 3, ["accuracy", "f1", agreement]),
]
SLOW = [
    ("LDA", LinearDiscriminantAnalysis(), 3, CLASSES),
    ("LDA, shrunk", LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), 3, CLASSES),
    ("QDA", QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.2), 2, CLASSES),
    ("forest", RandomForestClassifier(5), 2, [*CLASSES, agreement]),
    ("forest of numbers", RandomForestRegressor(5), 0, NUMBERS),
    ("AdaBoost", AdaBoostClassifier(n_estimators=5), 2, CLASSES),
    ("boosting", GradientBoostingClassifier(n_estimators=3), 2, CLASSES),
]


@pytest.mark.parametrize(
    ("name", "model", "classes", "metrics"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
    ids=[case[0] for case in [*CASES, *SLOW]],
)
@pytest.mark.parametrize("test", ["cross", "table"])
def test_each_metric_gets_the_draws_of_a_run_alone(name, model, classes, metrics, test):
    database, held_out = DATA[classes]
    quick = name in [case[0] for case in CASES] and name not in ("retrained", "support vectors")
    options = {
        "model": model,
        "points": database if quick else database.take(range(25)),
        "test": held_out if test == "table" else "cross",
        "m": 30,
        "stop": 6 if quick else 3,
        # with and without control variates
        "sampling": ds.Sampling(control_variates=test == "cross"),
        "fitting": ds.Fitting(
            retrain="always" if name == "retrained" else "auto",
            min_rows=8 if name in ("LDA", "LDA, shrunk", "QDA", "support vectors") else 1,
        ),
        "seed": 5,
    }
    together = ds.value(database, metric=metrics, **options)
    names = [metric if isinstance(metric, str) else metric.__name__ for metric in metrics]
    assert list(together) == names
    for metric, key in zip(metrics, names, strict=True):
        alone = ds.value(database, metric=metric, **options)
        assert_same(together[key].draws, alone.draws)
        np.testing.assert_array_equal(together[key].values, alone.values)
    values = [valuation.values for valuation in together.values()]
    assert not np.array_equal(values[0], values[1])


def test_a_reference_sample_and_bundles_are_shared_too():
    database, held_out = DATA[2]
    points = labelled(20, d=4, seed=9)
    options = {
        "model": "naive_bayes", "points": points, "test": held_out, "m": 20, "stop": 5,
        "sampling": ds.Sampling(control_variates=True), "groups": np.arange(20) // 2,
    }  # fmt: skip
    together = ds.value(database, metric=["accuracy", "brier"], **options)
    for metric, valuation in together.items():
        assert_same(valuation.draws, ds.value(database, metric=metric, **options).draws)


CALLS = {"fit": 0, "predict": 0, "predict_proba": 0}


class Counting(ClassifierMixin, BaseEstimator):
    """A classifier that counts what it is asked, and draws random numbers when it predicts."""

    def fit(self, X, y):
        CALLS["fit"] += 1
        self.classes_ = np.unique(y)
        np.random.normal()  # noqa: NPY002 - a model may use the global generator
        return self

    def predict_proba(self, X):
        CALLS["predict_proba"] += 1
        p = np.random.uniform(size=(len(X), len(self.classes_)))  # noqa: NPY002
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X):
        CALLS["predict"] += 1
        return np.random.choice(self.classes_, size=len(X))  # noqa: NPY002


def test_a_retrained_model_is_fitted_and_asked_once():
    database, held_out = DATA[2]
    metrics = ["roc_auc", "accuracy", "brier", "f1", "log_score", "balanced_accuracy"]
    Us = potentials(Counting(), test=held_out, metrics=metrics)
    S, Z = database.take(range(20)), database.take(range(20, 24))
    CALLS.update(fit=0, predict=0, predict_proba=0)
    together = marginals_of_each(Us, S, Z)
    assert CALLS == {"fit": 5, "predict": 5, "predict_proba": 5}
    for U, gains in zip(Us, together, strict=True):
        np.testing.assert_array_equal(gains, U.marginals(S, Z))  # also the random predictions


def test_a_pairwise_svm_is_trained_anew_only_for_the_scores_of_classes():
    database, held_out = DATA[3]
    Us = potentials(
        SVC(decision_function_shape="ovo"), test=held_out, metrics=["accuracy", "roc_auc", "f1"],
        min_rows=8,
    )  # fmt: skip
    S, Z = database.take(range(40)), database.take(range(40, 44))
    for U, gains in zip(Us, marginals_of_each(Us, S, Z), strict=True):
        np.testing.assert_array_equal(gains, U.marginals(S, Z))


class Mine(DummyClassifier):
    """An estimator whose learner knows one metric at a time."""


class OneAtATime:
    def scores(self, S, Z, query, seed):
        return query.score(np.repeat(query.constant(query.y), 1 + len(Z), axis=0)) + len(S)

    def describe(self):
        return {"estimator": "mine"}

    def accepts_nan(self):
        return False

    def work(self, k):
        return k


def test_a_learner_of_ones_own_needs_to_know_one_metric_only():
    ds.learner.register(Mine, lambda estimator: OneAtATime())
    database, held_out = DATA[2]
    Us = potentials(Mine(), test=held_out, metrics=["accuracy", "brier"])
    S = database.take(range(5))
    for U, gains in zip(Us, marginals_of_each(Us, S, database), strict=True):
        np.testing.assert_array_equal(gains, U.marginals(S, database))


def test_labels_are_read_off_exact_models_only_where_they_are_sure():
    none = np.empty(0, np.int64)
    clear = np.array([[0.5, -0.2], [1e-3, 7.0]])
    assert Exact(clear, none).sure_labels().tolist() == [[1, 0], [1, 1]]
    assert Exact(np.array([[0.5, 1e-7]]), none).sure_labels() is None
    assert Exact(clear, np.array([1])).sure_labels() is None
    three = np.array([[[0.1, 0.3, -9.0], [5.0, 5.0 + 1e-7, 0.0]]])
    assert Exact(three, none).sure_labels() is None
    assert Exact(three[:, :1], none).sure_labels().tolist() == [[1]]


# --- on disk


def run_folders(store, **options):
    database, held_out = DATA[2]
    return ds.value(
        database, model="naive_bayes", test=held_out, m=20, seed=1, store=store, **options
    )


def test_each_metric_has_a_run_folder_of_its_own(tmp_path):
    together = run_folders(tmp_path / "run", metric=["accuracy", "brier"], stop=8)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["accuracy", "brier"]
    for metric, valuation in together.items():
        folder = tmp_path / "run" / metric
        assert_same(ds.load_run(folder), valuation.draws)
        # one metric alone resumes there, as if it had been alone before
        more = run_folders(folder, metric=metric, stop=12)
        straight = run_folders(None, metric=metric, stop=12)
        assert_same(more.draws, straight.draws)
        assert_same(ds.load_run(folder), straight.draws)


@pytest.mark.filterwarnings("ignore:.*holds 9 draws")
@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_draws_are_computed_for_the_metrics_that_lack_them(tmp_path, n_jobs):
    """Folders of different length, with a hole: afterwards each is that of a straight run."""
    store = tmp_path / "run"
    run_folders(store / "accuracy", metric="accuracy", stop=9)
    run_folders(store / "brier", metric="brier", stop=4)
    shard = next((store / "brier" / "draws").glob("*.npz"))
    shard.unlink()
    run_folders(store, metric=["brier", "accuracy", "f1"], stop=6, n_jobs=n_jobs)
    for metric, n in (("accuracy", 9), ("brier", 6), ("f1", 6)):
        expected = run_folders(None, metric=metric, stop=n)
        assert_same(ds.load_run(store / metric), expected.draws)


def test_only_what_is_missing_is_computed(tmp_path):
    from dshapley.running.marginals import Marginals

    asked = []
    original = Marginals._results

    def spy(self, draw, chosen, where):
        asked.append((draw.t, [self.Us[i].metric.name for i in chosen]))
        return original(self, draw, chosen, where)

    run_folders(tmp_path / "run" / "accuracy", metric="accuracy", stop=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Marginals, "_results", spy)
        run_folders(tmp_path / "run", metric=["accuracy", "brier"], stop=5)
    assert asked == [
        *((t, ["brier"]) for t in range(3)),
        *((t, ["accuracy", "brier"]) for t in range(3, 5)),
    ]


def test_an_interrupted_run_resumes_to_a_straight_one(tmp_path):
    class Late:
        """A rule that presses Ctrl-C once."""

        pressed = False

        def __call__(self, draws, seconds):
            if len(draws) == 5 and not self.pressed:
                self.pressed = True
                threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                time.sleep(1.0)
            return len(draws) >= 9

    rule, metrics = Late(), ["accuracy", "brier"]
    with pytest.raises(ds.Interrupted, match=r"5 draws are kept in .*run;") as stop:
        run_folders(tmp_path / "run", metric=metrics, stop=rule)
    assert list(stop.value.valuations) == metrics
    assert stop.value.valuation is stop.value.valuations["accuracy"]
    run_folders(tmp_path / "run", metric=metrics, stop=rule)
    for metric in metrics:
        expected = run_folders(None, metric=metric, stop=9)
        assert_same(ds.load_run(tmp_path / "run" / metric), expected.draws)


def test_the_stop_rule_looks_at_the_first_metric():
    seen = []

    def rule(draws, seconds):
        seen.append(draws.about.identity.metric)
        return len(draws) >= 4

    together = run_folders(None, metric=["brier", "accuracy"], stop=rule)
    assert set(seen) == {"brier"}
    assert [valuation.n_draws for valuation in together.values()] == [4, 4]


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ([], "give at least one metric"),
        (["accuracy", "brier", "accuracy"], "'accuracy' is given 2 times"),
        (["accuracy", "acuracy"], "unknown metric 'acuracy'"),
        (["accuracy", "r2"], "r2 is a metric for regression"),
    ],
)
def test_wrong_lists_are_refused(tmp_path, metric, message):
    with pytest.raises(ds.InputError, match=message):
        run_folders(tmp_path / "run", metric=metric, stop=3)
    assert not (tmp_path / "run").exists()


def test_metrics_that_need_different_learners_are_refused():
    from sklearn.metrics import make_scorer, top_k_accuracy_score

    scorer = make_scorer(top_k_accuracy_score, response_method="decision_function", k=2)
    database, held_out = DATA[3]
    options = {"test": held_out, "m": 20, "stop": 2, "metric": ["accuracy", scorer]}
    with pytest.raises(ds.InputError, match="ask for it in a run of its own"):
        ds.value(database, model="logistic", **options)
    retrained = ds.Fitting(retrain="always")
    both = ds.value(database, model="logistic", fitting=retrained, **options)
    assert len(both) == 2


def test_folders_of_one_and_of_several_metrics_are_not_mixed(tmp_path):
    run_folders(tmp_path / "one", metric="accuracy", stop=2)
    with pytest.raises(ds.RunFolderError, match="holds a run of one metric: give a new folder"):
        run_folders(tmp_path / "one", metric=["accuracy", "brier"], stop=2)
    run_folders(tmp_path / "two", metric=["accuracy", "brier"], stop=2)
    with pytest.raises(ds.RunFolderError, match=r"such as one of those in it \(.*accuracy"):
        run_folders(tmp_path / "two", metric="accuracy", stop=2)
    with pytest.raises(ds.RunFolderError, match=r"holds no run.*such as one of.*brier\)"):
        ds.load_run(tmp_path / "two")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(ds.RunFolderError, match="is not empty and holds no run"):
        run_folders(tmp_path / "other", metric=["accuracy", "brier"], stop=2)


@pytest.mark.parametrize(
    "name", ["roc_auc", "f1_macro", "F1", "<lambda>", "a/../b", "..", "", "con", "é" * 90, "a b"]
)
def test_folder_names_are_safe(name):
    safe = folder_name(name)
    assert safe.isascii()
    assert 0 < len(safe) < 80
    assert not set(safe) & set('/\\:*?"<>| ')
    assert safe.strip(".") == safe
    assert safe.lower() != "con"
    assert folder_name(name + "x") != safe


# --- the command line


@pytest.fixture
def adult(tmp_path):
    path = tmp_path / "adult.csv"
    adult_sample().head(150).to_csv(path, index=False)
    return path


def call(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_one_command_values_by_several_metrics(tmp_path, adult):
    out = tmp_path / "run"
    command = [
        "value", adult, "--target", "income", "--m", 50, "--draws", 12, "--jobs", 1,
        "--no-report", "--metric", "accuracy", "--metric", "roc_auc", "--out", out,
    ]  # fmt: skip
    result = call(*command)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("most valuable") == 1
    assert "by roc_auc: worth most " in result.stdout
    for metric in ("accuracy", "roc_auc"):
        alone = tmp_path / metric
        options = ["--m", 50, "--draws", 12, "--jobs", 1, "--no-report", "--metric", metric]
        call("value", adult, "--target", "income", *options, "--out", alone)
        shown = (out / metric / "values.csv").read_bytes()
        assert shown == (alone / "values.csv").read_bytes()
        assert call("show", out / metric).exit_code == 0
        identity = json.loads((out / metric / "manifest.json").read_text())["identity"]
        assert identity["potential"]["metric"] == metric
    assert len(pd.read_csv(out / "accuracy" / "values.csv")) == 150
    assert call("show", out).exit_code == 2


def test_plans_and_reports_of_several_metrics(tmp_path, adult):
    out = tmp_path / "run"
    metrics = ["--metric", "brier", "--metric", "roc_auc", "--out", out]
    options = ["--target", "income", "--m", 30, "--draws", 20, "--jobs", 1, *metrics]
    result = call("plan", adult, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.index("brier:") < result.stdout.index("roc_auc:")
    with pytest.MonkeyPatch.context() as patch:
        spent = []
        patch.setattr(
            "dshapley.cli.value.write_run_report",
            lambda out, *, jobs, most_seconds: spent.append(most_seconds) or out,
        )
        assert call("value", adult, *options).exit_code == 0
    assert spent == [30.0, 30.0]  # together as long as for one metric


def test_a_repeated_metric_is_an_error_for_people(tmp_path, adult):
    options = ["--metric", "brier", "--metric", "brier", "--out", tmp_path / "run"]
    result = call("value", adult, "--target", "income", *options)
    assert result.exit_code == 2
    assert "error: metric: 'brier' is given 2 times" in result.stderr
    assert not (tmp_path / "run").exists()


def test_scorers_of_scikit_learn_share_a_run_too():
    B = labelled(60)
    both = ds.value(B, model="naive_bayes", metric=["accuracy", "f1_macro"], m=20, stop=12)
    for name in ("accuracy", "f1_macro"):
        alone = ds.value(B, model="naive_bayes", metric=name, m=20, stop=12)
        assert both[name].draws.marginals.tobytes() == alone.draws.marginals.tobytes()
