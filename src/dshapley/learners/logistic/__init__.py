"""Logistic regression without retraining.

`learner` chooses the solver and fits two classes; `softmax` fits more than two. `binary_solver` and
`softmax_solver` move all S + z to their optima together, with the shared loop of `passes`.
`softmax_fit` fits S itself for more than two classes. `long_double` fits single sets for which
double precision is not enough.
"""
