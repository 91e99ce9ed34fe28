import contextlib
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import dshapley as ds
from dshapley.files import write_atomically
from dshapley.sampling.provenance import Context


@pytest.fixture
def setup(database, offered):
    return ds.MeanPotential(database), ds.Design(database, m=8, weights="1/k", seed=3), offered


def shards(folder):
    return sorted((folder / "draws").glob("*.npz"))


def same(a, b):
    return (
        a.t.tolist() == b.t.tolist()
        and a.k.tolist() == b.k.tolist()
        and a.marginals.tobytes() == b.marginals.tobytes()
    )


def test_folder_holds_the_run(tmp_path, setup):
    draws = ds.run(
        *setup, stop=30, store=tmp_path / "run", context=Context(notes={"note": "first"})
    )
    loaded = ds.load_run(tmp_path / "run")
    assert same(draws, loaded)
    assert loaded.weights.tolist() == draws.weights.tolist()
    assert loaded.about.context.notes == {"note": "first"}
    assert loaded.about == draws.about
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["identity"]["seed"] == 3
    assert manifest["identity"]["m"] == 8
    assert manifest["identity"]["database"] == setup[1].database.fingerprint()
    assert {"dshapley", "numpy", "scikit-learn", "python"} <= set(manifest["versions"])
    assert manifest["format"] == 9
    assert loaded.seconds.tolist() == draws.seconds.tolist()
    assert (loaded.seconds > 0).all()


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("labels", [True, False])
def test_folder_holds_what_control_variates_need(tmp_path, setup, balanced, labels):
    """Estimates from the loaded record equal those of the run, also with balanced sizes."""
    U, _, Z = setup
    database = U.database if labels else ds.Points(U.database.X)
    Z = Z if labels else ds.Points(Z.X)
    design = ds.Design(database, 8, weights="1/k", seed=3, balanced=balanced, control_variates=True)
    ds.run(U, design, Z, stop=50, store=tmp_path / "run")
    draws = ds.run(U, design, Z, stop=150, store=tmp_path / "run")
    loaded = ds.load_run(tmp_path / "run")
    assert same(loaded, draws)
    assert same(draws, ds.run(U, design, Z, stop=150))
    assert loaded.balanced == balanced
    for name, column in draws.columns().items():
        np.testing.assert_array_equal(loaded.columns()[name], column, err_msg=name)
    a, b = ds.estimate(loaded), ds.estimate(draws)
    assert a.values.tobytes() == b.values.tobytes()
    assert a.stderr.tobytes() == b.stderr.tobytes()


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 8, 10, None, True, "9"])
def test_a_folder_of_another_format_is_refused(tmp_path, setup, number):
    """Formats of earlier versions are refused too; 1 and 2 could hold wrong numbers."""
    ds.run(*setup, stop=5, store=tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    why = "wrong numbers" if number in (1, 2) and number is not True else "this dshapley reads 9"
    message = rf"has format {number!r}; .*{why}"
    for ask in (
        lambda: ds.load_run(tmp_path / "run"),
        lambda: ds.run(*setup, stop=5, store=tmp_path / "run"),
    ):
        with pytest.raises(ds.RunFolderError, match=message):
            ask()


def test_same_call_computes_nothing(tmp_path, setup):
    U, design, Z = setup
    calls = []

    def counted(S):
        calls.append(len(S))
        return U(S)

    first = ds.run(counted, design, Z, stop=5, store=tmp_path / "run")
    assert len(calls) == 5 * (len(Z) + 1)
    calls.clear()
    again = ds.run(counted, design, Z, stop=5, store=tmp_path / "run")
    assert calls == []
    assert same(first, again)


def test_more_draws_extend_and_fewer_are_a_prefix(tmp_path, setup):
    straight = ds.run(*setup, stop=40)
    ds.run(*setup, stop=15, store=tmp_path / "run")
    assert same(ds.run(*setup, stop=40, store=tmp_path / "run"), straight)
    assert same(ds.run(*setup, stop=15, store=tmp_path / "run"), straight.first(15))


def test_nothing_is_written_before_the_first_draw(tmp_path, setup):
    _, design, Z = setup

    def broken(S):
        raise ValueError("no such thing")

    with pytest.raises(ds.DrawError, match=r"draw 0 of seed 3 .*no such thing"):
        ds.run(broken, design, Z, stop=5, store=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda U, d, Z: (U, ds.Design(d.database, d.m, weights=d.weights, seed=4), Z),
            "seed was 3, is 4",
        ),
        (lambda U, d, Z: (U, ds.Design(d.database, 9, weights="1/k", seed=3), Z), "m was 8, is 9"),
        (
            lambda U, d, Z: (U, ds.Design(d.database, 8, weights="uniform", seed=3), Z),
            "weights was",
        ),
        (
            lambda U, d, Z: (U, ds.Design(d.database, 8, weights="auto", seed=3), Z),
            "weights was ",
        ),
        (
            lambda U, d, Z: (U, ds.Design(d.database, 8, weights="1/k", seed=3, balanced=True), Z),
            "balanced was False, is True",
        ),
        (
            lambda U, d, Z: (
                U,
                ds.Design(d.database, 8, weights="1/k", seed=3, control_variates=True),
                Z,
            ),
            "control_variates was False, is True",
        ),
        (
            lambda U, d, Z: (U, ds.Design(d.database.take([0, 1]), 8, weights="1/k", seed=3), Z),
            "database was",
        ),
        (lambda U, d, Z: (U, d, Z.take([0, 1, 2])), "points was"),
        (lambda U, d, Z: (ds.MeanPotential(Z), d, Z), "mean of was"),
        (lambda U, d, Z: (lambda S: 0.0, d, Z), "potential was mean estimation"),
    ],
)
def test_a_changed_parameter_is_named(tmp_path, setup, change, says):
    ds.run(*setup, stop=5, store=tmp_path / "run")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(ds.RunFolderError, match=says):
        ds.run(*change(*setup), stop=5, store=tmp_path / "run")
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_a_changed_estimator_parameter_is_named(tmp_path, database, held_out, offered):
    from sklearn.naive_bayes import GaussianNB

    design = ds.Design(database, m=4)
    U = ds.potential(GaussianNB(), test=held_out)
    ds.run(U, design, offered, stop=3, store=tmp_path / "run")
    for other, says in [
        (ds.potential(GaussianNB(var_smoothing=0.5), test=held_out), "estimator.var_smoothing"),
        (ds.potential(GaussianNB(), test=held_out, metric="f1"), "metric was accuracy, is f1"),
        (ds.potential(GaussianNB(), test=held_out, empty=0.1), "empty was"),
        (ds.potential(GaussianNB(), test=held_out.take(range(9))), "test was"),
    ]:
        with pytest.raises(ds.RunFolderError, match=says):
            ds.run(other, design, offered, stop=3, store=tmp_path / "run")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    data = bytearray(path.read_bytes())
    # The start of an array: between arrays lies metadata that nothing depends on.
    data[data.index(b"NUMPY", len(data) // 3)] ^= 0xFF
    path.write_bytes(bytes(data))


def empty(path):
    path.write_bytes(b"")


def forge(path):
    with np.load(path) as shard:
        parts = dict(shard)
    parts["marginals"] = parts["marginals"] + np.float32(1)
    np.savez(path, **parts)


@pytest.mark.parametrize("damage", [truncate, flip, empty, forge])
def test_a_damaged_shard_is_named_and_computed_anew(tmp_path, setup, damage):
    straight = ds.run(*setup, stop=30)
    folder = tmp_path / "run"
    for n in (10, 20, 30):  # three shards
        ds.run(*setup, stop=n, store=folder)
    victim = shards(folder)[1]
    damage(victim)
    with pytest.warns(UserWarning, match=f"{victim.name} is damaged"):
        assert len(ds.load_run(folder)) == 20
    with pytest.warns(UserWarning, match=f"{victim.name} is damaged"):
        assert same(ds.run(*setup, stop=30, store=folder), straight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(ds.load_run(folder), straight)


def test_a_foreign_shard_is_named_and_computed_anew(tmp_path, setup):
    U, design, Z = setup
    other = ds.Design(design.database, m=8, weights="1/k", seed=99)
    ds.run(U, other, Z, stop=10, store=tmp_path / "other")
    ds.run(*setup, stop=10, store=tmp_path / "run")
    shards(tmp_path / "run")[0].unlink()
    intruder = shards(tmp_path / "other")[0].rename(tmp_path / "run/draws/00000000-00000009.npz")
    with pytest.warns(UserWarning, match=f"{intruder.name} belongs to another run"):
        draws = ds.run(*setup, stop=10, store=tmp_path / "run")
    assert same(draws, ds.run(*setup, stop=10))


def test_the_same_draw_twice_counts_once(tmp_path, setup):
    ds.run(*setup, stop=10, store=tmp_path / "run")
    shard = shards(tmp_path / "run")[0]
    shard.with_name("00000000-00000099.npz").write_bytes(shard.read_bytes())
    assert ds.load_run(tmp_path / "run").t.tolist() == list(range(10))


@pytest.mark.parametrize("damage", [truncate, flip, empty, Path.unlink])
def test_a_damaged_header_is_mended_by_the_same_call(tmp_path, setup, damage):
    straight = ds.run(*setup, stop=10, store=tmp_path / "run")
    damage(tmp_path / "run" / "header.npz")
    with pytest.raises(ds.RunFolderError, match=r"header\.npz .*run the same command again"):
        ds.load_run(tmp_path / "run")
    ds.run(*setup, stop=10, store=tmp_path / "run")
    assert same(ds.load_run(tmp_path / "run"), straight)


def test_a_header_of_another_run_is_refused(tmp_path, setup):
    U, design, Z = setup
    ds.run(*setup, stop=3, store=tmp_path / "run")
    uniform = ds.Design(design.database, m=8, seed=3)
    ds.run(U, uniform, Z, stop=3, store=tmp_path / "other")
    (tmp_path / "other" / "header.npz").replace(tmp_path / "run" / "header.npz")
    with pytest.raises(ds.RunFolderError, match="belongs to another run"):
        ds.load_run(tmp_path / "run")


def test_any_flipped_bit_is_found(tmp_path, setup):
    """Of 300 flips 242 are named; the others are in zip metadata that nothing depends on.

    The floor is two binomial standard errors lower.
    """
    straight = ds.run(*setup, stop=10, store=tmp_path / "run")
    shard = shards(tmp_path / "run")[0]
    data = shard.read_bytes()
    rng = np.random.default_rng(0)
    found = 0
    for position in rng.integers(len(data) * 8, size=300):
        broken = bytearray(data)
        broken[position // 8] ^= 1 << (position % 8)
        shard.write_bytes(bytes(broken))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with contextlib.suppress(ds.RunFolderError):  # it was the only shard
                assert same(ds.load_run(tmp_path / "run"), straight)
        found += any(shard.name in str(warning.message) for warning in said)
    assert found > 228


def test_two_runs_that_start_on_one_folder_do_not_mix(tmp_path, setup):
    """Both see an empty folder; the second to write is refused."""
    U, design, Z = setup
    other = ds.Design(design.database, m=5, seed=3)
    started = []

    def slow(S):
        if not started:
            started.append(True)
            ds.run(U, other, Z, stop=3, store=tmp_path / "run")
        return U(S)

    with pytest.raises(ds.RunFolderError, match="m was 5, is 8"):
        ds.run(slow, design, Z, stop=3, store=tmp_path / "run")
    assert ds.load_run(tmp_path / "run").m == 5


def test_numpy_integers_are_integers(tmp_path, setup):
    U, design, Z = setup
    numpy = ds.Design(design.database, np.int64(8), weights="1/k", seed=np.int64(3))
    ds.run(U, numpy, Z, stop=np.int64(4), store=tmp_path / "run")
    assert len(ds.run(*setup, stop=6, store=tmp_path / "run")) == 6


def test_a_damaged_manifest_is_refused(tmp_path, setup):
    ds.run(*setup, stop=3, store=tmp_path / "run")
    (tmp_path / "run" / "manifest.json").write_text("{")
    with pytest.raises(ds.RunFolderError, match=r"manifest\.json is damaged"):
        ds.run(*setup, stop=3, store=tmp_path / "run")


def test_another_version_is_said(tmp_path, setup):
    ds.run(*setup, stop=3, store=tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["versions"]["numpy"] = "0.0.1"
    path.write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match=r"numpy 0\.0\.1"):
        ds.run(*setup, stop=3, store=tmp_path / "run")


def test_folders_that_are_no_runs(tmp_path, setup):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    with pytest.raises(ds.RunFolderError, match="not empty and holds no run"):
        ds.run(*setup, stop=3, store=tmp_path / "full")
    with pytest.raises(ds.RunFolderError, match="is a file"):
        ds.run(*setup, stop=3, store=tmp_path / "full" / "thesis.txt")
    with pytest.raises(ds.RunFolderError, match="holds no run"):
        ds.load_run(tmp_path)


def test_an_unwritable_folder(tmp_path, setup, monkeypatch):
    # Tests may run as root, who may write anywhere: no permission is simulated.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ds.RunFolderError, match="cannot be written"):
        ds.run(*setup, stop=3, store=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")

    def fail(file):
        file.write(b"new, but")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_no_pickle_in_a_run_folder(tmp_path, setup):
    """Opening somebody's run must not run their code."""
    U, design, Z = setup
    named = ds.Points(Z.X, Z.y, ids=np.array([*"abcde", "çelik"], dtype=object))
    ds.run(U, design, named, stop=3, store=tmp_path / "run")
    files = sorted(path.name for path in (tmp_path / "run").rglob("*.npz"))
    assert files == ["00000000-00000002.npz", "header.npz"]
    for path in (tmp_path / "run").rglob("*.npz"):
        with np.load(path, allow_pickle=False) as file:
            assert len(file.files) > 0
            assert all(file[name].dtype != object for name in file)


def test_ids_of_any_kind_survive(tmp_path, setup):
    U, design, Z = setup
    named = ds.Points(Z.X, Z.y, ids=["ann", "bob", "çelik", "d", "e", "f"])
    ds.run(U, design, named, stop=3, store=tmp_path / "run")
    assert ds.load_run(tmp_path / "run").ids.tolist() == named.ids.tolist()


def test_other_names_are_another_run(tmp_path, database):
    U, design = ds.MeanPotential(database), ds.Design(database, m=5)
    named = [ds.Points(database.X, database.y, ids=[f"{x}{i}" for i in range(60)]) for x in "ab"]
    ds.run(U, design, named[0], stop=3, store=tmp_path)
    with pytest.raises(ds.RunFolderError, match="ids was"):
        ds.run(U, design, named[1], stop=3, store=tmp_path)
    assert ds.load_run(tmp_path).ids[0] == "a0"


def test_stale_temporary_files_are_swept_and_those_in_use_are_not(tmp_path, setup):
    import subprocess
    import sys

    from dshapley.files import _machine

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    run = tmp_path / "run"
    ds.run(*setup, stop=5, store=run)
    here, other = _machine(), "0" * 8
    stale = [run / f".manifest.json.{here}.{ended.pid}.abcd1234.tmp",
             run / "draws" / f".0-4.npz.{here}.{ended.pid}.abcd1234.tmp",
             run / f".header.npz.{other}.1.abcd1234.tmp"]  # fmt: skip
    (run / f".y.{here}.²³.abcd1234.tmp").touch()  # digits to Python, but no process number
    in_use = [run / f".manifest.json.{here}.{os.getpid()}.abcd1234.tmp",
              run / f".manifest.json.{other}.{ended.pid}.abcd1234.tmp"]  # fmt: skip
    for path in (*stale, *in_use):
        path.touch()
    os.utime(stale[2], (0, 0))
    ds.run(*setup, stop=6, store=run)
    assert not any(path.exists() for path in stale)
    assert all(path.exists() for path in in_use)
