"""Statistics of the classes of S, and of S + z: counts, priors, means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import FitError
from dshapley.learners.fast import Asked, Sample, UnsupportedError

__all__ = ["Classes", "times"]


def times(x: Floats, A: Floats) -> Floats:
    """The product x @ A for x (r, c, p), as one matrix product instead of r small ones."""
    r, c, p = x.shape
    return (x.reshape(r * c, p) @ A).reshape(r, c, A.shape[1])


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of S and the priors that the user gave. S may lack at most one of the classes."""

    S: Sample
    n_classes: int
    prior: Floats | None = None
    """(c,) the priors given by the user; None if the priors are the class frequencies."""

    @cached_property
    def n(self) -> Floats:
        """(c,) the number of rows of each class."""
        return np.bincount(self.S.y, minlength=self.n_classes).astype(np.float64)

    def sums(self, X: Floats) -> Floats:
        """(c, d) the sum over each class of the rows of X, which has one row for each row of S."""
        return np.stack([X[self.S.y == c].sum(axis=0) for c in range(self.n_classes)])

    @cached_property
    def _sums(self) -> Floats:
        return self.sums(self.S.X)

    @cached_property
    def means(self) -> Floats:
        """(c, d) the mean of each class; zeros for a class that S lacks."""
        means: Floats = self._sums / np.maximum(self.n, 1.0)[:, None]
        return means

    @cached_property
    def within(self) -> Floats:
        """The rows of S minus the means of their classes."""
        return self.S.X - self.means[self.S.y]

    def priors(self) -> Floats:
        """(1, c) the priors of the classes for S."""
        shares = self.n / self.n.sum() if self.prior is None else self.prior
        return shares[np.newaxis]

    def priors_with_each(self, y: Array) -> Floats:
        """(r, c) the priors after one row of class y[z] is added to S, for each z."""
        if self.prior is not None:
            return np.tile(self.prior, (len(y), 1))
        n = np.tile(self.n, (len(y), 1))
        n[np.arange(len(y)), y] += 1.0
        return n / (self.n.sum() + 1.0)

    def means_with_each(self, means: Floats, v: Floats, y: Array) -> Floats:
        """(r, c, p) the class means after one row is added, in any linear coordinates.

        The row is the mean of its class y plus v.
        """
        moved = np.broadcast_to(means, (len(y), *means.shape)).copy()
        moved[np.arange(len(y)), y] += v / (self.n[y] + 1.0)[:, None]
        return moved

    def unmoved(self, X: Floats, y: Array) -> Array:
        """(r, d) whether each feature of z equals that of all rows of its class, in floating point.

        The check includes that adding z leaves the computed mean the same. Only then are
        scikit-learn's variances exactly zero, and not a remainder of rounding.
        """
        same = (self.means[y] == X) | (self.n[y] == 0.0)[:, None]
        return same & ((self._sums[y] + X) / (self.n[y] + 1.0)[:, None] == X)


def check_class_weight(class_weight: Any) -> None:
    """Raise an UnsupportedError for a class weight that is not positive."""
    if isinstance(class_weight, dict) and min(class_weight.values(), default=1.0) <= 0.0:
        raise UnsupportedError("a class_weight that is not positive has no fast path")


def class_weights(class_weight: Any, counts: Array, labels: Array) -> Floats:
    """The weight of each class, by scikit-learn's rule, for a set with these counts.

    Like scikit-learn, raise an error if a dict of weights names a class that the set lacks while
    the set has a class that the dict does not name.
    """
    if class_weight is None:
        return np.ones(len(counts))
    if class_weight == "balanced":
        return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)))
    weighted = [label for label in labels.tolist() if label in class_weight]
    if len(weighted) < min(len(labels), len(class_weight)):
        raise FitError("class_weight names classes that a set lacks and omits classes that it has")
    return np.array([float(class_weight.get(label, 1.0)) for label in labels.tolist()])


def given_priors(estimator: Any, asked: Asked) -> tuple[bool, Floats | None]:
    """Whether the parameters are valid for these classes, and the priors, if the user gave them."""
    c, d = asked.n_classes, asked.X.shape[1]
    fits = estimator.n_components is None or estimator.n_components <= min(c - 1, d)
    if estimator.priors is None:
        return fits, None
    priors = np.asarray(estimator.priors, dtype=np.float64)
    if len(priors) != c or priors.min() < 0.0:
        return False, None
    off = abs(priors.sum() - 1.0) > 1e-5
    return fits, priors / priors.sum() if off else priors
