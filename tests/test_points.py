"""Points and bundles: rows that keep their labels, names and types wherever they are moved."""

import datetime
import hashlib
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from scipy import sparse

from dshapley import Bundles, InputError, Points
from dshapley.data.points import _digest_array, as_points, kind_of, labels_of, names_of


def array_points():
    X = np.array([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0], [3.0, 13.0]])
    return Points(X, ["a", "b", "a", "c"])


def frame():
    return pd.DataFrame(
        {
            "age": [31, 45, 27, 60],
            "income": [1.5, 2.5, np.nan, 4.0],
            "city": ["Oslo", "Bergen", "Oslo", "Tromso"],
            "kind": pd.Categorical(["x", "y", "x", "x"], categories=["x", "y", "never"]),
        },
        index=["ann", "bob", "cy", "dee"],
    )


def frame_points():
    return Points(frame(), [0, 1, 0, 1])


BOTH = pytest.mark.parametrize("make", [array_points, frame_points], ids=["array", "frame"])


def same(one, other):
    """Whether two sets of points hold equal rows, labels and ids in the same order."""
    if isinstance(one.X, np.ndarray):
        np.testing.assert_array_equal(one.X, other.X)
    else:
        assert_frame_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one.ids, other.ids)
    return True


# --- making them


def test_an_array_is_kept_and_gets_numbered_ids():
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    points = Points(X, [5, 6, 7])
    assert len(points) == 3
    assert points.X.dtype == np.float32
    assert points.y.tolist() == [5, 6, 7]
    assert points.ids.tolist() == [0, 1, 2]
    assert points.columns == ["0", "1"]


def test_lists_become_arrays():
    points = Points([[1, 2], [3, 4]], ["no", "yes"])
    assert isinstance(points.X, np.ndarray)
    assert points.X.tolist() == [[1, 2], [3, 4]]
    assert points.y.tolist() == ["no", "yes"]


def test_a_frame_is_kept_with_its_types_and_its_index_names_the_rows():
    points = frame_points()
    assert_frame_equal(points.X, frame())
    assert points.ids.tolist() == ["ann", "bob", "cy", "dee"]
    assert points.columns == ["age", "income", "city", "kind"]


def test_column_names_of_a_frame_are_shown_as_text():
    assert Points(pd.DataFrame(np.zeros((2, 2)), columns=[7, 8])).columns == ["7", "8"]


@BOTH
def test_given_ids_win(make):
    points = make()
    named = Points(points.X, points.y, ids=[9, 8, 7, 6])
    assert named.ids.tolist() == [9, 8, 7, 6]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["a", "b"]),
        pd.Index(["a", 2], dtype=object),
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
        pd.period_range("2024-01", periods=2, freq="M"),
        pd.CategoricalIndex(["u", "v"]),
        pd.date_range("2024-01-01", periods=2, tz="UTC"),
    ],
    ids=["text", "mixed", "multi", "period", "categorical", "zoned"],
)
def test_ids_are_plain_arrays_that_need_no_pickle(index):
    points = Points(pd.DataFrame({"x": [1.0, 2.0]}, index=index))
    assert points.ids.shape == (2,)
    assert points.ids.dtype != object
    assert len(set(points.ids.tolist())) == 2


def test_labels_may_be_missing_altogether():
    points = Points(np.zeros((3, 1)))
    assert points.y is None
    assert points.take([0, 0]).y is None
    assert (points + points).y is None


@pytest.mark.parametrize(
    ("y", "kind", "expected"),
    [
        (pd.Series(["a", "b", "a"], index=[7, 8, 9]), "U", ["a", "b", "a"]),
        (pd.Categorical(["a", "b", "a"]), "U", ["a", "b", "a"]),
        (pd.Series([1, 2, 1], dtype="Int64"), "i", [1, 2, 1]),
        (np.array(["a", "b", "a"], dtype=object), "U", ["a", "b", "a"]),
        (np.array([1, 2, 1], dtype=object), "i", [1, 2, 1]),
        (np.array([[1.0], [2.0], [1.0]]), "f", [1.0, 2.0, 1.0]),
        ([True, False, True], "b", [True, False, True]),
    ],
    ids=["series", "categorical", "nullable", "object text", "object int", "column", "bool"],
)
def test_labels_become_one_plain_array(y, kind, expected):
    points = Points(np.zeros((3, 1)), y)
    assert points.y.dtype.kind == kind
    assert points.y.tolist() == expected


def test_an_array_of_objects_that_are_numbers_becomes_floats():
    points = Points(np.array([[1, 2.5], [None, 4]], dtype=object))
    assert points.X.dtype == np.float64
    np.testing.assert_array_equal(points.X, [[1.0, 2.5], [np.nan, 4.0]])


def test_points_are_frozen():
    with pytest.raises(AttributeError):
        array_points().y = None


# --- taking, joining, walking, drawing


@BOTH
def test_take_keeps_order_and_repeats(make):
    points = make()
    taken = points.take([3, 0, 0])
    assert len(taken) == 3
    assert taken.y.tolist() == [points.y[3], points.y[0], points.y[0]]
    assert taken.ids.tolist() == [points.ids[3], points.ids[0], points.ids[0]]
    assert np.asarray(taken.X)[0].tolist() == np.asarray(points.X)[3].tolist()
    assert np.asarray(taken.X)[2].tolist() == np.asarray(points.X)[0].tolist()


@BOTH
@pytest.mark.parametrize("nothing", [[], np.array([]), slice(0)], ids=["list", "array", "slice"])
def test_take_of_nothing_keeps_columns_and_types(make, nothing):
    points = make()
    empty = points.take(nothing)
    assert len(empty) == 0
    assert empty.columns == points.columns
    assert empty.y.dtype == points.y.dtype
    assert same(empty + points, points)


@BOTH
def test_take_by_slice_and_negative_index(make):
    points = make()
    assert same(points.take(slice(1, 3)), points.take([1, 2]))
    assert same(points.take([-1]), points.take([3]))


@BOTH
def test_take_out_of_range_fails(make):
    with pytest.raises(IndexError):
        make().take([4])


def test_take_never_reads_a_mask_as_row_numbers():
    points = array_points()
    mask = np.array([False, False, True, True])
    try:
        taken = points.take(mask)
    except (InputError, IndexError, TypeError):
        return  # to refuse a mask is as good as to follow it
    assert taken.ids.tolist() == [2, 3]


def test_a_taken_set_does_not_write_through():
    points = array_points()
    points.take([0, 1]).X[:] = -1.0
    assert points.X.min() == 0.0


def test_take_keeps_the_types_of_a_frame():
    taken = frame_points().take([0, 0, 2])
    assert taken.X.dtypes.tolist() == frame().dtypes.tolist()
    assert taken.X["kind"].cat.categories.tolist() == ["x", "y", "never"]
    assert taken.X["city"].tolist() == ["Oslo", "Oslo", "Oslo"]


@BOTH
def test_join_keeps_the_rows_of_both(make):
    points = make()
    joined = points + points.take([1, 1])
    assert len(joined) == 6
    assert joined.y.tolist() == [*points.y, points.y[1], points.y[1]]
    assert joined.ids.tolist() == [*points.ids, points.ids[1], points.ids[1]]
    assert same(joined.take(slice(4)), points)
    assert same(joined.take([4]), points.take([1]))


def test_join_keeps_the_types_of_a_frame():
    joined = frame_points() + frame_points().take([2])
    assert joined.X.dtypes.tolist() == frame().dtypes.tolist()


def test_join_of_labels_of_unequal_length_cuts_none():
    one, other = Points([[1.0]], ["no"]), Points([[2.0]], ["perhaps"])
    assert (one + other).y.tolist() == ["no", "perhaps"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["ann"], [1]),
        (pd.to_datetime(["2024-01-01"]), [1]),
        (pd.to_datetime(["2024-01-01"]), ["ann"]),
    ],
    ids=["text and number", "date and number", "date and text"],
)
def test_join_of_rows_named_in_different_ways(first, second):
    one = Points(pd.DataFrame({"x": [1.0]}, index=first), [0])
    other = Points(pd.DataFrame({"x": [2.0]}, index=second), [1])
    joined = one + other
    assert len(joined.ids) == 2
    assert joined.X["x"].tolist() == [1.0, 2.0]


def test_join_with_something_else_is_a_type_error():
    with pytest.raises(TypeError):
        array_points() + 1


@given(
    first=st.lists(st.integers(0, 3), max_size=6),
    second=st.lists(st.integers(0, 3), max_size=6),
    framed=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_take_then_join_is_join_then_take(first, second, framed):
    points = frame_points() if framed else array_points()
    assert same(points.take(first) + points.take(second), points.take(first + second))


@BOTH
def test_iteration_yields_each_point_as_a_set_of_one(make):
    points = make()
    singles = list(points)
    assert [len(z) for z in singles] == [1, 1, 1, 1]
    for i, z in enumerate(singles):
        assert same(z, points.take([i]))


@BOTH
def test_sample_draws_rows_with_their_labels_and_repeats(make):
    points = make()
    drawn = points.sample(50, np.random.default_rng(0))
    assert len(drawn) == 50
    where = {name: i for i, name in enumerate(points.ids.tolist())}
    assert same(drawn, points.take([where[name] for name in drawn.ids.tolist()]))
    assert set(drawn.ids.tolist()) == set(points.ids.tolist())


@BOTH
def test_sample_is_fixed_by_its_generator(make):
    points = make()
    first = points.sample(20, np.random.default_rng(1))
    assert same(first, points.sample(20, np.random.default_rng(1)))
    other = points.sample(20, np.random.default_rng(2))
    assert first.ids.tolist() != other.ids.tolist()


@BOTH
def test_sample_of_no_rows_is_empty(make):
    assert len(make().sample(0, np.random.default_rng(0))) == 0


def test_sample_is_uniform():
    n, draws = 4, 40_000
    ids = array_points().sample(draws, np.random.default_rng(0)).ids
    share = np.bincount(ids, minlength=n) / draws
    stderr = np.sqrt((1 / n) * (1 - 1 / n) / draws)
    assert np.abs(share - 1 / n).max() < 4 * stderr


# --- fingerprints


@BOTH
def test_equal_data_has_an_equal_fingerprint(make):
    assert make().fingerprint() == make().fingerprint()


@BOTH
def test_ids_do_not_count_in_a_fingerprint(make):
    points = make()
    named = Points(points.X, points.y, ids=["p", "q", "r", "s"])
    assert named.fingerprint() == points.fingerprint()


def test_the_index_of_a_frame_does_not_count_in_a_fingerprint():
    plain = Points(frame().reset_index(drop=True), [0, 1, 0, 1])
    assert plain.fingerprint() == frame_points().fingerprint()


def test_memory_order_does_not_count_in_a_fingerprint():
    points = array_points()
    turned = Points(np.asfortranarray(points.X), points.y)
    sliced = Points(np.repeat(points.X, 2, axis=0)[::2], points.y)
    assert turned.fingerprint() == points.fingerprint() == sliced.fingerprint()


def test_room_for_longer_labels_does_not_count_in_a_fingerprint():
    points = Points([[1.0], [2.0]], ["no", "perhaps"])
    assert points.take([0]).fingerprint() == Points([[1.0]], ["no"]).fingerprint()


def test_a_fingerprint_names_the_number_of_rows():
    assert array_points().fingerprint().endswith("(4 rows)")


def changed_arrays():
    points = array_points()
    X, y = points.X, points.y
    moved = X.copy()
    moved[2, 1] += 1e-12
    return {
        "a number": Points(moved, y),
        "a label": Points(X, ["a", "b", "a", "b"]),
        "type of X": Points(X.astype(np.float32), y),
        "no labels": Points(X),
        "order of rows": points.take([1, 0, 2, 3]),
        "fewer rows": points.take([0, 1, 2]),
        "a repeat": points.take([0, 1, 2, 3, 3]),
        "shape": Points(X.reshape(2, 4), y[:2]),
        "a frame": Points(pd.DataFrame(X), y),
    }


def changed_frames():
    table, y = frame(), [0, 1, 0, 1]
    return {
        "a number": Points(table.assign(age=[31, 45, 27, 61]), y),
        "a text": Points(table.assign(city=["Oslo", "Bergen", "Oslo", "Oslo"]), y),
        "a category": Points(
            table.assign(kind=pd.Categorical(["x", "y", "y", "x"], ["x", "y", "never"])), y
        ),
        "a filled gap": Points(table.fillna({"income": 0.0}), y),
        "a label": Points(table, [0, 1, 0, 0]),
        "type of a column": Points(table.astype({"age": float}), y),
        "category as text": Points(table.astype({"kind": str}), y),
        "name of a column": Points(table.rename(columns={"age": "years"}), y),
        "order of columns": Points(table[["income", "age", "city", "kind"]], y),
        "type of labels": Points(table, [0.0, 1.0, 0.0, 1.0]),
        "no labels": Points(table),
    }


@pytest.mark.parametrize("change", list(changed_arrays()))
def test_changed_arrays_have_another_fingerprint(change):
    assert changed_arrays()[change].fingerprint() != array_points().fingerprint()


@pytest.mark.parametrize("change", list(changed_frames()))
def test_changed_frames_have_another_fingerprint(change):
    assert changed_frames()[change].fingerprint() != frame_points().fingerprint()


def test_changes_are_told_apart():
    for changes in (changed_arrays(), changed_frames()):
        prints = [points.fingerprint() for points in changes.values()]
        assert len(set(prints)) == len(prints)


# --- what is known by its content, whatever its type

DAY = datetime.date(2024, 5, 31)
BIG = 2**70

# Three makers of labels: once, once more as new objects, and with one label changed.
LABELS = {
    "decimals": lambda last: [Decimal("1.10"), Decimal("2.20"), Decimal(f"{last}.30")],
    "fractions": lambda last: [Fraction(1, 3), Fraction(2, 3), Fraction(last, 7)],
    "large integers": lambda last: [BIG, -BIG, BIG * last],
    "beyond int64": lambda last: [2**63, 1, last],
    "signs beyond int64": lambda last: [2**63, -1, last],
    "text": lambda last: ["a", "b", f"c{last}"],
    "objects of text": lambda last: np.array(["a", "b", f"c{last}"], dtype=object),
    "numpy's new text": lambda last: np.array(
        ["a", "b", f"{last} is longer than any short string"], dtype=np.dtypes.StringDType()
    ),
    "categories": lambda last: pd.Categorical(["a", "b", f"c{last}"]),
    "categories of numbers": lambda last: pd.Categorical([7, 8, last]),
    "categories of decimals": lambda last: pd.Categorical([Decimal(7), Decimal(8), Decimal(last)]),
    "pyarrow's decimals": lambda last: pd.array(
        [Decimal(7), Decimal(8), Decimal(last)], dtype=pd.ArrowDtype(pa.decimal128(10, 2))
    ),
    "half floats": lambda last: np.array([1, 2, last], dtype=np.float16),
    "long doubles": lambda last: np.array([1, 2, last], dtype=np.longdouble),
    "truth values": lambda last: [True, False, last == 4],
}
NAMES = {
    **LABELS,
    "dates": lambda last: [DAY, DAY, DAY + datetime.timedelta(last)],
    "times": lambda last: [datetime.time(1), datetime.time(2), datetime.time(last)],
    "datetimes": lambda last: pd.to_datetime(["2024-05-31", "2024-06-01", f"2024-07-0{last}"]),
    "durations": lambda last: pd.to_timedelta([1, 2, last], unit="D"),
    "bytes": lambda last: [b"a", b"b", b"c%d" % last],
    "tuples": lambda last: pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", last)]),
    "complex": lambda last: np.array([1j, 2j, last]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_known_by_their_content(kind):
    X, make = np.zeros((3, 1)), LABELS[kind]
    first, again, changed = (Points(X, make(last)) for last in (4, 4, 5))
    assert first.y.dtype != object
    assert first.fingerprint() == again.fingerprint() != changed.fingerprint()


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "tuples"])
def test_groups_are_known_by_their_content(kind):
    points, make = Points(np.zeros((3, 1))), NAMES[kind]
    first, again, changed = (Bundles(points, make(last)) for last in (4, 4, 5))
    assert first.groups.dtype.kind in "iuU"
    assert first.fingerprint() == again.fingerprint() != changed.fingerprint()


@pytest.mark.parametrize("kind", NAMES)
def test_ids_can_be_written_to_any_file(kind, tmp_path):
    ids = Points(np.zeros((3, 1)), ids=NAMES[kind](4)).ids
    assert ids.dtype.kind in "iuU"
    np.savez(tmp_path / "ids.npz", ids=ids)
    with np.load(tmp_path / "ids.npz", allow_pickle=False) as stored:
        assert stored["ids"].tolist() == ids.tolist()
    pd.DataFrame({"x": [1, 2, 3]}, index=pd.Index(ids)).to_parquet(tmp_path / "ids.parquet")


FRAMES = {
    "decimals": lambda last: [Decimal("1.1"), None, Decimal(last)],
    "dates": lambda last: [DAY, None, DAY + datetime.timedelta(last)],
    "numbers and text": lambda last: [1, "1", last],
    "lists": lambda last: [[1], [2, 3], [last]],
    "long arrays": lambda last: [np.arange(5_000), np.zeros(5_000), np.arange(5_000) == last],
    "sets": lambda last: [{"a"}, {"b", "c", "d"}, {"e", str(last)}],
    "a class": lambda last: [Fraction(1, 2), slice(1), slice(last)],
    "categories of dates": lambda last: pd.Categorical([DAY, DAY, DAY.replace(day=last)]),
    "pyarrow's lists": lambda last: pd.array(
        [[1], [2, 3], [last]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_cells_of_a_frame_are_known_by_their_content(kind):
    def points(last):
        column = FRAMES[kind](last)
        column = column if hasattr(column, "dtype") else pd.Series(column, dtype=object)
        return Points(pd.DataFrame({"x": column, "n": [1.0, 2.0, 3.0]}))

    first, again, changed = (points(last).fingerprint() for last in (4, 4, 5))
    assert first == again != changed


def test_a_number_in_a_frame_is_not_its_text():
    one, other = (pd.DataFrame({"x": pd.Series(["a", v], dtype=object)}) for v in (1, "1"))
    assert Points(one).fingerprint() != Points(other).fingerprint()


def test_cells_that_cannot_be_identified_are_named():
    table = pd.DataFrame({"x": pd.Series([1, lambda: 1], dtype=object)})
    with pytest.raises(InputError, match="the column 'x' holds objects of type function"):
        Points(table).fingerprint()


def test_another_process_finds_the_same_fingerprints():
    code = "from test_points import prints; print(*prints(), sep='|')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout.strip().split("|") == prints()


def prints():
    X = np.zeros((3, 1))
    labelled = [Points(X, make(4)).fingerprint() for make in LABELS.values()]
    grouped = [
        Bundles(Points(X), make(4)).fingerprint()
        for kind, make in NAMES.items()
        if kind != "tuples"
    ]
    framed = [
        Points(pd.DataFrame({"x": pd.Series(FRAMES[kind](4), dtype=object)})).fingerprint()
        for kind in ("decimals", "dates", "lists", "sets", "a class")
    ]
    return labelled + grouped + framed


@pytest.mark.parametrize("array", [np.array([1, None]), np.zeros(2, dtype=[("a", "O")])])
def test_memory_addresses_are_never_hashed(array):
    with pytest.raises(InputError, match="cannot be identified"):
        _digest_array(hashlib.blake2b(), array)


def test_the_text_of_long_strings_counts_in_an_array():
    def points(end):
        text = [["a text that is longer than numpy keeps in place", end]]
        return Points(np.array(text, dtype=np.dtypes.StringDType()))

    assert points("b").fingerprint() == points("b").fingerprint() != points("c").fingerprint()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([DAY] * 3, "y holds dates, which cannot be predicted: give numbers or text"),
        (pd.to_datetime(["2024", "2025", "2026"]), "y holds dates"),
        (pd.to_datetime(["2024", "2025", "2026"], utc=True), "y holds dates"),
        (pd.Categorical([DAY] * 3), "y holds dates"),
        ([datetime.time(1)] * 3, "y holds times of day"),
        ([datetime.timedelta(1)] * 3, "y holds durations"),
        (pd.to_timedelta([1, 2, 3], unit="D"), "y holds durations"),
        ([1j, 2, 3], "y holds complex numbers"),
        (np.array([1j, 2, 3]), "y holds complex numbers"),
        (np.array([b"a", b"b", b"c"]), "y holds bytes"),
        ([b"a", b"b", b"c"], "y holds bytes"),
        ([[1], [2, 3], [4]], "y holds lists"),
        (pd.Series([[1], [2, 3], [4]]), "y holds lists"),
        ([{"a": 1}] * 3, "y holds structs"),
        ([object()] * 3, "y holds objects of type object"),
        (np.zeros(3, dtype=[("a", "i4")]), "y holds structs"),
        ([1, DAY, 2], "y holds dates"),
        ([BIG, BIG + 1, 1], "and 1180591620717411303425, which are the same 64-bit float: scale"),
        ([Decimal("0.1"), Decimal("0.1" + "0" * 30 + "1"), 1], "the same 64-bit float"),
        ([2**63, -1, 2**63 + 1], "the same 64-bit float"),
        ([10**400, 1, 2], "y holds numbers too large for 64-bit floats"),
        ([Decimal("Infinity"), 1, 2], "y is infinite in row 0"),
        ([Decimal("NaN"), 1, 2], "y is missing in 1 of 3 rows"),
        (["a\0", "a", "b"], "y has text that ends with a NUL character"),
    ],
)
def test_labels_that_cannot_be_used_are_named(y, message):
    with pytest.raises(InputError, match=message):
        Points(np.zeros((3, 1)), y)


def test_equal_large_labels_may_repeat():
    assert Points(np.zeros((3, 1)), [BIG, BIG, 1]).y.tolist() == [float(BIG), float(BIG), 1.0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([object()] * 3, "holds objects of type object, which cannot be names"),
        ([[1], [2, 3], [4]], "holds lists"),
        (pd.Series([[1], [2, 3], [4]]), "holds lists"),
        ([frozenset("ab")] * 3, "holds lists"),
        ([{"a": 1}] * 3, "holds structs"),
        (["a\0", "a", "b"], "has text that ends with a NUL character"),
    ],
)
def test_names_that_cannot_be_used_are_named(names, message):
    with pytest.raises(InputError, match=f"groups {message}"):
        Bundles(Points(np.zeros((3, 1))), names)
    with pytest.raises(InputError, match=f"ids {message}"):
        Points(np.zeros((3, 1)), ids=names)


def test_equal_groups_are_not_told_apart_by_how_they_are_written():
    with pytest.raises(InputError, match="groups holds equal values with different spellings"):
        Bundles(Points(np.zeros((2, 1))), [Decimal("1.0"), Decimal("1.00")])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1], [3, 1]),
        (np.array([3, 1], dtype=np.uint8), [3, 1]),
        ([2**63, 1], [str(2**63), "1"]),
        ([BIG, 1], [str(BIG), "1"]),
        ([1.5, 2.0], ["1.5", "2.0"]),
        (np.array([1.5, 2.0], dtype=np.float16), ["1.5", "2.0"]),
        ([True, False], ["True", "False"]),
        ([DAY, DAY], ["2024-05-31"] * 2),
        ([Decimal("1.10"), Decimal("2.00")], ["1.10", "2.00"]),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
        (pd.Categorical([9, 8]), [9, 8]),
        (["007", "7"], ["007", "7"]),
        ([], []),
    ],
)
def test_names_keep_their_written_form(values, expected):
    assert names_of(values, name="ids").tolist() == expected
    assert names_of(values, name="ids", gaps=True).tolist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_are_named_alike_in_every_unit(unit):
    dates = pd.Series(pd.to_datetime(["2024-05-31 12:30"])).astype(f"datetime64[{unit}]")
    assert names_of(dates, name="ids").tolist() == ["2024-05-31 12:30:00"]


def test_a_missing_id_is_the_text_of_the_gap():
    assert names_of(["a", None], name="ids", gaps=True).tolist() == ["a", "None"]
    with pytest.raises(InputError, match="ids is missing in 1 of 2 rows"):
        names_of(["a", None], name="ids")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["a", None], "text"),
        (["a", 1], "mixed"),
        ([1, 2.5, Decimal(1), True], "numbers"),
        ([True, None], "truth values"),
        ([None, np.nan], "nothing"),
        ([1, [2]], "lists"),
        ([datetime.datetime(2024, 5, 31), DAY], "dates"),
        ([pd.Timestamp(0), pd.NaT], "dates"),
        ([np.timedelta64(1, "D")], "durations"),
        ([pd.Timedelta(days=1)], "durations"),
    ],
)
def test_what_a_column_holds(cells, kind):
    assert kind_of(pd.Series(cells, dtype=object)) == kind


def test_half_floats_become_floats():
    assert labels_of(np.array([1, 2], dtype=np.float16), name="y").dtype == np.float64


# --- where rows come from


@BOTH
def test_taken_rows_know_where_they_come_from(make):
    points = make()
    assert points.source is None
    for index, places in [
        ([2, 0, 2], [2, 0, 2]),
        ([-1, 1], [3, 1]),
        (slice(1, None, 2), [1, 3]),
        (slice(-2, None), [2, 3]),
        ([True, False, False, True], [0, 3]),
        ([], []),
    ]:
        root, found = points.take(index).source
        assert root is points
        assert found.tolist() == places


def test_rows_taken_twice_come_from_the_first_points():
    points = array_points()
    for index in ([2, 0, -1], slice(None, None, -2)):
        once = points.take([3, 1, 2, 2])
        root, places = once.take(index).source
        assert root is points
        assert same(points.take(places), once.take(index))
    rng = np.random.default_rng(0)
    root, places = points.sample(9, rng).source
    assert root is points
    assert len(places) == 9


def test_joined_and_pickled_points_come_from_nowhere():
    points = array_points()
    few = points.take([1])
    assert (few + few).source is None
    back = pickle.loads(pickle.dumps(few))
    assert back.source is None
    assert same(back, few)
    large = Points(np.zeros((100_000, 2)))
    assert len(pickle.dumps(large.take([0]))) < 5_000


def test_a_key_tells_contents_apart_and_survives_pickling():
    points = array_points()
    assert points.key == array_points().key
    assert len({points.key, *(other.key for other in changed_arrays().values())}) == 10
    back = pickle.loads(pickle.dumps(points))
    assert back.__dict__["key"] == points.key  # it need not be made again


def test_a_key_does_not_change_what_identifies_an_object():
    fresh, used = array_points(), array_points()
    assert used.key
    assert joblib.hash([fresh]) == joblib.hash([used])


# --- bundles


@BOTH
def test_bundles_come_in_the_order_of_their_names(make):
    points = make()
    bundles = Bundles(points, ["west", "east", "west", "north"])
    assert len(bundles) == 3
    assert bundles.ids.tolist() == ["east", "north", "west"]
    assert bundles.sizes.tolist() == [1, 1, 2]
    for bundle, rows in zip(bundles, [[1], [3], [0, 2]], strict=True):
        assert same(bundle, points.take(rows))


def test_bundles_sort_numbers_as_numbers():
    bundles = Bundles(array_points(), [10, 9, 10, 9])
    assert bundles.ids.tolist() == [9, 10]
    assert [b.ids.tolist() for b in bundles] == [[1, 3], [0, 2]]


@given(groups=st.lists(st.integers(0, 4), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_bundles_part_the_points(groups):
    points = Points(np.arange(len(groups), dtype=float).reshape(-1, 1))
    bundles = Bundles(points, groups)
    parts = list(bundles)
    assert len(parts) == len(bundles) == len(bundles.sizes) == len(set(groups))
    assert [len(part) for part in parts] == bundles.sizes.tolist()
    for name, part in zip(bundles.ids, parts, strict=True):
        assert part.ids.tolist() == [i for i, group in enumerate(groups) if group == name]


def test_groups_may_be_a_column_of_a_frame():
    bundles = Bundles(frame_points(), frame()["city"])
    assert bundles.ids.tolist() == ["Bergen", "Oslo", "Tromso"]


def test_no_points_make_no_bundles():
    bundles = Bundles(array_points().take([]), [])
    assert len(bundles) == 0
    assert list(bundles) == []


def test_a_fingerprint_of_bundles_counts_points_and_grouping():
    points = array_points()
    first = Bundles(points, [0, 0, 1, 1]).fingerprint()
    assert first == Bundles(array_points(), [0, 0, 1, 1]).fingerprint()
    assert first != Bundles(points, [0, 1, 1, 1]).fingerprint()
    assert first != Bundles(points, [0, 0, 2, 2]).fingerprint()
    assert first != Bundles(changed_arrays()["a label"], [0, 0, 1, 1]).fingerprint()
    assert first != points.fingerprint()
    assert first.endswith("(2 bundles of 4 rows)")


# --- what cannot be used, and what the message says


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 1)), [0, 1], "X has 3 rows but y has 2"),
        (np.zeros(3), None, r"two dimensions .*not 1; .*reshape\(-1, 1\)"),
        (pd.Series([1.0, 2.0]), None, "two dimensions .*not 1"),
        (np.zeros((2, 2, 2)), None, "two dimensions .*not 3"),
        (5.0, None, "two dimensions .*not 0"),
        (sparse.csr_matrix(np.eye(2)), None, r"sparse matrix.*toarray\(\)"),
        (sparse.coo_array(np.eye(2)), None, r"sparse matrix.*toarray\(\)"),
        (np.array([[1, "red"]], dtype=object), None, "objects that are not numbers.*data frame"),
        (np.zeros((2, 1)), np.zeros((2, 2)), "y must have one dimension, not 2"),
        (np.zeros((2, 1)), 1.0, "y must have one dimension, not 0"),
        (np.zeros((2, 1)), np.array(["a", 1], dtype=object), "y mixes strings and other types"),
    ],
)
def test_unusable_input_is_named(X, y, message):
    with pytest.raises(InputError, match=message):
        Points(X, y)


@pytest.mark.parametrize(
    "y",
    [
        [0.0, 1.0, np.nan, np.nan],
        [0, 1, None, None],
        ["a", "b", None, None],
        ["a", "b", np.nan, np.nan],
        np.array(["a", "b", np.nan, np.nan], dtype=object),
        pd.Series(["a", "b", None, None]),
        pd.Series(["a", "b", None, None], dtype="category"),
        pd.Series(["a", "b", None, None], dtype="string"),
        pd.Series([0, 1, None, None], dtype="Int64"),
        pd.Series([True, False, None, None], dtype="boolean"),
        pd.to_datetime(["2024-01-01", "2024-01-02", None, None]),
    ],
    ids=[
        "floats",
        "int list",
        "text list with None",
        "text list with nan",
        "objects",
        "text series",
        "categorical",
        "nullable text",
        "nullable int",
        "nullable bool",
        "dates",
    ],
)
def test_a_missing_label_is_refused_and_its_row_named(y):
    with pytest.raises(InputError, match=r"y is missing in 2 of 4 rows \(the first is row 2\)"):
        Points(np.zeros((4, 1)), y)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [float, object])
def test_an_infinite_label_is_refused_and_its_row_named(infinite, dtype):
    with pytest.raises(InputError, match="y is infinite in row 1"):
        Points(np.zeros((3, 1)), np.array([0.0, infinite, 1.0], dtype=dtype))


@BOTH
def test_as_many_ids_as_rows(make):
    with pytest.raises(InputError, match="4 rows but there are 2 ids"):
        Points(make().X, ids=["one", "two"])


def test_two_columns_of_one_name():
    table = pd.DataFrame(np.zeros((2, 3)), columns=["x", "y", "x"])
    with pytest.raises(InputError, match="two columns are called 'x': rename one"):
        Points(table)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Points(np.zeros((1, 2))), "labelled and unlabelled"),
        (Points(np.zeros((1, 3)), ["a"]), "with 2 and 3 columns"),
        (Points(pd.DataFrame(np.zeros((1, 2))), ["a"]), "array and a data frame"),
    ],
)
def test_what_cannot_be_joined(other, message):
    points = array_points()
    with pytest.raises(InputError, match=message):
        points + other
    with pytest.raises(InputError):
        other + points


def test_frames_of_other_columns_are_not_joined_into_gaps():
    one = Points(pd.DataFrame({"a": [1.0], "b": [2.0]}), [0])
    other = Points(pd.DataFrame({"a": [1.0], "c": [2.0]}), [0])
    with pytest.raises(InputError):
        one + other


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], "4 points but 2 groups"),
        ([0, 1, None, 1], r"groups is missing in 1 of 4 rows \(the first is row 2\)"),
        (np.zeros((4, 2)), "groups must have one dimension, not 2"),
    ],
)
def test_unusable_groups_are_named(groups, message):
    with pytest.raises(InputError, match=message):
        Bundles(array_points(), groups)


# --- as_points


def test_as_points_takes_points_as_they_are_and_pairs():
    points = array_points()
    assert as_points(points, name="test") is points
    made = as_points((points.X, points.y), name="test")
    assert same(made, points)
    assert as_points((points.X, None), name="test").y is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (array_points().take([]), "^test: there are no rows"),
        ((np.zeros((0, 2)), []), "^test: there are no rows"),
        ((np.zeros((3, 2)), [0, 1]), "^test: X has 3 rows but y has 2"),
        ((np.zeros(3), [0, 1, 2]), "^test: X must have two dimensions"),
        (np.zeros((3, 2)), r"^test: expected Points or a pair \(X, y\), got ndarray"),
        (([[1.0]], [0], [0]), r"^test: expected Points or a pair \(X, y\), got tuple"),
        (None, r"^test: expected Points or a pair \(X, y\), got NoneType"),
    ],
)
def test_as_points_says_which_argument_was_at_fault(data, message):
    with pytest.raises(InputError, match=message):
        as_points(data, name="test")
