"""What is known of a run when its report is written: values, tables, and what retraining showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.fresh_rows import Edit, FreshRows, Make, on_fresh_rows
from dshapley.data.points import Bundles, Floats
from dshapley.data.tables import Prepared
from dshapley.errors import DShapleyError, InputError, RunFolderError
from dshapley.inference.completed import completed
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.label_evidence import LabelEvidence
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.plots.figure import name_of
from dshapley.reporting.findings import CONFIDENCE
from dshapley.running.run import METHOD
from dshapley.running.run_folder import load_run
from dshapley.running.source_tables import run_tables
from dshapley.sampling.provenance import About

__all__ = ["RunFacts", "facts_of", "facts_of_run"]


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a report of a run is made from."""

    folder: Path | None
    """The run folder; None for values that are in memory only."""
    valuation: Valuation
    prepared: Prepared | None
    """The run's tables, where they are at hand and unchanged."""
    missing: str
    """Why the tables are not at hand; empty if they are."""
    fresh: FreshRows | None
    """What retraining without some rows did to the score on fresh rows."""
    not_retrained: str
    """Why that was not measured; empty if it was."""
    sensitive: bool
    """Whether ids, labels and column values must not be shown."""

    @property
    def about(self) -> About:
        """The record of the run."""
        return self.valuation.about

    @property
    def metric(self) -> str:
        """The name of the metric, or U."""
        return self.about.identity.metric or "U"

    @property
    def what(self) -> str:
        """What has a value: a row or a bundle of rows."""
        return "bundle" if (self.valuation.rows != 1).any() else "row"

    @property
    def model(self) -> str:
        """The class of the model, or "a model"."""
        name = self.about.identity.potential.get("estimator")
        return name.rpartition(".")[2] if isinstance(name, str) else "a model"

    @property
    def half_widths(self) -> Floats:
        """Half the confidence interval of each value, each on its own."""
        low, high = self.valuation.interval(CONFIDENCE)
        return (high - low) / 2

    @cached_property
    def below_zero_together(self) -> NDArray[np.bool_]:
        """Which values are below zero with intervals that hold for all points at once."""
        valuation = self.valuation
        if not isinstance(valuation, SampledValuation) or valuation.unseen:
            return np.zeros(len(valuation), dtype=bool)
        return np.asarray(valuation.interval(CONFIDENCE, simultaneous=True)[1] < 0)

    @cached_property
    def labels(self) -> LabelEvidence | None:
        """What the models say of the labels of classes; None where they were not asked.

        Of points that were not measured nothing is known.
        """
        try:
            found = self.valuation.measured.label_evidence()
        except InputError:
            return None
        if found.suggested is None or found.given is None:
            return None
        points = self.valuation.points
        if not self.valuation.predicted.any():
            return found
        if points is None or points.y is None:
            return None
        return found.among(~self.valuation.predicted, self.valuation.ids, points.y)

    def name(self, i: int) -> str:
        """What the text calls the point at position i."""
        return f"{self.what} {name_of(self.valuation.ids[i])}"


def facts_of_run(
    folder: Path,
    *,
    source: Path | None = None,
    sensitive: bool = False,
    retrain: bool = True,
    most_seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RunFacts:
    """Read a run folder and its tables, and retrain models without some of the rows.

    Parameters
    ----------
    source
        Where the run's tables are, if not where they were (see `running.source_tables`).
    sensitive
        See `RunFacts`.
    retrain, most_seconds, progress
        Whether to retrain models on fresh rows, and how (see `baselines.fresh_rows`).
    """
    draws = load_run(folder)
    identity, context = draws.about.identity, draws.about.context
    if identity.method != METHOD:
        raise InputError(f"{folder} holds a run of {identity.method}; report reads {METHOD}")
    tables, prepared, missing, Z = None, None, "", None
    try:
        tables = run_tables(folder, draws.about, source=source)
        prepared = tables.prepared()
        Z = tables.valued(prepared)
    except (InputError, RunFolderError) as error:
        if source is not None:
            raise
        prepared, missing = None, str(error)
    measured = estimate(draws, points=Z)
    valuation: Valuation = measured
    if prepared is not None and context.share != 1:
        where = chosen_to_measure(prepared.points, context.share, identity.seed)
        valuation = completed(measured, prepared.points, where)
    if retrain and (prepared is None or tables is None):
        retrain = False
        reason = f"The tables are not at hand: {missing}."
        if sensitive:
            reason = "The tables are not at hand, or they have changed."
    else:
        reason = TURNED_OFF
    facts = facts_of(
        valuation, prepared, None if tables is None else tables.potential, folder=folder,
        sensitive=sensitive, retrain=retrain, most_seconds=most_seconds, progress=progress,
    )  # fmt: skip
    if not retrain:
        facts = replace(facts, not_retrained=reason)
    return replace(facts, missing="" if sensitive else missing)


TURNED_OFF = "Retraining was turned off (--no-retrain)."


def facts_of(
    valuation: Valuation,
    prepared: Prepared | None,
    make: Make | None,
    *,
    folder: Path | None = None,
    sensitive: bool = False,
    retrain: bool = True,
    edits: Mapping[str, Edit] | None = None,
    most_seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RunFacts:
    """The facts of values at hand; models are retrained if `retrain`, with the potential `make`.

    For `edits`, `most_seconds` and `progress` see `baselines.fresh_rows`.
    """
    fresh, reason = None, TURNED_OFF
    measured = valuation.measured
    if retrain and prepared is not None and make is not None:
        assert isinstance(measured, SampledValuation)
        fresh, reason = _retrained(measured, make, prepared, edits, most_seconds, progress)
        if sensitive and fresh is None:
            reason = "It could not be measured."
    return RunFacts(
        folder=folder,
        valuation=valuation,
        prepared=prepared,
        missing="",
        fresh=fresh,
        not_retrained=reason,
        sensitive=sensitive,
    )


def _retrained(
    measured: SampledValuation,
    make: Make,
    prepared: Prepared,
    edits: Mapping[str, Edit] | None,
    most_seconds: float | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[FreshRows | None, str]:
    """What retraining on fresh rows shows, or why it was not done."""
    if isinstance(measured.points, Bundles) or (measured.rows != 1).any():
        return None, "Models are retrained without single rows only, not without bundles."
    if measured.unseen or not np.isfinite(measured.stderr).all():
        return None, "There are too few draws to order the rows."
    try:
        found = on_fresh_rows(
            measured.draws,
            make,
            prepared.database,
            points=prepared.points,
            test=prepared.test,
            edits=edits,
            most_seconds=most_seconds,
            progress=progress,
        )
    except DShapleyError as error:
        return None, f"It could not be measured: {error}."
    return found, ""
