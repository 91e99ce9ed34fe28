"""How many labels are wrong, and which: a calibrated reading of out-of-bag probabilities.

An improbable label is wrong, or it is right and unusual. How often it is wrong depends on how many
labels of the table are: where a tenth is wrong, an improbable label nearly always is; where none
is, never. So the share of wrong labels is estimated with the probabilities.

The model has two unknowns. The right label of row x has the probability q_c(x), proportional to
p_c(x)^a, where p_c(x) is the mean out-of-bag probability of class c; a > 1 undoes the doubt that
wrong labels bring to the models, and a < 1 the overconfidence of some. With the probability e the
label is then replaced by another class, each alike. So the given label g has the probability

    (1 - e) q_g + e / (C - 1) (1 - q_g),

and it is wrong with the probability that the second term has of this sum. Rows of which the models
are sure show e: nothing but a wrong label makes many of them disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Floats

__all__ = ["LabelNoise", "label_noise"]

_SHARPNESS = np.geomspace(0.05, 8.0, 41)
_SHARES = 0.5 * np.linspace(0.0, 1.0, 41) ** 2
"""The values of a and e that are weighed. Small shares lie closer together: most tables have
few wrong labels.
"""
_DEPENDENT = 0.5
"""The likelihood counts a row as half a row, because all rows are judged by the same models."""
_FLOOR = 0.02
"""No model knows everything: a fiftieth of every probability is dealt evenly to the classes, so
that a probability of 0 is no proof.
"""
_LEAST = 1e-9
_NOTHING = 1e-6
"""A smaller weight on the grid is left out."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelNoise:
    """The share of labels that are wrong, and the probability that each is.

    Attributes
    ----------
    share, low, high
        The share of wrong labels, and its 95 % interval.
    wrong
        The probability that each label is wrong; NaN where no model was asked.
    """

    share: float
    low: float
    high: float
    wrong: Floats


def label_noise(probabilities: Floats, codes: NDArray[np.int64]) -> LabelNoise:
    """The wrong labels among `codes`, from the mean probability of each class for each row.

    Both unknowns are averaged over their posterior on a grid. Rows with missing probabilities or
    an unknown code (below 0) are left out.

    >>> rng = np.random.default_rng(0)
    >>> right = rng.integers(0, 2, 400)
    >>> sure = rng.uniform(0.7, 0.99, size=(400, 1))
    >>> p = np.where(right[:, None] == [0, 1], sure, 1 - sure)
    >>> codes = np.where(np.arange(400) < 40, 1 - right, right)
    >>> found = label_noise(p, codes)
    >>> round(found.share, 1), found.low < 0.1 < found.high
    (0.1, True)
    >>> bool(found.wrong[:40].min() > 0.5), bool(found.wrong[40:].max() < 0.1)
    (True, True)
    """
    wrong = np.full(len(codes), np.nan)
    known = np.flatnonzero(np.isfinite(probabilities).all(axis=1) & (codes >= 0))
    others = probabilities.shape[1] - 1
    if len(known) == 0 or others < 1:
        return LabelNoise(share=np.nan, low=np.nan, high=np.nan, wrong=wrong)
    right = np.stack([_sharpened(probabilities[known], codes[known], a) for a in _SHARPNESS])
    likelihood = np.stack(
        [np.log(_given(right, e, others)).sum(axis=1) for e in _SHARES.tolist()], axis=1
    )
    weights = np.exp(_DEPENDENT * (likelihood - likelihood.max()))
    weights /= weights.sum()
    found = np.zeros(len(known))
    for i in np.flatnonzero(weights.sum(axis=1) > _NOTHING):
        here = weights[i] > _NOTHING
        e = _SHARES[here][:, np.newaxis]
        wrong_here = e / others * (1 - right[i]) / _given(right[i], e, others)
        found += weights[i, here] @ wrong_here
    wrong[known] = found
    of_shares = weights.sum(axis=0)
    ends = np.searchsorted(of_shares.cumsum(), [0.025, 0.975])
    low, high = _SHARES[ends.clip(max=len(_SHARES) - 1)].tolist()
    return LabelNoise(share=float(of_shares @ _SHARES), low=low, high=high, wrong=wrong)


def _sharpened(probabilities: Floats, codes: NDArray[np.int64], a: float) -> Floats:
    """Q of the given label: p^a over the sum of all classes."""
    n_classes = probabilities.shape[1]
    logs = a * np.log((np.maximum(probabilities, 0.0) + _FLOOR / n_classes) / (1 + _FLOOR))
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(powers[np.arange(len(codes)), codes] / powers.sum(axis=1))


def _given(right: Floats, e: float | Floats, others: int) -> Floats:
    """The probability of the given label."""
    return np.maximum((1 - e) * right + e / others * (1 - right), _LEAST)
