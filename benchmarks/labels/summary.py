"""From rows of results to paired comparisons, verdicts and the tables of docs/labels.md.

`python -m benchmarks.labels.summary` puts the tables of docs/benchmarks/labels.csv into the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from benchmarks.labels.settings import ENTRIES, NOISES, TABLES, Entry, Group

Rows: TypeAlias = Any
"""A pandas data frame with the columns of docs/benchmarks/labels.csv."""

Verdict: TypeAlias = Literal["best", "within", "behind"]

COLUMNS = ("table", "seed", "noise", "tool", "method", "score", "ap", "auc", "seconds")


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Ours minus the best peer on a table: the mean over seeds and its standard error."""

    table: str
    peer: Entry
    by: float
    error: float

    @property
    def verdict(self) -> Verdict:
        """Best if the mean is above 0, within the error if it is above minus one standard error."""
        if self.by >= 0:
            return "best"
        return "within" if self.by >= -self.error else "behind"


def of(rows: Rows, entry: Entry) -> Rows:
    """The rows of one score."""
    return rows[
        (rows.tool == entry.tool) & (rows.method == entry.method) & (rows.score == entry.score)
    ]


def by_seed(rows: Rows, entry: Entry, table: str, measure: str = "ap") -> np.ndarray[Any, Any]:
    """The measure of each seed on a table: the mean over the kinds of noise, by ascending seed."""
    found = of(rows, entry)
    means = found[found.table == table].groupby("seed")[measure].mean().sort_index()
    return np.asarray(means)


def error(samples: np.ndarray[Any, Any]) -> float:
    """The standard error of a mean over seeds."""
    return float(np.std(samples, ddof=1) / np.sqrt(len(samples)))


def present(rows: Rows, group: Group) -> list[Entry]:
    """The scores of a group that there are rows of, since a tool may not be installed."""
    return [entry for entry in ENTRIES if entry.group == group and len(of(rows, entry))]


def paired(rows: Rows, ours: Entry, table: str, measure: str = "ap") -> Paired:
    """Ours and the peer with the highest mean on this table, seed by seed.

    The peer is chosen with the same rows, which favours the peers.
    """
    peers = [entry for entry in present(rows, ours.group) if entry.tool != "dshapley"]
    best = max(peers, key=lambda entry: by_seed(rows, entry, table, measure).mean())
    difference = by_seed(rows, ours, table, measure) - by_seed(rows, best, table, measure)
    return Paired(table=table, peer=best, by=float(difference.mean()), error=error(difference))


def _table(header: list[str], lines: list[list[str]]) -> str:
    ruler = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ruler, *lines])


def precision_table(rows: Rows, group: Group) -> str:
    """Mean average precision of each score on each table, with its standard error over seeds."""
    tables = [table for table in TABLES if (rows.table == table).any()]
    entries = present(rows, group)
    means = {entry: [by_seed(rows, entry, t) for t in tables] for entry in entries}
    highest = [max(means[e][i].mean() for e in entries) for i in range(len(tables))]
    lines = []
    for entry in entries:
        cells = []
        for samples, top in zip(means[entry], highest, strict=True):
            text = f"{samples.mean():.3f} ± {error(samples):.3f}"
            cells.append(f"**{text}**" if samples.mean() == top else text)
        lines.append([entry.label, *cells, f"{np.mean([s.mean() for s in means[entry]]):.3f}"])
    return _table(["", *tables, "mean"], lines)


def verdict_table(rows: Rows, group: Group) -> str:
    """Ours minus the best peer, with a verdict for each table, and the count of each verdict."""
    tables = [table for table in TABLES if (rows.table == table).any()]
    lines = []
    for ours in (entry for entry in present(rows, group) if entry.judged):
        found = [paired(rows, ours, table) for table in tables]
        for one in found:
            verdict = {"best": "best", "within": "within the error", "behind": "**behind**"}
            lines.append(
                [ours.label, one.table, one.peer.label, f"{one.by:+.3f} ± {one.error:.3f}",
                 verdict[one.verdict]]
            )  # fmt: skip
        count = {v: sum(one.verdict == v for one in found) for v in ("best", "within", "behind")}
        lines.append(
            [ours.label, f"all {len(found)}", "",
             f"{np.mean([one.by for one in found]):+.3f}",
             f"best on {count['best']}, within the error on {count['within']}, "
             f"behind on {count['behind']}"]
        )  # fmt: skip
    return _table(["ours", "table", "best peer", "ours minus the peer", "verdict"], lines)


def measures_table(rows: Rows, group: Group) -> str:
    """Of each score, over all tables: AP for each kind of noise, ROC AUC and seconds."""
    lines = []
    for entry in present(rows, group):
        found = of(rows, entry)
        kinds = [found[found.noise == noise.kind].ap.mean() for noise in NOISES]
        lines.append(
            [entry.label, *(f"{ap:.3f}" for ap in kinds), f"{found.auc.mean():.3f}",
             f"{found.seconds.median():.1f}", f"{found.seconds.max():.1f}"]
        )  # fmt: skip
    header = [f"AP, {noise.kind} {noise.rate:.0%}" for noise in NOISES]
    return _table(["", *header, "ROC AUC", "seconds, median", "most"], lines)


TABLES_OF_PAGE = {
    "precision": precision_table,
    "verdicts": verdict_table,
    "measures": measures_table,
}


def page(text: str, rows: Rows) -> str:
    """The page with each table between its marks as the rows say."""

    def table(match: re.Match[str]) -> str:
        group: Group = "same" if match[3] == "same" else "best"
        return f"{match[1]}\n{TABLES_OF_PAGE[match[2]](rows, group)}\n\n{match[4]}"

    pattern = r"(<!-- (\w+) (same|best) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, table, text, flags=re.DOTALL)


ROOT = Path(__file__).parents[2]
ROWS = ROOT / "docs" / "benchmarks" / "labels.csv"
PAGE = ROOT / "docs" / "labels.md"


def main() -> None:
    """Put the tables into docs/labels.md again."""
    PAGE.write_text(page(PAGE.read_text(), pd.read_csv(ROWS)))


if __name__ == "__main__":
    main()
