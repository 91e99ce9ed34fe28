"""Predict the values of points that were not measured: the regression of Algorithm 2.

A regression is fitted to the measured values and chosen by cross-validation. The error of a
prediction is estimated from held-out points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Bundles, Floats, Points, as_points
from dshapley.errors import InputError
from dshapley.inference.regression import (
    OF_A_CLASS,
    SMALL,
    VALUE_MODELS,
    Codes,
    Features,
    Model,
    candidates,
    folds_of,
    held_out,
    nearest,
    numbers,
)
from dshapley.notebooks import NotebookDisplay

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "VALUE_MODELS",
    "Interpolation",
    "Prediction",
    "chosen_to_measure",
    "fit",
    "shrunk",
]

_LEAST = 10  # the fewest points that a model is fitted to
_NOISES = 32  # the most simulated errors
_REFITS = 8  # the most simulated errors for a model that is trained again for each of them


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction(NotebookDisplay):
    """Predicted values, with the standard error of each.

    Attributes
    ----------
    values, stderr, ids
        One entry for each point.
    inherited
        The share of the error's variance that comes from noise in the measured values; the rest is
        misfit.
    covariance
        The covariance of the error with the error of the point's own measured value; 0 for points
        that were not measured.
    shape
        The sorted absolute held-out residuals, each divided by its standard error.
    """

    values: Floats
    stderr: Floats
    ids: Array
    inherited: Floats = field(repr=False)
    covariance: Floats = field(repr=False)
    shape: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of each point's confidence interval for its true value.

        The error is the sum of a misfit and of normal noise. The misfit has the quantiles of the
        held-out residuals, as in conformal prediction, with its correction for a finite number.
        """
        if not 0 < confidence < 1:
            raise InputError("a confidence lies between 0 and 1, such as 0.95")
        shares = np.linspace(0, 1, 21)
        table = [_quantile(self.shape, share, confidence) for share in shares]
        half = np.interp(self.inherited, shares, table) * self.stderr
        return self.values - half, self.values + half

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """A data frame indexed by id: value, stderr, and the ends of the interval."""
        import pandas as pd

        low, high = self.interval(confidence)
        columns = {"value": self.values, "stderr": self.stderr, "low": low, "high": high}
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


@dataclass(frozen=True, eq=False, kw_only=True)
class Interpolation:
    """A model h that predicts the value of any point z. Made by `fit`.

    Attributes
    ----------
    name
        The candidate with the smallest held-out error.
    scores
        For each candidate, the weighted root mean square of value minus held-out prediction.
    r2
        1 - sum w r^2 / sum w (v - mean v)^2, where v are the noisy values, r = v - held-out
        prediction, and w the weights of `fit`, which also weight the means.
    r2_true
        An estimate of the same quantity for the true values,

            1 - sum w (r^2 - D + I) / sum w ((v - mean v)^2 - N).

        Over simulated errors e of v, which move the held-out predictions by L e, D is the mean of
        (e - L e)^2, I of (L e)^2 and N of (e - mean e)^2. For independent errors -D + I is -e^2; an
        error that all points share cancels in r but not here. At most 1; NaN if the values differ
        no more than noise alone would make them.
    rank_correlation
        The rank correlation (Spearman) of noisy values and held-out predictions.
    n_points
        The number of points that h was fitted to.
    held_out
        The predictions for these points, each by a model that was not fitted to the point.
    """

    name: str
    scores: Mapping[str, float] = field(repr=False)
    r2: float
    r2_true: float
    rank_correlation: float
    n_points: int
    held_out: Prediction = field(repr=False)
    features: Features = field(repr=False)
    model: Model = field(repr=False)
    misfit: _Misfit = field(repr=False)

    def predict(self, points: Points | tuple[Any, Any]) -> Prediction:
        """The predicted value of each point with its standard error.

        For the fitted points, use `held_out`. A label that no fitted point has is an error, because
        the values of such points cannot be predicted.
        """
        Z = as_points(points, name="points")
        with _one_thread():
            F, codes = self.features(Z)
            blocks = [slice(i, i + 2048) for i in range(0, len(Z), 2048)]  # kernels can be large
            moved = np.concatenate([self.model(F[i], codes[i]) for i in blocks])
            misfit = self.misfit(F, codes)
        return _prediction(moved, misfit, Z.ids, self.held_out.shape)


def fit(
    points: Points | tuple[Any, Any],
    values: Any,
    stderr: Any,
    *,
    noise: Any = None,
    model: Any = "auto",
    folds: int = 5,
    seed: int = 0,
) -> Interpolation:
    """The regression h of Algorithm 2 (section 3.2): from measured values to those of any point.

    The features of a point z = (x, y) are x, standardised, and y, as one column for each class.
    Alternatively each class has its own model (if every class has 20 points); cross-validation
    chooses. A further feature is how y agrees with its neighbours: the share of its label among the
    5, 20 and 50 nearest of the other fitted points. Labels that are numbers with fractions, or more
    than 20 whole numbers, are not classes: the features are then y, and y minus the mean of its
    neighbours.

    The weight of a point is 1 / (stderr^2 + tau^2), where tau^2 is the variance of the misfit, the
    error of the model itself. If noise dominates, this is the usual 1 / stderr^2; if the misfit
    dominates, 1 / stderr^2 would ignore most points, and it is infinite for exact values.

    The error of a prediction has two parts. The misfit comes from held-out residuals, minus the
    noise in them, of the point's class (if it has 20 points, else of all points) and of the nine
    nearest points. The other part is the noise that h takes over from the measured values, which
    follows from how far simulated errors move the prediction.

    Parameters
    ----------
    points
        The measured points. X must be numeric, without missing values.
    values, stderr
        One number for each point. The standard error of an exact value is 0.
    noise
        A B x n array of B simulated errors of the values, correlated between points as the real
        errors are; each point's errors are scaled to its standard error. By default the errors are
        independent and normal, which is too optimistic for values from one run, because all
        points share the sets S.
    model
        "nearest", "ridge", "kernel_ridge" (up to 4000 points), "forest" (extremely randomised
        trees), any scikit-learn regressor, or "auto": the best of the four in cross-validation.
    folds, seed
        The number of folds of the cross-validation, and the random seed. The same seed gives the
        same fit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))
    >>> h = fit(Points(X), np.sin(2 * X[:, 0]), np.full(200, 0.01), model="kernel_ridge")
    >>> new = h.predict(Points([[0.5]]))
    >>> bool(abs(new.values[0] - np.sin(1.0)) < 2 * new.stderr[0])
    True
    """
    Z = as_points(points, name="points")
    v, se = _checked(values, stderr, len(Z))
    E = _errors(noise, se, seed, _NOISES if isinstance(model, str) else _REFITS)
    with _one_thread():
        features = Features.of(Z)
        F, codes = features(Z)
        fold = folds_of(codes, min(folds, len(Z) // 2), seed)
        left_out = partial(held_out, F=F, codes=codes, fold=fold, seed=seed)
        known = candidates(model, features, codes)
        Y = np.c_[v, E]
        out = left_out((nearest, False), Y=Y, w=_weights(se, v.var()))
        w = _weights(se, _variance(v - out[:, 0], E - out[:, 1:], se)[0])
        outs = {name: left_out(candidate, Y=Y, w=w) for name, candidate in known.items()}
        errors = {name: np.average((v - out[:, 0]) ** 2, weights=w) for name, out in outs.items()}
        name = min(errors, key=errors.__getitem__)
        # The chosen model is fitted again, with weights for its own misfit.
        w = _weights(se, _variance(v - outs[name][:, 0], E - outs[name][:, 1:], se)[0])
        out = left_out(known[name], Y=Y, w=w)
        h = Model.of(known[name], F, codes, Y, w, seed)
        misfit = _Misfit.of(F, v - out[:, 0], E - out[:, 1:], se, codes)
        own = misfit(None, codes)
    shape = _shape(v - out[:, 0], E - out[:, 1:], se, own)
    r2, r2_true, rank_correlation = _goodness(v, E, out, w)
    return Interpolation(
        name=name,
        scores={name: float(np.sqrt(error)) for name, error in errors.items()},
        r2=r2,
        r2_true=r2_true,
        rank_correlation=rank_correlation,
        n_points=len(Z),
        held_out=_prediction(out, own, Z.ids, shape, E),
        features=features,
        model=h,
        misfit=misfit,
    )


def shrunk(
    values: Any, stderr: Any, predicted: Any, predicted_stderr: Any, *, covariance: Any = 0.0
) -> tuple[Floats, Floats]:
    """Measured values shrunk towards predictions that did not use them: (values, stderr).

    This is empirical Bayes: the posterior mean and its standard error. With the variances s^2 and
    p^2 of the two errors, their covariance c and the difference r of the two values, the weight of
    the measured value is

        a = (P - c) / (s^2 + P - 2 c), kept within 0 and 1,
        P = p^2 + max(r^2 - (s^2 + p^2 - 2 c), 0) / 4,

    and the variance of the error is a^2 s^2 + (1 - a)^2 P + 2 a (1 - a) c. P is p^2 unless the
    prediction is far off. Misfits have long tails; without this, a few points would be shrunk far
    from their true values and raise the mean squared error (by a half for digits and naive Bayes).

    The mean squared error over all points falls, but that of a point unlike the others of its kind
    may rise. If points share most of their noise, the predictions share it too, and shrinking gains
    little.

    For the points given to `fit`, use the values, stderr and covariance of `held_out`.

    >>> mean, error = shrunk([1.0], [0.1], [1.1], [0.1])
    >>> mean.round(2).tolist(), error.round(4).tolist()
    ([1.05], [0.0707])
    """
    parts = (values, stderr, predicted, predicted_stderr, covariance)
    v, s, p, pe, c = (np.asarray(part, dtype=np.float64) for part in parts)
    P = pe**2 + np.maximum((v - p) ** 2 - (s**2 + pe**2 - 2 * c), 0) / 4
    total = s**2 + P - 2 * c
    a = np.where(total > 0, np.clip((P - c) / np.where(total > 0, total, 1), 0, 1), 1.0)
    variance = (a * s) ** 2 + (1 - a) ** 2 * P + 2 * a * (1 - a) * c
    return a * v + (1 - a) * p, np.sqrt(np.maximum(variance, 0))


def _variance(r: Floats, d: Floats, se: Floats) -> tuple[float, float]:
    """The variance of the misfit and its standard error, from residuals r and their noise d."""
    gap, mean = r**2 - (d**2).mean(axis=1), float(np.mean(r**2))
    for _ in range(10):
        u = _trust(se, mean)
        u /= u.sum()
        mean = float(u @ gap)
    own = np.sqrt(u**2 @ (gap - mean) ** 2)
    # Points that share their noise tell less than their number suggests.
    return mean, float(max(own, (u @ d**2).std()))


def _trust(se: Floats, tau2: float) -> Floats:
    """How much each squared residual counts.

    All count the same, because noisy points are often ill-fitted too. The exception are points with
    more than ten times the usual variance, which would drown the others.
    """
    tau2 = max(tau2, SMALL)
    return np.minimum(1, 10 * (np.median(se**2) + tau2) / (se**2 + tau2)) ** 2


@dataclass(frozen=True, eq=False, kw_only=True)
class _Misfit:
    """The variance of the misfit at any point, estimated from held-out residuals."""

    index: Any
    """A nearest-neighbour index of the fitted points' features."""
    gap: Floats
    """For each fitted point, the squared residual minus the noise in it."""
    of_class: Floats
    """The variance of the misfit in each class."""
    local: float
    """The weight of the nearest points' own residuals: a half without noise, less with noise."""

    @classmethod
    def of(cls, F: Floats, r: Floats, d: Floats, se: Floats, codes: Codes) -> _Misfit:
        from scipy.special import log_ndtr
        from sklearn.neighbors import NearestNeighbors

        found = []
        for c in range(codes.max() + 1):
            i = codes == c if (codes == c).sum() >= OF_A_CLASS else codes >= 0
            mean, error = _variance(r[i], d[i], se[i])
            # If noise hides the misfit, an estimate of 0 would be too optimistic, so this is the
            # posterior mean under a flat prior on variances >= 0. (95 % intervals covered only
            # 92 % under a flat prior on standard deviations.)
            if error > 0:
                density = np.exp(-((mean / error) ** 2) / 2 - log_ndtr(mean / error))
                mean += error * density / np.sqrt(2 * np.pi)
            found.append(max(mean, 0.0))
        noise, base = (d**2).mean(axis=1), np.array(found)[codes]
        all_ = base.mean()
        local = all_**2 / max(all_**2 + (all_ + np.median(noise)) ** 2, SMALL**2)
        gap = base + _trust(se, all_) * (r**2 - noise - base)
        index = NearestNeighbors(n_neighbors=_LEAST - 1).fit(F)
        return cls(index=index, gap=gap, of_class=np.array(found), local=local)

    def __call__(self, F: Floats | None, codes: Codes) -> Floats:
        """At points with these features; for F=None at the fitted points, each without itself."""
        base = self.of_class[codes]
        near = self.index.kneighbors(F, return_distance=False)
        around = self.gap[near].mean(axis=1)
        return np.maximum((1 - self.local) * base + self.local * around, base / 5)


def _weights(se: Floats, tau2: float) -> Floats:
    variance = se**2 + max(tau2, SMALL)
    return variance.min() / variance


def _prediction(
    moved: Floats, misfit: Floats, ids: Array, shape: Floats, E: Floats | None = None
) -> Prediction:
    inherited = (moved[:, 1:] ** 2).mean(axis=1)
    variance = misfit + inherited
    covariance = np.zeros(len(moved)) if E is None else (E * moved[:, 1:]).mean(axis=1)
    share = inherited / np.maximum(variance, SMALL)
    return Prediction(
        values=moved[:, 0],
        stderr=np.sqrt(variance),
        ids=ids,
        inherited=share,
        covariance=covariance,
        shape=shape,
    )


def _shape(r: Floats, d: Floats, se: Floats, misfit: Floats) -> Floats:
    noise = se**2 * ((d**2).mean() / max((se**2).mean(), SMALL))
    return np.sort(np.abs(r) / np.sqrt(np.maximum(misfit + noise, SMALL)))


def _quantile(shape: Floats, share: float, confidence: float) -> float:
    """The quantile of |error| in standard errors.

    A `share` of the error's variance is normal noise; the rest has the distribution `shape`.
    """
    from scipy.special import ndtri

    level = confidence * (1 + 1 / len(shape))
    if len(shape) > 1000:
        shape = np.quantile(shape, (np.arange(1000) + 0.5) / 1000)
    normal = ndtri((np.arange(100) + 0.5) / 100)
    error = np.sqrt(1 - share) * shape[:, np.newaxis] + np.sqrt(share) * normal
    found = float(np.quantile(np.abs(error), min(level, 1.0)))
    return found if level < 1 else max(found, float(ndtri((1 + confidence) / 2)))


def _goodness(v: Floats, E: Floats, out: Floats, w: Floats) -> tuple[float, float, float]:
    """r2, r2_true and rank_correlation of `Interpolation`."""
    from scipy.stats import spearmanr

    if np.ptp(v) == 0:
        return np.nan, np.nan, np.nan
    w = w / w.sum()
    moved = out[:, 1:]
    lost, spread = w @ (v - out[:, 0]) ** 2, w @ (v - w @ v) ** 2
    noise = w @ (E - w @ E) ** 2
    signal = spread - noise.mean()
    lost_true = max(lost + w @ (moved**2 - (E - moved) ** 2).mean(axis=1), 0.0)
    r2_true = 1 - lost_true / signal if signal > 2 * noise.std() else np.nan
    rank = np.nan if np.ptp(out[:, 0]) == 0 else spearmanr(v, out[:, 0]).statistic
    return float(1 - lost / spread), float(r2_true), float(rank)


def _errors(noise: Any, se: Floats, seed: int, most: int) -> Floats:
    """Simulated errors, at most so many, one column for each, with each point's standard error."""
    if noise is None:
        noise = np.random.default_rng(seed).standard_normal((most, len(se)))
    E = np.asarray(noise, dtype=np.float64)
    if E.ndim != 2 or E.shape[1] != len(se) or len(E) < 2 or not np.isfinite(E).all():
        raise InputError(f"noise: give B rows of {len(se)} finite numbers, B >= 2, not {E.shape}")
    E = E[:most]
    size = np.sqrt((E**2).mean(axis=0))
    return (E * (se / np.where(size > 0, size, 1))).T


def _checked(values: Any, stderr: Any, n: int) -> tuple[Floats, Floats]:
    v, se = (np.asarray(part, dtype=np.float64) for part in (values, stderr))
    if v.shape != (n,) or se.shape != (n,):
        raise InputError(
            f"{n} points, but values of shape {v.shape} and stderr of {se.shape}: give one number "
            "for each point"
        )
    if n < _LEAST:
        raise InputError(
            f"{n} measured points are too few to predict others: raise the share, so that at "
            f"least {_LEAST} are measured"
        )
    if np.isnan(se).any():
        raise InputError("stderr is NaN: a single draw has no standard error; draw more")
    if not (np.isfinite(v).all() and np.isfinite(se).all() and (se >= 0).all()):
        raise InputError("values and stderr must be finite, and stderr at least 0")
    return v, se


def _one_thread() -> Any:
    """One thread for BLAS and OpenMP, because their number changes the last bits."""
    import sklearn.neighbors  # noqa: F401  its thread pools are only found once it is loaded
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def chosen_to_measure(Z: Points | Bundles, p: float, seed: int) -> NDArray[np.bool_]:
    """Which points are measured: each independently with probability p (Algorithm 2)."""
    if isinstance(Z, Bundles):
        raise InputError("share: bundles cannot be predicted from one another: value all of them")
    if not isinstance(p, int | float | np.number) or not 0 < p < 1:
        raise InputError(f"share = {p}: give a share of the points above 0 and at most 1")
    numbers(Z)  # so that points that cannot be predicted are an error before any draw
    chosen = np.random.default_rng([seed, len(Z)]).random(len(Z)) < p
    if chosen.sum() < _LEAST:
        raise InputError(
            f"share = {p} measures only {chosen.sum()} of {len(Z)} points: raise it, so that at "
            f"least {_LEAST} are measured"
        )
    if chosen.all():
        raise InputError(f"share = {p} leaves no point to predict: omit the share")
    return chosen
