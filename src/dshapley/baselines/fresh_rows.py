"""Does the order of the values hold on rows that played no part in it?

That is what a reader wants to know before acting on a ranking: on the rows behind the values, any
ranking looks better than it is. So some rows are kept aside, the other rows are valued anew without
them, models are retrained without the rows of lowest (or highest) value, and the models are scored
on the rows kept aside. This is done several times, each time with other rows kept aside.

For classes, the lowest of each class are removed. Classes differ in value, so the lowest of all
rows may be most of one class, and then the score would tell of the class and not of the rows. Other
edits are measured too, each by itself: removing and relabelling the rows whose labels are probably
wrong is another question than removing rows of low value, and has another answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.curves import Curve, First, removal_scores
from dshapley.data.folds import in_folds
from dshapley.data.points import Floats, Points, row_digests
from dshapley.errors import InputError
from dshapley.formatting import duration
from dshapley.inference.jackknife import Grouped
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.potentials import ModelPotential, Potential
from dshapley.running.run import run
from dshapley.sampling.crossfitting import CrossFitted, cross_fitted, equal_rows
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws

__all__ = [
    "LABEL_EDITS",
    "Edit",
    "Edited",
    "FreshRows",
    "Make",
    "on_fresh_rows",
    "places_in_class",
    "relabelled",
    "without_suspects",
]

Make = Callable[[Points, Points], ModelPotential]
"""The potential of the run, for these test rows and this database."""

Edit = Callable[[Points, SampledValuation], tuple[Points, int]]
"""The rows after a change, and how many of them were changed, from the rows and their values."""

FRACTIONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
_MOST_TRAINED, _MOST_TESTED = 2000, 2000
"""A sample of more rows than these is used, which bounds the time."""
_FEWEST = 20
"""With fewer rows to train or to test on, the answer would be noise."""
_PART_OF_DRAWS, _FEWEST_DRAWS, _MOST_DRAWS = 5, 30, 400
"""Draws that value the rows in each division: this part of the run's, within these limits."""
_N_FOLDS = 5
_N_GROUPS = 10
"""Groups of the rows kept aside, for the error that comes from them."""
_ORDERS = 3
"""Random orders in each division."""


def without_suspects(rows: Points, valuation: SampledValuation) -> tuple[Points, int]:
    """The rows without those whose labels are probably wrong."""
    suspects = valuation.label_evidence().suspects
    return rows.take(~suspects), int(suspects.sum())


def relabelled(rows: Points, valuation: SampledValuation) -> tuple[Points, int]:
    """The rows, with the suggested label for those whose labels are probably wrong."""
    evidence = valuation.label_evidence()
    assert rows.y is not None
    assert evidence.suggested is not None
    labels = np.where(evidence.suspects, evidence.suggested, rows.y)
    return Points(rows.X, labels, rows.ids), int(evidence.suspects.sum())


LABEL_EDITS: Mapping[str, Edit] = {"without": without_suspects, "relabelled": relabelled}
"""The edits of a run for classes, unless others are asked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Edited:
    """What an edit did: (divisions, 1 + groups) scores, and the mean number of rows changed."""

    scores: Floats
    n_changed: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FreshRows:
    """Scores after removal on rows kept aside, in each of a few divisions of the rows.

    Attributes
    ----------
    fractions
        The share of the training rows that is removed at each step; the first is 0.
    lowest, highest, random
        The score after retraining: (divisions, steps, 1 + groups). The first result is that on all
        rows kept aside; the others leave out a group of these (none where the metric cannot be
        computed without one).
    n_train, n_test
        The fewest rows of a training set before any is removed, and the fewest rows of a test set.
    n_draws
        The draws that valued the rows in each division.
    by_class
        Whether the lowest (highest) rows of each class were removed, and not of all rows.
    edits
        What other changes of the rows did, by name; only those that changed a row on average.
    """

    fractions: Floats
    lowest: Floats
    highest: Floats
    random: Floats
    n_train: int
    n_test: int
    n_draws: int
    by_class: bool
    edits: Mapping[str, Edited] = field(default_factory=dict)

    def change_by(self, edit: str) -> tuple[float, float]:
        """Score after this edit minus score with all rows, and half its interval.

        The intervals of all edits hold at once with 95 %.
        """
        found = self.edits[edit].scores - self.lowest[:, 0]
        return self._mean_and_reach(found, looks=len(self.edits))

    def change(self, first: First, step: int) -> tuple[float, float]:
        """Score after removal minus score with all rows, and half its 95 % interval."""
        own = self._scores(first)
        return self._mean_and_reach(own[:, step] - own[:, 0])

    def gap(self, first: First, step: int) -> tuple[float, float]:
        """Score in order of value minus score in random order, and half its 95 % interval."""
        return self._mean_and_reach(self._scores(first)[:, step] - self.random[:, step])

    def curve(self, first: First) -> Curve:
        """The mean over the divisions, as a removal curve."""
        return Curve(
            fractions=self.fractions,
            counts=np.rint(self.fractions * self.n_train).astype(np.int64),
            scores=self._scores(first)[..., 0].mean(axis=0),
            random=self.random[..., 0],
        )

    def _scores(self, first: First) -> Floats:
        return self.lowest if first == "lowest" else self.highest

    def _mean_and_reach(self, found: Floats, *, looks: int = 0) -> tuple[float, float]:
        """The mean over the divisions, and half an interval that holds for all steps at once.

        Its variance is that of the rows kept aside, by a delete-group jackknife in each division,
        or that between the divisions if this is larger. The quantile is Bonferroni's for the number
        of steps, since a reader picks the best.
        """
        from scipy import stats

        whole, without = found[:, 0], found[:, 1:]
        n, n_groups = without.shape
        variance, freedom = float(whole.var(ddof=1)) / n, float(n - 1)
        if n_groups:
            spread = without - without.mean(axis=1, keepdims=True)
            of_rows = float((spread**2).sum()) * (n_groups - 1) / n_groups / n**2
            beyond = max(variance - of_rows, 0.0)
            variance = of_rows + beyond
            # Satterthwaite's degrees of freedom for the sum of the two parts.
            rough = of_rows**2 / (n * (n_groups - 1)) + beyond**2 / (n - 1)
            freedom = variance**2 / rough if rough > 0 else float(n * (n_groups - 1))
        looks = looks or max(len(self.fractions) - 1, 1)
        quantile = stats.t.ppf(1 - 0.025 / looks, freedom)
        return float(whole.mean()), float(quantile) * math.sqrt(variance)


class _Division(NamedTuple):
    """One division of the rows."""

    database: Points
    kept: Points
    """The rows that are valued and trained on."""
    test: Points | None
    """The test rows behind the values; None to cross-fit them."""
    fresh: Points
    """The rows kept aside."""


def on_fresh_rows(
    draws: Draws,
    make: Make,
    database: Points,
    *,
    points: Points | None = None,
    test: Points | None = None,
    fractions: Sequence[float] = FRACTIONS,
    edits: Mapping[str, Edit] | None = None,
    most_seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FreshRows:
    """Value rows, retrain without the lowest and without the highest, and score on fresh rows.

    For a run with test rows of its own, a fifth of these is kept aside in turn. For a cross-fitted
    run it is a fifth of the database, and the sets of the draws come from the other rows too.

    Parameters
    ----------
    draws
        The run: its size weights, its seed, and whether it was cross-fitted.
    make, database
        The potential of the run for any test rows and database, and the database of the run.
    points, test
        The rows valued, if they are not the database; the test rows, if it was not cross-fitted.
    fractions
        The shares of the rows to remove, beginning with 0.
    edits
        Other changes to measure, by name. Default: `LABEL_EDITS` for classes, none for numbers.
    most_seconds
        Raise an InputError if all this would take longer than about this.
    progress
        Is called with the number of divisions done, and of all divisions.

    Examples
    --------
    >>> from dshapley.potentials import potential
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 2))
    >>> rows = Points(X, (X[:, 0] > 0).astype(int))
    >>> make = lambda test, database: potential("naive_bayes", test=test)
    >>> cross = cross_fitted(make(rows, rows), rows)
    >>> draws = run(cross, Design(rows, 20, folds=cross.rows), rows, stop=20)
    >>> found = on_fresh_rows(draws, make, rows, fractions=[0, 0.2])
    >>> found.lowest.shape, found.n_train, found.n_test
    ((5, 2, 11), 120, 30)
    """
    if len(fractions) < 2 or fractions[0] != 0:
        raise InputError(f"fractions = {list(fractions)}: begin with 0 and give at least one more")
    points = database if points is None else points
    seed = draws.about.identity.seed
    n_draws = int(np.clip(len(draws) // _PART_OF_DRAWS, _FEWEST_DRAWS, _MOST_DRAWS))
    divisions = list(_divisions(make, database, points, test, seed))
    by_class = draws.judges_labels
    seconds = _time_of_draws(draws, divisions, n_draws)
    if most_seconds is not None and seconds > most_seconds:
        raise InputError(
            f"valuing the rows {len(divisions)} times without those kept aside would take about "
            f"{duration(seconds)}"
        )
    begun = time.monotonic()
    found: dict[str, list[Floats]] = {"lowest": [], "highest": [], "random": []}
    edits = (LABEL_EDITS if draws.judges_labels else {}) if edits is None else edits
    edited: dict[str, list[tuple[Floats, int]]] = {name: [] for name in edits}
    potentials = _potentials(make, divisions)
    if most_seconds is not None:
        n_models = len(divisions) * len(fractions) * (2 + _ORDERS)
        left = most_seconds - seconds
        _check_time_of_fits(potentials[0], divisions[0].kept, n_models, left)
    for i, (part, own) in enumerate(zip(divisions, potentials, strict=True)):
        if most_seconds is not None and time.monotonic() - begun > 1.5 * most_seconds:
            raise InputError(f"it took longer than {duration(most_seconds)}")
        valuation = _valued(draws, make, part, n_draws)
        order = places_in_class(valuation.values, part.kept) if by_class else valuation.values
        for first in ("lowest", "highest"):
            scores, _ = removal_scores(
                own, part.kept, order, first=first, fractions=fractions,
                repeats=_ORDERS if first == "lowest" else 0, seed=_seed(seed, i),
            )  # fmt: skip
            found[first].append(scores[0])
            if first == "lowest":
                found["random"].append(scores[1:].mean(axis=0))
        for name, edit in edits.items():
            rows, n_changed = edit(part.kept, valuation)
            edited[name].append((np.atleast_1d(np.asarray(own(rows), float)), n_changed))
        if progress is not None:
            progress(i + 1, len(divisions))
    return FreshRows(
        fractions=np.asarray(fractions, dtype=float),
        **{name: np.array(scores) for name, scores in found.items()},
        n_train=min(len(part.kept) for part in divisions),
        n_test=min(len(part.fresh) for part in divisions),
        n_draws=n_draws,
        by_class=by_class,
        edits={
            name: Edited(
                scores=np.array([scores for scores, _ in done]),
                n_changed=float(np.mean([n for _, n in done])),
            )
            for name, done in edited.items()
            if np.mean([n for _, n in done]) >= 1
        },
    )


def _seed(seed: int, i: int) -> int:
    """Another seed for each division, so that the luck of random orders shows between them."""
    return int(np.random.SeedSequence([seed, i]).generate_state(1)[0])


def places_in_class(values: Floats, points: Points) -> Floats:
    """The place of each value within its class: 0 for the lowest, towards 1 for the highest.

    >>> points = Points(np.zeros((5, 1)), ["a", "a", "b", "b", "b"])
    >>> places_in_class(np.array([5.0, 4.0, 1.0, 3.0, 2.0]), points).round(2).tolist()
    [0.75, 0.25, 0.17, 0.83, 0.5]
    """
    assert points.y is not None
    found = np.empty(len(values))
    for label in np.unique(points.y):
        here = np.flatnonzero(points.y == label)
        found[here] = (np.argsort(np.argsort(values[here], kind="stable")) + 0.5) / len(here)
    return found


def _potentials(make: Make, divisions: Sequence[_Division]) -> Sequence[Grouped | ModelPotential]:
    """The potential on the rows kept aside, with results without groups of them if possible."""
    plain = [make(part.fresh, part.database) for part in divisions]
    grouped = [Grouped.of(U, n_groups=min(_N_GROUPS, len(U.test) // 2)) for U in plain]
    known = [U for U in grouped if U is not None]
    return known if len(known) == len(plain) else plain


def _divisions(
    make: Make, database: Points, points: Points, test: Points | None, seed: int
) -> Iterator[_Division]:
    """The rows in each division: enough of them, and at most as many as time allows."""
    test = None if test is None else _unknown(test, database, points)
    rng = np.random.default_rng([seed, _N_FOLDS])
    if test is None:
        crossed = cross_fitted(make(database, database), points, n_folds=_N_FOLDS, seed=seed)
        for g in range(crossed.folds.n):
            inside = database.take(crossed.rows != g)
            kept = points.take(_some(crossed.folds.of != g, _MOST_TRAINED, rng))
            fresh = database.take(_some(crossed.rows == g, _MOST_TESTED, rng))
            yield _checked(_Division(inside, kept, None, fresh))
        return
    fold = in_folds(test, equal_rows(test, _N_FOLDS), n_folds=_N_FOLDS, seed=seed)
    for g in range(int(fold.max()) + 1):
        # Other rows to train on each time, as in cross-fitting: the luck of one set would not show.
        most = min(_MOST_TRAINED, len(points) - len(points) // _N_FOLDS)
        kept = points.take(_some(np.ones(len(points), dtype=bool), most, rng))
        fresh = test.take(_some(fold == g, _MOST_TESTED, rng))
        yield _checked(_Division(database, kept, test.take(fold != g), fresh))


def _checked(part: _Division) -> _Division:
    sizes = len(part.kept), len(part.fresh)
    if min(sizes) < _FEWEST:
        raise InputError(
            f"{sizes[0]} rows to train on and {sizes[1]} to test on are too few: at least "
            f"{_FEWEST} of each are needed"
        )
    return part


def _unknown(test: Points, database: Points, points: Points) -> Points:
    """The test rows that are not also rows to train on: a model answers those from memory."""
    numbers = equal_rows(database, _N_FOLDS)
    if len(np.unique(numbers)) == len(database) and len(np.unique(row_digests(database))) < len(
        database
    ):
        return test  # the data are discrete, so equal rows are no copies
    known = np.union1d(row_digests(database), row_digests(points))
    left = test.take(~np.isin(row_digests(test), known))
    if len(left) < _N_FOLDS * _FEWEST:
        raise InputError(
            f"{len(left)} test rows that are not rows to train on too are too few: at least "
            f"{_N_FOLDS * _FEWEST} are needed"
        )
    return left


def _valued(draws: Draws, make: Make, part: _Division, n_draws: int) -> SampledValuation:
    """The values of the rows kept, from nothing but the rows that are not kept aside."""
    seed = draws.about.identity.seed
    U: Potential | CrossFitted
    if part.test is None:
        U = cross_fitted(make(part.database, part.database), part.kept, seed=seed)
    else:
        U = make(part.test, part.database)
    folds = U.rows if isinstance(U, CrossFitted) else None
    design = Design(
        part.database, m=draws.m, weights=draws.weights, seed=seed,
        balanced=bool(draws.balanced), control_variates=False, folds=folds,
    )  # fmt: skip
    record = run(U, design, part.kept, stop=n_draws, progress=False)
    return estimate(record, points=part.kept)


def _some(chosen: NDArray[np.bool_], most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    places = np.flatnonzero(chosen)
    return places if len(places) <= most else np.sort(rng.choice(places, most, replace=False))


def _time_of_draws(draws: Draws, divisions: Sequence[_Division], n_draws: int) -> float:
    """About how many seconds it takes to value the rows, from the time of the run."""
    if draws.seconds is None or not len(draws.seconds):
        return 0.0
    share = min(sum(len(part.kept) for part in divisions) / max(len(draws.ids), 1), len(divisions))
    workers = joblib.effective_n_jobs(None)
    return float(np.median(draws.seconds)) * n_draws * share / workers


def _check_time_of_fits(
    U: ModelPotential | Grouped, rows: Points, n_models: int, most_seconds: float
) -> None:
    """An error if this many models would take longer than that, from the time of one."""
    seconds = math.inf
    for _ in range(2):  # The first time may be spent on compiling.
        begun = time.monotonic()
        U(rows)
        seconds = min(seconds, time.monotonic() - begun)
        if n_models * seconds <= most_seconds:
            return
    raise InputError(
        f"retraining {n_models} models would take about {duration(n_models * seconds)} on one core"
    )
