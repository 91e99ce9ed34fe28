"""How much values would differ with another database of the same size from the same source.

S holds k - 1 rows of the database. How a value depends on the weight of row j is seen from the
draws already made: sets with more copies of row j than usual have marginals that differ from the
usual by so much. The sum over the rows of the squared covariances of marginals and counts is the
variance between databases: the infinitesimal jackknife (Jaeckel 1972), in the form that Efron
(2014) and Wager, Hastie and Efron (2014) gave it for bagged predictors. No model is trained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.inference.estimation import Part, Terms, terms
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["DatabaseError", "database_error", "design_of"]

_ROUGHEST = 0.5
"""The error counts as known if the variance, pooled over the points, is known to this part."""
_ONE_SIDED = 1.645
_FEWEST_ALIKE = 3
"""The fewest draws about a mean of their own."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DatabaseError(NotebookDisplay):
    """The error that comes from the finite database; made by `valuation.database_error()`.

    Attributes
    ----------
    stderr
        The standard deviation of each value between databases. NaN where the draws are too few to
        tell.
    typical
        Their root mean square; NaN where it is not known.
    most
        An upper 95 % confidence limit of `typical`, which is known sooner.
    of_draws
        The root mean square standard error of the same values by the draws alone, to compare with.
    rows
        The number of rows of the database.
    n_draws
        The number of draws behind the values.
    draws_needed
        About how many draws in all would make the error known, if it is not; None if that cannot
        be told yet.
    ids
        The names of the points.
    """

    stderr: Floats
    typical: float
    most: float
    of_draws: float
    rows: int
    n_draws: int
    draws_needed: int | None
    ids: Array

    @property
    def known(self) -> bool:
        """Whether the draws are enough to tell the error."""
        return math.isfinite(self.typical)

    def __len__(self) -> int:
        return len(self.stderr)

    def __repr__(self) -> str:
        """The error between databases, or its limit, beside that of the draws."""
        found = f"{self.typical:.2g}" if self.known else f"at most {self.most:.2g}"
        return (
            f"DatabaseError of {len(self):,} values, databases of {self.rows:,} rows: {found}; "
            f"of the draws: {self.of_draws:.2g}"
        )


def design_of(draws: Draws) -> Design:
    """The design that these draws were made by, without the rows of the database.

    It has the database's number of rows and, for cross-fitted values of all its rows, their folds:
    enough to say which rows each set S had.
    """
    identity, rows = draws.about.identity, draws.about.context.database_rows
    if rows is None or identity.balanced is None:
        raise InputError(
            "these draws do not say how they were made: give their design, "
            "valuation.database_error(design)"
        )
    folds = None
    if draws.folds is not None:
        if identity.database is None or identity.database != identity.points:
            raise InputError(
                "the folds of the database are not known, because its rows are not those that "
                "were valued: give the design of the draws, valuation.database_error(design)"
            )
        folds = draws.folds.of
    return Design(
        Points(np.zeros((rows, 1))),
        draws.m,
        weights=draws.weights,
        seed=identity.seed,
        balanced=identity.balanced,
        control_variates=identity.control_variates,
        folds=folds,
    )


def database_error(how: Terms, *, of_draws: float, design: Design | None = None) -> DatabaseError:
    """The error of these estimates that comes from the finite database.

    With N_tj the number of copies of row j in the set of draw t, less its mean, and a_ti the term
    of draw t in value i, less its mean, the variance of value i is

        sum over t != t' of a_ti a_t'i K_tt',    K_tt' = sum over j of N_tj N_t'j.

    Leaving out t = t' takes away the Monte Carlo bias exactly: those terms would be there if no row
    mattered. A single value is known less well than all together, so its variance is shrunk towards
    what its spread over the draws predicts (empirical Bayes).
    """
    draws = how.draws
    design = design_of(draws) if design is None else design
    kernel = _kernel(draws, design)
    plain = terms(draws, m=how.m, within_bands=how.within_bands, control_variates=False)
    n, n_draws = draws.marginals.shape[1], len(draws)
    variance, rough, spread = np.empty(n), np.empty(n), np.empty(n)
    pulls, products = np.zeros(n_draws), np.zeros((n_draws, n_draws))
    for columns, part in plain.parts:
        a = _centred(part, columns)
        pull = a * (kernel @ a)
        variance[columns], spread[columns] = pull.sum(axis=0), (a**2).sum(axis=0)
        null = 2 * ((a**2) * (kernel**2 @ a**2)).sum(axis=0)
        rough[columns] = _uncertain(pull, null)
        pulls += pull.sum(axis=1) / n
        products += a @ a.T / n
    mean = float(variance.mean())
    error = math.sqrt(float(_uncertain(pulls, 2 * ((kernel * products) ** 2).sum())))
    known = mean > 0 and error <= _ROUGHEST * mean
    stderr = np.full(n, np.nan)
    if known:
        stderr = np.sqrt(
            _shrunk(variance, rough, spread * mean / max(float(spread.mean()), 1e-300))
        )
    return DatabaseError(
        stderr=stderr,
        typical=math.sqrt(mean) if known else math.nan,
        most=math.sqrt(max(mean, 0.0) + _ONE_SIDED * error),
        of_draws=of_draws,
        rows=len(design.database),
        n_draws=how.n_draws,
        draws_needed=None
        if known or not mean > 0
        else int(np.ceil(n_draws * error / (_ROUGHEST * mean))),
        ids=draws.ids,
    )


def _uncertain(pull: Floats, null: Floats) -> Floats:
    """The variance of a sum over pairs of draws.

    `pull` has each draw's part of the sum, twice of which is what the sum loses without the draw;
    `null` is the variance if no row mattered, which the jackknife counts twice.
    """
    apart = pull - pull.mean(axis=0)
    return np.maximum(4 * (apart**2).sum(axis=0) - null, null)


def _shrunk(variance: Floats, rough: Floats, prior: Floats) -> Floats:
    """Each variance moved towards its prior by as much as it is noise; never below zero."""
    between = max(float(((variance - prior) ** 2 - rough).mean()), 0.0)
    total = between + rough
    share = np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)
    return np.maximum(prior + share * (variance - prior), 0.0)


def _centred(part: Part, columns: NDArray[np.intp]) -> Floats:
    """The term of each draw in the values, less the mean of the others of its sizes and fold."""
    draws = part.draws
    found = np.zeros((len(draws), len(columns)))
    summands, cells = part.summands(columns), part.cells
    folds = np.zeros(len(cells), np.int64)
    if draws.folds is not None:
        folds = draws.folds.of_draws(draws.t[part.sources])
    group = np.unique(np.column_stack([cells, folds]), axis=0, return_inverse=True)[1].reshape(-1)
    if np.bincount(group).min() < _FEWEST_ALIKE:
        group = np.unique(cells, return_inverse=True)[1]
    for number in range(int(group.max()) + 1):
        here = np.flatnonzero(group == number)
        if len(here) > 1:
            some = summands[here]
            found[part.sources[here]] = (some - some.mean(axis=0)) * len(here) / (len(here) - 1)
    return found


def _kernel(draws: Draws, design: Design) -> Floats:
    """K_tt' of all pairs of draws: how far two sets have more rows in common than by chance."""
    from scipy.sparse import csr_array

    asked = [design.size(t) for t in draws.t.tolist()]
    if asked != draws.k.tolist() or design.m != draws.m:
        raise InputError(
            "this is not the design of these draws: their set sizes differ; give the design that "
            "they were made by"
        )
    sets = [design.rows(t, k) for t, k in zip(draws.t.tolist(), draws.k.tolist(), strict=True)]
    sizes = np.array([len(rows) for rows in sets])
    n = len(design.database)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    places = np.concatenate([*sets, np.empty(0, np.intp)])
    counts = csr_array((np.ones(len(places)), places, ends), shape=(len(sets), n))
    common = (counts @ counts.T).toarray()
    if design.folds is None:
        kernel = common - np.outer(sizes, sizes) / n
    else:
        kernel = common - _expected(counts, sizes, design, draws)
    np.fill_diagonal(kernel, 0.0)
    return np.asarray(kernel)


def _expected(counts: csr_array, sizes: Array, design: Design, draws: Draws) -> Floats:
    """What centring takes from the products of the counts, for sets from outside a fold each."""
    assert design.folds is not None
    n_folds = int(design.folds.max()) + 1
    inside = np.zeros((len(design.database), n_folds))
    inside[np.arange(len(inside)), design.folds] = 1.0
    of_rows = inside.sum(axis=0)
    tested = np.array([design.fold(t) for t in draws.t.tolist()])
    # The mean number of copies of a row from outside the fold.
    each = sizes / (len(inside) - of_rows[tested])
    outside = sizes[:, np.newaxis] - (counts @ inside)[:, tested]
    mixed = outside * each
    both = len(inside) - of_rows[tested][:, np.newaxis] - of_rows[tested]
    both = both + np.where(tested[:, np.newaxis] == tested, of_rows[tested], 0.0)
    return np.asarray(mixed + mixed.T - np.outer(each, each) * both)
