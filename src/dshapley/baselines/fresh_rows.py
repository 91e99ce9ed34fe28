"""Does the order of the values hold on rows that played no part in it?

Models are retrained without the rows of lowest (or highest) value and scored on rows that the
values never tested on. That is what a reader wants to know before acting on a ranking: on the
test rows behind the values, any ranking looks better than it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.curves import Curve, First, removal
from dshapley.data.folds import in_folds
from dshapley.data.points import Floats, Points, row_digests
from dshapley.errors import InputError
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.potentials import ModelPotential
from dshapley.sampling.crossfitting import cross_fitted
from dshapley.sampling.draws import Folds

__all__ = ["FreshRows", "on_fresh_rows"]

FRACTIONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
_MOST_TRAINED, _MOST_TESTED = 1000, 2000
"""More rows than these take longer and hardly change the answer, so a sample is used."""
_FEWEST = 20
"""With fewer rows to train or to test on, the answer would be noise."""
_REPEATS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class FreshRows:
    """Scores after removal on rows kept aside, in each of a few divisions of the rows.

    Attributes
    ----------
    fractions
        The share of the training rows that is removed at each step.
    lowest, highest, random
        The score after retraining: one row for each division, one column for each step.
    n_train, n_test
        The rows of a training set before any is removed, and the rows it is scored on.
    """

    fractions: Floats
    lowest: Floats
    highest: Floats
    random: Floats
    n_train: int
    n_test: int

    def gap(self, first: First, step: int) -> tuple[float, float]:
        """Score in order of value minus score in random order, and half its 95 % interval.

        The interval is Student's over the divisions. Their training sets overlap, so it is
        somewhat too narrow.
        """
        from scipy import stats

        own = self.lowest if first == "lowest" else self.highest
        gaps = own[:, step] - self.random[:, step]
        reach = stats.sem(gaps) * stats.t.ppf(0.975, len(gaps) - 1)
        return float(gaps.mean()), float(reach)

    def change(self, first: First, step: int) -> tuple[float, float]:
        """Score after removal minus score with all rows, and half its 95 % interval."""
        from scipy import stats

        own = self.lowest if first == "lowest" else self.highest
        changes = own[:, step] - own[:, 0]
        reach = stats.sem(changes) * stats.t.ppf(0.975, len(changes) - 1)
        return float(changes.mean()), float(reach)

    def curve(self, first: First) -> Curve:
        """The mean over the divisions, as a removal curve."""
        own = self.lowest if first == "lowest" else self.highest
        return Curve(
            fractions=self.fractions,
            counts=np.rint(self.fractions * self.n_train).astype(np.int64),
            scores=own.mean(axis=0),
            random=self.random,
        )


def on_fresh_rows(
    valuation: SampledValuation,
    U: ModelPotential,
    database: Points,
    *,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    n_jobs: int | None = None,
) -> FreshRows:
    """Retrain without the lowest and without the highest values, and score on fresh rows.

    The rows of the database are divided into folds. In turn, models are trained on valued rows
    outside one fold and scored on the rows of this fold. For a cross-fitted run the order is that
    of the values without the draws that tested on this fold; otherwise the values were tested on
    other rows anyway.

    Parameters
    ----------
    valuation
        With the points valued; for a cross-fitted run these are rows of the database.
    U
        The potential of the run; only its model, metric and settings are used.
    database, seed
        The database of the run and its seed, which divides the rows into folds.
    """
    points, draws = valuation.points, valuation.draws
    if points is None:
        raise InputError("the rows behind these values are not known: give single rows as points=")
    fold = _folds(U, points, database, draws.folds, seed)
    n_folds = int(fold.max()) + 1
    rng = np.random.default_rng(seed)
    digests = row_digests(points), row_digests(database)
    found: dict[str, list[Floats]] = {"lowest": [], "highest": [], "random": []}
    sizes = []
    for g in range(n_folds):
        test = _some(np.flatnonzero(fold == g), _MOST_TESTED, rng)
        outside = ~np.isin(digests[0], digests[1][fold == g])
        train = _some(np.flatnonzero(outside), _MOST_TRAINED, rng)
        sizes.append((len(train), len(test)))
        if min(sizes[-1]) < _FEWEST:
            raise InputError(
                f"{sizes[-1][0]} rows to train on and {sizes[-1][1]} to test on are too few: "
                f"at least {_FEWEST} of each are needed"
            )
        values = _values(valuation, g)[train]
        own = replace(U, test=database.take(test))
        kept = points.take(train)
        for first in ("lowest", "highest"):
            curve = removal(
                own, kept, values, first=first, fractions=fractions,
                repeats=_REPEATS if first == "lowest" else 0, seed=seed, n_jobs=n_jobs,
            )  # fmt: skip
            found[first].append(curve.scores)
            if first == "lowest":
                found["random"].append(curve.random.mean(axis=0))
    return FreshRows(
        fractions=np.asarray(fractions, dtype=float),
        **{name: np.array(scores) for name, scores in found.items()},
        n_train=min(n for n, _ in sizes),
        n_test=min(n for _, n in sizes),
    )


def _folds(
    U: ModelPotential, points: Points, database: Points, known: Folds | None, seed: int
) -> NDArray[np.int64]:
    """The fold of each row of the database; for a cross-fitted run those of the run."""
    if known is None:
        return in_folds(database, seed=seed)
    crossed = cross_fitted(replace(U, test=database), points, n_folds=known.n, seed=seed)
    if not np.array_equal(crossed.folds.of, known.of):
        raise InputError("the database or the seed is not that of the run")
    return crossed.rows


def _values(valuation: SampledValuation, fold: int) -> Floats:
    """The values without what was learned from the rows of this fold as test rows."""
    draws = valuation.draws
    if draws.folds is None:
        return valuation.values
    rest = draws.take(draws.folds.of_draws(draws.t) != fold)
    if not rest.all_valued:
        raise InputError(f"{len(draws)} draws are too few to leave out those that test on a fold")
    return estimate(rest, m=valuation.m).values


def _some(places: NDArray[np.intp], most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    if len(places) <= most:
        return places
    return np.sort(rng.choice(places, most, replace=False))
