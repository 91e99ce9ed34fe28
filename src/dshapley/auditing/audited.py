"""The audit of a table: `audit` values its rows and reads from the run what may be wrong.

Nothing in it is advice that was not measured: what removing or relabelling rows does is measured by
retraining on rows that played no part in finding them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshapley.api import Fitting, Request, Sampling, answer, potentials_of
from dshapley.auditing.copies import Copies, copies, without_conflicts
from dshapley.auditing.rarity import rare
from dshapley.auditing.regions import Region, regions
from dshapley.baselines.fresh_rows import LABEL_EDITS, Edit
from dshapley.data.points import Array, Floats, Points
from dshapley.data.tables import Prepared, prepare, task_of
from dshapley.errors import InputError, warn
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation
from dshapley.learners.by_name import model_from_name
from dshapley.learners.refit import is_classifier
from dshapley.notebooks import NotebookDisplay
from dshapley.reporting.findings import CONFIDENCE, class_labels
from dshapley.reporting.run_facts import RunFacts, facts_of
from dshapley.running.run import Interrupted
from dshapley.running.stopping import Stop, StopRule

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEAST", "Audit", "audit", "audited"]


def without_below_zero(rows: Points, valuation: SampledValuation) -> tuple[Points, int]:
    """The rows without those whose value is below zero, each with 95 % confidence."""
    below = valuation.below_zero(CONFIDENCE)
    return rows.take(~below), int(below.sum())


def _edits(*, classes: bool) -> Mapping[str, Edit]:
    """What an audit measures, by name."""
    return {
        **(LABEL_EDITS if classes else {}),
        "without conflicts": lambda rows, _: without_conflicts(rows, classes=classes),
        "without below zero": without_below_zero,
    }


LEAST = 0.05
"""Regions whose labels fall short by less are not named: with many rows, trifles are beyond the
error.
"""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Audit(NotebookDisplay):
    """What an audit found; made by `audit`.

    Attributes
    ----------
    run
        The run behind it: the valuation, the table, and what retraining showed.
    copies
        Exact and near copies of rows.
    rare
        The tenth of the rows that is farthest from others.
    contradicted
        Regions whose labels contradict the models more than these expect, the clearest first. The
        score of a row is the probability that models give to its label minus the one that they
        expect to give, the sum of the squared probabilities of all classes. Its mean is 0 where
        labels come as the models say, however hard they are to predict.
    worth
        Regions whose rows are worth more or less than the others, the highest first; for classes,
        compared within the class.
    """

    run: RunFacts
    copies: Copies
    rare: NDArray[np.bool_]
    contradicted: list[Region]
    worth: list[Region]

    @property
    def valuation(self) -> Valuation:
        """The values of the rows."""
        return self.run.valuation

    @property
    def suspects(self) -> NDArray[np.bool_]:
        """The rows whose label is more likely wrong than right."""
        labels = self.run.labels
        return np.zeros(len(self.rare), dtype=bool) if labels is None else labels.suspects

    @cached_property
    def valuable_and_rare(self) -> NDArray[np.bool_]:
        """Rows that are rare and whose value is above the mean of its class beyond its error."""
        apart = self.valuation.values - class_means(self.valuation)
        return np.asarray(self.rare & (apart > self.run.half_widths) & ~self.suspects)

    def __repr__(self) -> str:
        from dshapley.auditing.audit_page import summary

        return "\n".join([f"Audit of {len(self.rare):,} rows", *(f"- {s}" for s in summary(self))])

    def to_frame(self) -> pd.DataFrame:
        """A row for each row of the table, in its order, with a column for each finding."""
        import pandas as pd

        valuation, labels = self.valuation, self.run.labels
        columns: dict[str, Any] = {}
        if labels is not None:
            columns |= {
                "label": labels.given,
                "label_suspect": pd.array(labels.suspects, dtype="boolean"),
                "wrong": labels.wrong,
                "suggested": np.asarray(labels.suggested, dtype=object),
                "likelihood": labels.probability,
                "n_models": labels.n_models,
            }
            for name in ("label_suspect", "suggested"):
                columns[name][np.isnan(labels.wrong)] = None
        columns |= {"value": valuation.values, "stderr": valuation.stderr}
        if valuation.predicted.any():
            columns["predicted"] = valuation.predicted
        if not valuation.unseen:
            columns["below_zero"] = valuation.below_zero(CONFIDENCE)
            columns["below_zero_all_at_once"] = self.run.below_zero_together
        columns |= {
            "copies_group": pd.array(
                [None if g < 0 else g for g in self.copies.group.tolist()], dtype="Int64"
            ),
            "exact_copy": self.copies.exact,
            "contradicts_a_copy": self.copies.conflict,
            "rare": self.rare,
            "valuable_and_rare": self.valuable_and_rare,
            "contradicted_region": _rules(self.contradicted, len(self.rare)),
            "worth_region": _rules(self.worth, len(self.rare)),
        }
        return pd.DataFrame(columns, index=pd.Index(valuation.ids, name="id"))

    def report(self, folder: str | Path) -> Path:
        """Write audit.html, audit.json and audit.csv to a folder; the path of the page."""
        from dshapley.auditing.audit_page import audit_page
        from dshapley.files import write_csv
        from dshapley.reporting.page import write

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if self.run.sensitive:
            _check_bare(folder)
        else:
            write_csv(self.to_frame().reset_index(), folder / "audit.csv")
        return write(audit_page(self), folder, "audit")


def _check_bare(folder: Path) -> None:
    """Refuse a folder with rows of the table in it for a page that must show none."""
    shown = next((name for name in _WITH_ROWS if (folder / name).exists()), None)
    if shown is not None:
        raise InputError(
            f"{folder} has {shown}, which shows the table's rows: give a new folder for --sensitive"
        )


_WITH_ROWS = ("audit.csv", "values.csv", "values.parquet", "report.html")


def class_means(valuation: Valuation) -> Floats:
    """The mean value of the class of each point; of all points for numbers and many classes."""
    labels = class_labels(valuation)
    if labels is None:
        return np.full(len(valuation), valuation.values.mean())
    _, place = np.unique(labels, return_inverse=True)
    means = np.bincount(place, weights=valuation.values) / np.bincount(place)
    return np.asarray(means[place])


def _rules(found: list[Region], n: int) -> Array:
    rules = np.full(n, None, dtype=object)
    for region in found:
        rules[region.inside] = region.rule
    return rules


def audit(  # noqa: PLR0913 - a front door: each choice by its own name
    table: Any,
    y: Any = None,
    *,
    target: str | None = None,
    model: Any = "auto",
    test: pd.DataFrame | float | None = None,
    metric: Any = None,
    m: int | None = None,
    stop: StopRule | Stop | int | None = None,
    seed: int = 0,
    retrain: bool = True,
) -> Audit:
    """What may be wrong with a table, and what acting on it does to models.

    Parameters
    ----------
    table, y, target
        A data frame with a target column, or features and their labels y. Columns are encoded and
        scaled as by the command `dshapley audit`.
    model
        As for `value`: an estimator, or a name such as "forest".
    test
        A table of test rows, or a share of the rows to set aside. By default every row is valued,
        by cross-fitting.
    metric, m, stop, seed
        As for `value`.
    retrain
        Measure on rows kept aside what removing or relabelling the rows found does.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 150)
    >>> frame = pd.DataFrame({"x": 6 * y + rng.normal(size=150), "churned": y})
    >>> frame.loc[[3, 30], "churned"] = 1 - y[[3, 30]]
    >>> found = audit(frame, target="churned", stop=60, retrain=False)
    >>> found.to_frame().query("label_suspect").index.tolist()
    [3, 30]
    """
    frame, target = _as_frame(table, y, target)
    task = task_of(frame, target)
    estimator = model_from_name(model, task) if isinstance(model, str) else model
    task = "classification" if is_classifier(estimator) else "regression"
    share = float(test) if isinstance(test, int | float) else None
    prepared = prepare(
        frame, target=target, task=task, seed=seed,
        test=None if isinstance(test, int | float) else test, test_size=share,
    )  # fmt: skip
    for text in prepared.notices:
        warn(text)
    request = Request(
        database=prepared.database,
        model=estimator,
        test="cross" if prepared.test is None else prepared.test,
        metric=metric,
        m=m,
        stop=stop,
        sampling=Sampling(),
        fitting=Fitting(),
        seed=seed,
    )
    return audited(request, prepared, retrain=retrain)


def _as_frame(table: Any, y: Any, target: str | None) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    if (y is None) == (target is None):
        raise InputError("give a data frame and target=, or features and y")
    if y is None:
        if not isinstance(table, pd.DataFrame):
            raise InputError(
                f"a {type(table).__name__} has no column {target!r}: give a data frame"
            )
        frame = table.reset_index(drop=True)
        return frame.set_axis([str(c) for c in frame.columns], axis=1), str(target)
    frame = pd.DataFrame(table).reset_index(drop=True)
    frame.columns = pd.Index([str(column) for column in frame.columns])
    name = "label"
    while name in frame.columns:
        name += "_"
    labels = np.asarray(y)
    if len(labels) != len(frame):
        raise InputError(f"{len(frame):,} rows but {len(labels):,} labels: give one for each row")
    return frame.assign(**{name: labels}), name


def audited(
    request: Request,
    prepared: Prepared,
    *,
    retrain: bool = True,
    sensitive: bool = False,
    most_seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """The audit of the rows that a request values. They must be single rows with labels.

    `sensitive`, `most_seconds` and `progress` are those of `reporting.run_facts.facts_of`.
    """
    if request.groups is not None:
        raise InputError("an audit looks at single rows: leave out the groups (--group)")
    if isinstance(request.metric, list):
        raise InputError("an audit measures by one metric: give --metric once")
    valuation = answer(request)
    points = prepared.points

    def make(test: Points, database: Points) -> Any:
        return potentials_of(replace(request, database=database), test)[0]

    draws = valuation.draws
    classes = draws is not None and draws.judges_labels
    try:
        facts = facts_of(
            valuation,
            prepared,
            make,
            folder=None if request.store is None else Path(request.store),
            sensitive=sensitive,
            retrain=retrain,
            edits=_edits(classes=classes),
            most_seconds=most_seconds,
            progress=progress,
        )
    except KeyboardInterrupt:
        raise _while_measuring(valuation, request) from None
    return Audit(
        run=facts,
        copies=copies(points, classes=classes),
        rare=rare(points),
        contradicted=_contradicted(facts, prepared),
        worth=_worth(facts, prepared),
    )


def _while_measuring(valuation: Valuation, request: Request) -> KeyboardInterrupt:
    """What an interrupt says after all rows were valued."""
    draws = valuation.draws
    if draws is None or request.store is None:
        return KeyboardInterrupt("while models were retrained")
    return Interrupted(
        f"while models were retrained. The {len(draws):,} draws are kept in {request.store}; run "
        "the same command again to measure, or with --no-retrain to read what was found",
        [draws],
    )


def _contradicted(facts: RunFacts, prepared: Prepared) -> list[Region]:
    found = facts.labels
    if found is None or found.probabilities is None or prepared.rows is None:
        return []
    expected = (found.probabilities**2).sum(axis=1)
    scores = regions(prepared.rows.iloc[:, 1:], found.probability - expected)
    return [region for region in scores if region.difference <= -LEAST][::-1]


def _worth(facts: RunFacts, prepared: Prepared) -> list[Region]:
    """Regions whose rows are worth more or less than others, within their class."""
    valuation = facts.valuation
    if prepared.rows is None or valuation.unseen or not np.isfinite(valuation.stderr).all():
        return []
    apart = valuation.values - class_means(valuation)
    measured = valuation.measured
    assert isinstance(measured, SampledValuation)
    known = ~valuation.predicted
    return regions(
        prepared.rows.iloc[:, 1:],
        np.where(known, apart, np.nan),
        error_of=lambda weights: measured.error_of_sum(weights[known])[0],
    )
