"""Mislabelled points: the experiment runs, is kept, is drawn, and can fail."""

import numpy as np
import pandas as pd
import pytest

import dshapley as ds
from dshapley.experiments import mislabelled
from dshapley.experiments.mislabelled import D_SHAPLEY, LEFT_OUT, NEIGHBOURS, RANDOM, TMC
from dshapley.experiments.shared.work import Work

pytestmark = pytest.mark.slow

WAYS = [D_SHAPLEY, NEIGHBOURS, TMC, LEFT_OUT, RANDOM]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    work = Work(scale="smoke", folder=tmp_path_factory.mktemp("mislabelled"))
    return mislabelled.run(work), work


def test_runs_and_goes_on(done, monkeypatch):
    rows, work = done
    assert list(rows.way.unique()) == WAYS
    assert set(rows.data) == {"adult_sample", "breast_cancer"}
    for _, line in rows.groupby(["data", "way", "repetition"]):
        assert line.found.is_monotonic_increasing
        assert line.auc.nunique() == 1
    monkeypatch.setattr(mislabelled, "tmc", None)  # nothing is computed again
    pd.testing.assert_frame_equal(mislabelled.run(work), rows)


def test_wrong_labels_are_found(done):
    auc = done[0].groupby(["data", "way"]).auc.mean()
    assert auc["breast_cancer", D_SHAPLEY] > 0.8
    assert auc["breast_cancer", NEIGHBOURS] > 0.8


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b", "c"]])
def test_flips(labels):
    y = np.array(labels)[np.arange(200) % len(labels)]
    points = ds.Points(np.arange(200.0).reshape(-1, 1), y)
    changed, flipped = mislabelled.with_flips(points, 0.1, seed=3)
    assert flipped.sum() == 20
    np.testing.assert_array_equal(changed.y != y, flipped)
    assert set(changed.y) <= set(labels)
    np.testing.assert_array_equal(changed.ids, points.ids)
    again = mislabelled.with_flips(points, 0.1, seed=4)[1]
    assert (again != flipped).any()


def test_claims_can_fail(done):
    rows, _ = done
    noise = 0.001 * rows.repetition
    at_best = rows.assign(auc=0.6 + 0.3 * rows.way.isin([D_SHAPLEY, NEIGHBOURS]) + noise)
    assert {claim.verdict for claim in mislabelled.check(at_best)} == {"holds"}
    at_worst = rows.assign(
        auc=0.9 - 0.3 * rows.way.isin([D_SHAPLEY, NEIGHBOURS]) + noise * (rows.way == RANDOM)
    )
    assert {claim.verdict for claim in mislabelled.check(at_worst)} == {"fails"}
    # A little worse than TMC is no worse.
    near = rows.assign(auc=0.8 + 0.01 * (rows.way == TMC) + noise * (rows.way == D_SHAPLEY))
    verdicts = [claim.verdict for claim in mislabelled.check(near) if TMC in claim.text]
    assert verdicts == ["holds", "holds"]


def test_is_drawn(done):
    figure = mislabelled.plot(done[0])
    assert len(figure.axes) == 2
    assert figure.axes[0].get_ylabel()
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_title()
        assert len(axis.get_legend().get_texts()) == len(WAYS)


def test_a_table_of_ones_own_takes_the_place_of_the_medical_one(tmp_path):
    path = tmp_path / "mine.csv"
    ds.datasets.adult_sample().head(300).to_csv(path, index=False)
    setting = mislabelled.SETTINGS["smoke"]
    work = Work(scale="smoke", table=(path, "income"))
    found = mislabelled._dataset(setting, "breast_cancer", 0, work)  # in its place, at smoke
    assert found.name == "mine (own)"
    assert (len(found.database), len(found.test)) == (setting.n, setting.n_test)
    assert mislabelled._dataset(setting, "adult_sample", 0, work).name == "adult_sample"
