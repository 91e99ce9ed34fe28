"""The data and the stopwatch that the benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

import dshapley as ds


def synthetic() -> tuple[ds.Points, ds.Points]:
    """A database of 10,000 points and a test set of 2,000; 100 features, two classes."""
    X, y = make_classification(12_000, 100, n_informative=20, flip_y=0.1, random_state=0)
    X = StandardScaler().fit_transform(X)
    return ds.Points(X[:10_000], y[:10_000]), ds.Points(X[10_000:], y[10_000:])


def alternate(
    first: Callable[[], object], second: Callable[[], object], repeats: int
) -> list[float]:
    """The median seconds of two jobs, timed in turn so that a noisy machine is noisy to both."""
    first(), second()  # warm
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        for job, spent in zip((first, second), times, strict=True):
            start = time.perf_counter()
            job()
            spent.append(time.perf_counter() - start)
    return [median(spent) for spent in times]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of numbers on the screen."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
