"""Compiled loops: who waits for the compiler is told what for."""

import re
import sys
import time
from types import SimpleNamespace

import numba
import numpy as np
import pytest

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
        (tmp_path / "test_kernels.add_up-12.py311.1.nbi").touch()
    for _ in range(2):
        kernel(np.ones(1), np.zeros(1))
    said = ["compiling add_up loops for their first use" in text for text in seen]
    assert said == [not cached, False]


def test_a_second_is_long():
    assert kernels._LONG == 1.0


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

    def njit(function, **options):
        asked.append(options)
        if "cache" in options:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)(function)

    monkeypatch.setattr(kernels, "_njit", njit)
    out = np.zeros(1)
    kernels.kernel(add_up)(np.ones(4), out)
    assert out[0] == 4.0
    assert [options.get("cache", False) for options in asked] == [True, False]
    assert asked[0] == {**asked[1], "cache": True}


def test_the_note_goes_to_standard_error_as_it_is_then(slow, monkeypatch):
    lines = []

    class Stream:
        def write(self, text):
            lines.append(text)

    monkeypatch.setattr(kernels, "_LONG", -1.0)
    monkeypatch.setattr(sys, "stderr", Stream())
    kernels.kernel(add_up)(np.ones(1), np.zeros(1))
    assert "numba's cache" in "".join(lines)
