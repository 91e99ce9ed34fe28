"""What S, and S + z, know of their classes: counts, priors, means."""

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
    """(r, c, q) x @ A for (r, c, p) x, as one product and not r small ones."""
    r, c, p = x.shape
    return (x.reshape(r * c, p) @ A).reshape(r, c, A.shape[1])


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of S, of which it may lack one, and the prior that was given for them."""

    S: Sample
    n_classes: int
    prior: Floats | None = None
    """(c,) where it is given; None where it is the share of rows."""

    @cached_property
    def n(self) -> Floats:
        """(c,) rows of each class."""
        return np.bincount(self.S.y, minlength=self.n_classes).astype(np.float64)

    def sums(self, X: Floats) -> Floats:
        """(c, d) of the rows of X, one for each row of S."""
        return np.stack([X[self.S.y == c].sum(axis=0) for c in range(self.n_classes)])

    @cached_property
    def _sums(self) -> Floats:
        return self.sums(self.S.X)

    @cached_property
    def means(self) -> Floats:
        """(c, d) zeros for a class that S lacks."""
        means: Floats = self._sums / np.maximum(self.n, 1.0)[:, None]
        return means

    @cached_property
    def within(self) -> Floats:
        """The rows of S, each from the mean of its class."""
        return self.S.X - self.means[self.S.y]

    def priors(self) -> Floats:
        """(1, c) of S."""
        shares = self.n / self.n.sum() if self.prior is None else self.prior
        return shares[np.newaxis]

    def priors_with_each(self, y: Array) -> Floats:
        """(r, c) with a row of class y_z added."""
        if self.prior is not None:
            return np.tile(self.prior, (len(y), 1))
        n = np.tile(self.n, (len(y), 1))
        n[np.arange(len(y)), y] += 1.0
        return n / (self.n.sum() + 1.0)

    def means_with_each(self, means: Floats, v: Floats, y: Array) -> Floats:
        """(r, c, p) the means, in any coordinates, with a row v away from that of its class y."""
        moved = np.broadcast_to(means, (len(y), *means.shape)).copy()
        moved[np.arange(len(y)), y] += v / (self.n[y] + 1.0)[:, None]
        return moved

    def unmoved(self, X: Floats, y: Array) -> Array:
        """(r, d) where z is what all rows of its class are, to the last bit of their mean.

        There scikit-learn's variances are zero and not what rounding left of them.
        """
        same = (self.means[y] == X) | (self.n[y] == 0.0)[:, None]
        return same & ((self._sums[y] + X) / (self.n[y] + 1.0)[:, None] == X)


def check_class_weight(class_weight: Any) -> None:
    """Refuse weights that leave rows out."""
    if isinstance(class_weight, dict) and min(class_weight.values(), default=1.0) <= 0.0:
        raise UnsupportedError("class_weight without weight leaves rows out")


def class_weights(class_weight: Any, counts: Array, labels: Array) -> Floats:
    """The weight of each class by scikit-learn's rule, for a set with these counts.

    With class weights by name, a set that lacks one of the names and has a class without one is an
    error to scikit-learn.
    """
    if class_weight is None:
        return np.ones(len(counts))
    if class_weight == "balanced":
        return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)))
    weighted = [label for label in labels.tolist() if label in class_weight]
    if len(weighted) < min(len(labels), len(class_weight)):
        raise FitError("class_weight names classes that a set lacks, and not all that it has")
    return np.array([float(class_weight.get(label, 1.0)) for label in labels.tolist()])


def given_priors(estimator: Any, asked: Asked) -> tuple[bool, Floats | None]:
    """Whether the parameters fit the classes, and the priors, if they are given."""
    c, d = asked.n_classes, asked.X.shape[1]
    fits = estimator.n_components is None or estimator.n_components <= min(c - 1, d)
    if estimator.priors is None:
        return fits, None
    priors = np.asarray(estimator.priors, dtype=np.float64)
    if len(priors) != c or priors.min() < 0.0:
        return False, None
    off = abs(priors.sum() - 1.0) > 1e-5
    return fits, priors / priors.sum() if off else priors
