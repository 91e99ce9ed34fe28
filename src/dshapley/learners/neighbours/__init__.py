"""Nearest neighbours without retraining: `nearest` has the learner, `distances` its metrics."""
