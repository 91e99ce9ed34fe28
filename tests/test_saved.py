"""Values in one file: what is read is what was written, or an error that says why."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled
from dshapley.inference.completed import CompletedValuation
from dshapley.inference.estimation import Part
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.saved import _KEY
from dshapley.inference.uncertainty import student_quantile
from dshapley.sampling.draws import NO_FOLD
from dshapley.sampling.provenance import Source
from dshapley.sealed import read_sealed, write_sealed

OPTIONS = {"model": LogisticRegression(), "m": 20, "stop": 150}


@pytest.fixture(scope="module")
def database():
    return labelled(100)


def kinds(database):
    """One valuation of each kind, by name."""
    test = labelled(80, seed=5)
    crossed = ds.value(database, **OPTIONS)
    uniform = ds.value(database, test=test, sampling=ds.Sampling(weights="uniform"), **OPTIONS)
    return {
        "cross-fitted": crossed,
        "their draws' errors": crossed.of_draws,
        "a test set": ds.value(database, test=test, **OPTIONS),
        "uniform": uniform,
        "another m": uniform.at(m=10),
        "bundles": ds.value(database, groups=np.arange(100) % 7, test=test, **OPTIONS),
        "predicted": ds.value(database, test=test, sampling=ds.Sampling(share=0.5), **OPTIONS),
        "shrunk": crossed.shrunk(),
        "extrapolated": ds.profile.extrapolate(crossed, m=25),
        "exact": ds.data_shapley.leave_one_out(
            ds.potential(LogisticRegression(), test=test), database
        ),
    }


@pytest.mark.slow
def test_what_is_read_is_what_was_written(database, tmp_path):
    for name, found in kinds(database).items():
        path = tmp_path / f"{name}.npz"
        found.save(path)
        read = ds.Valuation.load(path, points=found.points)
        assert type(read) is type(found), name
        assert repr(read) == repr(found), name
        pd.testing.assert_frame_equal(read.to_frame(), found.to_frame())
        for ends, others in zip(found.interval(0.9), read.interval(0.9), strict=True):
            np.testing.assert_array_equal(ends, others)
        if isinstance(found, SampledValuation):
            np.testing.assert_array_equal(read.influence(), found.influence())
            np.testing.assert_array_equal(read.rank_interval(), found.rank_interval())
            assert read.about == found.about
        if isinstance(found, CompletedValuation):
            np.testing.assert_array_equal(read.predicted, found.predicted)
            np.testing.assert_array_equal(read.at(m=10).values, found.at(m=10).values)


def test_points_are_not_in_the_file_and_are_asked_for(database, tmp_path):
    found = ds.value(database, test=labelled(80, seed=5), **OPTIONS)
    path = tmp_path / "values.npz"
    found.save(path)
    read = ds.Valuation.load(path)
    assert read.points is None
    with pytest.raises(ds.InputError, match="the points behind these values are not known"):
        read.predict(database)
    again = ds.Valuation.load(path, points=database)
    np.testing.assert_array_equal(
        again.predict(labelled(9, seed=7)).values, found.predict(labelled(9, seed=7)).values
    )
    with pytest.raises(ds.InputError, match="ids differ"):
        ds.Valuation.load(path, points=labelled(50))


def test_damage_is_refused_in_one_line(database, tmp_path):
    found = ds.value(database, test=labelled(80, seed=5), **OPTIONS)
    path = tmp_path / "values.npz"
    found.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for content in (
        b"",
        b"value,stderr\n1,2\n",
        whole[: len(whole) // 2],
        *(bytes(flipped(whole, rng.integers(len(whole)))) for _ in range(60)),
    ):
        path.write_bytes(content)
        read, message = read_or_refused(path)
        if read is None:
            assert message.startswith(str(path))
            assert "\n" not in message
        else:  # a byte that nothing reads, such as a date in the zip file
            np.testing.assert_array_equal(read.influence(), found.influence())
    with pytest.raises(ds.InputError, match="is not there"):
        ds.Valuation.load(tmp_path / "nothing.npz")
    with pytest.raises(ds.InputError, match="is not a folder"):
        found.save(tmp_path / "nowhere" / "values.npz")


def read_or_refused(path):
    try:
        return ds.Valuation.load(path), ""
    except ds.InputError as error:
        return None, str(error)


def flipped(content, i):
    changed = bytearray(content)
    changed[i] ^= 0xFF
    return changed


def test_values_that_do_not_follow_from_their_draws_are_refused(kept):
    for name in ("values", "stderr"):
        path = kept.write("sampled", {name: kept.arrays["sampled"][name] * 1.001})
        with pytest.raises(ds.InputError, match=f"draws whose {name} are not those written"):
            ds.Valuation.load(path)
    for name, value in (("n_draws", 9), ("freedom", 3.0)):
        path = kept.write("sampled", text={name: value})
        with pytest.raises(ds.InputError, match=f"draws whose {name} are not those written"):
            ds.Valuation.load(path)
    path = kept.write("sampled", {"draws.k": kept.arrays["sampled"]["draws.k"] + 20})
    with pytest.raises(ds.InputError, match="is damaged"):
        ds.Valuation.load(path)


class Kept:
    """A saved valuation of each kind, and files whose contents are changed and sealed again."""

    def __init__(self, folder):
        self.database, options = labelled(60), {"model": LogisticRegression(), "m": 20}
        held_out, half = labelled(80, seed=5), ds.Sampling(share=0.5)
        sampled = ds.value(self.database, test=held_out, stop=320, **options)
        self.found = {
            "sampled": sampled,
            "crossed": ds.value(self.database, stop=60, **options),
            "completed": ds.value(self.database, test=held_out, stop=60, sampling=half, **options),
            "plain": sampled.without_draws(),
        }
        self.path, self.arrays, self.text = folder / "values.npz", {}, {}
        for kind, found in self.found.items():
            found.save(self.path)
            self.arrays[kind] = read_sealed(self.path, _KEY)
            self.text[kind] = json.loads(self.arrays[kind]["text"].tobytes())

    def write(self, kind, change=None, *, text=None, without=()):
        """The path of a changed file whose digest is right."""
        arrays = {**self.arrays[kind], **(change or {})}
        if text is not None:
            raw = text if isinstance(text, bytes) else json.dumps({**self.text[kind], **text})
            arrays["text"] = np.frombuffer(raw if isinstance(raw, bytes) else raw.encode(), "u1")
        write_sealed(self.path, {n: a for n, a in arrays.items() if n not in without}, _KEY)
        return self.path

    def refused(self, kind, change=None, **more):
        """The one line with which `load` refuses the changed file."""
        path = self.write(kind, change, **more)
        with pytest.raises(ds.InputError) as caught:
            ds.Valuation.load(path)
        message = str(caught.value)
        assert message.startswith(str(path)), message
        assert message.isprintable(), message
        assert len(message) < 500, message
        return message


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return Kept(tmp_path_factory.mktemp("saved"))


def test_the_unchanged_contents_are_read(kept):
    for kind, found in kept.found.items():
        read = ds.Valuation.load(kept.write(kind))
        np.testing.assert_array_equal(read.values, found.values)


# -- Points


def test_other_points_with_the_same_ids_are_refused(kept):
    other = labelled(60, seed=3)
    for kind, found in kept.found.items():
        for known in (found, replace(found, points=None)):
            if kind == "plain" and known.points is None:
                continue  # nothing is known of the points
            known.save(kept.path)
            with pytest.raises(ds.InputError, match=r"points: .* \(their rows differ\): give"):
                ds.Valuation.load(kept.path, points=other)
            assert ds.Valuation.load(kept.path, points=kept.database).points is kept.database


def test_other_predicted_points_are_refused(kept):
    """The run behind partly predicted values knows only the measured points."""
    found, X = kept.found["completed"], kept.database.X.copy()
    X[found.predicted] += 1.0
    found.save(kept.path)
    with pytest.raises(ds.InputError, match="their rows differ"):
        ds.Valuation.load(kept.path, points=ds.Points(X, kept.database.y))


def test_points_of_some_of_the_draws(kept):
    """The run's fingerprint is that of all points, which these draws no longer have."""
    some = np.arange(60) < 30
    points = kept.database.take(some)
    found = ds.estimate(kept.found["sampled"].draws.points(some), points=points)
    found.save(kept.path)
    assert ds.Valuation.load(kept.path, points=points).points is points
    with pytest.raises(ds.InputError, match="their rows differ"):
        ds.Valuation.load(kept.path, points=labelled(30, seed=3))


@pytest.mark.slow
def test_points_that_are_none(kept):
    bundles = ds.value(kept.database, groups=np.arange(60), test=labelled(80, seed=5), **OPTIONS)
    bundles.save(kept.path)
    with pytest.raises(ds.InputError, match="values are of bundles: load them without points"):
        ds.Valuation.load(kept.path, points=kept.database)
    kept.found["sampled"].save(kept.path)
    with pytest.raises(ds.InputError, match=r"give ds\.Points, not tuple"):
        ds.Valuation.load(kept.path, points=(kept.database.X, kept.database.y))


# -- Contents that no valuation has, in files whose digest is right


@pytest.mark.parametrize(
    "text",
    [
        {"m": 0},
        {"m": -3},
        {"m": 10**30},
        {"m": 2.5},
        {"n_draws": -5},
        {"n_draws": 10**30},
        {"freedom": -1.0},
        {"freedom": 0.0},
        {"freedom": 1e-300},
        {"freedom": float("nan")},
        {"freedom": float("inf")},
        {"kind": "sampled"},
        {"kind": "completed"},
        {"kind": "other"},
        {"a\nb\x1b[31m": 1},
        b"\xff",
        b"[]",
        b"",
        b'{"identity":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
)
def test_text_that_no_plain_file_has(kept, text):
    kept.refused("plain", text=text)


N = 60
HOSTILE_NAMES = {
    "short": np.arange(2),
    "two dimensions": np.zeros((N, 2), int),
    "floats": np.full(N, np.nan),
    "a surrogate": np.full(N, 0xD800, np.uint32).view("U1"),
    "no code point": np.full(N, 0x7FFFFFFF, np.uint32).view("U1"),
    "no code point, bytes swapped": np.full(N, 0x61, np.uint32).view(">U1"),
    "structures": np.zeros(N, [("a", "f8")]),
}
HOSTILE = {
    "values": {
        "NaN": np.full(N, np.nan),
        "infinite": np.full(N, np.inf),
        "huge": np.full(N, 1e300),
        "complex": np.ones(N, complex),
        "truth values": np.ones(N, bool),
        "two dimensions": np.zeros((N, 2)),
        "none": np.array(1.0),
        "short": np.zeros(3),
        "text": np.full(N, "a"),
        "times": np.zeros(N, "M8[s]"),
    },
    "stderr": {"below 0": np.full(N, -1.0), "infinite": np.full(N, np.inf), "short": np.zeros(3)},
    "ids": HOSTILE_NAMES,
    "rows": {"NaN": np.full(N, np.nan), "below 0": np.full(N, -3), "short": np.ones(3, int)},
}


@pytest.mark.parametrize("kind", ["plain", "sampled", "crossed", "completed"])
@pytest.mark.parametrize(("name", "what"), [(n, w) for n, part in HOSTILE.items() for w in part])
def test_arrays_that_no_values_have(kept, kind, name, what):
    assert "is damaged (" in kept.refused(kind, {name: HOSTILE[name][what]})


@pytest.mark.parametrize("kind", ["plain", "sampled", "crossed", "completed"])
def test_a_file_has_exactly_its_parts(kept, kind):
    assert "'more' does not belong there" in kept.refused(kind, {"more": np.zeros(2)})
    assert "does not belong there" in kept.refused(kind, {"draws.more": np.zeros(2)})
    assert "does not belong there" in kept.refused(kind, {"prediction.more": np.zeros(2)})
    for name in kept.arrays[kind]:
        assert "missing" in kept.refused(kind, without=[name])
    if kind != "plain":
        assert "does not belong there" in kept.refused(kind, text={"kind": "plain"})


@pytest.mark.parametrize("kind", ["sampled", "crossed", "completed"])
def test_ids_and_rows_are_those_of_the_draws(kept, kind):
    ids = kept.arrays[kind]["ids"]
    for change in (
        {"ids": ids[::-1].copy()},
        {"ids": ids.astype(str)},
        {"rows": np.full(N, 7)},
        {"draws.ids": kept.arrays[kind]["draws.ids"] + 1},
        {"draws.rows": kept.arrays[kind]["draws.rows"] + 1},
    ):
        assert "are not those of the draws" in kept.refused(kind, change)


def test_predictions_that_are_none(kept):
    arrays = kept.arrays["completed"]
    predicted, n = arrays["predicted"], int(arrays["predicted"].sum())
    parts = {name: arrays[f"prediction.{name}"] for name in ("values", "inherited", "shape")}
    for change in (
        {"predicted": predicted[:, np.newaxis]},
        {"predicted": predicted.astype(int)},
        {"predicted": ~predicted},
        {"predicted": np.ones(N, bool)},
        {"prediction.values": parts["values"] + 1},
        {"prediction.values": parts["values"].astype(str)},
        {"prediction.values": np.full(n, np.nan)},
        {"prediction.stderr": np.full(n, np.nan), "stderr": np.full(N, np.nan)},
        {"prediction.ids": np.arange(n)},
        {"prediction.ids": np.array(3)},
        {"prediction.inherited": parts["inherited"] - 2},
        {"prediction.inherited": parts["inherited"][:-1]},
        {"prediction.covariance": np.full(n, np.nan)},
        {"prediction.covariance": np.array(3.0)},
        {"prediction.shape": np.empty(0)},
        {"prediction.shape": parts["shape"][::-1].copy()},
        {"prediction.shape": -parts["shape"]},
        {"prediction.shape": np.array(1.0)},
        {"prediction.shape": parts["shape"] * np.nan},
    ):
        kept.refused("completed", change)
    stderr, hidden = arrays["stderr"].copy(), arrays["prediction.stderr"].copy()
    stderr[np.flatnonzero(predicted)[0]] = hidden[0] = np.nan
    change = {"stderr": stderr, "prediction.stderr": hidden}
    assert "although the draws show the errors" in kept.refused("completed", change)


def test_draws_whose_values_are_not_numbers(kept):
    """NaN in some columns of the nested sets made all values NaN, and NaN is equal to NaN."""
    nested = kept.arrays["sampled"]["draws.nested"].copy()
    nested[~np.isnan(nested[:, 0]), 2] = np.nan
    change = {name: np.full(N, np.nan) for name in ("values", "stderr")}
    assert "'values' must be finite" in kept.refused("sampled", {"draws.nested": nested, **change})
    assert "'nested' does not fit" in kept.refused("sampled", {"draws.nested": nested})
    assert "draws whose stderr" in kept.refused("sampled", {"stderr": change["stderr"]})
    for name, number in (("seconds", np.inf), ("reference", np.inf), ("marginals", np.nan)):
        part = np.full_like(kept.arrays["sampled"][f"draws.{name}"], number)
        assert f"{name!r} does not fit the run" in kept.refused("sampled", {f"draws.{name}": part})


def test_draws_that_overflow_are_refused(kept):
    """Sums of squares of such draws are infinite, or an OverflowError of Python's own floats."""
    for kind in ("sampled", "crossed"):
        marginals = kept.arrays[kind]["draws.marginals"].astype(float)
        weights = np.full(20, 1e-99)
        weights[0] = 1 - 19e-99
        change = {"draws.marginals": marginals * 1e99, "draws.weights": weights}
        kept.refused(kind, change)


@pytest.mark.parametrize("n_folds", [61, 10**4, 10**6, 10**9, 2**62, -1])
def test_folds_that_are_only_claimed(kept, n_folds):
    """Estimates need memory for the square of their number."""
    change = {
        "draws.n_folds": np.array(n_folds),
        "draws.folds": np.full(N, NO_FOLD),
        "draws.marginals": np.nan_to_num(kept.arrays["crossed"]["draws.marginals"]),
    }
    assert "folds" in kept.refused("crossed", change)


# -- Files that are not made by `write_sealed`


def header(shape, descr="<f8", padding=""):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}{padding}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        header("(10**15,)"),
        header("(4000000000,)"),
        header("(99999999999999999999999,)"),
        header("(-5,)"),
        header("(-1, -1)") + bytes(8),
        header("(1000000000000,)", "|V0"),
        header("(1000000000000,)", "<U0"),
        header("(1,)", "|O") + b"cos\nsystem\n(S'true'\ntR.",
        header("(1,)", "a\nb"),
        header("(1,)", padding=" " * 20_000) + bytes(8),
        b"\x93NUMPY\x09\x00",
        b"",
    ],
    ids=range(12),
)
def test_a_part_is_checked_before_it_is_read(kept, content):
    """NumPy makes room for whatever a header says, and its errors advise to trust the file."""
    with zipfile.ZipFile(kept.write("plain")) as old:
        parts = {name: old.read(name) for name in old.namelist()} | {"values.npy": content}
    with zipfile.ZipFile(kept.path, "w") as new:
        for name, part in parts.items():
            new.writestr(name, part)
    read, message = read_or_refused(kept.path)
    assert read is None
    assert message.endswith(
        "is damaged ('values' is not a plain array): give a file that Valuation.save wrote"
    )


def test_files_that_are_not_ours(kept):
    pickled = io.BytesIO()
    np.save(pickled, np.array([None]), allow_pickle=True)
    for content in (b"\x80\x04cos\nsystem\n.", pickled.getvalue()):
        kept.path.write_bytes(content)
        assert "is not a whole .npz file" in read_or_refused(kept.path)[1]
    whole = kept.write("plain").read_bytes()
    end, start = whole.rfind(b"PK\x05\x06"), whole.find(b"PK\x01\x02")
    entries = whole[start:end] * 50  # every part fifty times, in one place
    n = (50 * int.from_bytes(whole[end + 10 : end + 12], "little")).to_bytes(2, "little")
    size = len(entries).to_bytes(4, "little") + start.to_bytes(4, "little")
    kept.path.write_bytes(
        whole[:start] + entries + b"PK\x05\x06" + bytes(4) + n + n + size + b"\0\0"
    )
    assert "its parts are larger than the file" in read_or_refused(kept.path)[1]


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", ".", "a\nb/c"])
def test_paths_where_no_file_can_be(kept, name):
    path = kept.path.parent / name
    for use in (ds.Valuation.load, kept.found["plain"].save):
        with pytest.raises(ds.InputError) as caught:
            use(path)
        assert str(caught.value).isprintable()
        assert ": give a" in str(caught.value) or "is not a folder" in str(caught.value)


# -- What can be saved


def plain(**change):
    parts = {"values": np.arange(4.0), "stderr": np.ones(4), "m": 5, "n_draws": 9}
    return ds.Valuation(**{**parts, "ids": np.arange(4), "rows": np.ones(4, int), **change})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"freedom": np.nan}, "freedom = nan"),
        ({"freedom": -np.inf}, "freedom = -inf"),
        ({"m": 5.5}, "m = 5.5"),
        ({"n_draws": -1}, "n_draws = -1"),
        ({"ids": np.array([1, "1", None, "None"], object)}, "the ids 1 and '1' are the same"),
        ({"ids": np.array(["a", "b", "c", "\ud800"])}, r"the id '\\ud800' is not text"),
        ({"ids": np.arange(3)}, "'ids' has the shape"),
        ({"values": np.arange(4.0).astype(object)}, "'values' is of type object"),
        ({"values": np.full(4, np.nan)}, "'values' must be finite"),
        ({"values": np.ma.array(np.arange(4.0), mask=[0, 1, 0, 0])}, "'values' is masked"),
        ({"values": np.array([2**53 + 1] * 4)}, "'values' is of type int64"),
        ({"stderr": np.full(4, -1.0)}, "'stderr' must be 0 or more"),
        ({"rows": np.zeros(4, int)}, "'rows' must be 1 or more"),
    ],
)
def test_values_that_would_not_come_back_are_not_saved(tmp_path, change, why):
    path = tmp_path / "values.npz"
    with pytest.raises(ds.InputError, match=f"these values cannot be saved: .*{why}"):
        plain(**change).save(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"m": np.int64(5), "n_draws": np.int64(9)},
        {"freedom": np.float32(3)},
        {"values": np.arange(4)},
        {"values": np.arange(4, dtype=np.float32)},
        {"stderr": np.array([0.0, 1.0, np.nan, 2.0])},
        {"ids": np.array(["a", "bc", "d", "e"], dtype=np.dtypes.StringDType())},
        {"ids": np.array(["a", None, 2.5, (1, 2)], object)},
        {"ids": np.arange(4, dtype=">i2")},
        {"ids": np.array(["", "é\n", "a\0b", "\U0001f600"])},
    ],
)
def test_values_made_by_hand_come_back(tmp_path, change):
    path, found = tmp_path / "values.npz", plain(**change)
    found.save(path)
    read = ds.Valuation.load(path)
    for name in ("values", "stderr", "rows", "m", "n_draws", "freedom"):
        np.testing.assert_array_equal(getattr(read, name), getattr(found, name))
    assert list(map(str, read.ids.tolist())) == list(map(str, found.ids.tolist()))


def test_draws_made_by_hand_come_back(kept):
    draws = kept.found["crossed"].draws
    text = np.array([f"{'x' * i}é" for i in range(N)])
    for change in (
        {"seconds": None},
        {"marginals": draws.marginals.astype(float) / 3},
        {"k": draws.k.astype(np.int32), "t": draws.t.astype(np.int32)},
        {"ids": text},
    ):
        found = ds.estimate(replace(draws, **change))
        found.save(kept.path)
        read = ds.Valuation.load(kept.path)
        for name in ("values", "stderr", "freedom", "ids"):
            np.testing.assert_array_equal(getattr(read, name), getattr(found, name))
        assert read.draws.marginals.dtype == found.draws.marginals.dtype
        assert (read.draws.seconds is None) == (found.draws.seconds is None)
    first = ds.estimate(replace(draws, ids=text).points(np.arange(N) < 3))
    first.save(kept.path)
    assert ds.Valuation.load(kept.path).ids.dtype == first.ids.dtype


def with_context(draws, **change):
    context = replace(draws.about.context, **change)
    return replace(draws, about=replace(draws.about, context=context))


def test_draws_that_would_not_come_back_are_not_saved(kept):
    draws = kept.found["crossed"].draws
    path = kept.path.with_name("refused.npz")
    source = Source(table="caf\udce9.csv", target="y", task="regression", model="ridge")
    looped = []
    looped.append(looped)
    for change, why in (
        (draws.take(np.arange(len(draws))[::-1]), "'t' does not fit the run: it must be ascending"),
        (replace(draws, weights=draws.weights.astype(np.float32)), "'weights' must be"),
        (with_context(draws, source=source), r"'caf\\udce9.csv' is not text in Unicode"),
        (with_context(draws, notes={"a": float("nan")}), "is not what JSON can hold"),
        (with_context(draws, notes={(1, 2): 3}), "is not what JSON can hold"),
        (with_context(draws, notes={"a": looped}), "is not what JSON can hold"),
    ):
        with pytest.raises(ds.InputError, match=f"these values cannot be saved: .*{why}"):
            ds.estimate(change).save(path)
    changed = replace(kept.found["crossed"], values=kept.found["crossed"].values + 1)
    with pytest.raises(ds.InputError, match="their values do not follow from their draws"):
        changed.save(path)
    assert not path.exists()


# -- Anything at all


@st.composite
def mutated(draw, arrays, text):
    """One part of a file changed in some way."""
    name = draw(st.sampled_from(sorted(arrays)))
    part = arrays[name]
    if name == "text":
        if draw(st.booleans()):
            content = bytearray(part.tobytes())
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
            return {name: np.frombuffer(bytes(content), "u1")}
        values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([[]])
        changed = {**text, draw(st.sampled_from(sorted(text)) | st.text()): draw(values)}
        raw = json.dumps(changed).encode()
        return {name: np.frombuffer(raw, "u1")}
    how = draw(st.sampled_from(["type", "shape", "number", "order", "none", "more"]))
    if how == "type":
        kinds = ["f8", ">f8", "f4", "i8", "u1", "c16", "?", "U3", "S2", "M8[s]", "g"]
        with np.errstate(all="ignore"):
            return {name: part.astype(draw(st.sampled_from(kinds)))}
    if how == "shape":
        shapes = [part[np.newaxis], part[..., np.newaxis], part.ravel()[:-1], part.ravel()[:0]]
        return {name: draw(st.sampled_from([*shapes, np.zeros(()), part.ravel().repeat(2)]))}
    if how == "number" and part.size and part.dtype.kind in "if":
        special = [np.nan, np.inf, -1, 0, 1, 2, 2**31, 1e300, -(2**62)]
        changed = part.copy()
        with np.errstate(all="ignore"):
            number = np.array(draw(st.sampled_from(special))).astype(part.dtype)
        changed.flat[draw(st.integers(0, part.size - 1))] = number
        return {name: changed}
    if how == "order":
        return {name: part.ravel()[::-1].reshape(part.shape)}
    return {name: None} if how == "none" else {f"{name}{draw(st.sampled_from('x.'))}": part}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["plain", "sampled", "crossed", "completed"])
def test_a_changed_file_is_refused_in_one_line_or_has_the_same_values(kept, kind):
    """Of a plain file nothing can be computed again: it must only hold a possible valuation."""

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(mutated(kept.arrays[kind], kept.text[kind]))
    def check(change):
        write_sealed(
            kept.path,
            {n: a for n, a in {**kept.arrays[kind], **change}.items() if a is not None},
            _KEY,
        )
        read, message = read_or_refused(kept.path)
        if read is None:
            assert message.startswith(str(kept.path))
            assert message.isprintable()
            return
        found = kept.found[kind]
        assert repr(read)
        assert len(read.to_frame()) == len(read.interval()[0]) == N
        if kind != "plain":
            np.testing.assert_allclose(read.values, found.values, atol=1e-6)
            np.testing.assert_allclose(read.stderr, found.stderr, atol=1e-6)
            np.testing.assert_array_equal(read.ids, found.ids)
            np.testing.assert_array_equal(read.rows, found.rows)

    check()


# -- One pass over a few points


BLOCK = Part.block


def watched_columns(monkeypatch):
    """The points of the blocks that are computed from now on."""
    seen = []

    def block(part, columns):
        seen.extend(columns.tolist())
        return BLOCK(part, columns)

    monkeypatch.setattr(Part, "block", block)
    return seen


def test_settled_pairs_needs_only_the_pairs_it_counts(monkeypatch, kept):
    monkeypatch.setattr("dshapley.inference.sampled._MOST_PAIRED", 7)
    chosen = np.sort(np.random.default_rng(0).choice(N, 7, replace=False))
    first, second = np.triu_indices(7, 1)
    for kind in ("sampled", "crossed"):
        found = kept.found[kind]
        influence, values = found.influence()[:, chosen], found.values[chosen]
        error = np.sqrt(((influence[:, first] - influence[:, second]) ** 2).sum(axis=0))
        gaps = np.abs(values[first] - values[second])
        known = {
            c: float((gaps > student_quantile(c, found.freedom) * error).mean())
            for c in (0.6, 0.8, 0.975)
        }
        seen = watched_columns(monkeypatch)
        share = found.settled_pairs(0.95)
        monkeypatch.setattr(Part, "block", BLOCK)
        assert sorted(seen) == chosen.tolist()
        assert share == known[0.975]
        assert [found.settled_pairs(c) for c in (0.2, 0.6)] == [known[0.6], known[0.8]]
        assert len(set(known.values())) > 1
