"""Mislabelled points: labels are flipped and searched for among the points of lowest value."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.data_shapley import leave_one_out, random_order, tmc
from dshapley.baselines.exact_neighbours import knn_values
from dshapley.data.datasets import Dataset, divided, load
from dshapley.data.points import Points
from dshapley.data.tables import read_table
from dshapley.experiments.shared.work import Claim, Scale, Work
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.learners.by_name import model_from_name
from dshapley.plots.figure import new_figure
from dshapley.potentials import potential
from dshapley.running.run import run as run_draws
from dshapley.sampling.design import Design

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TITLE = "Finding mislabelled points by their value"
PAPER = (
    "No claim of the paper, but what data Shapley values were first used for (Ghorbani and Zou "
    "2019): points with a wrong label should be those of lowest value."
)
MINUTES: dict[Scale, float] = {"smoke": 0.2, "small": 4.5, "full": 300}

D_SHAPLEY, NEIGHBOURS = "D-Shapley", "D-Shapley of 5 neighbours, closed form"
TMC, LEFT_OUT, RANDOM = "TMC-Shapley", "leave-one-out", "random"
MARGIN = 0.02
"""The area under the curve by which D-Shapley may be worse than TMC-Shapley."""

Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """Tables, and how precisely their points are valued."""

    data: tuple[str, ...]
    _: KW_ONLY
    n: int
    """The number of points in a training set, which is also the database; m is n / 2."""
    n_test: int
    repetitions: int
    """How often everything is repeated with different rows and flips."""
    draws: int
    permutations: int
    """The permutations of TMC-Shapley, chosen so that it takes about as long as D-Shapley."""
    share: float = 0.1
    """The share of the labels that is flipped; the labels of the test set stay right."""
    inspected: tuple[float, ...] = tuple(np.linspace(0.05, 0.5, 10).round(2).tolist())


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        ("adult_sample", "breast_cancer"), n=80, n_test=150, repetitions=3, draws=40,
        permutations=3,
    ),
    "small": Setting(
        ("adult", "physionet2012", "breast_cancer"), n=200, n_test=300, repetitions=10, draws=300,
        permutations=20,
    ),
    "full": Setting(
        ("adult", "physionet2012"), n=2_000, n_test=1_000, repetitions=20, draws=3_000,
        permutations=300,
    ),
}  # fmt: skip


def run(scale: Scale | Work) -> pd.DataFrame:
    """The area under the curve and the shares found by inspection, by table, repetition and way."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    parts = []
    for table, data in enumerate(setting.data):
        for repetition in range(setting.repetitions):
            work.say(f"{data}: repetition {repetition + 1} of {setting.repetitions}")
            i = 100 * table + repetition  # a different seed for each table and repetition
            loaded = _dataset(setting, data, i, work)
            B, flipped = with_flips(loaded.database, setting.share, seed=i)
            for way, value in _ways(setting, B, loaded.test, i, work).items():
                make = partial(_judged, setting, value, flipped, i)
                key = ("mislabelled", loaded.name, way, i, repr(setting), B.fingerprint())
                part = work.rows(make, *key)
                about = {"data": loaded.name, "way": way, "repetition": repetition}
                parts.append(part.assign(**about)[[*about, *part.columns]])
    return pd.concat(parts, ignore_index=True)


def _dataset(setting: Setting, data: str, i: int, work: Work) -> Dataset:
    sizes: dict[str, Any] = {"n_database": setting.n, "n_test": setting.n_test, "n_heldout": 0}
    if data == work.medical and work.table is not None:
        path, target = work.table
        name = f"{path.stem} (own)"
        return divided(read_table(path), target=target, name=name, **sizes, seed=i)
    return load(data, **sizes, seed=i)


def with_flips(points: Points, share: float, *, seed: int) -> tuple[Points, Flags]:
    """The points with a share of their labels changed to another class, and a mask of the changed.

    >>> B, flipped = with_flips(Points(np.zeros((10, 1)), [0] * 5 + [1] * 5), 0.2, seed=0)
    >>> int(flipped.sum()), bool((B.y != [0] * 5 + [1] * 5)[flipped].all())
    (2, True)
    """
    rng = np.random.default_rng([seed, len(points)])
    flipped = np.zeros(len(points), dtype=bool)
    flipped[rng.permutation(len(points))[: round(share * len(points))]] = True
    classes, codes = np.unique(np.asarray(points.y), return_inverse=True)
    others = codes + rng.integers(1, len(classes), size=len(codes))
    y = classes[np.where(flipped, others, codes) % len(classes)]
    return Points(points.X, y, ids=points.ids), flipped


def _ways(
    setting: Setting, B: Points, test: Points, i: int, work: Work
) -> dict[str, Callable[[], Valuation]]:
    U = potential(model_from_name("logistic", "classification"), test=test)
    m, n_jobs = setting.n // 2, work.n_jobs
    design = Design(B, m, weights="auto", seed=i)

    def store(way: str) -> Path | None:
        return work.runs(way, i, repr(setting), B.fingerprint())

    return {
        D_SHAPLEY: lambda: estimate(
            run_draws(U, design, B, stop=setting.draws, n_jobs=n_jobs, store=store(D_SHAPLEY))
        ),
        NEIGHBOURS: lambda: knn_values(B, test=test, m=m, n_jobs=n_jobs),
        TMC: lambda: tmc(
            U, B, permutations=setting.permutations, seed=i, n_jobs=n_jobs, store=store(TMC)
        ),
        LEFT_OUT: lambda: leave_one_out(U, B),
        RANDOM: lambda: random_order(B, seed=i),
    }


def _judged(
    setting: Setting, value: Callable[[], Valuation], flipped: Flags, i: int
) -> pd.DataFrame:
    import pandas as pd
    from sklearn.metrics import roc_auc_score

    started = time.perf_counter()
    values = value().values
    seconds = time.perf_counter() - started
    # Equal values are put in random order: leave-one-out has many of them.
    ties = np.random.default_rng(i).permutation(len(values))
    from_below = flipped[np.lexsort((ties, values))]
    counts = np.rint(np.array(setting.inspected) * len(values)).astype(int)
    found = [from_below[:count].sum() / flipped.sum() for count in counts]
    shares = pd.DataFrame({"inspected": setting.inspected, "found": found})
    auc = float(roc_auc_score(flipped, -values))
    return pd.concat([pd.DataFrame({"seconds": seconds, "auc": auc}, shares.index), shares], axis=1)


def check(rows: pd.DataFrame) -> list[Claim]:
    """The claims: D-Shapley beats random and leave-one-out, and is no worse than TMC-Shapley."""
    found = []
    each = rows.groupby(["data", "way", "repetition"], sort=False)[["auc", "seconds"]].first()
    for data in rows.data.unique():
        auc = each.auc[data].unstack("way")
        seconds = each.seconds[data].unstack("way").median()
        for way, other, margin in (
            (D_SHAPLEY, RANDOM, 0.0),
            (D_SHAPLEY, LEFT_OUT, 0.0),
            (D_SHAPLEY, TMC, MARGIN),
            (NEIGHBOURS, RANDOM, 0.0),
        ):
            text = (
                f"{data}: {way} finds flipped labels "
                f"{f'no worse (by {margin:g}) than' if margin else 'better than'} {other}"
                f" (area under the curve {auc[way].mean():.3f}, {auc[other].mean():.3f}; "
                f"{seconds[way]:.2g} s, {seconds[other]:.2g} s)"
            )
            found.append(Claim.of(text, (auc[way] - auc[other] + margin).to_numpy()))
    return found


def plot(rows: pd.DataFrame) -> Figure:
    """One panel for each table: the share found by the share inspected, lowest values first."""
    tables = rows.data.unique()
    figure, axes = new_figure(1, len(tables), sharey=True)
    for data, axis in zip(tables, axes[0], strict=True):
        here = rows[rows.data == data]
        for way, line in here.groupby("way", sort=False):
            by_share = line.groupby("inspected").found
            mean, error = by_share.mean(), by_share.sem()
            style: dict[str, Any] = {"color": "0.45", "linestyle": "--"} if way == RANDOM else {}
            label = f"{way} ({line.auc.mean():.2f})"
            axis.errorbar(mean.index, mean, error, label=label, capsize=2, **style)
        axis.set(title=data, xlabel="share of the points inspected, lowest value first")
        # The legend is below the panel, since the lines fill the panel.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.24)}
        axis.legend(
            fontsize=8, title="area under the ROC curve", title_fontsize=8, ncols=2, **place
        )
    axes[0, 0].set_ylabel("share of the flipped labels found")
    return figure
