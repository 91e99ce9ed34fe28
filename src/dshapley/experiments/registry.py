"""The experiments by name: a new one is a file here and a name in this list."""

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
)
WITH_TABLE = ("figure1", "supplement1", "mislabelled")
"""Those with a medical task, which a table of one's own can take the place of."""


class Experiment(Protocol):
    """What a file of an experiment has."""

    TITLE: str
    PAPER: str
    """What the paper says."""
    MINUTES: dict[Scale, float]
    """How long each scale takes on two cores, as measured; `full` from the time of single draws."""

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
