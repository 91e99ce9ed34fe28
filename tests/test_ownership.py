"""Tables that a run folder names: read in runs of one's own, or where the user says."""

import json
import shutil
import stat

import pandas as pd
import pytest

import dshapley as ds
from dshapley import ownership
from dshapley.data.datasets import adult_sample
from dshapley.running.run_folder import is_own
from test_cli import call

ASKED = ["--target", "income", "--model", "naive_bayes", "--m", 20, "--draws", 20, "--jobs", 1]


@pytest.fixture
def run(tmp_path):
    """A run of three tables, in one folder with them."""
    people = adult_sample().drop(columns="fnlwgt").head(300)
    for name, part in (("base", people[:150]), ("test", people[150:250]), ("offer", people[250:])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    people[:5].to_csv(tmp_path / "new.csv", index=False)
    tables = [tmp_path / "base.csv", "--test", tmp_path / "test.csv"]
    done = call("value", *tables, "--points", tmp_path / "offer.csv", *ASKED,
                "--out", tmp_path / "run")  # fmt: skip
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


@pytest.fixture
def foreign(run, monkeypatch, tmp_path_factory):
    """The same run, seen by another user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    return run


def commands(run):
    return [
        ["predict", run, run.parent / "new.csv"],
        ["price", run, "--rate", 100, "--details", "age"],
    ]


@pytest.mark.parametrize("i", [0, 1])
def test_a_run_of_ones_own_is_followed_to_its_tables(run, i):
    assert is_own(run)
    done = call(*commands(run)[i])
    assert done.exit_code == 0, done.output
    moved = run.rename(run.parent / "elsewhere")
    assert is_own(moved)
    assert call(*commands(moved)[i]).exit_code == 0


@pytest.mark.parametrize("i", [0, 1])
def test_tables_named_by_a_foreign_folder_are_not_read(foreign, i):
    refused = call(*commands(foreign)[i])
    assert refused.exit_code == 2
    assert "was not made by you on this machine" in refused.stderr
    assert "--source" in refused.stderr
    for source in (foreign.parent, foreign.parent / "base.csv"):
        done = call(*commands(foreign)[i], "--source", source)
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("part", ["table", "test_table", "points_table"])
def test_a_manifest_that_was_changed_is_nobodys_own(run, tmp_path, part):
    secret = tmp_path / "secret"
    secret.mkdir()
    shutil.copy(tmp_path / "base.csv", secret / "payroll.csv")
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["context"]["source"][part] = str(secret / "payroll.csv")
    path.write_text(json.dumps(manifest))
    assert not is_own(run)
    assert call(*commands(run)[0]).exit_code == 2
    # By name alone, in the folder that the user names: the secret folder is never looked into.
    named = call(*commands(run)[0], "--source", tmp_path)
    assert named.exit_code == 2
    assert f"{tmp_path / 'payroll.csv'}, a table of" in named.stderr


@pytest.mark.parametrize("name", ["../base.csv", "..", ".", "", "/", "a\0b"])
def test_names_that_lead_elsewhere(foreign, name):
    path = foreign / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["context"]["source"]["points_table"] = name
    path.write_text(json.dumps(manifest))
    done = call(*commands(foreign)[0], "--source", foreign.parent)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("error: ") == 1


@pytest.mark.parametrize(
    "change",
    [{"test_size": 2.0}, {"drop": "age"}, {"id": 3}, {"task": "guess"}, {"group": ["a"]},
     {"points_table": 7}, {"target": None}],
)  # fmt: skip
def test_a_question_of_wrong_types_is_one_line(foreign, change):
    path = foreign / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["context"]["source"] |= change
    path.write_text(json.dumps(manifest))
    done = call(*commands(foreign)[0], "--source", foreign.parent)
    assert done.exit_code == 2
    assert "is damaged" in done.stderr


def test_rows_that_differ_are_refused_wherever_they_are(foreign, tmp_path):
    rows = pd.read_csv(tmp_path / "offer.csv")
    rows.assign(age=rows["age"] + 1).to_csv(tmp_path / "offer.csv", index=False)
    done = call(*commands(foreign)[0], "--source", tmp_path)
    assert done.exit_code == 2
    assert "offer.csv has changed since" in done.stderr


def test_the_key_is_private_and_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code = ownership.our_code({"a": 1})
    file = tmp_path / "dshapley" / "key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ownership._key.cache_clear()
    assert ownership.is_ours({"a": 1}, code)
    assert not ownership.is_ours({"a": 2}, code)
    assert not ownership.is_ours({"a": 1}, "ä")
    assert [path.name for path in file.parent.iterdir()] == ["key"]


def test_without_a_place_for_the_key_a_run_is_kept_but_not_known(tmp_path, monkeypatch, database):
    (tmp_path / "state").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    U = ds.MeanPotential(database)
    ds.run(U, ds.Design(database, m=5), database, stop=3, store=tmp_path / "run")
    assert len(ds.load_run(tmp_path / "run")) == 3
    assert not is_own(tmp_path / "run")
    assert ownership.our_code({}) == ""
