"""What to collect next: the experiment runs, is kept, is drawn, and its claims can fail."""

from pathlib import Path

import pandas as pd
import pytest

from dshapley.experiments import collecting
from dshapley.experiments.collecting import (
    DOUBT,
    EXPECTED,
    EXPECTED_TEST,
    RANDOM,
    TRUE,
    TRUE_TEST,
    UNCERTAIN,
)
from dshapley.experiments.shared.work import Claim, Work

PUBLISHED = Path(__file__).parents[1] / "docs" / "reproduction" / "collecting.csv"

WAYS = {RANDOM, *collecting._SHOWN}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    work = Work(scale="smoke", folder=tmp_path_factory.mktemp("collecting"), n_jobs=1)
    return collecting.run(work), work


@pytest.mark.slow
def test_runs_and_goes_on(done, monkeypatch):
    rows, work = done
    assert set(rows.way) == WAYS
    assert set(rows.data) == {"adult_sample", "breast_cancer"}
    assert sorted(rows.added.unique()) == [0, 4, 8]
    begin = rows[rows.added == 0].groupby(["data", "repetition"]).accuracy
    assert (begin.nunique() == 1).all()  # every way begins with the same table
    assert rows.accuracy.between(0.4, 1).all()
    monkeypatch.setattr(collecting, "label_values", None)  # nothing is computed again
    pd.testing.assert_frame_equal(collecting.run(work), rows)


@pytest.mark.slow
def test_is_drawn(done):
    figure = collecting.plot(done[0])
    assert [axis.get_title() for axis in figure.axes] == ["adult_sample", "breast_cancer"]
    assert len(figure.legends[0].get_texts()) == len(WAYS) - 1


def rows_with(better):
    """Made by hand: 0.8 for every way, more for those of `better`, and a little noise."""
    return pd.DataFrame(
        [
            {
                "data": "table",
                "repetition": i,
                "way": way,
                "added": added,
                "accuracy": 0.8 + better.get(way, 0.0) + 0.001 * i * (way == RANDOM),
            }
            for way in WAYS
            for i in range(4)
            for added in (0, 10, 20)
        ]
    )


def test_claims_can_hold_and_fail():
    good = {DOUBT: 0.04, UNCERTAIN: 0.02, EXPECTED_TEST: 0.05, TRUE_TEST: 0.05}
    claims = collecting.check(rows_with(good))
    assert len(claims) == 4
    assert [claim.verdict for claim in claims] == ["holds"] * 4
    assert "0.8400" in claims[0].text
    bad = {DOUBT: -0.04, UNCERTAIN: 0.02, EXPECTED_TEST: -0.05, TRUE_TEST: -0.05}
    assert {claim.verdict for claim in collecting.check(rows_with(bad))} == {"fails"}


def test_what_the_command_says_is_what_was_measured():
    """`reporting.collecting` and docs/collect.md say on how many of four tables a way helps."""
    rows = pd.read_csv(PUBLISHED)
    mean = rows[rows.added > 0].groupby(["data", "way", "repetition"]).accuracy.mean()

    def verdicts(way):
        return [
            Claim.of(way, (mean[data, way] - mean[data, RANDOM]).to_numpy()).verdict
            for data in ("adult", "covertype", "pucrio_har", "digits")
        ]

    assert verdicts(DOUBT) == ["not shown", "not shown", "holds", "holds"]
    assert verdicts(UNCERTAIN) == ["not shown", "not shown", "holds", "holds"]
    assert verdicts(TRUE_TEST) == ["holds"] * 4
    assert verdicts(TRUE).count("holds") == verdicts(EXPECTED).count("holds") == 0
    assert verdicts(EXPECTED_TEST) == ["not shown", "fails", "not shown", "not shown"]
    apart = 100 * (mean.unstack("way").sub(mean.unstack("way")[RANDOM], axis=0))
    page = (PUBLISHED.parents[1] / "collect.md").read_text()
    for way in (DOUBT, EXPECTED, EXPECTED_TEST, TRUE, TRUE_TEST, UNCERTAIN):
        for data in rows.data.unique():
            found = apart.loc[data][way]
            assert f"{found.mean():.2f} ± {found.sem():.2f}" in page
