"""A sale from both sides: summaries and their distance, the check afterwards, bundles."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled
from dshapley import market
from dshapley.data.datasets import adult_sample
from dshapley.errors import DShapleyWarning
from dshapley.inference.agreement import rank_correlation, reliability
from dshapley.market.summaries import _directions, coded, coding_of, table_summary
from dshapley.reporting.market import check_lines, match_lines
from dshapley.sampling.provenance import About, Identity
from records import MeanGame
from test_cli import call


def words(check):
    """What a person reads of a check."""
    return "\n".join(check_lines(check))


# Summaries and their distance


def cloud(n, d=5, *, seed=0, shift=0.0):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    rows[:, 0] += shift
    return ds.Points(rows, (rows[:, 1] > 0).astype(int))


@pytest.fixture(scope="module")
def seller():
    return market.summary(cloud(1000))


@pytest.mark.parametrize("shift", [0.5, 1.0, 3.0])
def test_the_distance_of_a_shift_is_its_length(seller, shift):
    found = market.match(seller, market.summary(cloud(1000, seed=1, shift=shift), like=seller))
    assert found.beyond_noise
    error = np.sqrt(2 / 1000)  # of the difference of two means
    assert found.excess == pytest.approx(shift, abs=3 * error)
    assert found.shift == pytest.approx(shift, abs=3 * error)


def test_the_distance_is_below_that_of_optimal_transport():
    """SW / c_d <= W_1, here for a change of spread, where they are not equal."""
    rng = np.random.default_rng(0)
    a, b = ds.Points(rng.normal(size=(500, 3))), ds.Points(3 * rng.normal(size=(500, 3)))
    one = market.summary(a)
    found = market.match(one, market.summary(b, like=one))
    W = ds.bounds.wasserstein(
        ds.Points((a.X - one.mean) / one.scale), ds.Points((b.X - one.mean) / one.scale)
    )
    # 0.99 W: the spread changes alike in all directions. Both are of 500 rows, to some percent.
    assert 0.95 * W < found.distance < 1.02 * W


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_buyer"), [(1000, 1000), (1000, 60), (60, 400)])
def test_the_noise_is_what_samples_of_one_distribution_show(n, n_buyer):
    distances, noise, beyond = [], [], 0
    for seed in range(0, 60, 2):
        one = market.summary(cloud(n, seed=seed), n_projections=20)
        found = market.match(one, market.summary(cloud(n_buyer, seed=seed + 1), like=one))
        distances.append(found.distance)
        noise.append(found.noise)
        beyond += found.beyond_noise
    assert np.mean(noise) == pytest.approx(np.mean(distances), rel=0.15)
    assert beyond <= 30 * 0.05 + 3 * np.sqrt(30 * 0.05 * 0.95)  # one in twenty


def test_labels_belong_to_the_distribution():
    rows = cloud(600)
    one = market.summary(rows, label_cost=2.0)
    turned = market.match(one, market.summary(ds.Points(rows.X, 1 - rows.y), like=one))
    assert turned.beyond_noise
    assert market.match(one, market.summary(rows, like=one)).distance == 0.0
    without = market.summary(rows, label_cost=0.0)
    blind = market.match(without, market.summary(ds.Points(rows.X, 1 - rows.y), like=without))
    assert blind.distance == 0.0
    number = market.summary(ds.Points(rows.X, rows.X[:, 1] ** 3))
    other = market.summary(ds.Points(rows.X, 3 + rows.X[:, 1] ** 3), like=number)
    assert market.match(number, other).beyond_noise


def test_the_gap_is_that_of_the_theorem(seller):
    other = market.summary(cloud(500, seed=3, shift=1.0), like=seller)
    found = market.match(seller, other, beta=lambda k: 0.1 / k, m=50)
    (gap,) = found.gaps
    assert gap["gap"] == ds.bounds.shift_gap(lambda k: 0.1 / k, 50, found.distance)
    assert gap["beyond"] == ds.bounds.shift_gap(lambda k: 0.1 / k, 50, found.excess)
    assert "lower bound" in match_lines(found)[-1]
    with pytest.raises(ds.InputError, match="give m"):
        market.match(seller, other, beta=1.0)
    valued = ds.Valuation(
        values=np.ones(2),
        stderr=np.zeros(2),
        m=50,
        n_draws=9,
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    prices = market.price_list(valued, rate=7.0)
    (gap,) = market.match(seller, other, beta=lambda k: 0.1 / k, prices=prices).gaps
    assert gap["money"] == pytest.approx(7 * gap["gap"])


def test_directions_are_public():
    one, other = (_directions(list("abc"), 3, 10, seed) for seed in (0, 0))
    assert np.array_equal(one, other)
    assert not np.allclose(one, _directions(list("abd"), 3, 10, 0))
    assert not np.allclose(one, _directions(list("abc"), 3, 10, 1))
    assert np.linalg.norm(one, axis=0) == pytest.approx(1.0)


def test_a_summary_holds_no_row_and_comes_back_as_it_was(tmp_path, seller):
    rows = cloud(103)
    one = market.summary(rows)
    one.save(tmp_path / "a.json")
    back = market.load_summary(tmp_path / "a.json")
    assert market.match(one, back).distance == 0.0
    # Sorted projections would be rows' own; means over five rows or more are not.
    projected = np.sort(
        np.column_stack([(rows.X - one.mean) / one.scale, np.eye(2)[rows.y] / np.sqrt(2)])
        @ _directions(["0", "1", "2", "3", "4", "", "0", "1"], 7, 100, 0),
        axis=0,
    )
    assert one.means.shape == (100, 16)
    first = projected[:6].sum(axis=0) + (103 / 16 - 6) * projected[6]
    assert one.means[:, 0] == pytest.approx(first * 16 / 103)
    assert one.means.mean(axis=1) == pytest.approx(projected.mean(axis=0))
    for value in rows.X.ravel()[:50]:
        assert str(value) not in (tmp_path / "a.json").read_text()


@pytest.mark.parametrize(
    ("points", "options", "says"),
    [
        (cloud(10), {}, "would reveal them"),
        (ds.Points(pd.DataFrame({"a": ["x"] * 50})), {}, "encode text"),
        (ds.Points(np.full((50, 1), np.nan)), {}, "missing or infinite"),
        (cloud(50), {"n_projections": 0}, "n_projections = 0"),
        (cloud(50), {"seed": -1}, "seed = -1"),
        (cloud(50), {"label_cost": -1.0}, "label_cost = -1"),
    ],
)
def test_bad_tables_for_a_summary(points, options, says):
    with pytest.raises(ds.InputError, match=says):
        market.summary(points, **options)


def test_summaries_that_do_not_fit(tmp_path, seller):
    with pytest.raises(ds.InputError, match="cannot be compared"):
        market.match(seller, market.summary(cloud(100, seed=1)))
    with pytest.raises(ds.InputError, match="differ from those of the other side"):
        market.summary(cloud(100, d=4), like=seller)
    with pytest.raises(ds.InputError, match="no class '7'"):
        market.summary(ds.Points(cloud(100).X, np.full(100, 7)), like=seller)
    with pytest.raises(ds.InputError, match="the other has none"):
        market.summary(ds.Points(cloud(100).X), like=seller)
    with pytest.raises(ds.InputError, match="of arrays"):
        table_summary(adult_sample().head(50), like=seller)
    (tmp_path / "bad.json").write_text('{"format": 1}')
    for name, says in (("bad.json", "not a summary"), ("gone.json", "no such file")):
        with pytest.raises(ds.InputError, match=says):
            market.load_summary(tmp_path / name)


def test_tables_are_coded_by_what_the_seller_published():
    table = pd.DataFrame(
        {
            "age": [20.0, 30.0, np.nan, 40.0] * 10,
            "job": ["cook", "smith", None, "smith"] * 9 + ["spy", "cook", "cook", "cook"],
            "empty": np.nan,
            "y": ["a", "b"] * 20,
        }
    )
    coding = coding_of(table, target="y")
    assert "spy" not in json.dumps(coding)  # a single row's
    other = pd.DataFrame({"y": ["b"], "job": ["spy"], "age": [np.nan]})
    assert coded(other, coding).X.iloc[0].to_dict() == {
        "age": 30.0, "job=cook": 0.0, "job=missing": 0.0, "job=smith": 0.0, "job=(other)": 1.0,
    }  # fmt: skip
    with pytest.raises(ds.InputError, match="lacks the column 'age'"):
        coded(other.drop(columns="age"), coding)
    with pytest.raises(ds.InputError, match="has numbers on the other side"):
        coded(other.assign(age="old"), coding)


# The check after a sale


@pytest.fixture(scope="module")
def sale():
    """A list of 40 points, half of them mislabelled, and a buyer like the seller."""
    offered, flip = labelled(40, seed=2), np.arange(40) % 2 == 0
    S = ds.Points(offered.X, np.where(flip, 1 - offered.y, offered.y), [f"p{i}" for i in range(40)])
    test = labelled(150, seed=1)
    U = ds.potential(LogisticRegression(), test=test)
    valuation = ds.value(
        labelled(200), model=LogisticRegression(), test=test, points=S, m=80, stop=300,
        sampling="1/k",
    )  # fmt: skip
    return market.price_list(valuation, rate=1000.0, m=[20, 80]), labelled(40, seed=3), S, U


@pytest.fixture(scope="module")
def found(sale):
    prices, B, S, U = sale
    return market.check(prices, B, S, U=U, draws=60)


@pytest.mark.slow
def test_the_buyer_finds_the_order_of_the_list(sale, found):
    prices, B, S, U = sale
    own = ds.data_shapley.tmc(U, B + S, permutations=60, patience=10)
    assert np.array_equal(found.frame["own"], own.values[40:])
    assert found.frame["own_stderr"].to_numpy() == pytest.approx(own.stderr[40:])
    assert found.frame.index.tolist() == S.ids.tolist()
    assert np.array_equal(found.frame["value"], prices.at(80)["value"])
    assert (found.m, found.rows, found.same_test) == (80, (40, 40), True)
    r, low, high = found.rank_correlation
    assert r == pytest.approx(found.frame[["value", "own"]].corr("spearman").iloc[0, 1])
    assert low < r < high
    assert found.without_noise[0] > r
    assert found.order == "holds"
    assert "the list's order agrees with yours" in words(found)


@pytest.mark.slow
@pytest.mark.parametrize("tails", [2.5, 30])
@pytest.mark.parametrize("common", ["nothing", "a shift", "a factor"])
@pytest.mark.parametrize("noise", [3.0, 10.0])
def test_the_ceiling_is_what_errors_leave(tails, common, noise):
    """Two sides see one truth by 40 draws each: they correlate as their reliabilities say."""
    rng = np.random.default_rng(1)
    seen, said = [], []
    for _ in range(60):
        truth = rng.standard_t(tails, size=60)
        sides = []
        for _ in range(2):
            gains = truth + noise * truth.std() * rng.normal(size=(40, 60))
            if common == "a shift":
                gains += 20 * truth.std() * rng.normal(size=(40, 1))
            if common == "a factor":
                gains *= rng.exponential(size=(40, 1))
            draws = ds.Draws(
                t=np.arange(40),
                k=np.ones(40, int),
                marginals=gains.astype(np.float32),
                weights=np.ones(1),
                ids=np.arange(60),
                rows=np.ones(60, int),
            )
            sides.append(ds.estimate(draws))
        seen.append(rank_correlation(sides[0].values, sides[1].values, 0.95)[0])
        said.append(np.sqrt(np.prod([reliability(side) for side in sides])))
    gap = np.array(said) - np.array(seen)
    # The formula of Spearman and Brown is for correlations; for those of ranks it is near.
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(60) + 0.03


def test_few_draws_say_nothing_of_the_order(sale):
    prices, B, S, U = sale
    found = market.check(prices, B, S, U=U, way="subsets", draws=5)
    assert found.order == "not shown"
    few = market.check(prices, B, S.take(slice(0, 3)), U=U, m=80, draws=25)
    assert "at least four points" in words(few)
    assert "nan" not in words(few)
    once = market.check(prices, B, S, U=U, draws=1)
    assert "1000%" not in words(once)


def test_a_cut_can_take_from_what_was_bought():
    """Own rows that hurt as much as those bought help: U is that of none, and all is cut."""
    B = ds.Points(np.full((40, 1), -0.002))
    S = ds.Points(np.full((40, 1), 0.002) + 1e-6 * np.arange(40)[:, None])
    prices = listed(S.X[:, 0], 0.0, m=80)
    found = market.check(prices, B, S, U=Additive(), draws=30)
    assert found.ape[1] > found.most
    assert (found.cut, found.worth) == (True, "not shown")
    assert "cut permutations" in words(found)
    found = market.check(prices, B, S, U=Additive(), draws=30, tolerance=0)
    assert found.worth == "holds"


@pytest.mark.slow
def test_a_shuffled_list_is_found_out(sale):
    prices, B, S, U = sale
    turned = ds.Points(S.X[::-1], S.y[::-1], S.ids)  # the even ones were the bad
    found = market.check(prices, B, turned, U=U, draws=60)
    assert found.rank_correlation[0] < -0.59 + 3 / np.sqrt(39)  # -0.59, of 40 rows
    assert found.order == "fails"
    assert "order does not agree" in words(found)


def test_the_absolute_percentage_error_is_the_papers(sale):
    prices, B, S, U = sale
    good = S.take(np.arange(40) % 2 == 1)
    found = market.check(prices, B, good, U=U, m=80, draws=30)
    listed, own = found.frame["value"].sum(), found.frame["own"].sum()
    assert found.totals == pytest.approx((listed, own))
    assert listed > 0
    assert found.ape[0] == pytest.approx(abs(listed - own) / listed)


class Additive:
    """Each row is worth its first column: the value within any set, so that lists are exact."""

    def __call__(self, S):
        return float(S.X[:, 0].sum())

    def describe(self):
        return {"potential": "sum", "metric": "sum"}


def listed(values, stderr, U=None, *, m=60, common=None, **about):
    """A price list of these values, as if from a run."""
    n = len(values)
    rng = np.random.default_rng(0)
    signs = rng.normal(size=(500, 1 if common else n)) * np.ones((1, n))
    gains = values + signs * stderr * np.sqrt(500)
    k = 1 + np.arange(500) % m
    about = About(identity=Identity(potential={"potential": "sum", "metric": "sum", **about}))
    draws = ds.Draws(
        t=np.arange(500),
        k=k,
        marginals=gains.astype(np.float32),
        weights=np.full(m, 1 / m),
        ids=np.arange(n),
        rows=np.ones(n, int),
        about=about,
    )
    return market.price_list(ds.estimate(draws), rate=1.0)


def test_an_exact_list_has_no_error():
    S, B = ds.Points(np.arange(1.0, 31)[:, None]), ds.Points(np.ones((30, 1)))
    prices = listed(S.X[:, 0], 0.0)
    found = market.check(prices, B, S, U=Additive(), draws=20, tolerance=0)
    assert found.ape == (pytest.approx(0, abs=1e-6),) * 3
    assert found.rank_correlation[0] == pytest.approx(1)
    assert (found.order, found.worth) == ("holds", "holds")
    assert "1000%" not in words(found)
    dear = listed(1.5 * S.X[:, 0], 0.0)
    found = market.check(dear, B, S, U=Additive(), draws=20, tolerance=0)
    assert found.ape[0] == pytest.approx(1 / 3, abs=1e-6)
    assert (found.order, found.worth) == ("holds", "fails")
    assert "total does not agree" in words(found)


def test_the_error_of_the_ape_has_the_lists(sale):
    S, B = ds.Points(np.arange(1.0, 31)[:, None]), ds.Points(np.ones((30, 1)))
    total = S.X.sum()
    for common, error in ((True, 30 * 0.5), (False, np.sqrt(30) * 0.5)):
        prices = listed(S.X[:, 0], 0.5, common=common)
        found = market.check(prices, B, S, U=Additive(), draws=10, tolerance=0)
        assert found.ape_stderr == pytest.approx(error / total, rel=0.1)
        # Of a part of the list, as related as the whole is.
        half = S.take(slice(0, 15))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DShapleyWarning)  # 45 rows, not 60
            found = market.check(prices, B, half, U=Additive(), draws=10, tolerance=0)
        expected = 15 * 0.5 if common else np.sqrt(15) * 0.5
        assert found.total_errors[0] == pytest.approx(expected, rel=0.1)


def test_noise_that_hides_the_order_is_said():
    S, B = ds.Points(np.arange(1.0, 31)[:, None] / 30), ds.Points(np.ones((30, 1)))
    found = market.check(listed(S.X[:, 0], 9.0), B, S, U=Additive(), draws=5, tolerance=0)
    assert found.order == "not shown"
    assert "too few points or permutations" in words(found)


def test_a_list_of_another_size_is_said(sale):
    prices, B, S, U = sale
    with pytest.warns(DShapleyWarning, match="m = 20 is the nearest"):
        market.check(prices, B.take(slice(0, 10)), S.take(slice(0, 10)).take(
            slice(0, 6)), U=U, draws=2)  # fmt: skip
    with pytest.raises(ds.InputError, match="m = 30: the list has prices for m = 20, 80"):
        market.check(prices, B, S, U=U, m=30)


def test_lists_under_another_potential_are_refused(sale):
    prices, B, S, U = sale
    test = (U.test.X, U.test.y)
    for other, says in (
        (ds.potential(LogisticRegression(), test=test, metric="f1"), "metric is accuracy there"),
        (ds.potential(LogisticRegression(C=0.1), test=test), "estimator.C is 1.0 there and 0.1"),
        (ds.potential(LogisticRegression(), test=test, min_rows=5), "min_rows is 1 there"),
        (Additive(), "a different potential"),
    ):
        with pytest.raises(ds.InputError, match=says) as caught:
            market.check(prices, B, S, U=other)
        assert "\n" not in str(caught.value)
    mine = ds.potential(LogisticRegression(), test=labelled(50, seed=9), retrain="always")
    assert not market.check(prices, B, S, U=mine, draws=2).same_test
    nameless = ds.Valuation(
        values=np.ones(2),
        stderr=np.zeros(2),
        m=5,
        n_draws=9,
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    with pytest.raises(ds.InputError, match="does not say"):
        market.check(market.price_list(nameless, rate=1.0), B, S, U=U)


def test_rows_bought_must_be_on_the_list(sale):
    prices, B, S, U = sale
    for ids, says in (
        (["p1", "p1"], "two of the rows bought have the id 'p1'"),
        (["p1", "p99"], "1 of 2 rows bought are not on the list: there is no 'p99'"),
    ):
        with pytest.raises(ds.InputError, match=says):
            market.check(prices, B, ds.Points(S.X[:2], S.y[:2], ids), U=U, m=80)


@pytest.fixture
def bundles():
    """Six rows in three bundles, valued under a sum, and their list for data sets of 12 rows."""
    rows, U = ds.Points(np.arange(6.0)[:, None]), Additive()
    lots = ds.Bundles(rows, ["b", "a", "a", "c", "c", "c"])
    found = ds.estimate(ds.run(U, ds.Design(rows, m=12), lots, stop=30))
    return market.price_list(found, rate=1.0), lots, U


def test_bundles_cannot_be_checked_as_rows(bundles):
    prices, lots, U = bundles
    rows = ds.Points(lots.points.X[:3], ids=["a", "b", "c"])
    with pytest.raises(ds.InputError, match="'a' has 2 rows on the list, but 1 in what was"):
        market.check(prices, lots.points, rows, U=U, m=12)
    fewer = ds.Bundles(lots.points.take(slice(1, 5)), lots.groups[1:5])
    with pytest.raises(ds.InputError, match="'c' has 3 rows on the list, but 2 in what was"):
        market.check(prices, lots.points, fewer, U=U, m=12)
    other = ds.Bundles(lots.points, ["b", "a", "a", "d", "d", "d"])
    with pytest.raises(ds.InputError, match="1 of 3 bundles bought are not on the list"):
        market.check(prices, lots.points, other, U=U)


def test_bundles_are_checked_as_sets(bundles):
    prices, lots, U = bundles
    B = ds.Points(np.ones((6, 1)))
    found = market.check(prices, B, lots, U=U, draws=300, m=12)
    assert found.frame.index.tolist() == ["a", "b", "c"]
    errors = found.frame["own_stderr"].to_numpy() + 1e-9
    assert (np.abs(found.frame["own"] - [3, 0, 12]) < 4 * errors).all()
    assert (found.rows, found.way) == ((6, 6), "sets")


@pytest.mark.slow
def test_both_ways_find_the_same_values(sale):
    prices, B, S, U = sale
    one, two = (
        market.check(prices, B, S, U=U, way=way, draws=n, tolerance=0)
        for way, n in (("permutations", 60), ("subsets", 600))
    )
    apart = (one.frame["own"] - two.frame["own"]) / np.hypot(
        one.frame["own_stderr"], two.frame["own_stderr"]
    )
    assert np.abs(apart).max() < 4
    assert "600 subsets of the 80 rows" in words(two)
    assert two.order == "holds"
    with pytest.raises(ds.InputError, match="use 'permutations' or 'subsets'"):
        market.check(prices, B, S, U=U, way="sets")


def test_a_bundle_is_one_player_among_rows(held_out):
    """The buyer's own values of bundles are those of complete enumeration, each beside rows."""
    U = ds.potential(LogisticRegression(), test=held_out)
    B, rows = labelled(3, seed=5), labelled(6, seed=6)
    lots = ds.Bundles(rows, ["x", "y", "x", "z", "y", "z"])
    valued = ds.run(U, ds.Design(labelled(30), m=8), lots, stop=20)
    prices = market.price_list(ds.estimate(valued), rate=1.0)
    found = market.check(prices, B, lots, U=U, draws=400)
    for i, name in enumerate("xyz"):
        alone = [lot if lot == name else f"row {j}" for j, lot in enumerate(lots.groups)]
        players = ds.Bundles(B + rows, ["0", "1", "2", *alone])
        exact = ds.data_shapley.exact(U, players)
        value = exact.values[exact.ids.tolist().index(name)]
        own = found.frame.iloc[i]
        assert abs(own["own"] - value) < 4 * own["own_stderr"]


@pytest.mark.parametrize(("n_rows", "lots"), [(100, 1), (100, 4), (30, 2)])
def test_a_right_list_of_large_bundles_is_found_right(n_rows, lots):
    """U is a function of the number of rows alone, so that any buyer's value is the list's."""

    class Rows(Additive):
        def __call__(self, S):
            return 1 - np.exp(-len(S) / 10)

    b, U = 25, Rows()
    n = n_rows + lots * b
    B, offer = (ds.Points(np.zeros((k, 1))) for k in (n_rows, lots * b))
    bundles = ds.Bundles(offer, np.repeat(np.arange(lots), b))
    m = n - b + 1
    valued = ds.run(U, ds.Design(B, m=m, balanced=True), bundles, stop=2000)
    prices = market.price_list(ds.estimate(valued), rate=1.0)
    f = U(offer.take([])), [1 - np.exp(-j / 10) for j in range(m + b)]
    exact = sum(f[1][m:]) / m - sum(f[1][:b]) / m
    assert prices.at(m)["value"].to_numpy() == pytest.approx(exact, rel=0.02)
    found = market.check(prices, B, bundles, U=U, draws=2000)
    error = found.frame["own_stderr"].to_numpy()
    assert (np.abs(found.frame["own"] - exact) < 4 * error).all()
    assert found.worth == "holds"


# Bundles


def both(game, lots, *, n=400, seeds=(0, 0)):
    """The values of bundles and of their rows."""
    sets = (ds.Bundles(game.database, lots), game.database)
    return [
        ds.estimate(
            ds.run(game.U, ds.Design(game.database, m=game.m, weights="1/k", seed=s), Z, stop=n)
        )
        for s, Z in zip(seeds, sets, strict=True)
    ]


@pytest.fixture(scope="module")
def lots():
    X = np.random.default_rng(0).normal(size=(12, 2))
    names = np.arange(12) // 4
    return MeanGame(X, m=30), MeanGame(X, X, names, m=30), names


def test_splitting_shows_the_true_difference(lots):
    rows, bundles, names = lots
    truth = np.add.reduceat(rows.values(30), [0, 4, 8]) - bundles.values(30)
    with pytest.warns(DShapleyWarning, match="of 3 bundles change their total"):
        found = market.splitting(*both(rows, names), names)
    assert found.joint
    assert (np.abs(found.difference - truth) < 4 * found.stderr).all()
    assert found.beyond_error[np.abs(truth) > 8 * found.stderr].all()
    assert found.beyond_error.any()
    assert found.to_frame().index.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_the_error_of_a_difference_is_right(lots):
    rows, bundles, names = lots
    truth = np.add.reduceat(rows.values(30), [0, 4, 8]) - bundles.values(30)
    z = {}
    for kind, seeds in (("joint", lambda s: (s, s)), ("apart", lambda s: (s, s + 1000))):
        z[kind] = []
        for s in range(40):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DShapleyWarning)
                found = market.splitting(*both(rows, names, n=150, seeds=seeds(s)), names)
            assert found.joint == (kind == "joint")
            z[kind].append((found.difference - truth) / found.stderr)
        assert abs(np.std(z[kind]) - 1) < 3 / np.sqrt(2 * 120)


def test_an_additive_potential_cannot_be_attacked(recwarn):
    B = ds.Points(np.random.default_rng(0).normal(size=(12, 1)))
    game = MeanGame(B.X, m=10)
    game.U = Additive()
    found = market.splitting(*both(game, np.arange(12) // 3, n=20), np.arange(12) // 3)
    assert not found.beyond_error.any()
    assert not [w for w in recwarn if issubclass(w.category, DShapleyWarning)]


def test_parts_that_do_not_make_up_the_bundles(lots):
    rows, _, names = lots
    whole, parts = both(rows, names, n=20)
    for bundles, split, part_of, says in (
        (whole, parts, names[:5], "5 entries for 12 parts"),
        (whole, parts.at(m=10), names, "m = 30 and the parts for m = 10"),
        (whole, parts, names + 7, "no bundle"),
        (whole, parts, np.roll(names, 1) * (names > 0), "has 4 rows, but its parts"),
    ):
        with pytest.raises(ds.InputError, match=says):
            market.splitting(bundles, split, part_of)


# The command line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A seller's run and list, and a buyer's tables."""
    folder = tmp_path_factory.mktemp("sale")
    rows = adult_sample().drop(columns="fnlwgt").assign(name=[f"r{i}" for i in range(2000)])
    rows.iloc[:200].to_csv(folder / "seller.csv", index=False)
    rows.iloc[200:230].to_csv(folder / "offer.csv", index=False)
    rows.iloc[300:330].drop(columns="name").to_csv(folder / "buyer.csv", index=False)
    rows.iloc[400:520].to_csv(folder / "test.csv", index=False)
    result = call(
        "value", folder / "seller.csv", "--target", "income", "--id", "name", "--points",
        folder / "offer.csv", "--test", folder / "test.csv", "--model", "naive_bayes", "--m", 60,
        "--draws", 60, "--jobs", 1, "--out", folder / "run",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    result = call("price", folder / "run", "--rate", 500, "--m", 20, "--m", 60,
                  "--out", folder / "prices")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "SHA-256" in result.stdout
    assert "raised to the floor" in result.stdout
    return folder


def test_the_list_of_a_run_folder(files):
    prices = market.load_prices(files / "prices")
    values = ds.estimate(ds.load_run(files / "run"))
    assert prices.at(60).index.tolist() == [f"r{i}" for i in range(200, 230)]
    assert np.array_equal(prices.at(60)["value"], values.values)
    assert np.array_equal(prices.at(20)["value"], values.at(m=20).values)
    text = (files / "prices" / "terms.json").read_text()
    assert str(files) not in text
    assert "50K" not in text


def test_before_the_sale(files):
    out = files / "seller.json"
    done = call(
        "publish", files / "seller.csv", "--target", "income", "--drop", "name", "--out", out
    )
    assert done.exit_code == 0, done.output
    assert "no rows" in done.stdout
    result = call("match", out, files / "buyer.csv", "--lipschitz", 0.01,
                  "--prices", files / "prices")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "no difference" in result.stdout
    assert "and a price by" in result.stdout
    call("publish", files / "buyer.csv", "--like", out, "--out", files / "buyer.json")
    again = call("match", out, files / "buyer.json")
    assert again.stdout.splitlines()[:3] == result.stdout.splitlines()[:3]
    rows = pd.read_csv(files / "buyer.csv")
    rows[rows["age"] > 45].sample(60, replace=True, random_state=0).to_csv(
        files / "old.csv", index=False
    )
    assert "the distributions differ" in call("match", out, files / "old.csv").stdout


def checking(files, *args, prices="prices"):
    return call(
        "check", files / prices, files / "buyer.csv", files / "offer.csv", "--target", "income",
        "--id", "name", "--test", files / "test.csv", "--jobs", 1, "--draws", 4, *args,
    )  # fmt: skip


def test_after_the_sale(files):
    result = checking(files, "--out", files / "both.csv")
    assert result.exit_code in (0, 1), result.output
    assert "rank correlation" in result.stdout
    assert "m = 60" in result.stdout
    frame = pd.read_csv(files / "both.csv")
    assert frame.columns.tolist() == ["id", "value", "stderr", "price", "own", "own_stderr"]
    fails = any(word in result.stdout for word in ("order does not agree", "total does not agree"))
    assert result.exit_code == (1 if fails else 0)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--metric", "roc_auc"], "metric is accuracy there and roc_auc here"),
        (["--model", "logistic"], "a different potential: estimator is sklearn.naive_bayes"),
        (["--m", "33"], "the list has prices for m = 20, 60"),
        (["--out", "x.txt"], "name a .csv or .parquet file"),
        (["--id", "age"], "two of the rows bought have the id"),
        (["--id", "nick"], "no column 'nick'"),
        (["--target", "sex"], "the list's target is 'income', not 'sex'"),
        (["--out", "gone/x.csv"], "there is no folder gone"),
    ],
)
def test_what_a_check_refuses(files, args, says):
    result = checking(files, *args)
    assert result.exit_code == 2
    assert says in result.stderr
    assert sum(line.startswith("error: ") for line in result.stderr.splitlines()) == 1


def test_a_tampered_list_cannot_be_checked(files):
    prices = market.load_prices(files / "prices")
    prices.save(files / "forged")
    terms = {**prices.terms, "metric": "f1"}
    (files / "forged" / "terms.json").write_text(json.dumps(terms))
    result = checking(files, prices="forged")
    assert result.exit_code == 2
    assert "checksum does not match" in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["price", "run"], "give either the price"),
        (["price", "run", "--rate", "1", "--m", "0"], "m = 0"),
        (["price", "run", "--rate", "1", "--out", "seller.csv"], "is a file"),
        (["price", "run", "--rate", "1", "--split", "run"], "has no bundles"),
        (["price", "prices", "--rate", "1"], "holds no run"),
        (["publish", "seller.csv", "--target", "income"], "--out FILE.json"),
        (["publish", "seller.csv", "--out", "s.json"], "name the column to predict"),
        (["publish", "seller.csv", "--target", "incom", "--out", "s.json"], "'income'?"),
        (["match", "gone.json", "buyer.csv"], "gone.json: no such file"),
        (["match", "prices/terms.json", "buyer.csv"], "is not a summary made by dshapley publish"),
    ],
)
def test_bad_input_of_the_seller(files, monkeypatch, args, says):
    monkeypatch.chdir(files)
    before = sorted(files.rglob("*"))
    result = call(*args)
    assert result.exit_code == 2
    assert says in result.stderr
    assert sum(line.startswith("error: ") for line in result.stderr.splitlines()) == 1
    assert sorted(files.rglob("*")) == before


def test_ids_are_names_and_stay_as_written(tmp_path):
    """007 is not 7, whether other ids of a table are numbers or not."""
    rows = adult_sample().drop(columns="fnlwgt").head(150)
    names = [f"{i:03d}" for i in range(99)] + [f"A{i}" for i in range(51)]
    table = rows.assign(name=names)
    table.to_csv(tmp_path / "seller.csv", index=False)
    table.head(20).to_csv(tmp_path / "bought.csv", index=False)
    call("value", tmp_path / "seller.csv", "--target", "income", "--id", "name", "--model",
         "naive_bayes", "--m", 50, "--draws", 60, "--jobs", 1,
         "--out", tmp_path / "run")  # fmt: skip
    call("price", tmp_path / "run", "--rate", 1, "--out", tmp_path / "prices")
    listed = market.load_prices(tmp_path / "prices").at(50)
    table[table.name.isin(listed.index)].head(12).to_csv(tmp_path / "bought.csv", index=False)
    result = call("check", tmp_path / "prices", tmp_path / "seller.csv", tmp_path / "bought.csv",
                  "--target", "income", "--id", "name", "--jobs", 1, "--draws", 2)  # fmt: skip
    assert result.exit_code in (0, 1), result.output
    result = call("price", tmp_path / "run", "--rate", 1, "--details", "age", "--details", "age")
    assert result.exit_code == 2
    assert "give each column once" in result.stderr


def test_labels_that_are_whole_numbers_are_not_published(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200), "income": rng.integers(1e4, 1e5, size=200)})
    table.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "t.json"
    done = call("publish", tmp_path / "t.csv", "--target", "income", "--task", "regression",
                "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    kept = json.loads(out.read_text())
    assert kept["classes"] == []
    assert str(table["income"].iloc[0]) not in out.read_text()
    again = call("match", out, tmp_path / "t.csv")
    assert again.exit_code == 0, again.output
    assert market.summary(ds.Points(table[["a"]].to_numpy(), table["income"])).classes == ()
    rare = ds.Points(table[["a"]].to_numpy(), ["a"] * 198 + ["b"] * 2)
    with pytest.raises(ds.InputError, match="fewer than 5 rows"):
        market.summary(rare)


def test_splitting_bundles_of_a_run(tmp_path):
    table = tmp_path / "t.csv"
    adult_sample().drop(columns="fnlwgt").head(90).assign(
        lot=[f"lot{i % 5}" for i in range(90)]
    ).to_csv(table, index=False)
    common = ["--target", "income", "--model", "naive_bayes", "--m", 20, "--draws", 20]
    common += ["--test-size", 0.2, "--jobs", 1]
    call("value", table, *common, "--group", "lot", "--out", tmp_path / "lots")
    call("value", table, *common, "--out", tmp_path / "other")
    result = call("price", tmp_path / "lots", "--rate", 1, "--split", tmp_path / "other")
    assert result.exit_code == 2
    assert "with --drop lot" in result.stderr
    call("value", table, *common, "--drop", "lot", "--metric", "f1", "--out", tmp_path / "f1")
    result = call("price", tmp_path / "lots", "--rate", 1, "--split", tmp_path / "f1")
    assert result.exit_code == 2
    assert "a different potential than the bundles: metric is f1" in result.stderr
    call("value", table, *common, "--drop", "lot", "--out", tmp_path / "rows")
    result = call("price", tmp_path / "lots", "--rate", 1, "--split", tmp_path / "rows")
    assert result.exit_code == 0, result.output
    assert "Bundles and the sum of their rows" in result.stdout
    assert "lot4" in result.stdout


def test_bundles_from_files(tmp_path):
    """Lots are priced by one side and checked by the other."""
    table = adult_sample().drop(columns="fnlwgt").assign(lot=[f"lot{i % 7}" for i in range(2000)])
    for name, part in (("seller", slice(0, 200)), ("offer", slice(200, 235))):
        table.iloc[part].to_csv(tmp_path / f"{name}.csv", index=False)
    table.iloc[300:330].drop(columns="lot").to_csv(tmp_path / "buyer.csv", index=False)
    table.iloc[400:500].to_csv(tmp_path / "test.csv", index=False)
    call(
        "value", tmp_path / "seller.csv", "--target", "income", "--group", "lot", "--points",
        tmp_path / "offer.csv", "--test", tmp_path / "test.csv", "--model", "naive_bayes",
        "--m", 65, "--draws", 30, "--jobs", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    done = call("price", tmp_path / "run", "--rate", 100, "--out", tmp_path / "prices")
    assert done.exit_code == 0, done.output
    asked = ["check", tmp_path / "prices", tmp_path / "buyer.csv", tmp_path / "offer.csv",
             "--target", "income", "--test", tmp_path / "test.csv", "--jobs", 1,
             "--draws", 5]  # fmt: skip
    result = call(*asked, "--group", "lot", "--out", tmp_path / "both.csv")
    assert result.exit_code in (0, 1), result.output
    assert pd.read_csv(tmp_path / "both.csv")["id"].tolist() == [f"lot{i}" for i in range(7)]
    for more, says in (
        ([], "--id for rows or --group for bundles"),
        (["--id", "lot", "--group", "lot"], "--id for rows or --group for bundles"),
        (["--group", "plot"], "the points table has no column 'plot'"),
    ):
        result = call(*asked, *more)
        assert result.exit_code == 2
        assert says in result.stderr
    result = call("price", tmp_path / "run", "--rate", 100, "--details", "age")
    assert "a bundle has many rows" in result.stderr


def test_rebates_are_asked_for(files):
    result = call("price", files / "run", "--rate", 500, "--no-floor", "--out", files / "rebates")
    assert result.exit_code == 0, result.output
    shown = market.load_prices(files / "rebates").at(60)
    assert (shown["price"] < 0).any()
    assert "raised" not in result.stdout
    assert "negative values have negative prices" in result.stdout


def test_features_are_on_the_list_when_asked(files):
    out = files / "shown"
    result = call("price", files / "run", "--rate", 500, "--details", "age", "--details", "income",
                  "--out", out)  # fmt: skip
    assert result.exit_code == 0, result.output
    offer = pd.read_csv(files / "offer.csv").set_index("name")
    shown = market.load_prices(out).at(60)
    assert shown["age"].astype(int).tolist() == offer.loc[shown.index, "age"].tolist()
    assert shown["income"].tolist() == offer.loc[shown.index, "income"].tolist()
    result = call("price", files / "run", "--rate", 500, "--details", "agee")
    assert result.exit_code == 2
    assert "has no column 'agee'; did you mean 'age'?" in result.stderr
