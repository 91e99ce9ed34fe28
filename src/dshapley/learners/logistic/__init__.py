"""Logistic regression, without retraining.

`learner` is the door, `softmax` for more than two classes. `binary_solver`, `softmax_fit` and
`softmax_solver` take all S + z to the optimum at once, with `passes` in common, and `long_double`
does where double is not enough.
"""
