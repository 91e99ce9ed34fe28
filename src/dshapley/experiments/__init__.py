"""The paper's experiments and the project's own: one file each, named in `registry`.

Each has `run(scale)`, which returns rows of a data frame, `plot(rows)`, a matplotlib figure, and
`check(rows)`, the paper's claims as inequalities with error bars. `reproduce` runs, draws, checks
and writes them; `shared` has what they have in common.
"""

from dshapley.experiments.registry import NAMES, WITH_TABLE, Experiment, experiment

__all__ = ["NAMES", "WITH_TABLE", "Experiment", "experiment"]
