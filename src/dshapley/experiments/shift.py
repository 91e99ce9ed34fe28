"""Buyers unlike the seller: how agreement on values falls as the distributions differ more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.datasets import Dataset, load, table
from dshapley.data.points import Array, Points
from dshapley.errors import InputError
from dshapley.experiments.shared.work import Claim, Rows, Scale, Work
from dshapley.inference.sampled import estimate
from dshapley.learners.by_name import model_from_name
from dshapley.plots.figure import new_figure, shade
from dshapley.potentials import potential
from dshapley.running.run import run as run_draws
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.theory.bounds import shift_gap
from dshapley.theory.transport import wasserstein

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Buyers unlike the seller: agreement against the Wasserstein distance"
PAPER = (
    "No experiment of the paper, but its theorem: under similar distributions values are similar, "
    "apart by at most 2/m sum k beta(k) W_1 for a U that is Lipschitz stable (section 2.2)."
)
MINUTES: dict[Scale, float] = {"smoke": 0.2, "small": 8, "full": 200}

LABEL_COST = 1.0
"""The distance between two classes in d(z, z') = ||x - x'|| + [y != y'], x in column spreads."""


def _by_age(rows: Rows) -> Rows:
    import pandas as pd

    names = ["up to 28", "29 to 37", "38 to 48", "49 and more"]
    return pd.cut(rows["age"], [0, 28, 37, 48, 200], labels=names).astype(str)


def _by_area(rows: Rows) -> Rows:
    areas = [f"Wilderness_Area{i}" for i in range(1, 5)]
    return rows[areas].idxmax(axis=1).str.replace("Wilderness_Area", "area ")


GROUPS: dict[str, Callable[[Rows], Rows]] = {
    "pucrio_har": lambda rows: rows["user"].astype(str),
    "covertype": _by_area,
    "adult": _by_age,
    "adult_sample": _by_age,
}
"""For each table, how the group of a row is found: its person, region or age."""


@dataclass(frozen=True)
class Setting:
    """Tables with groups of rows, and how precisely points are valued."""

    data: tuple[str, ...]
    _: KW_ONLY
    m: int
    n: int
    """The number of rows of the seller's database, and of each buyer's."""
    n_points: int
    draws: int
    n_database: int = 20_000
    n_test: int = 1_000
    shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """The shares of the buyers' rows that are of the group, of which the seller has no rows."""
    model: str = "ridge"


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        ("adult_sample",), m=20, n=100, n_points=30, draws=60, n_database=1_500, n_test=200,
        shares=(0.0, 0.5, 1.0),
    ),
    "small": Setting(("pucrio_har", "covertype", "adult"), m=100, n=800, n_points=100, draws=400),
    "full": Setting(
        ("pucrio_har", "covertype", "adult"), m=500, n=1_500, n_points=500, draws=5_000,
        n_database=38_000, n_test=4_000, shares=tuple(np.linspace(0, 1, 11).round(1).tolist()),
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A table, and the group of rows that buyers have and the seller lacks."""

    setting: Setting
    dataset: Dataset
    group: str
    member: Array

    @cached_property
    def _rest(self) -> Array:
        return np.flatnonzero(~self.member)

    @property
    def seller(self) -> Points:
        """The seller's database, of rows of all other groups."""
        return self.dataset.database.take(self._rest[: self.setting.n])

    @property
    def Z(self) -> Points:
        """The points to value: the first rows of the seller, which are in random order."""
        return self.seller.take(slice(0, self.setting.n_points))

    def buyer(self, share: float) -> Points:
        """A buyer with this share of rows of the group, and other rows that the seller lacks."""
        n = self.setting.n
        of_group = round(share * n)
        rest = self._rest[n : 2 * n - of_group]
        rows = np.concatenate([np.flatnonzero(self.member)[:of_group], rest])
        if len(rows) < n:
            raise InputError(
                f"the group {self.group} leaves only {len(rows)} rows for a buyer of {n}: use "
                "fewer rows"
            )
        return self.dataset.database.take(rows)

    def draws(self, database: Points, work: Work, *, seed: int) -> Draws:
        """The draws for the values of Z under one side's distribution, with the U of both sides."""
        s = self.setting
        U = potential(model_from_name(s.model, "classification"), test=self.dataset.test)
        design = Design(database, s.m, weights="auto", seed=seed)
        return run_draws(U, design, self.Z, stop=s.draws, n_jobs=work.n_jobs)


def run(scale: Scale | Work) -> Rows:
    """The distance, the agreement on values, their gap and its bound, by table, group and share."""
    import pandas as pd

    work = Work.of(scale)
    setting = work.choose(SETTINGS)
    parts = []
    for data in setting.data:
        dataset = load(data, n_database=setting.n_database, n_test=setting.n_test, n_heldout=0)
        of_row = GROUPS[data](table(data)).loc[dataset.database.ids].to_numpy()
        for group in sorted(set(of_row)):
            shift = Shift(setting=setting, dataset=dataset, group=group, member=of_row == group)
            sold = cache(partial(shift.draws, shift.seller, work, seed=0))
            for i, share in enumerate(setting.shares):
                work.say(f"{data}: {group}, {share:.0%} of the buyer's rows")
                make = partial(_compared, shift, sold, share, i, work)
                found = work.rows(make, "shift", data, group, share, repr(setting))
                about = {"data": data, "group": group, "share": share}
                parts.append(found.assign(**about)[[*about, *found.columns]])
    return pd.concat(parts, ignore_index=True)


def _compared(shift: Shift, sold: Callable[[], Draws], share: float, i: int, work: Work) -> Rows:
    """The buyer's values beside the seller's, each under the side's own distribution."""
    import pandas as pd
    from scipy.stats import spearmanr

    buyer, m = shift.buyer(share), shift.setting.m
    sides = sold(), shift.draws(buyer, work, seed=1 + i)
    ours, theirs = (estimate(draws) for draws in sides)
    gaps = np.abs(ours.values - theirs.values)
    worst = int(gaps.argmax())
    distance = wasserstein(shift.seller, buyer, label_cost=LABEL_COST, max_rows=len(buyer))
    constant = max(lipschitz(draws, shift.Z) for draws in sides)
    found = {
        "distance": distance,
        "rank_correlation": float(spearmanr(ours.values, theirs.values).statistic),
        "gap": float(gaps.mean()),
        "worst": float(gaps[worst]),
        "worst_stderr": float(np.hypot(ours.stderr[worst], theirs.stderr[worst])),
        "lipschitz": constant,
        "bound": shift_gap(lambda k: constant / k, m, distance),
    }
    return pd.DataFrame([found])


def lipschitz(draws: Draws, Z: Points) -> float:
    """The least L with which all draws satisfy |U(S + z) - U(S + z')| <= L / k d(z, z').

    The theorem needs the inequality for all S and all pairs of points. The L found here is only a
    lower bound of that constant, from the sets drawn and the points valued.

    >>> draws = Draws.none(Points([[0.0], [2.0]]), weights=np.ones(1))
    >>> lipschitz(draws, Points([[0.0], [2.0]], [0, 0]))
    0.0
    """
    from scipy.spatial.distance import pdist

    labels = np.unique(np.asarray(Z.y), return_inverse=True)[1].reshape(-1, 1)
    d = pdist(np.asarray(Z.X, dtype=float)) + LABEL_COST * (pdist(labels) > 0)
    i, j = np.triu_indices(len(Z), 1)
    i, j, d = i[d > 0], j[d > 0], d[d > 0]
    largest = 0.0
    for k, marginals in zip(draws.k, np.asarray(draws.marginals, dtype=float), strict=True):
        largest = max(largest, float(k) * float((np.abs(marginals[i] - marginals[j]) / d).max()))
    return largest


def check(rows: Rows) -> list[Claim]:
    """The claims that values agree less as the distance grows, but stay within the bound."""
    from scipy.stats import spearmanr

    found = []
    for data, here in rows.groupby("data", sort=False):
        for column, sign, text in (
            ("rank_correlation", -1, "agreement on the order falls as the distance grows"),
            ("gap", 1, "values move apart as the distance grows"),
        ):
            ends = here.groupby("group")[column]
            shown = f"{ends.first().mean():.2g} among alike, {ends.last().mean():.2g} at the end"
            slopes = [
                sign * spearmanr(part.distance, part[column]).statistic
                for _, part in here.groupby("group")
            ]
            text = f"{data}: {text} (rank correlation of the two by group; {shown})"
            found.append(Claim.of(text, np.array(slopes)))
        room = here.bound - here.worst
        # The row in which the gap, with its error, comes nearest to the bound.
        least = here.loc[(room - 1.96 * here.worst_stderr).idxmin()]
        by, error = float(least.bound - least.worst), 1.96 * float(least.worst_stderr)
        text = (
            f"{data}: no value moves by more than the bound with beta(k) = L / k, L the largest "
            f"that any draw shows (the bound is {(here.bound / here.worst).min():,.0f} times the "
            "largest move, or more)"
        )
        found.append(Claim(text=text, by=by, low=by - error, high=by + error))
    return found


def plot(rows: Rows) -> Figure:
    """One column for each table: agreement by distance, and the gap of values beside the bound."""
    tables = list(rows.groupby("data", sort=False))
    drawn, axes = new_figure(2, len(tables))
    style: dict[str, Any]
    for place, (data, here) in enumerate(tables):
        groups = list(here.groupby("group"))
        for at, (group, line) in zip(np.linspace(0, 0.85, len(groups)), groups, strict=True):
            style = {"color": shade(at), "marker": "o", "markersize": 4, "label": group}
            axes[0, place].plot(line.distance, line.rank_correlation, **style)
            axes[1, place].plot(line.distance, line.worst, **style)
            style |= {"linestyle": ":", "marker": "", "label": None}
            axes[1, place].plot(line.distance, line.bound, **style)
        axes[1, place].plot([], [], color="0.3", linestyle=":", label="bound")
        axes[1, place].set_yscale("log")
        axes[0, place].set_title(f"{data}: buyers with ever more rows of one group")
        axes[1, place].set_title(f"{data}: how far values move")
        for axis in axes[:, place]:
            axis.set_xlabel("Wasserstein distance of the two databases")
            axis.legend(fontsize=8)
        axes[0, place].set_ylabel("rank correlation of values")
        axes[1, place].set_ylabel("largest difference of a value")
    return drawn
