"""Potentials U(S), the worth of a set of points, and marginals U(S + z) - U(S).

- `protocol`: what a potential must provide; any function of a set of points is one.
- `model`: the potential of a model that is trained on S and scored on a test set.
- `mean`: the paper's mean estimation.
- `preprocessing`: the first steps of a pipeline, fitted once.
- `testing`: checks for potentials and learners that you write yourself.
- `checks`: input errors that are raised before the first draw.
"""

from dshapley.potentials.mean import MeanPotential
from dshapley.potentials.model import ModelPotential, Retrain, potential
from dshapley.potentials.protocol import Potential, check_points, describe, marginals, seeded

__all__ = [
    "MeanPotential",
    "ModelPotential",
    "Potential",
    "Retrain",
    "check_points",
    "describe",
    "marginals",
    "potential",
    "seeded",
]
