"""The report of `dshapley reproduce`: each experiment's figure, and whether its claims hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dshapley.experiments import experiment
from dshapley.experiments.reproduce import Reproduction
from dshapley.formatting import duration
from dshapley.reporting.page import Finding, Number, Page, Section, Table
from dshapley.reporting.svg import made_by, picture_of
from dshapley.reporting.text import rounded

__all__ = ["reproduction_report"]

_VERDICTS = ("holds", "not shown", "fails")


def reproduction_report(found: Sequence[Reproduction], scale: str) -> Page:
    """The page about experiments that have run."""
    counts = [
        f"{sum(c.verdict == verdict for one in found for c in one.claims)} {verdict}"
        for verdict in _VERDICTS
    ]
    lead = [
        f"{len(found)} of the paper's experiments at the scale {scale}. Claims: "
        f"{', '.join(counts)}.",
        "A claim is an inequality. It holds, or fails, if its 95 % interval is on one side of 0.",
    ]
    return Page(
        title="The paper, reproduced",
        lead=lead,
        sections=[_section(one) for one in found],
        made_by=made_by(),
    )


def _section(found: Reproduction) -> Section:
    paper = experiment(found.name)
    failed = [claim for claim in found.claims if claim.verdict == "fails"]
    pictures = picture_of(
        lambda: paper.plot(found.rows),
        found.name,
        paper.TITLE,
        f"The numbers behind it are in {found.name}.csv.",
        wide=True,
    )
    return Section(
        name=found.name,
        title=f"{found.name}: {paper.TITLE}",
        text=[f"The paper: {paper.PAPER}", f"Computing time: {duration(found.seconds)}."],
        findings=[Finding(text=f"Fails: {claim.text}.", level="warning") for claim in failed],
        pictures=pictures,
        tables=[_claims(found)],
    )


def _claims(found: Reproduction) -> Table:
    rows = []
    for c in found.claims:
        ends = zip((c.by, c.low, c.high), rounded(c), strict=True)
        rows.append([c.text, *(_end(part, shown) for part, shown in ends), c.verdict])
    columns = ["claim", "by", "95 % low", "95 % high", "verdict"]
    return Table(
        title="Claims", columns=columns, rows=rows, searchable=len(rows) > 10, wrapped=True
    )


def _end(part: float, shown: str) -> Number | str:
    return Number(part, shown) if math.isfinite(part) else shown
