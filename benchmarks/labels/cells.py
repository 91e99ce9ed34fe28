"""The cells of the benchmark: a table, a seed and a kind of noise.

Every tool reads the same `.npz` of features and noisy labels. Which labels were flipped is in
another file, which no tool is given.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from benchmarks.labels.settings import (
    FEWEST_OF_A_CLASS,
    FEWEST_REFERENCE,
    N_REFERENCE,
    N_ROWS,
    NOISES,
    NOT_FEATURES,
    TABLES,
    TARGETS,
    Noise,
)
from dshapley.data.tables import prepare

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Cell:
    """A table with noisy labels."""

    table: str
    seed: int
    noise: Noise

    @property
    def name(self) -> str:
        """The name of the cell's files."""
        return f"{self.table}-{self.seed}-{self.noise.kind}"


def cells(seeds: Sequence[int], tables: Sequence[str] = TABLES) -> list[Cell]:
    """All cells, seed by seed, so that an interrupted benchmark has whole seeds."""
    found = itertools.product(seeds, tables, NOISES)
    return [Cell(table, seed, noise) for seed, table, noise in found]


def uniform(y: Array, rate: float, rng: np.random.Generator) -> Array:
    """Labels of which a share is replaced by another class, each as likely as the others."""
    return _flipped(y, rng.choice(len(y), round(rate * len(y)), replace=False), _others(y, rng))


def class_dependent(y: Array, rate: float, rng: np.random.Generator) -> Array:
    """Labels flipped at a rate of their class, from half to one and a half times `rate`.

    A class is always confused with the same other class, its successor in a random cycle.
    """
    cycle = rng.permutation(len(np.unique(y)))
    after = np.empty_like(cycle)
    after[cycle] = np.roll(cycle, -1)
    times = np.empty(len(cycle))
    times[cycle] = np.linspace(0.5, 1.5, len(cycle))
    weights = times[y] / times[y].sum()
    chosen = rng.choice(len(y), round(rate * len(y)), replace=False, p=weights)
    return _flipped(y, chosen, after[y])


def near_boundary(y: Array, rate: float, rng: np.random.Generator, sure: Floats) -> Array:
    """Labels flipped where the reference model is least sure, to the likeliest other class.

    `sure` has the probability of each class for each row. The margin of a row is the difference
    of its two highest. Of the three times `rate` rows with the smallest margins a third is flipped.
    """
    top = np.sort(sure, axis=1)[:, -2:]
    unsure = np.argsort(top[:, 1] - top[:, 0], kind="stable")[: round(3 * rate * len(y))]
    chosen = rng.choice(unsure, round(rate * len(y)), replace=False)
    others = sure.copy()
    others[np.arange(len(y)), y] = -1
    return _flipped(y, chosen, others.argmax(axis=1))


def _others(y: Array, rng: np.random.Generator) -> Array:
    n_classes = int(y.max()) + 1
    return np.asarray((y + rng.integers(1, n_classes, len(y))) % n_classes)


def _flipped(y: Array, chosen: Array, to: Array) -> Array:
    noisy = y.copy()
    noisy[chosen] = to[chosen]
    return noisy


def reference(X: Array, y: Array, X_other: Array, y_other: Array) -> Floats:
    """What a strong model that learned from right labels of other rows says of each row."""
    model = ExtraTreesClassifier(300, random_state=0)
    if len(y_other) >= FEWEST_REFERENCE:
        return np.asarray(model.fit(X_other, y_other).predict_proba(X))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return np.asarray(cross_val_predict(model, X, y, cv=folds, method="predict_proba"))


def rows(frame: pd.DataFrame, y: Array, rng: np.random.Generator) -> tuple[Array, ...]:
    """X and y of some rows of a table, and of other rows for the reference model.

    Features are one-hot encoded and scaled as fitted on the first rows, without labels. Rare
    classes are left out, and the others are numbered 0, 1, ...
    """
    order = rng.permutation(len(y))
    classes, counts = np.unique(y[order[:N_ROWS]], return_counts=True)
    kept = classes[counts >= FEWEST_OF_A_CLASS]
    order = order[np.isin(y[order], kept)]
    mine, other = order[:N_ROWS], order[N_ROWS : N_ROWS + N_REFERENCE]
    numbered = frame.assign(target=np.searchsorted(kept, y))
    tables = [numbered.iloc[part] for part in (mine, other if len(other) else mine[:1])]
    made = prepare(tables[0], test=tables[1], target="target", task="classification")
    assert made.test is not None
    return tuple(
        np.asarray(array) for array in (made.database.X, made.database.y, made.test.X, made.test.y)
    )


def table_of(name: str, folder: Path) -> tuple[pd.DataFrame, Array]:
    """The features of a table and its labels."""
    if name in ("digits", "breast_cancer"):
        X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
        return pd.DataFrame(X).add_prefix("x"), y
    frame = pd.read_parquet(folder / f"{name}.parquet")
    y = frame.pop(TARGETS[name]).to_numpy(dtype=np.int64)
    if name == "diabetes130":
        y = (y > 0).astype(np.int64)
    return frame.drop(columns=NOT_FEATURES.get(name, [])), y


def write(folder: Path, of: Sequence[Cell], data: Path) -> None:
    """The files of the cells that have none yet: what tools see, and which labels are wrong."""
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    (folder / "flipped").mkdir(exist_ok=True)
    missing = [c for c in of if not (folder / "flipped" / f"{c.name}.npy").exists()]
    missing.sort(key=lambda c: (c.table, c.seed))
    for name, of_table in itertools.groupby(missing, lambda c: c.table):
        frame, labels = table_of(name, data)
        for seed, of_seed in itertools.groupby(of_table, lambda c: c.seed):
            code = [seed, zlib.crc32(name.encode())]
            X, y, *others = rows(frame, labels, np.random.default_rng(code))
            here = list(of_seed)
            needed = any(cell.noise.kind == "boundary" for cell in here)
            sure = reference(X, y, *others) if needed else np.empty(0)
            for cell in here:
                rng = np.random.default_rng([*code, zlib.crc32(cell.noise.kind.encode())])
                noisy = flip(y, cell.noise, rng, sure)
                np.savez(folder / "cells" / f"{cell.name}.npz", X=X, y=noisy)
                np.save(folder / "flipped" / f"{cell.name}.npy", noisy != y)


def flip(y: Array, noise: Noise, rng: np.random.Generator, sure: Floats) -> Array:
    """The labels with noise of a kind."""
    if noise.kind == "boundary":
        return near_boundary(y, noise.rate, rng, sure)
    return {"uniform": uniform, "class": class_dependent}[noise.kind](y, noise.rate, rng)
