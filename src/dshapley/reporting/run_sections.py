"""The parts of a run's report that show something: pictures, tables, and what removal did."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dshapley.baselines.fresh_rows import FreshRows
from dshapley.data.points import Array
from dshapley.formatting import number
from dshapley.inference.label_evidence import LabelEvidence
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation
from dshapley.plots.curves import curve
from dshapley.plots.figure import BAD, GOOD, name_of
from dshapley.plots.runs import by_size, convergence, half_the_error
from dshapley.plots.values import against, categories_of, distribution, explained_by, extremes
from dshapley.reporting.findings import CONFIDENCE, by_class, class_labels, sentences
from dshapley.reporting.page import Finding, Number, Section, Table
from dshapley.reporting.run_facts import RunFacts
from dshapley.reporting.svg import picture

__all__ = [
    "MOST_COLUMNS",
    "action",
    "changed",
    "features",
    "first_to_look_at",
    "how_sure",
    "how_to_read",
    "labels",
    "labels_verdicts",
    "order_holds",
    "row_columns",
    "rows_section",
    "sizes",
    "spread",
    "verdict",
]

_SHOWN = 200
"""Rows in the table at each end. The page stays small however many rows were valued."""
_LOWEST = 20
"""Rows of each class in the table of the lowest."""
MOST_COLUMNS, _MOST_FEATURES = 12, 6
_LEAST_SHARE = 0.01
"""Columns that explain less of the variance of the values than this get no picture."""


def how_sure(run: RunFacts) -> Section:
    """The errors in words, and how they came along with the draws."""
    valuation = run.valuation
    measured = valuation.measured
    text, pictures = sentences(valuation)[1:], []
    if isinstance(measured, SampledValuation):
        half = half_the_error(measured)
        if half is not None:
            text.append(f"{half[0].upper()}{half[1:]}.")
        if not measured.unseen and len(measured.draws) > 1:
            pictures += picture(
                "sure-error",
                "Standard errors after so many draws",
                lambda ax: convergence(measured, ax=ax),
                "Typical: half of the rows have a smaller standard error. The dotted lines show "
                "what more draws would bring.",
            )
            pictures += picture(
                "sure-reliability",
                "Reliability after so many draws",
                lambda ax: convergence(measured, what="reliability", ax=ax),
                "The dotted line is 0.95. A run stops by itself when it is there, or would be but "
                "for the error that the test rows leave.",
            )
    return Section(name="sure", title="How sure the values are", text=text, pictures=pictures)


def spread(run: RunFacts) -> Section:
    """The distribution of the values, and of each class."""
    valuation = run.valuation
    low, middle, high = np.quantile(valuation.values, [0, 0.5, 1]).tolist()
    pictures = picture(
        "spread-all",
        "How the values are spread",
        lambda ax: distribution(valuation, ax=ax),
        f"From {low:.3g} to {high:.3g}, median {middle:.3g}. The bars at the ends count all values "
        "beyond them.",
    )
    labels = class_labels(valuation)
    tables = []
    if labels is not None and not run.sensitive and len(np.unique(labels)) > 1:
        pictures += picture(
            "spread-class",
            "By class",
            lambda ax: distribution(valuation, by=labels, name="class", ax=ax),
            "Box: the middle half; line: the median; whiskers: 5th to 95th percentile.",
            height=_height(labels),
        )
        tables.append(_class_table(run))
    return Section(name="spread", title="Distribution", pictures=pictures, tables=tables)


def _class_table(run: RunFacts) -> Table:
    return Table(
        title="Classes",
        columns=["class", "rows", "mean value", "below zero"],
        rows=[[str(c.label), c.rows, c.mean, c.below] for c in by_class(run.valuation)],
    )


def rows_section(run: RunFacts) -> Section | None:
    """The best and the worst rows, as a picture and with their columns."""
    if run.sensitive:
        return None
    valuation = run.valuation
    n = min(10, max(1, len(valuation) // 2))
    pictures = picture(
        "rows-extremes",
        f"The highest and the lowest {run.what}s",
        lambda ax: extremes(valuation, n=n, ax=ax),
        f"Lines are {CONFIDENCE:.0%} intervals for all {run.what}s at once: orange where they are "
        "below zero, blue where they are above, grey where neither is sure. The ranks beside them "
        "are those that are possible.",
        height=1.2 + 0.24 * (min(2 * n, len(valuation)) + 1),
    )
    return Section(
        name="rows",
        title=f"{run.what.capitalize()}s",
        pictures=pictures,
        tables=[_table_of_rows(run)],
    )


def first_to_look_at(run: RunFacts) -> Section | None:
    """The rows of lowest value in each class, because classes differ in value."""
    classes = by_class(run.valuation)
    if run.sensitive or not classes:
        return None
    columns = row_columns(run)
    places = [int(i) for found in classes for i in found.worst[:_LOWEST]]
    label = np.asarray(class_labels(run.valuation))
    table = Table(
        title="The lowest in each class",
        columns=["class", *(name for name, _ in columns)],
        rows=[[str(label[i]), *(cell(i) for _, cell in columns)] for i in places],
        note=f"At most {_LOWEST} of each class. {how_to_read(run)}",
        searchable=True,
    )
    text = (
        "A low value can come from a wrong label, from an unusual row, or from chance. Look at the "
        "row itself before you change anything."
    )
    return Section(name="first", title="Rows to look at first", text=[text], tables=[table])


def labels(run: RunFacts) -> Section | None:
    """The rows whose labels are probably wrong, with the labels that the models suggest."""
    found = run.labels
    if found is None or found.noise is None:
        return None
    suspects = np.flatnonzero(found.suspects)
    order = suspects[np.argsort(-found.wrong[suspects], kind="stable")]
    noise = found.noise
    text = [
        "Every model of a larger random set was also asked about the rows that it was not trained "
        f"on. From their answers, {noise.share:.1%} of all labels are estimated to be wrong (95 % "
        f"interval {noise.low:.1%} to {noise.high:.1%}).",
        *_expected_wrong(found, order),
        "The estimate takes wrong labels to be spread evenly over the rows. Where they gather in a "
        "group of rows, in one class, or where classes meet, there are more of them than it says.",
        *_measured_for(run),
    ]
    if run.fresh is not None:
        text.append(
            "The rows kept aside have labels that nobody checked either. That no difference was "
            "shown is no reason against correcting a label that is wrong."
        )
    findings = [] if run.fresh is None else list(labels_verdicts(run, run.fresh))
    tables = []
    if len(order) and not run.sensitive:
        shown = order[: 2 * _SHOWN]
        note = "" if len(shown) == len(order) else f"The first {len(shown)} of them. "
        note += (
            "Wrong: the probability that the label is wrong. Likelihood: the mean probability that "
            "the models give to the label. Models: how many were asked. "
        )
        tables = [_table_of_labels(run, found, shown, note + how_to_read(run))]
    return Section(
        name="labels", title="Labels that may be wrong", text=text, findings=findings,
        tables=tables,
    )  # fmt: skip


_CALIBRATED = "LogisticRegression"


def _measured_for(run: RunFacts) -> list[str]:
    """With which models the probabilities were checked."""
    if run.model == _CALIBRATED:
        return []
    return [
        f"These probabilities were checked with {_CALIBRATED}. Those of {run.model} can be too low "
        "or too high: take their order rather than their size."
    ]


def _expected_wrong(found: LabelEvidence, order: NDArray[np.intp]) -> list[str]:
    """How many of the labels listed are expected to be wrong."""
    if not len(order):
        return ["No label is more likely wrong than right."]
    expected = float(found.wrong[order].sum())
    surely = int((found.wrong[order] >= SURELY).sum())
    return [
        f"{len(order):,} rows have a label that is more likely wrong than right. About "
        f"{expected:.0f} of these labels are expected to be wrong. For {surely:,} rows the "
        f"probability is at least {SURELY:.0%}."
    ]


SURELY = 0.9
"""About nine in ten of the labels with at least this probability are wrong."""


def _table_of_labels(
    run: RunFacts, found: LabelEvidence, shown: NDArray[np.intp], note: str
) -> Table:
    assert found.suggested is not None
    assert found.given is not None
    suggested, given = found.suggested, found.given

    def wrong(i: int) -> Number:
        return Number(float(found.wrong[i]), f"{found.wrong[i]:.2f}")

    def likelihood(i: int) -> Number:
        p, error = float(found.probability[i]), float(found.stderr[i])
        return Number(p, number(p, 2 * error)[0])

    columns: list[tuple[str, Any]] = [
        ("given", lambda i: str(given[i])),
        ("suggested", lambda i: str(suggested[i])),
        ("wrong", wrong),
        ("likelihood", likelihood),
        ("models", lambda i: int(found.n_models[i])),
    ]
    first, *others = row_columns(run)
    columns = [first, *columns, *others]
    return Table(
        title="Labels that are probably wrong",
        columns=[name for name, _ in columns],
        rows=[[cell(i) for _, cell in columns] for i in shown.tolist()],
        note=note,
        searchable=True,
    )


def labels_verdicts(run: RunFacts, fresh: FreshRows) -> Iterator[Finding]:
    """What removing the rows with probably wrong labels, and relabelling them, did to the score."""
    for name, done in (("without", "Without"), ("relabelled", "With the suggested labels for")):
        if name in fresh.edits:
            n = fresh.edits[name].n_changed
            what = f"the rows whose labels are probably wrong (about {n:.0f} of {fresh.n_train:,})"
            yield changed(run, f"{done} {what}", *fresh.change_by(name))


def how_to_read(run: RunFacts) -> str:
    """What the columns about values say."""
    source = run.about.context.source
    ids = ""
    if source is not None and source.id is None and source.group is None:
        ids = " An id is the number of the row in the table, from 0 after the header."
    return (
        f"±: half of a {CONFIDENCE:.0%} interval. Below zero: with {CONFIDENCE:.0%} confidence on "
        "one side, so a value can be below zero although its interval just reaches 0; (all): with "
        f"intervals that hold for all {run.what}s at once.{ids}"
    )


def _table_of_rows(run: RunFacts) -> Table:
    valuation = run.valuation
    order = np.argsort(-valuation.values, kind="stable")
    order = order[::-1]
    shown = order if len(order) <= 2 * _SHOWN else np.r_[order[:_SHOWN], order[-_SHOWN:]]
    note = f"The {_SHOWN} lowest and the {_SHOWN} highest of {len(order):,}; all are in values.csv."
    if len(shown) == len(order):
        note = "All of them, the lowest first."
    note += f" {how_to_read(run)}"
    columns = row_columns(run)
    if run.prepared is not None and run.prepared.rows is not None:
        left_out = len(run.prepared.rows.columns) - MOST_COLUMNS
        if left_out > 0:
            note += f" The last {left_out} columns of the table are not shown."
    if run.missing:
        note += f" Their columns are not shown: {run.missing}."
    return Table(
        title=f"Values of {run.what}s",
        columns=[name for name, _ in columns],
        rows=[[cell(i) for _, cell in columns] for i in shown.tolist()],
        note=note,
        searchable=True,
    )


def row_columns(run: RunFacts) -> list[tuple[str, Any]]:
    """A name, and the cell of the point at a position: about values, then of the run's table."""
    columns = _value_columns(run)
    frame = None if run.prepared is None else run.prepared.rows
    if frame is not None and len(frame) == len(run.valuation):
        for name in frame.columns[:MOST_COLUMNS]:
            cells = frame[name].tolist()
            columns.append((str(name), lambda i, cells=cells: _cell(cells[i])))
    return columns


def _value_columns(run: RunFacts) -> list[tuple[str, Any]]:
    valuation = run.valuation
    order = np.argsort(-valuation.values, kind="stable")
    reach, place = run.half_widths, np.argsort(order, kind="stable") + 1

    def value(i: int) -> Number:
        return Number(float(valuation.values[i]), number(float(valuation.values[i]), reach[i])[0])

    def plus(i: int) -> Number:
        return Number(float(reach[i]), number(float(valuation.values[i]), reach[i])[1])

    columns: list[tuple[str, Any]] = [
        ("id", lambda i: str(valuation.ids[i])),
        ("rank", lambda i: int(place[i])),
        ("value", value),
        ("±", plus),
    ]
    if not valuation.unseen:
        below, all_at_once = valuation.below_zero(CONFIDENCE), run.below_zero_together
        columns.append(
            (
                "below zero",
                lambda i: "yes (all)" if all_at_once[i] else "yes" if below[i] else "no",
            )
        )
    if valuation.predicted.any():
        columns.append(("predicted", lambda i: bool(valuation.predicted[i])))
    if run.what == "bundle":
        columns.append(("rows", lambda i: int(valuation.rows[i])))
        columns.append(("value per row", lambda i: float(valuation.values[i] / valuation.rows[i])))
    return columns


def _cell(value: Any) -> Any:
    """A cell of the user's table: numbers stay numbers, all else is text."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bool | np.bool_):
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return value.item() if hasattr(value, "item") else value
    return str(value)


def features(run: RunFacts) -> Section | None:
    """The values against the columns that explain most of their differences."""
    frame = None if run.prepared is None else run.prepared.rows
    unknown = run.sensitive or run.valuation.unseen
    if unknown or frame is None or len(frame) != len(run.valuation):
        return None
    name, title = "features", "Values by column"
    # The first column is the target, which the section on classes shows.
    columns = {str(name): frame[name].to_numpy(dtype=object) for name in frame.columns[1:]}
    shown, within = _within_classes(run.valuation)
    shares = {name: explained_by(shown, column) for name, column in columns.items()}
    chosen = sorted(shares, key=lambda name: -shares[name])[:_MOST_FEATURES]
    chosen = [name for name in chosen if shares[name] >= _LEAST_SHARE]
    if not chosen:
        text = "No column explains more than a hundredth of the variance of the values."
        return Section(name=name, title=title, text=[text])
    text = (
        f"The {len(chosen)} of {len(columns)} columns that explain most of the differences between "
        f"values{within}. A column that explains them need not be their cause."
    )
    pictures = []
    for i, column in enumerate(chosen):
        unit = "value minus the mean of its class" if within else None
        draw = partial(against, shown, columns[column], name=column, unit=unit)
        pictures += picture(
            f"feature-{i}",
            name_of(column),
            lambda ax, draw=draw: draw(ax=ax),  # type: ignore[misc]
            f"Explains {shares[column]:.0%} of the variance of the values{within}. {_PARTS}",
            height=_height(columns[column]),
        )
    return Section(name=name, title=title, text=[text], pictures=pictures)


_PARTS = (
    "Dots: means of ten equal groups with their 95 % intervals. Boxes: the middle half, with the "
    "median and the 5th to 95th percentile."
)


def _within_classes(valuation: Valuation) -> tuple[Valuation, str]:
    """The values minus the mean of their class, and how the text says so; else the values."""
    labels = class_labels(valuation)
    if labels is None or len(np.unique(labels)) < 2:
        return valuation, ""
    _, place = np.unique(labels, return_inverse=True)
    means = np.bincount(place, weights=valuation.values) / np.bincount(place)
    apart = Valuation(
        values=valuation.values - means[place],
        stderr=valuation.stderr,
        m=valuation.m,
        n_draws=valuation.n_draws,
        ids=valuation.ids,
        rows=valuation.rows,
    )
    return apart, " within a class"


def _height(column: Array) -> float:
    n = categories_of(column)
    return 3.4 if n is None else 1.2 + 0.3 * n


def sizes(run: RunFacts) -> Section | None:
    """What the rows are worth to someone with fewer rows."""
    measured = run.valuation.measured
    if run.valuation.m < 4 or not isinstance(measured, SampledValuation) or measured.unseen:
        return None
    hidden = np.full(len(measured), f"a {run.what}") if run.sensitive else None
    pictures = picture(
        "sizes-all",
        "Values for data sets of fewer rows",
        lambda ax: by_size(measured, names=hidden, ax=ax),
        "All sizes come from the same draws. Bands are 95 % intervals, each on its own.",
    )
    fewer = measured.at(m=max(2, measured.m // 10))
    falls = not fewer.unseen and fewer.values.std() > measured.values.std()
    text = (
        f"With fewer rows each {run.what} matters more: the standard deviation of the values is "
        f"{fewer.values.std():.2g} for data sets of {fewer.m:,} rows and "
        f"{measured.values.std():.2g} for {measured.m:,}."
    )
    return Section(
        name="sizes",
        title="Values by data set size",
        text=[text] if falls else [],
        pictures=pictures,
    )


def action(run: RunFacts) -> Section:
    """The removal curve on fresh rows: what acting on the ranking does, as measured."""
    name, title = "action", "What removing rows does"
    if run.fresh is None:
        text = [f"Not measured. {run.not_retrained}"]
        return Section(name=name, title=title, text=text)
    fresh = run.fresh
    n = len(fresh.random)
    text = [
        f"Does such a ranking work on rows that it was not made from? {n} times, "
        f"{fresh.n_test:,} rows were kept aside, {fresh.n_train:,} others were valued anew "
        f"({fresh.n_draws:,} draws), models were retrained without the lowest or the highest of "
        f"these{_each_class(fresh)}, or without random ones, and scored on the rows kept aside.",
        f"Each ± is a 95 % confidence interval over the {n} times, for all shares at once. It "
        f"speaks of models trained on about {fresh.n_train:,} rows.",
    ]

    def draw(ax: Any) -> None:
        for first, color in (("lowest", BAD), ("highest", GOOD)):
            found = fresh.curve(first)  # type: ignore[arg-type]
            curve(found, name=f"{first} values first", metric=run.metric, color=color, ax=ax)

    pictures = picture(
        "removal",
        "Score on fresh rows as rows are removed",
        draw,
        "Where the highest values go first, the score should fall below that of random order. The "
        "lowest were harmful only where their line is above random order beyond the error. Grey: "
        "random order, with its 95 % interval.",
    )
    steps = range(1, len(fresh.fractions))
    findings = [verdict(run, fresh, step) for step in steps]
    findings += [order_holds(run, fresh, step) for step in steps]
    return Section(
        name=name, title=title, text=text, pictures=pictures, tables=[_removal_table(fresh)],
        findings=findings,
    )  # fmt: skip


def _removal_table(fresh: FreshRows) -> Table:
    orders = (fresh.lowest, fresh.highest, fresh.random)
    rows = [
        [Number(fraction, f"{fraction:.0%}"), *(float(order[:, i, 0].mean()) for order in orders)]
        for i, fraction in enumerate(fresh.fractions.tolist())
    ]
    columns = ["removed", "lowest first", "highest first", "random order"]
    return Table(title="Mean scores", columns=columns, rows=rows)


def verdict(run: RunFacts, fresh: FreshRows, step: int) -> Finding:
    """What removing this share of the rows, the lowest values first, did to the score."""
    done = (
        f"Without the {fresh.fractions[step]:.0%} of {fresh.n_train:,} rows with the lowest "
        f"values{_each_class(fresh)}"
    )
    return changed(run, done, *fresh.change("lowest", step))


def changed(run: RunFacts, done: str, change: float, reach: float) -> Finding:
    """What was done, by how much that changed the score, and whether this is beyond the error."""
    said, plus = number(change, reach)
    sign = "+" if change > 0 else ""
    measured = f"{done}, {run.metric} on fresh rows changed by {sign}{said} ± {plus}"
    if change - reach > 0:
        return Finding(text=f"{measured}: models were better.", section="action", level="good")
    if change + reach < 0:
        return Finding(text=f"{measured}: models were worse.", section="action", level="warning")
    return Finding(text=f"{measured}: no difference was shown.", section="action")


def _each_class(fresh: FreshRows) -> str:
    return " in each class" if fresh.by_class else ""


def order_holds(run: RunFacts, fresh: FreshRows, step: int) -> Finding:
    """Whether removing the highest values did more harm than removing random rows."""
    gap, reach = fresh.gap("highest", step)
    said, plus = number(abs(gap), reach)
    text = (
        f"Without the {fresh.fractions[step]:.0%} of {fresh.n_train:,} rows with the highest "
        f"values{_each_class(fresh)}, {run.metric} on fresh rows was "
        f"{'lower' if gap < 0 else 'higher'} by {said} ± {plus} than after removing as many random "
        "rows"
    )
    if gap + reach < 0:
        text = f"{text}: high values hold on fresh rows."
        return Finding(text=text, section="action", level="good")
    text = f"{text}: that high values hold on fresh rows was not shown."
    return Finding(text=text, section="action", level="warning")
