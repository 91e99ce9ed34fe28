"""The public names; `__init__.py` loads each when it is first used."""

from . import (
    bounds,
    curves,
    data_shapley,
    datasets,
    errors,
    market,
    metrics,
    planning,
    profile,
    sizes,
    stopping,
)
from .api import value
from .design import Design
from .draws import Draws
from .errors import DrawError, DShapleyError, FitError, InputError, RunFolderError
from .learners import learner
from .metrics import Metric
from .neighbours import knn_values
from .points import Bundles, Points
from .potentials import MeanPotential, Potential, marginals, potential
from .runs import Interrupted, run
from .store import load
from .valuation import Valuation, estimate

__version__: str

__all__ = [
    "Bundles",
    "DShapleyError",
    "Design",
    "DrawError",
    "Draws",
    "FitError",
    "InputError",
    "Interrupted",
    "MeanPotential",
    "Metric",
    "Points",
    "Potential",
    "RunFolderError",
    "Valuation",
    "bounds",
    "curves",
    "data_shapley",
    "datasets",
    "errors",
    "estimate",
    "knn_values",
    "learner",
    "load",
    "marginals",
    "market",
    "metrics",
    "planning",
    "potential",
    "profile",
    "run",
    "sizes",
    "stopping",
    "value",
]
