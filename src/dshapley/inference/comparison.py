"""Would another run say the same? Two or more runs' values of the same points, compared.

Values of different models, metrics or m have different units, so runs are compared by the order of
their values, and by standardised values: how many spreads a value lies from the mean of its run.
The spread is that of the true values, without the noise. Mean and spread are those of the rows on
which the runs agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats
from dshapley.errors import InputError
from dshapley.inference.agreement import Agreement, agreement
from dshapley.inference.joint_errors import (
    JointErrors,
    errors_of_draws,
    same_draws,
    same_table_in_turn,
    same_test_rows,
    with_test_rows,
)
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation
from dshapley.inference.what_differs import Difference, what_differs
from dshapley.notebooks import NotebookDisplay

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FALSE", "Comparison", "Overlap", "PairOfRuns", "compare"]

FALSE = 0.05
"""About this share of the rows that a comparison points out do not differ in truth."""
_ROUNDING = 1e-5
"""Standardised differences smaller than this can be due to the rounding of marginals."""
_FEWEST = 4
"""A rank correlation needs at least so many points."""
_SIMULATED = 200
"""How often the errors of two runs that agree are simulated for the overlap of their tenths."""


class Overlap(NamedTuple):
    """How many of a tenth of the points are in that tenth of both runs."""

    found: float
    """The share of the tenth that both runs have in it."""
    chance: float
    """The share to expect of two random orders."""
    agreeing: float
    """The share to expect of two runs that agree but for their noise; NaN where it hides them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairOfRuns:
    """Two of the runs beside each other.

    Attributes
    ----------
    first, second
        The positions of the runs in the comparison.
    order
        The rank correlation, with and without the noise.
    top, bottom
        The overlap of the highest and of the lowest tenth.
    difference, stderr
        For each point, its standardised value in the first run minus that in the second, and the
        standard error. NaN where a run shows nothing but noise.
    centres, spreads
        The mean of the values of both runs, and the standard deviation of the true ones, both over
        the rows that agree: a standardised value is (value - centre) / spread.
    differs
        The points whose difference is beyond the error (Benjamini and Hochberg 1995, over all
        points of the pair): about `FALSE` of them do not differ in truth.
    same_draws
        Whether the runs drew the same sets.
    same_table_in_turn
        Whether both runs test on each part of the same table in turn.
    """

    first: int
    second: int
    order: Agreement
    top: Overlap
    bottom: Overlap
    difference: Floats
    stderr: Floats
    centres: tuple[float, float]
    spreads: tuple[float, float]
    differs: NDArray[np.bool_]
    same_draws: bool
    same_table_in_turn: bool
    test_rows_are_known: bool
    """Whether the errors of both runs include the luck of their test rows."""

    @property
    def most_different(self) -> NDArray[np.intp]:
        """The positions of the points that differ beyond the error, the largest first."""
        order = np.argsort(-np.abs(self.difference), kind="stable")
        return order[self.differs[order]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(NotebookDisplay):
    """Two or more runs' values of the same points, as returned by `compare`.

    Attributes
    ----------
    names
        What the runs are called.
    ids
        The names of the points that all runs have.
    values, stderr
        One row for each run, one column for each point.
    metrics
        The metric of each run.
    labels
        The class or number of each point, where a run knows it; None otherwise.
    matched
        A sentence that says how the points were matched.
    differences
        What differs between the runs, as each has it.
    pairs
        Each run beside each other one.
    """

    names: tuple[str, ...]
    ids: Array
    values: Floats
    stderr: Floats
    metrics: tuple[str, ...]
    labels: Array | None
    matched: str
    differences: tuple[Difference, ...]
    pairs: tuple[PairOfRuns, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        """What the runs agree on, one line for each pair."""
        lines = [f"Comparison of {len(self.names)} runs over {len(self):,} points"]
        for pair in self.pairs:
            found, low, high = pair.order.without_noise
            true = f"{found:.2f} ({low:.2f} to {high:.2f}) without noise"
            lines.append(
                f"{self.names[pair.first]} and {self.names[pair.second]}: rank correlation "
                f"{pair.order.observed:.2f}, {pair.order.hidden or true}; "
                f"{int(pair.differs.sum()):,} beyond the error"
            )
        return "\n".join(lines)

    def pair(self, first: int, second: int) -> PairOfRuns:
        """The runs at these two positions beside each other."""
        for pair in self.pairs:
            if {pair.first, pair.second} == {first, second}:
                return pair
        raise InputError(f"there are no runs {first} and {second} among {len(self.names)}")

    @property
    def differs(self) -> NDArray[np.bool_]:
        """The points on which any two of the runs differ beyond the error."""
        return np.any([pair.differs for pair in self.pairs], axis=0)

    def most_different(self) -> NDArray[np.intp]:
        """The positions of these points, those with the largest difference of two runs first."""
        largest = np.max(
            [np.where(pair.differs, np.abs(pair.difference), 0.0) for pair in self.pairs], axis=0
        )
        order = np.argsort(-largest, kind="stable")
        return order[self.differs[order]]

    def to_frame(self) -> pd.DataFrame:
        """A data frame by id: value and stderr of each run, and the differences of each pair.

        A difference is that of standardised values, with its standard error; `differs` says
        whether it is beyond the error.
        """
        import pandas as pd

        columns: dict[str, Any] = {} if self.labels is None else {"label": self.labels}
        for i, name in enumerate(self.names):
            columns |= {f"value {name}": self.values[i], f"stderr {name}": self.stderr[i]}
        for pair in self.pairs:
            two = f"{self.names[pair.first]} - {self.names[pair.second]}"
            columns |= {
                f"difference {two}": pair.difference,
                f"stderr of difference {two}": pair.stderr,
                f"differs {two}": pair.differs,
            }
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


def compare(*valuations: Valuation, names: Sequence[str] | None = None) -> Comparison:
    """Would another model, metric, seed, test set or m say the same of these points?

    Parameters
    ----------
    valuations
        Two or more valuations of the same rows, or of rows that overlap. Rows are matched by
        position if the runs' fingerprints of them are equal, otherwise by id.
    names
        What to call the runs; by default first, second, and so on.

    Examples
    --------
    >>> values, ids, one = np.arange(20.0), np.arange(20), np.ones(20, int)
    >>> made = {"stderr": 0.1 * np.ones(20), "m": 5, "n_draws": 9, "ids": ids, "rows": one}
    >>> first = Valuation(values=values, **made)
    >>> second = Valuation(values=10 * np.where(ids == 3, 15.0, values), **made)
    >>> compare(first, second, names=("one", "other"))
    Comparison of 2 runs over 20 points
    one and other: rank correlation 0.89, 0.89 (0.87 to 0.91) without noise; 1 beyond the error
    """
    if len(valuations) < 2:
        raise InputError(f"{len(valuations)} run: a comparison needs two or more")
    called = tuple(names or (f"run {i + 1}" for i in range(len(valuations))))
    if len(set(called)) != len(valuations):
        raise InputError(f"names: give {len(valuations)} different names, one for each run")
    runs = [valuation.measured for valuation in valuations]
    for name, valuation in zip(called, runs, strict=True):
        _check(valuation, name)
    places, matched = _places(runs, called)
    return Comparison(
        names=called,
        ids=runs[0].ids[places[0]],
        values=np.stack([x.values[p] for x, p in zip(runs, places, strict=True)]),
        stderr=np.stack([x.stderr[p] for x, p in zip(runs, places, strict=True)]),
        metrics=tuple(x.about.identity.metric or "U" for x in runs),
        labels=_labels(runs, places),
        matched=matched,
        differences=what_differs(runs),
        pairs=tuple(_pair(runs, places, i, j) for i, j in combinations(range(len(runs)), 2)),
    )


def _check(valuation: Valuation, name: str) -> None:
    """Refuse values that cannot be compared."""
    if (valuation.rows != 1).any():
        raise InputError(f"{name} has values of bundles: compare runs without groups (--group)")
    if valuation.unseen or not np.isfinite(valuation.stderr).all():
        why = valuation.what_is_unseen or f"{valuation.n_draws} draws are too few"
        raise InputError(f"{name}: its errors are not known yet ({why}): make more draws")


def _places(runs: Sequence[Valuation], names: Sequence[str]) -> tuple[list[NDArray[np.intp]], str]:
    """The positions of the common points in each run, and a sentence of how they were matched."""
    prints = {valuation.about.identity.points for valuation in runs}
    if len(prints) == 1 and None not in prints:
        everyone = np.arange(len(runs[0]))
        return [everyone] * len(runs), f"All runs value the same {len(everyone):,} rows."
    _check_same_table(runs, names)
    ids = [valuation.ids.astype(str) for valuation in runs]
    for name, own in zip(names, ids, strict=True):
        if len(np.unique(own)) < len(own):
            raise InputError(f"{name} has the same id twice, so its rows cannot be matched by id")
    common = ids[0][np.all([np.isin(ids[0], other) for other in ids[1:]], axis=0)]
    if len(common) == 0:
        raise InputError(f"{' and '.join(names)} have no row in common: their ids all differ")
    if len(common) < _FEWEST:
        raise InputError(f"{' and '.join(names)} have only {len(common)} rows in common")
    places = []
    for own in ids:
        order = np.argsort(own)
        places.append(order[np.searchsorted(own, common, sorter=order)])
    valued = ", ".join(f"{len(own):,} in {name}" for name, own in zip(names, ids, strict=True))
    return places, (
        f"The runs value different rows ({valued}) or prepared them differently: they are compared "
        f"on the {len(common):,} rows whose id all of them have."
    )


def _check_same_table(runs: Sequence[Valuation], names: Sequence[str]) -> None:
    """Refuse runs whose rows come from tables of different names: equal ids mean nothing there."""
    sources = [valuation.about.context.source for valuation in runs]
    tables = [None if s is None else (s.points_table or s.table, s.target) for s in sources]
    known = [i for i, table in enumerate(tables) if table is not None]
    for i in known[1:]:
        if tables[i] != tables[known[0]]:
            raise InputError(
                f"{names[known[0]]} and {names[i]} are of different tables or targets, so their "
                "rows cannot be matched: compare runs of the same rows"
            )


def _labels(runs: Sequence[Valuation], places: Sequence[NDArray[np.intp]]) -> Array | None:
    for valuation, where in zip(runs, places, strict=True):
        if valuation.points is not None and valuation.points.y is not None:
            return valuation.points.y[where]
    return None


def _pair(
    runs: Sequence[Valuation], places: Sequence[NDArray[np.intp]], i: int, j: int
) -> PairOfRuns:
    a, b, where = runs[i], runs[j], (places[i], places[j])
    values = a.values[where[0]], b.values[where[1]]
    errors = errors_of_draws(a, b, where)
    whole = with_test_rows(errors, a, b, where)
    nothing = np.full(len(values[0]), np.nan)
    difference, stderr, differs = nothing, nothing, np.zeros(len(nothing), dtype=bool)
    agreeing = [math.nan, math.nan]
    among = np.ones(len(nothing), dtype=bool)
    spreads = errors.spreads(values, among)
    if min(spreads) > 0:
        quantities = values, errors, whole, _pooled(whole, (a.freedom, b.freedom))
        among, difference, stderr, differs = _differences(*quantities)
        spreads = errors.spreads(values, among)
        agreeing = _agreeing(values, errors).tolist()
    centres = float(values[0][among].mean()), float(values[1][among].mean())
    freedom = _pooled(errors, (a.of_draws.freedom, b.of_draws.freedom))
    # In other folds each run has test rows of its own, whose luck lowers the correlation too.
    in_order = whole if same_table_in_turn(a, b) and not same_test_rows(a, b, where) else errors
    return PairOfRuns(
        first=i,
        second=j,
        order=agreement(values, in_order, freedom=freedom),
        top=Overlap(*_in_both(*values), agreeing[0]),
        bottom=Overlap(*_in_both(-values[0], -values[1]), agreeing[1]),
        difference=difference,
        stderr=stderr,
        centres=centres,
        spreads=spreads,
        differs=differs,
        same_draws=same_draws(a, b, where),
        same_table_in_turn=same_table_in_turn(a, b),
        test_rows_are_known=all(
            isinstance(x, SampledValuation) and x.fold_influence is not None for x in (a, b)
        ),
    )


def _differences(
    values: tuple[Floats, Floats], errors: JointErrors, whole: JointErrors, freedom: float
) -> tuple[NDArray[np.bool_], Floats, Floats, NDArray[np.bool_]]:
    """The rows that agree, the differences, their errors, and which are beyond these.

    Rows that differ would change the mean and the spread of their run, and rows that agree would
    seem to differ. So the rows that differ most are left out of mean and spread, a few at a time,
    as long as others differ; at least half of the rows stay.
    """
    n = len(values[0])
    among = np.ones(n, dtype=bool)
    few = max(1, round(_LEFT_OUT * n))
    while True:
        spreads = errors.spreads(values, among)
        if not min(spreads) > 0:
            among[:] = True
            spreads = errors.spreads(values, among)
        (first, second), scaled = whole.standardised(values, spreads, among)
        difference, stderr = first - second, scaled.of_difference
        differs = _beyond(difference, stderr, freedom)
        more = np.flatnonzero(differs & among)
        if not len(more) or among.sum() - few < n / 2:
            return among, difference, stderr, differs
        size = np.abs(difference[more]) / np.maximum(stderr[more], 1e-300)
        among[more[np.argsort(-size, kind="stable")[:few]]] = False


_LEFT_OUT = 0.05
"""The share of the rows that is left out at a time."""


def _pooled(errors: JointErrors, freedom: tuple[float, float]) -> float:
    """Degrees of freedom of the sum of both variances, in their units (Welch, Satterthwaite)."""
    shares = [float(variance.mean()) for variance in errors.variances]
    # In units of their own the two variances say nothing of each other; each counts the same.
    rough = sum(1 / f for f, share in zip(freedom, shares, strict=True) if share > 0)
    n = sum(share > 0 for share in shares)
    return n / rough if rough > 0 else math.inf


def _beyond(difference: Floats, stderr: Floats, freedom: float) -> NDArray[np.bool_]:
    """The differences beyond the error, by the rule of Benjamini and Hochberg.

    >>> _beyond(np.array([0.0, 5.0, 1.0]), np.ones(3), math.inf).tolist()
    [False, True, False]
    """
    from scipy.special import stdtr

    z = np.abs(difference) / np.where(stderr > 0, stderr, np.inf)
    z[np.abs(difference) < _ROUNDING] = 0.0
    exact = (stderr == 0) & (np.abs(difference) >= _ROUNDING)
    p = np.where(exact, 0.0, 2 * stdtr(freedom, -z))
    order = np.argsort(p, kind="stable")
    below = np.flatnonzero(p[order] <= FALSE * np.arange(1, len(p) + 1) / len(p))
    found = np.zeros(len(p), dtype=bool)
    if len(below):
        found[order[: below[-1] + 1]] = True
    return found


def _in_both(a: Floats, b: Floats) -> tuple[float, float]:
    """The share of a's highest tenth that is in b's, and the share to expect by chance."""
    n = max(1, round(len(a) / 10))
    tops = [np.argsort(-x, kind="stable")[:n] for x in (a, b)]
    return len(np.intersect1d(tops[0], tops[1])) / n, n / len(a)


def _agreeing(values: tuple[Floats, Floats], errors: JointErrors) -> Floats:
    """The overlap of the top and bottom tenths of two runs that agree but for independent errors.

    If u and v have the variance (c - 1) V and the covariance -V, where V is that of the errors,
    then values + u and values + v are as two runs of the same points with c times the variance: for
    c = 2 they are halves of the draws. The log odds of the overlap at c = 2 and c = 4 are
    extrapolated to c = 1, along the logarithm of c. This needs no assumption about the true values.
    """
    found = []
    for i in (0, 1):
        halves, quarters = [], []
        moved = errors.simulated(_SIMULATED, np.random.default_rng(0))[i]
        for d, e in zip(moved[::2], moved[1::2], strict=True):
            halves.append(_tenths(values[i] + d, values[i] - d))
            quarters.append(_tenths(values[i] + d + _ROOT * e, values[i] + d - _ROOT * e))
        odds = [_log_odds(np.mean(part, axis=0)) for part in (halves, quarters)]
        found.append(1 / (1 + np.exp(-2 * odds[0] + odds[1])))
    return np.asarray(np.sqrt(found[0] * found[1]))


_ROOT = math.sqrt(2)


def _tenths(a: Floats, b: Floats) -> tuple[float, float]:
    return _in_both(a, b)[0], _in_both(-a, -b)[0]


def _log_odds(share: Floats) -> Floats:
    inside = np.clip(share, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(inside / (1 - inside)))
