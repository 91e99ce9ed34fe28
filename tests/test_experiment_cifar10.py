"""CIFAR-10 from a fiftieth of its points: it runs, is kept, is drawn, and its claims can fail."""

import numpy as np
import pandas as pd
import pytest

from dshapley.experiments import cifar10
from dshapley.experiments.cifar10 import DIRECT, FAST, HALVES, KNN, LOWEST, WITHIN
from dshapley.experiments.shared.removing import RANDOM
from dshapley.experiments.shared.work import Work

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cifar10")


@pytest.fixture(scope="module")
def rows(folder):
    return cifar10.run(Work(scale="smoke", folder=folder))


def test_rows_are_complete(rows):
    setting = cifar10.SETTINGS["smoke"]
    removed = rows[rows.what == "removal"]
    ways = removed.groupby("points").way.unique().map(set).to_dict()
    assert ways == {
        "all 600 points": {RANDOM, FAST, WITHIN, KNN, LOWEST},
        "sets of 40 points": {RANDOM, FAST, WITHIN, KNN, DIRECT},
    }
    assert (
        removed.groupby(["points", "way"]).fraction.unique().map(tuple) == setting.fractions
    ).all()
    counts = removed.groupby(["points", "way"])[["set", "repeat"]].nunique()
    assert (counts.loc["sets of 40 points", "set"] == setting.sets).all()
    assert (counts.xs(RANDOM, level="way").repeat == setting.repeats).all()
    # Nothing is gone at 0: all orders begin alike.
    assert (removed[removed.fraction == 0].groupby(["points", "set"]).accuracy.nunique() == 1).all()


def test_what_is_kept_is_used_again(folder, rows, monkeypatch):
    def never(*_, **__):
        raise AssertionError("computed again")

    for name in ("run_draws", "completed", "knn_values", "removal"):
        monkeypatch.setattr(cifar10, name, never)
    said = []
    pd.testing.assert_frame_equal(
        cifar10.run(Work(scale="smoke", folder=folder, say=said.append)), rows
    )
    assert said == []


def test_points_are_measured_once(folder, rows):
    """Those valued directly are interpolated by the other way, whose draws never saw them."""
    setting = cifar10.SETTINGS["smoke"]
    values = cifar10._kept(setting, Work(scale="smoke", folder=folder), DIRECT)
    assert values.point.min() == setting.measured
    assert len(values) == setting.direct >= setting.sets * setting.task.m


def test_claims_hold_on_digits(rows):
    claims = cifar10.check(rows)
    assert len(claims) == 3 + 4 + 2 * 3  # of the whole, of sets, of agreement
    assert [c.verdict for c in claims if f"by {FAST} accuracy" in c.text] == ["holds", "holds"]


def test_claims_of_removal_can_fail(rows):
    doctored = rows.assign(accuracy=rows.accuracy.where(rows.way == RANDOM, 0.99))
    claims = [c for c in cifar10.check(doctored) if "top half" in c.text]
    assert claims
    assert {claim.verdict for claim in claims} == {"fails"}
    alike = rows.assign(accuracy=0.8)
    claims = [c for c in cifar10.check(alike) if "top half" in c.text]
    assert {claim.verdict for claim in claims} == {"not shown"}


def test_claims_of_agreement_can_fail(rows):
    halves = rows.pair == cifar10.HALVES
    for others, verdict in ((0.3, "fails"), (0.85, "holds")):
        doctored = rows.assign(spearman=np.where(halves, 0.9, others), stderr=0.01)
        claims = cifar10.check(doctored)
        assert [c.verdict for c in claims if "agree at least" in c.text] == [verdict] * 6


def test_an_interval_knows_the_number_of_images(rows):
    """A few held-out images leave open what many would show."""
    few = rows.assign(stderr=np.where(rows.what == "removal", 0.3, rows.stderr))
    assert "holds" not in {c.verdict for c in cifar10.check(few) if "top half" in c.text}


def test_the_plot_says_what_it_shows(rows):
    figure = cifar10.plot(rows)
    whole, sets, agreement = figure.axes
    assert whole.get_ylabel() == "accuracy on held-out images"
    assert {axis.get_xlabel() for axis in (whole, sets)} == {"fraction of the points removed"}
    assert agreement.get_xlabel() == "Spearman's correlation"
    assert all(axis.get_title() for axis in figure.axes)
    assert [text.get_text() for text in sets.get_legend().get_texts()] == [
        *(RANDOM, FAST, WITHIN, KNN, DIRECT),
    ]
    labels = [label.get_text().replace("\n", " ") for label in agreement.get_yticklabels()]
    assert HALVES in labels
