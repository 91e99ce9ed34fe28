"""Parts of a table, by a condition on a column, whose rows differ from the others.

All conditions are compared, with intervals that hold for all of them at once: their width comes
from the largest difference of any condition when the scores are dealt to the rows at random. So the
conditions that stand out can be chosen afterwards, also where scores are far from normal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Region", "regions"]

_FEWEST, _SHARE = 30, 0.02
"""The fewest rows of a region, and the least share of all rows."""
_MOST_CATEGORIES, _MOST_CONDITIONS = 12, 800
_CONFIDENCE = 0.95
_SHUFFLES = 400
_OVERLAP = 0.5
"""Of two regions with more than this share of their rows in common, the clearer one is kept."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Region:
    """The rows that a rule selects.

    Attributes
    ----------
    rule
        The conditions in words.
    inside
        Which rows of the table are in it.
    mean, rest
        The mean score of the rows inside, and of the others.
    difference, reach
        Mean minus rest, and half its interval. The intervals of all regions that were compared hold
        at once with 95 %.
    """

    rule: str
    inside: NDArray[np.bool_]
    mean: float
    rest: float
    difference: float
    reach: float

    def __repr__(self) -> str:
        n = int(self.inside.sum())
        return f"<{self.rule}: {n:,} rows, {self.difference:+.2g} ± {self.reach:.2g}>"


def regions(
    frame: pd.DataFrame,
    scores: Floats,
    *,
    error_of: Callable[[Floats], float] | None = None,
    most: int = 5,
) -> list[Region]:
    """The regions whose mean score differs from the rest beyond the error, the highest first.

    Parameters
    ----------
    frame
        The columns to make conditions of, one row for each score.
    scores
        Rows whose score is NaN are left out.
    error_of
        The standard error of a weighted sum of the scores, where these are estimates whose errors
        depend on each other. It is added to the error that comes from the rows.
    most
        The most regions.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.uniform(20, 60, 600), "site": ["A", "B", "C"] * 200})
    >>> found = regions(frame, (frame["site"] == "C") + 0.1 * rng.normal(size=600))
    >>> found[0].rule, bool(found[0].difference - found[0].reach > 0.8)
    ('site is C', True)
    """
    scores = np.asarray(scores, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(scores))
    conditions = _conditions(frame.iloc[known])
    if len(known) < 2 * _FEWEST or not conditions:
        return []
    y = scores[known]
    C = np.stack([condition.inside for condition in conditions], axis=1)
    quantile, clearness = _quantile(C, y), np.abs(_standardised(C, y))
    found: list[Region] = []
    # The clearest first; the same rows are often selected by several rules.
    for i in np.argsort(-clearness, kind="stable").tolist():
        inside = C[:, i]
        there = [region.inside[known] for region in found]
        alike = [*there, *(~other for other in there)]  # the rest of a region says the same
        if any((inside & other).sum() > _OVERLAP * (inside | other).sum() for other in alike):
            continue
        region = _region(conditions[i].words, inside, known, scores, quantile, error_of)
        if abs(region.difference) > region.reach:
            found.append(region)
        if len(found) == most or clearness[i] < quantile:
            break
    return sorted(found, key=lambda region: -region.difference)


class _Condition(NamedTuple):
    """A condition on one column, and which rows fulfil it."""

    words: str
    inside: NDArray[np.bool_]


def _conditions(frame: pd.DataFrame) -> list[_Condition]:
    """The categories and the quarters of each column, if they select neither few nor most rows."""
    import pandas as pd

    n = len(frame)
    fewest = max(_FEWEST, _SHARE * n)
    found: list[_Condition] = []

    def add(words: str, inside: NDArray[np.bool_]) -> None:
        if fewest <= inside.sum() <= n - fewest and len(found) < _MOST_CONDITIONS:
            found.append(_Condition(words, inside))

    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        name = " ".join(str(frame.columns[position]).split())
        numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if numeric and column.nunique() > 2:
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            ends = _thresholds(numbers)
            for low, high in itertools.combinations([-math.inf, *ends, math.inf], 2):
                if math.isfinite(low) or math.isfinite(high):
                    add(f"{name} {_range(low, high)}", (numbers > low) & (numbers <= high))
            add(f"{name} is missing", np.isnan(numbers))
        elif not pd.api.types.is_datetime64_any_dtype(column):
            text = column.map(lambda cell: "missing" if pd.isna(cell) else str(cell))
            for category in text.value_counts().index[:_MOST_CATEGORIES].tolist():
                shown = " ".join(str(category).split())[:40]
                inside = (text == category).to_numpy(dtype=np.bool_)
                add(f"{name} is {shown}", inside)
    return found


def _thresholds(numbers: Floats) -> list[float]:
    """The quartiles, each with few digits."""
    known = np.sort(numbers[np.isfinite(numbers)])
    found = set()
    for q in (0.25, 0.5, 0.75):
        below = float(np.quantile(known, q, method="lower")) if len(known) else math.nan
        rest = known[known > below]
        if len(rest):
            found.add(_between(below, float(rest[0])))
    return sorted(found)


def _between(below: float, above: float) -> float:
    """The number with the fewest digits that is at least the first and less than the second."""
    for digits in range(1, 17):
        short = float(f"{(below + above) / 2:.{digits}g}")
        if below <= short < above:
            return short
    return below


def _range(low: float, high: float) -> str:
    if math.isinf(low):
        return f"up to {_digits(high)}"
    return f"above {_digits(low)}" + ("" if math.isinf(high) else f" up to {_digits(high)}")


def _digits(number: float) -> str:
    """The number with as many digits as it has.

    >>> _digits(37.5), _digits(1_712_345_678.0), _digits(0.1)
    ('37.5', '1712345678', '0.1')
    """
    return next(text for n in range(6, 18) if float(text := f"{number:.{n}g}") == number)


def _standardised(C: NDArray[np.bool_], y: Floats) -> Floats:
    """Mean inside minus mean outside, in standard errors: for each condition (and each y)."""
    n, inside = len(y), C.sum(axis=0)
    apart = y - y.mean(axis=0)
    totals = C.astype(np.float64).T @ apart
    spread = np.sqrt(n / (inside * (n - inside)))
    sd = np.maximum(y.std(axis=0), 1e-300)
    scale = spread if y.ndim == 1 else spread[:, np.newaxis]
    # The totals of inside and outside are equal but for their sign.
    return np.asarray(totals * scale / sd)


def _quantile(C: NDArray[np.bool_], y: Floats) -> float:
    """The size that the largest of all differences has in 5 % of random orders of the scores."""
    rng = np.random.default_rng(0)
    largest = [
        np.abs(_standardised(C, rng.permuted(np.tile(y, (part, 1)), axis=1).T)).max(axis=0)
        for part in (_AT_ONCE,) * (_SHUFFLES // _AT_ONCE)
    ]
    return float(np.quantile(np.concatenate(largest), _CONFIDENCE, method="higher"))


_AT_ONCE = 20
"""Random orders in memory at a time."""


def _region(
    rule: str,
    inside: NDArray[np.bool_],
    known: NDArray[np.intp],
    scores: Floats,
    quantile: float,
    error_of: Callable[[Floats], float] | None,
) -> Region:
    here, other = known[inside], known[~inside]
    weights = np.zeros(len(scores))
    weights[here], weights[other] = 1 / len(here), -1 / len(other)
    own = sum(float(scores[rows].var()) / len(rows) for rows in (here, other))
    shared = float(scores[known].var()) * (1 / len(here) + 1 / len(other))
    of_scores = 0.0 if error_of is None else error_of(weights)
    all_rows = np.zeros(len(scores), dtype=bool)
    all_rows[here] = True
    mean, rest = float(scores[here].mean()), float(scores[other].mean())
    return Region(
        rule=rule,
        inside=all_rows,
        mean=mean,
        rest=rest,
        difference=mean - rest,
        reach=quantile * math.sqrt(max(own, shared) + of_scores**2),
    )
