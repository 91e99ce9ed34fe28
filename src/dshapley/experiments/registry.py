"""The experiments by name. A new experiment is a file in this folder and a name in `NAMES`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from dshapley.errors import InputError, nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dshapley.experiments.shared.work import Claim, Rows, Scale, Work

__all__ = ["NAMES", "WITH_TABLE", "Experiment", "experiment"]

NAMES = (
    "figure1",
    "figure2",
    "supplement1",
    "cifar10",
    "cost",
    "mislabelled",
    "figure3",
    "shift",
    "collecting",
)
WITH_TABLE = ("figure1", "supplement1", "mislabelled")
"""The experiments with a medical task, which the user's own table can replace."""


class Experiment(Protocol):
    """What the file of an experiment contains."""

    TITLE: str
    PAPER: str
    """What the paper claims."""
    MINUTES: dict[Scale, float]
    """The minutes that each scale takes on two cores: measured, but for `full` extrapolated."""

    def run(self, scale: Scale | Work) -> Rows:
        """The rows behind the figure."""
        ...

    def plot(self, rows: Rows) -> Figure:
        """The figure."""
        ...

    def check(self, rows: Rows) -> list[Claim]:
        """The paper's claims, and whether they hold."""
        ...


def experiment(name: str) -> Experiment:
    """The experiment of this name.

    >>> experiment("figure1").TITLE
    'Point removal, logistic regression'
    """
    if name not in NAMES:
        raise InputError(f"unknown experiment {name!r}: {nearest(name, [*NAMES, 'all'])}")
    return cast("Experiment", importlib.import_module(f"dshapley.experiments.{name}"))
