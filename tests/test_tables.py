import datetime
import os
import random
import socket
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dshapley as ds
from dshapley.data.datasets import adult_sample
from dshapley.data.encoding import NEAR_UNIQUE, plain_columns
from dshapley.data.tables import check_distinct, prepare, read_table, task_of
from dshapley.learners.by_name import MODELS, model_from_name

DAMAGED = int(os.environ.get("DSHAPLEY_FUZZ", "60"))


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
        ("t.xlsx", "x", "give a .csv, .tsv or .parquet"),
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
        ([7 * i % 40 * 3 for i in range(40)], "regression"),
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


def test_cells_of_lists_are_refused_unless_dropped(table):
    plain = prepare(table, target="bought", task="classification")
    table["tags"] = [["a"], ["b", "c"]] * 20
    with pytest.raises(ds.InputError, match=r"'tags' holds lists, .* leave it out with --drop"):
        prepare(table, target="bought", task="classification")
    without = prepare(table, target="bought", task="classification", drop=["tags"])
    assert without.database.fingerprint() == plain.database.fingerprint()


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
    table["code"] = [f"c{i % 60}" for i in range(len(table))]
    made = prepare(table, target="bought", task="classification")
    text = " ".join(made.notices)
    assert "without any value are left out: nothing" in text
    assert "only the 49 most frequent values of code" in text


def test_text_that_is_nearly_all_different_is_left_out_and_said(table):
    table = pd.concat([table] * 5, ignore_index=True)
    plain = prepare(table, target="bought", task="classification")
    names = [f"p{i}" for i in range(len(table))]
    notes = [None if i % 3 else f"called at {i}" for i in range(len(table))]
    wide = table.assign(name=names, note=pd.Categorical(notes))
    made = prepare(wide, target="bought", task="classification")
    assert made.database.fingerprint() == plain.database.fingerprint()
    said = [text for text in made.notices if "nearly all different" in text]
    known = wide.loc[made.database.ids, "note"].notna().sum()
    assert said == [
        "text columns whose values are nearly all different are left out: name (200 of 200), "
        f"note ({known} of {known})"
    ]
    assert not any("note" in text for text in made.notices if text not in said)  # not filled in
    again = prepare(wide, target="bought", task="classification", points=wide.head(7))
    assert again.points.X.shape[1] == plain.database.X.shape[1]
    assert again.notices == made.notices


def test_rows_set_aside_for_testing_are_said():
    """Only where a share is asked for, and the rows set aside would otherwise be valued."""
    table = pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50) % 2})
    made = prepare(table, target="y", task="classification", test_size=0.2)
    assert made.notices[-1].startswith("10 rows are set aside as test rows and get no value")
    assert len(made.test) == 10
    for other in ({}, {"points": table, "test_size": 0.2}, {"test": table, "test_size": 0.2}):
        made = prepare(table, target="y", task="classification", **other)
        assert not any("set aside" in text for text in made.notices)
    assert prepare(table, target="y", task="classification").test is None


def test_what_is_nearly_all_different_is_counted_on_the_database(table):
    table = pd.concat([table] * 5, ignore_index=True)
    n = len(table)
    for share, kept in ((NEAR_UNIQUE - 0.05, True), (1.0, False)):
        codes = np.array([f"c{i}" for i in range(n)])
        repeated = int(np.ceil((1 - share) * n))
        codes[:repeated] = "again"
        database, test = table.assign(code=codes), table.assign(code="again")
        made = prepare(database, target="bought", task="classification", test=test)
        assert (
            any("only the 49 most frequent values of code" in text for text in made.notices) == kept
        )
        assert any("nearly all different" in text for text in made.notices) != kept


def test_few_rows_are_no_ground_to_leave_text_out(table):
    few = table.head(24).assign(town=[f"t{i}" for i in range(24)])
    made = prepare(few.head(19), target="bought", task="classification")
    assert not any("nearly all different" in text for text in made.notices)


def test_a_table_of_names_alone_cannot_be_learned_from(table):
    names = [f"p{i}" for i in range(40)]
    with pytest.raises(ds.InputError, match="no column is left to learn from: text columns whose"):
        prepare(
            table.assign(name=names)[["name", "bought"]], target="bought", task="classification"
        )


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


# --- columns of any type

FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
DAY = datetime.date(2024, 5, 31)
SECONDS = [0, 86_400, 129_600, 5]
ROWS = 40

TYPES = {
    "date32": pa.array([DAY, LAST, FIRST, datetime.date(1970, 1, 2)], pa.date32()),
    "date64": pa.array([DAY, LAST, FIRST, datetime.date(1970, 1, 2)], pa.date64()),
    **{
        f"timestamp {unit}": pa.array([n * 10**power for n in SECONDS], pa.timestamp(unit, zone))
        for unit, power, zone in [
            ("s", 0, None),
            ("ms", 3, "Europe/Rome"),
            ("us", 6, "UTC"),
            ("ns", 9, None),
        ]
    },
    "far timestamp": pa.array([DAY, LAST, FIRST, DAY], pa.date32()).cast(pa.timestamp("us")),
    **{
        f"duration {unit}": pa.array([n * 10**power for n in SECONDS], pa.duration(unit))
        for unit, power in [("s", 0), ("ms", 3), ("us", 6), ("ns", 9)]
    },
    "time32": pa.array([1, 2, 3, 4], pa.time32("s")),
    "time64": pa.array([1, 2, 3, 4], pa.time64("us")),
    "decimal128": pa.array([Decimal("1.10"), Decimal(2), Decimal(3), 4], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("1.10"), Decimal(2), Decimal(3), 4], pa.decimal256(60, 2)),
    "uint64": pa.array([2**64 - 1, 1, 2, 3], pa.uint64()),
    "float16": pa.array(np.array([1.5, 2, 3, 4], dtype=np.float16)),
    "float32": pa.array([1.5, 2, 3, 4], pa.float32()),
    "int8": pa.array([1, 2, 3, 4], pa.int8()),
    "bool": pa.array([True, False, False, True]),
    "dictionary": pa.array(["a", "b", "c", "a"]).dictionary_encode(),
    "dictionary of numbers": pa.array([1, 2, 3, 1]).dictionary_encode(),
    "string": pa.array(["a", "b", "c", "a"]),
    "large_string": pa.array(["a", "b", "c", "a"], pa.large_string()),
    "binary": pa.array([b"a", b"b", b"c", b"a"]),
    "fixed binary": pa.array([b"a", b"b", b"c", b"a"], pa.binary(1)),
    "list": pa.array([[1], [2, 3], [], [4]]),
    "list of text": pa.array([["a"], ["b"], [], ["c"]]),
    "struct": pa.array([{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]),
    "map": pa.array([[("a", 1)], [], [("b", 2)], []], pa.map_(pa.string(), pa.int64())),
}
NESTED = ["binary", "fixed binary", "list", "list of text", "struct", "map"]
TIMES = [kind for kind in TYPES if kind.startswith(("date", "time", "far", "duration"))]
TEXTS = ["dictionary", "string", "large_string"]
USED = [kind for kind in TYPES if kind not in NESTED]
LABELS = [kind for kind in USED if kind not in TIMES]


def written(path, cells, **more):
    """A Parquet file with these cells as the column 'x', over and over."""
    column = pa.chunked_array([cells] * (ROWS // len(cells)))
    n = np.arange(ROWS)
    pq.write_table(
        pa.table({"x": column, "f": n * 0.5, "y": np.where(n % 2, "yes", "no"), **more}), path
    )
    return path


def with_gap(cells):
    values = cells.to_pylist()
    return pa.array([values[0], None, *values[2:]], cells.type)


def made(path, role):
    """The file, read and prepared with 'x' in this role."""
    options = {
        "feature": {"target": "y"},
        "target": {"target": "x", "drop": ["y"]},
        "id": {"target": "y", "id_column": "x"},
        "group": {"target": "y", "group_column": "x"},
        "drop": {"target": "y", "drop": ["x"]},
    }[role]
    table = read_table(path, text=[options.get("id_column"), options.get("group_column")])
    return prepare(table, task=task_of(table, options["target"]), **options)


def identity(prepared, role):
    if role == "group":
        return ds.Bundles(prepared.points, prepared.groups).fingerprint()
    if role == "id":
        return prepared.points.ids.tolist()
    return [part.fingerprint() for part in (prepared.database, prepared.points)]


@pytest.mark.parametrize(
    ("role", "kind"),
    [(role, kind) for role in ("feature", "id", "group") for kind in USED]
    + [("target", kind) for kind in LABELS],
)
def test_a_column_of_any_type_is_known_by_its_content(tmp_path, role, kind):
    cells = TYPES[kind]
    path = written(tmp_path / "t.parquet", cells)
    first, again = (identity(made(path, role), role) for _ in range(2))
    assert first == again
    values = pa.chunked_array([cells] * (ROWS // 4)).to_pylist()
    rows = made(path, role).points.ids if role != "id" else [5]
    place = int(rows[0])
    values[place] = next(value for value in values if value != values[place])
    other = identity(
        made(written(tmp_path / "u.parquet", pa.array(values, cells.type)), role), role
    )
    assert other != first


@pytest.mark.parametrize("kind", USED)
def test_a_feature_column_of_any_type_becomes_finite_numbers(tmp_path, kind):
    for cells in (TYPES[kind], with_gap(TYPES[kind])):
        X = made(written(tmp_path / "t.parquet", cells), "feature").database.X
        assert X.dtype == np.float64
        assert np.isfinite(X).all()
        gaps_in_truth = kind == "bool" and cells.null_count
        if kind not in TEXTS and not gaps_in_truth:
            assert X.shape[1] == 2  # one column of numbers each


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("role", ["feature", "target", "id", "group"])
def test_nested_columns_are_refused_unless_dropped(tmp_path, kind, role):
    path = written(tmp_path / "t.parquet", TYPES[kind])
    with pytest.raises(ds.InputError, match=r"'x'.* holds (lists|structs|bytes), which") as caught:
        made(path, role)
    assert "\n" not in str(caught.value)
    assert ("--drop 'x'" in str(caught.value)) == (role == "feature")
    without = written(tmp_path / "u.parquet", TYPES["string"])
    assert identity(made(path, "drop"), "drop") == identity(made(without, "drop"), "drop")


@pytest.mark.parametrize("kind", TIMES)
def test_times_are_no_targets(tmp_path, kind):
    path = written(tmp_path / "t.parquet", TYPES[kind])
    with pytest.raises(
        ds.InputError,
        match=r"the target 'x' of the table holds (dates|durations|times of day), which cannot",
    ):
        task_of(read_table(path), "x")
    with pytest.raises(ds.InputError, match="the target 'x' of the table holds"):
        prepare(read_table(path), target="x", task="classification")


@pytest.mark.parametrize("role", ["target", "id", "group"])
@pytest.mark.parametrize("kind", [*USED, "null"])
def test_gaps_in_labels_and_names_are_named(tmp_path, role, kind):
    cells = pa.nulls(4) if kind == "null" else with_gap(TYPES[kind])
    path = written(tmp_path / "t.parquet", cells)
    with pytest.raises(ds.InputError, match=r"'x' of the table (is missing in|holds)"):
        made(path, role)


def test_an_empty_column_is_left_out(tmp_path):
    found = made(written(tmp_path / "t.parquet", pa.nulls(4)), "feature")
    assert found.database.X.shape[1] == 1
    assert "columns without any value are left out: x" in found.notices[0]


def test_decimal_targets_are_numbers(tmp_path):
    path = written(tmp_path / "t.parquet", TYPES["decimal128"])
    table = read_table(path)
    assert task_of(table, "x") == "regression"
    assert set(made(path, "target").database.y) == {1.1, 2.0, 3.0, 4.0}
    few = written(tmp_path / "u.parquet", TYPES["decimal128"].cast(pa.decimal128(10, 2))[1:3])
    assert task_of(read_table(few), "x") == "classification"


def test_decimals_that_floats_cannot_tell_apart(tmp_path):
    close = [Decimal(10**30), Decimal(10**30 + 1), Decimal(1), Decimal(2)]
    path = written(tmp_path / "t.parquet", pa.array(close, pa.decimal128(38, 0)))
    with pytest.raises(ds.InputError, match=r"the target 'x' .* the same 64-bit float: scale"):
        made(path, "target")
    assert len(np.unique(made(path, "group").groups)) == 4
    assert made(path, "feature").database.X.shape[1] == 2


@pytest.mark.parametrize(
    ("kind", "days"),
    [
        ("date32", [19_874.0, 2_932_896.0, -719_162.0, 1.0]),
        ("date64", [19_874.0, 2_932_896.0, -719_162.0, 1.0]),
        ("far timestamp", [19_874.0, 2_932_896.0, -719_162.0, 19_874.0]),
        *[
            (f"{word} {unit}", [second / 86_400 for second in SECONDS])
            for word in ("timestamp", "duration")
            for unit in ("s", "ms", "us", "ns")
        ],
        ("time32", [second / 86_400 for second in (1, 2, 3, 4)]),
        ("decimal256", [1.1, 2.0, 3.0, 4.0]),
        ("uint64", [2.0**64, 1.0, 2.0, 3.0]),
        ("float16", [1.5, 2.0, 3.0, 4.0]),
    ],
)
def test_numbers_of_each_type(tmp_path, kind, days):
    table = read_table(written(tmp_path / "t.parquet", TYPES[kind]))
    assert plain_columns(table[["x"]], ["x"])["x"].tolist()[:4] == days
    gap = read_table(written(tmp_path / "u.parquet", with_gap(TYPES[kind])))
    found = plain_columns(gap[["x"]], ["x"])["x"].tolist()[:4]
    assert np.isnan(found[1])
    assert [*found[:1], *found[2:]] == [*days[:1], *days[2:]]


def test_names_keep_their_written_form(tmp_path):
    table = pd.DataFrame(
        {"f": np.arange(40.0), "y": ["a", "b"] * 20, "x": ["007", "2024-05-31"] * 20}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    path = tmp_path / "t.csv"
    assert (
        set(made(path, "id").points.ids) == set(made(path, "group").groups) == {"007", "2024-05-31"}
    )
    dates = written(tmp_path / "t.parquet", TYPES["date32"])
    assert set(made(dates, "group").groups) == {
        "2024-05-31",
        "9999-12-31",
        "0001-01-01",
        "1970-01-02",
    }
    decimals = written(tmp_path / "t.parquet", TYPES["decimal128"])
    assert set(made(decimals, "group").groups) == {"1.10", "2.00", "3.00", "4.00"}


CELLS = {
    "far dates": (["9999-12-31", "0001-01-01", "2024-05-31", ""], "date"),
    "far times": (["9999-12-31T23:59:59", "2024-05-31 10:00:00", "", "2024-05-31"], "date"),
    "beyond 64 bits": (["99999999999999999999", "1", "-5", ""], "number"),
    "uint64 and signs": (["18446744073709551615", "-1", "7", ""], "number"),
    "uint64 and gaps": (["18446744073709551615", "1", "7", ""], "number"),
    "no dates": (["2024-99-99", "2024-05-31", "2024-05-30", ""], "text"),
}


def as_csv(path, cells):
    rows = "".join(f"{cells[i % 4]},{i},{'ab'[i % 2]}\n" for i in range(ROWS))
    path.write_text("x,f,y\n" + rows)
    return path


@pytest.mark.parametrize("case", CELLS)
def test_csv_columns(tmp_path, case):
    cells, kind = CELLS[case]
    path = as_csv(tmp_path / "t.csv", cells)
    first, again = (identity(made(path, "feature"), "feature") for _ in range(2))
    assert first == again
    X = made(path, "feature").database.X
    assert np.isfinite(X).all()
    assert X.shape[1] == (5 if kind == "text" else 2)
    changed = as_csv(tmp_path / "u.csv", [cells[0], cells[0], *cells[2:]])
    assert identity(made(changed, "feature"), "feature") != first


def test_large_integers_of_a_csv_file_as_labels_and_names(tmp_path):
    path = as_csv(tmp_path / "t.csv", ["99999999999999999999", "1", "5", "7"])
    assert set(made(path, "target").database.y) == {1e20, 1.0, 5.0, 7.0}
    assert set(made(path, "group").groups) == {"99999999999999999999", "1", "5", "7"}
    close = as_csv(tmp_path / "u.csv", ["99999999999999999999", "99999999999999999998", "5", "7"])
    with pytest.raises(ds.InputError, match=r"'x' .* the same 64-bit float"):
        made(close, "target")
    assert len(set(made(close, "group").groups)) == 4
    huge = as_csv(tmp_path / "v.csv", ["9" * 400, "1", "5", "7"])
    with pytest.raises(ds.InputError, match="infinite value in column 'x'"):
        made(huge, "feature")


def test_a_long_csv_column_is_of_one_type(tmp_path):
    rows = [f"{i}" for i in range(200_000)]
    rows[-1] = "n/k"
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(rows) + "\n")
    assert {type(cell) for cell in read_table(tmp_path / "t.csv")["x"]} == {str}


def test_truth_values_with_gaps_in_a_second_table(table):
    gaps = table.assign(member=pd.Series([True, None] * 20, dtype=object))
    made = prepare(table, target="bought", task="classification", test=gaps)
    assert np.isfinite(made.test.X).all()


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["31"] * 40, "holds numbers in the first table but '31' in the test table"),
        (pd.date_range("2020-01-01", periods=40), "numbers in the first table but dates in the"),
        ([DAY] * 40, "numbers in the first table but dates in the test table"),
    ],
)
def test_a_column_of_a_different_kind_in_a_second_table(table, cells, says):
    with pytest.raises(ds.InputError, match=says):
        prepare(table, target="bought", task="classification", test=table.assign(age=cells))


# --- targets and columns that cannot be used


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id_column": "bought"}, "'bought' is the target: name a different column with --id"),
        ({"group_column": "bought"}, "'bought' is the target: .* --group"),
        ({"drop": ["age", "bought"]}, "'bought' is the target: .* --drop"),
        ({"task": "regression"}, "the target 'bought' holds text, but regression needs numbers"),
    ],
)
def test_a_target_has_one_role(table, options, says):
    with pytest.raises(ds.InputError, match=says):
        prepare(table, **{"target": "bought", "task": "classification", **options})


@pytest.mark.parametrize("infinite", [np.inf, -np.inf, Decimal("Infinity"), 10**400])
def test_infinite_targets(table, infinite):
    column = pd.Series([*range(39), infinite])
    with pytest.raises(ds.InputError, match=r"the target 'y' of the table (is infinite|holds num)"):
        prepare(table.assign(y=column), target="y", task="regression")
    with pytest.raises(ds.InputError, match="the target 'y' of the table"):
        task_of(table.assign(y=column), "y")


def test_numbers_too_large_to_scale(table):
    with pytest.raises(
        ds.InputError, match=r"number above 1e.150 in column 'age', too large to sc"
    ):
        prepare(table.assign(age=1e200), target="bought", task="classification")


@pytest.mark.parametrize("twice", ["bought", "age"])
def test_two_columns_of_one_name(table, twice):
    doubled = pd.concat([table, table[[twice]]], axis=1)
    with pytest.raises(ds.InputError, match=f"two columns (are )?called '{twice}': rename one"):
        prepare(doubled, target="bought", task="classification")
    if twice == "bought":
        with pytest.raises(ds.InputError, match="two columns called 'bought'"):
            task_of(doubled, "bought")


@pytest.mark.parametrize("header", ["a,b,a", '"a",b,"a"', "a;b;a", "\ufeffa,b,a"])
def test_two_columns_of_one_name_in_a_csv_file(tmp_path, header):
    row = "1;2;3" if ";" in header else "1,2,3"
    (tmp_path / "t.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(ds.InputError, match="two columns are called 'a': rename one"):
        read_table(tmp_path / "t.csv")


def test_two_columns_of_one_name_in_a_parquet_file(tmp_path):
    pq.write_table(
        pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet"
    )
    with pytest.raises(ds.InputError, match="two columns are called 'a': rename one"):
        read_table(tmp_path / "t.parquet")


def test_a_column_without_a_name(tmp_path, table):
    table.to_csv(tmp_path / "t.csv")  # with the index, as pandas does unless told not to
    found = read_table(tmp_path / "t.csv", text=["Unnamed: 0"])
    with pytest.raises(ds.InputError, match=r"column 1 of the table has no name: .* 'Unnamed: 0'"):
        prepare(found, target="bought", task="classification")
    plain = prepare(table, target="bought", task="classification")
    for option in ({"drop": ["Unnamed: 0"]}, {"id_column": "Unnamed: 0"}):
        made = prepare(found, target="bought", task="classification", **option)
        np.testing.assert_allclose(made.database.X, plain.database.X)
    with pytest.raises(ds.InputError, match="column 6 of the table has no name"):
        prepare(table.assign(**{" ": 1.0}), target="bought", task="classification")


# --- what is in the place of a table


def one_line(path):
    with pytest.raises(ds.InputError) as caught:
        read_table(path)
    text = str(caught.value)
    assert text.isprintable()  # one line, and nothing that a terminal would obey
    return text


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    assert "is a pipe or a device" in one_line(tmp_path / "t.csv")


def test_folders_and_sockets_are_refused(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").mkdir()
    assert "t.parquet is a folder" in one_line(tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("t.csv")
        assert "is a pipe or a device" in one_line("t.csv")


def test_a_link_to_a_device_is_refused(tmp_path):
    (tmp_path / "t.csv").symlink_to(os.devnull)
    assert "is a pipe or a device" in one_line(tmp_path / "t.csv")


def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "real.csv").write_text("a\n1\n")
    (tmp_path / "t.csv").symlink_to(tmp_path / "real.csv")
    assert read_table(tmp_path / "t.csv")["a"].tolist() == [1]


def test_paths_that_no_file_can_have(tmp_path):
    assert "no such file" in one_line("a\0b.csv")
    assert "no such file" in one_line(tmp_path / "a\n\x1b[31mb.csv")
    assert "name too long" in one_line(tmp_path / ("a" * 300 + ".csv"))
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    assert "loop.csv" in one_line(tmp_path / "loop.csv")
    (tmp_path / "file").write_text("")
    assert "file" in one_line(tmp_path / "file" / "t.csv")


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowInvalid("bad\nmore"),
        OverflowError(),
        MemoryError(),
        RecursionError("deep"),
        KeyError("schema"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "why"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_whatever_a_reader_raises_is_one_line(tmp_path, monkeypatch, error, suffix):
    def broken(*args, **options):
        raise error

    path = written(tmp_path / f"t{suffix}", TYPES["int8"])
    monkeypatch.setattr(pd, "read_csv", broken)
    monkeypatch.setattr(pd, "read_parquet", broken)
    assert "cannot be read as" in one_line(path)


def test_a_compressed_file_cut_short(tmp_path, table):
    table.to_csv(tmp_path / "t.csv.gz", index=False)
    whole = (tmp_path / "t.csv.gz").read_bytes()
    for part in (whole[:60], whole[:2] + b"\xff" * 60, b"not gzip"):
        (tmp_path / "t.csv.gz").write_bytes(part)
        assert "cannot be read as CSV" in one_line(tmp_path / "t.csv.gz")


def test_text_that_is_no_utf8_is_found_when_read(tmp_path):
    bad = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    for column in (bad, pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), bad)):
        pq.write_table(pa.table({"x": column}), tmp_path / "t.parquet")
        assert "cannot be read as PARQUET" in one_line(tmp_path / "t.parquet")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_damaged_files_are_an_error_for_people_or_a_table(tmp_path, table, suffix):
    path = tmp_path / f"t{suffix}"
    table = table.assign(id=range(40), paid=[Decimal(i) / 4 for i in range(40)])
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    whole, rng = path.read_bytes(), random.Random(0)
    said = []
    for _ in range(DAMAGED):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 3])):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.choice([0, 1])] = bytes([rng.randrange(256)])
        path.write_bytes(damaged)
        try:
            found = read_table(path, text=["id"])
            prepare(found, target="bought", task="classification", id_column="id")
        except ds.InputError as error:
            said.append(str(error))
    assert 0 < len(said) < DAMAGED
    assert not any("\n" in text for text in said)


def test_embedded_sample():
    adult = adult_sample()
    assert adult.shape == (2000, 15)
    # Stratified: the share of the original's 48,842 rows is 23.93 %.
    assert (adult["income"] == ">50K").mean() == pytest.approx(0.2393, abs=0.0005)
    assert adult.isna().sum().sum() == 255


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("forest", "adaboost", "boosting")))
        for name in MODELS
    ],
)
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
            stop=2,
        )
        assert np.isfinite(found.values).all()


def test_auto_and_unknown_models():
    assert type(model_from_name("auto", "classification")).__name__ == "LogisticRegression"
    assert type(model_from_name("auto", "regression")).__name__ == "Ridge"
    with pytest.raises(ds.InputError, match="did you mean 'forest'"):
        model_from_name("forrest", "classification")
    with pytest.raises(ds.InputError, match="does not support regression"):
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


def test_ids_that_name_several_rows_are_refused():
    check_distinct(np.array(["C1", "C2"]), "customer")
    with pytest.raises(ds.InputError, match="--id customer: 'C1' names 2 rows; use --group custom"):
        check_distinct(np.array(["C1", "C2", "C1"]), "customer")
