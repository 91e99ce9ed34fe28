"""The stream of results: in order, each draw once, whatever is lost on the way."""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import BrokenExecutor

import joblib
import numpy as np
import psutil
import pytest

import dshapley as ds
import dshapley.running.workers as workers
from dshapley.running.workers import Result

DRAWS = 12


@pytest.fixture(autouse=True)
def no_pause(request, monkeypatch):
    if "real" not in request.keywords:
        monkeypatch.setattr(workers, "_LONGEST_PAUSE", 0.0)


def square(t):
    return Result(t + 1, np.array([t**2]))


class LosingPool:
    """Computes in order, asks `ahead` calls beyond the one it answers, and loses them at times.

    `losses` says after how many answers each attempt ends. A pool that was given up goes on
    asking, as joblib's threads may.
    """

    def __init__(self, losses, ahead):
        self.losses, self.ahead, self.given_up = list(losses), ahead, []

    def __call__(self, calls):
        for old in self.given_up:
            assert next(old, None) is None, "a draw was taken by a pool that was given up"
        most = self.losses.pop(0) if self.losses else None
        waiting = deque()
        for answers in itertools.count():
            waiting.extend(itertools.islice(calls, 1 + self.ahead - len(waiting)))
            if answers == most:
                self.given_up.append(calls)
                raise BrokenExecutor
            if not waiting:
                return
            function, args, options = waiting.popleft()
            yield function(*args, **options)


def stream(pool, ts=range(DRAWS)):
    return list(workers._surviving(workers._Shared(square), ts, pool))


@pytest.mark.filterwarnings("ignore:workers were lost")
@pytest.mark.parametrize("ahead", [0, 1, 2, 5, DRAWS, 3 * DRAWS])
def test_two_losses_at_every_point_cost_no_draw(ahead):
    """Three quarters of the pairs lose draws that were to be computed again and not yet asked."""
    for losses in itertools.product(range(DRAWS + 1), repeat=2):
        found = stream(LosingPool(losses, ahead))
        assert [result.t for result in found] == list(range(DRAWS)), losses
        assert [result.marginals[0] for result in found] == [t**2 for t in range(DRAWS)], losses


@pytest.mark.filterwarnings("ignore:workers were lost")
def test_many_losses_at_random_points_cost_no_draw():
    rng = random.Random(0)
    for _ in range(300):
        losses = [rng.randrange(4) for _ in range(rng.randrange(3, 20))]
        some = sorted(rng.sample(range(100), 30))  # those that a run folder lacks
        found = stream(LosingPool(losses, rng.randrange(8)), some)
        assert [result.t for result in found] == some
        assert [result.k for result in found] == [t + 1 for t in some]


@pytest.mark.filterwarnings("ignore:workers were lost")
@pytest.mark.parametrize("error", [BrokenExecutor(), TimeoutError("no worker after 10 seconds")])
def test_a_loss_while_the_pool_is_started_costs_no_draw(error):
    """joblib hands out the first calls before it returns."""
    attempts = []

    def broken_at_first(calls):
        attempts.append(list(itertools.islice(calls, 3)))
        if len(attempts) < 3:
            raise error
        first = attempts[-1]
        return (function(*args, **options) for function, args, options in [*first, *calls])

    found = stream(broken_at_first)
    assert len(attempts) == 3
    assert [result.t for result in found] == list(range(DRAWS))


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="not on Windows")
@pytest.mark.parametrize("by", [signal.raise_signal, lambda n: os.kill(os.getpid(), n)])
def test_an_interrupt_while_workers_are_started_comes_afterwards(by):
    begun = []

    def start():
        with workers._interrupts_later():
            by(signal.SIGINT)
            time.sleep(0.05)
            begun.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert begun
    with workers._interrupts_later():
        child = [sys.executable, "-c", "import signal; print(signal.pthread_sigmask(0, []))"]
        mask = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    assert "SIGINT" in mask
    assert "SIGHUP" in mask
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_result_out_of_step_is_refused():
    def shuffled(calls):
        for function, args, options in reversed(list(calls)):
            yield function(*args, **options)

    with pytest.raises(ds.DrawError, match="draw 11 came back where draw 0 was due"):
        list(workers._surviving(workers._Shared(square), range(DRAWS), shuffled))


def test_nothing_is_stored_under_another_number(tmp_path, database, offered, monkeypatch):
    """Even where the stream itself is wrong."""
    import contextlib

    import dshapley.running.run as runs

    @contextlib.contextmanager
    def skipping(task, ts, n_jobs):
        yield (task(t)._replace(t=t, seconds=0.0) for t in ts if t != 7)

    monkeypatch.setattr(runs, "results", skipping)
    U, design = ds.MeanPotential(database), ds.Design(database, m=8)
    with pytest.raises(ds.DrawError, match="draw 8 came back where draw 7 was due"):
        ds.run(U, design, offered, stop=20, store=tmp_path / "run")
    monkeypatch.undo()
    assert ds.load_run(tmp_path / "run").t.tolist() == list(range(7))


def test_losses_in_a_row_end_a_run_only_after_a_while(monkeypatch):
    pool = LosingPool([0] * 7, 2)
    with pytest.warns(ds.errors.DShapleyWarning, match="workers were lost"):
        found = list(workers._surviving(workers._Shared(square), range(3), pool))
    assert [result.t for result in found] == [0, 1, 2]
    monkeypatch.setattr(workers, "_PATIENCE", 0.0)
    with (
        pytest.warns(ds.errors.DShapleyWarning, match="workers were lost"),
        pytest.raises(ds.DrawError, match="the workers failed 3 times in a row"),
    ):
        list(workers._surviving(workers._Shared(square), range(3), LosingPool([1] + [0] * 9, 2)))


class Killer(threading.Thread):
    """Kills all that `victims()` names, a few times, at random moments.

    A few: a machine on which workers take longer to start than they are let live never ends.
    """

    rounds = 6

    def __init__(self, victims, seed, shortest, longest):
        super().__init__(daemon=True)
        self.victims, self.rng, self.kills = victims, random.Random(seed), 0
        self.between, self.over = (shortest, longest), threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        left = self.rounds
        while left and not self.over.wait(self.rng.uniform(*self.between)):
            before = self.kills
            for pid in self.victims():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills += 1
            left -= self.kills > before


class Slow:
    """A potential that takes a while, and whose marginals tell the draw."""

    def __call__(self, S):
        return float(np.tanh(S.X).sum())

    def marginals(self, S, Z):
        time.sleep(0.02)
        return np.tanh(Z.X).sum(axis=1) * len(S) + S.X.sum()

    def describe(self):
        return {"potential": "slow"}


@pytest.fixture
def slow():
    rng = np.random.default_rng(0)
    database = ds.Points(rng.normal(size=(50, 3)))
    return Slow(), ds.Design(database, m=30, weights="1/k", seed=5), database


def worker_processes():
    """Those of loky below this process; not the trackers of its files."""
    return [child.pid for child in psutil.Process().children() if _is_worker(child)]


def _is_worker(child):
    try:
        command = " ".join(child.cmdline())
    except psutil.NoSuchProcess:  # killed, and perhaps not yet waited for
        return False
    return "loky" in command and "tracker" not in command


def same(a, b):
    return a.t.tobytes() == b.t.tobytes() and a.marginals.tobytes() == b.marginals.tobytes()


@pytest.mark.real
@pytest.mark.filterwarnings("ignore:workers were lost")
def test_all_loky_workers_killed_again_and_again(tmp_path, slow):
    alone = ds.run(*slow, stop=300)
    with Killer(worker_processes, 1, 0.3, 2.5) as killer:
        survived = ds.run(*slow, stop=300, store=tmp_path / "run", n_jobs=2)
    assert killer.kills >= 4
    assert same(survived, alone)
    assert same(ds.load_run(tmp_path / "run"), alone)


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("dask.distributed")
    import dask

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    # By default a cluster gives up on a worker that happens to be away after fifteen seconds.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask", wait_for_workers_timeout=20),
    ):
        yield cluster


@pytest.mark.real
@pytest.mark.filterwarnings("ignore:workers were lost")
def test_all_dask_workers_killed_again_and_again(tmp_path, slow, cluster, monkeypatch):
    monkeypatch.setattr(workers, "_CLUSTER_PATIENCE", 10.0)
    with joblib.parallel_config("threading", n_jobs=1):
        alone = ds.run(*slow, stop=300)

    def of_cluster():
        return [w.pid for nanny in cluster.workers.values() if (w := nanny.process) and w.pid]

    with Killer(of_cluster, 2, 0.3, 1.5) as killer:
        survived = ds.run(*slow, stop=300, store=tmp_path / "run")
    assert killer.kills >= 4
    assert same(survived, alone)
    assert same(ds.load_run(tmp_path / "run"), alone)


@pytest.mark.real
def test_a_cluster_without_workers_ends_the_run(slow, cluster, monkeypatch):
    """It would wait for ever; what it did until then is kept by the caller's store."""
    monkeypatch.setattr(workers, "_PATIENCE", 2.0)
    monkeypatch.setattr(workers, "_CLUSTER_PATIENCE", 2.0)
    monkeypatch.setattr(workers, "_LOOK", 0.5)
    gone = threading.Timer(2.0, lambda: cluster.scale(0))
    gone.start()
    with (
        joblib.parallel_config("dask", wait_for_workers_timeout=1),
        pytest.warns(ds.errors.DShapleyWarning, match="workers were lost"),
        pytest.raises(ds.DrawError, match="the workers failed"),
    ):
        ds.run(*slow, stop=10**6)
    gone.join()


@pytest.mark.real
@pytest.mark.filterwarnings("ignore:workers were lost")
def test_a_scheduler_that_is_gone_ends_the_run(slow, cluster):
    from dask.distributed import default_client

    client = default_client()
    gone = threading.Timer(2.0, lambda: client.close(timeout=5))
    gone.start()
    with pytest.raises(ds.DrawError, match="the connection to the dask scheduler is lost"):
        ds.run(*slow, stop=10**6)
    gone.join()


@pytest.mark.real
def test_calls_that_a_cluster_has_forgotten_are_made_again(slow, cluster, monkeypatch):
    """As joblib's are when a worker dies while they are sent to it."""
    from dask.distributed import Client

    monkeypatch.setattr(workers, "_CLUSTER_PATIENCE", 2.0)
    monkeypatch.setattr(workers, "_LOOK", 0.5)
    sent, submit = [], Client.submit

    def forgetful(self, *args, **named):
        sent.append(args)
        if len(sent) == 3:
            raise OSError("the worker is gone")
        return submit(self, *args, **named)

    monkeypatch.setattr(Client, "submit", forgetful)
    with pytest.warns(ds.errors.DShapleyWarning, match="has done nothing for 2 seconds"):
        survived = ds.run(*slow, stop=60)
    with joblib.parallel_config("threading", n_jobs=1):
        assert same(survived, ds.run(*slow, stop=60))
