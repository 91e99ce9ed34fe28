"""What was fixed before the published seeds were run (docs/decisions/0020-label-benchmark.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PILOT_SEEDS = (100, 101)
"""The settings below were chosen with these."""
SEEDS = (0, 1, 2, 3, 4)
"""The published seeds."""

N_ROWS = 1000
"""Rows of a table for each seed, or all if it has fewer."""
FEWEST_OF_A_CLASS = 20
"""Classes with fewer rows are left out: five folds and a flipped fifth would leave them empty."""
N_REFERENCE = 4000
"""Other rows, with right labels, that the reference model of the boundary noise learns from."""
FEWEST_REFERENCE = 500
"""With fewer other rows the reference model is cross-validated on the rows themselves."""


@dataclass(frozen=True)
class Noise:
    """A kind of noise, and the share of the labels that it flips."""

    kind: str
    rate: float


NOISES = (Noise("uniform", 0.05), Noise("boundary", 0.10), Noise("class", 0.20))

TARGETS = {
    "adult": "income",
    "covertype": "Cover_Type",
    "diabetes130": "readmitted",
    "physionet2012": "in_hospital_death",
    "pucrio_har": "class",
    "sensorless_drive": "class",
}
"""Tables of the data folder, and their targets."""
NOT_FEATURES = {
    "adult": ["split"],
    "diabetes130": ["encounter_id", "patient_nbr"],
    "physionet2012": ["recordid", "set"],
    "pucrio_har": ["user", "gender", "age", "how_tall_in_meters", "weight", "body_mass_index"],
}
"""Identifiers and, for the accelerometers, what describes the four people."""
TABLES = (*TARGETS, "digits", "breast_cancer")
"""The eight tables; the last two come with scikit-learn."""

N_DRAWS = 20
"""Draws of a run with values."""
N_EVIDENCE = 60
"""Draws of evidence from logistic regressions, without values. About three in four are asked."""
N_FORESTS = 40
"""Draws of evidence from forests of ten trees, of sets of at least half as many rows as the table.

With uniform sizes the forests were as good on average, and worse where rows are easy to tell.
"""
SMALLEST = 0.03
"""Added to both probabilities in the log odds, so that tiny probabilities count as alike."""

Group: TypeAlias = Literal["same", "best"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A score on the page. "same": each tool trains logistic regressions; "best": what it likes."""

    group: Group
    tool: str
    method: str
    score: str
    label: str
    judged: bool = False
    """Whether it is ours and gets the verdict. Fixed in advance, so it is no best of several."""


def _entry(group: Group, where: str, label: str, *, judged: bool = False) -> Entry:
    tool, method, score = where.split("/")
    return Entry(group=group, tool=tool, method=method, score=score, label=label, judged=judged)


ENTRIES = (
    _entry("same", "dshapley/run/probability", "dshapley, probability", judged=True),
    _entry("same", "dshapley/logistic/odds", "dshapley, odds, no values", judged=True),
    _entry("same", "dshapley/logistic/probability", "dshapley, probability, no values"),
    _entry("same", "dshapley/run/votes", "dshapley, votes"),
    _entry("same", "dshapley/run/value", "dshapley, D-Shapley value"),
    _entry("same", "cleanlab/logistic/default", "cleanlab, self-confidence"),
    _entry("same", "cleanlab/logistic/margin", "cleanlab, margin"),
    _entry("same", "cleanlab/logistic/issues", "cleanlab, find_label_issues first"),
    _entry("same", "pydvl/oob_logistic/value", "pyDVL, Data-OOB"),
    _entry("best", "dshapley/forests/odds", "dshapley, odds, two forests", judged=True),
    _entry("best", "dshapley/forests/probability", "dshapley, probability, two forests"),
    _entry("best", "cleanlab/extra_trees/default", "cleanlab, self-confidence, extra-trees"),
    _entry("best", "cleanlab/extra_trees/margin", "cleanlab, margin, extra-trees"),
    _entry("best", "cleanlab/extra_trees/issues", "cleanlab, find_label_issues, extra-trees"),
    _entry("best", "cleanlab/knn_shapley/value", "cleanlab, kNN-Shapley"),
    _entry("best", "pydvl/oob_forest/value", "pyDVL, Data-OOB, forest"),
    _entry("best", "pydvl/knn_shapley/value", "pyDVL, kNN-Shapley"),
    _entry("best", "opendataval/knn_shapley/value", "OpenDataVal, kNN-Shapley"),
    _entry("best", "opendataval/lava/value", "OpenDataVal, LAVA"),
)
"""The scores of the page, in its order."""
