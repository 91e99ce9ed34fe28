import numpy as np
import pandas as pd
import pytest

import dshapley as ds
from dshapley.datasets import adult_sample
from dshapley.models import MODELS, model_from_name
from dshapley.tables import prepare, read_table, task_of


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n = 40
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "member": rng.random(n) > 0.5,
            "since": pd.date_range("2020-01-01", periods=n, freq="D"),
            "bought": rng.choice(["yes", "no"], n),
        }
    )


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".csv.gz"])
def test_formats(tmp_path, table, suffix):
    path = tmp_path / f"t{suffix}"
    if suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    found = read_table(path)
    assert found.columns.tolist() == table.columns.tolist()
    assert found["age"].tolist() == table["age"].tolist()
    assert found["city"].tolist() == table["city"].tolist()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("gone.csv", None, "no such file"),
        ("t.xlsx", "x", "a table is a .csv, .tsv or .parquet"),
        ("t.csv", "", "cannot be read as CSV"),
        ("t.csv", "a,b\n", "the table is empty"),
        ("t.parquet", "not parquet", "cannot be read as PARQUET"),
        ("t.csv", 'a,b\n1,2\n1,2,3,4\n"', "cannot be read as CSV"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, text, says):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ds.InputError, match=says):
        read_table(tmp_path / name)


def test_a_near_miss_is_suggested(tmp_path):
    (tmp_path / "sales.csv").write_text("a\n1\n")
    with pytest.raises(ds.InputError, match=r"did you mean 'sales\.csv'"):
        read_table(tmp_path / "sale.csv")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 20, "classification"),
        ([True, False] * 20, "classification"),
        (list(range(4)) * 10, "classification"),
        (list(range(40)), "regression"),
        ([0.5, 1.0] * 20, "regression"),
        ([0.0, 1.0] * 20, "classification"),
    ],
)
def test_task(values, task):
    assert task_of(pd.DataFrame({"y": values}), "y") == task


def test_encoding_is_fitted_on_the_database_alone(table):
    points = table.assign(age=1e6, city="Paris").head(3)
    made = prepare(table, target="bought", task="classification", points=points)
    X = made.database.X
    assert X.shape[1] == 1 + 1 + 1 + 3  # age, member, since, three cities
    np.testing.assert_allclose(X[:, :3].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X[:, 0].std(), 1)
    assert (made.points.X[:, 0] > 1000).all()
    assert made.points.X[:, 3:].sum() == 0  # a city never seen is none of those known


def test_split_is_stratified_disjoint_and_seeded(table):
    a, b, c = (
        prepare(table, target="bought", task="classification", test_size=0.25, seed=s)
        for s in (0, 0, 1)
    )
    assert len(a.test) == 10
    assert set(a.test.ids) | set(a.database.ids) == set(range(40))
    assert not set(a.test.ids) & set(a.database.ids)
    share = (table["bought"] == "yes").mean()
    assert (a.test.y == "yes").mean() == pytest.approx(share, abs=0.1)
    assert a.test.ids.tolist() == b.test.ids.tolist() != c.test.ids.tolist()


def test_dates_are_the_same_in_any_unit_and_format(tmp_path, table):
    units = {
        unit: table.assign(since=table["since"].astype(f"datetime64[{unit}]"))
        for unit in ["s", "ms", "ns"]
    }
    units["zone"] = table.assign(since=table["since"].dt.tz_localize("UTC"))
    table.to_csv(tmp_path / "t.csv", index=False)
    units["text"] = read_table(tmp_path / "t.csv")
    made = [prepare(table, target="bought", task="classification", test=t) for t in units.values()]
    for each in made:
        np.testing.assert_allclose(each.test.X, made[0].database.X)


def test_numbers_that_are_text_in_another_table(table):
    odd = table.assign(age=["old", *table["age"].astype(str)[1:]])
    with pytest.raises(ds.InputError, match="'age' holds numbers in the first table but 'old'"):
        prepare(table, target="bought", task="classification", points=odd)


def test_cells_of_lists_are_text(table):
    table["tags"] = [["a"], ["b", "c"]] * 20
    assert prepare(table, target="bought", task="classification").database.X.shape[1] == 8


def test_semicolons(tmp_path, table):
    table.to_csv(tmp_path / "t.csv", index=False, sep=";")
    assert read_table(tmp_path / "t.csv").columns.tolist() == table.columns.tolist()


def test_the_task_may_be_asked_for():
    counts = pd.DataFrame({"y": [0, 1, 2, 3]})
    assert task_of(counts, "y", asked="regression") == "regression"
    with pytest.raises(ds.InputError, match="unknown task 'guess'"):
        task_of(counts, "y", asked="guess")


def test_missing_values_are_filled_in_and_said(table):
    table.loc[3, "age"] = np.nan
    table.loc[[4, 5], "city"] = None
    table.loc[6, "since"] = pd.NaT
    made = prepare(table, target="bought", task="classification", test=table)
    assert np.isfinite(made.database.X).all()
    assert "4 missing values in the table" in made.notices[0]
    assert "city 2" in made.notices[0]
    assert made.database.X[[4, 5], 3:].sum(axis=1).tolist() == [1, 1]  # a category of its own


def test_empty_and_wide_columns_are_said(table):
    table["nothing"] = np.nan
    table = pd.concat([table] * 3, ignore_index=True)
    table["code"] = [f"c{i}" for i in range(len(table))]
    made = prepare(table, target="bought", task="classification")
    text = " ".join(made.notices)
    assert "without any value are left out: nothing" in text
    assert "of code only the 49 most frequent" in text


def test_ids_groups_and_dropped_columns(table):
    table["name"] = [f"p{i}" for i in range(40)]
    table["seller"] = ["x", "y"] * 20
    made = prepare(
        table,
        target="bought",
        task="classification",
        id_column="name",
        group_column="seller",
        drop=["since"],
        test=table,
    )
    assert made.points.ids.tolist() == table["name"].tolist()
    assert made.groups.tolist() == table["seller"].tolist()
    assert made.database.X.shape[1] == 1 + 1 + 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": "bougth"}, "no column 'bougth'; did you mean 'bought'"),
        ({"drop": ["agee"]}, "no column 'agee'; did you mean 'age'"),
        ({"id_column": "nme"}, "no column 'nme'"),
        ({"test_size": 1.5}, "test size 1.5"),
        ({"drop": ["age", "city", "member", "since"]}, "no column is left"),
    ],
)
def test_bad_options(table, options, says):
    with pytest.raises(ds.InputError, match=says):
        prepare(table, **{"target": "bought", "task": "classification", **options})


def test_bad_targets_and_columns(table):
    with pytest.raises(ds.InputError, match="'yes' in every row"):
        prepare(table.assign(bought="yes"), target="bought", task="classification")
    holes = table.copy()
    holes.loc[[5, 9], "bought"] = None
    with pytest.raises(ds.InputError, match=r"missing in 2 of 40 rows \(the first is row 5\)"):
        prepare(holes, target="bought", task="classification")
    with pytest.raises(ds.InputError, match="test table lacks the column 'city'"):
        prepare(table, target="bought", task="classification", test=table.drop(columns="city"))
    with pytest.raises(ds.InputError, match="infinite value in column 'age'"):
        prepare(table.assign(age=np.inf), target="bought", task="classification")


def test_embedded_sample():
    adult = adult_sample()
    assert adult.shape == (2000, 15)
    # Stratified: the share of the original's 48,842 rows is 23.93 %.
    assert (adult["income"] == ">50K").mean() == pytest.approx(0.2393, abs=0.0005)
    assert adult.isna().sum().sum() == 255


@pytest.mark.parametrize("name", MODELS)
def test_named_models_value_points(name, database, held_out, offered):
    for task in MODELS[name]:
        model = model_from_name(name, task)
        y = (lambda p: p.y) if task == "classification" else (lambda p: p.X[:, 0] * 1.5)
        found = ds.value(
            database.X,
            y(database),
            model=model,
            test=(held_out.X, y(held_out)),
            points=(offered.X[:2], y(offered)[:2]),
            m=12,
            draws=2,
        )
        assert np.isfinite(found.values).all()


def test_auto_and_unknown_models():
    assert type(model_from_name("auto", "classification")).__name__ == "LogisticRegression"
    assert type(model_from_name("auto", "regression")).__name__ == "Ridge"
    with pytest.raises(ds.InputError, match="did you mean 'forest'"):
        model_from_name("forrest", "classification")
    with pytest.raises(ds.InputError, match="does no regression"):
        model_from_name("logistic", "regression")


def test_own_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mymodels.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n"
        "def smooth():\n    return GaussianNB(var_smoothing=0.5)\n"
        "ready = GaussianNB()\n"
        "def broken():\n    return 1 / 0\n"
    )
    assert model_from_name("mymodels:smooth", "classification").var_smoothing == 0.5
    assert type(model_from_name("mymodels:ready", "classification")).__name__ == "GaussianNB"
    assert model_from_name("mymodels:GaussianNB", "classification").priors is None
    for name, says in [
        ("mymodels:none", "has no 'none'"),
        ("nomodule:x", "cannot be imported"),
        ("mymodels:broken", "ZeroDivisionError: division by zero"),
        (":x", "cannot be imported"),
    ]:
        with pytest.raises(ds.InputError, match=says):
            model_from_name(name, "classification")
