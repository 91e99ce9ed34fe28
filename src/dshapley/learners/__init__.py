"""Learners: score the model trained on S, and the models trained on S + z for each z of Z.

`learner(estimator)` chooses by the estimator's type: a family that needs no retraining (one module
each), or `Refit`, which retrains any other estimator. Register a learner of your own with
`@dshapley.learner.register(YourEstimator)`.
"""

from dshapley.learners.fast import Fast
from dshapley.learners.protocol import Learner, Query
from dshapley.learners.refit import Refit
from dshapley.learners.registry import learner

__all__ = ["Fast", "Learner", "Query", "Refit", "learner"]
