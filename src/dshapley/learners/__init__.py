"""Learners: trained on S, and on S with each z of Z added, what do you predict?

`learner(estimator)` picks by the estimator's type: a family that needs no retraining (one file
each), or refitting, which serves every estimator that no family knows. Register one of your own
with `@dshapley.learner.register(YourEstimator)`.
"""

from dshapley.learners.choice import learner
from dshapley.learners.fast import Fast
from dshapley.learners.protocol import Learner, Query
from dshapley.learners.refit import Refit

__all__ = ["Fast", "Learner", "Query", "Refit", "learner"]
