"""What to collect next: candidates of a run, their values, and a batch of them."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dshapley as ds
from conftest import labelled
from dshapley.cli.app import app
from dshapley.collecting.batch import chosen_batch, doubt
from dshapley.collecting.candidates import candidates
from dshapley.collecting.collected import collected
from dshapley.sampling.crossfitting import cross_fitted
from dshapley.sampling.draws import NO_FOLD


def call(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def table(n, *, seed, y=True):
    points = labelled(n, seed=seed)
    frame = pd.DataFrame(points.X, columns=["a", "b", "c"])
    frame["kind"] = np.where(points.X[:, 2] > 0, "up", "down")
    return frame.assign(y=np.where(points.y, "yes", "no")) if y else frame


def folder(path, *options, n=60):
    """A run in `path`, and the table that it was made from."""
    table(n, seed=0).to_csv(path / "base.csv", index=False)
    made = call(
        "value", path / "base.csv", "--target", "y", "--model", "naive_bayes", "--m", 20,
        "--draws", 40, "--jobs", 1, "--no-report", "--out", path / "run", *options,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    return path / "run"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a run; no test changes the run."""
    path = tmp_path_factory.mktemp("collect")
    folder(path)
    table(50, seed=1, y=False).to_csv(path / "pool.csv", index=False)
    return path


@pytest.fixture(autouse=True)
def wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


def test_from_a_pool_to_a_batch(place, tmp_path):
    words = ["collect", place / "run", place / "pool.csv", "--n", 5, "--jobs", 1]
    result = call(*words, "--out", tmp_path / "next")
    assert result.exit_code == 0, result.output
    assert "A batch of 5 to collect next" in result.stdout
    assert "50 candidates, 40 draws" in result.stdout
    frame = pd.read_csv(tmp_path / "next" / "collect.csv")
    assert frame.columns.tolist() == [
        "id", "batch", "rank", "expected_value", "stderr",
        "value_no", "probability_no", "value_yes", "probability_yes",
    ]  # fmt: skip
    assert frame["batch"].dropna().tolist() == [1, 2, 3, 4, 5]
    assert sorted(frame["rank"]) == list(range(1, 51))
    mean = sum(frame[f"value_{y}"] * frame[f"probability_{y}"] for y in ("no", "yes"))
    np.testing.assert_allclose(frame["expected_value"], mean, atol=1e-6)
    again = call(*words, "--out", tmp_path / "next")
    assert again.stdout == result.stdout
    fewer = call(*words, "--out", tmp_path / "next", "--draws", 30)
    assert "holds 40 draws, but this call stops after 30" in fewer.stderr


def test_the_draws_are_those_of_the_run(place):
    """As by hand: the same sets, seed, folds and weights; candidates are in no fold."""
    found = candidates(place / "run", place / "pool.csv")
    answer = collected(found, n=3, stop=40)
    B, run = found.design.database, ds.load_run(place / "run")
    U = cross_fitted(ds.potential("naive_bayes", test=B), B, seed=0)
    design = ds.Design(
        B, 20, weights=run.weights, seed=0, folds=U.rows, balanced=True, control_variates=True
    )
    draws = answer.values.draws
    assert draws.k.tolist() == run.k.tolist()
    assert (draws.folds.of == NO_FOLD).all()
    by_hand = ds.label_values(U, design, found.rows, stop=40)
    np.testing.assert_array_equal(answer.values.values, by_hand.expected.values)


def test_candidates_with_labels_get_the_values_of_value(tmp_path):
    """`dshapley value --points` and `dshapley collect` give the same values to the same rows."""
    table(40, seed=2).to_csv(tmp_path / "test.csv", index=False)
    run = folder(tmp_path, "--test", tmp_path / "test.csv")
    pool = table(220, seed=1)
    pool.to_csv(tmp_path / "pool.csv", index=False)
    other = call(
        "value", tmp_path / "base.csv", "--target", "y", "--model", "naive_bayes", "--m", 20,
        "--draws", 40, "--jobs", 1, "--no-report", "--out", tmp_path / "other",
        "--test", tmp_path / "test.csv", "--points", tmp_path / "pool.csv",
    )  # fmt: skip
    assert other.exit_code == 0, other.output
    result = call(
        "collect", run, tmp_path / "pool.csv", "--jobs", 1, "--out", tmp_path / "next", "--n", 4
    )
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(tmp_path / "next" / "collect.csv").set_index("id").sort_index()
    values = pd.read_csv(tmp_path / "other" / "values.csv").set_index("id").sort_index()
    np.testing.assert_array_equal(frame["value"], values["value"])
    np.testing.assert_array_equal(frame["stderr"], values["stderr"])
    assert frame["label"].tolist() == pool["y"].tolist()


def test_rows_that_the_run_has_are_left_out(place, tmp_path):
    both = pd.concat([table(60, seed=0)[:7], table(20, seed=1)])
    both.drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    result = call("collect", place / "run", tmp_path / "pool.csv", "--draws", 20, "--jobs", 1)
    assert "7 of the 27 candidates are in the database already and are left out" in result.stderr
    assert "20 candidates, 20 draws" in result.stdout
    both[:7].to_csv(tmp_path / "pool.csv", index=False)
    result = call("collect", place / "run", tmp_path / "pool.csv")
    assert result.exit_code == 2
    assert "every row is in the run already" in result.stderr


def broken(name, path):
    pool = table(20, seed=1, y=False)
    changes = {
        "column": pool.drop(columns="b"),
        "text": pool.assign(a="x"),
        "empty": pool[:0],
        "labels": pool.assign(y=[None, *["yes"] * 19]),
    }
    changes[name].to_csv(path, index=False)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("column", "lacks the column 'b'"),
        ("text", "holds numbers in the first table but 'x' in"),
        ("empty", "the table is empty"),
        ("labels", "the target 'y' is missing in 1 of 20 rows"),
    ],
)
def test_bad_tables_are_one_line(place, tmp_path, name, words):
    broken(name, tmp_path / "pool.csv")
    result = call("collect", place / "run", tmp_path / "pool.csv", "--out", tmp_path / "next")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "pool.csv" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "next").exists()


def test_other_questions_are_one_line(place, tmp_path):
    pool = place / "pool.csv"
    for words, said in (
        ([place / "run", place / "base.csv"], "is the table of"),
        ([tmp_path, pool], "holds no run"),
        ([place / "run", pool, "--n", 0], "at least 1"),
        ([place / "run", pool, "--by", "luck"], "use 'doubt' or 'value'"),
    ):
        result = call("collect", *words)
        assert result.exit_code == 2
        assert said in result.stderr
    changed = tmp_path / "base.csv"
    table(60, seed=3).to_csv(changed, index=False)
    result = call("collect", place / "run", pool, "--source", changed)
    assert result.exit_code == 2
    assert "has changed since" in result.stderr


def test_words_that_the_database_lacks_are_said(place, tmp_path):
    pool = table(20, seed=1, y=False)
    pool.loc[:3, "kind"] = "sideways"
    pool.to_csv(tmp_path / "pool.csv", index=False)
    result = call("collect", place / "run", tmp_path / "pool.csv", "--draws", 20, "--jobs", 1)
    assert result.exit_code == 0
    assert "a value of kind that the database lacks (sideways): 4;" in result.stderr


def test_runs_of_bundles_are_refused(tmp_path):
    frame = table(60, seed=0).assign(who=np.repeat(np.arange(20), 3))
    frame.to_csv(tmp_path / "base.csv", index=False)
    call(
        "value", tmp_path / "base.csv", "--target", "y", "--model", "naive_bayes", "--m", 10,
        "--draws", 20, "--jobs", 1, "--no-report", "--out", tmp_path / "run", "--group", "who",
    )  # fmt: skip
    frame.to_csv(tmp_path / "pool.csv", index=False)
    result = call("collect", tmp_path / "run", tmp_path / "pool.csv")
    assert result.exit_code == 2
    assert "candidates are single rows" in result.stderr


def test_a_share_is_measured_and_the_others_are_predicted(place, tmp_path):
    table(200, seed=4, y=False).to_csv(tmp_path / "pool.csv", index=False)
    found = candidates(place / "run", tmp_path / "pool.csv")
    answer = collected(found, n=5, stop=40, share=0.3)
    frame = answer.to_frame()
    assert frame["predicted"].sum() == (~answer.measured).sum() > 100
    assert frame.loc[frame["predicted"], "value_no"].isna().all()
    assert np.isfinite(frame["expected_value"]).all()
    assert answer.measured[answer.batch].all()  # doubt is known of measured rows only
    by_value = collected(found, n=5, stop=40, share=0.3, by="value")
    assert len(by_value.batch) == 5


def test_numbers_get_an_expected_value_too(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80)})
    frame["y"] = frame["a"] + 0.3 * rng.normal(size=80)
    frame[:50].to_csv(tmp_path / "base.csv", index=False)
    frame[50:].drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    made = call(
        "value", tmp_path / "base.csv", "--target", "y", "--m", 20, "--draws", 40, "--jobs", 1,
        "--no-report", "--out", tmp_path / "run",
    )  # fmt: skip
    assert made.exit_code == 0
    result = call("collect", tmp_path / "run", tmp_path / "pool.csv", "--jobs", 1, "--n", 3)
    assert result.exit_code == 0, result.output
    assert "not measured whether that is better" in " ".join(result.stdout.split())
    result = call("collect", tmp_path / "run", tmp_path / "pool.csv", "--by", "doubt")
    assert result.exit_code == 2
    frame = collected(candidates(tmp_path / "run", tmp_path / "pool.csv"), n=3, stop=40).to_frame()
    assert [f"label_{i}" in frame for i in (1, 5, 6)] == [True, True, False]


def test_a_batch_has_no_copies():
    rng = np.random.default_rng(0)
    X = np.vstack([np.zeros((40, 2)), rng.normal(size=(60, 2))])
    score = np.r_[np.ones(40), rng.uniform(size=60)]
    batch = chosen_batch(score, ds.Points(X), 10)
    assert len(set(batch.tolist())) == 10
    assert (batch < 40).sum() <= 1
    assert (np.diff(score[batch]) <= 0).all()
    # Fewer distinct rows than asked for: all of them.
    assert sorted(chosen_batch(score[:42], ds.Points(X[:42]), 10).tolist()) == [0, 40, 41]


def test_doubt_is_largest_between_two_labels():
    p = np.array([[0.4, 0.4, 0.2], [0.34, 0.33, 0.33], [0.9, 0.1, 0.0]])
    assert np.argsort(-doubt(p), kind="stable").tolist() == [0, 1, 2]
