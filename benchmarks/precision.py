"""Error against draws and seconds: the default beside Algorithm 1, Algorithm 2 and prediction.

Root-mean-square error and Spearman's rank correlation with the values of a long run, for some
seeds of each way to draw, as the draws come in; logistic regression, accuracy, seconds of one
core. Each run's first draws are looked at as if it had stopped there. Points share most of their
error, so that the error of a run is about as uncertain as that of a single value; the root mean
square of the standard errors, which is not, is looked at too.

`python -m benchmarks.precision FOLDER --out DIR` finds `adult.parquet` in FOLDER (see
`benchmarks.learners`) and writes a plot and a CSV file for each data set to DIR. The long runs are
kept in DIR too, so that a second call does not repeat them.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import dshapley as ds
from benchmarks.setting import adult, print_table
from dshapley.inference.completed import completed
from dshapley.inference.sampled import SampledValuation

FIRST, LOOKS, LOOKS_FITTED = 30, 12, 6
"""The draws of the first look at a run's error, and how many looks there are: fewer where each
fits a regression."""
BY_DRAWS = (30, 60, 100, 200, 300, 600, 1000, 2000)
"""Numbers of draws at which the ways are compared draw by draw."""


@dataclass(frozen=True)
class Way:
    """A way to draw, and to make values of the draws."""

    name: str
    design: dict[str, Any]
    p: float = 1.0


WAYS = [
    Way("uniform (Algorithm 1)", {"weights": "algorithm-1"}),
    Way("1/k (Algorithm 2)", {"weights": "algorithm-2"}),
    Way("default", {"weights": "auto"}),
    Way("default, p = 0.1", {"weights": "auto"}, p=0.1),
]


@dataclass(frozen=True)
class Case:
    """A data set, and how long to look at it."""

    name: str
    database: ds.Points
    test: ds.Points
    Z: ds.Points
    m: int
    seconds: float
    """Of each run."""
    truth: int
    """Draws of the long run."""
    seeds: int
    U: ds.Potential = field(init=False)

    def __post_init__(self) -> None:
        U = ds.potential(LogisticRegression(max_iter=1000), test=self.test, retrain="never")
        object.__setattr__(self, "U", U)


def cases(folder: Path | None) -> Iterator[Case]:
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    database = ds.Points(X[:400], y[:400])
    test = ds.Points(X[400:], y[400:])
    yield Case("breast cancer", database, test, database, 200, 12, 20_000, 8)
    if folder is not None:
        database, test = adult(folder)
        Z, test = database.take(slice(0, 1000)), test.take(slice(0, 2000))
        yield Case("Adult", database, test, Z, 1000, 50, 15_000, 5)


def truth(case: Case, out: Path) -> SampledValuation:
    """The values of a long run."""
    store = out / ".long runs" / case.name
    design = ds.Design(case.database, case.m, seed=10**6)
    draws = ds.run(case.U, design, case.Z, stop=case.truth, store=store, n_jobs=-1)
    return ds.estimate(draws)


def errors(case: Case, way: Way, seed: int, exact: ds.Valuation, disorder: float) -> pd.DataFrame:
    """Of one run, at some points of it: seconds, root-mean-square error, rank correlation."""
    chosen = np.ones(len(case.Z), dtype=bool)
    if way.p < 1:
        chosen = np.random.default_rng(seed).random(len(case.Z)) < way.p
    Z = case.Z if way.p == 1 else case.Z.take(chosen)
    design = ds.Design(case.database, case.m, seed=seed, **way.design)
    stop = ds.stopping.Seconds(case.seconds)
    draws = ds.run(case.U, design, Z, stop=stop, progress=False)
    assert draws.seconds is not None
    rows = []
    looks = LOOKS_FITTED if way.p < 1 else LOOKS
    spread = np.geomspace(FIRST, len(draws), looks).astype(int)
    exactly = [n for n in BY_DRAWS if n <= len(draws) and way.p == 1]
    for n in np.unique(np.concatenate([spread, exactly]).astype(int)):
        started = time.perf_counter()
        measured = ds.estimate(draws.first(int(n)), points=Z)
        found = measured if way.p == 1 else completed(measured, case.Z, chosen)
        fitting = time.perf_counter() - started
        gap = found.values - exact.values
        rows.append(
            {
                "way": way.name,
                "seed": seed,
                "draws": int(n),
                "seconds": float(draws.seconds[:n].sum()) + fitting,
                # The long run has an error of its own, and it is not ours.
                "mse": float((gap**2 - exact.stderr**2).mean()),
                "mse_order": float(gap.var() - disorder),
                "stated": float((found.stderr**2).mean()),
                "spearman": float(spearmanr(found.values, exact.values).statistic),
            }
        )
    return pd.DataFrame(rows)


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds, at common seconds: root of the mean square error, mean correlation."""
    found = []
    for way, runs in rows.groupby("way", sort=False):
        ends = runs.groupby("seed").seconds
        grid = np.geomspace(ends.min().max(), ends.max().min(), LOOKS)
        logs = [
            (
                np.interp(np.log(grid), np.log(run.seconds), np.log(run.mse.clip(lower=1e-16))),
                np.interp(np.log(grid), np.log(run.seconds), np.log(run.stated)),
                np.interp(np.log(grid), np.log(run.seconds), run.spearman),
            )
            for _, run in runs.groupby("seed")
        ]
        mse, stated = (np.mean([np.exp(log[i]) for log in logs], axis=0) for i in (0, 1))
        spearman = np.mean([log[2] for log in logs], axis=0)
        columns = {"rmse": mse**0.5, "stated": stated**0.5, "spearman": spearman}
        found.append(pd.DataFrame({"way": way, "seconds": grid, **columns}))
    return pd.concat(found, ignore_index=True)


def by_draws(case: Case, rows: pd.DataFrame) -> None:
    """The error of each way over that of 1/k, at the same number of draws."""
    for column, what in (("mse", "error"), ("mse_order", "error of differences")):
        means = rows.pivot_table(index="draws", columns="way", values=column, aggfunc="mean")
        means = means.loc[[n for n in BY_DRAWS if n in means.index], [w.name for w in WAYS[:3]]]
        ratios = means.div(means[WAYS[1].name], axis=0).dropna() ** 0.5
        print_table(
            f"{case.name}: root-mean-square {what} over that of 1/k, after so many draws",
            ["draws", *ratios.columns],
            [[str(n), *(f"{r:.2f}" for r in row)] for n, row in ratios.iterrows()],
        )


def table(case: Case, curves: pd.DataFrame, exact: ds.Valuation) -> None:
    end = {str(way): curve.iloc[-1] for way, curve in curves.groupby("way", sort=False)}
    spread = float(exact.values.std())
    for reference, column in itertools.product(WAYS[:2], ("rmse", "stated")):
        error = float(end[reference.name][column])
        times = {w: _seconds_to(curves[curves.way == w], column, error) for w in end}
        rows = []
        for way, seconds in times.items():
            ratios = (times[other.name] / seconds for other in WAYS[:2])
            rows.append([way, f"{seconds:.1f}", *(f"{r:.1f}" for r in ratios)])
            rows[-1].append(f"{end[way].spearman:.3f}")
        what = {"rmse": "error", "stated": "standard error"}[column]
        print_table(
            f"{case.name}: until the {what} is {error:.2g}, {error / spread:.0%} of the values' "
            f"spread (the long run's own: {np.sqrt((exact.stderr**2).mean()):.1g})",
            ["way", "seconds", "uniform / it", "1/k / it", "rank correlation at the end"],
            rows,
        )


def _seconds_to(curve: pd.DataFrame, column: str, error: float) -> float:
    """When the error falls to this for good; beyond the run, as the root of the time falls."""
    errors, last = curve[column].to_numpy(), curve.iloc[-1]
    if last[column] > error:
        return float(last.seconds * (last[column] / error) ** 2)
    above = np.flatnonzero(errors > error)
    if len(above) == 0:
        return float(curve.seconds.iloc[0])
    at = above[-1]
    part = np.log(errors[at] / error) / np.log(errors[at] / errors[at + 1])
    logs = np.log(curve.seconds.to_numpy())
    return float(np.exp(logs[at] * (1 - part) + logs[at + 1] * part))


def beyond(case: Case, exact: ds.Valuation) -> None:
    """Values for a third of m extrapolated to m, beside those of the long run at m."""
    design = ds.Design(case.database, case.m // 4)
    draws = ds.run(case.U, design, case.Z, stop=4000, n_jobs=-1)
    found = ds.profile.extrapolate(ds.estimate(draws), m=case.m)
    low, high = found.interval(0.95)
    inside = (low <= exact.values) & (exact.values <= high)
    gap = np.sqrt(((found.values - exact.values) ** 2).mean())
    print(
        f"{case.name}: extrapolated from m = {draws.m} to {case.m} with exponent "
        f"{ds.profile.size_profile(draws).exponent:.2f}: error {gap:.2g}, spread of the values "
        f"{exact.values.std():.2g}, rank correlation "
        f"{spearmanr(found.values, exact.values).statistic:.3f}, 95 % intervals hold "
        f"{inside.mean():.1%} of the long run's values",
        flush=True,
    )


def predictions(case: Case, exact: ds.Valuation) -> None:
    """Half of the points predicted from the other half, beside the long run's values."""
    chosen = np.random.default_rng(0).random(len(case.Z)) < 0.5
    assert exact.draws is not None
    half = exact.draws.first(2000).points(chosen)
    valuation = ds.estimate(half, points=case.Z.take(chosen))
    guess = valuation.predict(case.Z.take(~chosen))
    truth = exact.values[~chosen]
    low, high = guess.interval(0.95)
    model = valuation.interpolation
    print(
        f"{case.name}: {(~chosen).sum()} points predicted from {chosen.sum()} by {model.name}: R2 "
        f"{1 - ((guess.values - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum():.2f} "
        f"(stated: {model.r2_true:.2f}), rank correlation "
        f"{spearmanr(guess.values, truth).statistic:.2f} (stated: {model.rank_correlation:.2f}), "
        f"95 % intervals hold {((low <= truth) & (truth <= high)).mean():.1%}",
        flush=True,
    )


def plot(curves: dict[str, pd.DataFrame], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.9 * len(curves)), layout="constrained")
    axes = figure.subplots(len(curves), 2, squeeze=False)
    styles = ["-", "-", "-", "--"]
    for (name, data), (left, right) in zip(curves.items(), axes, strict=True):
        for (way, curve), style in zip(data.groupby("way", sort=False), styles, strict=True):
            left.loglog(curve.seconds, curve.rmse, style, label=way)
            right.semilogx(curve.seconds, curve.spearman, style, label=way)
        left.set(title=name, ylabel="root-mean-square error of the values")
        right.set(title=name, ylabel="rank correlation with the long run")
        for axis in (left, right):
            axis.set_xlabel("seconds of one core")
            axis.grid(which="both", alpha=0.25)
    axes[0, 0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="holds adult.parquet")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--jobs", type=int, default=-1, help="runs at a time; -1: one a core")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    curves = {}
    for case in cases(options.folder):
        exact = truth(case, options.out)
        slim = exact.without_draws(), exact.disorder
        jobs = [joblib.delayed(errors)(case, w, s, *slim) for s in range(case.seeds) for w in WAYS]
        rows = pd.concat(joblib.Parallel(n_jobs=options.jobs)(jobs), ignore_index=True)
        curves[case.name] = averaged(rows)
        curves[case.name].to_csv(
            options.out / f"{case.name.replace(' ', '_')}.csv", index=False, float_format="%.4g"
        )
        by_draws(case, rows)
        table(case, curves[case.name], exact)
        predictions(case, exact)
        beyond(case, exact)
    plot(curves, options.out / "precision.png")


if __name__ == "__main__":
    main()
