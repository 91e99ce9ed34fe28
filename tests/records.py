"""Records of runs by the thousand: what `dshapley.run` would keep, computed for all draws at once.

`test_estimation` holds that a record made here is that of a run, given the same sets.
"""

import numpy as np

import dshapley as ds
from dshapley.inference.estimation import NESTED_EVERY
from dshapley.sampling.controls import LabelControls
from dshapley.sampling.draws import Folds
from dshapley.sampling.sizes import bands

GOLDEN = (np.sqrt(5.0) - 1) / 2
REFERENCES = 20
"""The size of the reference sample for 200 points or fewer."""


def plain_draws(k, gains, weights, *, t=None, **more):
    """A record with these sizes and marginals, one row a draw."""
    gains = np.asarray(gains, dtype=np.float32)
    n, k = gains.shape[1], np.asarray(k)
    t = np.arange(len(k)) if t is None else t
    return ds.Draws(
        t=t,
        k=k,
        marginals=gains,
        weights=np.asarray(weights),
        ids=np.arange(n),
        rows=np.ones(n, int),
        **more,
    )


def quantiles(u, weights):
    """The sizes k where the size weights have summed up to u."""
    return 1 + np.minimum(np.searchsorted(np.cumsum(weights), u, side="right"), len(weights) - 1)


class MeanGame:
    """`ds.MeanPotential` on the rows of X, valuing those of Z: of X itself, or in bundles.

    S is the first n[i] places of row i of `index`.
    """

    def __init__(self, X, Z=None, groups=None, *, m=16):
        self.database, self.m, self.same = ds.Points(X), m, Z is None
        self.U, self.X = ds.MeanPotential(self.database), np.asarray(X)
        rows = self.X if Z is None else np.asarray(Z)
        names = np.arange(len(rows)) if groups is None else np.asarray(groups)
        points = ds.Points(rows)
        self.Z = points if groups is None else ds.Bundles(points, names)
        self.sums = np.stack([rows[names == name].sum(axis=0) for name in np.unique(names)])
        self.sizes = np.unique(names, return_counts=True)[1]

    def values(self, m):
        """E U(S + z) = R2 - (n R2 + ||sum of (z - mu)||^2) / (n + |z|)^2 for |S| = n."""
        n = np.arange(m)[:, np.newaxis]
        G2 = ((self.sums - self.sizes[:, np.newaxis] * self.U.mu) ** 2).sum(axis=1)
        after = self.U.R2 - (n * self.U.R2 + G2) / (n + self.sizes) ** 2
        before = np.where(n == 0, 0.0, self.U.R2 - self.U.R2 / np.maximum(n, 1))
        return (after - before).mean(axis=0)

    def label_controls(self, index, n):
        return np.empty((len(n), 0))  # there are no labels

    def gains(self, index, n):
        return self._gains(index, n, self.sums, self.sizes)

    def reference(self, index, n, R):
        rows = self.X if self.same else self.X[R]
        return self._gains(index, n, rows, np.ones(rows.shape[-2], int)).mean(axis=1)

    def worth(self, index, n):
        return self._worth(self._totals(index, n), n)

    def _gains(self, index, n, sums, sizes):
        total = self._totals(index, n)
        after = self._worth(total[:, np.newaxis] + sums, n[:, np.newaxis] + sizes)
        return after - self._worth(total, n)[:, np.newaxis]

    def _totals(self, index, n):
        inside = np.arange(index.shape[1]) < n[:, np.newaxis]
        return np.einsum("ij,ijd->id", inside.astype(float), self.X[index])

    def _worth(self, totals, n):
        means = totals / np.maximum(n, 1)[..., np.newaxis]
        return np.where(n == 0, 0.0, self.U.R2 - ((means - self.U.mu) ** 2).sum(axis=-1))


class KnnGame:
    """Soft-label nearest neighbours, whose values `ds.knn_values` knows."""

    def __init__(self, database, test, Z=None, *, K=3, m=16):
        self.database, self.test, self.K, self.m = database, test, K, m
        self.X, self.same, self.Z = database.X, Z is None, database if Z is None else Z
        self.near, self.far = self._distances(database), self._distances(self.Z)
        self.right = database.y == test.y[:, np.newaxis]
        self.rightly = self.Z.y == test.y[:, np.newaxis]
        # Labels are 0 and 1, so that the controls hang on |S| and the number of ones alone.
        controls = LabelControls.of(database)
        self.by_ones = np.array(
            [[controls((np.arange(n) < ones).astype(int)) for ones in range(m)] for n in range(m)]
        )

    def values(self, m):
        options = {"test": self.test, "points": self.Z, "n_neighbors": self.K}
        return ds.knn_values(self.database, **options, m=m).values

    def label_controls(self, index, n):
        inside = np.arange(index.shape[1]) < n[:, np.newaxis]
        return self.by_ones[n, (self.database.y[index] * inside).sum(axis=1)]

    def gains(self, index, n):
        return self._gains(index, n, self.far[:, np.newaxis], self.rightly[:, np.newaxis])

    def reference(self, index, n, R):
        if self.same:
            return self.gains(index, n).mean(axis=1)
        return self._gains(index, n, self.near[:, R], self.right[:, R]).mean(axis=1)

    def worth(self, index, n):
        return self._nearest(index, n)[1].sum(axis=2).mean(axis=0) / self.K

    def _gains(self, index, n, far, rightly):
        """z comes in where it is nearer than the K-th of S, which goes, if there are so many."""
        distance, right = self._nearest(index, n)
        change = rightly.astype(float) - right[:, :, -1:]
        return ((far < distance[:, :, -1:]) * change).mean(axis=0) / self.K

    def _nearest(self, index, n):
        """Distances and right labels of the K nearest in S, infinitely far where there is none."""
        inside = np.arange(index.shape[1]) < n[:, np.newaxis]
        far = np.where(inside, self.near[:, index], np.inf)
        order = np.argpartition(far, range(self.K), axis=2)[:, :, : self.K]
        right = np.take_along_axis(self.right[:, index] & inside, order, axis=2)
        return np.take_along_axis(far, order, axis=2), right

    def _distances(self, points):
        return ((self.test.X[:, np.newaxis] - points.X) ** 2).sum(axis=2)


def columns(game, t, k, index, nested=None, R=None):
    """What a run keeps of draws t whose S is the first k - 1 places of their rows of `index`."""
    found = {"t": t, "k": k, "marginals": game.gains(index, k - 1).astype(np.float32)}
    if nested is None:
        return found
    some, sizes = t % NESTED_EVERY == 0, bands(game.m) - 1
    nested_U = np.full((len(t), len(sizes)), np.nan)
    here = nested[some]
    nested_U[some] = np.stack([game.worth(here, np.full(len(here), n)) for n in sizes], axis=1)
    return {
        **found,
        "reference": game.reference(index, k - 1, R),
        "nested": nested_U,
        "label_controls": game.label_controls(index, k - 1),
    }


def record(game, rng, n, weights="1/k", *, balanced=False, control_variates=False):
    """A record of n draws, each of a second, with sets from `rng`."""
    m, M, t = game.m, len(game.X), np.arange(n)
    w = ds.sizes.as_weights(weights, m)
    n_label_controls = len(LabelControls.of(game.database)) if control_variates else None
    run = ds.Draws.none(game.Z, weights=w, balanced=balanced, n_label_controls=n_label_controls)
    u = (rng.random() + t * GOLDEN) % 1.0 if balanced else rng.random(n)
    k, index = quantiles(u, w), rng.integers(M, size=(n, m - 1))
    extra = (rng.integers(M, size=(n, size)) for size in (m, REFERENCES))
    found = columns(game, t, k, index, *(extra if control_variates else ()))
    return run.of({**found, "seconds": np.ones(n)})


class CrossGame:
    """Nearest neighbours cross-fitted: each row is tested on the folds that it is not in."""

    def __init__(self, database, folds, *, K=3, m=16):
        self.Z, self.rows, self.m = database, folds, m
        self.folds = Folds(int(folds.max()) + 1, folds)
        self.outside = [np.flatnonzero(folds != f) for f in range(self.folds.n)]
        self.games = [
            KnnGame(database.take(folds != f), database.take(folds == f), K=K, m=m)
            for f in range(self.folds.n)
        ]

    def values(self, m):
        """The mean over the folds that a row is not in: known without any draw."""
        of_folds = np.full((self.folds.n, len(self.Z)), np.nan)
        for fold, game in enumerate(self.games):
            of_folds[fold, self.outside[fold]] = game.values(m)
        return np.nanmean(of_folds, axis=0)


def crossed(game, rng, n, weights="auto", *, balanced=True, control_variates=True):
    """A cross-fitted record of n draws, of `CrossGame`."""
    m, t = game.m, np.arange(n)
    w = ds.sizes.as_weights(weights, m)
    n_label_controls = len(LabelControls.of(game.Z)) if control_variates else None
    run = ds.Draws.none(
        game.Z, weights=w, balanced=balanced, n_label_controls=n_label_controls, folds=game.folds
    )
    u = (rng.random() + t * GOLDEN) % 1.0 if balanced else rng.random(n)
    k, tested = quantiles(u, w), game.folds.of_draws(t)
    found = {"seconds": np.ones(n)}
    for fold, part in enumerate(game.games):
        here, M = np.flatnonzero(tested == fold), len(part.X)
        index = rng.integers(M, size=(len(here), m - 1))
        extra = [rng.integers(M, size=(len(here), m)), None] if control_variates else []
        for name, column in columns(part, t[here], k[here], index, *extra).items():
            whole = column
            if name == "marginals":
                whole = np.full((len(here), len(game.Z)), np.nan, np.float32)
                whole[:, game.outside[fold]] = column
            if name not in found:
                found[name] = np.empty((n, *whole.shape[1:]), whole.dtype)
            found[name][here] = whole
    return run.of(found)
