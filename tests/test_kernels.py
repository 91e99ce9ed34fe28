"""Compiled loops: who waits for the compiler is told what for."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from dshapley import learners
from dshapley.learners import kernels


def add_up(x, out):
    """Sum x into out[0]."""
    for i in range(len(x)):
        out[0] += x[i]


@pytest.fixture
def slow(monkeypatch):
    """Kernels that take a while, once, and need no compiler."""
    calls = []

    def compiled(function, **options):
        def run(*args):
            calls.append(len(calls))
            if not run.overloads:
                time.sleep(0.02)
                run.overloads["new"] = options
                run.stats.cache_misses["new"] = 1
            return function(*args)

        run.overloads, run.stats = {}, SimpleNamespace(cache_misses={})
        return run

    monkeypatch.setattr(kernels, "_compiled", compiled)
    return calls


def test_a_long_first_call_says_so_and_only_that(slow, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "_LONG", 0.01)
    kernel, out = kernels.kernel(add_up), np.zeros(1)
    kernel(np.ones(3), out)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.match(r"dshapley: compiled add_up in \d\.\d s; from now on it is", captured.err)
    assert captured.err.count("\n") == 1
    monkeypatch.setattr(kernels, "_LONG", 0.0)
    kernel(np.ones(3), out)
    assert capsys.readouterr() == ("", "")
    assert out[0] == 6.0
    assert len(slow) == 2


def test_a_short_first_call_is_silent(slow, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "_LONG", 60.0)
    kernel, out = kernels.kernel(add_up), np.zeros(1)
    kernel(np.ones(3), out)
    monkeypatch.setattr(kernels, "_LONG", 0.0)
    kernel(np.ones(3), out)  # not the first any more
    assert capsys.readouterr() == ("", "")
    assert len(slow) == 2


def test_each_kernel_tells_for_itself(slow, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "_LONG", -1.0)
    for _ in range(2):
        kernels.kernel(add_up)(np.ones(1), np.zeros(1))
    assert capsys.readouterr().err.count("compiled add_up") == 2


def test_a_loop_from_the_cache_is_not_reported(slow, monkeypatch, capsys):
    kernel = kernels.kernel(add_up)
    monkeypatch.setattr(kernels, "_LONG", -1.0)
    monkeypatch.setattr(kernels, "_missed", lambda compiled: 0)
    kernel(np.ones(1), np.zeros(1))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("cached", [True, False])
def test_a_slow_loop_is_announced_before_it_is_compiled(monkeypatch, capsys, tmp_path, cached):
    seen = []

    def compiled(function, **options):
        def run(*args):
            seen.append(capsys.readouterr().err)
            run.overloads["new"] = options

        run.overloads = {}
        run.stats = SimpleNamespace(cache_misses={}, cache_path=str(tmp_path))
        return run

    monkeypatch.setattr(kernels, "_compiled", compiled)
    kernel = kernels.slow_literal(add_up)
    if cached:
        sources = kernels._sources_of(add_up)
        (tmp_path / f"test_kernels.add_up-12.py311.{sources}.nbi").touch()
    for _ in range(2):
        kernel(np.ones(1), np.zeros(1))
    said = ["compiling add_up loops for their first use" in text for text in seen]
    assert said == [not cached, False]


def test_a_kernel_is_compiled_and_keeps_its_name():
    kernel, out = kernels.kernel(add_up), np.zeros(1)
    assert (kernel.__name__, kernel.__doc__) == ("add_up", "Sum x into out[0].")
    kernel(np.arange(5.0), out)
    assert out[0] == 10.0
    inlined = kernels.inlined(add_up)
    inlined(np.arange(5.0), out)
    assert out[0] == 20.0
    assert inlined.signatures


@pytest.mark.parametrize("kind", [np.nan, np.inf])
def test_numbers_that_are_none_keep_their_meaning(kind):
    kernel, out = kernels.kernel(add_up), np.zeros(1)
    kernel(np.array([1.0, kind, 2.0]), out)
    np.testing.assert_array_equal(out, [kind])


def test_without_a_folder_to_keep_it_in_it_is_compiled_all_the_same(monkeypatch):
    asked = []

    def refuse(function):
        asked.append(function)
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(kernels, "_Cache", refuse)
    out = np.zeros(1)
    kernels.kernel(add_up)(np.ones(4), out)
    assert out[0] == 4.0
    assert asked == [add_up]
    assert kernels._compiled(add_up).stats.cache_path is None


def test_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiled = kernels._compiled(add_up)
    compiled(np.ones(4), np.zeros(1))
    kept = [path.name for path in Path(compiled.stats.cache_path).iterdir()]
    assert len(kept) == 2
    assert all(f".{kernels._sources_of(add_up)}." in name for name in kept)


INNER = """
from dshapley.learners.kernels import literal_inlined

@literal_inlined
def term(x):
    return {term}
"""

OUTER = """
import sys
import numpy as np
from dshapley.learners.kernels import _compiled
from loops.inner import term

def total(x):
    found = 0.0
    for number in x:
        found += term(number)
    return found

compiled = _compiled(total)
result = compiled(np.arange(4.0))
print(result, len(compiled.stats.cache_misses), compiled.stats.cache_path)
"""


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_change_of_an_inlined_function_compiles_its_callers_anew(tmp_path, elsewhere):
    """Though the file of the caller, all that numba looks at, is as it was."""
    folder = tmp_path / "loops"
    folder.mkdir()
    (folder / "outer.py").write_text(OUTER)
    other = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if elsewhere else {}
    source = str(Path(kernels.__file__).parents[2])
    environment = os.environ | other | {"PYTHONPATH": os.pathsep.join([str(tmp_path), source])}

    def run(term):
        (folder / "inner.py").write_text(INNER.format(term=term))
        command = [sys.executable, "-B", "-m", "loops.outer"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        result, compiled, path = done.stdout.split()
        kept = sorted(file.suffix for file in Path(path).iterdir() if file.suffix != ".py")
        assert kept == [".nbc", ".nbi"]  # and nothing of the version before
        assert Path(path).is_relative_to(tmp_path / ("cache" if elsewhere else "loops"))
        return float(result), int(compiled)

    assert [run("x"), run("x"), run("x * x"), run("x * x")] == [(6, 1), (6, 0), (14, 1), (14, 0)]


def test_compiled_code_contains_nothing_of_other_folders():
    """Since only the sources of a loop's own folder are watched."""
    n_shared = 0
    for found in pkgutil.walk_packages(learners.__path__, "dshapley.learners."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if hasattr(value, "py_func"):
                file = Path(value.py_func.__code__.co_filename)
                assert file.parent == Path(module.__file__).parent, (found.name, value)
                n_shared += file != Path(module.__file__)
    assert n_shared > 0


def test_the_note_goes_to_standard_error_as_it_is_then(slow, monkeypatch):
    lines = []

    class Stream:
        def write(self, text):
            lines.append(text)

    monkeypatch.setattr(kernels, "_LONG", -1.0)
    monkeypatch.setattr(sys, "stderr", Stream())
    kernels.kernel(add_up)(np.ones(1), np.zeros(1))
    assert "numba's cache" in "".join(lines)


@pytest.mark.slow
def test_loops_from_the_cache_give_the_bits_of_loops_just_compiled(tmp_path):
    """Else the worker that compiles would give other values than the one that comes second."""
    code = (
        "import dshapley as ds; from sklearn.datasets import load_iris;"
        "from sklearn.linear_model import LogisticRegression as L;"
        "X, y = load_iris(return_X_y=True); T = ds.Points(X[1::2], y[1::2]);"
        "U = ds.potential(L(max_iter=1000), test=T, metric='log_score', retrain='never');"
        "S = ds.Points(X[::10], y[::10]); print(U.marginals(S, ds.Points(X, y)).tobytes().hex())"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    options = {"env": environment, "capture_output": True, "text": True, "check": True}
    one, two = (subprocess.run([sys.executable, "-c", code], **options).stdout for _ in range(2))
    assert len(one) > 2000
    assert one == two
