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

KILLS = 20

RUN = """
import sys, time
import numpy as np
import dshapley as ds

def U(S):
    return float(np.tanh(S.X).sum())

class Slow:
    def __call__(self, S):
        return U(S)
    def marginals(self, S, Z):
        time.sleep(0.01)
        return np.tanh(Z.X).sum(axis=1) * len(S)
    def describe(self):
        return {"potential": "slow"}

rng = np.random.default_rng(0)
database = ds.Points(rng.normal(size=(50, 3)))
# Many points, so that writing a shard takes long enough to be killed in the middle.
Z = ds.Points(rng.normal(size=(20_000, 3)))
draws = ds.run(Slow(), ds.Design(database, m=30, weights="1/k", seed=5), Z, until=1500,
               store=sys.argv[1], n_jobs=int(sys.argv[2]))
valuation = ds.estimate(draws)
np.save(sys.argv[3], np.stack([valuation.values, valuation.stderr]))
"""


def start(*args):
    return subprocess.Popen([sys.executable, "-c", RUN, *map(str, args)], start_new_session=True)


def test_killed_at_random_moments_and_resumed_gives_the_same_bytes(tmp_path):
    straight, resumed = tmp_path / "straight.npy", tmp_path / "resumed.npy"
    assert start(tmp_path / "a", 1, straight).wait() == 0
    rng = random.Random(0)
    folder, kept = tmp_path / "b", [0]
    for kill in range(KILLS):
        process = start(folder, 1 + kill % 2, resumed)
        # Early kills hit the start; from the moment shards appear, any time may come.
        time.sleep(rng.uniform(0.3, 2.5))
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
        if (folder / "manifest.json").exists():
            kept.append(len(list((folder / "draws").glob("*.npz"))))
    assert kept[-1] > 3, "the kills left nothing to resume"
    assert start(folder, 2, resumed).wait() == 0
    assert resumed.read_bytes() == straight.read_bytes()


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

    U = ds.potential(LogisticRegression(), test=labelled(200, seed=1))
    design, Z = ds.Design(labelled(80), m=30, seed=2), labelled(10, seed=3)
    alone = ds.run(U, design, Z, until=40)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        assert len(set(client.run(os.getpid).values()) | {os.getpid()}) == 3
        over_dask = ds.run(U, design, Z, until=40)
        rule = KillOneWorker(client, 40)
        survived = ds.run(U, design, Z, until=rule, store=tmp_path / "run")
        assert rule.victim is not None
        assert rule.victim not in client.run(os.getpid).values()
    assert over_dask.marginals.tobytes() == alone.marginals.tobytes()
    assert survived.marginals.tobytes() == alone.marginals.tobytes()
    assert np.array_equal(survived.t, np.arange(40))
