"""The experiments: their frame, and that each runs, is kept, is drawn, and can fail."""

import json
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dshapley as ds
from dshapley.cli.app import app
from dshapley.experiments import NAMES, experiment, figure1, figure2, supplement1
from dshapley.experiments.reproduce import reproduction
from dshapley.experiments.shared.removing import WITHIN
from dshapley.experiments.shared.tasks import (
    ALGORITHM_1,
    INTERPOLATION,
    WEIGHTED,
    Task,
    exponent,
    valued,
    with_own_table,
    within_classes,
)
from dshapley.experiments.shared.work import SCALES, Claim, Work
from dshapley.sampling.sizes import power

# --- the frame


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [([1.0, 1.1, 0.9], "holds"), ([-1.0, -1.1, -0.9], "fails"), ([1.0, -1.0, 0.5], "not shown")],
)
def test_a_claim_is_judged_by_its_interval(samples, verdict):
    claim = Claim.of("a > b", np.array(samples))
    assert claim.verdict == verdict
    assert claim.by == pytest.approx(np.mean(samples))


def test_the_interval_of_a_claim_is_students():
    rng = np.random.default_rng(0)
    found = [Claim.of("", rng.normal(0.3, 1, size=5)) for _ in range(2000)]
    held = np.mean([claim.low <= 0.3 <= claim.high for claim in found])
    assert abs(held - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_work_is_kept_and_told_apart(tmp_path):
    work = Work(scale="smoke", folder=tmp_path)
    calls = []

    def make():
        calls.append(1)
        return pd.DataFrame({"x": [1.5]})

    first, again = work.rows(make, "a", 1), work.rows(make, "a", 1)
    pd.testing.assert_frame_equal(first, again)
    assert len(calls) == 1
    work.rows(make, "a", 2)
    assert len(calls) == 2
    assert work.runs("a", 1) != work.runs("a", 2)
    assert Work(scale="smoke").runs("a") is None


def test_the_time_of_work_that_was_stopped_counts(tmp_path, monkeypatch):
    """By a clock that this test moves."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    work = Work(scale="smoke", folder=tmp_path)

    def stopped():
        clock[0] += 20.0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), work.timed():
        stopped()
    with work.timed() as spent:
        clock[0] += 3.0
        assert spent() == 23.0
    with work.timed() as again:
        clock[0] += 5.0
        assert again() == 23.0  # finished: reading it again takes no time of its own


def test_every_experiment_says_what_it_is():
    for name in NAMES:
        found = experiment(name)
        assert found.TITLE
        assert len(found.PAPER) > 40
        assert set(found.MINUTES) == set(SCALES)
    apart = {"figure3", "shift", "collecting"}  # not of the paper's figures of points
    minutes = {name: experiment(name).MINUTES["small"] for name in NAMES}
    assert sum(minutes[name] for name in set(NAMES) - apart) < 30
    assert max(minutes[name] for name in apart) < 60


@pytest.mark.parametrize("cost", [0.5, 0.1, 0.02])
def test_weights_of_a_cost(cost):
    sizes = np.arange(1, 501)
    assert power(500, exponent(500, cost)) @ sizes == pytest.approx(cost * sizes.mean())


def test_interpolation_is_that_of_some_of_the_points_alone():
    """What is predicted must not have been measured: other marginals, same prediction."""
    task = Task(data="breast_cancer", model="knn", m=20, n_points=60, n_test=50, n_heldout=50)
    ways = list(valued(task, Work(scale="smoke"), draws=40, costs=(0.2,), shares=(0.5,)))
    assert [way.way for way in ways] == [ALGORITHM_1, WEIGHTED, INTERPOLATION]
    assert [round(way.cost, 1) for way in ways] == [1.0, 0.2, 0.5]
    same = ways[0].values == ways[2].values
    assert same.sum() == 30
    # Of 30 points a correlation of 0.79 is known to (1 - 0.79^2) / sqrt(30) = 0.07.
    r = np.corrcoef(ways[0].values[~same], ways[2].values[~same])[0, 1]
    assert r == pytest.approx(0.79, abs=3 * 0.07)


def test_within_classes_the_classes_go_at_one_pace():
    y = np.array([0] * 6 + [1] * 3)
    values = within_classes(np.arange(9.0), y)
    order = np.argsort(-values)
    assert sorted(y[order[:3]]) == [0, 0, 1]
    assert sorted(y[order[:6]]) == [0, 0, 0, 0, 1, 1]
    np.testing.assert_array_equal(np.argsort(values[:6]), np.arange(6))


# --- the figures


@pytest.fixture(scope="module")
def removed(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduction")
    work = Work(scale="smoke", folder=out / "work" / "smoke" / "figure1")  # where the command looks
    return figure1.run(work), work, out


def test_figure1_runs_and_goes_on(removed):
    rows, work, _ = removed
    assert set(rows.data) == {"adult_sample", "breast_cancer"}
    assert set(rows.way) == {"random", ALGORITHM_1, WITHIN, WEIGHTED, INTERPOLATION}
    at_first = rows[rows.fraction == 0].groupby(["data", "set"]).accuracy
    assert (at_first.max() - at_first.min()).max() < 1e-12  # with nothing removed all are alike
    pd.testing.assert_frame_equal(figure1.run(work), rows)


def test_claims_of_removal_can_fail(removed):
    rows = removed[0]
    rng = np.random.default_rng(0)
    doctored = rows.copy()
    by_value = doctored.way != "random"
    noise = rng.normal(0, 1e-3, len(rows))
    for sign, verdict in ((-1, "holds"), (1, "fails")):
        doctored["accuracy"] = 0.8 + noise + sign * 0.1 * by_value * doctored.fraction
        hurts = [claim for claim in figure1.check(doctored) if "hurts more" in claim.text]
        assert len(hurts) == 8
        assert {claim.verdict for claim in hurts} == {verdict}
    doctored["accuracy"] = 0.8 + noise - 0.1 * (doctored.way == ALGORITHM_1) * doctored.fraction
    tracks = [claim for claim in figure1.check(doctored) if "at least" in claim.text]
    assert {claim.verdict for claim in tracks} == {"fails"}


def test_figure1_is_drawn(removed):
    figure = figure1.plot(removed[0])
    assert len(figure.axes) == 4
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_title()
        assert len(axis.lines) == 5


@pytest.mark.slow
def test_supplement1_runs():
    rows = supplement1.run("smoke")
    assert len(rows.groupby(["data", "model"])) == 4
    assert len(supplement1.check(rows)) == 4 * 8
    assert len(supplement1.plot(rows).axes) == 8


@pytest.mark.slow
def test_figure2_runs_and_can_fail(tmp_path):
    work = Work(scale="smoke", folder=tmp_path)
    rows = figure2.run(work)
    pd.testing.assert_frame_equal(figure2.run(work), rows)
    assert set(rows.way) == {ALGORITHM_1, WEIGHTED, INTERPOLATION}
    assert all(axis.get_title() for axis in figure2.plot(rows).axes[:2])
    noise = np.random.default_rng(0).normal(0, 0.001, len(rows))
    up = 0.2 * np.log10(rows.cost) + noise
    rising, falling = (rows.assign(r2=0.5 + sign * up) for sign in (1, -1))
    assert {claim.verdict for claim in figure2.check(rising)} == {"holds"}
    assert {claim.verdict for claim in figure2.check(falling)} == {"fails"}


# --- the command


def test_reproduce_writes_rows_figure_and_claims(removed, tmp_path):
    found = reproduction("figure1", removed[1], tmp_path)
    about = json.loads((tmp_path / "figure1.json").read_text())
    assert [claim["text"] for claim in about["claims"]] == [c.text for c in found.claims]
    assert len(pd.read_csv(tmp_path / "figure1.csv")) == len(found.rows) == len(removed[0])
    assert (tmp_path / "figure1.png").read_bytes().startswith(b"\x89PNG")


def reproduced(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_command_says_how_long_and_what_came_of_it(removed):
    out = removed[2]
    result = reproduced("figure1", "--scale", "smoke", "--out", out, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "on two cores" in result.output.splitlines()[0]
    assert "hurts more than random removal" in " ".join(result.output.split())
    assert (out / "figure1.csv").exists()


def test_a_claim_that_fails_is_exit_code_1(tmp_path, monkeypatch):
    monkeypatch.setattr(
        figure1, "check", lambda rows: [Claim(text="never", by=-1.0, low=-2.0, high=-0.5)]
    )
    monkeypatch.setattr(figure1, "run", lambda work: pd.DataFrame({"x": [1]}))
    monkeypatch.setattr(figure1, "plot", lambda rows: figure2.new_figure(1, 1)[0])
    result = reproduced("figure1", "--scale", "small", "--out", tmp_path)
    assert result.exit_code == 1
    assert "fails" in result.output
    assert reproduced("figure1", "--scale", "smoke", "--out", tmp_path).exit_code == 0


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "adult_sample.csv"
    ds.datasets.adult_sample().head(500).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_table_of_ones_own_takes_the_place_of_the_medical_one(mine, tmp_path):
    """Also one that is called as a data set is."""
    out = tmp_path / "out"
    options = ["--scale", "smoke", "--out", out, "--jobs", 1, "--table", mine, "--target", "income"]
    result = reproduced("mislabelled", *options)
    assert result.exit_code == 0, result.output
    rows = pd.read_csv(out / "mislabelled.csv")
    assert set(rows.data) == {"adult_sample", "adult_sample (own)"}
    command = json.loads((out / "mislabelled.json").read_text())["command"]
    assert command.endswith("--table adult_sample.csv --target income")
    # Another table of the same name is another experiment.
    ds.datasets.adult_sample().tail(500).to_csv(mine, index=False)
    assert reproduced("mislabelled", *options).exit_code == 0
    assert not rows.equals(pd.read_csv(out / "mislabelled.csv"))


def test_own_tables_in_removal(mine):
    medical = Task(data="physionet2012", model="knn", m=20, n_points=40, n_test=60, n_heldout=60)
    work = Work(scale="small", table=(mine, "income"))
    task = with_own_table(medical, work)
    assert task.data == "adult_sample (own)"
    assert len(task.dataset.test) == len(task.dataset.heldout) == 60
    adult = Task(data="adult", model="knn", m=20, n_points=40, n_test=60, n_heldout=60)
    assert with_own_table(adult, work) is adult


def test_without_matplotlib_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(figure1, "run", lambda work: pytest.fail("work was begun"))
    result = reproduced("figure1", "--scale", "smoke", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "matplotlib is not installed" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure9"], "unknown experiment 'figure9'"),
        (["figure1", "--scale", "tiny"], "unknown scale 'tiny'"),
        (["figure1", "--table", "x.csv"], "--target COLUMN go together"),
        (["figure1", "--table", "x.csv", "--target", "y"], "no such file"),
        (["cost", "--table", "x.csv", "--target", "y"], "no medical task"),
        (["figure1", "--jobs", "0", "--scale", "smoke"], "--jobs 0"),
    ],
)
def test_errors_are_for_people(arguments, message, tmp_path):
    result = reproduced(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.output
