"""Nearest neighbours, without retraining."""
