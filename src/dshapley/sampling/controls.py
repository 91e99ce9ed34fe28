"""Control variates from the labels of a set S: numbers whose mean and variance are known.

The labels decide much of what a small set does to every point, for example whether the set lacks a
class. The probability of that is known, so an estimate can be corrected for how often it happened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshapley.data.points import Array, Floats, Points
from dshapley.data.targets import are_classes

__all__ = ["LabelControls"]

_RARE = 0.01
"""The least variance of an event or a square that a control is made of; below it, it is 0."""


@dataclass(frozen=True, eq=False)
class LabelControls:
    """Functions of a set's labels, with mean 0 and variance 1 over sets drawn from a database.

    For classes they are, in this order: the excess of the most frequent class, whether each of the
    two most frequent classes is missing, and the squared excess. With more than two classes the
    number of missing classes and the excess of the second class follow. For labels that are
    numbers they are the mean of the set, its square, and the spread of the set. They are in order
    of usefulness, because with few draws only the first are used.
    """

    classes: Array | None
    """The classes, the most frequent first; None if labels are numbers or if there are none."""
    shares: Floats
    """The share of each class in the database."""
    moments: tuple[float, float, float] | None
    """For labels that are numbers: their mean, their variance, and the variance of the squared
    deviation from the mean.
    """

    @classmethod
    def of(cls, database: Points) -> LabelControls:
        """The controls for sets drawn from this database.

        >>> controls = LabelControls.of(Points([[0.0]] * 4, ["a", "a", "a", "b"]))
        >>> controls(np.array(["a", "a"])).round(3).tolist()
        [0.816, -0.258, 0.882, -0.258]
        """
        y = database.y
        if y is None or len(np.unique(y)) < 2:
            return cls(None, np.empty(0), None)
        classes, counts = np.unique(y, return_counts=True)
        squares = np.zeros(1) if are_classes(y) else (y - y.mean()) ** 2
        if squares.var() > 0:  # two different numbers are treated as two classes
            return cls(None, np.empty(0), (float(y.mean()), float(y.var()), float(squares.var())))
        order = np.argsort(-counts, kind="stable")
        return cls(classes[order], counts[order] / len(y), None)

    def __len__(self) -> int:
        if self.moments is not None:
            return 3
        return 0 if self.classes is None else 4 if len(self.classes) == 2 else 6

    def __call__(self, y: Array | None) -> Floats:
        """The controls of a set with these labels; all 0 for the empty set."""
        if y is None or len(self) == 0 or len(y) == 0:
            return np.zeros(len(self))
        return self._of_numbers(y) if self.moments is not None else self._of_classes(y)

    def _of_classes(self, y: Array) -> Floats:
        assert self.classes is not None
        n, p = len(y), self.shares
        counts = np.array([(y == label).sum() for label in self.classes])
        excess = (counts - n * p) / np.sqrt(n * p * (1 - p))
        missing = [_event(counts[c] == 0, (1 - p[c]) ** n) for c in (0, 1)]
        uneven = _square(excess[0], (1 - 6 * p[0] * (1 - p[0])) / (n * p[0] * (1 - p[0])))
        if len(self.classes) == 2:
            return np.array([excess[0], *missing, uneven])
        return np.array([excess[0], *missing, uneven, self._lacking(counts, n), excess[1]])

    def _lacking(self, counts: Array, n: int) -> float:
        """The standardised number of classes that the set lacks."""
        p = self.shares
        q = (1 - p) ** n
        both = np.maximum(1 - p[:, np.newaxis] - p, 0.0) ** n
        np.fill_diagonal(both, q)
        variance = float((both - np.outer(q, q)).sum())
        return float((counts == 0).sum() - q.sum()) / variance**0.5 if variance > _RARE else 0.0

    def _of_numbers(self, y: Array) -> Floats:
        assert self.moments is not None
        mean, variance, of_squares = self.moments
        n, apart = len(y), y - mean
        level = float(apart.sum()) / (n * variance) ** 0.5
        # The excess kurtosis of a mean of n labels is that of one label divided by n.
        uneven = _square(level, (of_squares / variance**2 - 2) / n)
        spread = float((apart**2 - variance).sum()) / (n * of_squares) ** 0.5
        return np.array([level, uneven, spread])


def _event(happened: bool, probability: float) -> float:
    """Whether an event happened, standardised; 0 if the event is nearly impossible or certain."""
    variance = probability * (1 - probability)
    return (happened - probability) / variance**0.5 if variance > _RARE else 0.0


def _square(x: float, excess_kurtosis: float) -> float:
    """The square of a standardised number, itself standardised.

    `excess_kurtosis` is that of the number; with it the variance of the square is known.
    """
    variance = 2 + excess_kurtosis
    return (x**2 - 1) / variance**0.5 if variance > _RARE else 0.0
