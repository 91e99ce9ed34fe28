"""Logistic regression, without retraining.

`binary` and `softmax` (more than two classes) are the learners. `binary_solver`, `softmax_fit` and
`softmax_solver` take all S + z to the optimum at once, with `passes` in common, and `long_double`
does where double is not enough.
"""
