"""A marginal by dshapley and by pyDVL 0.10.0: the same points, models and test set, one core each.

Counted is a marginal U(S + z) - U(S) of a training point z, with U the accuracy on the test set
and |S| uniform on 0 ... k - 1. Both sides value the same k points.

- pyDVL: Shapley values by permutations, without truncation. A permutation of the k points is k
  growing sets, so k models trained and a marginal of each point. The time is divided by the
  number of sets that `ModelUtility` in fact trained on, counted. The handful on which training or
  scoring fails (one class, fewer rows than neighbours) are counted as well: pyDVL swallows the
  error and takes the default score. No result is cached, which is its default; sets hardly recur.
- dshapley: `ds.run` with uniform sizes up to m = k, the database the same k points. A draw is one
  set S, drawn with replacement, and a marginal of each point. The time is divided by draws times
  points; what it takes to train on S itself is in the time and not in the count.

The time of either is that of the whole call, from arrays to results; imports come before, and so
does a warming run of dshapley, which compiles. The two take turns, each turn with k other points
and another seed, so that nothing kept from one serves the next, and the median turn is shown.
Checked, outside the time, is that both give all k points the same U, to two test rows:
scikit-learn's logistic regression stops at its tolerance, dshapley's does not.

What is compared is the price of a marginal, not of a value to some precision: the two estimate
different values. Left out are truncation, which would spare pyDVL most of the larger sets, and
the closed forms for nearest neighbours, which both have.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

import dshapley as ds
from benchmarks.pydvl_marginals import MODELS, settle_memory, versions
from benchmarks.setting import print_table, synthetic

Array: TypeAlias = NDArray[Any]

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"

SETTINGS = [(100, 200, 2), (500, 100, 1)]
"""(k, draws, permutations)"""

REPEATS = 3

MIN_ROWS = {"discriminant": 5}
"""scikit-learn cannot train it on two rows, nor where each class is one row, repeated."""


@contextmanager
def pydvl(file: Path) -> Iterator[Callable[..., Any]]:
    """A process in pyDVL's environment, as a function: its answer to a request."""
    if not PYTHON.exists():
        raise SystemExit("pyDVL has no environment yet; `make bench-peers` makes one")
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [PYTHON, "-W", "ignore", HERE / "pydvl_marginals.py", file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **one_thread},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")

        def ask(**request: object) -> Any:
            if request:
                print(json.dumps(request), file=process.stdin, flush=True)
            answer = next(lines, None)
            if answer is None:
                raise SystemExit("pyDVL's process ended; what it said is above")
            return json.loads(answer)

        yield ask


def ours(name: str, X: Array, y: Array, test: ds.Points, *, n_draws: int, seed: int) -> float:
    """The seconds of a run."""
    start = time.perf_counter()
    points = ds.Points(X, y)
    U = ds.potential(MODELS[name], test=test, min_rows=MIN_ROWS.get(name, 1))
    design = ds.Design(points, m=len(points), seed=seed)
    ds.run(U, design, points, stop=n_draws, n_jobs=1, progress=False)
    return time.perf_counter() - start


def check(name: str, X: Array, y: Array, test: ds.Points, score: float) -> None:
    """Both sides mean the same U."""
    U = ds.potential(MODELS[name], test=test)
    if abs(U(ds.Points(X, y)) - score) * len(test) > 2.5:
        raise SystemExit(f"{name}, k = {len(X)}: the two sides do not score alike")


def main() -> None:
    database, test = synthetic()
    X, y = np.asarray(database.X), np.asarray(database.y)
    settle_memory()
    rows = []
    with tempfile.TemporaryDirectory() as folder, threadpoolctl.threadpool_limits(1):
        file = Path(folder) / "data.npz"
        np.savez(file, X=X, y=y, X_test=np.asarray(test.X), y_test=np.asarray(test.y))
        with pydvl(file) as ask:
            their_versions = ask()
            for name, (k, n_draws, n_permutations) in itertools.product(MODELS, SETTINGS):
                mine, theirs = [], []
                for turn in range(1 + REPEATS):
                    part = slice(turn * k, (turn + 1) * k)
                    seconds = ours(name, X[part], y[part], test, n_draws=n_draws, seed=turn)
                    if turn == 0:  # warm
                        continue
                    answer = ask(model=name, first=part.start, k=k, n=n_permutations, seed=turn)
                    mine.append(seconds * 1e6 / (n_draws * k))
                    theirs.append(answer["seconds"] * 1e6 / answer["trained"])
                    check(name, X[part], y[part], test, answer["score"])
                here, there = median(mine), median(theirs)
                rows.append([name, str(k), f"{here:.0f}", f"{there:.0f}", f"{there / here:.0f}"])
    print_table(
        "Beside pyDVL: microseconds a marginal (100 features, 2,000 test rows, one core)",
        ["model", "k", "dshapley", "pyDVL", "ratio"],
        rows,
    )
    print(f"dshapley: {versions()}\npyDVL 0.10.0: {their_versions}")


if __name__ == "__main__":
    main()
