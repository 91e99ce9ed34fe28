"""Values in one file: what is read is what was written, or an error that says why."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled
from dshapley.inference.completed import CompletedValuation
from dshapley.inference.sampled import SampledValuation

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


def test_values_that_do_not_follow_from_their_draws_are_refused(database, tmp_path):
    from dshapley.inference.saved import _KEY
    from dshapley.sealed import read_sealed, write_sealed

    found = ds.value(database, test=labelled(80, seed=5), **OPTIONS)
    path = tmp_path / "values.npz"
    found.save(path)
    arrays = read_sealed(path, _KEY)
    for name in ("values", "stderr"):
        write_sealed(path, {**arrays, name: arrays[name] * 1.001}, _KEY)
        with pytest.raises(ds.InputError, match=f"draws whose {name} are not those written"):
            ds.Valuation.load(path)
    write_sealed(path, {**arrays, "draws.k": arrays["draws.k"] + 20}, _KEY)
    with pytest.raises(ds.InputError, match="is damaged"):
        ds.Valuation.load(path)
