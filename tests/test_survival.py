"""Runs that are killed, and go on."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled

pytestmark = pytest.mark.slow

KILLS = 20

RUN = """
import sys, time
import numpy as np
import dshapley as ds
import dshapley.running.run_folder

dshapley.running.run_folder._FLUSH_SECONDS = 0.1  # more shards, so more moments to be killed in

class Slow:
    def __call__(self, S):
        return float(np.tanh(S.X).sum())
    def marginals(self, S, Z):
        time.sleep(0.01)
        return np.tanh(Z.X).sum(axis=1) * len(S)
    def describe(self):
        return {"potential": "slow"}

rng = np.random.default_rng(0)
database = ds.Points(rng.normal(size=(50, 3)))
# Many points, so that writing a shard takes long enough to be killed in the middle.
Z = ds.Points(rng.normal(size=(20_000, 3)))
draws = ds.run(Slow(), ds.Design(database, m=30, weights="1/k", seed=5), Z, stop=1200,
               store=sys.argv[1], n_jobs=int(sys.argv[2]))
valuation = ds.estimate(draws)
np.save(sys.argv[3], np.stack([valuation.values, valuation.stderr]))
"""


def start(*args):
    return subprocess.Popen([sys.executable, "-c", RUN, *map(str, args)], start_new_session=True)


def shards(folder):
    return len(list((folder / "draws").glob("*.npz")))


def test_killed_at_random_moments_and_resumed_gives_the_same_bytes(tmp_path):
    straight, resumed = tmp_path / "straight.npy", tmp_path / "resumed.npy"
    assert start(tmp_path / "a", 1, straight).wait() == 0
    rng = random.Random(0)
    folder = tmp_path / "b"
    for kill in range(KILLS):
        process, before = start(folder, 1 + kill % 2, resumed), shards(folder)
        if kill % 4 == 0:
            time.sleep(rng.uniform(0.1, 0.8))  # anywhere in the start
        else:
            while shards(folder) == before and process.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.2))  # anywhere in computing or writing
        assert process.poll() is None, "the run ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert shards(folder) >= KILLS // 2
    assert start(folder, 2, resumed).wait() == 0
    assert resumed.read_bytes() == straight.read_bytes()


KILLED_WRITING = """
import os, signal, sys
import numpy as np
import dshapley as ds
import dshapley.running.run_folder as store
import dshapley.sealed as sealed

nth, when, calls, whole = int(sys.argv[2]), sys.argv[3], [], store.write_atomically

def write(path, writer, **options):
    calls.append(path)
    if len(calls) == nth and when == "within":
        def writer(file):
            file.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    whole(path, writer, **options)
    if len(calls) == nth:
        os.kill(os.getpid(), signal.SIGKILL)

store.write_atomically = sealed.write_atomically = write
database = ds.Points(np.arange(12.0).reshape(6, 2))
ds.run(ds.MeanPotential(database), ds.Design(database, m=4), database, stop=5, store=sys.argv[1])
"""


@pytest.mark.parametrize("when", ["within", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_killed_at_each_write_and_resumed(tmp_path, nth, when):
    """In the middle of and right after writing the manifest, the header, the shard."""
    code = [sys.executable, "-c", KILLED_WRITING, str(tmp_path / "run"), str(nth), when]
    assert subprocess.run(code, check=False).returncode == -signal.SIGKILL
    database = ds.Points(np.arange(12.0).reshape(6, 2))
    setup = ds.MeanPotential(database), ds.Design(database, m=4), database
    resumed = ds.run(*setup, stop=5, store=tmp_path / "run")
    assert resumed.marginals.tobytes() == ds.run(*setup, stop=5).marginals.tobytes()
    assert len(ds.load_run(tmp_path / "run")) == 5


class KillOneWorker:
    """A stop rule that kills a dask worker process at the tenth draw, and stops at the last."""

    def __init__(self, client, n):
        self.client, self.n, self.victim = client, n, None

    def __call__(self, draws, seconds):
        if len(draws) == 10:
            pids = self.client.run(os.getpid)
            self.victim = next(iter(pids.values()))
            os.kill(self.victim, signal.SIGKILL)
        return len(draws) >= self.n

    @property
    def limit(self):
        return self.n


def test_dask_workers_give_the_same_bits_and_one_may_die(tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    import joblib

    U = ds.potential(LogisticRegression(), test=labelled(200, seed=1), retrain="always")
    design, Z = ds.Design(labelled(80), m=30, seed=2), labelled(10, seed=3)
    alone = ds.run(U, design, Z, stop=40)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        assert len(set(client.run(os.getpid).values()) | {os.getpid()}) == 3
        over_dask = ds.run(U, design, Z, stop=40)
        rule = KillOneWorker(client, 40)
        survived = ds.run(U, design, Z, stop=rule, store=tmp_path / "run")
        assert rule.victim is not None
        assert rule.victim not in client.run(os.getpid).values()
    assert over_dask.marginals.tobytes() == alone.marginals.tobytes()
    assert survived.marginals.tobytes() == alone.marginals.tobytes()
    assert np.array_equal(survived.t, np.arange(40))
