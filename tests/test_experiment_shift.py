"""Buyers unlike the seller: the experiment runs, is kept, is drawn, and can fail."""

import numpy as np
import pandas as pd
import pytest

from dshapley.data.points import Points
from dshapley.experiments import shift
from dshapley.experiments.shared.work import Work
from dshapley.sampling.draws import Draws

pytestmark = pytest.mark.slow

SMOKE = shift.SETTINGS["smoke"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    work = Work(scale="smoke", folder=tmp_path_factory.mktemp("shift"), n_jobs=1)
    return shift.run(work), work


def test_runs_and_goes_on(done, monkeypatch):
    rows, work = done
    assert len(rows) == 4 * len(SMOKE.shares)
    assert (rows[["distance", "worst", "worst_stderr", "lipschitz", "bound"]] > 0).all(axis=None)
    monkeypatch.setattr(shift, "run_draws", None)  # nothing is computed again
    pd.testing.assert_frame_equal(shift.run(work), rows)


def test_more_rows_of_another_age_are_further_away(done):
    by_share = done[0].groupby("share").distance.mean()
    assert by_share.is_monotonic_increasing


def test_the_bound_is_that_of_the_theorem(done):
    """2/m sum over k < m of k L / k: 2 L W (m - 1) / m."""
    rows = done[0]
    expected = 2 * rows.lipschitz * rows.distance * (SMOKE.m - 1) / SMOKE.m
    np.testing.assert_allclose(rows.bound, expected)


def test_buyers_and_seller_share_no_rows():
    dataset = shift.load("adult_sample", n_database=1_500, n_test=200, n_heldout=0)
    group = shift.GROUPS["adult_sample"](shift.table("adult_sample"))
    member = (group.loc[dataset.database.ids] == "up to 28").to_numpy()
    found = shift.Shift(setting=SMOKE, dataset=dataset, group="up to 28", member=member)
    ages = shift.table("adult_sample")["age"]
    assert (ages.loc[found.seller.ids] > 28).all()
    for share in SMOKE.shares:
        buyer = found.buyer(share)
        assert len(buyer) == len(found.seller) == SMOKE.n
        assert (ages.loc[buyer.ids] <= 28).mean() == share
        assert not set(buyer.ids) & set(found.seller.ids)
    assert set(found.Z.ids) <= set(found.seller.ids)


def test_regions():
    rows = pd.DataFrame(np.eye(4, dtype=int), columns=[f"Wilderness_Area{i}" for i in range(1, 5)])
    assert shift.GROUPS["covertype"](rows).tolist() == ["area 1", "area 2", "area 3", "area 4"]


def test_the_lipschitz_constant_of_draws():
    Z = Points([[0.0], [3.0], [3.0]], ["a", "a", "b"])
    draws = Draws.none(Z, weights=np.ones(5) / 5)
    marginals = np.array([[0.0, 0.3, 0.3], [0.0, 0.0, 0.1]], dtype=np.float32)
    more = {"t": np.arange(2), "k": np.array([1, 5]), "marginals": marginals}
    draws = Draws(**{**draws.__dict__, **more, "seconds": np.zeros(2)})
    # k = 1: 0.3 over 3; k = 5: 5 times 0.1 over the distance of two labels, 1.
    assert shift.lipschitz(draws, Z) == pytest.approx(0.5)


@pytest.mark.parametrize(("sign", "verdict"), [(1, "holds"), (-1, "fails")])
def test_claims_can_fail(done, sign, verdict):
    rows = done[0]
    noise = np.random.default_rng(0).normal(0, 1e-6, len(rows))
    far = rows.distance - rows.distance.min()
    doctored = rows.assign(
        rank_correlation=0.9 - sign * 0.1 * far + noise,
        gap=0.01 + sign * 0.001 * far + noise,
        worst=rows.bound - sign * 0.1,
        worst_stderr=0.01,
    )
    claims = shift.check(doctored)
    assert len(claims) == 3
    assert {claim.verdict for claim in claims} == {verdict}


def test_is_drawn(done):
    figure = shift.plot(done[0])
    assert len(figure.axes) == 2
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert axis.get_title()
        assert axis.get_legend()
