"""Errors that include the choice of the test rows, by simulation against known truth."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

import dshapley as ds
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.inference.test_rows import of_test_rows
from dshapley.inference.uncertainty import student_quantile
from dshapley.metrics import RocAucWithout
from dshapley.metrics.metric import _ranks, roc_auc
from dshapley.reporting.findings import sentences
from dshapley.running.run import run_each
from dshapley.running.run_folder import load_run
from dshapley.sampling.test_groups import TestGroups
from dshapley.sampling.test_influence import N_GROUPS


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return ds.Points(X, (X[:, 0] + 0.7 * X[:, 1] + rng.normal(size=n) > 0.6).astype(int))


DATABASE, POINTS, TEST = rows(200, 1), rows(20, 2), rows(120, 3)
OPTIONS = {"model": "naive_bayes", "points": POINTS, "test": TEST, "m": 20, "seed": 4}


def same_draws(a, b):
    for name, column in a.columns().items():
        if name != "seconds":
            np.testing.assert_array_equal(column, b.columns()[name], err_msg=name)


@pytest.mark.parametrize("metric", ["accuracy", "brier", "roc_auc", "f1"])
@pytest.mark.parametrize("variates", [True, False])
def test_the_draws_are_those_of_a_run_without(metric, variates):
    U = ds.potential(GaussianNB(), test=TEST, metric=metric)
    design = ds.Design(DATABASE, 20, seed=4, control_variates=variates)
    found, bare = (
        run_each([U], design, POINTS, stop=40, test_rows=asked)[0] for asked in (True, False)
    )
    same_draws(found, bare)
    assert bare.test_influence is None
    assert found.test_influence.t.tolist() == list(range(32))
    np.testing.assert_array_equal(ds.estimate(found).of_draws.stderr, ds.estimate(bare).stderr)


@pytest.mark.parametrize(
    ("metric", "model"), [("accuracy", "naive_bayes"), ("f1", "knn"), ("neg_mse", "ridge")]
)
def test_a_pseudo_influence_is_what_leaving_the_group_out_does(metric, model):
    """Against potentials on the smaller test sets, made from scratch."""
    database, points, test = DATABASE, POINTS, TEST
    if model == "ridge":
        database, points, test = (ds.Points(p.X, p.X[:, 0] + p.y) for p in (database, points, test))
    U = ds.potential(model, test=test, metric=metric, empty=0.5)
    design = ds.Design(database, 20, weights="uniform", seed=1)
    draws = run_each([U], design, points, stop=3, test_rows=True)[0]
    groups = TestGroups.of_rows(U)
    for t in range(3):
        draw = design.draw(t)
        for g in range(N_GROUPS):
            rest = test.take(np.flatnonzero(groups.of != g))
            V = ds.potential(model, test=rest, metric=metric, empty=0.5)
            gains, without = (W.marginals(draw.S, points) for W in (U, V))
            expected = (N_GROUPS - 1) * (gains - without)
            np.testing.assert_allclose(draws.test_influence.moved[t, g], expected, atol=2e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_areas_without_groups_are_those_of_the_other_rows(classes):
    rng = np.random.default_rng(classes)
    y, of = rng.integers(classes, size=60), rng.integers(5, size=60)
    scores = rng.integers(8, size=(7, 60, classes)) / 7  # with many ties
    found = RocAucWithout(of)(y, scores)
    for g in range(5):
        expected = roc_auc(y[of != g], scores[:, of != g])
        np.testing.assert_array_equal(found[:, g], expected)


def test_ranks_are_those_of_scipy():
    scores = np.random.default_rng(0).normal(size=(5, 40))
    scores[1] = scores[1].round()
    scores[2, ::3] = -np.inf
    scores[3, 7] = np.nan  # so that the score is not a number, which is an error
    np.testing.assert_array_equal(_ranks(scores), rankdata(scores, axis=1))


def test_only_where_the_metric_means_the_same_without_each_group():
    def groups(y, metric, n=None):
        test = ds.Points(np.zeros((len(y), 1)), y)
        return TestGroups.of_rows(ds.potential(GaussianNB(), test=test, metric=metric))

    few = np.repeat([0, 1], [59, 1])
    assert groups(few, "accuracy") is not None  # a mean over rows is defined for any
    assert groups(few, "roc_auc") is None  # the group of the single row leaves one class
    assert groups(np.repeat([0, 1], 30), "roc_auc") is not None
    assert groups(np.repeat([0, 1], 21), "accuracy") is None  # too few rows

    def knows_all_rows(y, predictions):
        return float((y == predictions) @ np.ones(60))

    assert groups(np.repeat([0, 1], 30), knows_all_rows) is None


def potential_of(metric, test):
    """U(empty) is fixed, because that of the majority would depend on the test rows' luck."""
    model = GaussianNB() if metric == "accuracy" else LogisticRegression()
    return ds.potential(model, test=test, metric=metric, empty=0.5)


def design_of(seed):
    return ds.Design(
        DATABASE, 20, weights="uniform", balanced=True, control_variates=False, seed=seed
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "n_draws", "n_runs"),
    [("accuracy", 30, 60), ("accuracy", 300, 12), ("roc_auc", 30, 40)],
)
def test_intervals_cover_the_values_of_the_distribution(metric, n_draws, n_runs):
    """95 % intervals with fresh test rows and fresh draws in each run, and of differences too.

    The truth is that of so many test rows and draws that its own error is small beside the others.
    """
    truth = ds.estimate(
        ds.run(potential_of(metric, rows(4000, 9)), design_of(77), POINTS, stop=700)
    )
    covered, of_draws, differences = [], [], []
    for seed in range(n_runs):
        U = potential_of(metric, rows(150, 1000 + seed))
        draws = run_each([U], design_of(seed), POINTS, stop=n_draws, test_rows=True)[0]
        found = ds.estimate(draws)
        for valuation, into in ((found, covered), (found.of_draws, of_draws)):
            low, high = valuation.interval()
            into.append(((low <= truth.values) & (truth.values <= high)).mean())
        influence = found.influence() - found.influence().mean(axis=1, keepdims=True)
        reach = student_quantile(0.975, found.freedom) * np.sqrt((influence**2).sum(axis=0))
        error = found.values - truth.values
        differences.append((np.abs(error - error.mean()) <= reach).mean())
    for shares in (covered, differences):
        error = np.std(shares) / np.sqrt(n_runs)
        # 0.01 is for the error of the truth, which is a tenth of the others'
        assert np.mean(shares) == pytest.approx(0.95, abs=3 * error + 0.01)
    # Without the test rows the same intervals miss.
    assert np.mean(of_draws) < 0.95 - 2 * np.std(of_draws) / np.sqrt(n_runs)


def test_what_all_points_share_moves_no_order():
    found = ds.value(DATABASE, stop=40, **OPTIONS)
    of_test = found.draws.test_influence
    shared = of_test.moved + np.linspace(-1, 1, N_GROUPS, dtype=np.float32)[:, np.newaxis]
    moved = ds.estimate(replace(found.draws, test_influence=replace(of_test, moved=shared)))
    assert moved.stderr.mean() > 10 * found.stderr.mean()
    # It would be 0 if this counted; pooling over the points hides a little of what is their own.
    assert moved.reliability == pytest.approx(found.reliability, abs=0.1)


def test_both_errors_are_stated():
    found = ds.value(DATABASE, stop=40, **OPTIONS)
    assert found.widened > 1
    assert (found.stderr > found.of_draws.stderr).all()
    assert found.reliability < found.of_draws.reliability
    lasting = (of_test_rows(found.terms).influence ** 2).sum(axis=0)
    np.testing.assert_allclose(found.stderr**2, found.of_draws.stderr**2 + lasting)
    text = " ".join(sentences(found))
    assert f"{found.widened:.1f} times those of the draws alone" in text
    assert "More test rows lower" in text
    few = ds.value(DATABASE, **{**OPTIONS, "test": TEST.take(range(30))}, stop=40)
    assert few.widened == 1
    assert "The errors hold for these test rows" in " ".join(sentences(few))


def test_stop_rules_do_not_wait_for_what_draws_cannot_give():
    rule = ds.stopping.Settled(reliability=0.9, rank_correlation=0.5)
    found = ds.value(DATABASE, stop=rule, **{**OPTIONS, "test": TEST.take(range(44))})
    assert found.of_draws.reliability >= 0.9 > found.reliability


def test_the_record_survives_folders_and_files(tmp_path):
    straight = ds.value(DATABASE, stop=40, **OPTIONS)
    ds.value(DATABASE, stop=10, store=tmp_path / "run", **OPTIONS)
    resumed = ds.value(DATABASE, stop=40, store=tmp_path / "run", **OPTIONS)
    read = ds.estimate(load_run(tmp_path / "run"))
    straight.save(tmp_path / "values")
    loaded = ds.Valuation.load(tmp_path / "values")
    for found in (resumed, read, loaded):
        np.testing.assert_array_equal(found.stderr, straight.stderr)
        np.testing.assert_array_equal(found.of_draws.stderr, straight.of_draws.stderr)
        np.testing.assert_array_equal(
            found.draws.test_influence.moved, straight.draws.test_influence.moved
        )


def test_several_metrics_keep_one_record_each(tmp_path):
    both = ds.value(DATABASE, stop=20, metric=["accuracy", "roc_auc"], **OPTIONS)
    for metric, found in both.items():
        alone = ds.value(DATABASE, stop=20, metric=metric, **OPTIONS)
        same_draws(found.draws, alone.draws)
        np.testing.assert_array_equal(
            found.draws.test_influence.moved, alone.draws.test_influence.moved
        )


def test_values_csv_has_the_error_of_the_draws(tmp_path):
    adult_sample().head(200).to_csv(tmp_path / "table.csv", index=False)
    options = ["--target", "income", "--test-size", 0.4, "--m", 30, "--draws", 35, "--jobs", 1]
    command = ["value", tmp_path / "table.csv", *options, "--out", tmp_path / "run", "--no-report"]
    result = CliRunner().invoke(app, [str(word) for word in command])
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(tmp_path / "run" / "values.csv")
    assert (frame["stderr"] >= frame["stderr_of_draws"]).all()
    assert frame["stderr"].mean() > frame["stderr_of_draws"].mean()
