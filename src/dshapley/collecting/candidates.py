"""The candidates of a run: rows of another table that could be collected, and what is in the way.

The run folder names the tables that it was made from. They are read again, and the candidates are
encoded as the run's rows were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dshapley.data.encoding import is_number
from dshapley.data.points import Points
from dshapley.data.tables import Prepared, check_distinct
from dshapley.data.targets import are_classes
from dshapley.errors import InputError, nearest
from dshapley.potentials import ModelPotential
from dshapley.running.run import METHOD
from dshapley.running.run_folder import load_run
from dshapley.running.source_tables import RunTables, run_tables
from dshapley.sampling.crossfitting import CrossFitted, cross_fitted, places_of
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Candidates", "candidates"]

_DISCRETE = 0.5
"""If more than this share of the database's rows equal another one, equal rows are no copies."""
_FEW = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """The rows that could be collected, and the run that they are valued as.

    Attributes
    ----------
    rows
        The candidates, encoded as in the run; without labels if their labels are not known.
    shown
        The same rows as they are in the file: the columns that the model sees.
    U, design
        The potential and the design of the run.
    target
        The name of the column that the run predicts.
    n_draws
        The number of draws that the run has.
    notices
        What a person should know of the data.
    """

    rows: Points
    shown: pd.DataFrame
    U: ModelPotential | CrossFitted
    design: Design
    target: str
    n_draws: int
    notices: tuple[str, ...]

    @property
    def labelled(self) -> bool:
        """Whether the labels of the candidates are known."""
        return self.rows.y is not None

    @property
    def cross_fitted(self) -> bool:
        """Whether the run has no test rows of its own."""
        return isinstance(self.U, CrossFitted)

    @property
    def potential(self) -> ModelPotential:
        """The potential; of a cross-fitted run, that on the whole database."""
        return self.U.U if isinstance(self.U, CrossFitted) else self.U


def candidates(folder: Path, pool: Path, *, source: Path | None = None) -> Candidates:
    """The candidates in the table `pool`, for a run of `dshapley value`.

    Rows that the run has already, in its database or among its test rows, are left out. If the
    target is missing from the table or empty in all of it, the candidates are unlabelled.
    """
    draws = load_run(folder)
    if draws.about.identity.method != METHOD:
        raise InputError(
            f"{folder} holds a run of {draws.about.identity.method}: give a run of dshapley value"
        )
    tables = run_tables(folder, draws.about, source=source)
    if tables.asked.group is not None:
        raise InputError(
            f"{folder} values bundles, but candidates are single rows: make a run without groups"
        )
    if pool.exists() and pool.resolve() == tables.base.resolve():
        raise InputError(f"{pool} is the table of {folder}: give a table of other rows")
    offered, base = tables.read(pool), tables.read(tables.base)
    _check_columns(tables, offered, base, pool)
    labelled = _is_labelled(offered, tables.asked.target, pool)
    if not labelled:  # any label will do: it is taken off again
        offered = offered.assign(**{tables.asked.target: base[tables.asked.target].iloc[0]})
    try:
        prepared = tables.prepared(offered)
    except InputError as error:  # `prepare` calls the rows to value the points table
        raise InputError(str(error).replace("the points table", str(pool))) from None
    _check_same(tables, prepared)
    if tables.asked.id is not None:
        check_distinct(prepared.points.ids, tables.asked.id)
    assert prepared.rows is not None
    new, said = _new_rows(prepared, pool)
    rows = prepared.points.take(new)
    used = [name for name in prepared.rows.columns if name != tables.asked.target]
    U, design = _as_in_the_run(tables, prepared, draws)
    return Candidates(
        rows=rows if labelled else Points(rows.X, ids=rows.ids),
        shown=prepared.rows[used].iloc[new],
        U=U,
        design=design,
        target=tables.asked.target,
        n_draws=len(draws),
        notices=(
            *(
                note.replace("points table", "table of candidates")
                for note in prepared.notices
                if "points table" in note
            ),
            *said,
            *_unknown_words(base, prepared.rows[used].iloc[new], used),
            *(_unknown_labels(prepared.database, rows) if labelled else ()),
        ),
    )


def _check_columns(
    tables: RunTables, offered: pd.DataFrame, base: pd.DataFrame, pool: Path
) -> None:
    asked = tables.asked
    needed = [name for name in base.columns if name not in {asked.target, *asked.drop}]
    missing = [name for name in needed if name not in offered.columns]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise InputError(
            f"{pool} lacks the column {missing[0]!r}{more} that the run's table has: add it; "
            f"{nearest(missing[0], list(offered.columns))}"
        )


def _is_labelled(offered: pd.DataFrame, target: str, pool: Path) -> bool:
    """Whether every row has a label; an error if only some have."""
    if target not in offered.columns:
        return False
    gaps = int(offered[target].isna().sum())
    if 0 < gaps < len(offered):
        raise InputError(
            f"{pool}: the target {target!r} is missing in {gaps:,} of {len(offered):,} rows: give "
            "labelled and unlabelled candidates in separate tables"
        )
    return gaps == 0


def _check_same(tables: RunTables, prepared: Prepared) -> None:
    """The database must be that of the run: the draws are to be comparable with the run's."""
    if prepared.database.fingerprint() != tables.about.identity.database:
        raise InputError(
            f"{tables.base} has changed since {tables.folder} was made: its rows differ; restore "
            "the table, or value it again in a new folder"
        )


def _new_rows(prepared: Prepared, pool: Path) -> tuple[NDArray[np.intp], list[str]]:
    """The positions of the candidates that the run does not have yet, and what was left out."""
    rows, said = Points(prepared.points.X), []
    left = np.zeros(len(rows), dtype=bool)
    for name, known in (("database", prepared.database), ("test set", prepared.test)):
        if known is None:
            continue
        same = (places_of(rows, Points(known.X)) >= 0) & ~left
        if not same.any():
            continue
        if _is_discrete(known):
            said.append(
                f"{same.sum():,} of the {len(rows):,} candidates equal a row of the {name}; they "
                "are kept, because equal rows are common in this table"
            )
            continue
        said.append(
            f"{same.sum():,} of the {len(rows):,} candidates are in the {name} already and are "
            "left out"
        )
        left |= same
    if left.all():
        raise InputError(f"{pool}: every row is in the run already: give rows that are not")
    return np.flatnonzero(~left), said


def _is_discrete(known: Points) -> bool:
    import pandas as pd

    return bool(pd.DataFrame(known.X).duplicated(keep=False).mean() > _DISCRETE)


def _unknown_words(base: pd.DataFrame, rows: pd.DataFrame, used: Sequence[str]) -> list[str]:
    """A notice for each text column with values that the database lacks."""
    found = []
    for name in used:
        if is_number(base[name]):
            continue
        words = rows[name].dropna().astype(str)
        unknown = words[~words.isin(base[name].dropna().astype(str).unique())]
        if len(unknown):
            some = ", ".join(sorted(unknown.unique())[:_FEW])
            found.append(
                f"candidates with a value of {name} that the database lacks ({some}): "
                f"{len(unknown):,}; the model cannot tell such values apart"
            )
    return found


def _unknown_labels(database: Points, rows: Points) -> list[str]:
    """A notice about labels that the database lacks, if there are any."""
    if database.y is None or rows.y is None or not are_classes(database.y):
        return []
    unknown = np.setdiff1d(rows.y, database.y)
    if not len(unknown):
        return []
    some = ", ".join(str(label) for label in unknown[:_FEW])
    return [f"the candidates have labels that are not in the database: {some}"]


def _as_in_the_run(
    tables: RunTables, prepared: Prepared, draws: Draws
) -> tuple[ModelPotential | CrossFitted, Design]:
    """The potential and the design of the run."""
    identity, database = tables.about.identity, prepared.database
    U: ModelPotential | CrossFitted = tables.potential(
        database if prepared.test is None else prepared.test, database
    )
    if prepared.test is None:
        assert isinstance(U, ModelPotential)
        U = cross_fitted(U, database, seed=identity.seed)
    design = Design(
        database,
        m=draws.m,
        weights=draws.weights,
        seed=identity.seed,
        balanced=identity.balanced,
        control_variates=identity.control_variates,
        folds=U.rows if isinstance(U, CrossFitted) else None,
    )
    return U, design
