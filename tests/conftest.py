"""Small data that many tests share."""

import os
import signal
import tempfile

# Test workers side by side, each with BLAS threads of its own that wait by spinning, are twenty
# times slower; set before numpy is first imported.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np
import pytest

import dshapley as ds

# Runs are signed with a key of this user's; that of the tests lies in no one's home.
_state = tempfile.TemporaryDirectory(prefix="dshapley-tests-")
os.environ["XDG_STATE_HOME"] = _state.name

# A shell's background job ignores Ctrl-C, and nohup the end of a terminal; what these tests start
# would ignore them too.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


def labelled(n, d=3, *, seed=0, classes=2):
    """n points of d features whose label follows the first two, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)
    return ds.Points(X, np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1]))


@pytest.fixture
def database():
    return labelled(60)


@pytest.fixture
def held_out():
    return labelled(80, seed=1)


@pytest.fixture
def offered():
    return labelled(6, seed=2)
