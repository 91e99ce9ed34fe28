"""Plans, predictions and Fast-D-Shapley: from Python and on the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled
from dshapley.data.datasets import adult_sample
from dshapley.running.planning import plan
from dshapley.running.stopping import Precision
from test_cli import adult, call, value, wide_screen  # noqa: F401

MODEL = LogisticRegression()


@pytest.fixture(scope="module")
def setting():
    return labelled(150, seed=1), labelled(100, seed=2)


def test_a_plan_is_about_what_the_rule_takes():
    database = ds.Points(np.random.default_rng(0).normal(size=(200, 1)))
    U, Z = ds.MeanPotential(database), database.take(slice(0, 5))
    design = ds.Design(database, m=20, weights="1/k", balanced=True, seed=1)
    few = ds.run(U, design, Z, stop=200)
    taken = len(ds.run(U, design, Z, stop=Precision(0.02)))
    found = plan(few, within=0.02)
    # Draws grow as variances do, and of 200 draws a variance is known to sqrt(2 / 199) of itself.
    assert found.draws == pytest.approx(taken, rel=3 * np.sqrt(2 / 199))
    # A draw takes as long as the median of ten blocks of the draws so far.
    each = np.median(few.seconds.reshape(10, 20).mean(axis=1))
    assert found.seconds == pytest.approx(found.draws * each)
    # An error half as large takes about four times the draws.
    assert plan(few, within=0.01).draws == pytest.approx(4 * found.draws, rel=0.15)


def test_a_plan_needs_draws_with_times():
    draws = ds.Draws(
        t=np.arange(30),
        k=np.ones(30, int),
        marginals=np.ones((30, 1), np.float32),
        weights=np.ones(1),
        ids=np.arange(1),
        rows=np.ones(1, int),
    )
    with pytest.raises(ds.InputError, match="no times"):
        plan(draws, 0.1)
    with pytest.raises(ds.InputError, match="too few to plan from"):
        plan(draws.first(10), 0.1)


class TestFast:
    """Algorithm 2 in one call."""

    def run(self, setting, **options):
        database, test = setting
        return ds.value(database, model=MODEL, test=test, m=20, stop=150, **options)

    def test_measured_points_have_the_values_of_algorithm_2(self, setting):
        fast = self.run(setting, sampling=ds.Sampling(share=0.4, weights="1/k"), seed=3)
        assert type(fast).__name__ == "CompletedValuation"
        measured = ~fast.predicted
        assert abs(measured.sum() - 60) <= 3 * np.sqrt(150 * 0.4 * 0.6)
        full = self.run(setting, sampling="1/k", seed=3)
        np.testing.assert_allclose(fast.values[measured], full.values[measured], rtol=1e-6)
        frame = fast.to_frame()
        assert frame["predicted"].tolist() == fast.predicted.tolist()
        assert len(fast) == len(full) == 150

    def test_the_others_are_predicted_by_a_regression_on_them(self, setting):
        fast = self.run(setting, sampling=ds.Sampling(share=0.4, weights="1/k"), seed=3)
        predicted = fast.predicted
        assert fast.predict(setting[0].take(predicted)).values.tolist() == (
            fast.values[predicted].tolist()
        )
        full = self.run(setting, sampling="1/k", seed=3)
        assert np.corrcoef(fast.values[predicted], full.values[predicted])[0, 1] > 0.9
        low, high = fast.interval(0.95)
        assert (low < fast.values).all()
        assert (fast.values < high).all()
        assert fast.at(m=5).m == 5

    def test_with_auto_weights(self, setting):
        fast = self.run(setting, sampling=ds.Sampling(share=0.4))
        assert fast.draws.balanced
        assert fast.draws.control_variates is not None
        assert np.isfinite(fast.stderr).all()

    def test_the_same_seed_measures_the_same_points(self, setting, tmp_path):
        one = self.run(setting, sampling=ds.Sampling(share=0.3), store=tmp_path / "run")
        two = self.run(setting, sampling=ds.Sampling(share=0.3), store=tmp_path / "run")
        assert one.values.tolist() == two.values.tolist()
        assert (
            self.run(setting, sampling=ds.Sampling(share=0.3), seed=1).values.tolist()
            != one.values.tolist()
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"sampling": ds.Sampling(share=0.0)}, "above 0"),
            ({"sampling": ds.Sampling(share=1.5)}, "at most 1"),
            ({"sampling": ds.Sampling(share=0.01)}, "raise it"),
            (
                {"sampling": ds.Sampling(share=0.5), "groups": ["a", "b"] * 75},
                "bundles cannot be predicted",
            ),
        ],
    )
    def test_errors_for_people(self, setting, options, message):
        with pytest.raises(ds.InputError, match=message):
            self.run(setting, **options)

    def test_what_predictions_do_not_have(self, setting):
        fast = self.run(setting, sampling=ds.Sampling(share=0.4))
        with pytest.raises(ds.InputError, match="neither simultaneous nor anytime"):
            fast.interval(simultaneous=True)
        for refused in (fast.shrunk, fast.rank_interval, fast.influence):
            with pytest.raises(ds.InputError, match=r"ask valuation\.measured"):
                refused()
        with pytest.raises(ds.InputError, match=r"extrapolate valuation\.measured"):
            ds.profile.extrapolate(fast, m=50)


def test_shrunk_values_lie_between_measured_and_predicted(setting):
    database, test = setting
    valuation = ds.value(database, model=MODEL, test=test, m=20, stop=100, sampling="1/k")
    measured = valuation.values.copy(), valuation.stderr.copy()
    shrunk, guess = valuation.shrunk(), valuation.interpolation.held_out.values
    low, high = np.minimum(valuation.values, guess), np.maximum(valuation.values, guess)
    assert (low - 1e-12 <= shrunk.values).all()
    assert (shrunk.values <= high + 1e-12).all()
    assert (shrunk.stderr <= valuation.stderr + 1e-12).all()
    np.testing.assert_array_equal((valuation.values, valuation.stderr), measured)  # as they were


def test_values_without_points_predict_nothing(setting):
    database, test = setting
    U = ds.potential(MODEL, test=test)
    draws = ds.run(U, ds.Design(database, m=10), database, stop=20)
    with pytest.raises(ds.InputError, match="points=Z"):
        ds.estimate(draws).predict(database)
    assert len(ds.estimate(draws, points=database).predict(test)) == len(test)


class TestCommandLine:
    """dshapley plan and predict."""

    def test_plan_then_value_goes_on(self, tmp_path, adult):  # noqa: F811
        out = tmp_path / "run"
        options = ["--target", "income", "--model", "naive_bayes", "--m", 20, "--jobs", 1]
        result = call("plan", adult, *options, "--precision", 0.05, "--draws", 40, "--out", out)
        assert result.exit_code == 0, result.output
        assert "for ±0.05 on every value (95% confidence, all at once)" in result.stdout
        assert "planned from 40 draws" in result.stdout
        assert len(ds.load_run(out)) == 40
        again = call("value", adult, *options, "--draws", 60, "--out", out)
        assert again.exit_code == 0, again.output
        assert len(ds.load_run(out)) == 60
        assert "for ±" in call("plan", adult, *options, "--draws", 30).stdout
        bad = call("plan", adult, *options, "--precision", -1)
        assert bad.exit_code == 2
        assert "precision = -1.0" in bad.stderr

    def test_all_that_saves_draws(self, tmp_path, adult):  # noqa: F811
        out = tmp_path / "run"
        how = ["--weights", "auto", "--draws", 900, "--out", out]
        result = value(adult, *how)
        assert result.exit_code == 0, result.output
        assert "Control variates removed" in result.stdout
        frame = pd.read_csv(out / "values.csv")
        assert (frame["rank_best"] <= frame["rank_worst"]).all()
        assert frame["in_top_tenth"].sum() == pytest.approx(round(0.1 * len(frame)))
        assert "Control variates removed" in call("show", out).stdout

    def test_predict(self, tmp_path, adult):  # noqa: F811
        out = tmp_path / "run"
        value(adult, "--draws", 40, "--out", out)
        new = tmp_path / "new.csv"
        adult_sample().tail(7).to_csv(new, index=False)
        result = call("predict", out, new, "--out", tmp_path / "new values.csv")
        assert result.exit_code == 0, result.output
        assert "For held-out rows, R2 is" in result.stdout
        frame = pd.read_csv(tmp_path / "new values.csv")
        assert frame.columns.tolist() == ["id", "value", "stderr", "low", "high"]
        assert len(frame) == 7
        assert (frame["low"] < frame["value"]).all()

    def test_predict_after_p(self, tmp_path, adult):  # noqa: F811
        out = tmp_path / "run"
        result = value(adult, "--draws", 40, "--share", 0.5, "--out", out)
        assert result.exit_code == 0, result.output
        assert "values are predictions" in result.stdout
        frame = pd.read_csv(out / "values.csv")
        assert len(frame) == 120
        again = call("predict", out, adult)
        assert again.exit_code == 0, again.output
        assert json.loads((out / "manifest.json").read_text())["context"]["share"] == 0.5

    def test_the_table_of_the_run_is_needed_as_it_was(self, tmp_path, adult):  # noqa: F811
        out = tmp_path / "run"
        value(adult, "--draws", 20, "--out", out)
        moved = adult.rename(tmp_path / "moved.csv")
        gone = call("predict", out, moved)
        assert gone.exit_code == 2
        assert "--source" in gone.stderr
        assert call("predict", out, moved, "--source", moved).exit_code == 0
        adult_sample().tail(120).to_csv(moved, index=False)
        other = call("predict", out, moved, "--source", moved)
        assert other.exit_code == 2
        assert "its rows differ" in other.stderr
        assert call("predict", out, moved, "--out", "x.txt").exit_code == 2

    def test_bundles_predict_nothing(self, tmp_path, adult):  # noqa: F811
        out = tmp_path / "run"
        value(adult, "--group", "education", "--draws", 5, "--out", out)
        result = call("predict", out, adult)
        assert result.exit_code == 2
        assert "bundles" in result.stderr
