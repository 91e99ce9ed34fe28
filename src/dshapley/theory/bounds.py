"""What the theorems promise: bounds on draws, time and rows, and on how far values can move.

`beta` and `cost` are given for each size k = 1..m: a function of k, an array, or one number for
all sizes. As everywhere, k = |S| + 1, so beta(k) is about sets S + z of k points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import InputError
from dshapley.sampling.sizes import PerSize, as_weights, per_size, uniform
from dshapley.theory.transport import wasserstein

__all__ = [
    "database_size",
    "draws_needed",
    "point_gap",
    "rkhs_stability",
    "running_time",
    "shift_gap",
    "wasserstein",
]

Weights: TypeAlias = str | Sequence[float] | Array


def draws_needed(
    eps: float,
    delta: float,
    n_points: int,
    beta: PerSize,
    weights: Weights,
    *,
    m: int | None = None,
    stratified: bool = False,
) -> int:
    """The number of draws after which all values are within eps, with probability 1 - delta.

    The term of a draw is X = (U(S + z) - U(S)) / (w_k m). It is at most
    c = max over k of beta(k) / (w_k m) in absolute value, and E X^2 is at most v / m^2, where
    v = sum over k of beta(k)^2 / w_k. T is the smallest number that satisfies Bernstein's
    inequality for each point with probability delta / n_points:

        T >= 2 ln(2 n_points / delta) (v / m^2 + c eps / 3) / eps^2

    X need not be centred, because v bounds E X^2 and not only the variance. The paper's theorem
    (appendix, "Running time analysis under stability") has no c: its proof is for a fixed number of
    draws of each size, and `stratified=True` gives its T. With sizes drawn at random, as `Design`
    draws them, a rare size with a large term can break the paper's bound.

    Parameters
    ----------
    eps
        The absolute error. The values of m points add up to about U(B), so choose a part of 1/m.
    delta
        The probability that the error of some value is larger than eps.
    n_points
        The number of points valued.
    beta
        Deletion stability: |U(S + z) - U(S)| <= beta(k) for all S of k - 1 points and all z.
        beta = 1 always holds for U in [0, 1], and gives Theorem 3.1 for uniform weights.
    weights
        Size weights as for `Design`: an array, or a name such as "1/k" together with `m`.
    m
        The data set size; by default the length of `weights`, or of `beta`.
    stratified
        Whether the number of draws of each size is fixed, T_k >= w_k T, instead of random. The
        estimate is then the mean over k of the mean marginal at size k.

    Examples
    --------
    >>> draws_needed(0.01, 0.05, n_points=100, beta=lambda k: 1 / k, weights="1/k", m=100)
    476
    >>> draws_needed(0.01, 0.05, n_points=100, beta=lambda k: 1 / k, weights="uniform", m=100)
    3266
    """
    w = _weights(weights, m, beta)
    terms = per_size(beta, len(w), name="beta") / (w * len(w))
    second_moment = float(w @ terms**2)
    largest = 0.0 if stratified else float(terms.max())
    _check_positive(eps, name="eps", meaning="the error to allow")
    if not 0 < delta < 1:
        raise InputError(f"delta = {delta}: give a probability of failure between 0 and 1")
    log = math.log(2 * _whole(n_points, name="n_points") / delta)
    T = 2 * log * (second_moment / eps + largest / 3) / eps
    if not math.isfinite(T):
        raise InputError(
            f"eps = {eps}: so small an error needs too many draws to count; give a larger eps"
        )
    return max(1, math.ceil(T))


def running_time(
    eps: float,
    delta: float,
    n_points: int,
    beta: PerSize,
    weights: Weights,
    cost: PerSize,
    *,
    m: int | None = None,
    p: float = 1.0,
    stratified: bool = False,
) -> float:
    """The mean running time of a run with these promises: p n_points T sum over k of w_k R(k).

    This is RT_w(m) of the appendix, "Running time analysis under stability", with T from
    `draws_needed` and one evaluation of U for each point of each draw. Use it to compare size
    weights.

    Parameters
    ----------
    eps, delta, n_points, beta, weights, m, stratified
        As for `draws_needed`.
    cost
        R(k), the time to evaluate U on k points; the result is in the same unit. This is the cost
        of retraining: learners that compute all marginals of a draw at once need far less.
    p
        The share of the points that are measured, if the others are predicted.

    Examples
    --------
    >>> plan = dict(eps=0.01, delta=0.05, n_points=100, beta=lambda k: 1 / k, m=100)
    >>> seconds = [running_time(**plan, weights=w, cost=lambda k: 1e-4 * k)
    ...            for w in ("uniform", "1/k")]
    >>> [round(s) for s in seconds]
    [1649, 92]
    """
    if not 0 < p <= 1:
        raise InputError(f"p = {p}: give a share of the points above 0 and at most 1")
    w = _weights(weights, m, beta)
    R = per_size(cost, len(w), name="cost")
    T = draws_needed(eps, delta, n_points, beta, w, stratified=stratified)
    return float(p * n_points * T * (w @ R))


def database_size(
    eps: float,
    delta: float,
    n_points: int,
    beta: PerSize,
    weights: Weights,
    *,
    m: int | None = None,
    stratified: bool = False,
) -> int:
    """The number of rows with which no row is used twice: M = T sum over k of w_k k, rounded up.

    See the appendix, "Finite Sample Approximation to D"; T is from `draws_needed`. With this many
    independent rows of D (on average, because sizes are random) all sets of a run can be drawn
    without using a row twice, and the values are then those of D itself. The number is sufficient
    but not necessary: a smaller database gives the values of its own empirical distribution.

    Parameters
    ----------
    eps, delta, n_points, beta, weights, m, stratified
        As for `draws_needed`.

    Examples
    --------
    >>> database_size(0.01, 0.05, n_points=100, beta=lambda k: 1 / k, weights="1/k", m=100)
    9177
    """
    w = _weights(weights, m, beta)
    T = draws_needed(eps, delta, n_points, beta, w, stratified=stratified)
    return math.ceil(T * float(w @ np.arange(1, len(w) + 1)))


@overload
def point_gap(beta: PerSize, m: int, distance: float) -> float: ...


@overload
def point_gap(beta: PerSize, m: int, distance: Sequence[float] | Array) -> Floats: ...


def point_gap(beta: PerSize, m: int, distance: float | Sequence[float] | Array) -> float | Floats:
    """The largest difference between the values of two points: E_k beta(k) d(z, z').

    This is the theorem "similar points receive similar values" (2.2), for k uniform on 1..m.

    Parameters
    ----------
    beta
        Lipschitz stability: |U(S + z) - U(S + z')| <= beta(k) d(z, z') for all S of k - 1 points.
        For the metric d = 1 between any two points this is replacement stability, at most twice
        the beta of deletion stability.
    m
        The data set size.
    distance
        d(z, z'): a number or an array of numbers. An infinite distance gives an infinite gap.

    Examples
    --------
    >>> point_gap(lambda k: 1 / k, m=4, distance=[0.1, 1.0]).round(4).tolist()
    [0.0521, 0.5208]
    """
    w = uniform(m)
    return _times(float(w @ per_size(beta, len(w), name="beta")), distance)


@overload
def shift_gap(beta: PerSize, m: int, distance: float) -> float: ...


@overload
def shift_gap(beta: PerSize, m: int, distance: Sequence[float] | Array) -> Floats: ...


def shift_gap(beta: PerSize, m: int, distance: float | Sequence[float] | Array) -> float | Floats:
    """The largest change of a value from one distribution to another: 2/m sum k beta(k) W_1.

    The sum is over k = 1..m-1: the theorem "similar distributions yield similar value functions"
    (2.2). U must be the same under both distributions; for example, the test set must not change.

    Parameters
    ----------
    beta
        Lipschitz stability as for `point_gap`. It must not increase with k, as the proof needs.
    m
        The data set size.
    distance
        W_1 between the distributions in the metric of `beta`, for example from `wasserstein`: a
        number or an array of numbers.

    Examples
    --------
    >>> shift_gap(lambda k: 1 / k, m=4, distance=0.5)
    0.75
    """
    w = uniform(m)
    b = per_size(beta, len(w), name="beta")
    if (np.diff(b) > 0).any():
        k = int(np.flatnonzero(np.diff(b) > 0)[0]) + 1
        raise InputError(
            f"beta({k + 1}) = {b[k]:g} is above beta({k}) = {b[k - 1]:g}: the theorem needs a "
            "beta that never increases; take the largest of beta(k), beta(k + 1), ... for each k"
        )
    return _times(2 * float(np.arange(1, len(w)) @ b[:-1]) / len(w), distance)


def rkhs_stability(
    lipschitz: float,
    norm: float,
    penalty: float,
    *,
    max_norm: float = 1.0,
    smoothness: float | None = None,
) -> Callable[[int], float]:
    """The stability of a regularised kernel machine, as a function beta(k) of the size.

    U(S) = 1 - E loss(f(x), y), where f minimises (mean loss over S) + penalty/2 ||f||^2 in a
    reproducing kernel Hilbert space. f = 0 for the empty set, and an intercept, if any, is
    penalised too. With L = `lipschitz`, R = `norm`, K = `max_norm` and s = `smoothness`,

        beta(k) = 2 L^2 R K / (penalty k)                         without smoothness,
        beta(k) = L^2 R (1 + s K^2 / penalty) / (penalty k)       with smoothness.

    The first is deletion and replacement stability, for `draws_needed`, and for `point_gap` and
    `shift_gap` with d = 1 between any two points. The second is Lipschitz stability, for
    `point_gap` and `shift_gap` in the paper's metric: d(z, z') = ||phi(x) - phi(x')|| between
    points with the same label, and infinite between labels.

    The lemma of the paper (appendix "Lipschitz Stability of RKHS") claims 2 L^2 R / (penalty k) in
    this metric for every Lipschitz loss. That is not true: the step "by the Lipschitzness of the
    loss" needs a loss whose slope is Lipschitz too (`docs/theory.md`).

    Parameters
    ----------
    lipschitz
        L: the largest slope of the convex loss as a function of the prediction. 1 for the
        absolute, hinge and logistic loss.
    norm
        R: the mean of ||phi(x)|| over the test distribution, with ||phi(x)||^2 = k(x, x).
    penalty
        The lambda of the objective above, the same for sets of all sizes. A constant C of
        scikit-learn is not: for k rows it means a penalty of 1 / (C k), so beta(k) does not
        fall with k.
    max_norm
        K: the largest ||phi(x)|| of any point. 1 for the RBF, Laplacian and cosine kernels.
    smoothness
        s: the Lipschitz constant of the loss's slope. 1/4 for the logistic loss; the hinge
        and the absolute loss have none.

    Returns
    -------
    Callable
        beta(k), for the other functions of this module.

    Examples
    --------
    >>> beta = rkhs_stability(lipschitz=1, norm=1, penalty=0.5)
    >>> beta(1), beta(10)
    (4.0, 0.4)
    >>> rkhs_stability(lipschitz=1, norm=1, penalty=0.5, smoothness=0.25)(10)
    0.3
    """
    _check_positive(lipschitz, name="lipschitz", meaning="the largest slope of the loss")
    _check_positive(norm, name="norm", meaning="the mean norm of phi(x)")
    _check_positive(penalty, name="penalty", meaning="the strength of the regularisation")
    if not norm <= max_norm < math.inf:
        raise InputError(
            f"max_norm = {max_norm} cannot be the largest norm of phi(x) if the mean is norm = "
            f"{norm}: give the square root of the largest k(x, x) as max_norm"
        )
    if smoothness is None:
        top = 2 * lipschitz**2 * norm * max_norm / penalty
    else:
        if not 0 <= smoothness < math.inf:
            raise InputError(
                f"smoothness = {smoothness}: give how fast the slope of the loss can change, a "
                "number of at least 0; leave it out for a loss with kinks"
            )
        top = lipschitz**2 * norm * (1 + smoothness * max_norm**2 / penalty) / penalty
    return lambda k: top / k


def _weights(weights: Weights, m: int | None, beta: PerSize) -> Floats:
    if m is None and isinstance(weights, str):
        if callable(beta) or np.ndim(beta) == 0:
            raise InputError(f"weights {weights!r} do not tell the data set size: give m too")
        m = np.size(beta)
    return as_weights(weights, np.size(weights) if m is None else m)


def _times(factor: float, distance: float | Sequence[float] | Array) -> float | Floats:
    d = np.asarray(distance, dtype=np.float64)
    if not (d >= 0).all():
        raise InputError(
            f"distance: {d[~(d >= 0)].flat[0]} is not a distance: give a number of at least 0"
        )
    infinite = np.isinf(d)
    gap = np.where(infinite, np.inf, factor * np.where(infinite, 0.0, d))
    return float(gap) if gap.ndim == 0 else gap


def _check_positive(number: float, *, name: str, meaning: str) -> None:
    if not 0 < number < math.inf:
        raise InputError(f"{name} = {number}: give {meaning}, a number above 0")


def _whole(number: Any, *, name: str) -> int:
    if not 1 <= number < math.inf or int(number) != number:
        raise InputError(f"{name} = {number}: give a whole number of at least 1")
    return int(number)
