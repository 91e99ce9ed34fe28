"""The paper's experiments and some of our own: one file each, named in `registry`.

Each file has three functions: `run(scale)` returns the rows of a data frame, `plot(rows)` a
matplotlib figure, and `check(rows)` the paper's claims as inequalities with error bars.
`reproduce` calls the three and writes their results. `shared` has what experiments share.
"""

from dshapley.experiments.registry import NAMES, WITH_TABLE, Experiment, experiment

__all__ = ["NAMES", "WITH_TABLE", "Experiment", "experiment"]
