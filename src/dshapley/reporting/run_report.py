"""The report of a run folder: what the values are, how sure they are, and what was measured."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dshapley
from dshapley.baselines.fresh_rows import FreshRows, on_fresh_rows
from dshapley.data.points import Array
from dshapley.data.tables import Prepared
from dshapley.errors import InputError, RunFolderError
from dshapley.formatting import duration, number
from dshapley.inference.completed import completed
from dshapley.inference.interpolation import chosen_to_measure
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.learners.by_name import model_from_name
from dshapley.plots.curves import curve
from dshapley.plots.figure import BAD, GOOD, name_of
from dshapley.plots.runs import by_size, convergence, half_the_error
from dshapley.plots.values import against, distribution, extremes, is_worth_a_picture
from dshapley.potentials import ModelPotential, potential
from dshapley.reporting.findings import (
    CONFIDENCE,
    by_class,
    class_labels,
    model_sentences,
    percentage_points,
    sentences,
    warnings_of,
)
from dshapley.reporting.page import Finding, Page, Picture, Section, Table
from dshapley.reporting.svg import drawn
from dshapley.running.run import METHOD
from dshapley.running.run_folder import load_run, versions_of
from dshapley.running.source_tables import run_tables
from dshapley.sampling.provenance import About

__all__ = ["run_report"]

_SHOWN = 200
"""Rows in the table at each end. The page stays small however many rows were valued."""
_MOST_COLUMNS, _MOST_FEATURES = 12, 6
_LEAST_SHARE = 0.01
"""Columns that explain less of the variance of the values than this get no picture."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What is known of a run when its report is written."""

    folder: Path
    valuation: Valuation
    prepared: Prepared | None
    missing: str
    """Why the tables are not there, or nothing."""
    fresh: FreshRows | None
    not_retrained: str
    sensitive: bool

    @property
    def about(self) -> About:
        return self.valuation.about

    @property
    def metric(self) -> str:
        return self.about.identity.metric or "U"

    @property
    def what(self) -> str:
        return "bundle" if (self.valuation.rows != 1).any() else "row"

    def name(self, i: int) -> str:
        """How the text calls a point; by its place where names must not be shown."""
        return f"{self.what} {name_of(self.valuation.ids[i])}"


def run_report(
    folder: Path,
    *,
    source: Path | None = None,
    sensitive: bool = False,
    retrain: bool = True,
    n_jobs: int | None = None,
) -> Page:
    """The page about a run folder.

    Parameters
    ----------
    source
        Where the run's tables are, if not where they were (see `running.source_tables`).
    sensitive
        Leave out every id, label and column value.
    retrain
        Retrain models without the lowest and the highest values and score them on fresh rows,
        where the tables are there.
    """
    run = _opened(folder, source, sensitive, retrain, n_jobs)
    sections = [
        _meaning(run),
        _findings(run),
        _advice(run),
        _how_sure(run),
        _spread(run),
        _rows(run),
        _features(run),
        _sizes(run),
        _reproduce(run),
    ]
    kept = [section for section in sections if section is not None]
    return Page(
        title=_title(run),
        lead=_lead(run),
        sections=kept,
        made_by=f"Made by dshapley {dshapley.__version__} from {folder.name}/.",
    )


def _opened(
    folder: Path, source: Path | None, sensitive: bool, retrain: bool, n_jobs: int | None
) -> _Run:
    draws = load_run(folder)
    identity, context = draws.about.identity, draws.about.context
    if identity.method != METHOD:
        raise InputError(f"{folder} holds a run of {identity.method}; report reads {METHOD}")
    prepared, missing, Z = None, "", None
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
    fresh, not_retrained = None, "--no-retrain was given."
    if retrain:
        fresh, not_retrained = _retrained(measured, prepared, missing, n_jobs)
    return _Run(
        folder=folder,
        valuation=valuation,
        prepared=prepared,
        missing=missing,
        fresh=fresh,
        not_retrained=not_retrained,
        sensitive=sensitive,
    )


def _retrained(
    measured: SampledValuation, prepared: Prepared | None, missing: str, n_jobs: int | None
) -> tuple[FreshRows | None, str]:
    """What retraining on fresh rows shows, or why there is none."""
    source, seed = measured.about.context.source, measured.about.identity.seed
    if prepared is None or source is None:
        return None, f"The tables are not at hand: {missing}"
    if prepared.groups is not None:
        return None, "Bundles are not retrained yet; this is measured for single rows."
    try:
        U = potential(
            model_from_name(source.model, source.task),
            test=prepared.database,
            metric=measured.about.identity.metric,
        )
        assert isinstance(U, ModelPotential)
        return on_fresh_rows(measured, U, prepared.database, seed=seed, n_jobs=n_jobs), ""
    except InputError as error:
        return None, f"It could not be measured: {error}."


# -- The sections


def _title(run: _Run) -> str:
    source = run.about.context.source
    if source is None or run.sensitive:
        return "What each row is worth" if run.what == "row" else "What each bundle is worth"
    return f"What each {run.what} of {Path(source.points_table or source.table).name} is worth"


def _lead(run: _Run) -> list[str]:
    valuation, source = run.valuation, run.about.context.source
    model = run.about.identity.potential.get("estimator")
    model = str(model).rpartition(".")[2] if isinstance(model, str) else "a model"
    goal = "" if source is None or run.sensitive else f" that predicts {source.target}"
    first = (
        f"{len(valuation):,} {run.what}s were valued for someone who trains a {model}{goal} on up "
        f"to {valuation.m:,} such rows and counts {run.metric}."
    )
    i = int(np.argmax(valuation.values))
    value, reach = float(valuation.values[i]), 2 * float(valuation.stderr[i])
    verb = "raises" if value >= 0 else "lowers"
    by, plus = number(abs(value), reach)
    plus = f" ± {plus}" if math.isfinite(reach) else ""
    which = f"the best {run.what}" if run.sensitive else run.name(i)
    sets = f"0 to {valuation.m - 1:,} random rows" if valuation.m > 1 else "no rows"
    second = (
        f"A value is what adding a {run.what} to {sets} changes on average: adding {which} {verb} "
        f"{run.metric} by {by}{plus}{percentage_points(run.metric, abs(value))}."
    )
    return [first, second, _settled(run)]


def _settled(run: _Run) -> str:
    measured = run.valuation.measured
    if run.valuation.unseen or not isinstance(measured, SampledValuation) or len(measured) < 2:
        return f"From {run.valuation.n_draws:,} draws, which are too few to know the errors."
    share = measured.settled_pairs(CONFIDENCE)
    return (
        f"Of any two {run.what}s, the order is known with {CONFIDENCE:.0%} confidence for "
        f"{share:.0%} of the pairs."
    )


def _meaning(run: _Run) -> Section:
    return Section(
        name="meaning",
        title="What the numbers mean",
        text=[_without_names(run, sentences(run.valuation)[0]), *model_sentences(run.valuation)],
    )


def _without_names(run: _Run, text: str) -> str:
    if not run.sensitive:
        return text
    return (
        f"A value is the change of {run.metric} when the {run.what} is added to rows drawn at "
        "random, averaged over the set sizes. It is not advice to delete rows of low value."
    )


def _findings(run: _Run) -> Section:
    return Section(name="findings", title="Findings", findings=list(_each_finding(run)))


def _each_finding(run: _Run) -> Iterator[Finding]:
    valuation = run.valuation
    s = run.what + "s"
    if not valuation.unseen:
        below = valuation.below_zero(CONFIDENCE)
        mostly = _mostly(run, below)
        yield Finding(
            text=f"{s} are surely below zero ({CONFIDENCE:.0%} confidence, each on its own)"
            f"{mostly}.",
            count=int(below.sum()),
            section="rows" if not run.sensitive else "spread",
        )
    if valuation.predicted.any():
        text = f"{s} were never run; their values are predicted from those that were."
        yield Finding(text=text, count=int(valuation.predicted.sum()), section="sure")
    if run.what == "bundle" and not run.sensitive:
        best = ", ".join(name_of(name) for name in valuation.top(3).index)
        yield Finding(text=f"The bundles worth most: {best}.", section="rows")
    if not run.sensitive:
        yield from _seldom(run)
    for text in warnings_of(valuation):
        if not run.sensitive or "class" not in text:
            yield Finding(text=f"{text[0].upper()}{text[1:]}", section="sure", level="warning")


def _mostly(run: _Run, below: NDArray[np.bool_]) -> str:
    """Of which classes the points below zero are, where there are classes."""
    labels = class_labels(run.valuation)
    if labels is None or run.sensitive or not below.any():
        return ""
    names, counts = np.unique(labels[below], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:3]
    return ": " + ", ".join(f"{counts[i]:,} of class {name_of(names[i])}" for i in order)


def _seldom(run: _Run) -> Iterator[Finding]:
    """Classes of which a random set has less than one row on average."""
    draws, prepared = run.valuation.draws, run.prepared
    if draws is None or prepared is None or class_labels(run.valuation) is None:
        return
    assert prepared.database.y is not None
    size = float((draws.weights * np.arange(draws.m)).sum())
    names, counts = np.unique(prepared.database.y, return_counts=True)
    for name, count in zip(names.tolist(), counts.tolist(), strict=True):
        expected = size * count / len(prepared.database)
        if expected < 1:
            text = (
                f"rows of class {name_of(name)} are in the table. A random set has "
                f"{expected:.2g} of them on average, so what they add is seldom seen."
            )
            yield Finding(text=text, count=count, section="features", level="warning")


def _advice(run: _Run) -> Section:
    """The removal curve on fresh rows: what acting on the ranking does, as measured."""
    name, title = "action", "What acting on the values does"
    if run.fresh is None:
        text = [
            "Not measured, so nothing is said about deleting rows. " + run.not_retrained,
            "A low value is not advice to delete a row: models retrained without such rows can be "
            "worse.",
        ]
        return Section(name=name, title=title, text=text)
    fresh = run.fresh
    text = [
        f"Models were retrained on {fresh.n_train:,} rows without those of lowest or of highest "
        f"value, and scored on {fresh.n_test:,} rows that the values were not tested on; "
        f"{len(fresh.random)} times over, with other rows kept aside. ± is a 95 % interval over "
        "these times.",
    ]

    def draw(ax: Any) -> None:
        curve(
            fresh.curve("lowest"), name="lowest values first", metric=run.metric, color=BAD, ax=ax
        )
        curve(
            fresh.curve("highest"), name="highest values first", metric=run.metric, color=GOOD,
            ax=ax,
        )  # fmt: skip

    findings = [_verdict(run, fresh, step) for step in (2, 4) if step < len(fresh.fractions)]
    findings.append(_order_holds(run, fresh))
    summary = (
        "If the ranking holds on fresh rows, the score falls below the random order where the "
        "highest values go first."
    )
    picture = _picture("removal", "Score on fresh rows as rows are removed", draw, summary)
    return Section(
        name=name, title=title, text=text, findings=findings, pictures=[picture],
        tables=[_removal_table(fresh)],
    )  # fmt: skip


def _verdict(run: _Run, fresh: FreshRows, step: int) -> Finding:
    change, reach = fresh.change("lowest", step)
    share = f"the {fresh.fractions[step]:.0%} of the rows with the lowest values"
    said, plus = number(change, reach)
    sign = "+" if change > 0 else ""
    measured = f"Without {share}, {run.metric} on fresh rows changed by {sign}{said} ± {plus}"
    if change - reach > 0:
        text = f"{measured}: removing them helped this model."
        return Finding(text=text, level="good")
    if change + reach < 0:
        text = f"{measured}: removing them made this model worse. Do not delete them."
        return Finding(text=text, level="warning")
    text = f"{measured}: no difference was shown. Deleting them is not supported by this."
    return Finding(text=text)


def _order_holds(run: _Run, fresh: FreshRows) -> Finding:
    step = len(fresh.fractions) - 2
    gap, reach = fresh.gap("highest", step)
    said, plus = number(abs(gap), reach)
    text = (
        f"Without the {fresh.fractions[step]:.0%} of the rows with the highest values, "
        f"{run.metric} was {said} ± {plus} {'lower' if gap < 0 else 'higher'} than without as many "
        "random rows"
    )
    if gap + reach < 0:
        return Finding(text=f"{text}: the ranking holds on fresh rows.", level="good")
    return Finding(text=f"{text}: that the ranking holds on fresh rows was not shown.",
                   level="warning")  # fmt: skip


def _removal_table(fresh: FreshRows) -> Table:
    rows = [
        [
            f"{fraction:.0%}",
            float(fresh.lowest[:, i].mean()),
            float(fresh.highest[:, i].mean()),
            float(fresh.random[:, i].mean()),
        ]
        for i, fraction in enumerate(fresh.fractions.tolist())
    ]
    columns = ["removed", "lowest first", "highest first", "random order"]
    return Table(title="Mean scores", columns=columns, rows=rows)


def _how_sure(run: _Run) -> Section:
    valuation = run.valuation
    measured = valuation.measured
    text = sentences(valuation)[1:]
    pictures = []
    if isinstance(measured, SampledValuation):
        half = half_the_error(measured)
        if half is not None:
            text.append(f"{half[0].upper()}{half[1:]}.")
        if not measured.unseen:
            for what, title in (
                ("error", "Errors by draws"),
                ("reliability", "Reliability by draws"),
            ):
                pictures.append(
                    _picture(
                        f"sure-{what}",
                        title,
                        lambda ax, what=what: convergence(measured, what=what, ax=ax),
                        "Each dot is what the run knew after that many draws.",
                    )
                )
    return Section(name="sure", title="How sure the values are", text=text, pictures=pictures)


def _spread(run: _Run) -> Section:
    valuation = run.valuation
    pictures = [
        _picture(
            "spread-all",
            "How the values are spread",
            lambda ax: distribution(valuation, ax=ax),
            f"From {valuation.values.min():.3g} to {valuation.values.max():.3g}, median "
            f"{np.median(valuation.values):.3g}.",
        )
    ]
    labels = class_labels(valuation)
    tables = []
    if labels is not None and not run.sensitive and len(np.unique(labels)) > 1:
        n = len(np.unique(labels))
        pictures.append(
            _picture(
                "spread-class",
                "By class",
                lambda ax: distribution(valuation, by=labels, name="class", ax=ax),
                "Box: the middle half; line: the median; whiskers: 5th to 95th percentile.",
                height=1.2 + 0.33 * n,
            )
        )
        tables.append(
            Table(
                title="Classes",
                columns=["class", "rows", "mean value", "surely below zero"],
                rows=[[str(c.label), c.rows, c.mean, c.below] for c in by_class(valuation)],
            )
        )
    return Section(name="spread", title="Distribution", pictures=pictures, tables=tables)


def _rows(run: _Run) -> Section | None:
    if run.sensitive:
        return None
    valuation = run.valuation
    best = f"The highest and the lowest {run.what}s"
    n = min(10, max(1, len(valuation) // 2))
    picture = _picture(
        "rows-extremes",
        best,
        lambda ax: extremes(valuation, n=n, ax=ax),
        "A rank like 2 to 9 is a 95 % interval of the rank.",
        height=1.2 + 0.24 * (min(2 * n, len(valuation)) + 1),
    )
    return Section(
        name="rows",
        title=f"{run.what.capitalize()}s",
        pictures=[picture],
        tables=[_table_of_rows(run)],
    )


def _table_of_rows(run: _Run) -> Table:
    valuation = run.valuation
    order = np.argsort(-valuation.values, kind="stable")
    shown = order if len(order) <= 2 * _SHOWN else np.r_[order[:_SHOWN], order[-_SHOWN:]]
    low, high = valuation.interval(CONFIDENCE)
    place = np.argsort(order, kind="stable") + 1
    below = valuation.below_zero(CONFIDENCE) if not valuation.unseen else None
    columns = ["rank", "id", "value", "95 % low", "95 % high"]
    if below is not None:
        columns.append("surely below zero")
    if valuation.predicted.any():
        columns.append("predicted")
    if run.what == "bundle":
        columns.append("rows")
    frame = None if run.prepared is None else run.prepared.rows
    if frame is not None and len(frame) == len(valuation):
        frame = frame.iloc[:, :_MOST_COLUMNS]
        columns += [str(name) for name in frame.columns]
    rows = []
    for i in shown.tolist():
        row: list[Any] = [int(place[i]), str(valuation.ids[i]), float(valuation.values[i])]
        row += [float(low[i]), float(high[i])]
        if below is not None:
            row.append(bool(below[i]))
        if valuation.predicted.any():
            row.append(bool(valuation.predicted[i]))
        if run.what == "bundle":
            row.append(int(valuation.rows[i]))
        if frame is not None and len(frame) == len(valuation):
            row += [_cell(value) for value in frame.iloc[i].tolist()]
        rows.append(row)
    note = f"The {_SHOWN} highest and the {_SHOWN} lowest of {len(order):,}; all are in values.csv."
    if len(shown) == len(order):
        note = "All of them, the highest first."
    if frame is None and run.missing:
        note += f" Their columns are not shown: {run.missing}"
    return Table(title=f"Values of {run.what}s", columns=columns, rows=rows, note=note,
                 searchable=True)  # fmt: skip


def _cell(value: Any) -> Any:
    """A cell of the user's table: numbers stay numbers, all else is text."""
    if isinstance(value, bool | np.bool_):
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return value.item() if hasattr(value, "item") else value
    return None if value is None else str(value)


def _features(run: _Run) -> Section | None:
    frame = None if run.prepared is None else run.prepared.rows
    if run.sensitive or frame is None or len(frame) != len(run.valuation):
        return None
    columns = {str(name): frame[name].to_numpy(dtype=object) for name in frame.columns[1:]}
    chosen = sorted(
        ((is_worth_a_picture(run.valuation, column), name) for name, column in columns.items()),
        reverse=True,
    )[:_MOST_FEATURES]
    chosen = [(share, name) for share, name in chosen if share >= _LEAST_SHARE]
    if not chosen:
        text = "No column explains more than a hundredth of the variance of the values."
        return Section(name="features", title="Values by column", text=[text])
    text = (
        f"The {len(chosen)} of {len(columns)} columns that go most with the values. What goes with "
        "a value need not be its cause."
    )
    pictures = [
        _picture(
            f"feature-{i}",
            name_of(name),
            lambda ax, name=name: against(run.valuation, columns[name], name=name, ax=ax),
            f"Explains {share:.0%} of the variance of the values (ten bins, or categories).",
            height=_height(columns[name]),
        )
        for i, (share, name) in enumerate(chosen)
    ]
    return Section(name="features", title="Values by column", text=[text], pictures=pictures)


def _height(column: Array) -> float:
    from dshapley.plots.values import categories_of

    n = categories_of(column)
    return 3.4 if n is None else 1.2 + 0.3 * n


def _sizes(run: _Run) -> Section | None:
    measured = run.valuation.measured
    if run.valuation.m < 4 or not isinstance(measured, SampledValuation) or measured.unseen:
        return None
    picture = _picture(
        "sizes-all",
        "Values for data sets of fewer rows",
        lambda ax: by_size(measured, ax=ax),
        "All sizes come from the same draws. Bands are 95 % intervals, each on its own.",
    )
    text = "A row helps most where there is little data: values fall as the data set grows."
    falls = abs(float(np.mean(measured.at(m=max(2, measured.m // 10)).values))) > abs(
        float(np.mean(measured.values))
    )
    return Section(
        name="sizes", title="Values by data set size", text=[text] if falls else [],
        pictures=[picture],
    )  # fmt: skip


def _reproduce(run: _Run) -> Section:
    identity, context = run.about.identity, run.about.context
    facts = {
        "m": run.valuation.m,
        "draws": run.valuation.n_draws,
        "seed": identity.seed,
        "metric": run.metric,
        "size weights": context.weights or "custom",
        "stopped by": context.stop or "the caller",
        "fingerprint of the database": identity.database,
        "fingerprint of the points": identity.points,
        **versions_of(run.folder),
    }
    seconds = run.valuation.draws.seconds if run.valuation.draws is not None else None
    if seconds is not None and len(seconds):
        facts["computing, all cores together"] = duration(float(seconds.sum()))
    return Section(
        name="reproduce",
        title="How to reproduce this",
        code="" if run.sensitive else _command(run.about),
        tables=[
            Table(
                title="The run",
                columns=["what", "is"],
                rows=[[name, str(value)] for name, value in facts.items() if value is not None],
            )
        ],
    )


def _command(about: About) -> str:
    """The command that makes this run, from what the run folder knows."""
    source, identity = about.context.source, about.identity
    if source is None:
        return ""
    words = ["dshapley", "value", source.table, "--target", source.target]
    options = {
        "--test": source.test_table,
        "--test-size": source.test_size,
        "--points": source.points_table,
        "--id": source.id,
        "--group": source.group,
        "--model": source.model,
        "--metric": identity.metric,
        "--m": identity.m,
        "--seed": identity.seed,
        "--weights": about.context.weights,
        "--share": about.context.share,
    }
    for name, value in options.items():
        if value is not None:
            words += [name, str(value)]
    for name in source.drop:
        words += ["--drop", name]
    return shlex.join(words)


def _picture(name: str, title: str, draw: Any, summary: str, *, height: float = 3.4) -> Picture:
    svg, marks = drawn(draw, name, height=height)
    return Picture(title=title, svg=svg, summary=summary, marks=marks)
