"""scikit-learn's scorers as metrics: equal to refitting and asking the scorer itself."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import fbeta_score, get_scorer, hinge_loss, make_scorer, r2_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from typer.testing import CliRunner

import dshapley as ds
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.errors import DShapleyWarning
from dshapley.learners import Fast, Refit
from dshapley.metrics import METRICS
from dshapley.metrics.scorers import chosen_metric
from dshapley.potentials import describe
from dshapley.potentials.testing import check_learner, check_potential


def iris(classes=3, labels=("setosa", "versicolor", "virginica")):
    """Iris with noise; of two classes only as 0 and 1, the labels that scikit-learn expects."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] + np.random.default_rng(1).normal(size=X.shape), y[order]
    if classes == 2:
        X, y = X[y > 0], y[y > 0] - 1
    else:
        y = np.array(labels)[y]
    return ds.Points(X[:60], y[:60]), ds.Points(X[60:], y[60:])


BETA = make_scorer(fbeta_score, beta=2, average="macro")
HINGE = make_scorer(hinge_loss, greater_is_better=False, response_method="decision_function")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "names"),
    [
        (GaussianNB(), ["f1_macro", "jaccard_micro"]),
        (KNeighborsClassifier(), ["matthews_corrcoef", "neg_log_loss"]),
        (RidgeClassifier(), ["f1_weighted"]),
        (LinearDiscriminantAnalysis(), ["recall_macro"]),
        (Ridge(), ["neg_mean_absolute_error", "explained_variance"]),
    ],
    ids=lambda part: type(part).__name__ if not isinstance(part, list) else "",
)
def test_a_fast_learner_equals_refitting_with_the_scorer(model, names):
    check_learner(model, metrics=names, tolerance=1e-7)


@pytest.mark.parametrize("metric", ["neg_log_loss", "roc_auc_ovr", "top_k_accuracy"])
@pytest.mark.parametrize(
    "model",
    [GaussianNB(), LinearDiscriminantAnalysis(), LogisticRegression(tol=1e-12, max_iter=5000)],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:every marginal is refitted")
def test_scorers_of_probabilities_equal_refitting(model, metric):
    """Not on the hardest data: there probabilities of 0 and 1e-300 differ, as scorers see it."""
    database, test = iris()
    fast, refit = (
        ds.potential(model, test=test, metric=metric, retrain=path) for path in ("auto", "always")
    )
    Z = database.take(range(50, 60))
    for n in (15, 30, 50):
        S = database.take(range(n))
        np.testing.assert_allclose(fast.marginals(S, Z), refit.marginals(S, Z), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "scorer",
    ["f1_macro", "neg_log_loss", "roc_auc_ovr", "average_precision", "top_k_accuracy", BETA, HINGE],
    ids=str,
)
@pytest.mark.parametrize(
    "model",
    [GaussianNB(), LogisticRegression(tol=1e-12, max_iter=5000), RidgeClassifier(), SVC()],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:every marginal is refitted")
def test_u_is_what_the_scorer_says_of_the_fitted_model(model, scorer, classes):
    database, test = iris(classes)
    asked = get_scorer(scorer) if isinstance(scorer, str) else scorer
    if not any(hasattr(model, method) for method in np.atleast_1d(asked._response_method)):
        with pytest.raises(ds.InputError, match="needs"):
            ds.potential(model, test=test, metric=scorer)
    elif classes == 2 and scorer == "top_k_accuracy":  # the two best of two classes
        with pytest.warns(UserWarning, match="perfect score"):
            assert asked(model.fit(database.X, database.y), test.X, test.y) == 1.0
    else:
        expected = asked(model.fit(database.X, database.y), test.X, test.y)
        U = ds.potential(model, test=test, metric=scorer)
        assert U(database) == pytest.approx(expected, abs=1e-6)


def test_the_sign_and_the_arguments_of_a_scorer_count():
    database, test = iris(2)
    worth = {}
    for name, options in {
        "plain": {},
        "less is better": {"greater_is_better": False},
        "first class": {"pos_label": 0},
    }.items():
        scorer = make_scorer(fbeta_score, **{"beta": 2, **options})
        worth[name] = ds.potential(GaussianNB(), test=test, metric=scorer)(database)
    assert worth["less is better"] == -worth["plain"]
    assert worth["first class"] != worth["plain"] > 0


def test_fast_learners_stay_fast():
    _, test = iris()
    for metric in ("f1_macro", "neg_log_loss", "roc_auc_ovr"):
        U = ds.potential(LogisticRegression(), test=test, metric=metric)
        assert isinstance(U.learner, Fast), metric
        assert U.metric.name == metric


def test_decision_values_of_three_classes_are_refitted_and_that_is_said():
    _, test = iris()
    with pytest.warns(DShapleyWarning, match="top_k_accuracy reads decision values of more"):
        U = ds.potential(LogisticRegression(), test=test, metric="top_k_accuracy")
    assert isinstance(U.learner, Refit)
    with pytest.raises(ds.InputError, match="retrain = 'never' is not possible: top_k_accuracy"):
        ds.potential(LogisticRegression(), test=test, metric="top_k_accuracy", retrain="never")
    _, two = iris(2)
    U = ds.potential(LogisticRegression(), test=two, metric="average_precision")
    assert isinstance(U.learner, Fast)


@pytest.mark.filterwarnings("ignore:every marginal is refitted")
@pytest.mark.parametrize("metric", ["f1_macro", "neg_log_loss", "top_k_accuracy", BETA, HINGE])
@pytest.mark.parametrize("missing", [2, None])
def test_u_is_defined_for_every_set(metric, missing):
    """Also where the test set lacks a class that sets have."""
    database, test = iris(labels=(2, 0, 1))
    if missing is not None and metric != "top_k_accuracy":  # k = 2, of at least 3 classes
        test = test.take(np.flatnonzero(test.y != missing))
    U = ds.potential(LogisticRegression(), test=test, metric=metric)
    check_potential(U, database.take(range(12)), tolerance=1e-3)


@pytest.mark.parametrize("labels", [(0, 1, 2), ("setosa", "versicolor", "virginica")])
@pytest.mark.parametrize("name", ["f1_macro", "matthews_corrcoef", "v_measure_score"])
def test_rows_with_equal_counts_share_one_call(name, labels, monkeypatch):
    _, test = iris(labels=labels)
    rng = np.random.default_rng(0)
    outputs = np.array([rng.permutation(test.y) for _ in range(3)])
    outputs = np.vstack([outputs, outputs, np.full(len(test), labels[0]), test.y])
    score = chosen_metric(name, estimator=GaussianNB(), y=test.y, classification=True).score
    asked = get_scorer(name)
    calls = []
    monkeypatch.setattr(
        type(asked), "__call__", lambda self, *args: calls.append(1) or self._score_func(
            args[2], args[0].predict(args[1]), **self._kwargs
        )
    )  # fmt: skip
    found = score(test.y, outputs)
    assert len(calls) == 5
    expected = [asked._score_func(test.y, row, **asked._kwargs) for row in outputs]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_function_of_ones_own_is_asked_about_each_row():
    _, test = iris()
    outputs = np.array([np.roll(test.y, 1), np.roll(test.y, 1)[::-1], test.y])
    scorer = make_scorer(lambda y, predicted: float(predicted[0] == y[0]))
    score = chosen_metric(scorer, estimator=GaussianNB(), y=test.y, classification=True).score
    expected = [float(row[0] == test.y[0]) for row in outputs]
    assert score(test.y, outputs).tolist() == expected


def test_a_scorer_that_is_ours_is_ours():
    _, test = iris()
    for name in ("accuracy", "balanced_accuracy"):
        U = ds.potential(GaussianNB(), test=test, metric=get_scorer(name))
        assert U.metric is METRICS[name]
    y = test.X[:, 0]
    chosen = chosen_metric(make_scorer(r2_score), estimator=Ridge(), y=y, classification=False)
    assert chosen is METRICS["r2"]
    # These differ from ours, which are defined for any labels: the scorer's name says so.
    _, two = iris(2)
    U = ds.potential(GaussianNB(), test=two, metric=get_scorer("roc_auc"))
    assert U.metric.name == "roc_auc_score"
    assert ds.potential(GaussianNB(), test=two, metric="roc_auc").metric is METRICS["roc_auc"]


def test_a_scorer_is_known_by_its_function_sign_and_arguments():
    _, test = iris()

    def described(metric):
        about = describe(ds.potential(GaussianNB(), test=test, metric=metric))
        return json.dumps({name: about[name] for name in ("metric", "metric.score")})

    named, made = described("f1_macro"), described(get_scorer("f1_macro"))
    assert named == made
    assert "f1_macro" in named
    other = make_scorer(fbeta_score, beta=3, average="macro")
    assert described(BETA) != described(other)
    assert described(BETA) == described(make_scorer(fbeta_score, beta=2, average="macro"))
    one, two = (make_scorer(lambda y, p, c=c: float((y == p).mean()) * c) for c in (1, 2))
    assert described(one) != described(two)
    assert "not identified" not in described(one)


@pytest.mark.parametrize(
    ("model", "metric", "says"),
    [
        (GaussianNB(), "f1_macor", "unknown metric 'f1_macor': did you mean 'f1_macro' or"),
        (GaussianNB(), "zzz", "there are: accuracy, .* and all of sklearn.metrics.get_scorer_name"),
        ("text", "precision", "test: the scorer precision failed: .*pos_label=1"),
        (SVC(), "neg_log_loss", "neg_log_loss needs predict_proba, which SVC does not have"),
        (Ridge(), "neg_log_loss", "neg_log_loss scores classes, but Ridge does regression"),
    ],
)
def test_what_cannot_be_scored_is_said_at_once(model, metric, says):
    _, test = iris(2)
    if model == "text":
        model, test = GaussianNB(), ds.Points(test.X, np.array(["no", "yes"])[test.y])
    if isinstance(model, Ridge):
        X, y = load_diabetes(return_X_y=True)
        test = ds.Points(X, y)
    with pytest.raises(ds.InputError, match=says):
        ds.potential(model, test=test, metric=metric)


def test_a_metric_of_scikit_learn_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    table = tmp_path / "adult.csv"
    adult_sample().head(120).drop(columns="fnlwgt").to_csv(table, index=False)
    words = ["value", table, "--target", "income", "--model", "naive_bayes", "--m", "10"]
    words = [str(word) for word in [*words, "--draws", "3", "--jobs", "1", "--metric"]]
    result = CliRunner().invoke(app, [*words, "f1_macro"])
    assert result.exit_code == 0, result.output
    assert "f1_macro" in result.stdout
    result = CliRunner().invoke(app, [*words, "recall_macor"])
    assert result.exit_code == 2
    assert "did you mean 'recall_macro'" in result.stderr


@pytest.mark.slow
def test_a_sale_with_a_scorer(tmp_path, monkeypatch):
    """The buyer's metric is the list's by its name, and another one is refused."""
    monkeypatch.chdir(tmp_path)
    sample = adult_sample().head(200).drop(columns="fnlwgt")
    sample = sample.assign(row=[f"r{i}" for i in range(200)])
    sample.head(120).to_csv("seller.csv", index=False)
    sample.tail(80).drop(columns="row").to_csv("own.csv", index=False)

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    options = ["--target", "income", "--model", "naive_bayes", "--id", "row", "--jobs", 1]
    value = [
        "value",
        "seller.csv",
        "--no-report",
        *options,
        "--m",
        20,
        "--draws",
        30,
        "--metric",
        "f1_macro",
    ]
    assert call(*value, "--out", "run").exit_code == 0
    assert call("price", "run", "--rate", 10, "--out", "prices").exit_code == 0
    ids = pd.read_csv("prices/prices.csv")["id"].head(6)
    sample[sample["row"].isin(ids)].to_csv("bought.csv", index=False)
    check = ["check", "prices", "own.csv", "bought.csv", *options, "--draws", 20]
    result = call(*check, "--way", "subsets")
    assert result.exit_code in (0, 1), result.output
    assert "rank correlation" in result.stdout
    result = call(*check, "--metric", "recall_macro")
    assert result.exit_code == 2
    assert "metric is f1_macro there and recall_macro here" in result.stderr
