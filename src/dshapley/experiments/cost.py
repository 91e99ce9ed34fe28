"""The cost claim: what Fast-D-Shapley and TMC-Shapley cost to order points equally well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dshapley.baselines.curves import removal
from dshapley.baselines.data_shapley import permutation, tmc_draws
from dshapley.data.datasets import Dataset, load
from dshapley.data.points import Floats, Points
from dshapley.experiments.shared.tasks import within_classes
from dshapley.experiments.shared.work import Claim, Rows, Scale, Work
from dshapley.inference.completed import completed
from dshapley.inference.estimation import NESTED_EVERY
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.sampled import estimate
from dshapley.learners.by_name import model_from_name
from dshapley.plots.figure import new_figure
from dshapley.potentials import ModelPotential, potential
from dshapley.running.run import run as run_draws
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.sizes import bands

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Cost of Fast-D-Shapley and of TMC-Shapley at equal removal quality"
PAPER = (
    "The new algorithm runs two orders of magnitude faster than state-of-the-art algorithms for "
    "data Shapley values (abstract)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.2, "small": 6, "full": 300}

TMC, TMC_WHOLE, ALGORITHM_1 = "TMC-Shapley", "TMC-Shapley, never cut", "Algorithm 1"
"""TMC-Shapley with its usual tolerance of 0.01, and with a tolerance of 0, which is slower but
unbiased. Claims compare with the better of the two."""
FAST, OURS = "Fast-D-Shapley", "auto + balanced + control variates"
"""The paper's weighted sampling, and the sampling of this package (docs/precision.md)."""
LEVELS = (0.5, 0.8)
"""Costs are compared where a way reaches these shares of the best final quality, and stays there:
with few draws a way may reach a level by luck."""
_FIRST_SEED = 100
"""Levels, orders and sizes were chosen on repetitions with smaller seeds."""
COSTS = {"trainings": "rows trained on", "seconds": "seconds"}
"""The paper's measure, in which each marginal is a training of S + z, and the time taken here."""
ALL, WITHIN = "removal", "removal within classes"
"""The paper's order of removal, and one that removes each class at the same pace.

Points of a class share most of their error, so few draws may put one class before the other.
Removing a class hurts whatever its points are worth; within classes only the values count."""
_BOOTSTRAPS = 1_000


@dataclass(frozen=True)
class Setting:
    """Training sets B, how precisely their points are valued, and how the values are judged."""

    data: str
    _: KW_ONLY
    n: int
    """The number of points in B, which is also the database: all ways have the same rows."""
    n_test: int
    n_heldout: int
    repetitions: int
    """How often everything is repeated with different rows of B, test set and held-out rows."""
    permutations: int
    """The permutations of TMC-Shapley, a power of 2; a quarter of them if nothing is cut."""
    draws: int
    p: float
    """The share of points that Fast-D-Shapley measures; it is also run on all points."""
    repeats: int = 20
    """The number of random orders of removal."""


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        "adult_sample", n=60, n_test=200, n_heldout=400, repetitions=3, permutations=8, draws=8,
        p=0.3, repeats=5,
    ),
    "small": Setting(
        "adult", n=200, n_test=1_000, n_heldout=4_000, repetitions=10, permutations=128, draws=256,
        p=0.2,
    ),
    "full": Setting(
        "adult", n=5_000, n_test=5_000, n_heldout=10_000, repetitions=8, permutations=512,
        draws=4_096, p=0.1,
    ),
}  # fmt: skip


def run(scale: Scale | Work) -> Rows:
    """Cost, and how much more removal hurts than at random, by repetition, way and draws."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    parts = []
    for i in range(_FIRST_SEED, _FIRST_SEED + setting.repetitions):
        work.say(f"repetition {i - _FIRST_SEED + 1} of {setting.repetitions}")
        part = work.rows(partial(_repetition, setting, i, work), "quality", i, repr(setting))
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Look:
    """The values that a way has found after some draws, and their cost."""

    way: str
    draws: int
    trainings: float
    seconds: float
    values: Floats


def _repetition(setting: Setting, i: int, work: Work) -> Rows:
    import pandas as pd

    sizes: dict[str, Any] = {
        "n_database": setting.n,
        "n_test": setting.n_test,
        "n_heldout": setting.n_heldout,
    }
    data = load(setting.data, **sizes, seed=i)
    options: dict[str, Any] = {
        "fractions": np.linspace(0.05, 0.5, 10),
        "seed": i,
        "n_jobs": work.n_jobs,
    }
    heldout_U, B = _U(data.heldout), data.database
    curve = removal(heldout_U, B, np.zeros(setting.n), repeats=setting.repeats, **options)
    random = curve.random_mean
    rows = []
    for look in _looks(setting, data, i, work):
        about = {name: getattr(look, name) for name in ("way", "draws", *COSTS)}
        within = within_classes(look.values, np.asarray(B.y))
        for order, values in ((ALL, look.values), (WITHIN, within)):
            scores = removal(heldout_U, B, values, repeats=0, **options).scores
            area = float((random - scores).mean())
            rows.append({"order": order, "repetition": i, **about, "area": area})
    return pd.DataFrame(rows)


def _U(test: Points) -> ModelPotential:
    return potential(model_from_name("logistic", "classification"), test=test)


def _looks(setting: Setting, data: Dataset, i: int, work: Work) -> Iterator[_Look]:
    weighted: dict[str, Any] = {"weights": "1/k"}
    best: dict[str, Any] = {"weights": "auto", "balanced": True, "control_variates": True}
    yield from _tmc(TMC, setting.permutations, 0.01, setting, data, i, work)
    yield from _tmc(TMC_WHOLE, setting.permutations // 4, 0.0, setting, data, i, work)
    yield from _d_shapley(ALGORITHM_1, setting, data, i, work)
    yield from _d_shapley(FAST, setting, data, i, work, **weighted)
    yield from _d_shapley(
        f"{FAST}, p = {setting.p:g}", setting, data, i, work, p=setting.p, **weighted
    )
    yield from _d_shapley(OURS, setting, data, i, work, **best)


def _tmc(
    way: str, n: int, tolerance: float, setting: Setting, data: Dataset, i: int, work: Work
) -> Iterator[_Look]:
    work.say(f"seed {i}: {way}")
    store = work.runs(way, i, repr(setting))
    options: dict[str, Any] = {"seed": i, "store": store, "n_jobs": work.n_jobs}
    U = _U(data.test)
    whole = tmc_draws(U, data.database, permutations=n, tolerance=tolerance, **options)
    for looked in _powers(n):
        record = whole.first(looked)
        assert record.seconds is not None
        cuts = _cuts(record, i) if tolerance else [setting.n] * looked
        trained = setting.n + sum(c * (c + 1) / 2 for c in cuts)  # the first n are for U(B)
        yield _Look(
            way=way,
            draws=looked,
            trainings=trained,
            seconds=float(record.seconds.sum()),
            values=estimate(record).values,
        )


def _cuts(record: Draws, seed: int) -> list[int]:
    """How many points each permutation went through before it was cut.

    The last of these points changed U, or the cut would have come earlier. So it is the last point
    whose marginal is not 0. The permutations are those that `tmc` draws.
    """
    found = []
    for t, gains in zip(record.t, record.marginals, strict=True):
        _, order = permutation(len(gains), int(t), seed=seed)
        found.append(1 + int(np.flatnonzero(gains[order]).max(initial=-1)))
    return found


def _d_shapley(
    way: str, setting: Setting, data: Dataset, i: int, work: Work, *, p: float = 1, **options: Any
) -> Iterator[_Look]:
    work.say(f"seed {i}: {way}")
    B = data.database
    design = Design(B, setting.n, seed=i, **options)
    chosen = chosen_to_measure(B, p, i) if p < 1 else np.ones(len(B), dtype=bool)
    Z = B.take(chosen) if p < 1 else B
    store = work.runs(way, i, repr(setting))
    n_jobs = work.n_jobs
    whole = run_draws(_U(data.test), design, Z, stop=setting.draws, store=store, n_jobs=n_jobs)
    # There are fewer looks if each needs a regression, which takes seconds.
    for n in _powers(setting.draws)[1 if p < 1 else 0 :: 2 if p < 1 else 1]:
        record = whole.first(n)
        assert record.seconds is not None
        # Counted as if each marginal were a training of S + z, without the savings of docs/fast.md.
        trained = float((len(Z) * record.k + record.k - 1).sum())
        if design.control_variates:
            trained += -(-n // NESTED_EVERY) * float((bands(design.m) - 1).sum())
        started = time.perf_counter()
        found = estimate(record, points=Z)
        values = found.values if p == 1 else completed(found, B, chosen).values
        took = time.perf_counter() - started  # mostly for the regression
        yield _Look(
            way=way,
            draws=n,
            trainings=trained,
            seconds=float(record.seconds.sum()) + took,
            values=values,
        )


def _powers(most: int) -> list[int]:
    """2, 4, 8, ... up to `most`. One draw alone has no error, which a regression needs."""
    return [2**i for i in range(1, most.bit_length())]


def check(rows: Rows) -> list[Claim]:
    """The claims that each way is 100 times cheaper than TMC-Shapley, as powers of ten."""
    found = []
    for order, (cost, unit), level in product(rows.order.unique(), COSTS.items(), LEVELS):
        tables = _tables(rows[rows.order == order], cost)
        for way in (way for way in tables if way not in (TMC, TMC_WHOLE, ALGORITHM_1)):
            ends = _ratio(tables, way, level)
            text = (
                f"{way} is 100 times cheaper than {TMC} at {level:.0%} of the best quality of "
                f"{order}, in {unit} ({_times(*ends)})"
            )
            found.append(Claim(text=text, by=ends[0] - 2, low=ends[1] - 2, high=ends[2] - 2))
    return found


def _times(by: float, low: float, high: float) -> str:
    """How many times cheaper a way is, with the interval, from logarithms to the base 10.

    >>> _times(3.012, 0.5, np.inf)
    '1,000 times, 3.2 or more'
    >>> _times(np.inf, -np.inf, np.inf)
    'neither reaches it'
    """
    if np.isinf(by):
        return "neither reaches it"
    least, most = (_shown(10**end) for end in (low, high))
    ends = {
        (True, True): f"{least} to {most}",
        (True, False): f"{least} or more",
        (False, True): f"{most} or fewer",
        (False, False): "with no bounds",
    }
    return f"{_shown(10**by)} times, {ends[bool(np.isfinite(low)), bool(np.isfinite(high))]}"


def _shown(times: float) -> str:
    return f"{float(f'{times:.2g}'):,.0f}" if 10 <= times < np.inf else f"{times:.2g}"


def _tables(rows: Rows, cost: str) -> dict[str, tuple[Floats, Floats]]:
    """By way, log10 of the cost and the quality, each (repetitions, looks)."""
    found = {}
    for way, here in rows.groupby("way", sort=False):
        wide = here.pivot(index="repetition", columns="draws", values=[cost, "area"])
        found[way] = np.log10(wide[cost].to_numpy()), wide["area"].to_numpy()
    return found


def _ratio(
    tables: dict[str, tuple[Floats, Floats]], way: str, share: float
) -> tuple[float, float, float]:
    """log10 of the cost of the better TMC-Shapley divided by that of `way`, with its 95 % interval.

    The interval is a bootstrap over repetitions, widened as Student's interval is for few of them
    (the expanded percentile interval of Hesterberg 2015). If a way never reaches the level, or is
    above it at the first look, only a bound of its cost is known, and the interval includes it.
    """
    n = len(tables[way][0])
    again = np.random.default_rng(0).integers(n, size=(_BOOTSTRAPS, n))
    some = np.vstack([np.arange(n), again])  # the repetitions, and their bootstraps
    means = {w: (x[some].mean(axis=1), area[some].mean(axis=1)) for w, (x, area) in tables.items()}
    level = share * np.max([area[:, -1] for _, area in means.values()], axis=0)
    lows, highs = zip(*(_reached(*means[w], level) for w in (TMC, TMC_WHOLE)), strict=True)
    way_low, way_high = _reached(*means[way], level)
    low, high = np.min(lows, axis=0) - way_high, np.min(highs, axis=0) - way_low
    tail = stats.norm.cdf(stats.t.ppf(0.025, n - 1) * np.sqrt(n / (n - 1)))
    ends = [(low, tail), (high, 1 - tail)]
    below, above = (np.quantile(end[1:], q, method="inverted_cdf") for end, q in ends)
    return float(low[0] if np.isfinite(low[0]) else high[0]), float(below), float(above)


def _reached(cost: Floats, area: Floats, level: Floats) -> tuple[Floats, Floats]:
    """Bounds of the cost from which on each row of qualities stays above its level."""
    below = area < level[:, np.newaxis]
    above = ~np.logical_or.accumulate(below[:, ::-1], axis=1)[:, ::-1]
    i, j = np.arange(len(area)), above.argmax(axis=1)
    before = np.maximum(j - 1, 0)
    rise = area[i, j] - area[i, before]
    part = np.divide(level - area[i, before], rise, out=np.ones(len(area)), where=j > 0)
    at = cost[i, before] + part * (cost[i, j] - cost[i, before])
    there, at_once = above.any(axis=1), above.all(axis=1)
    low, high = np.where(there, at, cost[:, -1]), np.where(there, at, np.inf)
    return np.where(at_once, -np.inf, low), high


def plot(rows: Rows) -> Figure:
    """One row of panels for each order of removal: quality against each of the two costs."""
    orders = rows.order.unique()
    figure, axes = new_figure(len(orders), len(COSTS), sharex="col", sharey="row")
    for axis, (order, (cost, unit)) in zip(axes.flat, product(orders, COSTS.items()), strict=True):
        tables = _tables(rows[rows.order == order], cost)
        for (way, (x, area)), marker in zip(tables.items(), "x+ovs^", strict=True):
            grey = {TMC: "black", TMC_WHOLE: "0.5"}
            style: dict[str, Any] = {"color": grey[way]} if way in grey else {}
            options = {"marker": marker, "capsize": 2, "label": way, **style}
            axis.errorbar(10 ** x.mean(axis=0), area.mean(axis=0), stats.sem(area), **options)
        best = max(area[:, -1].mean() for _, area in tables.values())
        for level in LEVELS:
            axis.axhline(level * best, color="0.5", linestyle=":", linewidth=1)
        shares = " and ".join(f"{level:.0%}" for level in LEVELS)
        axis.plot([], [], color="0.5", linestyle=":", label=f"{shares} of the best")
        axis.set(title=f"adult: {order}", xscale="log", xlabel=unit)
    for row in axes:
        row[0].set_ylabel("accuracy lost beyond random removal")
    axes[0, 0].legend(fontsize=7)
    return figure
