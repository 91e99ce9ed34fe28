"""The report of a run: what the values are, how sure they are, and what acting on them does."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.fresh_rows import FreshRows
from dshapley.formatting import duration, number
from dshapley.inference.sampled import SampledValuation
from dshapley.plots.figure import name_of
from dshapley.reporting.findings import (
    CONFIDENCE,
    by_class,
    cautions,
    class_labels,
    model_sentences,
    more_time,
    percentage_points,
)
from dshapley.reporting.page import Finding, Page, Section, Table
from dshapley.reporting.run_facts import RunFacts
from dshapley.reporting.run_sections import (
    MOST_COLUMNS,
    action,
    features,
    first_to_look_at,
    how_sure,
    labels,
    labels_verdicts,
    order_holds,
    rows_section,
    sizes,
    spread,
    verdict,
)
from dshapley.reporting.svg import made_by
from dshapley.running.run_folder import versions_of
from dshapley.sampling.provenance import About

__all__ = ["footer", "meaning", "privacy", "removals", "reproduce", "run_report", "settled"]

_SECTION_OF = {"order": "sure", "classes": "spread", "metric": "meaning"}
"""Where a caution is shown."""


def run_report(run: RunFacts) -> Page:
    """The page about a run: see `reporting.run_facts.facts_of_run`."""
    sections = [
        Section(name="findings", title="Findings", findings=list(_each_finding(run))),
        Section(name="next", title="What to do next", findings=list(_each_step(run))),
        labels(run),
        first_to_look_at(run),
        meaning(run),
        how_sure(run),
        spread(run),
        rows_section(run),
        features(run),
        sizes(run),
        action(run),
        reproduce(run),
    ]
    return Page(
        title=_title(run),
        lead=_lead(run),
        sections=[section for section in sections if section is not None],
        made_by=footer(run),
    )


def footer(run: RunFacts) -> str:
    """What made the page, and from which folder."""
    named = run.folder is not None and not run.sensitive
    return made_by(f" from {run.folder.resolve().name}" if named and run.folder else "")


# -- The answer at the top


def _title(run: RunFacts) -> str:
    source = run.about.context.source
    if source is None or run.sensitive:
        return f"What each {run.what} is worth"
    return f"What each {run.what} of {Path(source.points_table or source.table).name} is worth"


def _lead(run: RunFacts) -> list[str]:
    """What was asked, what a value means in this run's own figures, and how sure the order is."""
    valuation, source = run.valuation, run.about.context.source
    goal = "" if source is None or run.sensitive else f" that predicts {name_of(source.target)}"
    first = (
        f"Question: what does each of {len(valuation):,} {run.what}s add for someone who trains a "
        f"{run.model}{goal} on up to {valuation.m:,} such rows and measures {run.metric}?"
    )
    return [first, _best(run), settled(run), *privacy(run)]


def privacy(run: RunFacts) -> list[str]:
    """A warning that the page shows rows of the table."""
    prepared = run.prepared
    if run.sensitive or prepared is None or prepared.rows is None or run.what == "bundle":
        return []
    return [
        f"This page shows rows of the table, with up to {MOST_COLUMNS} of their columns: treat it "
        "like the table itself. Made with --sensitive it shows none."
    ]


def _best(run: RunFacts) -> str:
    valuation = run.valuation
    i = int(np.argmax(valuation.values))
    value, reach = float(valuation.values[i]), float(run.half_widths[i])
    by, plus = number(abs(value), reach)
    plus = f" ± {plus}" if math.isfinite(reach) else ""
    which = "the highest estimate"
    if not run.sensitive:
        which += f", {run.name(i)},"
    sets = f"0 to {valuation.m - 1:,} random rows" if valuation.m > 1 else "no rows"
    return (
        f"A value is the change of {run.metric} when a {run.what} is added to {sets}, on average: "
        f"{which} {'raises' if value >= 0 else 'lowers'} it by {by}{plus}"
        f"{percentage_points(run.metric, abs(value))}."
    )


def settled(run: RunFacts) -> str:
    """How much of the order of the values is sure."""
    measured = run.valuation.measured
    n = run.valuation.n_draws
    if run.valuation.unseen or not isinstance(measured, SampledValuation):
        return f"How sure: not known yet. {n:,} draw{'s are' if n != 1 else ' is'} too few to tell."
    if len(measured) < 2:
        return f"How sure: the ± is from {n:,} draws."
    share = measured.settled_pairs(CONFIDENCE)
    return (
        f"How sure: for {share:.0%} of all pairs of {run.what}s we can say which of the two is "
        f"worth more (about {1 - CONFIDENCE:.0%} of such statements are wrong)."
    )


# -- The sections


def meaning(run: RunFacts) -> Section:
    """What the numbers on the page mean."""
    valuation = run.valuation
    text = [
        f"The values are averages over data sets of up to m = {valuation.m:,} rows that are drawn "
        "at random from the table. They hold for new data of the same kind, not only within this "
        "table.",
        "Small numbers are normal, because one row among many changes a model little. A draw is "
        "one random data set that models were trained on. Reliability is the share of the "
        "differences between values that is not noise: 1 is best.",
        *model_sentences(valuation),
    ]
    if run.metric == "neg_mse":
        text.append(
            "neg_mse is scaled: 1 minus the mean squared error over four times the variance of the "
            "test labels, so it lies between 0 and 1, and 1 is best."
        )
    return Section(name="meaning", title="What the numbers mean", text=text)


def _each_finding(run: RunFacts) -> Iterator[Finding]:
    valuation = run.valuation
    s = f"{run.what}s"
    if not valuation.unseen:
        below = valuation.below_zero(CONFIDENCE)
        yield Finding(
            text=f"{s} have a value below zero with {CONFIDENCE:.0%} confidence, each on its "
            f"own{_all_at_once(run)}{_mostly(run, below)}.",
            count=int(below.sum()),
            section="spread" if run.sensitive else "rows",
        )
    if valuation.predicted.any():
        text = f"{s} were never run; their values are predicted from those that were."
        yield Finding(text=text, count=int(valuation.predicted.sum()), section="sure")
    if run.what == "bundle" and not run.sensitive:
        best = ", ".join(name_of(name) for name in valuation.top(3).index)
        yield Finding(text=f"The bundles worth most: {best}.", section="rows")
    if not run.sensitive:
        yield from _seldom(run)
    if run.labels is not None:
        text = (
            "rows have labels that are probably wrong, as models say that were not trained on them."
        )
        yield Finding(text=text, count=int(run.labels.suspects.sum()), section="labels")
    if run.fresh is not None:
        yield from (replace(f, section="labels") for f in labels_verdicts(run, run.fresh))
        yield from (verdict(run, run.fresh, step) for step in (2, 4))
        yield order_holds(run, run.fresh, len(run.fresh.fractions) - 2)
    for about, text in cautions(valuation):
        if about != "classes" or not run.sensitive:
            text = f"{text[0].upper()}{text[1:]}."
            yield Finding(text=text, section=_SECTION_OF[about], level="warning")


def _all_at_once(run: RunFacts) -> str:
    """How many values are below zero with intervals that hold for all at once, where known."""
    if not isinstance(run.valuation, SampledValuation):
        return ""
    n = int(run.below_zero_together.sum())
    return f" ({n:,} of them with intervals that hold for all {run.what}s at once)"


def _mostly(run: RunFacts, below: NDArray[np.bool_]) -> str:
    """Of which classes the points below zero are, where there are classes."""
    labels = class_labels(run.valuation)
    if labels is None or run.sensitive or not below.any():
        return ""
    names, counts = np.unique(labels[below], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:3]
    return ": " + ", ".join(f"{counts[i]:,} of class {name_of(names[i])}" for i in order)


def _seldom(run: RunFacts) -> Iterator[Finding]:
    """Classes of which a random set has less than one row on average."""
    draws, prepared = run.valuation.draws, run.prepared
    if draws is None or prepared is None or class_labels(run.valuation) is None:
        return
    assert prepared.database.y is not None
    size = float((draws.weights * np.arange(draws.m)).sum())
    if size < 1:
        return
    names, counts = np.unique(prepared.database.y, return_counts=True)
    for name, count in zip(names.tolist(), counts.tolist(), strict=True):
        expected = size * count / len(prepared.database)
        if expected < 1:
            text = (
                f"rows of class {name_of(name)} are in the table. A random set has "
                f"{expected:.2g} of them on average, so what they add is seldom seen."
            )
            yield Finding(text=text, count=count, section="spread", level="warning")


def _each_step(run: RunFacts) -> Iterator[Finding]:
    """What to do and what not to do, as far as it was measured."""
    found = run.labels
    if found is not None and found.suspects.any():
        text = (
            f"Check the labels of the {int(found.suspects.sum()):,} rows whose labels are probably "
            "wrong first, and correct those that are."
        )
        yield Finding(text=text, section="labels")
    if not run.sensitive and by_class(run.valuation):
        text = (
            f"Look at the lowest {run.what}s of each class, for example "
            f"{', '.join(_lowest(run))}. Correct what is wrong; do not delete {run.what}s only "
            "because their value is low."
        )
        yield Finding(text=text, section="first")
    if run.fresh is None:
        text = (
            f"Do not delete {run.what}s because of these values: what that does was not measured. "
            f"{run.not_retrained}"
        )
        yield Finding(text=text, section="action", level="warning")
    else:
        yield from removals(run, run.fresh)
    if any(about == "classes" for about, _ in cautions(run.valuation)):
        text = "Compare rows within their class, because the classes themselves differ in value."
        yield Finding(text=text, section="spread" if run.sensitive else "first")
    for text in more_time(run.valuation):
        yield Finding(text=text, section="sure")
    if run.folder is not None and run.folder.is_dir() and not run.sensitive:
        text = f"Take the numbers from values.csv in {run.folder.resolve().name}: it has all rows."
        yield Finding(text=text, section="rows")


def _lowest(run: RunFacts) -> list[str]:
    """The names of the lowest point of each class, of the first few classes."""
    return [run.name(int(found.worst[0])) for found in by_class(run.valuation)[:3]]


def removals(run: RunFacts, fresh: FreshRows) -> Iterator[Finding]:
    """What to make of removing the rows of lowest value, as far as it was measured."""
    steps = range(1, len(fresh.fractions))
    changes = {step: fresh.change("lowest", step) for step in steps}
    helped = [step for step in steps if changes[step][0] - changes[step][1] > 0]
    hurt = [step for step in steps if changes[step][0] + changes[step][1] < 0]
    if helped:
        best = max(helped, key=lambda step: changes[step][0] - changes[step][1])
        share = fresh.fractions[best]
        said, plus = number(*changes[best])
        text = (
            f"Removing the lowest {share:.0%}{' of each class' if fresh.by_class else ''} made "
            f"models that were trained on {fresh.n_train:,} rows better on fresh rows, by {said} ± "
            f"{plus}. Many of these rows are right: look for what is wrong with them before you "
            "delete any."
        )
        yield Finding(text=text, section="action")
    elif not hurt:
        text = (
            "Do not delete rows because of their value: at none of the shares that were tried was "
            "a model better on fresh rows for certain."
        )
        yield Finding(text=text, section="action", level="warning")
    if hurt:
        shares = [f"{fresh.fractions[step]:.0%}" for step in hurt]
        named = f"{', '.join(shares[:-1])} and {shares[-1]}" if len(shares) > 1 else shares[0]
        at = "at every share that was tried" if len(hurt) == len(changes) else f"for {named}"
        text = (
            "Do not delete rows because their value is low: models without the lowest were worse "
            f"on fresh rows, beyond the error {at}."
        )
        yield Finding(text=text, section="action", level="warning")


def reproduce(run: RunFacts, *, command: str = "value") -> Section:
    """What identifies the run, and the command that makes it."""
    identity, context = run.about.identity, run.about.context
    draws = run.valuation.draws
    facts: dict[str, object] = {
        "m": run.valuation.m,
        "draws": run.valuation.n_draws,
        "seed": identity.seed,
        "metric": run.metric,
        "size weights": context.weights or "custom",
        "stopped by": context.stop or "the caller",
        "fingerprint of the database": identity.database,
        "fingerprint of the points": identity.points,
        **({} if run.folder is None else versions_of(run.folder)),
    }
    if draws is not None and draws.seconds is not None and len(draws.seconds):
        facts["computing time, all cores together"] = duration(float(draws.seconds.sum()))
    table = Table(
        title="The run",
        columns=["what", "is"],
        rows=[[name, str(value)] for name, value in facts.items() if value is not None],
    )
    return Section(
        name="reproduce",
        title="How to reproduce this",
        text=[] if run.sensitive else [_SAME],
        code="" if run.sensitive else _command(run.about, run.valuation.n_draws, command),
        tables=[table],
    )


_SAME = "The same command in the folder of the same tables gives the same values."


def _command(about: About, n_draws: int, command: str) -> str:
    """The command that makes this run, from what the run folder knows."""
    source, identity = about.context.source, about.identity
    if source is None:
        return ""
    words = ["dshapley", command, Path(source.table).name, "--target", source.target]
    options = {
        "--test": source.test_table and Path(source.test_table).name,
        "--test-size": source.test_size,
        "--points": source.points_table and Path(source.points_table).name,
        "--id": source.id,
        "--group": source.group,
        "--model": source.model,
        "--metric": identity.metric,
        "--m": identity.m,
        "--seed": identity.seed,
        "--task": source.task,
        "--retrain": None if source.retrain == "auto" else source.retrain,
        "--weights": about.context.weights,
        "--share": about.context.share,
        "--min-rows": None if source.min_rows == 1 else source.min_rows,
        "--preprocess": None if source.preprocess == "each" else source.preprocess,
        "--draws": n_draws,
    }
    for name, value in options.items():
        if value is not None:
            words += [name, str(value)]
    words.append("--balanced" if identity.balanced else "--independent")
    controlled = identity.control_variates
    words.append("--control-variates" if controlled else "--no-control-variates")
    for name in source.drop:
        words += ["--drop", name]
    return shlex.join(words)
