import os
import signal
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import dshapley as ds
import dshapley.running.workers
from conftest import labelled
from dshapley.running.stopping import Precision


@pytest.fixture
def setup(database, held_out, offered):
    U = ds.potential(LogisticRegression(), test=held_out)
    return U, ds.Design(database, m=20, weights="1/k", seed=1), offered


@pytest.fixture
def alone(setup):
    return ds.run(*setup, stop=25, n_jobs=1)


def same(a, b):
    return a.marginals.tobytes() == b.marginals.tobytes() and a.k.tolist() == b.k.tolist()


def test_a_run_is_its_draws(setup, alone):
    """Each row is what the potential says of draw t, and nothing else."""
    U, design, Z = setup
    for t in (0, 7, 24):
        draw = design.draw(t)
        gains = ds.marginals(U.seeded(draw.seed), draw.S, Z)
        assert alone.k[t] == draw.k
        assert alone.marginals[t].tolist() == gains.astype(np.float32).tolist()


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_workers_change_nothing(setup, alone, n_jobs):
    assert same(ds.run(*setup, stop=25, n_jobs=n_jobs), alone)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_other_backends_change_nothing(setup, alone, backend):
    """Those that stream results and those that, like ray's, only return lists."""
    with joblib.parallel_config(backend, n_jobs=2):
        assert same(ds.run(*setup, stop=25), alone)


@pytest.mark.slow
def test_chunks_change_nothing(tmp_path, setup, alone):
    for until in (1, 2, 9, 25):
        draws = ds.run(*setup, stop=until, store=tmp_path / "run", n_jobs=1 + until % 2)
    assert same(draws, alone)


@pytest.mark.slow
def test_a_rule_stops_at_the_same_draw_for_any_workers(setup):
    rule = Precision(0.1, at_least=20)
    one, two = (ds.run(*setup, stop=rule, n_jobs=n) for n in (1, 2))
    assert 20 < len(one) < 500
    assert rule(one, 0.0)
    assert not rule(one.first(len(one) - 10), 0.0)
    assert same(one, two)


def test_a_rule_that_never_stops_ends_at_its_limit(setup):
    class Never:
        limit = 3

        def __call__(self, draws, seconds):
            return False

    assert len(ds.run(*setup, stop=Never())) == 3
    assert len(ds.run(*setup, stop=np.int64(3))) == 3


@pytest.mark.slow
def test_random_learners_are_the_same_for_any_workers(database, held_out, offered):
    U = ds.potential(RandomForestClassifier(5), test=held_out)
    design = ds.Design(database, m=10)
    assert same(*(ds.run(U, design, offered, stop=8, n_jobs=n) for n in (1, 2)))


def test_plain_functions_travel_to_workers(setup):
    _, design, Z = setup
    scale = 3.0
    one, two = (ds.run(lambda S: scale * len(S), design, Z, stop=6, n_jobs=n) for n in (1, 2))
    assert same(one, two)
    assert (one.marginals == 3).all()


def test_bundles(setup):
    """A bundle's marginal is U(S + all its rows) - U(S); a bundle of one row is that row."""
    U, design, Z = setup
    bundles = ds.Bundles(Z, ["a", "b", "a", "c", "c", "c"])
    draws = ds.run(U, design, bundles, stop=5)
    rows = ds.run(U, design, Z, stop=5)
    assert draws.ids.tolist() == ["a", "b", "c"]
    assert draws.rows.tolist() == [2, 1, 3]
    assert draws.marginals[:, 1].tolist() == rows.marginals[:, 1].tolist()
    for t in range(5):
        draw = design.draw(t)
        V = U.seeded(draw.seed)
        gain = V(draw.S + Z.take([0, 2])) - V(draw.S)
        assert draws.marginals[t, 0] == pytest.approx(gain, abs=1e-6)


@pytest.mark.slow
def test_a_failing_draw_is_named_and_finished_draws_are_kept(tmp_path, setup):
    _, design, Z = setup
    bad = next(t for t in range(100) if design.draw(t).k > 8)

    def fragile(S):
        if len(S) > 7:
            raise ZeroDivisionError("too many")
        return float(len(S))

    with pytest.raises(ds.DrawError, match=rf"draw {bad} of seed 1 .*too many"):
        ds.run(fragile, design, Z, stop=100, store=tmp_path / "run")
    assert len(ds.load_run(tmp_path / "run")) == bad
    # Of two workers either may be the first to fail.
    with pytest.raises(ds.DrawError, match=r"draw \d+ of seed 1 .*too many"):
        ds.run(fragile, design, Z, stop=100, n_jobs=2)


def test_a_potential_that_is_not_a_number_is_an_error(setup):
    _, design, Z = setup
    with pytest.raises(ds.DrawError, match="nan"):
        ds.run(lambda S: float("nan") if len(S) else 0.0, design, Z, stop=5)


def test_interrupt_keeps_finished_draws_and_says_how_to_go_on(tmp_path, setup):
    _, design, Z = setup
    calls = []

    def U(S):
        calls.append(1)
        if len(calls) == 60:
            os.kill(os.getpid(), signal.SIGINT)
        return float(len(S))

    with pytest.raises(ds.Interrupted, match="run the same command again") as stop:
        ds.run(U, design, Z, stop=1000, store=tmp_path / "run")
    assert isinstance(stop.value, KeyboardInterrupt)
    assert len(stop.value.draws) == len(ds.load_run(tmp_path / "run")) == 8
    calls.clear()
    with pytest.raises(ds.Interrupted, match="give a run folder"):
        ds.run(U, design, Z, stop=1000)


@pytest.mark.slow
def test_workers_that_keep_dying_are_an_error_for_people(tmp_path, setup, monkeypatch):
    monkeypatch.setattr("dshapley.running.workers._PATIENCE", 0.0)
    _, design, Z = setup
    main = os.getpid()

    def fatal(S):
        if len(S) > 5 and os.getpid() != main:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(len(S))

    with (
        pytest.warns(UserWarning, match="workers were lost"),
        pytest.raises(ds.DrawError, match="the workers failed 3 times in a row"),
    ):
        ds.run(fatal, design, Z, stop=200, store=tmp_path / "run", n_jobs=2)


def test_a_worker_that_dies_costs_no_draw(tmp_path, setup):
    _, design, Z = setup
    main, once = os.getpid(), tmp_path / "died"

    def fragile(S):
        if len(S) > 5 and os.getpid() != main and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(len(S)) ** 0.5

    with pytest.warns(UserWarning, match="workers were lost"):
        survived = ds.run(fragile, design, Z, stop=60, n_jobs=2)
    assert once.exists()
    assert same(survived, ds.run(fragile, design, Z, stop=60))


def test_one_blas_thread_while_draws_run(setup):
    """Also where several threads of a process enter and leave in any order."""
    import threadpoolctl

    _, design, Z = setup
    seen = []

    def U(S):
        seen.extend(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
        return float(len(S))

    before = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    with joblib.parallel_config("threading", n_jobs=3):
        ds.run(U, design, Z, stop=20)
    assert set(seen) == {1}
    assert [pool["num_threads"] for pool in threadpoolctl.threadpool_info()] == before


def test_progress_tells_draws_reliability_and_time_left(setup, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, design, Z = setup

    def U(S):
        time.sleep(0.003)  # so that there is time to tell
        return float(S.y.sum() % 2) / 10.0

    ds.run(U, design, Z, stop=60, progress=True)
    line = capsys.readouterr().err
    assert "/60 draws" in line
    assert "reliability 0." in line
    assert "left" in line


def test_no_bar_where_nobody_watches(setup, capsys):
    ds.run(*setup, stop=3)
    assert capsys.readouterr().err == ""


def test_a_potential_that_cannot_be_identified_runs_but_is_not_stored(tmp_path, setup):
    _, design, Z = setup
    lock = threading.Lock()

    def U(S):
        with lock:
            return float(len(S))

    assert len(ds.run(U, design, Z, stop=3)) == 3
    with pytest.raises(ds.InputError, match=r"method describe\(\)"):
        ds.run(U, design, Z, stop=3, store=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_sent_to_workers_is_said_at_once(setup):
    _, design, Z = setup
    lock = threading.Lock()

    def U(S):
        with lock:
            return float(len(S))

    with pytest.raises(ds.InputError, match="cannot be sent to other processes"):
        ds.run(U, design, Z, stop=3, n_jobs=2)


def test_marginals_too_large_to_keep_are_an_error(setup):
    _, design, Z = setup
    with pytest.raises(ds.DrawError, match="rescale U"):
        ds.run(lambda S: 1e39 * len(S), design, Z, stop=3)


def test_labels_of_another_kind_are_refused(setup):
    U, design, Z = setup
    with pytest.raises(ds.InputError, match="the labels of points are text"):
        ds.run(U, design, ds.Points(Z.X, Z.y.astype(str)), stop=3)


def test_points_are_checked_before_anything_runs(setup):
    U, design, Z = setup
    bad = Z.X.copy()
    bad[2, 1] = np.inf
    with pytest.raises(ds.InputError, match="points has infinity in column 1"):
        ds.run(U, design, ds.Points(bad, Z.y), stop=3)
    with pytest.raises(ds.InputError, match="database has 4 columns but the test set has 3"):
        ds.run(U, ds.Design(labelled(9, d=4), m=3), Z, stop=3)


@pytest.mark.parametrize(
    ("seconds", "until", "says"),
    [(60.0, 5, None), (60.0, 50, "50 minutes"), (60.0, 500, "100 minutes"), (1.0, 500, None)],
)
def test_a_run_that_will_be_long_says_so_early(setup, monkeypatch, seconds, until, says):
    """After four draws, with the share of the points that would bring an answer in five minutes."""
    real = dshapley.running.workers._work
    monkeypatch.setattr(
        dshapley.running.workers,
        "_work",
        lambda shared, t: real(shared, t)._replace(seconds=seconds),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds.run(*setup, stop=until)
    texts = [str(w.message) for w in caught if "will take about" in str(w.message)]
    assert len(texts) == (says is not None)
    if says:
        assert f"{min(until, 100)} draws will take about {says}" in texts[0]
        assert "a share of 0.05 of the points" in texts[0]
