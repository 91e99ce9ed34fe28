"""The public names for type checkers; `__init__.py` loads each when it is first used."""

from . import errors, market, metrics, plots
from .api import Fitting, Sampling, value
from .auditing import audit
from .baselines import curves, data_shapley
from .baselines.exact_neighbours import knn_values
from .data import datasets
from .data.points import Bundles, Points
from .errors import DrawError, DShapleyError, FitError, InputError, RunFolderError
from .inference import profile
from .inference.comparison import compare
from .inference.sampled import estimate
from .inference.valuation import Valuation
from .learners import learner
from .metrics import Metric
from .potentials import MeanPotential, Potential, marginals, potential, testing
from .running import planning, stopping
from .running.label_values import label_values
from .running.run import Interrupted, run
from .running.run_folder import load_run
from .running.stopping import Stop
from .sampling import sizes
from .sampling.design import Design
from .sampling.draws import Draws
from .theory import bounds

__version__: str

__all__ = [
    "Bundles",
    "DShapleyError",
    "Design",
    "DrawError",
    "Draws",
    "FitError",
    "Fitting",
    "InputError",
    "Interrupted",
    "MeanPotential",
    "Metric",
    "Points",
    "Potential",
    "RunFolderError",
    "Sampling",
    "Stop",
    "Valuation",
    "audit",
    "bounds",
    "compare",
    "curves",
    "data_shapley",
    "datasets",
    "errors",
    "estimate",
    "knn_values",
    "label_values",
    "learner",
    "load_run",
    "marginals",
    "market",
    "metrics",
    "planning",
    "plots",
    "potential",
    "profile",
    "run",
    "sizes",
    "stopping",
    "testing",
    "value",
]
