"""What an audit finds of planted faults: flipped labels, contradicting copies, a random group.

`python -m benchmarks.planted`, on embedded data. In each table 6 % of the labels are flipped,
twelve rows are there twice with another label (half of the copies differ a little), and the labels
of one of four sites, a quarter of the rows, are dealt at random.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

import dshapley as ds
from dshapley.data.datasets import adult_sample

SEEDS = range(3)
DRAWS = 300
FLIPPED, COPIED = 0.06, 12


class Planted(NamedTuple):
    """A table with faults, and where they are."""

    frame: pd.DataFrame
    target: str
    flipped: NDArray[np.bool_]
    copied: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    """Every label that differs from that of the clean table, at the random site too."""


def planted(frame: pd.DataFrame, target: str, seed: int) -> Planted:
    """The table with faults; its columns of numbers make the near copies."""
    rng = np.random.default_rng(seed)
    n = len(frame)
    frame = frame.reset_index(drop=True).assign(
        site=rng.choice(["north", "south", "east", "west"], n)
    )
    clean = frame[target].to_numpy()
    y = clean.copy()
    labels = np.unique(y)
    random = (frame["site"] == "west").to_numpy()
    y[random] = rng.permutation(y[random])
    flipped = (rng.random(n) < FLIPPED) & ~random

    def others(given: NDArray[np.object_]) -> NDArray[np.object_]:
        step = rng.integers(1, len(labels), len(given))
        return np.asarray(labels[(np.searchsorted(labels, given) + step) % len(labels)])

    y[flipped] = others(y[flipped])
    frame[target] = y
    chosen = rng.choice(np.flatnonzero(~flipped & ~random), COPIED, replace=False)
    again = frame.iloc[chosen].assign(**{target: others(y[chosen])})
    number = frame.select_dtypes("number").columns.drop(target, errors="ignore")[0]
    nudge = np.where(np.arange(COPIED) < COPIED // 2, 1e-3 * frame[number].std(), 0.0)
    again[number] = again[number] + nudge
    copied = np.isin(np.arange(n + COPIED), [*chosen, *range(n, n + COPIED)])
    pad = np.zeros(COPIED, dtype=bool)
    return Planted(
        pd.concat([frame, again], ignore_index=True), target, np.append(flipped, pad), copied,
        np.append(y != clean, ~pad),
    )  # fmt: skip


def tables() -> dict[str, tuple[pd.DataFrame, str]]:
    """The clean tables, each with its target."""
    adult = adult_sample().iloc[:1500].astype({"age": float})
    X, y = load_digits(return_X_y=True)
    digits = pd.DataFrame(X[:900]).add_prefix("pixel").assign(digit=y[:900].astype(str))
    X, y = load_breast_cancer(return_X_y=True)
    tumours = pd.DataFrame(X).add_prefix("c").assign(kind=np.array(["bad", "good"])[y])
    return {"Adult": (adult, "income"), "digits": (digits, "digit"), "tumours": (tumours, "kind")}


def main() -> None:
    """Print a line for each table and seed."""
    for name, (frame, target) in tables().items():
        for seed in SEEDS:
            made = planted(frame, target, seed)
            begun = time.perf_counter()
            found = ds.audit(made.frame, target=target, seed=seed, stop=DRAWS, retrain=False)
            seconds = time.perf_counter() - begun
            named = found.suspects
            regions = [region.rule for region in found.contradicted]
            assert found.run.labels is not None
            assert found.run.labels.noise is not None
            expected = found.run.labels.noise.wrong[named].sum()
            print(
                f"{name}, seed {seed}: {named.sum()} labels named, {expected:.0f} expected wrong, "
                f"{(named & made.wrong).sum()} wrong; {(named & made.flipped).sum()} of "
                f"{made.flipped.sum()} flipped labels; contradicting copies "
                f"{(found.copies.conflict & made.copied).sum()} of {made.copied.sum()}, others "
                f"{(found.copies.conflict & ~made.copied).sum()}; regions {regions}; "
                f"{seconds:.0f} s"
            )


if __name__ == "__main__":
    main()
