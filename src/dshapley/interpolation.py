"""Values of points that were never run, from those that were: the regression of Algorithm 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.errors import InputError, nearest
from dshapley.points import Array, Floats, Points, as_points

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FAMILIES", "Interpolation", "Prediction", "fit", "shrunk"]

FAMILIES = ("nearest", "ridge", "kernel_ridge", "forest")
"""The families that `fit` knows by name."""

_LEAST = 10  # points for any fit
_OF_A_CLASS = 20  # points for a model of its own, and for an error of its own
_KERNEL_LIMIT = 4000  # a kernel ridge takes n^3 operations and n^2 memory
_NEIGHBOURHOODS = (5, 20, 50)
_NOISES = 32  # simulated errors, at most
_REFITS = 8  # the same for a model that has to be trained anew for each
_SMALL = 1e-150  # in place of a variance of 0

Codes: TypeAlias = NDArray[np.intp]
Trained: TypeAlias = Callable[[Floats], Floats]
"""From features to the value (column 0) and how far each simulated error moves it (the rest)."""
Train: TypeAlias = Callable[[Floats, Floats, Floats, int], Trained]
"""(features, values beside simulated errors, weights, seed) -> Trained."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Values by a model of values, each with an error for the true value.

    Attributes
    ----------
    values, stderr, ids
        One entry a point.
    inherited
        The share of the error's variance that is noise of the measured values; the rest is misfit.
    covariance
        Of the error with that of the point's own measured value; 0 for points never measured.
    shape
        Sizes of held-out residuals, in units of their standard error.
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
        """Lower and upper ends of each point's own interval for its true value.

        The error is the sum of a misfit, with the quantiles of held-out residuals (as in conformal
        prediction, with its correction for their number), and of normal noise.
        """
        if not 0 < confidence < 1:
            raise InputError("a confidence lies between 0 and 1, such as 0.95")
        shares = np.linspace(0, 1, 21)
        table = [_quantile(self.shape, share, confidence) for share in shares]
        half = np.interp(self.inherited, shares, table) * self.stderr
        return self.values - half, self.values + half

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """A data frame by id: value, stderr, and the ends of its interval."""
        import pandas as pd

        low, high = self.interval(confidence)
        columns = {"value": self.values, "stderr": self.stderr, "low": low, "high": high}
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A model h: z -> value. Made by `fit`.

    Attributes
    ----------
    name
        The candidate with the smallest held-out error.
    scores
        Of each candidate the weighted root mean square of value less held-out prediction.
    r2
        1 - sum w r^2 / sum w (v - mean v)^2: v the noisy values, r = v less the held-out
        prediction, w the weights of `fit`, by which means are weighted too.
    r2_true
        An estimate of the same against the true values,

            1 - sum w (r^2 - D + I) / sum w ((v - mean v)^2 - N).

        Over the simulated errors e of v, which move held-out predictions by L e, D is the mean of
        (e - L e)^2, I of (L e)^2 and N of (e - mean e)^2. For independent errors -D + I is just
        -e^2; an error that all points share cancels in r but not here. At most 1; NaN where the
        values spread no more than noise would make them.
    rank_correlation
        Spearman's, of noisy values and held-out predictions.
    n_points
        How many points h was fitted to.
    held_out
        Predictions of these points, each by a model that did not see it.
    """

    name: str
    scores: Mapping[str, float] = field(repr=False)
    r2: float
    r2_true: float
    rank_correlation: float
    n_points: int
    held_out: Prediction = field(repr=False)
    features: _Features = field(repr=False)
    model: _Model = field(repr=False)
    misfit: _Misfit = field(repr=False)

    def predict(self, points: Points | tuple[Any, Any]) -> Prediction:
        """The value of each point with its error. For the fitted points see `held_out`.

        A label that no fitted point has is an error: nothing says what such points are worth.
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
    """The regression h of Algorithm 2 (section 3.2): from some points' values to any point's.

    Of z = (x, y) a model sees x, standardised; y as one column a class, or else there is a model
    for each class (where all have 20 points), whichever predicts better; and how y agrees with its
    surroundings: the share of its label among the 5, 20 and 50 nearest of the other fitted points.
    Labels that are floats, or more than 50 whole numbers, are numbers: then y, and y less the mean
    of its surroundings.

    Points have the weight 1 / (stderr^2 + tau^2), tau^2 being the variance of the interpolation
    error. Where noise dominates that is the 1 / stderr^2 of known models; where the misfit does,
    1 / stderr^2 would waste points, and for exact values it is infinite.

    The error of a prediction has two parts: the misfit, from held-out residuals less the noise in
    them, of the class (with 20 points, else of all) and of the nine nearest points; and the noise
    that h takes over from the values, from how far simulated errors move it.

    Parameters
    ----------
    points
        The measured points. X holds numbers without gaps.
    values, stderr
        One number a point. The standard error of an exact value is 0.
    noise
        B x n: simulated errors of the values, B times, correlated between points as the real ones
        are; each point's are scaled to its standard error. By default independent and normal,
        which is too hopeful for values from one run: there all points share the sets S.
    model
        "nearest", "ridge", "kernel_ridge" (up to 4000 points), "forest" (extremely randomised
        trees), any scikit-learn regressor, or "auto": the best of the four in cross-validation.
    folds, seed
        Of the cross-validation. The same seed gives the same fit.

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
        features = _Features.of(Z)
        F, codes = features(Z)
        fold = _folds(codes, min(folds, len(Z) // 2), seed)
        held_out = partial(_held_out, F=F, codes=codes, fold=fold, seed=seed)
        candidates = _candidates(model, features, codes)
        Y = np.c_[v, E]
        out = held_out((_nearest, False), Y=Y, w=_weights(se, v.var()))
        w = _weights(se, _variance(v - out[:, 0], E - out[:, 1:], se)[0])
        outs = {name: held_out(candidate, Y=Y, w=w) for name, candidate in candidates.items()}
        errors = {name: np.average((v - out[:, 0]) ** 2, weights=w) for name, out in outs.items()}
        name = min(errors, key=errors.__getitem__)
        # Once more, with weights for its own misfit.
        w = _weights(se, _variance(v - outs[name][:, 0], E - outs[name][:, 1:], se)[0])
        out = held_out(candidates[name], Y=Y, w=w)
        h = _Model.of(candidates[name], F, codes, Y, w, seed)
        misfit = _Misfit.of(F, v - out[:, 0], E - out[:, 1:], se, codes)
        own = misfit(None, codes)
    shape = _shape(v - out[:, 0], E - out[:, 1:], se, own)
    return Interpolation(
        name,
        {name: float(np.sqrt(error)) for name, error in errors.items()},
        *_goodness(v, E, out, w),
        len(Z),
        _prediction(out, own, Z.ids, shape, E),
        features,
        h,
        misfit,
    )


def shrunk(
    values: Any, stderr: Any, predicted: Any, predicted_stderr: Any, *, covariance: Any = 0.0
) -> tuple[Floats, Floats]:
    """Measured values drawn towards predictions that did not use them: (values, stderr).

    Empirical Bayes: the posterior mean and its standard error. With variances s^2 and p^2 of the
    two errors, their covariance c and the difference r, the measured value has the weight

        a = (P - c) / (s^2 + P - 2 c), kept within 0 and 1,
        P = p^2 + max(r^2 - (s^2 + p^2 - 2 c), 0) / 4,

    and the error the variance a^2 s^2 + (1 - a)^2 P + 2 a (1 - a) c. P is p^2 but where the
    prediction is far off: misfits have long tails, and without this a few points, drawn far from
    their true values, raise the mean squared error (by a half for digits and naive Bayes).

    It falls over all points; that of a point unlike its like may rise. Where points share most of
    their noise there is little to gain, as predictions share it too.

    For the points of `fit` take `held_out`: its values, stderr and covariance.

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
    """The variance of the misfit, and its standard error: of residuals r less their noise d."""
    gap, mean = r**2 - (d**2).mean(axis=1), float(np.mean(r**2))
    for _ in range(10):
        u = _trust(se, mean)
        u /= u.sum()
        mean = float(u @ gap)
    own = np.sqrt(u**2 @ (gap - mean) ** 2)
    return mean, float(max(own, (u @ d**2).std()))  # shared noise: fewer points than it seems


def _trust(se: Floats, tau2: float) -> Floats:
    """How much a squared residual counts: all alike, since noisy points are often ill-fitted too.

    But for points of more than ten times the usual variance, which would drown the others.
    """
    tau2 = max(tau2, _SMALL)
    return np.minimum(1, 10 * (np.median(se**2) + tau2) / (se**2 + tau2)) ** 2


@dataclass(frozen=True, eq=False)
class _Misfit:
    """The variance of the interpolation error, as held-out residuals tell it."""

    index: Any
    """Of the fitted points' features."""
    gap: Floats
    """Of the fitted points: the squared residual less the noise in it."""
    of_class: Floats
    local: float
    """The weight of the nearest points' own: a half without noise, less with it."""

    @classmethod
    def of(cls, F: Floats, r: Floats, d: Floats, se: Floats, codes: Codes) -> _Misfit:
        from scipy.special import log_ndtr
        from sklearn.neighbors import NearestNeighbors

        found = []
        for c in range(codes.max() + 1):
            i = codes == c if (codes == c).sum() >= _OF_A_CLASS else codes >= 0
            mean, error = _variance(r[i], d[i], se[i])
            # Where noise hides the misfit, 0 would be too hopeful: the posterior mean, with no
            # preference for any variance from 0 on. (None for any deviation covered 92 %.)
            if error > 0:
                density = np.exp(-((mean / error) ** 2) / 2 - log_ndtr(mean / error))
                mean += error * density / np.sqrt(2 * np.pi)
            found.append(max(mean, 0.0))
        noise, base = (d**2).mean(axis=1), np.array(found)[codes]
        all_ = base.mean()
        local = all_**2 / max(all_**2 + (all_ + np.median(noise)) ** 2, _SMALL**2)
        gap = base + _trust(se, all_) * (r**2 - noise - base)
        index = NearestNeighbors(n_neighbors=_LEAST - 1).fit(F)
        return cls(index, gap, np.array(found), local)

    def __call__(self, F: Floats | None, codes: Codes) -> Floats:
        """At points of these features; at the fitted points, each without itself, for None."""
        base = self.of_class[codes]
        near = self.index.kneighbors(F, return_distance=False)
        around = self.gap[near].mean(axis=1)
        return np.maximum((1 - self.local) * base + self.local * around, base / 5)


def _weights(se: Floats, tau2: float) -> Floats:
    variance = se**2 + max(tau2, _SMALL)
    return variance.min() / variance


def _prediction(
    moved: Floats, misfit: Floats, ids: Array, shape: Floats, E: Floats | None = None
) -> Prediction:
    inherited = (moved[:, 1:] ** 2).mean(axis=1)
    variance = misfit + inherited
    covariance = np.zeros(len(moved)) if E is None else (E * moved[:, 1:]).mean(axis=1)
    share = inherited / np.maximum(variance, _SMALL)
    return Prediction(moved[:, 0], np.sqrt(variance), ids, share, covariance, shape)


def _shape(r: Floats, d: Floats, se: Floats, misfit: Floats) -> Floats:
    noise = se**2 * ((d**2).mean() / max((se**2).mean(), _SMALL))
    return np.sort(np.abs(r) / np.sqrt(np.maximum(misfit + noise, _SMALL)))


def _quantile(shape: Floats, share: float, confidence: float) -> float:
    """Of |error| in standard errors: `share` of its variance is normal, the rest has `shape`."""
    from scipy.special import ndtri

    level = confidence * (1 + 1 / len(shape))
    if len(shape) > 1000:
        shape = np.quantile(shape, (np.arange(1000) + 0.5) / 1000)
    normal = ndtri((np.arange(100) + 0.5) / 100)
    error = np.sqrt(1 - share) * shape[:, np.newaxis] + np.sqrt(share) * normal
    found = float(np.quantile(np.abs(error), min(level, 1.0)))
    return found if level < 1 else max(found, float(ndtri((1 + confidence) / 2)))


def _goodness(v: Floats, E: Floats, out: Floats, w: Floats) -> tuple[float, float, float]:
    """r2, r2_true and the rank correlation of `Interpolation`."""
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
    """Simulated errors, a column each and not too many, with each point's standard error."""
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
        raise InputError(f"{n} points, but values of shape {v.shape} and stderr of {se.shape}")
    if n < _LEAST:
        raise InputError(
            f"{n} measured points are too few to predict others from: raise p or measure more, "
            f"at least {_LEAST}"
        )
    if np.isnan(se).any():
        raise InputError("stderr is NaN: a single draw does not tell its error; draw more")
    if not (np.isfinite(v).all() and np.isfinite(se).all() and (se >= 0).all()):
        raise InputError("values and stderr must be finite, and stderr not below 0")
    return v, se


def _one_thread() -> Any:
    """One thread for BLAS and OpenMP: their number changes the last bits."""
    import sklearn.neighbors  # noqa: F401  its pools are found once it is there
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


@dataclass(frozen=True, eq=False)
class _Features:
    """What a model sees of points: x, the label, and how this agrees with its surroundings."""

    columns: list[str]
    classes: Array | None
    """The labels; None where they are numbers, or where there are none."""
    X: Floats
    y: Array | None
    """Of the fitted points, standardised, and their labels as codes or numbers."""
    rows: Mapping[bytes, int]
    """Which fitted point has a row: no point is its own neighbour."""
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, Z: Points) -> _Features:
        X, y, classes = _numbers(Z), Z.y, None
        if y is not None and (y.dtype.kind in "USb" or _few_whole(y)):
            classes, y = np.unique(y, return_inverse=True)
        centre, scale = X.mean(axis=0), _spread(X)
        X = (X - centre) / scale
        rows = {key: i for i, key in enumerate(_keys(X, y))}
        some = cls(Z.columns, classes, X, y, rows, centre, scale)
        if y is None:
            return some
        # Each of these columns as heavy as a quarter of x, so that neither drowns in a distance.
        labels = some._labels(X, y)
        spread = _spread(labels)
        spread[: some.n_label] = 1.0 if classes is not None else spread[0]
        spread /= np.sqrt(max(X.shape[1], 4) / 4)
        centre, scale = np.r_[centre, labels.mean(axis=0)], np.r_[scale, spread]
        return replace(some, centre=centre, scale=scale)

    @property
    def n_label(self) -> int:
        """How many columns say what the label is; those after x."""
        return 1 if self.classes is None else len(self.classes)

    def __call__(self, Z: Points) -> tuple[Floats, Codes]:
        """The features of points, and their classes (0 where there are none)."""
        if Z.columns != self.columns:
            raise InputError(
                f"points: {len(Z.columns)} columns, {Z.columns[:3]}..., but the fitted points have "
                f"{len(self.columns)}, {self.columns[:3]}...: give the same in the same order"
            )
        if (Z.y is None) != (self.y is None):
            raise InputError("points: give labels if the fitted points have them, and only then")
        d = len(self.columns)
        X = (_numbers(Z) - self.centre[:d]) / self.scale[:d]
        codes = np.zeros(len(Z), dtype=np.intp)
        if Z.y is None:
            return X, codes
        if self.classes is not None:
            codes = _codes(Z.y, self.classes)
        labels = self._labels(X, Z.y if self.classes is None else codes)
        return np.c_[X, (labels - self.centre[d:]) / self.scale[d:]], codes

    def _labels(self, X: Floats, y: Array) -> Floats:
        from sklearn.neighbors import NearestNeighbors

        assert self.y is not None
        most = min(max(_NEIGHBOURHOODS), len(self.X) // 2)
        near = NearestNeighbors(n_neighbors=most + 1).fit(self.X).kneighbors(X)[1]
        itself = [self.rows.get(key, -1) for key in _keys(X, y)]
        other = near != np.array(itself)[:, np.newaxis]
        if self.classes is None:
            columns, match = [y], y[:, np.newaxis] - self.y[near]
        else:
            columns = [y == code for code in range(len(self.classes))]
            match = y[:, np.newaxis] == self.y[near]
        for size in sorted({min(size, most) for size in _NEIGHBOURHOODS}):
            among = other & (np.cumsum(other, axis=1) <= size)
            columns.append((match * among).sum(axis=1) / size)
        return np.stack(columns, axis=1).astype(np.float64)


def _numbers(Z: Points) -> Floats:
    try:
        X = np.asarray(Z.X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"points: X holds more than numbers ({error}): encode it") from None
    gaps = np.flatnonzero(~np.isfinite(X).all(axis=0))
    if len(gaps):
        raise InputError(f"points: column {Z.columns[gaps[0]]} has NaN or infinity: fill it in")
    return X


def _codes(y: Array, classes: Array) -> Codes:
    place = {label: code for code, label in enumerate(classes.tolist())}
    for label in y.tolist():
        if label not in place:
            raise InputError(
                f"points: no fitted point has the label {label!r}, so that nothing says what such "
                "points are worth: measure some"
            )
    return np.array([place[label] for label in y.tolist()], dtype=np.intp)


def _few_whole(y: Array) -> bool:
    return y.dtype.kind in "iu" and len(np.unique(y)) <= 50


def _spread(X: Floats) -> Floats:
    """The standard deviation of each column, 1 for a constant one."""
    spread = X.std(axis=0)
    return np.where(spread > 1e-9 * np.abs(X).max(axis=0, initial=0), spread, 1.0)


def _keys(X: Floats, y: Array | None) -> list[bytes]:
    """The bits of each row; those of 0 and -0 are the same."""
    return [row.tobytes() for row in (X if y is None else np.c_[X, y]) + 0.0]


@dataclass(frozen=True, eq=False)
class _Model:
    """A trained model, or one for each class."""

    parts: tuple[Trained, ...]

    @classmethod
    def of(
        cls, candidate: tuple[Train, bool], F: Floats, codes: Codes, Y: Floats, w: Floats, seed: int
    ) -> _Model:
        train, per_class = candidate
        groups = [codes == c for c in range(codes.max() + 1)] if per_class else [codes >= 0]
        return cls(tuple(train(F[i], Y[i], w[i] / w[i].mean(), seed) for i in groups))

    def __call__(self, F: Floats, codes: Codes) -> Floats:
        groups = codes if len(self.parts) > 1 else np.zeros_like(codes)
        found = np.unique(groups)
        out = np.concatenate([self.parts[c](F[groups == c]) for c in found])
        return _put_back(out, groups)


def _held_out(
    candidate: tuple[Train, bool],
    *,
    Y: Floats,
    w: Floats,
    F: Floats,
    codes: Codes,
    fold: Codes,
    seed: int,
) -> Floats:
    """Predictions of all points, and their movements, by models fitted to the other folds."""
    parts = []
    for i in (fold == f for f in range(fold.max() + 1)):
        h = _Model.of(candidate, F[~i], codes[~i], Y[~i], w[~i], seed)
        parts.append(h(F[i], codes[i]))
    return _put_back(np.concatenate(parts), fold)


def _put_back(rows: Floats, groups: Codes) -> Floats:
    """Rows that come group by group, in the order of the points."""
    out = np.empty_like(rows)
    out[np.argsort(groups, kind="stable")] = rows
    return out


def _folds(codes: Codes, folds: int, seed: int) -> Codes:
    """The fold of each point: at random, but each class in all of them."""
    if folds < 2:
        raise InputError(f"folds = {folds}: cross-validation needs two or more")
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(codes), dtype=np.intp)
    fold[order] = np.arange(len(codes)) % folds
    return fold


def _candidates(model: Any, features: _Features, codes: Codes) -> dict[str, tuple[Train, bool]]:
    """By name: how to train, and whether each class by itself."""
    n, counts = len(codes), np.bincount(codes)
    blind = features.X.shape[1] + features.n_label
    known: dict[str, Train] = dict(
        zip(FAMILIES, (_nearest, _ridge, partial(_kernel_ridge, blind), _forest), strict=True)
    )
    if n > _KERNEL_LIMIT:
        del known["kernel_ridge"]
    if isinstance(model, str) and model != "auto":
        if model not in known:
            hint = nearest(model, ["auto", *known])
            raise InputError(f"model = {model!r} is not known for {n} points; {hint}")
        known = {model: known[model]}
    elif not isinstance(model, str):
        if isinstance(model, type) or not hasattr(model, "get_params"):
            raise InputError(f"model = {model!r}: give a name or a scikit-learn regressor")
        known = {type(model).__name__: partial(_refitted, model)}
    found = {name: (train, False) for name, train in known.items()}
    if len(counts) > 1 and counts.min() >= _OF_A_CLASS:
        # Trees split by class themselves, where that is of use.
        per_class = {name: train for name, train in known.items() if train is not _forest}
        found |= {f"{name}, per class": (train, True) for name, train in per_class.items()}
    return found


def _nearest(F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """The weighted mean of the k nearest; k by leaving one out."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=min(20, len(F) - 1)).fit(F)
    near = index.kneighbors(return_distance=False)
    means = np.cumsum(w[near] * Y[near, 0], axis=1) / np.cumsum(w[near], axis=1)
    index.set_params(n_neighbors=1 + int(np.argmin(w @ (means - Y[:, :1]) ** 2)))
    return partial(_mean_of_near, index, Y, w)


def _mean_of_near(index: Any, Y: Floats, w: Floats, F: Floats) -> Floats:
    near = index.kneighbors(F, return_distance=False)
    return np.einsum("ij,ijb->ib", w[near], Y[near]) / w[near].sum(axis=1, keepdims=True)


def _ridge(F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """The penalty by leaving one out."""
    from sklearn.linear_model import Ridge, RidgeCV

    penalty = RidgeCV(np.logspace(-1, 5, 13)).fit(F, Y[:, 0], sample_weight=w).alpha_
    model = Ridge(penalty).fit(F, Y, sample_weight=w)
    return partial(_shifted, model, np.zeros(Y.shape[1]), F.shape[1])


def _kernel_ridge(blind: int, F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Width and penalty, and whether to look at surroundings, by leaving one out.

    On some points only: their best choice does not depend on how many they are.
    """
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import pairwise_distances

    some = np.random.default_rng(seed).permutation(len(F))[:300]
    root, mean = np.sqrt(w[some]), np.average(Y, axis=0, weights=w)
    best = (np.inf, 0.0, 0.0, 0)
    for d in sorted({min(blind, F.shape[1]), F.shape[1]}):
        squares = pairwise_distances(F[some, :d], metric="sqeuclidean")
        median = np.median(squares[squares > 0]) if squares.any() else 1.0
        for gamma in np.array([0.1, 0.3, 1.0]) / median:
            values, Q = np.linalg.eigh(np.exp(-gamma * squares) * np.outer(root, root))
            target = Q.T @ (root * (Y[some, 0] - mean[0]))
            for penalty in (0.001, 0.01, 0.1, 1.0):
                inverse = 1 / (values + penalty)
                left_out = Q @ (inverse * target) / (Q**2 @ inverse)
                best = min(best, (float(left_out @ left_out), penalty, float(gamma), d))
    model = KernelRidge(alpha=best[1], kernel="rbf", gamma=best[2])
    return partial(_shifted, model.fit(F[:, : best[3]], Y - mean, sample_weight=w), mean, best[3])


def _shifted(model: Any, mean: Floats, d: int, F: Floats) -> Floats:
    return np.reshape(model.predict(F[:, :d]), (len(F), len(mean))) + mean


def _forest(F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Trees grown for the values; an error moves them by its means over the leaves."""
    from sklearn.ensemble import ExtraTreesRegressor

    trees = ExtraTreesRegressor(100, min_samples_leaf=3, max_features=1 / 3, random_state=seed)
    leaves = _leaves(trees.fit(F, Y[:, 0], sample_weight=w), F).T
    means = (leaves @ (w[:, np.newaxis] * Y)) / np.maximum(leaves @ w, _SMALL)[:, np.newaxis]
    return partial(_mean_of_leaves, trees, means)


def _leaves(trees: Any, F: Floats) -> Any:
    """A sparse table of points by nodes of all trees: 1 for the leaf that the point is in."""
    from scipy.sparse import csr_array

    sizes = [tree.tree_.node_count for tree in trees.estimators_]
    leaf = trees.apply(F) + np.cumsum([0, *sizes[:-1]])
    ends = np.arange(len(F) + 1) * len(sizes)
    return csr_array((np.ones(leaf.size), leaf.ravel(), ends), shape=(len(F), sum(sizes)))


def _mean_of_leaves(trees: Any, means: Floats, F: Floats) -> Floats:
    return _leaves(trees, F) @ means / len(trees.estimators_)


def _refitted(model: Any, F: Floats, Y: Floats, w: Floats, seed: int) -> Trained:
    """Any regressor, trained on the values, and on the values with each error added."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    weights = {"sample_weight": w} if has_fit_parameter(model, "sample_weight") else {}
    state = {"random_state": seed} if "random_state" in model.get_params() else {}
    targets = [Y[:, 0], *(Y[:, 0] + e for e in Y.T[1:])]
    return partial(
        _movements, [clone(model).set_params(**state).fit(F, y, **weights) for y in targets]
    )


def _movements(models: list[Any], F: Floats) -> Floats:
    first, *others = (np.ravel(model.predict(F)) for model in models)
    return np.stack([first, *(other - first for other in others)], axis=1)
