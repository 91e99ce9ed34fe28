"""The steps of a pipeline, fitted within every set or once."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from typer.testing import CliRunner

import dshapley as ds
from conftest import labelled
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.errors import DShapleyWarning
from dshapley.learners import Fast, Refit
from dshapley.potentials import describe
from dshapley.potentials.preprocessing import parts
from dshapley.potentials.testing import check_potential

SLOW = "ignore:.* fitted within every set"


def skewed(n, seed=0):
    """Columns of very different scales, so that scaling counts."""
    points = labelled(n, seed=seed)
    return ds.Points(points.X * [1.0, 100.0, 0.01] + [0, 50, 0], points.y)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.integers(18, 80, n)),
            "town": rng.choice(["Rome", "Oslo", "Lima"], n),
        }
    )
    return ds.Points(frame, (frame["town"] == "Oslo").to_numpy() ^ (rng.random(n) < 0.2))


COLUMNS = ColumnTransformer(
    [
        ("number", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        ("text", OneHotEncoder(handle_unknown="ignore"), ["town"]),
    ],
    sparse_threshold=1.0,
)
STEPS = {
    "scaled": (skewed, StandardScaler()),
    "supervised": (skewed, SelectKBest(k=2)),
    "columns": (people, COLUMNS),
    "two steps": (skewed, make_pipeline(StandardScaler(), SelectKBest(k=1))),
}


def by_hand(step, database, *others):
    step.fit(database.X, database.y)
    return [_by_hand(step, part) for part in (database, *others)]


def _by_hand(step, part):
    X = step.transform(part.X)
    return ds.Points(X.toarray() if hasattr(X, "toarray") else X, part.y, part.ids)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        KNeighborsClassifier(3),
        pytest.param(
            RandomForestClassifier(3), marks=pytest.mark.slow, id="RandomForestClassifier"
        ),
        HistGradientBoostingClassifier(max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_once_equals_transforming_by_hand(steps, model):
    make, step = STEPS[steps]
    database, test, points = make(40), make(30, seed=1), make(6, seed=2)
    options = {"m": 12, "stop": 4, "sampling": ds.Sampling(balanced=True, control_variates=True)}
    found = ds.value(
        database,
        model=make_pipeline(step, model),
        test=test,
        points=points,
        fitting=ds.Fitting(preprocess="once"),
        **options,
    )
    database, test, points = by_hand(step, database, test, points)
    expected = ds.value(database, model=model, test=test, points=points, **options)
    assert found.values.tolist() == expected.values.tolist()
    assert found.about.identity.potential["path"] == expected.about.identity.potential["path"]


def test_once_with_bundles_and_the_database_itself():
    database, test = skewed(30), skewed(20, seed=1)
    for extra in ({}, {"groups": np.arange(30) // 5}):
        options = {"m": 8, "stop": 4, **extra}
        found = ds.value(
            database,
            model=make_pipeline(StandardScaler(), GaussianNB()),
            test=test,
            fitting=ds.Fitting(preprocess="once"),
            **options,
        )
        B, T = by_hand(StandardScaler(), database, test)
        expected = ds.value(B, model=GaussianNB(), test=T, **options)
        assert found.values.tolist() == expected.values.tolist()


def test_once_for_regression():
    database, test = (ds.Points(p.X, p.X[:, 1] * 1.5) for p in (skewed(40), skewed(30, seed=1)))
    options = {"m": 12, "stop": 4}
    model = make_pipeline(StandardScaler(), Ridge())
    found = ds.value(
        database, model=model, test=test, fitting=ds.Fitting(preprocess="once"), **options
    )
    B, T = by_hand(StandardScaler(), database, test)
    expected = ds.value(B, model=Ridge(), test=T, **options)
    assert found.values.tolist() == expected.values.tolist()


@pytest.mark.parametrize("taken", [False, True])
def test_a_copy_in_another_process_says_the_same_bits(taken):
    """Rows are recognised in a database there too, or in neither process."""
    database, test = skewed(40), skewed(30, seed=1)
    if taken:
        database = database.take(range(5, 35))
    U = ds.potential(
        make_pipeline(PCA(2), LogisticRegression()), test=test, preprocess="once",
        database=database, metric="log_score",
    )  # fmt: skip
    design = ds.Design(database, m=15, seed=3)
    here = ds.potentials.marginals(U, design.draw(1).S, database)
    U, design, database = pickle.loads(pickle.dumps((U, design, database)))
    there = ds.potentials.marginals(U, design.draw(1).S, database)
    assert here.tobytes() == there.tobytes()


def test_a_potential_takes_rows_as_they_were():
    database, test = people(40), people(30, seed=1)
    U = ds.potential(
        make_pipeline(COLUMNS, LogisticRegression()),
        test=test,
        preprocess="once",
        database=database,
    )
    assert isinstance(U.learner, Fast)
    B, T = by_hand(COLUMNS, database, test)
    plain = ds.potential(LogisticRegression(), test=T)
    assert U(database) == plain(B)
    assert U.empty_value() == plain.empty_value()
    check_potential(U, database.take(range(8)))


def test_each_fits_within_every_set_and_says_so():
    database, test = skewed(30), skewed(20, seed=1)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.warns(DShapleyWarning, match="StandardScaler fitted within every set") as said:
        U = ds.potential(model, test=test, metric="brier")
    message = str(said[0].message)
    assert len(said) == 1
    assert "\n" not in message
    assert "preprocess='once'" in message
    assert "preprocess='each'" in message
    assert "LogisticRegression alone" in message
    S = database.take(range(12))
    p = model.fit(S.X, S.y).predict_proba(test.X)[np.arange(20), test.y]
    assert U(S) == pytest.approx(1 - ((1 - p) ** 2).mean())
    assert isinstance(U.learner, Refit)


@pytest.mark.parametrize(
    "options",
    [
        {"model": make_pipeline(StandardScaler(), SVC())},
        {"model": make_pipeline(StandardScaler(), GaussianNB()), "retrain": "always"},
        {"model": GaussianNB(), "preprocess": "once"},
        {"model": make_pipeline("passthrough", SVC())},
    ],
    ids=str,
)
def test_no_notice_where_there_is_nothing_to_gain(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.potential(test=skewed(20), **options)


ONCE = ds.Fitting(preprocess="once")


def scaled(**options):
    options = {"model": make_pipeline(StandardScaler(), GaussianNB()), **options}
    return ds.value(skewed(30), test=skewed(20, seed=1), m=5, stop=2, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"fitting": ds.Fitting(preprocess="twice")},
            "preprocess = 'twice': use 'each' or 'once'",
        ),
        (
            {"fitting": ds.Fitting(retrain="never")},
            "retrain = 'never' is not possible: StandardScaler would be fitted within",
        ),
        (
            {"model": make_pipeline(SelectKBest(k=-1), GaussianNB()), "fitting": ONCE},
            "SelectKBest cannot be fitted on the database",
        ),
        (
            {
                "model": make_pipeline(FunctionTransformer(lambda X: X.astype(str)), GaussianNB()),
                "fitting": ONCE,
                "points": (np.zeros((2, 3)), [0, 1]),
            },
            None,
        ),
        (
            {
                "model": make_pipeline(
                    FunctionTransformer(lambda X: np.full(X.shape, "high")), GaussianNB()
                ),
                "fitting": ONCE,
            },
            "database: preprocess = 'once' cannot transform it: the steps return columns that are",
        ),
        (
            {
                "model": make_pipeline(
                    FunctionTransformer(lambda X: np.full(X.shape, np.nan)), GaussianNB()
                ),
                "fitting": ONCE,
            },
            "test, transformed, has NaN",
        ),
    ],
)
def test_what_cannot_be_is_said_at_once(options, says):
    if says is None:  # numbers written as text are numbers
        assert np.isfinite(scaled(**options).values).all()
        return
    with pytest.raises(ds.InputError, match=says):
        scaled(**options)


def test_once_needs_a_database_and_points_that_can_be_transformed():
    model = make_pipeline(OneHotEncoder(), GaussianNB())
    with pytest.raises(ds.InputError, match="fits the pipeline's steps: give database="):
        ds.potential(model, test=skewed(20), preprocess="once")
    towns = [ds.Points(pd.DataFrame({"t": list(t)}), [0, 1] * 2) for t in ("abab", "abab", "abax")]
    with pytest.raises(ds.InputError, match="points: preprocess = 'once' cannot transform it:"):
        ds.value(
            towns[0], model=make_pipeline(OneHotEncoder(sparse_output=False), GaussianNB()),
            test=towns[1], points=towns[2], fitting=ds.Fitting(preprocess="once"), stop=1,
        )  # fmt: skip


@pytest.mark.filterwarnings(SLOW)
def test_a_run_is_known_by_where_its_steps_were_fitted(tmp_path):
    def described(model, preprocess, rows=30):
        U = ds.potential(model, test=skewed(20), preprocess=preprocess, database=skewed(rows))
        return describe(U)

    model = make_pipeline(StandardScaler(), GaussianNB())
    once, each = described(model, "once"), described(model, "each")
    assert (once["preprocess"], each["preprocess"]) == ("once", "each")
    assert once == described(model, "once")
    assert once["preprocess.steps"].startswith("StandardScaler ")
    assert once["preprocess.fitted"] != described(model, "once", rows=29)["preprocess.fitted"]
    other = make_pipeline(StandardScaler(with_mean=False), GaussianNB())
    assert once["preprocess.steps"] != described(other, "once")["preprocess.steps"]
    assert "preprocess" not in described(GaussianNB(), "once")
    first = scaled(store=tmp_path / "run", fitting=ONCE)
    again = scaled(store=tmp_path / "run", fitting=ONCE)
    assert first.values.tobytes() == again.values.tobytes()
    with pytest.raises(ds.InputError, match="preprocess was once, is each"):
        scaled(store=tmp_path / "run", fitting=ds.Fitting(preprocess="each"))


def test_random_steps_are_fitted_the_same_way_again(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    points = ds.Points(X, X[:, 0] > 0)
    model = make_pipeline(PCA(3, svd_solver="randomized"), GaussianNB())
    one, two = (
        describe(ds.potential(model, test=points, preprocess="once", database=points))
        for _ in range(2)
    )
    assert one == two
    seeded = make_pipeline(PCA(3, svd_solver="randomized", random_state=5), GaussianNB())
    U = ds.potential(seeded, test=points, preprocess="once", database=points)
    by_hand = PCA(3, svd_solver="randomized", random_state=5).fit(X).transform(X)
    assert np.array_equal(U.query.numbers, by_hand)
    assert not hasattr(model[0], "components_")  # the user's own is left as it was


def test_values_of_new_rows_are_predicted_from_rows_as_they_were():
    found = scaled(fitting=ONCE, sampling=ds.Sampling(share=0.7))
    assert len(found) == 30
    new = skewed(4, seed=9)
    assert np.isfinite(found.predict(new.X, new.y).values).all()


def test_parts_of_pipelines():
    inner = make_pipeline(PCA(), GaussianNB())
    steps, final = parts(make_pipeline(StandardScaler(), None, inner))
    assert [type(step) for step in steps] == [StandardScaler, PCA]
    assert final is inner[-1]
    assert parts(GaussianNB())[0] == []

    class Resampling(Pipeline):
        pass

    own = Resampling([("scale", StandardScaler()), ("model", GaussianNB())])
    assert parts(own) == ([], own)


@pytest.mark.slow
def test_the_command_line_and_a_sale(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaledmodel.py").write_text(
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import QuantileTransformer\n"
        "from sklearn.naive_bayes import GaussianNB\n"
        "def made():\n    return make_pipeline(QuantileTransformer(n_quantiles=5), GaussianNB())\n"
    )
    sample = adult_sample().drop(columns="fnlwgt").head(200)
    sample = sample.assign(row=[f"r{i}" for i in range(200)])
    sample.head(120).to_csv("seller.csv", index=False)
    sample.tail(80).to_csv("buyer.csv", index=False)
    sample.tail(80).drop(columns="row").to_csv("own.csv", index=False)

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    model = ["--target", "income", "--model", "scaledmodel:made"]
    value = ["value", "seller.csv", "--no-report", *model, "--id", "row", "--m", 20, "--jobs", 1]
    once = [*value, "--draws", 30, "--preprocess", "once", "--out", "run"]
    result = call(*once)
    assert result.exit_code == 0, result.output
    assert "fitted within every set" not in result.stderr
    assert call(*once).exit_code == 0  # resumed
    result = call(*value, "--draws", 1)
    assert "--preprocess once" in result.stderr
    result = call("predict", "run", "buyer.csv")
    assert result.exit_code == 0, result.output
    assert call("price", "run", "--rate", 10, "--out", "prices").exit_code == 0
    ids = pd.read_csv("prices/prices.csv")["id"].head(6)
    sample[sample["row"].isin(ids)].to_csv("bought.csv", index=False)
    result = call(
        "check", "prices", "own.csv", "bought.csv", *model, "--id", "row", "--draws", 20,
        "--jobs", 1, "--way", "subsets",
    )  # fmt: skip
    assert result.exit_code in (0, 1), result.output
    assert "rank correlation" in result.stdout
