"""Point removal and point addition: how a model's score changes in the order of some values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Bundles, Floats, Points, as_points
from dshapley.errors import DrawError, InputError, is_whole
from dshapley.inference.jackknife import Grouped, width_of
from dshapley.inference.valuation import Valuation
from dshapley.notebooks import NotebookDisplay
from dshapley.potentials import Potential, check_points
from dshapley.running.workers import Result, results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Curve", "addition", "removal"]

First: TypeAlias = Literal["highest", "lowest"]
Counts: TypeAlias = NDArray[np.int64]

_FRACTIONS = tuple(np.linspace(0, 0.5, 11).tolist())
_ALL_FRACTIONS = tuple(np.linspace(0, 1, 11).tolist())


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(NotebookDisplay):
    """U as points are removed or added, in order of value and in random orders.

    Attributes
    ----------
    fractions, counts
        The fraction and the number of points that are removed or added at each step.
    scores
        U at each step, in order of value.
    random
        U at each step for each random order: (repeats, steps).
    """

    fractions: Floats
    counts: Counts
    scores: Floats
    random: Floats

    @property
    def random_mean(self) -> Floats:
        """U at each step, on average over the random orders."""
        return np.asarray(self.random.mean(axis=0))

    @property
    def random_stderr(self) -> Floats:
        """The standard error of `random_mean`; NaN with fewer than two random orders."""
        n = len(self.random)
        if n < 2:
            return np.full(len(self.scores), np.nan)
        return np.asarray(self.random.std(axis=0, ddof=1) / np.sqrt(n))

    @property
    def gap(self) -> tuple[float, float]:
        """How much higher U is in order of value than in random order, and the standard error.

        It is the average over the steps. The error is due to the random orders only, since there
        is one order of value.
        """
        if len(self.random) == 0:
            raise InputError("there is no random order to compare with: set repeats to at least 1")
        gaps = self.scores.mean() - self.random.mean(axis=1)
        error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else float("nan")
        return float(gaps.mean()), float(error)

    def to_frame(self) -> pd.DataFrame:
        """A data frame with one row for each step."""
        import pandas as pd

        return pd.DataFrame(
            {
                "fraction": self.fractions,
                "count": self.counts,
                "score": self.scores,
                "random": self.random_mean,
                "random_stderr": self.random_stderr,
            }
        )


def removal(
    U: Potential,
    points: Points | tuple[Any, Any],
    values: Valuation | Sequence[float] | Floats,
    *,
    first: First = "highest",
    fractions: Sequence[float] = _FRACTIONS,
    repeats: int = 10,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Curve:
    """U of the remaining points as points are removed, retrained at each step (section 3.3).

    Parameters
    ----------
    U
        Any potential. Its test rows should differ from those that the values were found with.
    points, values
        The training set, and the value of each of its points.
    first
        Whether the points of highest or of lowest value go first; ties are in random order.
    fractions
        The fraction of the points that is removed at each step.
    repeats
        The number of random orders to compare with.
    seed
        The random seed of the random orders and of the order of ties.
    n_jobs
        As for `dshapley.run`.

    Examples
    --------
    >>> points = Points([[3.0], [1.0], [2.0]])
    >>> curve = removal(lambda S: float(S.X.sum()), points, [3, 1, 2], fractions=[0, 1/3, 2/3])
    >>> curve.scores.tolist()
    [6.0, 3.0, 1.0]
    """
    scores, counts = removal_scores(
        U, points, values, first=first, fractions=fractions, repeats=repeats, seed=seed,
        n_jobs=n_jobs,
    )  # fmt: skip
    return _curve(scores, fractions, counts)


def removal_scores(
    U: Potential | Grouped,
    points: Points | tuple[Any, Any],
    values: Valuation | Sequence[float] | Floats,
    *,
    first: First,
    fractions: Sequence[float],
    repeats: int,
    seed: int,
    n_jobs: int | None = None,
) -> tuple[Floats, Counts]:
    """The results of U behind `removal`, and the number of points removed at each step.

    The first axis is the order (that of the values, then random ones), the second the step, and the
    third the results of U: more than one for a `Grouped` potential.
    """
    points = _checked(U, points, name="points")
    orders = _orders(points, values, first, repeats, seed)
    counts = _counts(fractions, len(points))
    # Rows stay in their order, since the order of rows alone changes the fit of some models.
    kept = [[np.sort(order[n:]) for n in counts] for order in orders]
    return _scores(U, None, points, kept, counts, n_jobs), counts


def addition(
    U: Potential,
    start: Points | tuple[Any, Any],
    points: Points | tuple[Any, Any],
    values: Valuation | Sequence[float] | Floats,
    *,
    first: First = "highest",
    fractions: Sequence[float] = _ALL_FRACTIONS,
    repeats: int = 10,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Curve:
    """U of `start` as points are added to it, retrained at each step (section 4).

    The parameters are those of `removal`, and `start` is the data of a buyer.

    >>> none, points = Points(np.empty((0, 1))), Points([[3.0], [1.0], [2.0]])
    >>> curve = addition(lambda S: float(S.X.sum()), none, points, [3, 1, 2], fractions=[0, 1/3, 1])
    >>> curve.scores.tolist()
    [0.0, 3.0, 6.0]
    """
    start = _checked(U, start, name="start")
    points = _checked(U, points, name="points")
    orders = _orders(points, values, first, repeats, seed)
    counts = _counts(fractions, len(points))
    added = [[np.sort(order[:n]) for n in counts] for order in orders]
    return _curve(_scores(U, start, points, added, counts, n_jobs), fractions, counts)


def _checked(U: Potential | Grouped, points: Any, *, name: str) -> Points:
    if isinstance(points, Bundles):
        raise InputError(f"{name}: bundles cannot be removed or added; give points")
    found = points if isinstance(points, Points) else as_points(points, name=name)
    if len(found):
        check_points(U, found, name=name)
    return found


def _orders(points: Points, values: Any, first: First, repeats: int, seed: int) -> list[Counts]:
    """The order of value, followed by the random orders."""
    if isinstance(values, Valuation) and not np.array_equal(values.ids, points.ids):
        raise InputError(
            "the ids of the values are not those of the points: give the points valued"
        )
    try:
        numbers = np.asarray(values.values if isinstance(values, Valuation) else values, float)
    except (TypeError, ValueError):
        raise InputError("values: give a number for each point") from None
    if not is_whole(seed, least=0):
        raise InputError(f"seed = {seed!r}: give a whole number of at least 0")
    if numbers.shape != (len(points),):
        raise InputError(
            f"values: shape {numbers.shape} for {len(points)} points: give one number for each"
        )
    if len(points) == 0:
        raise InputError("there are no points: give at least one")
    if not np.isfinite(numbers).all():
        where = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(f"the value of point {where} is {numbers[where]}: give finite values")
    if first not in ("highest", "lowest"):
        raise InputError(f"first = {first!r}: use 'highest' or 'lowest'")
    if not is_whole(repeats, least=0):
        raise InputError(f"repeats = {repeats}: give a whole number of at least 0")
    rng = np.random.default_rng(seed)
    ties = rng.permutation(len(points))
    by_value = np.lexsort((ties, -numbers if first == "highest" else numbers))
    return [by_value, *(rng.permutation(len(points)) for _ in range(repeats))]


def _counts(fractions: Sequence[float], n: int) -> Counts:
    parts = np.asarray(fractions, dtype=float)
    if parts.ndim != 1 or len(parts) == 0 or not ((parts >= 0) & (parts <= 1)).all():
        raise InputError(f"fractions = {fractions}: give numbers from 0 to 1")
    return np.rint(parts * n).astype(np.int64)


def _scores(
    U: Potential | Grouped,
    start: Points | None,
    points: Points,
    rows: list[list[Counts]],
    counts: Counts,
    n_jobs: int | None,
) -> Floats:
    scores = np.empty((len(rows), len(counts), width_of(U)))
    # With no point or all points removed, the order does not matter: U is evaluated once.
    whole = [s for s, n in enumerate(counts) if n in (0, len(points))]
    places = [
        (i, s) for i in range(len(rows)) for s in range(len(counts)) if not i or s not in whole
    ]
    task = _Score(U=U, start=start, points=points, rows=[rows[i][s] for i, s in places])
    with results(task, range(len(places)), n_jobs) as found:
        for (i, s), result in zip(places, found, strict=True):
            scores[i, s] = result.marginals
    scores[:, whole] = scores[0, whole]
    return scores


def _curve(scores: Floats, fractions: Sequence[float], counts: Counts) -> Curve:
    return Curve(
        fractions=np.asarray(fractions, dtype=float),
        counts=counts,
        scores=scores[0, :, 0],
        random=scores[1:, :, 0],
    )


@dataclass(frozen=True, kw_only=True)
class _Score:
    """The task of one worker: U of the t-th set of rows."""

    U: Potential | Grouped
    start: Points | None
    points: Points
    rows: list[Counts]

    def __call__(self, t: int) -> Result:
        S = self.points.take(self.rows[t])
        S = S if self.start is None else self.start + S
        try:
            score = np.atleast_1d(np.asarray(self.U(S), dtype=np.float64))
        except Exception as error:
            raise DrawError(f"U of the {len(S)} points at step {t} failed: {error}") from error
        if not np.isfinite(score).all():
            raise DrawError(f"U of the {len(S)} points at step {t} is {score[0]}")
        return Result(1, score)
