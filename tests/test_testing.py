"""A contract is worth as much as what it refuses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import dshapley as ds
from conftest import labelled
from dshapley.learners import Refit
from dshapley.potentials.testing import check_learner, check_potential

POINTS = labelled(12)


@pytest.mark.parametrize(
    "U",
    [
        ds.potential(GaussianNB(), test=labelled(20, seed=1)),
        pytest.param(
            ds.potential(RandomForestClassifier(3), test=labelled(20, seed=1), metric="brier"),
            marks=pytest.mark.slow,
        ),
        ds.potential(KNeighborsClassifier(), test=labelled(20, seed=1), metric="roc_auc"),
        ds.MeanPotential(POINTS),
        lambda S: float(np.tanh(S.X).sum()),
    ],
    ids=["naive Bayes", "forest", "neighbours", "mean", "function"],
)
def test_good_potentials_pass(U):
    check_potential(U, POINTS)


class Marginals:
    """U(S) = |S|, with marginals of one's own."""

    def __init__(self, gains):
        self.gains = gains

    def __call__(self, S):
        return float(len(S))

    def marginals(self, S, Z):
        return self.gains(S, Z)


def changes_its_mind():
    calls = iter(range(10**6))
    return lambda S: float(next(calls))


def writes(S):
    if len(S):
        S.y[0] = 9
    return 0.0


@pytest.mark.parametrize(
    ("U", "says"),
    [
        (lambda S: float(S.X.mean(axis=0).sum()) if len(S) > 1 else np.nan, "the empty set is nan"),
        (lambda S: 1.0 / len(S), "the empty set failed: ZeroDivisionError"),
        (lambda S: 1.0 / (len(set(S.y.tolist())) - 1), "failed: ZeroDivisionError"),
        (changes_its_mind(), "when asked again"),
        (Marginals(lambda S, Z: np.ones(len(Z)) * 1.01), "marginals of points at the empty set"),
        (Marginals(lambda S, Z: np.ones(len(Z))), "marginals of bundles at the empty set"),
        (Marginals(lambda S, Z: np.ones(2)), "numbers, not"),
        (writes, "it must leave S as it is"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_broken_potentials_are_caught(U, says):
    with pytest.raises(AssertionError, match=says):
        check_potential(U, labelled(12))


def test_an_estimator_without_a_learner_has_nothing_to_compare():
    with pytest.raises(ds.InputError, match="SVC is refitted: no learner is"):
        check_learner(SVC())
    with pytest.raises(ds.InputError, match="LogisticRegression is refitted"):
        check_learner(LogisticRegression(solver="liblinear"))


class Centre(GaussianNB):
    """An estimator of one's own type, so that a learner can be registered for it."""


@dataclass(frozen=True)
class Bent:
    """Refitting, bent in one place."""

    refit: Refit
    where: Any

    def scores(self, S, Z, query, seed):
        scores = self.refit.scores(S, Z, query, seed)
        return scores + [0.01 * self.where(S, Z, i) for i in range(len(scores))]

    def describe(self):
        return self.refit.describe()

    def accepts_nan(self):
        return False

    def work(self, k):
        return k


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (lambda S, Z, i: False, None),
        (lambda S, Z, i: len(S) > 10 and i == 3, "at index 3"),
        (lambda S, Z, i: S.X.shape[1] == 40 and i > 0, "high-dimensional data"),
        (lambda S, Z, i: S.X.dtype == np.float32, "float32 data"),
    ],
)
def test_learners_are_compared_with_their_refit(where, says):
    ds.learner.register(Centre, lambda estimator: Bent(Refit(estimator), where))
    if says is None:
        check_learner(Centre(), metrics=["accuracy", "brier"], tolerance=1e-6)
    else:
        with pytest.raises(AssertionError, match=says):
            check_learner(Centre(), metrics=["accuracy"])


class Slope(Ridge):
    """The same for numbers."""


def test_learners_of_numbers_are_compared_too():
    ds.learner.register(Slope, lambda model: Bent(Refit(model), lambda S, Z, i: False))
    check_learner(Slope(), tolerance=1e-6)  # refits float32 as float32
    ds.learner.register(Slope, lambda model: Bent(Refit(model), lambda S, Z, i: i == 2))
    with pytest.raises(AssertionError, match=r"random data: the r2 .* at index 2"):
        check_learner(Slope(), tolerance=1e-6)  # refits float32 as float32
