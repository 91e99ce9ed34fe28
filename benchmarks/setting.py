"""The data and the stopwatch that the benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
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


def adult(folder: Path) -> tuple[ds.Points, ds.Points]:
    """A database of 40,000 people and a test set of 5,000; categories as columns of 0 and 1."""
    table = pd.read_parquet(folder / "adult.parquet").sample(45_000, random_state=0)
    y = table["income"].to_numpy(dtype=np.int64)
    table = table.drop(columns=["income", "split"])
    numbers = table.select_dtypes("number").astype(np.float64)
    numbers = (numbers - numbers.min()) / (numbers.max() - numbers.min())  # counts stay >= 0
    X = pd.get_dummies(table.select_dtypes("category"), dtype=np.float64).join(numbers).to_numpy()
    return ds.Points(X[:40_000], y[:40_000]), ds.Points(X[40_000:], y[40_000:])


def cifar10(folder: Path, *, n_test: int) -> tuple[ds.Points, ds.Points]:
    """The 50,000 training images by their 256 features, and the first `n_test` test images."""
    with np.load(folder / "cifar10_resnet50.npz") as arrays:
        X, y, split = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64), arrays["split"]
    train, test = X[split == 0], X[split == 1][:n_test]
    return ds.Points(train, y[split == 0]), ds.Points(test, y[split == 1][:n_test])


TARGETS = {"covertype": "Cover_Type", "diabetes130": "readmitted", "sensorless_drive": "class"}


def table_of(folder: Path, name: str, *, n_test: int) -> tuple[ds.Points, ds.Points]:
    """A database of 10,000 rows of a table, and some test rows; categories as codes."""
    table = pd.read_parquet(folder / f"{name}.parquet").sample(10_000 + n_test, random_state=0)
    y = table.pop(TARGETS[name]).to_numpy(dtype=np.int64)
    if name == "diabetes130":
        table, y = table.drop(columns=["encounter_id", "patient_nbr"]), (y > 0).astype(np.int64)
    for column in table.select_dtypes("category"):
        table[column] = table[column].cat.codes
    X = table.to_numpy(dtype=np.float64)
    return ds.Points(X[n_test:], y[n_test:]), ds.Points(X[:n_test], y[:n_test])


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
    console = Console()
    console.width = max(console.width, 130)  # in a file, no column is cut
    console.print(table)
