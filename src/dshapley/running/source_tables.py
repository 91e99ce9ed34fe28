"""The tables that a run was made from, read again.

A run folder holds no features, so predicting other rows needs the original tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dshapley.data.points import Bundles, Points
from dshapley.data.tables import Prepared, prepare, read_table
from dshapley.errors import InputError
from dshapley.inference.interpolation import Prediction, chosen_to_measure
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.learners.by_name import model_from_name
from dshapley.potentials import ModelPotential, describe, potential
from dshapley.running.run_folder import is_own, load_run
from dshapley.sampling.provenance import About, Source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunTables", "predicted", "rows_valued", "run_tables"]

_OF_DATA = {"test", "empty", "path", "preprocess.fitted"}
"""What the description of a potential says of the data, or of how it is computed."""


def predicted(
    folder: Path, table: Path, *, source: Path | None = None
) -> tuple[Valuation, Prediction]:
    """The valuation of a run of `dshapley value`, and its prediction for the rows of another table.

    The features are read again from the tables that the run folder's manifest names (see
    `run_tables`), encoded as in the run, and compared with the run's fingerprint.
    """
    draws = load_run(folder)
    tables = run_tables(folder, draws.about, source=source)
    if tables.asked.group is not None:
        raise InputError(
            f"{folder} holds values of bundles, which do not predict single rows: make a run "
            "without groups"
        )
    measured = tables.valued()
    assert isinstance(measured, Points)
    valuation = estimate(draws, points=measured)
    return valuation, valuation.predict(replace(tables, points=table).prepared().points)


def rows_valued(folder: Path, about: About, *, source: Path | None = None) -> pd.DataFrame:
    """The rows that a run valued, as in its table, by id as text; the target comes first."""
    tables = run_tables(folder, about, source=source)
    prepared = tables.prepared()
    tables.valued(prepared)
    if prepared.rows is None:
        raise InputError(f"{folder} holds values of bundles, which have no columns of their own")
    return prepared.rows.set_axis(prepared.points.ids.astype(str), axis=0)


def run_tables(folder: Path, about: About, *, source: Path | None = None) -> RunTables:
    """The paths of the tables of a run of `dshapley value`.

    A run folder that somebody else made could name any of this user's files, so the named paths
    are only followed if this user made the run. Otherwise `source` is needed: the run's table, or
    the folder that it is in. The run's other tables are then looked up by name in the same folder.
    """
    asked = about.context.source
    if asked is None:
        raise InputError(f"{folder} was not made by `dshapley value`, so it names no table")
    named = [asked.table, asked.test_table, asked.points_table]
    if source is None:
        if not is_own(folder):
            raise InputError(
                f"{folder} was not made by you on this machine, so the tables that it names are "
                "not read: give the run's table, or the folder it is in, with --source"
            )
        found = [None if name is None else Path(name) for name in named]
    else:
        within = source if source.is_dir() else source.parent
        found = [None if name is None else within / Path(name).name for name in named]
        found[0] = found[0] if source.is_dir() else source
    gone = next((path for path in found if path is not None and not path.exists()), None)
    if gone is not None:
        raise InputError(
            f"{gone}, a table of {folder}, does not exist: give the folder of the tables with "
            "--source"
        )
    base, test, points = found
    assert base is not None
    return RunTables(folder=folder, about=about, asked=asked, base=base, test=test, points=points)


@dataclass(frozen=True, kw_only=True)
class RunTables:
    """The paths of a run's tables: the database and, if given, the test rows and the points."""

    folder: Path
    about: About
    asked: Source
    base: Path
    test: Path | None
    points: Path | None

    @property
    def of_rows(self) -> Path:
        """The table that contains the rows valued."""
        return self.points or self.base

    def prepared(self, offered: pd.DataFrame | None = None) -> Prepared:
        """The tables, encoded as in the run; `offered` rows take the place of the points valued."""
        asked = self.asked
        base, test = self.read(self.base), None if self.test is None else self.read(self.test)
        if offered is None and self.points is not None:
            offered = self.read(self.points)
        return prepare(
            base,
            target=asked.target,
            task=asked.task,
            test=test,
            test_size=asked.test_size,
            points=offered,
            id_column=asked.id,
            group_column=asked.group,
            drop=asked.drop,
            seed=self.about.identity.seed,
        )

    def read(self, path: Path) -> pd.DataFrame:
        """A table, with its ids and groups as text."""
        return read_table(path, text=[self.asked.id, self.asked.group])

    def potential(self, test: Points, database: Points) -> ModelPotential:
        """The run's model and metric on any test rows; an error if they have changed since.

        A model of the form module:factory is code that the run folder names. It is imported only
        if this user made the folder.
        """
        asked, identity = self.asked, self.about.identity
        if ":" in asked.model and not is_own(self.folder):
            raise InputError(
                f"{self.folder} was not made by you on this machine, so the model that it names, "
                f"{asked.model}, is not imported"
            )
        U = potential(
            model_from_name(asked.model, asked.task),
            test=test,
            metric=identity.metric,
            min_rows=asked.min_rows,
            preprocess=asked.preprocess,
            retrain=asked.retrain,
            database=database,
        )
        now, then = describe(U), identity.potential
        compared = [name for name in then if name not in _OF_DATA]
        changed = [name for name in compared if then[name] != now.get(name)]
        if changed:
            raise InputError(
                f"the model or metric of {self.folder} has changed since: {', '.join(changed)}"
            )
        return U

    def valued(self, prepared: Prepared | None = None) -> Points | Bundles:
        """The rows or bundles that the run valued; an error if they have changed since."""
        prepared = self.prepared() if prepared is None else prepared
        identity, share = self.about.identity, self.about.context.share
        Z: Points | Bundles = prepared.points
        if prepared.groups is not None:
            Z = Bundles(prepared.points, prepared.groups)
        elif share != 1:
            Z = prepared.points.take(chosen_to_measure(prepared.points, share, identity.seed))
        if Z.fingerprint() != identity.points:
            raise InputError(
                f"{self.of_rows} has changed since {self.folder} was made: its rows differ; "
                "restore the table, or value it again in a new folder"
            )
        return Z
