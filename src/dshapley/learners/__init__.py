"""Learners: trained on S, and on S with each z of Z added, what do you predict?

One file a family. `learner(estimator)` picks by the estimator's type; refitting serves every
estimator that no other learner knows. Register one of your own with
`@dshapley.learner.register(YourEstimator)`.
"""

from dshapley.learners.protocol import Learner, Query, learner
from dshapley.learners.refit import Refit

__all__ = ["Learner", "Query", "Refit", "learner"]
