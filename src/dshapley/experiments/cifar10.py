"""CIFAR-10: all 50,000 images valued from 1,000, beside values the paper could not afford."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dshapley.baselines.curves import removal
from dshapley.baselines.exact_neighbours import knn_values
from dshapley.data.points import Floats
from dshapley.experiments.shared.removing import RANDOM
from dshapley.experiments.shared.tasks import Task, exponent, within_classes
from dshapley.experiments.shared.work import Claim, Scale, Work
from dshapley.inference.completed import completed
from dshapley.inference.sampled import estimate
from dshapley.plots.figure import new_figure, shade
from dshapley.potentials import potential
from dshapley.running.run import run as run_draws
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.sizes import power

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "CIFAR-10: 50,000 images valued from 1,000"
PAPER = (
    "With weighted sampling (10x) and interpolation (50x), removing the 50 % of the points with "
    "the highest values lowers accuracy from 77 % to 68 % (appendix F). The paper retrains the "
    "last layer of an Inception-v3; here it is that of a ResNet-50, on 256 features."
)
MINUTES: dict[Scale, float] = {"smoke": 0.2, "small": 5, "full": 200}

FAST, DIRECT, KNN = "Fast-D-Shapley", "valued directly", "nearest neighbours, exact"
WITHIN, LOWEST = f"{FAST}, within each class", f"{FAST}, lowest first"
HALVES = f"{DIRECT}: two halves of the draws"
ALL, SAME = "all classes", "within classes"
AGREEING = 0.8
"""The share of the agreement of two halves of one way that two ways must reach."""
_HALF = 0.5
_BOOTSTRAPS = 400


@dataclass(frozen=True)
class Setting:
    """The task, how its points are valued, and what points are removed from."""

    task: Task
    _: KW_ONLY
    measured: int
    """The number of points with draws; the values of all others are interpolated from them."""
    draws: int
    direct: int
    """The number of further points that are valued directly, by different draws."""
    direct_draws: int
    sets: int
    """The number of disjoint training sets of m points each, made of those valued directly."""
    repeats: int = 5
    """The number of random orders of each set and of the whole database."""
    fractions: tuple[float, ...] = tuple(np.linspace(0, 0.9, 10).round(3).tolist())


def _task(**sizes: Any) -> Task:
    return Task(data="cifar10_resnet50", model="logistic", n_points=50_000, **sizes)


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        Task(
            data="digits",
            model="logistic",
            m=40,
            n_points=600,
            n_test=300,
            n_heldout=500,
            n_database=600,
        ),
        measured=150,
        draws=60,
        direct=160,
        direct_draws=60,
        sets=4,
        fractions=(0, 0.25, _HALF),
    ),
    "small": Setting(
        _task(m=500, n_test=2_000, n_heldout=8_000),
        measured=1_000,
        draws=600,
        direct=4_000,
        direct_draws=160,
        sets=8,
    ),
    "full": Setting(
        _task(m=2_000, n_test=2_000, n_heldout=8_000),
        measured=1_000,
        draws=4_000,
        direct=16_000,
        direct_draws=1_000,
        sets=8,
        repeats=10,
    ),
}


def run(scale: Scale | Work) -> pd.DataFrame:
    """Accuracy on held-out images as points are removed, and how well the values agree."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    values = {way: _kept(setting, work, way) for way in (FAST, DIRECT, KNN)}
    parts = [_agreement(setting, values), *_removals(setting, work, values)]
    return pd.concat(parts, ignore_index=True)


def _kept(setting: Setting, work: Work, way: str) -> pd.DataFrame:
    """The values that one way found, by row of the database."""
    find = {FAST: _fast, DIRECT: _direct, KNN: _knn}[way]
    return work.rows(partial(find, setting, work), "values", way, repr(setting))


def _fast(setting: Setting, work: Work) -> pd.DataFrame:
    """The values of all points: some measured by weighted sampling, the others interpolated."""
    import pandas as pd

    database = setting.task.dataset.database
    chosen = np.arange(len(database)) < setting.measured
    measured = estimate(_draws(setting, work, FAST, np.flatnonzero(chosen), setting.draws))
    work.say(f"{setting.task.name}: interpolating {(~chosen).sum():,} values")
    found = completed(measured, database, chosen).values
    return pd.DataFrame({"point": np.arange(len(database)), "value": found})


def _direct(setting: Setting, work: Work) -> pd.DataFrame:
    """The values of the points after the measured ones, from all draws and from each half."""
    import pandas as pd

    rows = setting.measured + np.arange(setting.direct)
    draws = _draws(setting, work, DIRECT, rows, setting.direct_draws)
    middle = len(draws) // 2
    parts = {
        "value": draws,
        "first": draws.take(slice(0, middle)),
        "second": draws.take(slice(middle, None)),
    }
    columns = {name: estimate(part).values for name, part in parts.items()}
    return pd.DataFrame({"point": rows, **columns})


def _knn(setting: Setting, work: Work) -> pd.DataFrame:
    """The exact values of all points for nearest neighbours, by a closed form."""
    import pandas as pd

    task = setting.task
    work.say(f"{task.name}: values for nearest neighbours, in closed form")
    data = task.dataset
    found = knn_values(data.database, test=data.test, m=task.m, n_jobs=work.n_jobs).values
    return pd.DataFrame({"point": np.arange(len(found)), "value": found})


def _draws(setting: Setting, work: Work, way: str, rows: Any, n: int) -> Draws:
    """The draws of a way, as in the paper or as precise as this package can. Seeds differ."""
    task = setting.task
    work.say(f"{task.name}: {n} draws for {len(rows):,} points, {way}")
    B, m = task.dataset.database, task.m
    if way == FAST:  # a speed-up of 10
        design = Design(B, m, weights=power(m, exponent(m, 0.1)), seed=0)
    else:
        design = Design(B, m, weights="auto", seed=1)
    store = work.runs(way, task.name, len(rows), repr(task))
    return run_draws(task.U, design, B.take(rows), stop=n, store=store, n_jobs=work.n_jobs)


def _agreement(setting: Setting, values: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Spearman's correlations over the points valued directly, also with class means subtracted.

    The errors are a bootstrap over points. They do not cover the errors that all points of a class
    share, which come from the draws and cancel within classes.
    """
    import pandas as pd

    direct = values[DIRECT].set_index("point")
    table = pd.DataFrame({way: found.set_index("point").value for way, found in values.items()})
    table = table.join(direct[["first", "second"]]).loc[direct.index]
    y = np.asarray(setting.task.dataset.database.y)[direct.index]
    pairs = {
        f"{FAST} and {DIRECT}": (FAST, DIRECT),
        f"{KNN} and {DIRECT}": (KNN, DIRECT),
        f"{KNN} and {FAST}": (KNN, FAST),
        HALVES: ("first", "second"),
    }
    rows = []
    for among, columns in ((ALL, table), (SAME, table - table.groupby(y).transform("mean"))):
        for pair, names in pairs.items():
            a, b = (columns[name].to_numpy() for name in names)
            about = {"pair": pair, "among": among, "spearman": stats.spearmanr(a, b).statistic}
            rows.append({**about, "stderr": _spearman_again(a, b).std(ddof=1)})
    return pd.DataFrame(rows).assign(what="agreement", points=f"{setting.direct:,} points")


def _spearman_again(a: Floats, b: Floats) -> Floats:
    rng = np.random.default_rng(0)
    again = rng.integers(len(a), size=(_BOOTSTRAPS, len(a)))
    ranks = (stats.rankdata(values[again], axis=1) for values in (a, b))
    x, y = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
    return np.asarray((x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1)))


def _removals(setting: Setting, work: Work, values: dict[str, pd.DataFrame]) -> list[pd.DataFrame]:
    """Removal from the whole database, and from training sets of m points."""
    B, m = setting.task.dataset.database, setting.task.m
    whole = f"all {len(B):,} points", [np.arange(len(B))]
    rows = setting.measured + np.arange(setting.sets * m)
    sets = f"sets of {m:,} points", np.split(rows, setting.sets)
    at = {way: found.set_index("point").value for way, found in values.items()}
    at |= {RANDOM: 0 * at[FAST], LOWEST: -at[FAST]}
    # The top half by value may have most of some classes; this order removes as many of each.
    at[WITHIN] = 0 * at[FAST] + within_classes(at[FAST].to_numpy(), np.asarray(B.y))
    parts = []
    for (points, places), last in ((whole, LOWEST), (sets, DIRECT)):
        for way in (RANDOM, FAST, WITHIN, KNN, last):
            make = partial(_curves, setting, work, points, places, way, at[way])
            parts.append(work.rows(make, "removal", points, way, repr(setting)))
    return parts


def _curves(
    setting: Setting, work: Work, points: str, places: list[Any], way: str, values: pd.Series[float]
) -> pd.DataFrame:
    """Accuracy on the held-out images, by training set, random order and fraction removed."""
    import pandas as pd

    task, parts = setting.task, []
    work.say(f"{task.name}: removing from {points}, {way}")
    # U is called without points z to add, for which plain fits are faster.
    U = potential(task.estimator, test=task.dataset.heldout, retrain="always")
    for i, rows in enumerate(places):
        curve = removal(
            U,
            task.dataset.database.take(rows),
            values[rows].to_numpy(),
            fractions=setting.fractions,
            # All values are 0, so the order by value is one more random order.
            repeats=setting.repeats - 1 if way == RANDOM else 0,
            seed=i,
            n_jobs=work.n_jobs,
        )
        for repeat, scores in enumerate([curve.scores, *curve.random]):
            about = {"set": i, "repeat": repeat, "fraction": curve.fractions}
            parts.append(pd.DataFrame({**about, "accuracy": scores}))
    found = pd.concat(parts, ignore_index=True)
    # The sampling error of the held-out images.
    found["stderr"] = np.sqrt(found.accuracy * (1 - found.accuracy) / len(task.dataset.heldout))
    return found.assign(what="removal", points=points, way=way)


def check(rows: pd.DataFrame) -> list[Claim]:
    """The claims that removing the top half hurts more than a random half, and that ways agree."""
    found = []
    for points, here in rows[rows.what == "removal"].groupby("points", sort=False):
        whole = here.accuracy[here.fraction == 0].mean()
        ways = here[here.fraction == _HALF].groupby("way", sort=False)
        half = {str(way): part for way, part in ways}
        random = half[RANDOM].accuracy.mean()
        for way in [way for way in half if way not in (RANDOM, LOWEST)]:
            text = (
                f"{points}: without the top half by {way} accuracy is lower than without a random "
                f"half ({whole:.1%} to {half[way].accuracy.mean():.1%}, random {random:.1%})"
            )
            found.append(_lower(text, half[way], half[RANDOM]))
    agreement = rows[rows.what == "agreement"]
    halves = agreement[agreement.pair == HALVES].set_index("among")
    for _, row in agreement[agreement.pair != HALVES].iterrows():
        best = halves.loc[row.among]
        text = (
            f"{row.pair} agree at least {AGREEING:.0%} as well as two halves of the direct draws "
            f"with each other (Spearman {row.spearman:.2f}, {best.spearman:.2f}; {row.among})"
        )
        by = float(row.spearman - AGREEING * best.spearman)
        error = 1.96 * float(np.hypot(row.stderr, AGREEING * best.stderr))
        found.append(Claim(text=text, by=by, low=by - error, high=by + error))
    return found


def _lower(text: str, top: pd.DataFrame, random: pd.DataFrame) -> Claim:
    """The claim that accuracy is lower, over sets, or over random orders if there is one set."""
    by = ["set"] if random.set.nunique() > 1 else ["set", "repeat"]
    means = random.groupby(by).accuracy.mean()
    claim = Claim.of(text, (means - top.groupby("set").accuracy.mean()).to_numpy())
    # Both are scored on the same images, so the error of independent images overstates theirs.
    images = 1.96 * np.hypot(random.stderr.mean(), top.stderr.mean())
    half = float(np.hypot((claim.high - claim.low) / 2, images))
    return Claim(text=text, by=claim.by, low=claim.by - half, high=claim.by + half)


def plot(rows: pd.DataFrame) -> Figure:
    """Two panels of removal and one of agreement."""
    removed, agreement = rows[rows.what == "removal"], rows[rows.what == "agreement"]
    panels = list(removed.groupby("points", sort=False))
    figure, axes = new_figure(1, len(panels) + 1)
    for axis, (points, here) in zip(axes[0], panels, strict=False):
        _panel(axis, here)
        axis.set(title=f"removal from {points}", xlabel="fraction of the points removed")
    axes[0, 0].set_ylabel("accuracy on held-out images")
    _dots(axes[0, -1], agreement)
    return figure


def _dots(axis: Axes, rows: pd.DataFrame) -> None:
    pairs = list(rows.pair.unique())[::-1]
    for (among, line), lift in zip(rows.groupby("among", sort=False), (0.1, -0.1), strict=True):
        places = [pairs.index(pair) + lift for pair in line.pair]
        error = 1.96 * line.stderr
        axis.errorbar(line.spearman, places, xerr=error, fmt="o", capsize=3, label=among)
    names = [pair.replace(" and ", "\nand ").replace(": ", ":\n") for pair in pairs]
    axis.set_yticks(range(len(pairs)), names, fontsize=8)
    axis.set(title=f"agreement, {rows.points.iloc[0]}", xlabel="Spearman's correlation")
    axis.set(xlim=(min(0, axis.get_xlim()[0]), 1), ylim=(-0.5, len(pairs) - 0.5))
    axis.legend(fontsize=8, loc="lower left")


def _panel(axis: Axes, rows: pd.DataFrame) -> None:
    colours = {RANDOM: "0.45", KNN: shade(0.5), DIRECT: shade(0.85)}
    dashes = {RANDOM: "--", WITHIN: "-.", LOWEST: ":"}
    for way, line in rows.groupby("way", sort=False):
        sets = line.groupby(["fraction", "set"])[["accuracy", "stderr"]].mean()
        mean = sets.accuracy.groupby("fraction").mean()
        # The error is over training sets; with only one of them, it is that of the images.
        images = sets.stderr.groupby("fraction").mean()
        error = sets.accuracy.groupby("fraction").sem().fillna(images)
        style: dict[str, Any] = {"color": colours.get(str(way), shade(0.0))}
        axis.plot(mean.index, mean, linestyle=dashes.get(str(way), "-"), label=way, **style)
        axis.fill_between(mean.index, mean - error, mean + error, alpha=0.12, linewidth=0, **style)
    axis.legend(fontsize=8)
