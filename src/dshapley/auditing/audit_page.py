"""The page of an audit: what was found, what acting on it did, and the rows to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dshapley.auditing.audited import LEAST, Audit
from dshapley.auditing.regions import Region
from dshapley.formatting import number
from dshapley.plots.figure import name_of
from dshapley.reporting.findings import cautions, class_labels, percentage_points
from dshapley.reporting.notebook import fragment, html_of
from dshapley.reporting.page import Finding, Number, Page, Section, Table
from dshapley.reporting.run_facts import RunFacts
from dshapley.reporting.run_report import footer, meaning, privacy, removals, reproduce, settled
from dshapley.reporting.run_sections import (
    action,
    changed,
    features,
    first_to_look_at,
    how_sure,
    how_to_read,
    labels,
    labels_verdicts,
    row_columns,
    rows_section,
)

__all__ = ["audit_page", "findings", "summary"]

_MOST_ROWS = 200
_MOST_REGIONS = 3
_CAUTIONS = {"order": "sure", "classes": "first", "metric": "meaning"}


def audit_page(audit: Audit) -> Page:
    """The page that `Audit.report` writes."""
    run = audit.run
    sections = [
        Section(name="findings", title="Findings", findings=findings(audit)),
        Section(name="next", title="What to do next", findings=list(_steps(audit))),
        labels(run),
        _copies_section(audit),
        _contradicted_section(audit),
        _worth_section(audit),
        _rare_section(audit),
        first_to_look_at(run),
        action(run),
        meaning(run),
        how_sure(run),
        rows_section(run),
        features(run),
        reproduce(run, command="audit"),
    ]
    return Page(
        title=_title(run),
        lead=[_question(run), *_answer(audit), settled(run), *privacy(run)],
        sections=[section for section in sections if section is not None],
        made_by=footer(run),
    )


def summary(audit: Audit) -> list[str]:
    """The findings as sentences."""
    return [
        found.text if found.count is None else f"{found.count:,} {found.text}"
        for found in findings(audit)
    ]


@html_of.register
def _(audit: Audit) -> str:
    return fragment("Audit", f" of {len(audit.rare):,} rows", notes=summary(audit))


def _title(run: RunFacts) -> str:
    source = run.about.context.source
    if source is None or run.sensitive:
        return "Audit of a table"
    return f"Audit of {Path(source.points_table or source.table).name}"


def _question(run: RunFacts) -> str:
    source = run.about.context.source
    goal = "" if source is None or run.sensitive else f" that predicts {name_of(source.target)}"
    return (
        f"Question: which of {len(run.valuation):,} rows are wrong, what do they add to a "
        f"{run.model}{goal}, and is a model better without them, as measured by {run.metric} on "
        "rows that played no part in finding them?"
    )


def _answer(audit: Audit) -> Iterator[str]:
    """The most important finding, and what acting on it did."""
    run = audit.run
    if run.labels is not None and run.labels.noise is not None:
        n, noise = int(audit.suspects.sum()), run.labels.noise
        yield (
            f"Labels: about {noise.share:.1%} are wrong (95 % interval {noise.low:.1%} to "
            f"{noise.high:.1%}). "
            + (
                f"{n:,} are probably wrong{'' if run.sensitive else ' and listed below'}."
                if n
                else "None is probably wrong."
            )
        )
    elif audit.run.valuation.draws is not None and audit.run.valuation.draws.judges_labels:
        yield f"Labels: not judged. {_TOO_FEW}"
    if audit.contradicted and not run.sensitive:
        yield f"Look at one part of the table first: {_suspects_in(audit, audit.contradicted[0])}."
    measured = [f.text for f in _verdicts(audit) if f.level == "good"]
    if measured:
        yield f"Measured: {measured[0]}"
    elif run.fresh is not None:
        yield "Measured: no change of the rows that was tried made models better beyond the error."


_TOO_FEW = "There are too few draws: about 100 are needed (--draws, --time)."


# -- What was found


def findings(audit: Audit) -> list[Finding]:
    """What was found, with counts, and what acting on it did."""
    run = audit.run
    verdicts: dict[str, list[Finding]] = {"labels": [], "copies": [], "action": []}
    for found in _verdicts(audit):
        verdicts[found.section].append(found)
    return [
        *_of_labels(audit),
        *verdicts["labels"],
        *_of_copies(audit),
        *verdicts["copies"],
        *_of_regions(audit),
        *_of_values(audit),
        *verdicts["action"],
        *(
            Finding(text=f"{text[0].upper()}{text[1:]}.", section=_CAUTIONS[about], level="warning")
            for about, text in cautions(run.valuation)
            if about != "classes" or not run.sensitive
        ),
    ]


def _of_labels(audit: Audit) -> Iterator[Finding]:
    found, draws = audit.run.labels, audit.run.valuation.draws
    if found is None or found.noise is None:
        if draws is not None and draws.judges_labels:
            yield Finding(text=f"Labels were not judged. {_TOO_FEW}", level="warning")
        return
    unknown = int(np.isnan(found.wrong).sum())
    if unknown:
        yield Finding(
            text="labels were not judged: their rows were not measured (--share), or too few "
            "models know their class without them.",
            count=unknown,
            level="warning",
        )
    expected = float(found.wrong[found.suspects].sum())
    text = "rows have labels that are probably wrong"
    text += f": about {expected:.0f} of them are expected to be wrong." if expected else "."
    yield Finding(text=text, count=int(found.suspects.sum()), section="labels")


def _of_copies(audit: Audit) -> Iterator[Finding]:
    copies = audit.copies
    if copies.few_values:
        yield Finding(
            text="Most rows are equal to others in all columns, because these have few different "
            "values: copies are not judged."
        )
    n = int((copies.group >= 0).sum())
    if not n:
        return
    exact, groups = int(copies.exact.sum()), int(copies.group.max()) + 1
    text = (
        f"rows are copies of others, in {groups:,} groups: {exact:,} exactly, {n - exact:,} nearly."
    )
    yield Finding(text=text, count=n, section="copies")
    yield Finding(
        text="groups of copies have different labels: in each group one is wrong at least, or the "
        "columns do not tell its rows apart.",
        count=len(np.unique(copies.group[copies.conflict])),
        section="copies",
        level="warning" if copies.conflict.any() else "note",
    )


def _of_regions(audit: Audit) -> Iterator[Finding]:
    run = audit.run
    for section, chosen, words in (
        ("contradicted", audit.contradicted[:_MOST_REGIONS], _contradicted_in_words),
        ("worth", [r for r in audit.worth[:1] if r.difference > 0], _worth_in_words),
        ("worth", [r for r in audit.worth[-1:] if r.difference < 0], _worth_in_words),
    ):
        for region in chosen:
            n = int(region.inside.sum())
            if run.sensitive:
                kind = "values differ" if section == "worth" else "labels contradict the models"
                yield Finding(text=f"rows are in a region where {kind}.", count=n)
            else:
                level: Literal["note", "warning"] = "note" if section == "worth" else "warning"
                text = f"rows {words(audit, region)}"
                yield Finding(text=text, count=n, section=section, level=level)


def _of_values(audit: Audit) -> Iterator[Finding]:
    run = audit.run
    if run.valuation.unseen:
        return
    yield Finding(
        text="rows have a value below zero, with intervals that hold for all rows at once: models "
        f"are worse with them on average. With an interval for each row on its own it is "
        f"{int(run.valuation.below_zero().sum()):,} rows.",
        count=int(run.below_zero_together.sum()),
        section="" if run.sensitive else "rows",
    )
    yield Finding(
        text="rows are valuable and rare: worth more than their class beyond the error, and "
        "farther from other rows than nine in ten.",
        count=int(audit.valuable_and_rare.sum()),
        section="" if run.sensitive else "rare",
    )


def _verdicts(audit: Audit) -> Iterator[Finding]:
    """What each change of the rows did to the score on fresh rows."""
    run, fresh = audit.run, audit.run.fresh
    if fresh is None:
        return
    yield from (replace(found, section="labels") for found in labels_verdicts(run, fresh))
    for edit, section, what in (
        ("without conflicts", "copies", "copies whose label is not that of most of their group"),
        ("without below zero", "action", "rows with a value below zero, each on its own"),
    ):
        if edit in fresh.edits:
            n = fresh.edits[edit].n_changed
            done = f"Without the {what} (about {n:.0f} of the {fresh.n_train:,} trained on)"
            yield replace(changed(run, done, *fresh.change_by(edit)), section=section)


def _contradicted_in_words(audit: Audit, region: Region) -> str:
    return (
        f"have labels that contradict the models: {_suspects_in(audit, region)}. Wrong labels look "
        "like this, and so do rows that follow a rule of their own. Check all of them: here more "
        "labels may be wrong than were named."
    )


def _suspects_in(audit: Audit, region: Region) -> str:
    """How many labels of a region are probably wrong, and how many of the other rows."""
    inside, named = region.inside, audit.suspects
    n, here, others = int(inside.sum()), int(named[inside].sum()), int(named[~inside].sum())
    return (
        f"where {region.rule}, {here:,} of {n:,} labels ({here / n:.0%}) are probably wrong, "
        f"elsewhere {others:,} of {len(inside) - n:,} ({others / max(len(inside) - n, 1):.0%})"
    )


def _worth_in_words(audit: Audit, region: Region) -> str:
    run = audit.run
    which = "more" if region.difference > 0 else "less"
    size = abs(region.difference)
    shown, reach = number(size, region.reach)
    within = " of their class" if class_labels(run.valuation) is not None else ""
    return (
        f"where {region.rule} are worth {which} than the other rows{within}, by {shown} ± {reach} "
        f"each{percentage_points(run.metric, size)}."
    )


def _with_reach(region: Region) -> str:
    shown, reach = number(region.difference, region.reach)
    return f"{'+' if region.difference > 0 else ''}{shown} ± {reach}"


# -- What to do


def _steps(audit: Audit) -> Iterator[Finding]:
    """What to do and what not to do, as far as it was measured."""
    run, fresh = audit.run, audit.run.fresh
    n = int(audit.suspects.sum())
    if n:
        text = f"Check the {n:,} labels that are probably wrong, the surest first."
        yield Finding(text=f"{text}{_of_file(audit, 'label_suspect')}", section="labels")
    n = int(audit.copies.conflict.sum())
    if n:
        text = f"Decide which of the {n:,} copies with different labels are right."
        yield Finding(text=f"{text}{_of_file(audit, 'contradicts_a_copy')}", section="copies")
    if audit.contradicted and not run.sensitive:
        text = (
            f"Look at the rows where {audit.contradicted[0].rule}: how were they labelled, and is "
            "a column missing that would tell their classes apart?"
        )
        yield Finding(text=text, section="contradicted")
    best = [region for region in audit.worth if region.difference > 0]
    if best and not run.sensitive:
        text = (
            f"If more rows can be had, value them first (dshapley collect): rows where "
            f"{best[0].rule} were worth most here. In experiments batches chosen by value were "
            "better than random ones if the run had test rows of its own, and not if it was "
            "cross-fitted."
        )
        yield Finding(text=text, section="worth")
    if fresh is None:
        yield Finding(
            text=f"Delete no row because of this page: what that does was not measured. "
            f"{run.not_retrained}",
            section="action",
            level="warning",
        )
        return
    yield from removals(run, fresh)


def _of_file(audit: Audit, column: str) -> str:
    return "" if audit.run.sensitive else f" They are in audit.csv, column {column}."


# -- The sections


def _copies_section(audit: Audit) -> Section | None:
    copies, run = audit.copies, audit.run
    shown = np.flatnonzero(copies.conflict)
    which = "contradict each other"
    if not len(shown):
        shown, which = np.flatnonzero(copies.group >= 0), "agree in their labels"
    if not len(shown) or run.sensitive:
        return None
    shown = shown[np.argsort(copies.group[shown], kind="stable")][:_MOST_ROWS]
    verdicts = [found for found in _verdicts(audit) if found.section == "copies"]
    text = (
        "Near copies differ by at most a hundredth of a standard deviation in every column, and by "
        "at most a tenth of the distance that a row usually has from its nearest."
    )
    table = _table(
        run, f"Copies that {which}", shown,
        [
            ("group", [int(g) for g in copies.group[shown]]),
            _given(run, shown),
            *_wrong(run, shown),
        ],
    )  # fmt: skip
    return Section(
        name="copies", title="Copies", text=[text], findings=verdicts, tables=[table]
    )  # fmt: skip


def _given(run: RunFacts, shown: NDArray[np.intp]) -> tuple[str, Sequence[str]]:
    points = run.valuation.points
    assert points is not None
    assert points.y is not None
    return "label", [str(points.y[i]) for i in shown.tolist()]


def _wrong(run: RunFacts, shown: NDArray[np.intp]) -> list[tuple[str, Sequence[object]]]:
    """What the models say of these labels."""
    found = run.labels
    if found is None or found.noise is None or found.suggested is None:
        return []
    wrong = [Number(float(found.wrong[i]), f"{found.wrong[i]:.2f}") for i in shown.tolist()]
    return [("wrong", wrong), ("suggested", [str(found.suggested[i]) for i in shown.tolist()])]


def _contradicted_section(audit: Audit) -> Section | None:
    if not audit.contradicted or audit.run.sensitive:
        return None
    text = (
        "Models give each label a probability, and from all their probabilities follows which one "
        "they expect to give. In these regions the labels fall short of that, more than in other "
        f"rows. Differences below {LEAST:g} are not named. {_COMPARED}"
    )
    rows = [
        [region.rule, int(region.inside.sum()), int(audit.suspects[region.inside].sum()),
         Number(region.difference, _with_reach(region))]
        for region in audit.contradicted
    ]  # fmt: skip
    columns = ["rows where", "rows", "probably wrong", "fall short by"]
    table = Table(title="Regions", columns=columns, rows=rows, wrapped=True)
    title = "Where labels contradict the models"
    return Section(name="contradicted", title=title, text=[text], tables=[table])


_COMPARED = (
    "All categories and quarters of every column were compared; the ± is half of an interval that "
    "holds for all of them at once with 95 %."
)


def _worth_section(audit: Audit) -> Section | None:
    if not audit.worth or audit.run.sensitive:
        return None
    classes = class_labels(audit.run.valuation) is not None
    text = (
        "What another row like these adds, on average, compared with the other rows"
        f"{' of its class' if classes else ''}. The errors of the values are in the interval. "
        f"{_COMPARED}"
    )
    rows = [
        [region.rule, int(region.inside.sum()), Number(region.difference, _with_reach(region))]
        for region in audit.worth
    ]
    table = Table(
        title="Regions", columns=["rows where", "rows", "value compared with others"], rows=rows,
        wrapped=True,
    )  # fmt: skip
    return Section(
        name="worth", title="What rows are worth, by region", text=[text], tables=[table]
    )


def _rare_section(audit: Audit) -> Section | None:
    shown = np.flatnonzero(audit.valuable_and_rare)
    if not len(shown) or audit.run.sensitive:
        return None
    shown = shown[np.argsort(-audit.valuation.values[shown], kind="stable")][:_MOST_ROWS]
    text = (
        "These rows stand where few others are, and models are better with them. A search for "
        "outliers would name them for removal."
    )
    table = _table(audit.run, "Valuable and rare rows", shown, [_given(audit.run, shown)])
    return Section(name="rare", title="Valuable and rare rows", text=[text], tables=[table])


def _table(
    run: RunFacts, title: str, shown: NDArray[np.intp], more: list[tuple[str, Sequence[object]]]
) -> Table:
    """Rows with these columns after their id, then those about values and of the table."""
    first, *others = row_columns(run)
    columns = [first[0], *(name for name, _ in more), *(name for name, _ in others)]
    rows = [
        [first[1](i), *(cells[j] for _, cells in more), *(cell(i) for _, cell in others)]
        for j, i in enumerate(shown.tolist())
    ]
    return Table(title=title, columns=columns, rows=rows, note=how_to_read(run), searchable=True)
