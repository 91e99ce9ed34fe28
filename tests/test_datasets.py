"""Public data: found, fetched, checked, divided and encoded; without network or data folder."""

import io
import os
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from dshapley.data import datasets
from dshapley.data import downloads as sources
from dshapley.errors import DShapleyWarning, InputError

PAGE = (Path(__file__).parents[1] / "docs" / "datasets.md").read_text()
DATA = os.environ.get("DSHAPLEY_DATA")
real = pytest.mark.skipif(not DATA, reason="DSHAPLEY_DATA names no folder of data")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    """No folder, an empty cache, and a network that is an error."""

    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.delenv("DSHAPLEY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "_bytes", refuse)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", refuse)


def expect(monkeypatch, name, content):
    """From now on the data set of that name must have this content."""
    known = replace(sources.SOURCES[name], digest=sources.digest(content))
    monkeypatch.setitem(sources.SOURCES, name, known)


def put(monkeypatch, folder, name, table):
    folder.mkdir(exist_ok=True)
    table.to_parquet(folder / f"{name}.parquet", index=False)
    monkeypatch.setenv("DSHAPLEY_DATA", str(folder))


def small_adult(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n).astype("int8"),
            "workclass": pd.Categorical(rng.choice(["Private", "?"], n)),
            "income": (np.arange(n) % 2).astype("int8"),
            "split": pd.Categorical(rng.choice(["train", "test"], n)),
        }
    )


def load_small(**options):
    return datasets.load("adult", **{"n_database": 30, "n_test": 20, **options})


@pytest.fixture
def adult(monkeypatch, tmp_path):
    table = small_adult()
    put(monkeypatch, tmp_path / "data", "adult", table)
    expect(monkeypatch, "adult", table)
    return table


# Dividing


@pytest.mark.parametrize(
    ("name", "sizes", "columns"),
    [
        ("iris", (90, 30, 30), 4),
        ("wine", (106, 35, 35), 13),
        ("breast_cancer", (341, 113, 113), 30),
        ("digits", (1078, 359, 359), 64),
        ("adult_sample", (1200, 400, 400), None),
    ],
)
def test_sets_that_need_no_file(name, sizes, columns):
    data = datasets.load(name)
    parts = [data.database, data.test, data.heldout]
    assert tuple(map(len, parts)) == sizes
    ids = np.concatenate([part.ids for part in parts])
    assert len(set(ids.tolist())) == sum(sizes)
    assert columns is None or data.database.X.shape[1] == columns
    assert set(data.database.y.tolist()) == set(range(len(data.classes)))
    assert np.allclose(data.database.X.mean(axis=0)[: columns or 6], 0)
    assert "CC BY 4.0" in data.source


def test_labels_and_ids_lead_back_to_the_table():
    data = datasets.load("adult_sample")
    rows = datasets.table("adult_sample").loc[data.test.ids]
    assert [data.classes[y] for y in data.test.y] == rows["income"].tolist()
    plain = datasets.load("adult_sample", encode="codes")
    assert plain.test.X[:, list(rows.columns).index("age")].tolist() == rows["age"].tolist()
    names = sklearn.datasets.load_breast_cancer().target_names
    assert datasets.load("breast_cancer").classes == tuple(names)


def test_a_seed_says_which_rows(adult):
    first, again, other = load_small(), load_small(), load_small(seed=1)
    assert first.database.fingerprint() == again.database.fingerprint()
    assert first.database.ids.tolist() != other.database.ids.tolist()


def test_a_smaller_database_begins_a_larger_one_and_leaves_the_test_set(adult):
    large, small = load_small(), load_small(n_database=10, n_heldout=5)
    assert small.database.ids.tolist() == large.database.ids[:10].tolist()
    assert small.test.ids.tolist() == large.test.ids.tolist()
    assert small.heldout.ids.tolist() == large.heldout.ids[:5].tolist()


def test_what_is_left_is_held_out_and_may_be_nothing(adult):
    assert len(load_small().heldout) == 10
    for encode in datasets._ENCODINGS:
        assert len(load_small(n_database=40, encode=encode).heldout) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_database": 41}, "adult has 60 rows: too few for a database of 41, a test set of 20"),
        ({"n_heldout": 11}, "and 11 held-out rows"),
        ({"n_test": 0}, "n_test = 0: give a whole number of rows, 1 or more"),
        ({"n_heldout": -1}, "n_heldout = -1: give a whole number of rows, 0 or more"),
        ({"n_database": 2.5}, "n_database = 2.5"),
        ({"seed": -1}, "seed = -1"),
        ({"encode": "onehot"}, "did you mean 'one-hot'"),
    ],
)
def test_what_does_not_fit_is_said(adult, options, message):
    with pytest.raises(InputError, match=message):
        load_small(**options)


@pytest.mark.parametrize("ask", [datasets.load, datasets.table])
def test_a_wrong_name_is_met_with_the_nearest(ask):
    with pytest.raises(InputError, match="unknown data set 'adlt'; did you mean 'adult'"):
        ask("adlt")


# Encoding


def test_scales_and_categories_are_those_of_the_database(monkeypatch, tmp_path, adult):
    places = load_small()
    odd = adult.copy().astype({"age": "float64", "workclass": "str"})
    odd.loc[places.test.ids, ["age", "workclass"]] = [1000.0, "Martian"]
    expect(monkeypatch, "adult", odd)
    put(monkeypatch, tmp_path / "data", "adult", odd)
    same = load_small()
    assert np.array_equal(same.database.X, places.database.X)
    assert same.test.X.shape[1] == 3  # age and two kinds of work: no column for Martians
    assert (same.test.X[:, 0] > 50).all()
    codes = load_small(encode="codes")
    assert (codes.test.X == [1000, -1]).all()
    assert set(codes.database.X[:, 1]) == {0, 1}


def test_columns_that_are_no_features(adult):
    assert load_small(encode="codes").database.X.shape[1] == 2  # neither split nor income
    assert "split" in datasets.table("adult")


def test_codes_fill_gaps_with_the_median_of_the_database(monkeypatch, tmp_path, adult):
    gaps = adult.astype({"age": "float64"})
    whole = load_small(encode="codes")
    gaps.loc[whole.test.ids, "age"] = np.nan
    expect(monkeypatch, "adult", gaps)
    put(monkeypatch, tmp_path / "data", "adult", gaps)
    filled = load_small(encode="codes")
    assert (filled.test.X[:, 0] == np.median(whole.database.X[:, 0])).all()


def test_diabetes_has_two_classes_and_numbers_that_are_names(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    names = ["encounter_id", "patient_nbr", "admission_type_id", "discharge_disposition_id"]
    names += ["admission_source_id", "num_medications", "readmitted"]
    table = pd.DataFrame({name: rng.integers(0, 3, 50) for name in names})
    put(monkeypatch, tmp_path / "data", "diabetes130", table)
    expect(monkeypatch, "diabetes130", table)
    data = datasets.load("diabetes130", n_test=5)
    readmitted = table["readmitted"].loc[data.database.ids]
    assert data.database.y.tolist() == (readmitted > 0).astype(int).tolist()
    assert data.database.X.shape == (40, 1 + 3 * 3)


# Finding and checking


def test_a_digest_is_of_the_content_alone():
    table = small_adult()
    known = sources.digest(table)
    assert sources.digest(table.astype({"age": "float32", "workclass": "str"})) == known
    more = table.assign(workclass=table["workclass"].cat.add_categories("unused"))
    assert sources.digest(more) == known
    for other in (
        table[::-1],
        table.rename(columns={"age": "Age"}),
        table[table.columns[::-1]],
        table.assign(age=table["age"].where(table.index > 0)),
        table.assign(workclass=table["workclass"].astype("str").where(table.index > 0)),
        table.assign(workclass=table["workclass"].cat.rename_categories({"?": "!"})),
    ):
        assert sources.digest(other) != known


def test_other_content_is_an_error_with_both_digests(monkeypatch, tmp_path, adult):
    changed = adult.assign(age=adult["age"] + 1)
    put(monkeypatch, tmp_path / "data", "adult", changed)
    with pytest.raises(InputError) as error:
        datasets.load("adult")
    for part in ("adult.parquet", sources.digest(changed)[:12], sources.digest(adult)[:12]):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_the_folder_comes_before_the_cache(monkeypatch, tmp_path, adult):
    cache = tmp_path / "cache" / "dshapley"
    cache.mkdir(parents=True)
    adult[::-1].to_parquet(cache / "adult.parquet")
    assert datasets.table("adult")["age"].tolist() == adult["age"].tolist()
    monkeypatch.delenv("DSHAPLEY_DATA")
    with pytest.raises(InputError, match="cache"):
        datasets.table("adult")


def test_a_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("DSHAPLEY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="there is no such folder"):
        datasets.load("adult")


@pytest.mark.parametrize("name", ["physionet2012", "cifar10_resnet50"])
def test_what_cannot_be_downloaded_says_how_it_was_made(name):
    with pytest.raises(InputError, match=rf"{name}\.\w+ cannot be downloaded.*DSHAPLEY_DATA"):
        datasets.load(name)


def test_images_keep_their_division(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    parts = {
        "X": rng.normal(size=(30, 4)).astype("float16"),
        "y": (np.arange(30) % 10).astype("uint8"),
        "split": (np.arange(30) >= 20).astype("uint8"),
    }
    np.savez(tmp_path / "cifar10_resnet50.npz", **parts)
    monkeypatch.setenv("DSHAPLEY_DATA", str(tmp_path))
    with pytest.raises(InputError, match="digest"):
        datasets.load("cifar10_resnet50")
    expect(monkeypatch, "cifar10_resnet50", parts)
    data = datasets.load("cifar10_resnet50", n_database=15, n_test=4)
    assert [len(data.database), len(data.test), len(data.heldout)] == [15, 4, 6]
    assert (data.database.ids < 20).all()
    others = np.concatenate([data.test.ids, data.heldout.ids])
    assert sorted(others.tolist()) == list(range(20, 30))
    assert np.array_equal(data.test.X, parts["X"][data.test.ids])
    assert np.array_equal(data.test.y, parts["y"][data.test.ids])
    with pytest.raises(InputError, match="20 rows for the database and 10 for testing"):
        datasets.load("cifar10_resnet50", n_database=21, n_test=4)
    with pytest.raises(InputError, match="need no encoding"):
        datasets.load("cifar10_resnet50", encode="codes")
    with pytest.raises(InputError, match="is not a table"):
        datasets.table("cifar10_resnet50")


# Fetching: files as their publishers wrote them, since there is no network in tests


ADULT_DATA = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, \
2174, 0, 40, United-States, <=50K
50, ?, 83311, Bachelors, 13, Divorced, ?, Husband, White, Male, 0, 0, 13, ?, >50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 40, Cuba, >50K.
"""
PUC_RIO = """\
user;gender;age;how_tall_in_meters;weight;body_mass_index;z4;class
debora;Woman;46;1,62;75;28,6;-147;sitting
jose_carlos;Man;75;1,67;67;24,0;-14420-11-2011 04:50:23.713;sitting
wallace;Man;31;1,71;83;28,4;-161;walking
"""
DIABETES = """\
encounter_id,patient_nbr,race,admission_type_id,time_in_hospital,diag_1,num_procedures,\
max_glu_serum,readmitted
2278392,8222157,?,6,1,250.83,0,None,NO
149190,55629189,Caucasian,1,3,276,2,>300,<30
"""
SENSORLESS = "".join(
    " ".join(["-3.0146e-07", *["0.1"] * 47, str(label)]) + "\n" for label in (1, 11)
)


def zipped(name, text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"folder/{name}", text)
    return file.getvalue()


FILES = {
    "adult.data": ADULT_DATA.encode(),
    "adult.test": ADULT_TEST.encode(),
    "ugulino.zip": zipped("dataset-har-PUC-Rio-ugulino.csv", PUC_RIO),
    "dataset_diabetes.zip": zipped("diabetic_data.csv", DIABETES),
    "Sensorless_drive_diagnosis.txt": SENSORLESS.encode(),
}


@pytest.fixture
def web(monkeypatch):
    """A network that holds FILES; what it was asked for."""
    asked = []

    def answer(url):
        asked.append(url)
        return io.BytesIO(next(body for name, body in FILES.items() if url.endswith(name)))

    monkeypatch.setattr(sources, "_bytes", answer)
    return asked


def test_adult_as_published(web):
    table = sources.SOURCES["adult"].fetch()
    assert len(web) == 2
    assert len(table.columns) == 16
    assert table["income"].tolist() == [0, 1, 1]
    assert table["split"].tolist() == ["train", "train", "test"]
    assert table["workclass"].tolist() == ["State-gov", "?", "Private"]
    assert table["fnlwgt"].tolist() == [77516, 83311, 226802]


def test_pucrio_as_published_less_its_broken_record(web):
    table = sources.SOURCES["pucrio_har"].fetch()
    assert table["user"].tolist() == ["debora", "wallace"]
    assert table["z4"].tolist() == [-147, -161]
    assert table["class"].tolist() == [0, 4]
    assert table["how_tall_in_meters"].tolist() == np.float32([1.62, 1.71]).tolist()


def test_diabetes_as_published(web):
    table = sources.SOURCES["diabetes130"].fetch()
    assert table["readmitted"].tolist() == [0, 2]
    assert table["max_glu_serum"].tolist() == ["None", ">300"]
    assert table["diag_1"].tolist() == ["250.83", "276"]
    numbers = table.select_dtypes("number").columns
    assert set(table.columns) - set(numbers) == {"race", "diag_1", "max_glu_serum"}


def test_sensorless_drive_as_published(web):
    table = sources.SOURCES["sensorless_drive"].fetch()
    assert table.columns[[0, 47, 48]].tolist() == ["f01", "f48", "class"]
    assert table["f01"].tolist() == [float(np.float32(-3.0146e-07))] * 2
    assert table["class"].tolist() == [1, 11]


def test_covertype_by_way_of_scikit_learn(monkeypatch):
    X, y = np.arange(108.0).reshape(2, 54), np.array([5, 7], dtype=np.int32)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda **_: (X, y))
    table = sources.SOURCES["covertype"].fetch()
    assert table.to_numpy().tolist() == np.column_stack([X, y]).tolist()
    assert table.columns[[0, 10, 53, 54]].tolist() == [
        "Elevation", "Wilderness_Area1", "Soil_Type40", "Cover_Type",
    ]  # fmt: skip


def test_a_download_is_kept(monkeypatch, tmp_path, web):
    expect(monkeypatch, "adult", sources.SOURCES["adult"].fetch())
    web.clear()
    first = datasets.table("adult")
    assert len(web) == 2
    assert (tmp_path / "cache" / "dshapley" / "adult.parquet").is_file()
    again = datasets.table("adult")
    assert len(web) == 2
    pd.testing.assert_frame_equal(first, again)


def test_a_download_of_other_content_is_not_kept(tmp_path, web):
    with pytest.raises(InputError, match="adult as downloaded: the content has the digest"):
        datasets.table("adult")
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_no_obstacle(monkeypatch, tmp_path, web):
    expect(monkeypatch, "adult", sources.SOURCES["adult"].fetch())
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.warns(DShapleyWarning, match="downloads it again"):
        assert len(datasets.table("adult")) == 3


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (URLError("no route to host"), "cannot be downloaded .*no route to host"),
        (TimeoutError("timed out"), "cannot be downloaded .*timed out"),
        (b"<html>moved</html>", "cannot be read .*not a zip file"),
        (zipped("other.txt", ""), "cannot be read .*no diabetic_data.csv"),
        (zipped("diabetic_data.csv", DIABETES.replace("<30", "soon")), "cannot be read .*'soon'"),
    ],
)
def test_a_failed_download_is_one_line(monkeypatch, failure, message):
    def answer(url):
        if isinstance(failure, Exception):
            raise failure
        return io.BytesIO(failure)

    monkeypatch.setattr(sources, "_bytes", answer)
    with pytest.raises(InputError, match=message) as error:
        datasets.table("diabetes130")
    assert "put diabetes130.parquet in the folder of DSHAPLEY_DATA" in str(error.value)
    assert "\n" not in str(error.value)


# The page


def test_the_page_runs_as_written(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    exec(compile(example, "datasets.md", "exec"), {})
    assert "value" in capsys.readouterr().out


@pytest.mark.parametrize("name", datasets.NAMES)
def test_the_page_has_every_set(name):
    row = re.search(rf"^\| `{name}` \|(.*)$", PAGE, flags=re.M)
    assert row
    if name in sources.SOURCES:
        return
    data = datasets.load(name)
    counts = [len(datasets.table(name)), datasets.load(name, encode="codes").test.X.shape[1]]
    counts += [data.test.X.shape[1], *map(len, (data.database, data.test, data.heldout))]
    counts += [len(data.classes)]
    assert re.findall(r"\d+", row[1].replace(", ", " ").replace(",", "")) == [
        str(c) for c in counts
    ]


# The real files, where there are any


@real
@pytest.mark.parametrize("name", sorted(sources.SOURCES))
def test_the_real_files_have_their_digests_and_sizes(monkeypatch, name):
    monkeypatch.setenv("DSHAPLEY_DATA", DATA)
    sizes = {"n_database": 2000, "n_test": 500, "n_heldout": 100}
    encode = None if name == "cifar10_resnet50" else "codes"
    data = datasets.load(name, encode=encode, **sizes)
    columns = {
        "adult": 14,
        "cifar10_resnet50": 256,
        "covertype": 54,
        "diabetes130": 47,
        "physionet2012": 114,
        "pucrio_har": 17,
        "sensorless_drive": 48,
    }
    assert data.database.X.shape == (2000, columns[name])
    assert np.isfinite(data.test.X).all()
    assert set(data.database.y.tolist()) == set(range(len(data.classes)))


def published(name, table):
    """The files that the publisher has, by the endings of their addresses."""
    labels = {"adult": "income", "diabetes130": "readmitted", "pucrio_har": "class"}[name]
    names = {
        "adult": ["<=50K", ">50K"],
        "diabetes130": ["NO", ">30", "<30"],
        "pucrio_har": ["sitting", "sittingdown", "standing", "standingup", "walking"],
    }[name]
    table[labels] = np.array(names, dtype=object)[table[labels]]
    if name == "diabetes130":
        return {"diabetes.zip": zipped("diabetic_data.csv", table.to_csv(index=False))}
    if name == "pucrio_har":
        metres = ["how_tall_in_meters", "body_mass_index"]
        table[metres] = table[metres].astype(str).astype(float)
        return {"zip": zipped("har.csv", table.to_csv(index=False, sep=";", decimal=","))}
    train, test = (
        table[table["split"] == part].drop(columns="split") for part in ("train", "test")
    )
    test = test.assign(income=test["income"] + ".")
    lines = [part.to_csv(index=False, header=False).replace(",", ", ") for part in (train, test)]
    return {"adult.data": lines[0].encode(), "adult.test": b"|1x3\n" + lines[1].encode()}


@real
@pytest.mark.parametrize("name", ["adult", "diabetes130", "pucrio_har"])
def test_the_real_tables_come_out_of_files_as_published(monkeypatch, name):
    monkeypatch.setenv("DSHAPLEY_DATA", DATA)
    files = published(name, datasets.table(name))
    monkeypatch.setattr(
        sources,
        "_bytes",
        lambda url: io.BytesIO(next(body for end, body in files.items() if url.endswith(end))),
    )
    assert sources.digest(sources.SOURCES[name].fetch()) == sources.SOURCES[name].digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "nothing"}, "no column 'nothing'"),
        ({"target": "age", "rows": lambda t: t.assign(age=range(len(t)))}, "2000 different values"),
        ({"rows": lambda t: t.assign(income=1)}, "1 different values"),
        ({"rows": lambda t: t.assign(income=t.income.where(t.index != 3))}, "missing in row 3"),
        ({"seed": -1}, "whole number"),
    ],
)
def test_a_table_of_ones_own_that_will_not_do(change, message):
    options = {"target": "income", **change}
    rows = options.pop("rows", lambda t: t)(datasets.adult_sample())
    with pytest.raises(InputError, match=message):
        datasets.divided(rows, **options)
