"""The cost claim: the experiment runs, is kept, is drawn, and can fail."""

import numpy as np
import pandas as pd
import pytest

import dshapley as ds
from dshapley.experiments import cost
from dshapley.experiments.cost import ALGORITHM_1, ALL, FAST, OURS, TMC, TMC_WHOLE, WITHIN
from dshapley.experiments.shared.work import Work

pytestmark = pytest.mark.slow

WAYS = [TMC, TMC_WHOLE, ALGORITHM_1, FAST, f"{FAST}, p = 0.3", OURS]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    work = Work(scale="smoke", folder=tmp_path_factory.mktemp("cost"))
    return cost.run(work), work


def test_runs_and_goes_on(done, monkeypatch):
    rows, work = done
    assert list(rows.way.unique()) == WAYS
    assert rows.repetition.nunique() == 3
    for _, line in rows[rows.way != WAYS[4]].groupby(["order", "way", "repetition"]):
        assert line.trainings.is_monotonic_increasing
        assert line.seconds.is_monotonic_increasing
    monkeypatch.setattr(cost, "tmc_draws", None)  # nothing is computed again
    pd.testing.assert_frame_equal(cost.run(work), rows)


class Counted:
    """The number of rows of each set that is evaluated."""

    def __init__(self):
        self.sizes = []

    def __call__(self, S):
        self.sizes.append(len(S))
        return float(np.round(1 - 0.8 ** S.X.sum(), 3))


def test_cuts_are_where_tmc_stopped():
    U, points = Counted(), ds.Points(np.random.default_rng(0).integers(0, 3, size=(40, 1)))
    record = ds.data_shapley.tmc_draws(U, points, permutations=6, tolerance=0.05, seed=5)
    cuts = cost._cuts(record, 5)
    assert sum(c * (c + 1) / 2 for c in cuts) + len(points) == sum(U.sizes)
    assert 0 < max(cuts) < 40


def curves(halfway):
    """Rows of ways that reach half of their quality at these costs; the end is the same."""
    rng, rows = np.random.default_rng(0), []
    for repetition in range(6):
        luck = rng.normal(0, 0.03)
        for way, at in zip(WAYS, halfway, strict=True):
            for n in range(1, 25):
                spent = 2.0**n
                area = 0.1 / (1 + at / spent) + 1e-4 * rng.normal()
                row = {"trainings": spent * 10**luck, "seconds": 100 * spent, "area": area}
                rows.append({"repetition": repetition, "way": way, "draws": 2**n, **row})
    return pd.concat([pd.DataFrame(rows).assign(order=order) for order in (ALL, WITHIN)])


def verdicts(rows):
    return {claim.verdict for claim in cost.check(rows)}


def test_claims_hold_and_fail():
    assert verdicts(curves([5e4, 6e4, *[1e2] * 4])) == {"holds"}
    ten_times = cost.check(curves([1e4, 2e4, *[1e3] * 4]))
    assert {claim.verdict for claim in ten_times} == {"fails"}
    np.testing.assert_allclose([claim.by for claim in ten_times], np.log10(10 / 100), atol=0.02)
    assert all("(10 times" in claim.text for claim in ten_times)


def test_a_way_that_does_not_get_there_is_bounded():
    rows = curves([1e4, 2e4, *[1e3] * 4])
    stopped = rows[~rows.way.isin([TMC, TMC_WHOLE]) | (rows.draws <= 1000)]
    assert verdicts(stopped) == {"not shown"}  # more than it was run for, who knows how much
    late = rows[~rows.way.isin(WAYS[3:]) | (rows.draws <= 300)]
    half = [claim for claim in cost.check(late) if "50%" in claim.text]
    # They have spent more than a hundredth already.
    assert {claim.verdict for claim in half} == {"fails"}
    assert all("or fewer" in claim.text for claim in half)


def test_the_better_of_the_two_counts():
    """One of them a hundred times slower than the other: only the other is beaten."""
    rows = curves([1e4, 1e6, *[1e3] * 4])
    assert verdicts(rows) == {"fails"}
    other = curves([1e6, 1e4, *[1e3] * 4])
    assert verdicts(other) == {"fails"}


def test_luck_on_the_way_does_not_count():
    rows = curves([1e4, 2e4, *[1e3] * 4])
    lucky = rows.assign(area=rows.area.where((rows.way != FAST) | (rows.draws > 8), 0.5))
    assert [c.by for c in cost.check(lucky)] == [c.by for c in cost.check(rows)]


def test_is_drawn(done):
    figure = cost.plot(done[0])
    assert len(figure.axes) == 4
    assert figure.axes[0].get_ylabel()
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_title()
        assert axis.get_xscale() == "log"
    assert len(figure.axes[0].get_legend().get_texts()) == len(WAYS) + 1
