"""dshapley: what is a data point worth, under a data distribution?

The distributional Shapley value of Ghorbani, Kim and Zou, *A Distributional Framework for Data
Valuation* (2020), with a standard error on every number.

>>> import dshapley as ds
>>> design = ds.Design(ds.Points([[-1.0], [0.0], [4.0]]), m=10)
>>> U = ds.MeanPotential(design.database)
>>> valuation = ds.estimate(ds.run(U, design, design.database, until=2000))
>>> exact = U.value(design.database, m=10)
>>> bool((abs(valuation.values - exact) < 4 * valuation.stderr).all())
True
"""

from dshapley import (
    bounds,
    curves,
    data_shapley,
    datasets,
    market,
    metrics,
    planning,
    profile,
    sizes,
    stopping,
)
from dshapley.api import value
from dshapley.design import Design
from dshapley.draws import Draws
from dshapley.errors import DrawError, DShapleyError, FitError, InputError, RunFolderError
from dshapley.learners import learner
from dshapley.metrics import Metric
from dshapley.neighbours import knn_values
from dshapley.points import Bundles, Points
from dshapley.potentials import MeanPotential, Potential, marginals, potential
from dshapley.runs import Interrupted, run
from dshapley.store import load
from dshapley.valuation import Valuation, estimate

__version__ = "0.1.0"

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
