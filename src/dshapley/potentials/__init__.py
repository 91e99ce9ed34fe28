"""What a set of points is worth: U(S), and U(S + z) - U(S).

`protocol` (any function is a potential), `model` (a model trained and scored), `mean` (the paper's
mean estimation), `preprocessing` (the first steps of a pipeline), `testing` (the contract for
potentials and learners of your own), `checks` (errors before the first draw).
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
