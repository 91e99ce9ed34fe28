"""Exact nearest-neighbour values of all 50,000 CIFAR-10 training images: seconds, and memory.

`python -m benchmarks.closed_form FOLDER`, with the folder of `benchmarks.learners`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import dshapley as ds
from benchmarks.setting import cifar10, print_table


def _peak_gigabytes() -> float:
    """The peak memory of this process and its workers together, as Linux knows it."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
        except OSError:  # ended meanwhile
            continue
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if os.getpid() in (int(process.name), int(facts["PPid"])):
            total += int(facts["VmHWM"].split()[0])
    return total / 1024**2


def main(folder: Path) -> None:
    database, test = cifar10(folder, n_test=10_000)
    start = time.perf_counter()
    valuation = ds.knn_values(database, test=test, n_neighbors=5, m=1000, n_jobs=2)
    seconds = time.perf_counter() - start
    print_table(
        "Closed-form kNN: 50,000 points, 10,000 test rows, 256 features, K = 5, m = 1,000",
        ["processes", "seconds", "peak GB", "mean value", "below zero"],
        [["2", f"{seconds:.0f}", f"{_peak_gigabytes():.1f}", f"{valuation.values.mean():.6f}",
          f"{(valuation.values < 0).mean():.1%}"]],
    )  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.closed_form FOLDER")
    main(Path(sys.argv[1]))
