"""The price list: prices, intervals, totals, and a file that cannot be tampered with."""

import json

import numpy as np
import pandas as pd
import pytest

import dshapley as ds
from conftest import labelled
from dshapley import market
from dshapley.errors import DShapleyWarning
from records import MeanGame, record

M = 16


@pytest.fixture
def game():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return MeanGame(X, X[:26], m=M)


@pytest.fixture
def valuation(game):
    return ds.estimate(record(game, np.random.default_rng(1), 300))


@pytest.fixture
def prices(valuation):
    return market.price_list(valuation, rate=100.0, m=[8, M])


def test_a_price_is_the_value_times_the_rate_and_never_below_the_floor(valuation):
    prices = market.price_list(valuation, rate=100.0, floor=0.5)
    frame, total = prices.at(M), prices.terms["totals"][0]
    assert (valuation.values < 0).any()
    assert np.array_equal(frame["price"], np.maximum(100 * valuation.values, 0.5))
    low, high = valuation.interval()
    assert np.array_equal(frame["price_low"], np.maximum(100 * low, 0.5))
    assert np.array_equal(frame["price_high"], np.maximum(100 * high, 0.5))
    raised = 100 * valuation.values < 0.5
    assert total["raised"] == raised.sum()
    assert total["raised_by"] == pytest.approx((0.5 - 100 * valuation.values[raised]).sum())
    assert total["price"] == pytest.approx(frame["price"].sum())


def test_without_a_floor_prices_may_be_negative(valuation):
    prices = market.price_list(valuation, rate=100.0, floor=None)
    assert prices.at(M)["price"].min() < 0
    assert prices.terms["totals"][0]["price"] == pytest.approx(100 * valuation.values.sum())


@pytest.mark.parametrize("floor", [0.0, 2.0, None])
def test_a_budget_is_what_the_list_costs(valuation, floor):
    prices = market.price_list(valuation, budget=100.0, floor=floor, m=[8, M])
    for m in (8, M):
        assert prices.at(m)["price"].sum() == pytest.approx(100.0)
    assert prices.at(8)["price"].min() >= (-np.inf if floor is None else floor)
    assert prices.totals.loc[8, "rate"] < prices.totals.loc[M, "rate"]  # values fall with m


def test_each_size_has_the_values_of_that_size(valuation, prices):
    small = valuation.at(m=8)
    assert np.array_equal(prices.at(8)["value"], small.values)
    assert np.array_equal(prices.at(8)["stderr"], small.stderr)
    assert prices.terms["totals"][0]["draws"] == small.n_draws


def test_beyond_the_run_values_are_extrapolated_with_a_notice():
    game = MeanGame(np.random.default_rng(0).normal(size=(20, 2)), m=40)
    valuation = ds.estimate(record(game, np.random.default_rng(1), 400))
    with pytest.warns(DShapleyWarning, match="larger than the run's m = 40"):
        prices = market.price_list(valuation, rate=1.0, m=[40, 80])
    assert np.array_equal(prices.at(80)["value"], ds.profile.extrapolate(valuation, m=80).values)
    assert prices.terms["totals"][0]["errors"] == "joint"
    total = prices.terms["totals"][1]
    assert total["extrapolated"]
    assert total["errors"] == "added"
    assert total["stderr"] == pytest.approx(prices.at(80)["stderr"].sum())


def test_too_far_beyond_the_run_there_are_no_prices():
    game = MeanGame(np.random.default_rng(0).normal(size=(20, 2)), m=40)
    valuation = ds.estimate(record(game, np.random.default_rng(1), 400))
    with pytest.raises(ds.InputError, match=r"m = 121 is more than 3 times .* run at m = 121"):
        market.price_list(valuation, rate=1.0, m=[40, 121])


@pytest.fixture(scope="module")
def simulated():
    """Whether each interval held its true number, over many runs."""
    rng = np.random.default_rng(2)
    X = np.random.default_rng(0).normal(size=(40, 2))
    # Some are far out: they hurt, and some are worth next to nothing.
    game = MeanGame(X, np.concatenate([X[:20], 3.1 * X[20:26]]), m=M)
    truth = game.values(M)
    assert truth.min() < 0 < truth.max()
    fair = np.maximum(truth, 0)
    right = {"price": 100 * fair, "of budget": 100 * fair / fair.sum()}
    held = {name: [] for name in ("price", "of budget", "total value", "total price", "rate")}
    for _ in range(300):
        values = ds.estimate(record(game, rng, 150))
        for name, how in (("price", {"rate": 100.0}), ("of budget", {"budget": 100.0})):
            prices = market.price_list(values, **how)
            frame, total = prices.at(M), prices.terms["totals"][0]
            low, high = frame["price_low"] - 1e-9, frame["price_high"] + 1e-9
            held[name].append((low <= right[name]) & (right[name] <= high))
            if name == "price":
                held["total value"].append(total["low"] <= truth.sum() <= total["high"])
                costs = right["price"].sum()
                held["total price"].append(total["price_low"] <= costs <= total["price_high"])
            else:
                rate = 100 / fair.sum()
                held["rate"].append(total["rate_low"] <= rate <= total["rate_high"])
    return {name: np.mean(found, axis=0) for name, found in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["total value", "total price", "rate"])
def test_the_intervals_of_totals_hold_the_truth(simulated, what):
    assert 0.91 <= simulated[what] <= 0.99  # 0.95 +- three errors of 300 runs


@pytest.mark.slow
@pytest.mark.parametrize("what", ["price", "of budget"])
def test_the_intervals_of_prices_hold_the_truth(simulated, what):
    assert 0.93 <= simulated[what].mean() <= 0.985
    assert simulated[what].min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)


def test_the_error_of_a_total_has_what_errors_have_in_common(valuation, prices):
    total = prices.terms["totals"][1]
    noise = valuation.noise(4000).sum(axis=1)
    assert total["stderr"] == pytest.approx(noise.std(), rel=0.05)
    alone = np.sqrt((valuation.stderr**2).sum())
    assert total["stderr"] > 4 * alone  # or the sum of independent errors would do


def test_there_and_back(tmp_path, prices):
    prices.save(tmp_path / "list")
    assert sorted(p.name for p in (tmp_path / "list").iterdir()) == [
        "prices.csv", "prices.parquet", "terms.json",
    ]  # fmt: skip
    back = market.load_prices(tmp_path / "list")
    pd.testing.assert_frame_equal(back.frame, prices.frame)
    assert back.terms == prices.terms
    assert len(prices.checksum) == 64
    for name in ("prices.csv", "prices.parquet"):  # either will do
        (tmp_path / "list" / name).rename(tmp_path / name)
        market.load_prices(tmp_path / "list")
        (tmp_path / name).rename(tmp_path / "list" / name)
    prices.save(tmp_path / "list")  # over itself


def test_ids_stay_as_they_are(tmp_path, valuation):
    names = [f"00{i}" for i in range(len(valuation) - 3)] + ["NA", "1e3", 'ä, "b"']
    named = ds.Valuation(
        values=valuation.values,
        stderr=valuation.stderr,
        m=M,
        n_draws=300,
        ids=np.array(names),
        rows=valuation.rows,
    )
    market.price_list(named, rate=1.0).save(tmp_path / "list")
    assert market.load_prices(tmp_path / "list").at(M).index.tolist() == names


def edit_csv(folder, change):
    frame = pd.read_csv(folder / "prices.csv", dtype=str)
    change(frame).to_csv(folder / "prices.csv", index=False)


def cheaper(frame):
    frame.loc[3, "price"] = "0.01"
    return frame


def edit_terms(folder, change):
    terms = json.loads((folder / "terms.json").read_text())
    change(terms)
    (folder / "terms.json").write_text(json.dumps(terms))


TAMPERED = [
    (lambda f: edit_csv(f, cheaper), "its checksum does not match"),
    (lambda f: edit_csv(f, lambda frame: frame.iloc[::-1]), "its checksum does not match"),
    (lambda f: edit_csv(f, lambda frame: frame.iloc[1:]), "25 ids have a price for m = 8"),
    (lambda f: edit_csv(f, lambda frame: frame.replace({"id": {"4": "3"}})), "occurs twice"),
    (lambda f: edit_csv(f, lambda frame: frame.replace({"id": {"4": ""}})), "the id is missing"),
    (lambda f: edit_csv(f, lambda frame: frame.drop(columns="id")), "column 'id' is missing"),
    (
        lambda f: edit_csv(f, lambda frame: frame.replace({"m": {"8": "9"}})),
        "different m than terms",
    ),
    (lambda f: edit_terms(f, lambda terms: terms.update(metric="f1")), "checksum does not match"),
    (lambda f: edit_terms(f, lambda terms: terms["totals"][0].update(price=1.0)), "checksum"),
    (lambda f: edit_terms(f, lambda terms: terms.pop("checksum")), "terms.json is damaged"),
    (lambda f: (f / "terms.json").write_text("{"), "terms.json is damaged"),
    *(
        (lambda f, m=m: edit_terms(f, lambda terms: terms.update(m=m)), "damaged .*m")
        for m in (5, None, [[1]])
    ),
    (lambda f: edit_terms(f, lambda terms: terms.update(offered="25")), "damaged .*offered"),
    (lambda f: edit_csv(f, lambda frame: frame.assign(m="9" * 20)), "cannot be read as a price"),
    (lambda f: (f / "terms.json").unlink(), "holds no price list"),
    (lambda f: (f / "prices.parquet").write_bytes(b"PAR1"), "cannot be read as a price list"),
    (lambda f: [(f / f"prices.{kind}").unlink() for kind in ("csv", "parquet")], "no prices.csv"),
]


@pytest.mark.parametrize(("tamper", "says"), TAMPERED)
def test_a_tampered_list_is_refused_with_one_line(tmp_path, prices, tamper, says):
    prices.save(tmp_path)
    tamper(tmp_path)
    with pytest.raises(ds.InputError, match=says) as caught:
        market.load_prices(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_parquet_file_is_held_to_the_checksum_too(tmp_path, prices):
    prices.save(tmp_path)
    cheap = prices.frame.assign(price=prices.frame["price"] / 2)
    cheap.to_parquet(tmp_path / "prices.parquet", index=False)
    with pytest.raises(ds.InputError, match=r"prices\.parquet or its terms"):
        market.load_prices(tmp_path)


def test_nothing_else_is_overwritten(tmp_path, prices):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ds.InputError, match="holds no price list"):
        prices.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "rate"),
        ({"rate": 1.0, "budget": 2.0}, "give either the price"),
        ({"rate": 0.0}, "rate = 0"),
        ({"rate": float("nan")}, "rate = nan"),
        ({"budget": -1.0}, "budget = -1"),
        ({"rate": 1.0, "floor": -1.0}, "floor = -1"),
        ({"budget": 10.0, "floor": 1.0}, "26 prices at the floor of 1 already cost 26"),
        ({"rate": 1.0, "m": 0}, "m = 0"),
        ({"rate": 1.0, "m": [8, 8]}, "each data set size once"),
        ({"rate": 1.0, "m": [2.5]}, "m = 2.5"),
        ({"rate": 1.0, "confidence": 95}, "confidence"),
        ({"rate": 1.0, "details": pd.DataFrame({"a": [1]})}, "1 rows for 26 points"),
        (
            {"rate": 1.0, "details": pd.DataFrame({"price": range(26)})},
            "already has a column 'price'",
        ),
    ],
)
def test_bad_pricing_is_refused(valuation, options, says):
    with pytest.raises(ds.InputError, match=says):
        market.price_list(valuation, **options)


def test_a_budget_needs_something_of_value(valuation):
    worse = ds.Valuation(
        values=-np.ones(2),
        stderr=np.zeros(2),
        m=5,
        n_draws=9,
        ids=np.arange(2),
        rows=np.ones(2, int),
    )
    for floor in (0.0, None):
        with pytest.raises(ds.InputError, match="above 0"):
            market.price_list(worse, budget=5.0, floor=floor)


def test_ids_that_nobody_can_tell_apart(valuation):
    for ids, says in ((["a", "a"], "have the id 'a'"), (["a", ""], "has an empty id")):
        values = ds.Valuation(
            values=np.ones(2),
            stderr=np.zeros(2),
            m=5,
            n_draws=9,
            ids=np.array(ids),
            rows=np.ones(2, int),
        )
        with pytest.raises(ds.InputError, match=says):
            market.price_list(values, rate=1.0)


def test_an_unsure_rate_is_said():
    rng = np.random.default_rng(0)
    values = ds.Valuation(
        values=rng.normal(0, 0.1, 9),
        stderr=np.ones(9),
        m=5,
        n_draws=99,
        ids=np.arange(9),
        rows=np.ones(9, int),
    )
    with pytest.warns(DShapleyWarning, match="make more draws"):
        market.price_list(values, budget=5.0)


def test_no_features_and_no_labels_but_those_asked_for(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    from dshapley.api import Request, answer
    from dshapley.sampling.provenance import Source

    secret = 0.123454321
    B = labelled(60)
    X, words = B.X.copy(), np.array(["zebra", "quagga"])[B.y]
    X[0] = secret
    Z = ds.Points(X[:6], words[:6], ids=[f"row {i}" for i in range(6)])
    request = Request(
        database=ds.Points(X, words), model=GaussianNB(), points=Z, m=10, stop=20,
        test=ds.Points(labelled(40, seed=1).X, words[:40]),
        source=Source(
            table="/home/seller/secret.csv", target="y", task="classification", model="own"
        ),
    )  # fmt: skip
    values = answer(request)
    market.price_list(values, rate=1.0).save(tmp_path / "list")
    text = "".join(
        (tmp_path / "list" / name).read_bytes().decode("latin-1")
        for name in ("prices.csv", "prices.parquet", "terms.json")
    )
    for word in ("zebra", "quagga", str(secret), "secret.csv"):
        assert word not in text
    terms = market.load_prices(tmp_path / "list").terms
    assert terms["potential"]["estimator"] == "sklearn.naive_bayes.GaussianNB"
    assert (terms["metric"], terms["database_rows"], terms["draws"]) == ("accuracy", 60, 20)
    assert (terms["seed"], terms["run_m"], terms["empty"]) == (0, 10, terms["potential"]["empty"])
    asked = market.price_list(values, rate=1.0, details=pd.DataFrame({"y": Z.y}))
    asked.save(tmp_path / "asked")
    assert market.load_prices(tmp_path / "asked").frame["y"].tolist() == Z.y.tolist()


def test_names_with_carriage_returns_come_back(tmp_path):
    gains = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    one = np.ones(3, int)
    ids = np.array(["a\rb", 'say "x"', "c,d"])
    draws = ds.Draws(
        t=np.arange(40), k=np.ones(40, int), marginals=gains, weights=np.ones(1), ids=ids, rows=one
    )
    market.price_list(ds.estimate(draws), rate=5.0).save(tmp_path)
    (tmp_path / "prices.parquet").unlink()
    assert market.load_prices(tmp_path).frame["id"].tolist() == ids.tolist()


def test_predicted_values_have_prices_too():
    from sklearn.linear_model import LogisticRegression

    values = ds.value(
        labelled(60),
        model=LogisticRegression(),
        test=labelled(40, seed=1),
        m=10,
        stop=60,
        sampling=ds.Sampling(share=0.5),
    )
    prices = market.price_list(values, rate=1.0)
    assert np.array_equal(prices.at(10)["low"], values.interval()[0])
    assert prices.terms["totals"][0]["errors"] == "added"
    assert prices.terms["metric"] == "accuracy"


def test_bundles_are_priced_as_sets():
    game = MeanGame(np.random.default_rng(0).normal(size=(30, 2)), m=M)
    lots = ds.Bundles(game.database, np.arange(30) // 10)
    valuation = ds.estimate(ds.run(game.U, ds.Design(game.database, m=M), lots, stop=50))
    frame = market.price_list(valuation, rate=2.0).at(M)
    assert frame["rows"].tolist() == [10, 10, 10]
    assert np.array_equal(frame["price"], np.maximum(2 * valuation.values, 0))
