"""Logistic regression with weak penalties and badly scaled columns: the true optimum, always.

The truth here is Newton's method in long double, written for these tests alone: columns centred
and scaled, Gaussian elimination with pivoting, a line search on the slope.
"""

import numpy as np
import pytest
import threadpoolctl
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from dshapley.errors import FitError
from dshapley.learners.fast import UncertainError
from dshapley.learners.logistic import learner as logistic
from dshapley.learners.logistic import long_double as precise
from dshapley.learners.logistic import passes, softmax

pytestmark = pytest.mark.slow

LONG = np.longdouble
CLOSE = 2e-8
"""Decision values are certified to 1e-8, and the brier score changes by less than they do; U(S + z)
and U(S) may each be off by that. What is seen is 1e-11 or less."""


@pytest.fixture(autouse=True)
def one_thread():
    with threadpoolctl.threadpool_limits(1):
        yield


# --- the truth


def eliminated(H, g):
    """H^-1 g, in long double."""
    A = np.column_stack([H, g])
    n = len(g)
    for i in range(n):
        pivot = i + int(np.abs(A[i:, i]).argmax())
        A[[i, pivot]] = A[[pivot, i]]
        A[i + 1 :] -= np.outer(A[i + 1 :, i] / A[i, i], A[i])
    x = np.zeros(n, LONG)
    for i in range(n - 1, -1, -1):
        x[i] = (A[i, -1] - A[i, i + 1 : -1] @ x[i + 1 :]) / A[i, i]
    return x


def probabilities(F):
    E = np.exp(F - F.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def truth(X, y, C, test):
    """(n, c) the decision values of the test rows at the optimum, with an intercept.

    Two classes are a softmax with twice the penalty: w = w1 - w0 costs w^2 / 2.
    """
    c = int(y.max()) + 1
    X = np.asarray(X, LONG)
    mean = X.mean(axis=0)
    scale = np.abs(X - mean).max(axis=0)
    scale[scale == 0.0] = 1.0
    rows = np.column_stack([(X - mean) / scale, np.ones(len(X), LONG)])
    penalty = np.append((2.0 if c == 2 else 1.0) / scale**2, LONG(0.0))
    p = rows.shape[1]
    own = np.eye(c, dtype=bool)[y]

    def misses(F):
        P = probabilities(F)
        rest = np.where(own, 0.0, P)
        return P, np.where(own, -rest.sum(axis=1, keepdims=True), P)

    W = np.zeros((c, p), LONG)
    for _ in range(300):
        P, missed = misses(rows @ W.T)
        g = penalty * W + C * missed.T @ rows
        H = np.zeros((c, p, c, p), LONG)
        for a in range(c):
            for b in range(c):
                bend = P[:, a] * (np.delete(P, a, 1).sum(axis=1) if a == b else -P[:, b])
                H[a, :, b] = rows.T @ (C * bend[:, np.newaxis] * rows)
        # The classes' weights sum to 0 all the way: held there, so that H is well conditioned.
        for j in range(p):
            H[:, j, :, j] += np.trace(H[:, j, :, j]) / c**2
        H = H.reshape(c * p, c * p) + np.diag(np.tile(penalty, c))
        step = eliminated(H, g.ravel()).reshape(c, p)
        first, t = (g * step).sum(), LONG(1.0)
        for _ in range(60):  # back to where the loss has not begun to rise steeply
            ahead = W - t * step
            slope = (step * (penalty * ahead + C * misses(rows @ ahead.T)[1].T @ rows)).sum()
            if slope >= -0.5 * first:
                break
            t /= 2.0
        W = W - t * step
        if np.abs(rows @ step.T).max() < 1e-10:
            break
    else:
        raise AssertionError("the truth was not found")
    return ((np.asarray(test, LONG) - mean) / scale) @ W[:, :-1].T + W[:, -1]


def score(metric, F, y):
    if metric == "accuracy":
        return float((F.argmax(axis=1) == y).mean())
    P = probabilities(F).astype(np.float64)
    return 1.0 - 0.5 * float(((P - np.eye(P.shape[1])[y]) ** 2).sum(axis=1).mean())


def check(X, y, *, k, C=1.0, sets=5, n_points=4):
    """U(S) and U(S + z) are true, and U(S) + marginal is U(S + z)."""
    rng = np.random.default_rng(0)
    test = (X[len(X) // 2 :], y[len(X) // 2 :])
    compared = 0
    while compared < sets:
        i, j = rng.choice(len(X), k), rng.choice(len(X), n_points)
        if len(np.unique(y[i])) < len(np.unique(y)):
            continue
        compared += 1
        S, Z = ds.Points(X[i], y[i]), ds.Points(X[j], y[j])
        with_z = [truth((S + z).X, (S + z).y, C, test[0]) for z in Z]
        for metric, tolerance in (("accuracy", 0.0), ("brier", CLOSE)):
            U = ds.potential(LogisticRegression(C=C), test=test, metric=metric, retrain="never")
            worth, gains = U(S), ds.marginals(U, S, Z)
            assert abs(worth - score(metric, truth(X[i], y[i], C, test[0]), test[1])) <= tolerance
            expected = [score(metric, F, test[1]) for F in with_z]
            found = [U(S + z) for z in Z]
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance)
            atol = tolerance + 1e-15  # worth + gain is rounded
            np.testing.assert_allclose(worth + gains, expected, rtol=0.0, atol=atol)


def noisy(n, scale=1.0, *, d=5, classes=2, seed=0):
    """Normal columns of these sizes; labels by the first two, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    cuts = [0.0] if classes == 2 else [-0.7, 0.7]
    y = np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=n), cuts)
    return X * scale, y


# --- what was wrong


@pytest.mark.parametrize("k", [5, 20])
@pytest.mark.parametrize("C", [1e6, 1e8])
def test_a_weak_penalty_three_classes(C, k):
    """Sets of 5 are separable: the optimum is far out. Sets of 20 mostly are too, some are not."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    check(X[order], y[order], C=C, k=k)


@pytest.mark.parametrize("k", [6, 20, 60])
@pytest.mark.parametrize("C", [1e6, 1e8])
def test_a_weak_penalty_two_classes(C, k):
    check(*noisy(80), C=C, k=k)


@pytest.mark.parametrize("k", [6, 20])
@pytest.mark.parametrize("scale", [1e6, 1e8])
def test_wide_columns(scale, k):
    """C * scale^2 of 1e12 and 1e16: with the default C, the whole loss is tiny."""
    check(*noisy(80, scale), k=k, sets=8)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("shift", [1e6, 1.7e9])
def test_columns_far_from_zero(shift, classes):
    X, y = noisy(120, d=3, classes=classes)
    check(X + shift, y, k=6)
    check(X + shift, y, k=30)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("k", [6, 20])
def test_columns_of_very_different_sizes(k, classes):
    check(*noisy(80, [1e3, 1.0, 1e-3, 1e6], d=4, classes=classes), k=k)


# --- fits in long double are those of the fast path


def uncertain(*arguments):
    raise UncertainError("not certain, for the test")


@pytest.mark.parametrize(
    "parameters",
    [{}, {"fit_intercept": False}, {"class_weight": "balanced", "C": 10.0}],
    ids=str,
)
@pytest.mark.parametrize("d", [3, 300])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("lacking", [None, 1])
def test_fits_in_long_double_are_those_of_the_fast_path(
    classes, d, parameters, lacking, monkeypatch
):
    """300 columns are more than there are rows: they are reduced to the space of the rows."""
    (X, y), (T, u) = noisy(40, d=d, classes=classes), noisy(50, d=d, classes=classes, seed=1)
    S = ds.Points(X[:30], y[:30])
    S = S if lacking is None else S.take(S.y != lacking)
    Z = ds.Points(X[30:], y[30:])
    Z = Z.take(Z.y == 1) if lacking else Z
    for metric in ("accuracy", "roc_auc", "brier"):
        U = ds.potential(
            LogisticRegression(**parameters), test=(T, u), metric=metric, retrain="never"
        )
        expected = U.marginals(S, Z)
        assert metric != "brier" or np.abs(expected).max() > 0.0
        with monkeypatch.context() as patch:
            patch.setattr(logistic, "_base", uncertain)
            patch.setattr(softmax.Softmax, "fitted", uncertain)
            np.testing.assert_allclose(U.marginals(S, Z), expected, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("classes", [2, 3])
def test_ordinary_sets_need_no_long_double(classes, monkeypatch):
    """Which costs a hundred times as much."""
    monkeypatch.setattr(precise, "_fit", uncertain)
    X, y = noisy(300, d=10, classes=classes)
    for k in (5, 50, 200):
        S = ds.Points(X[:k], y[:k])
        for metric in ("accuracy", "brier"):
            U = ds.potential(LogisticRegression(), test=(X[200:], y[200:]), metric=metric)
            assert np.isfinite(U.marginals(S, ds.Points(X[200:], y[200:]))).all()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_steps_that_are_not_sure_are_fitted_alone(classes, metric, monkeypatch):
    X, y = noisy(100, classes=classes)
    S, Z = ds.Points(X[:30], y[:30]), ds.Points(X[30:38], y[30:38])
    test = (X[50:], y[50:])
    U = ds.potential(LogisticRegression(C=100.0), test=test, metric=metric, retrain="never")
    alone = [U(S + z) - U(S) for z in Z]
    monkeypatch.setattr(passes, "_PASSES", 0)
    np.testing.assert_allclose(U.marginals(S, Z), alone, rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_optimum_that_is_not_certain_is_an_error_and_not_refitted(classes, monkeypatch):
    X, y = noisy(80, 1e6, classes=classes)
    monkeypatch.setattr(precise, "SURE", 0.0)
    U = ds.potential(LogisticRegression(C=1e4), test=(X[40:], y[40:]), retrain="never")
    S, Z = ds.Points(X[:8], y[:8]), ds.Points(X[8:10], y[8:10])
    assert len(np.unique(S.y)) == classes
    for ask in (lambda: U(S), lambda: U.marginals(S, Z)):
        with pytest.raises(FitError, match=r"8 rows: the optimum cannot be found .* a smaller C"):
            ask()
