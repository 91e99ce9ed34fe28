"""Running an experiment and writing its rows, its figure and the verdicts on its claims."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dshapley
from dshapley.experiments import experiment
from dshapley.experiments.shared.work import Claim, Rows, Work
from dshapley.files import write_atomically
from dshapley.plots.figure import new_figure

__all__ = ["Reproduction", "reproduction"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Reproduction:
    """The rows and claims of a finished experiment."""

    name: str
    rows: Rows
    claims: list[Claim]
    seconds: float


def reproduction(name: str, work: Work, out: Path) -> Reproduction:
    """Run an experiment and write NAME.csv, NAME.png and NAME.json to `out`.

    Finished parts are kept in the work's folder, from which the same call resumes. `seconds` is the
    time of all calls together.
    """
    paper = experiment(name)
    new_figure(1, 1)  # an error if matplotlib is missing, before all the work
    out.mkdir(parents=True, exist_ok=True)
    with work.timed() as spent:
        rows = paper.run(work)
        seconds = spent()
    write_atomically(
        out / f"{name}.csv", lambda file: rows.to_csv(file, index=False, float_format="%.6g")
    )
    claims = paper.check(rows)
    figure = paper.plot(rows)
    write_atomically(
        out / f"{name}.png",
        lambda file: figure.savefig(file, dpi=100, format="png", bbox_inches="tight"),
    )
    about = {
        "experiment": name,
        "title": paper.TITLE,
        "paper": paper.PAPER,
        "command": _command(name, work),
        "dshapley": dshapley.__version__,
        "seconds": round(seconds, 1),
        "claims": [_as_json(claim) for claim in claims],
    }
    text = json.dumps(about, indent=2, allow_nan=False) + "\n"
    write_atomically(out / f"{name}.json", lambda file: file.write(text.encode()))
    return Reproduction(name=name, rows=rows, claims=claims, seconds=seconds)


def _command(name: str, work: Work) -> str:
    own = "" if work.table is None else f" --table {work.table[0].name} --target {work.table[1]}"
    return f"dshapley reproduce {name} --scale {work.scale}{own}"


def _as_json(claim: Claim) -> dict[str, Any]:
    """A claim with its verdict as plain values; infinite ends become null, as JSON has none."""
    parts = {**asdict(claim), "verdict": claim.verdict}
    infinite = (name for name in ("by", "low", "high") if not math.isfinite(parts[name]))
    return parts | dict.fromkeys(infinite)
