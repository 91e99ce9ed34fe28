"""What to collect next: a batch of candidates is added to a small labelled table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from numpy.typing import NDArray

from dshapley.collecting.batch import chosen_batch, doubt
from dshapley.data.datasets import Dataset, load
from dshapley.data.points import Array, Floats, Points
from dshapley.experiments.shared.work import Claim, Scale, Work
from dshapley.learners.by_name import model_from_name
from dshapley.plots.figure import new_figure
from dshapley.potentials import ModelPotential, potential
from dshapley.running.label_values import LabelValues, label_values
from dshapley.sampling.crossfitting import cross_fitted
from dshapley.sampling.design import Design

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TITLE = "What to collect next"
PAPER = (
    "No claim of the paper, which says that values guide the collection of data: here a batch of "
    "candidates is added to a small table, chosen by values, by doubt, or at random."
)
MINUTES: dict[Scale, float] = {"smoke": 0.2, "small": 26, "full": 900}

RANDOM, UNCERTAIN = "random", "uncertainty sampling"
DOUBT = "doubt, spread (collect)"
EXPECTED, EXPECTED_TEST = "expected value, cross-fitted", "expected value, test rows"
TRUE, TRUE_TEST = "value with its label, cross-fitted", "value with its label, test rows"
_SHOWN = (DOUBT, UNCERTAIN, EXPECTED, EXPECTED_TEST, TRUE, TRUE_TEST)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Tables, and the sizes of everything."""

    data: tuple[str, ...]
    n: int = 100
    """The rows of the table to begin with, and m."""
    pool: int = 200
    n_test: int = 300
    """The separate test rows of the ways that have some."""
    heldout: int = 3_000
    """The most fresh rows that batches are judged on."""
    repetitions: int = 16
    draws: int = 40
    orders: int = 10
    """The random orders of each repetition."""
    batches: tuple[int, ...] = (10, 20, 30)


TABLES = ("adult", "covertype", "pucrio_har", "digits")

SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        data=("adult_sample", "breast_cancer"), n=30, pool=40, n_test=60, heldout=150,
        repetitions=3, draws=20, orders=3, batches=(4, 8),
    ),
    "small": Setting(data=TABLES),
    "full": Setting(data=TABLES, n=200, pool=1_000, repetitions=50, draws=200),
}  # fmt: skip

_SIZES = {"digits": 1_797, "breast_cancer": 569}
"""The rows of the tables that are small."""


def run(scale: Scale | Work) -> pd.DataFrame:
    """Accuracy on fresh rows, by table, repetition, way and the number of rows added."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    # The repetitions are side by side, because the draws of one are too short to share out.
    parts = joblib.Parallel(n_jobs=work.n_jobs)(
        joblib.delayed(_part)(setting, table, repetition, work)
        for table in range(len(setting.data))
        for repetition in range(setting.repetitions)
    )
    rows = pd.concat(parts, ignore_index=True)
    return rows[["data", "repetition", "way", "added", "accuracy"]]


def _part(setting: Setting, table: int, repetition: int, work: Work) -> pd.DataFrame:
    """The rows of one repetition."""
    data = setting.data[table]
    work.say(f"{data}: repetition {repetition + 1} of {setting.repetitions}")
    make = partial(_repeated, setting, data, 100 * table + repetition)
    part = work.rows(make, "collecting", data, repetition, repr(setting))
    return part.assign(data=data, repetition=repetition)


def _repeated(setting: Setting, data: str, seed: int) -> pd.DataFrame:
    """One repetition: every way chooses its batches, and each is judged."""
    import pandas as pd

    loaded = _dataset(setting, data, seed)
    known = loaded.database.take(slice(0, setting.n))
    pool = loaded.database.take(slice(setting.n, setting.n + setting.pool))
    judge = _U(loaded.heldout)
    scores = _scores(setting, known, pool, loaded.test, seed)
    rng = np.random.default_rng([seed, len(pool)])
    orders = [rng.permutation(len(pool)) for _ in range(setting.orders)]
    found = [(way, 0, judge(known)) for way in (RANDOM, *scores)]
    for n in setting.batches:
        at_random = [judge(known + pool.take(order[:n])) for order in orders]
        found.append((RANDOM, n, float(np.mean(at_random))))
        for way, score in scores.items():
            batch = (
                np.argsort(-score, kind="stable")[:n]
                if way == UNCERTAIN
                else chosen_batch(score, pool, n)
            )
            found.append((way, n, judge(known + pool.take(batch))))
    return pd.DataFrame(found, columns=["way", "added", "accuracy"])


def _dataset(setting: Setting, data: str, seed: int) -> Dataset:
    n = setting.n + setting.pool
    heldout = min(setting.heldout, _SIZES.get(data, 10**9) - n - setting.n_test)
    return load(data, n_database=n, n_test=setting.n_test, n_heldout=heldout, seed=seed)


def _U(test: Points) -> ModelPotential:
    return potential(model_from_name("logistic", "classification"), test=test)


def _scores(
    setting: Setting, known: Points, pool: Points, test: Points, seed: int
) -> dict[str, Floats]:
    """What each way goes by: the candidates of the highest scores are collected."""
    valued = {
        crossed: _values(setting, known, pool, None if crossed else test, seed)
        for crossed in (True, False)
    }
    trained = model_from_name("logistic", "classification").fit(known.X, known.y)
    assert pool.y is not None
    return {
        UNCERTAIN: -trained.predict_proba(pool.X).max(axis=1),
        DOUBT: doubt(valued[True].probability),
        EXPECTED: valued[True].expected.values,
        EXPECTED_TEST: valued[False].expected.values,
        TRUE: _of_label(valued[True], pool.y),
        TRUE_TEST: _of_label(valued[False], pool.y),
    }


def _values(
    setting: Setting, known: Points, pool: Points, test: Points | None, seed: int
) -> LabelValues:
    """The values of the candidates with every label, as `dshapley collect` finds them."""
    m = len(known)
    options: dict[str, Any] = {"stop": setting.draws, "n_jobs": 1}
    if test is not None:
        return label_values(_U(test), Design(known, m, seed=seed), pool, **options)
    U = cross_fitted(_U(known), known, seed=seed)
    return label_values(U, Design(known, m, seed=seed, folds=U.rows), pool, **options)


def _of_label(found: LabelValues, y: Array) -> Floats:
    """The value of each row with its own label; the lowest for a label that the table lacks."""
    labels = found.labels[0]
    place: NDArray[np.intp] = np.searchsorted(labels, y).clip(max=len(labels) - 1)
    own = found.values[np.arange(len(y)), place]
    return np.where(labels[place] == y, own, found.values.min())


def check(rows: pd.DataFrame) -> list[Claim]:
    """The claims: batches by doubt, and by values, are better than random ones."""
    found = []
    added = rows[rows.added > 0]
    mean = added.groupby(["data", "way", "repetition"], sort=False).accuracy.mean()
    for data in rows.data.unique():
        here = mean[data].unstack("way")
        for way, other in (
            (DOUBT, RANDOM),
            (DOUBT, UNCERTAIN),
            (EXPECTED_TEST, RANDOM),
            (TRUE_TEST, RANDOM),
        ):
            text = (
                f"{data}: {way} is better than {other} "
                f"(accuracy {here[way].mean():.4f}, {here[other].mean():.4f})"
            )
            found.append(Claim.of(text, (here[way] - here[other]).to_numpy()))
    return found


def plot(rows: pd.DataFrame) -> Figure:
    """One panel for each table: how much more accuracy each way brings than a random batch."""
    tables = rows.data.unique()
    figure, axes = new_figure((len(tables) + 1) // 2, 2)
    for data, axis in zip(tables, axes.flat, strict=False):
        here = rows[rows.data == data].pivot_table(
            index=["repetition", "added"], columns="way", values="accuracy"
        )
        apart = 100 * here.sub(here[RANDOM], axis=0)
        for way in _SHOWN:
            by_size = apart[way].groupby("added")
            mean, error = by_size.mean(), by_size.sem()
            axis.errorbar(mean.index, mean, error, label=way, capsize=2)
        axis.axhline(0, color="0.45", linestyle="--")
        axis.set(title=data, xlabel="rows added")
    for axis in axes[:, 0]:
        axis.set_ylabel("percentage points above random")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
