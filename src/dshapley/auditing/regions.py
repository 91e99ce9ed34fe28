"""Parts of a table, by one or two conditions on its columns, whose rows differ from the others.

All conditions and all pairs of conditions are compared, with intervals that hold for all of them at
once. So those that stand out can be chosen afterwards.
"""

from __future__ import annotations

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
_OVERLAP = 0.5
"""Of two regions with more than this share of their rows in common, the clearer one is kept."""


@dataclass(frozen=True, eq=False, kw_only=True)
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
    >>> [region.rule for region in found][0], bool(found[0].difference - found[0].reach > 0.9)
    ('site is C', True)
    """
    scores = np.asarray(scores, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(scores))
    conditions = _conditions(frame.iloc[known])
    if len(known) < 2 * _FEWEST or not conditions:
        return []
    y = scores[known]
    C = np.stack([condition.inside for condition in conditions], axis=1).astype(np.float64)
    clear = _clear(C, y)
    found: list[Region] = []
    # The clearest first; the same rows are often selected by several rules.
    for i, j in sorted(clear, key=lambda pair: -clear[pair].clearness):
        inside = (C[:, i] * C[:, j]) > 0
        there = [region.inside[known] for region in found]
        if any((inside & other).sum() > _OVERLAP * (inside | other).sum() for other in there):
            continue
        chosen = {conditions[i], conditions[j]}
        region = _region(_in_words(chosen), inside, known, scores, clear[i, j], error_of)
        if abs(region.difference) > region.reach:
            found.append(region)
        if len(found) == most:
            break
    return sorted(found, key=lambda region: -region.difference)


class _Condition(NamedTuple):
    """A condition on one column, and which rows fulfil it."""

    column: str
    words: str
    low: float
    high: float
    """The ends of a range of numbers; NaN for a category."""
    number: int
    rows: bytes

    @property
    def inside(self) -> NDArray[np.bool_]:
        return np.frombuffer(self.rows, dtype=np.bool_)


def _conditions(frame: pd.DataFrame) -> list[_Condition]:
    """The categories and the quarters of each column, if they select neither few nor most rows."""
    import pandas as pd

    n = len(frame)
    fewest = max(_FEWEST, _SHARE * n)
    found: list[_Condition] = []

    def add(column: str, words: str, inside: NDArray[np.bool_], low: float, high: float) -> None:
        if fewest <= inside.sum() <= n - fewest and len(found) < _MOST_CONDITIONS:
            rows = np.ascontiguousarray(inside).tobytes()
            found.append(_Condition(column, words, low, high, len(found), rows))

    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        name = " ".join(str(frame.columns[position]).split())
        numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if numeric and column.nunique() > 2:
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            for end in _thresholds(numbers):
                add(name, f"{name} up to {end:g}", numbers <= end, -math.inf, end)
                add(name, f"{name} above {end:g}", numbers > end, end, math.inf)
            add(name, f"{name} is missing", np.isnan(numbers), math.nan, math.nan)
        elif not pd.api.types.is_datetime64_any_dtype(column):
            text = column.map(lambda cell: "missing" if pd.isna(cell) else str(cell))
            for category in text.value_counts().index[:_MOST_CATEGORIES].tolist():
                shown = " ".join(str(category).split())[:40]
                inside = (text == category).to_numpy(dtype=np.bool_)
                add(name, f"{name} is {shown}", inside, math.nan, math.nan)
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


class _Compared(NamedTuple):
    """A region against the rest: its error from the rows, the quantile, and how clear it is."""

    stderr: float
    quantile: float
    clearness: float


def _clear(C: Floats, y: Floats) -> dict[tuple[int, int], _Compared]:
    """The conditions (i, i) and pairs (i, j) whose mean differs from the rest beyond the error.

    Half of the 5 % is for single conditions and half for pairs, which are many more. A pair must
    stand out more than each of its conditions.
    """
    from scipy import stats

    n, k = len(y), C.shape[1]
    y = y - y.mean()
    N, S, Q = C.T @ C, C.T @ (C * y[:, np.newaxis]), C.T @ (C * (y**2)[:, np.newaxis])
    with np.errstate(all="ignore"):
        mean, rest = S / N, (y.sum() - S) / (n - N)
        inner = (Q - N * mean**2) / (N - 1)
        outer = ((y**2).sum() - Q - (n - N) * rest**2) / (n - N - 1)
        stderr = np.sqrt(np.maximum(inner, 0) / N + np.maximum(outer, 0) / (n - N))
        z = np.abs(mean - rest) / stderr
        single = np.eye(k, dtype=bool)
        looks = np.where(single, k, max(k * (k - 1) / 2, 1))
        smaller = np.minimum(N, n - N)
        quantile = stats.t.ppf(1 - (1 - _CONFIDENCE) / 4 / looks, np.maximum(smaller - 1, 1))
        large = smaller >= max(_FEWEST, _SHARE * n)
        alone = z.diagonal()
        more = single | ((z > alone) & (z > alone[:, np.newaxis]))
        chosen = np.triu(large & more & (z > quantile) & np.isfinite(z))
    return {
        (i, j): _Compared(
            float(stderr[i, j]), float(quantile[i, j]), float(z[i, j] / quantile[i, j])
        )
        for i, j in zip(*(part.tolist() for part in np.nonzero(chosen)), strict=True)
    }


def _region(
    rule: str,
    inside: NDArray[np.bool_],
    known: NDArray[np.intp],
    scores: Floats,
    compared: _Compared,
    error_of: Callable[[Floats], float] | None,
) -> Region:
    here, other = known[inside], known[~inside]
    weights = np.zeros(len(scores))
    weights[here], weights[other] = 1 / len(here), -1 / len(other)
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
        reach=compared.quantile * math.hypot(compared.stderr, of_scores),
    )


def _in_words(chosen: set[_Condition]) -> str:
    """One or two conditions, with both ends of a range together."""
    parts = sorted(chosen, key=lambda condition: condition.number)
    if len(parts) == 2 and parts[0].column == parts[1].column:
        low = max(part.low for part in parts)
        high = min(part.high for part in parts)
        if math.isfinite(low) and math.isfinite(high):
            return f"{parts[0].column} above {low:g} up to {high:g}"
    return " and ".join(part.words for part in parts)
