"""Potentials U(S), the worth of a set of points, and marginals U(S + z) - U(S).

- `protocol`: what a potential must provide; any function of a set of points is one.
- `model`: the potential of a model that is trained on S and scored on a test set.
- `together`: several potentials that differ by their metric, whose models are trained once.
- `mean`: the paper's mean estimation.
- `preprocessing`: the first steps of a pipeline, fitted once.
- `testing`: checks for potentials and learners that you write yourself.
- `checks`: input errors that are raised before the first draw.
"""

from dshapley.potentials.mean import MeanPotential
from dshapley.potentials.model import ModelPotential, Retrain, potential, potentials
from dshapley.potentials.protocol import Potential, check_points, describe, marginals, seeded
from dshapley.potentials.together import marginals_of_each, values_of_each

__all__ = [
    "MeanPotential",
    "ModelPotential",
    "Potential",
    "Retrain",
    "check_points",
    "describe",
    "marginals",
    "marginals_of_each",
    "potential",
    "potentials",
    "seeded",
    "values_of_each",
]
