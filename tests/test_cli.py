import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dshapley as ds
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.learners.by_name import MODELS
from dshapley.metrics import METRICS

FAST = ["--model", "naive_bayes", "--m", "20", "--jobs", "1", "--drop", "fnlwgt"]


@pytest.fixture(autouse=True)
def wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def adult(tmp_path):
    path = tmp_path / "adult.csv"
    adult_sample().head(120).to_csv(path, index=False)
    return path


def call(*args, report=False):
    """A command; `value` writes its report only where a test is about that, which takes seconds."""
    words = [str(a) for a in args]
    if words[0] == "value" and not report:
        words.append("--no-report")
    return CliRunner().invoke(app, words)


def value(table, *args, report=False):
    return call("value", table, "--target", "income", *FAST, *args, report=report)


def test_from_a_table_to_an_answer(tmp_path, adult):
    out = tmp_path / "run"
    result = value(adult, "--draws", 30, "--out", out)
    assert result.exit_code == 0, result.output
    assert "most valuable" in result.stdout
    assert "least valuable" in result.stdout
    assert "are below zero with 95% confidence" in result.stdout
    assert "missing values in the table are filled in" in result.stderr
    frame = pd.read_csv(out / "values.csv")
    assert frame.columns.tolist()[:5] == ["id", "label", "value", "stderr", "stderr_of_draws"]
    assert len(frame) == 120  # every row: they are tested on each other
    pd.testing.assert_frame_equal(pd.read_parquet(out / "values.parquet"), frame)
    values = ds.estimate(ds.load_run(out)).to_frame()["value"]
    assert frame.set_index("id")["value"].sort_index().tolist() == values.sort_index().tolist()
    assert frame["value"].is_monotonic_decreasing
    source = json.loads((out / "manifest.json").read_text())["context"]["source"]
    assert source["target"] == "income"


def test_the_same_command_goes_on(tmp_path, adult):
    out, straight = tmp_path / "run", tmp_path / "straight"
    value(adult, "--draws", 10, "--out", out)
    again = value(adult, "--draws", 25, "--out", out)
    value(adult, "--draws", 25, "--out", straight)
    assert again.exit_code == 0
    assert (out / "values.csv").read_bytes() == (straight / "values.csv").read_bytes()
    fewer = value(adult, "--draws", 5, "--out", out)
    assert "holds 25 draws, but this call stops after 5" in fewer.stderr
    assert len(ds.load_run(out)) == 25
    changed = value(adult, "--draws", 25, "--out", out, "--seed", 1)
    assert changed.exit_code == 2
    assert "seed was 0, is 1" in changed.stderr


def test_test_and_points_tables(tmp_path, adult):
    rows = adult_sample()
    rows.iloc[200:260].to_csv(tmp_path / "test.tsv", index=False, sep="\t")
    rows.iloc[300:304].to_parquet(tmp_path / "points.parquet")
    out = tmp_path / "run"
    result = value(
        adult, "--test", tmp_path / "test.tsv", "--points", tmp_path / "points.parquet",
        "--draws", 5, "--metric", "log_score", "--weights", "1/k", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv(out / "values.csv")) == 4


def test_groups_and_ids(tmp_path, adult):
    out = tmp_path / "run"
    result = value(adult, "--group", "occupation", "--draws", 3, "--out", out)
    assert result.exit_code == 2
    assert "is missing in" in result.stderr
    assert not out.exists()
    result = value(adult, "--group", "education", "--draws", 3, "--out", out)
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(out / "values.csv")
    assert frame["rows"].sum() == 120
    assert "value per row" in result.stdout


def test_regression(tmp_path, adult):
    result = call(
        "value", adult, "--target", "hours_per_week", "--draws", 4, "--m", 10, "--jobs", 1
    )
    assert result.exit_code == 0, result.output
    assert "A model trained on nothing has neg_mse" in result.stdout


def test_show_writes_files(tmp_path, adult):
    value(adult, "--draws", 40, "--out", tmp_path / "run")
    result = call("show", tmp_path / "run", "--m", 5, "--out", tmp_path / "small")
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(tmp_path / "small" / "values.csv")
    assert (frame["k_max"] == 5).all()
    assert frame["value"].is_monotonic_decreasing
    assert frame["rank"].tolist() == list(range(1, len(frame) + 1))
    assert frame["in_bottom_tenth"].sum() == pytest.approx(round(0.1 * len(frame)))
    assert (frame["in_bottom_tenth"] + frame["in_top_tenth"] <= 1).all()
    kept = (tmp_path / "run" / "values.csv").read_bytes()
    again = call("show", tmp_path / "run", "--out", tmp_path / "run")
    assert again.exit_code == 2
    assert "name a folder other than the run's" in again.stderr
    assert (tmp_path / "run" / "values.csv").read_bytes() == kept


def test_few_draws_are_said(adult):
    shown = value(adult, "--draws", 5).stdout
    assert "From 5 draws. The errors are not yet known: sizes" in shown
    assert "have hardly been drawn" in shown
    assert " ± " not in shown


def test_time_budget(tmp_path, adult):
    result = value(adult, "--time", "1s", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    # The last draw had not begun, or was under way, when the second was over.
    assert ds.load_run(tmp_path / "run").seconds[:-1].sum() < 1.0


def test_whatever_stands_in_a_table_is_shown_as_it_is(tmp_path):
    rows = adult_sample().head(60)
    rows = rows.assign(
        name=[f"[/x{i}]" for i in range(60)], income=rows["income"].map("[{}]".format)
    )
    rows.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    result = value(tmp_path / "t.csv", "--id", "name", "--draws", 3, "--out", out)
    assert result.exit_code == 0, result.output
    assert "[<=50K]" in result.stdout
    assert "[/x" in call("show", out).stdout


def test_results_are_written_before_they_are_shown(tmp_path, adult, monkeypatch):
    def fail(*args, **named):
        raise OSError("the screen is gone")

    monkeypatch.setattr("dshapley.reporting.text.print_valuation", fail)
    assert value(adult, "--draws", 3, "--out", tmp_path / "run").exit_code == 2
    assert (tmp_path / "run" / "values.csv").exists()


def test_show_reads_distributional_runs(tmp_path):
    points = ds.Points([[0.0], [1.0]], [0, 1])
    ds.data_shapley.tmc(ds.MeanPotential(points), points, permutations=3, store=tmp_path / "run")
    result = call("show", tmp_path / "run")
    assert result.exit_code == 2
    assert "holds a run of TMC-Shapley" in result.stderr


def test_show(tmp_path, adult):
    out = tmp_path / "run"
    value(adult, "--draws", 40, "--out", out)
    result = call("show", out, "--m", 5, "--top", 3)
    assert result.exit_code == 0
    assert "The 3 most valuable" in result.stdout
    assert "m = 5" in result.stdout
    assert call("show", out, "--m", 21).exit_code == 2
    assert call("show", out, "--top", 0).exit_code == 2
    assert call("show", tmp_path / "nothing").exit_code == 2


@pytest.mark.slow
def test_columns_of_notes_are_left_out_by_every_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = adult_sample().head(200).drop(columns="fnlwgt")
    noted = rows.assign(note=[f"note {i}" for i in range(200)], row=[f"r{i}" for i in range(200)])
    noted.head(120).to_csv("noted.csv", index=False)
    noted.tail(80).to_csv("new.csv", index=False)
    noted.head(120).drop(columns="note").to_csv("plain.csv", index=False)
    options = ["--target", "income", "--model", "naive_bayes", "--id", "row", "--m", 20]
    options += ["--jobs", 1, "--draws", 60]
    left_out = "notice: text columns whose values are nearly all different are left out: note"
    result = call("value", "noted.csv", *options, "--out", "noted")
    assert result.exit_code == 0, result.output
    assert f"{left_out} (120 of 120)\n" in result.stderr
    assert left_out not in call("value", "plain.csv", *options, "--out", "plain").stderr
    first, second = (Path(name, "values.csv").read_bytes() for name in ("noted", "plain"))
    assert first == second
    again = call("value", "noted.csv", *options, "--out", "noted")
    assert again.stderr == result.stderr
    assert call("predict", "noted", "new.csv").exit_code == 0
    result = call("price", "noted", "--rate", 1, "--details", "note", "--out", "prices")
    assert result.exit_code == 0, result.output
    ids = pd.read_csv("prices/prices.csv")["id"].head(8)
    noted[noted["row"].isin(ids)].to_csv("bought.csv", index=False)
    noted.tail(80).drop(columns="row").to_csv("own.csv", index=False)
    result = call(
        "check", "prices", "own.csv", "bought.csv", "--target", "income", "--id", "row",
        "--jobs", 1, "--draws", 20, "--way", "subsets",
    )  # fmt: skip
    assert result.exit_code in (0, 1), result.output
    assert left_out in result.stderr
    drop = ["--drop", "row", "--target", "income"]
    result = call("publish", "noted.csv", *drop, "--out", "seller.json")
    assert f"{left_out}\n" in result.stderr
    assert "note" not in [column["name"] for column in coding("seller.json")["columns"]]
    assert call("match", "seller.json", "own.csv").exit_code == 0


def coding(path):
    return json.loads(Path(path).read_text())["coding"]


@pytest.mark.parametrize("command", ["value", "plan"])
def test_help_lists_models_and_metrics(command):
    words = set(re.findall(r"\w+", call(command, "--help").stdout))
    assert set(MODELS) | set(METRICS) <= words


def test_version_and_help():
    assert call("--version").stdout.strip() == f"dshapley {ds.__version__}"
    for command in ("value", "show", "demo"):
        assert call(command, "--help").exit_code == 0


@pytest.mark.slow
def test_demo():
    result = call("demo")
    assert result.exit_code == 0, result.output
    assert "most valuable" in result.stdout
    assert "the change of roc_auc when the row is added to 0 to 99 rows drawn" in result.stdout
    assert "not advice to delete" in result.stdout


def bad_tables(folder):
    rows = adult_sample().head(60)
    rows.to_csv(folder / "good.csv", index=False)
    rows.assign(income=">50K").to_csv(folder / "constant.csv", index=False)
    rows.assign(income=rows["income"].where(rows.index != 7)).to_csv(
        folder / "holes.csv", index=False
    )
    rows.head(0).to_csv(folder / "empty.csv", index=False)
    rows.assign(age=np.inf).to_csv(folder / "infinite.csv", index=False)
    (folder / "file").write_text("")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["gone.csv", "--target", "income"], "gone.csv: no such file"),
        (["good.csv", "--target", "incom"], "did you mean 'income'?"),
        (["constant.csv", "--target", "income"], "in every row"),
        (["holes.csv", "--target", "income"], "missing in 1 of 60 rows (the first is row 7)"),
        (["empty.csv", "--target", "income"], "the table is empty"),
        (["infinite.csv", "--target", "income"], "infinite value in column 'age'"),
        (["good.csv", "--target", "income", "--m", "0"], "m = 0"),
        (["good.csv", "--target", "income", "--weights", "k^2"], "unknown weights 'k^2'"),
        (["good.csv", "--target", "income", "--model", "logistik"], "did you mean 'logistic'?"),
        (
            ["good.csv", "--target", "income", "--metric", "acuracy"],
            "did you mean 'accuracy' or 'top_k_accuracy'?",
        ),
        (["good.csv", "--target", "income", "--metric", "r2"], "metric for regression"),
        (["good.csv", "--target", "income", "--test", "gone.csv"], "gone.csv: no such file"),
        (["good.csv", "--target", "income", "--test-size", "2"], "test size 2"),
        (
            ["good.csv", "--target", "income", "--test", "good.csv", "--test-size", "0.2"],
            "--test and --test-size: give one of the two",
        ),
        (["good.csv", "--target", "income", "--draws", "0"], "draws = 0"),
        (["good.csv", "--target", "income", "--time", "soon"], "--time soon"),
        (["good.csv", "--target", "income", "--jobs", "0"], "--jobs 0"),
        (["good.csv", "--target", "income", "--top", "0"], "--top 0"),
        (["good.csv", "--target", "income", "--task", "guess"], "unknown task 'guess'"),
        (["good.csv", "--target", "income", "--min-rows", "-3"], "min_rows = -3"),
        (["good.csv", "--target", "income", "--seed", "-1"], "seed = -1"),
        (["good.csv", "--target", "income", "--backend", "mpi"], "unknown backend 'mpi'"),
        (["good.csv", "--target", "income", "--backend", "dask"], "go together"),
        (["good.csv", "--target", "income", "--drop", "agee"], "did you mean 'age'?"),
        (["good.csv", "--target", "income", "--out", "file"], "file is a file"),
        (["good.csv"], "--target"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, args, says):
    monkeypatch.chdir(tmp_path)
    bad_tables(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    out = [] if "--out" in args else ["--out", "run"]
    result = call("value", *args, *out)
    assert result.exit_code == 2
    assert says in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == (0 if args == ["good.csv"] else 1)
    assert "Traceback" not in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_folder_from_other_data(tmp_path, adult):
    out = tmp_path / "run"
    value(adult, "--draws", 3, "--out", out)
    adult_sample().tail(100).to_csv(adult, index=False)
    result = value(adult, "--draws", 3, "--out", out)
    assert result.exit_code == 2
    assert "database was" in result.stderr


def command(*args):
    program = [sys.executable, "-c", "from dshapley.cli.start import main; main()"]
    return [*program, *map(str, args)]


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_keeps_finished_draws_and_says_how_to_go_on(tmp_path, adult):
    out = tmp_path / "run"
    args = ["value", adult, "--target", "income", *FAST[:4], "--jobs", 2, "--draws", 100_000]
    process = subprocess.Popen(
        command(*args, "--out", out),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: out.is_dir() and len(list((out / "draws").glob("*.npz"))) > 1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    shown, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again to resume" in errors
    assert "most valuable" in shown
    assert f"values in {out / 'values.csv'}" in shown.replace("\n", " ")
    assert (out / "values.csv").exists()
    assert "Traceback" not in errors
    n = len(ds.load_run(out))
    assert f"{n} draw" in errors


@pytest.mark.slow
def test_dask_backend(tmp_path, adult):
    distributed = pytest.importorskip("dask.distributed")
    value(adult, "--draws", 12, "--out", tmp_path / "alone")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        result = value(
            adult, "--draws", 12, "--out", tmp_path / "dask",
            "--backend", "dask", "--scheduler", cluster.scheduler_address,
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    alone, dask = (tmp_path / name / "values.csv" for name in ("alone", "dask"))
    assert dask.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize(
    "args",
    [
        ["--m", "9" * 20],
        ["--m", "999999999"],
        ["--m", "9" * 400],
        ["--seed", "9" * 30],
        ["--jobs", "99999999"],
        ["--draws", "9" * 14],
        ["--min-rows", "9" * 20],
        ["--time", "9" * 400 + "h"],
    ],
)
def test_huge_options_are_refused_before_any_work(tmp_path, adult, args):
    result = value(adult, *args, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert not (tmp_path / "run").exists()
