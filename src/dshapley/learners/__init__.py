"""Learners: trained on S, and on S with each z of Z added, what do you predict?

`learner(estimator)` picks by the estimator's type: a family that needs no retraining (one file
each), or refitting, which serves every estimator that no family knows. Register one of your own
with `@dshapley.learner.register(YourEstimator)`.
"""

from dshapley.learners.fast import Fast
from dshapley.learners.protocol import Learner, Query
from dshapley.learners.refit import Refit
from dshapley.learners.registry import learner

__all__ = ["Fast", "Learner", "Query", "Refit", "learner"]
