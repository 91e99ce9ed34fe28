"""What some twenty calls compute, for good: a change of structure must not change a number.

`tests/pinned.json` was written before the packages were laid out. The tolerance allows for the last
bits, in which machines and versions of numpy differ. After a change that is meant to change
numbers, `python tests/test_pinned.py` writes the file anew; say why in the commit.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import dshapley as ds

pytestmark = pytest.mark.slow

FILE = Path(__file__).with_name("pinned.json")


def labelled(n, d=3, *, seed=0, classes=2):
    """As in conftest, which cannot be imported where this file is run by itself."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)
    return ds.Points(X, np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1]))


DATABASE, TEST, OFFERED = labelled(60), labelled(25, seed=1), labelled(8, seed=2)
THREE, THREE_TEST = labelled(60, classes=3), labelled(25, seed=1, classes=3)
GROUPS = np.arange(60) // 4


def numbers():
    """A regression problem."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=60)
    return ds.Points(X[:40], y[:40]), ds.Points(X[40:], y[40:])


def both(valuation):
    """Values and their errors."""
    return [*valuation.values, *valuation.stderr]


def by_value(model, database=DATABASE, **options):
    return both(ds.value(database, model=model, **{"m": 12, "stop": 60, "seed": 3} | options))


def logistic():
    return LogisticRegression(max_iter=1000)


def a_run(seed=7):
    U = ds.potential(logistic(), test=TEST)
    design = ds.Design(DATABASE, 20, weights="1/k", seed=seed)
    return U, ds.run(U, design, OFFERED, stop=40)


def sale():
    """Prices of eight points, and what a buyer finds."""
    from dshapley.market import check, price_list

    U, draws = a_run()
    prices = price_list(ds.estimate(draws, points=OFFERED), rate=100.0)
    found = check(prices, labelled(15, seed=5), OFFERED, U=U, draws=20, seed=1)
    frame = prices.frame
    return [*frame.select_dtypes("number").to_numpy().ravel(), *found.frame["own"]]


def predicted():
    found = ds.value(DATABASE, model=logistic(), m=12, stop=80, seed=3)
    return [*found.predict(OFFERED).values, *found.predict(OFFERED).stderr]


def smaller():
    _, draws = a_run()
    return both(ds.estimate(draws, m=5))


def mean():
    U = ds.MeanPotential(DATABASE)
    return both(ds.estimate(ds.run(U, ds.Design(DATABASE, 9, seed=1), OFFERED, stop=50)))


def fixed_set(way, **options):
    U = ds.potential(logistic(), test=TEST)
    return getattr(ds.data_shapley, way)(U, OFFERED, **options).values


CALLS = {
    "logistic, default": lambda: by_value(logistic()),
    "logistic, test rows, brier": lambda: by_value(logistic(), test=TEST, metric="brier"),
    "logistic, three classes, 1/k": lambda: by_value(
        logistic(), THREE, test=THREE_TEST, sampling="1/k"
    ),
    "ridge, regression, uniform": lambda: by_value(
        Ridge(), numbers()[0], test=numbers()[1], sampling="uniform"
    ),
    "neighbours, default": lambda: by_value(KNeighborsClassifier(3), m=15),
    "naive Bayes, bundles": lambda: by_value(GaussianNB(), groups=GROUPS),
    "discriminant, share of the rows as test": lambda: by_value(
        LinearDiscriminantAnalysis(), test=0.25, fitting=ds.Fitting(min_rows=4), metric="log_score"
    ),
    "tree, points": lambda: by_value(DecisionTreeClassifier(), test=TEST, points=OFFERED),
    "support vectors, refitted": lambda: by_value(SVC(), test=TEST, points=OFFERED, stop=20),
    "some measured": lambda: by_value(
        logistic(), labelled(120), sampling=ds.Sampling(share=0.4), stop=80
    ),
    "predicted": predicted,
    "smaller data sets": smaller,
    "mean": mean,
    "exact nearest neighbours": lambda: (
        ds.knn_values(DATABASE, test=TEST, n_neighbors=3, m=15).values
    ),
    "data Shapley, exact": lambda: fixed_set("exact"),
    "data Shapley, truncated permutations": lambda: fixed_set("tmc", permutations=15, seed=2),
    "data Shapley, subsets": lambda: fixed_set("sampled", draws=40, seed=2),
    "leave one out": lambda: fixed_set("leave_one_out"),
    "sale": sale,
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_stay_what_they_are(name):
    kept = json.loads(FILE.read_text())[name]
    np.testing.assert_allclose(np.array(CALLS[name](), dtype=float), kept, rtol=1e-6, atol=1e-9)


if __name__ == "__main__":
    found = {name: np.array(call(), dtype=float).tolist() for name, call in CALLS.items()}
    out = Path(sys.argv[1]) if sys.argv[1:] else FILE
    out.write_text(json.dumps(found, indent=0) + "\n")
