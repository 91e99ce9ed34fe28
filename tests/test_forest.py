"""Forests: what is kept is what would be grown, and what is drawn is drawn as it should be."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.base import is_regressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import dshapley as ds
from conftest import labelled
from dshapley.learners.fast import Asked, Sample, Shared
from dshapley.learners.trees.forest import Forest, _bags, _drawn, _trees
from dshapley.learners.trees.growth import tree
from dshapley.learners.trees.parameters import Columns, limits_of
from dshapley.learners.trees.splits import scratch
from dshapley.potentials.testing import check_potential

pytestmark = pytest.mark.slow


def numbers(n, d=3, *, seed=0):
    """n points whose label is a number that follows the first two of d features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return ds.Points(X, X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n))


def points_for(estimator, n, d=3, *, seed=0, classes=2):
    if is_regressor(estimator):
        return numbers(n, d, seed=seed)
    return labelled(n, d, seed=seed, classes=classes)


# --- what is kept of the trees of S


FORESTS = [
    RandomForestClassifier(8),
    RandomForestClassifier(8, max_depth=3, min_samples_leaf=3),
    RandomForestClassifier(8, criterion="entropy", max_samples=0.5),
    RandomForestClassifier(8, max_features=None, min_samples_split=7),
    RandomForestClassifier(4, bootstrap=False),
    ExtraTreesClassifier(8),
    ExtraTreesClassifier(8, bootstrap=True, max_features=None),
    RandomForestRegressor(8),
    RandomForestRegressor(8, max_features=0.4, min_samples_leaf=4),
    RandomForestRegressor(8, max_samples=20),
    ExtraTreesRegressor(8, max_features=2),
]


def mixed(n, d, rng):
    """Columns without ties, with many, of two values and constant."""
    X = rng.normal(size=(n, d))
    X[:, 1::4] = np.round(X[:, 1::4])
    X[:, 2::4] = X[:, 2::4] > 0.5
    X[:, 6] = 1.0
    return X


def outputs_anew(estimator, S, Z, asked):
    """What a forest says, each of its trees grown anew from the same rows."""
    data = Columns(S, Z, asked, exact_sums=True)
    d, n = data.S.shape
    limits = limits_of(estimator, d, asked.n_classes, keyed=True, sort=False)
    keys, alone, with_z, n_z = _bags(estimator, n, asked.seed)
    room, one = scratch(n + 1, d, limits), tree(n + 1, limits)
    found = np.zeros((1 + len(Z), len(asked.X), limits.n_classes))
    for z in range(1 + len(Z)):
        rows = data.rows(z - 1, np.ones(limits.n_classes))
        for t in range(len(keys)):
            w = alone[t] if z == 0 else np.append(with_z[t], n_z[t])
            found[z] += _trees(rows._replace(w=w), limits, room, one, keys[t : t + 1], data.test)
    found /= len(keys)
    return found[:, :, 0] if asked.kind == "number" else found


@pytest.mark.parametrize("n", [30, 120])
@pytest.mark.parametrize("estimator", FORESTS, ids=str)
def test_what_z_does_not_reach_is_what_would_be_grown(estimator, n):
    rng = np.random.default_rng(n)
    X = mixed(n + 66, 12, rng)
    score = X[:, 0] + X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=len(X))
    cases = [("probability", np.arange(3), np.digitize(score, [-0.7, 0.7]))]
    if is_regressor(estimator):
        cases = [("number", None, np.round(3.0 * score)), ("number", None, score)]
    for kind, classes, y in cases:
        S, Z = (Sample(X[i], y[i], None) for i in (slice(0, n), slice(n, n + 6)))
        asked = Asked(
            X=X[n + 6 :],
            kind=kind,
            classes=classes,
            queries=(),
            shared=Shared((), {kind: []}),
            seed=n,
        )
        found = np.concatenate(list(Forest(estimator).outputs(S, Z, asked)))
        expected = outputs_anew(estimator, S, Z, asked)
        assert np.ptp(expected, axis=0).max() > 0.0
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("estimator", FORESTS[:1] + FORESTS[7:8], ids=str)
def test_blocks_of_z_change_nothing(estimator, monkeypatch):
    S, Z, test = (points_for(estimator, n, seed=n) for n in (25, 9, 40))
    U = ds.potential(estimator, test=test)
    whole = U.marginals(S, Z)
    monkeypatch.setattr("dshapley.learners.trees.forest._NUMBERS", 160)
    np.testing.assert_array_equal(U.marginals(S, Z), whole)
    np.testing.assert_array_equal(U.marginals(S, Z.take([4, 2])), whole[[4, 2]])


# --- bags


def drawn(n, n_alone, n_with, n_trees=4000):
    keys = np.random.default_rng(n).integers(2**63, size=n_trees, dtype=np.uint64)
    return _drawn(keys, n, n_alone, n_with)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_every_row_is_as_likely(n):
    alone, with_z, n_z = drawn(n, n, n + 1)
    with_z = np.column_stack([with_z, n_z])
    for bags in (alone, with_z):
        n_trees, size = bags.shape
        np.testing.assert_array_equal(bags.sum(axis=1), size)
        error = np.sqrt(size * (1.0 / size) * (1.0 - 1.0 / size) / n_trees)
        assert np.abs(bags.mean(axis=0) - 1.0).max() <= 4.0 * error
        # Each place is a draw of its own: the counts are binomial.
        spread = 1.0 - 1.0 / size
        assert np.abs(bags.var(axis=0) - spread).max() <= 0.2 * spread


def test_two_places_of_a_bag_have_nothing_to_do_with_each_other():
    """The counts of two rows: multinomial, so they correlate by -1 / (n - 1)."""
    alone, _, _ = drawn(5, 5, 6, n_trees=20_000)
    found = np.corrcoef(alone.T)[np.triu_indices(5, 1)]
    assert np.abs(found + 0.25).max() <= 4.0 / np.sqrt(20_000)


def test_bags_agree_but_for_the_places_of_z():
    n = 30
    alone, with_z, n_z = drawn(n, n, n)
    # As many places: those that z takes are lost to the rows that had them.
    np.testing.assert_array_equal((alone - with_z).sum(axis=1), n_z)
    assert (alone >= with_z).all()
    # One place more, which is z's or that of one row.
    alone, with_z, n_z = drawn(n, n, n + 1)
    more = np.maximum(with_z - alone, 0.0).sum(axis=1)
    assert set(more.tolist()) == {0.0, 1.0}
    without = n_z == 0.0
    np.testing.assert_array_equal((with_z - alone)[without].sum(axis=1), 1.0)
    share = (1.0 - 1.0 / (n + 1)) ** (n + 1)
    assert abs(without.mean() - share) <= 4.0 * np.sqrt(share * (1.0 - share) / len(n_z))


def test_bags_of_growing_sets_agree():
    """The bags of S with z are those of S + z, whose last row is z."""
    keys = np.arange(50, dtype=np.uint64) ** np.uint64(3)
    for n in (1, 4, 20):
        _, with_z, n_z = _drawn(keys, n, n, n + 1)
        larger, _, _ = _drawn(keys, n + 1, n + 1, n + 2)
        np.testing.assert_array_equal(np.column_stack([with_z, n_z]), larger)


@pytest.mark.parametrize(
    ("max_samples", "alone", "together"),
    [(None, 50, 51), (7, 7, 7), (0.5, 25, 25), (0.31, 15, 15), (1.0, 50, 51)],
)
def test_as_many_rows_as_scikit_learn_draws(max_samples, alone, together):
    from sklearn.ensemble._forest import _get_n_samples_bootstrap

    _, bags, with_z, n_z = _bags(RandomForestClassifier(20, max_samples=max_samples), 50, 3)
    np.testing.assert_array_equal(bags.sum(axis=1), alone)
    np.testing.assert_array_equal(with_z.sum(axis=1) + n_z, together)
    assert [_get_n_samples_bootstrap(n, max_samples, None) for n in (50, 51)] == [alone, together]


def test_without_a_bootstrap_every_tree_has_every_row():
    _, *bags = _bags(RandomForestClassifier(5, bootstrap=False), 9, 3)
    assert [np.unique(bag).tolist() for bag in bags] == [[1.0]] * 3


# --- equal in distribution to scikit-learn's


def table(name, *, k, seed):
    """S of k rows, some z and a test set, of a real table."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    parts = order[:k], order[k : k + 3], order[k + 3 : k + 303]
    return [ds.Points(X[part], y[part]) for part in parts]


def over_seeds(estimator, S, z, test, metric, path, seeds):
    """U(S) and U(S + z), for each seed."""
    U = ds.potential(estimator, test=test, metric=metric, retrain=path)
    return np.array([U.learner.scores(S, z, U.query, seed) for seed in seeds])


def alike(found, expected):
    """Two samples of equal size: their means to 3 standard errors, and their spread too."""
    n = len(found)
    error = np.sqrt((found.var(axis=0, ddof=1) + expected.var(axis=0, ddof=1)) / n)
    z = (found.mean(axis=0) - expected.mean(axis=0)) / error
    assert np.abs(z).max() <= 3.0, z
    ratio = np.log(found.std(axis=0) / expected.std(axis=0))
    # For samples that are about normal; scores have somewhat longer tails.
    assert np.abs(ratio).max() <= 4.0 / np.sqrt(n), np.exp(ratio)


@pytest.mark.parametrize(
    ("estimator", "name", "metric"),
    [
        (RandomForestClassifier(20), "digits", "accuracy"),
        (RandomForestClassifier(20, max_features=0.5), "breast_cancer", "log_score"),
        (RandomForestClassifier(10, criterion="entropy", max_samples=0.4), "wine", "brier"),
        (ExtraTreesClassifier(10), "breast_cancer", "brier"),
        (DecisionTreeClassifier(max_features="sqrt"), "digits", "accuracy"),
        (RandomForestRegressor(10, min_samples_leaf=2), "diabetes", "neg_mse"),
        (ExtraTreesRegressor(10, max_depth=5), "diabetes", "neg_mse"),
    ],
    ids=str,
)
def test_equal_in_distribution_to_scikit_learn(estimator, name, metric):
    S, Z, test = table(name, k=60, seed=4)
    found = over_seeds(estimator, S, Z.take([0]), test, metric, "never", range(60))
    expected = over_seeds(estimator, S, Z.take([0]), test, metric, "always", range(100, 160))
    alike(found, expected)


@pytest.mark.parametrize(
    ("estimator", "name", "metric"),
    [
        (RandomForestClassifier(15), "digits", "brier"),
        (RandomForestRegressor(15), "diabetes", "neg_mse"),
        (ExtraTreesClassifier(15, bootstrap=True), "breast_cancer", "log_score"),
    ],
    ids=str,
)
def test_coupled_bags_cut_the_variance_of_marginals(estimator, name, metric):
    """Against U(S + z) - U(S) where both draw on their own; the mean is the same."""
    S, Z, test = table(name, k=64, seed=5)
    U = ds.potential(estimator, test=test, metric=metric, retrain="never")
    worth = np.array([U.seeded(seed)(S) for seed in range(120)])
    coupled = np.array([U.seeded(seed).marginals(S, Z) for seed in range(60)])
    apart = (coupled + worth[:60, np.newaxis]) - worth[60:, np.newaxis]
    variances = [gains.var(axis=0, ddof=1) for gains in (apart, coupled)]
    assert variances[0].mean() > 1.5 * variances[1].mean()
    error = np.sqrt(sum(variances) / 60)
    assert (np.abs(apart.mean(axis=0) - coupled.mean(axis=0)) <= 4.0 * error).all()


@pytest.mark.parametrize(
    ("estimator", "name", "metric"),
    [
        (RandomForestClassifier(10), "digits", "brier"),
        (RandomForestRegressor(10), "diabetes", "neg_mse"),
    ],
    ids=str,
)
def test_marginals_vary_less_than_refitted_ones(estimator, name, metric):
    """A bootstrap of 64 and one of 65 rows share nothing in scikit-learn, from equal states.

    Within powers of two they do: there numpy's generator gives the same rows but for those of z.
    """
    S, Z, test = table(name, k=64, seed=5)
    coupled, refitted = (
        np.array([U.seeded(seed).marginals(S, Z) for seed in range(30)]).var(axis=0, ddof=1)
        for path in ("never", "always")
        for U in [ds.potential(estimator, test=test, metric=metric, retrain=path)]
    )
    assert refitted.mean() > 1.5 * coupled.mean()


# --- the contract


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(4),
        RandomForestClassifier(4, max_samples=0.4),
        RandomForestClassifier(4, bootstrap=False, class_weight="balanced"),
        RandomForestRegressor(4, max_features=2),
        ExtraTreesClassifier(4),
        ExtraTreesClassifier(4, bootstrap=True, max_samples=0.6),
        ExtraTreesClassifier(4, class_weight={0: 1.0, 1: 3.0, 2: 2.0}),
        ExtraTreesRegressor(4),
        DecisionTreeClassifier(),
        DecisionTreeClassifier(class_weight="balanced", max_features=2, splitter="random"),
        DecisionTreeRegressor(max_depth=3),
        AdaBoostClassifier(n_estimators=4),
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2, max_features=1), n_estimators=3),
        GradientBoostingClassifier(n_estimators=3),
        GradientBoostingClassifier(n_estimators=3, subsample=0.5, max_features=2),
        GradientBoostingRegressor(n_estimators=3),
        GradientBoostingRegressor(n_estimators=3, subsample=0.7, max_features="sqrt"),
    ],
    ids=str,
)
def test_they_keep_the_contract(estimator):
    for n, classes in ((12, 2), (40, 3)):
        U = ds.potential(
            estimator, test=points_for(estimator, 30, seed=1, classes=classes), retrain="never"
        )
        check_potential(U, points_for(estimator, n, classes=classes))


@pytest.mark.parametrize(
    "estimator",
    [RandomForestRegressor(4), ExtraTreesRegressor(4), GradientBoostingRegressor(n_estimators=3)],
    ids=str,
)
def test_ties_of_decimals_are_broken_alike(estimator):
    """0.1 + 0.4 and 0.2 + 0.3: equal or not, in the same way for S + z however it is asked for."""
    points, test = numbers(12), numbers(30, seed=1)
    points = ds.Points(points.X, np.round(points.y, 1))
    Z = points.take(range(8))
    for seed in range(24):
        S = points.sample((2, 3, 6, 7, 14, 15)[seed % 6], np.random.default_rng(seed))
        U = ds.potential(estimator, test=test, retrain="never").seeded(seed)
        expected = [U(S + z) - U(S) for z in Z]
        np.testing.assert_allclose(U.marginals(S, Z), expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(5),
        ExtraTreesClassifier(5),
        DecisionTreeClassifier(max_features=1),
        AdaBoostClassifier(n_estimators=4),
        GradientBoostingClassifier(n_estimators=3, subsample=0.5),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_workers_change_nothing(estimator, database, held_out, offered):
    U = ds.potential(estimator, test=held_out, metric="brier", retrain="never")
    design = ds.Design(database, m=20, weights="1/k", seed=1)
    one, two = (ds.run(U, design, offered, stop=8, n_jobs=n) for n in (1, 2))
    assert one.marginals.tobytes() == two.marginals.tobytes()
    assert np.abs(one.marginals).max() > 0.0


# --- sets that are special


SPECIAL = [DecisionTreeClassifier(), RandomForestClassifier(4), ExtraTreesClassifier(4)]


def special_sets():
    points = labelled(40, classes=3)
    yield points
    yield points.take([])
    for labels in ([1], [0, 2]):
        yield points.take(np.isin(points.y, labels))


@pytest.mark.parametrize("min_rows", [1, 15])
@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "log_score"])
@pytest.mark.parametrize("estimator", SPECIAL, ids=str)
def test_new_classes_one_class_nothing_and_bundles(estimator, metric, min_rows):
    Z, test = labelled(8, seed=1, classes=3), labelled(40, seed=2, classes=3)
    assert set(Z.y.tolist()) == {0, 1, 2}
    U, refit = (
        ds.potential(estimator, test=test, metric=metric, min_rows=min_rows, retrain=path)
        for path in ("never", "always")
    )
    for S in special_sets():
        for offered in (Z, ds.Bundles(Z, np.arange(8) // 3)):
            gains = U.marginals(S, offered)
            expected = [U(S + z) - U(S) for z in offered]
            np.testing.assert_allclose(gains, expected, rtol=0.0, atol=1e-12)
            if isinstance(estimator, DecisionTreeClassifier):
                np.testing.assert_array_equal(gains, refit.marginals(S, offered))
        if len(np.unique(S.y)) < 2:
            assert U(S) == refit(S)


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(3), ExtraTreesClassifier(3), DecisionTreeClassifier(),
     RandomForestRegressor(3), DecisionTreeRegressor()],
    ids=str,
)  # fmt: skip
def test_missing_values_are_refitted(estimator):
    S, Z, test = (points_for(estimator, n, seed=n) for n in (30, 4, 40))
    holes = S.X.copy()
    holes[::7, 1] = np.nan
    whole, broken = S, ds.Points(holes, S.y)
    U, refit = (ds.potential(estimator, test=test, retrain=path) for path in ("never", "always"))
    U.check(broken, name="database")
    np.testing.assert_array_equal(U.marginals(broken, Z), refit.marginals(broken, Z))
    # Of Z only what has holes is refitted.
    mixed = ds.Points([[0.1, np.nan, 0.2], [0.1, 0.3, 0.2]], S.y[:2])
    gains = U.marginals(whole, mixed)
    assert U(whole) + gains[0] == pytest.approx(refit(whole + mixed.take([0])), abs=1e-12)
    assert gains[1] == U.marginals(whole, mixed.take([1]))[0]
    np.testing.assert_allclose(gains, [U(whole + z) - U(whole) for z in mixed], atol=1e-12)
    T = ds.potential(estimator, test=broken, retrain="never")
    assert T(whole) == ds.potential(estimator, test=broken, retrain="always")(whole)


@pytest.mark.parametrize("estimator", [AdaBoostClassifier(), GradientBoostingClassifier()], ids=str)
def test_missing_values_are_refused_where_scikit_learn_does(estimator):
    U = ds.potential(estimator, test=labelled(20))
    with pytest.raises(ds.InputError, match="has NaN in column 1"):
        U.check(ds.Points([[0.1, np.nan, 0.2]], [1]), name="database")


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(3), DecisionTreeClassifier(), AdaBoostClassifier(n_estimators=2),
     GradientBoostingClassifier(n_estimators=2), RandomForestRegressor(3)],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_beyond_single_precision_are_an_error(estimator):
    S, test = points_for(estimator, 20), points_for(estimator, 20, seed=1)
    U = ds.potential(estimator, test=test, retrain="never")
    huge = ds.Points(S.X * 1e300, S.y)
    with pytest.raises(ds.FitError, match="too large for dtype\\('float32'\\)"):
        U(huge)
    with pytest.raises(ds.FitError, match="too large for dtype\\('float32'\\)"):
        U.marginals(S, huge.take([3]))


def test_names_for_labels():
    """The codes of classes are not their labels."""
    names = np.array(["fir", "ash", "elm"])
    S, Z, test = (labelled(n, seed=n, classes=3) for n in (30, 4, 40))
    named = [ds.Points(part.X, names[part.y]) for part in (S, Z, test)]
    U, refit = (
        ds.potential(DecisionTreeClassifier(max_depth=3), test=named[2], metric="f1", retrain=path)
        for path in ("never", "always")
    )
    np.testing.assert_array_equal(U.marginals(*named[:2]), refit.marginals(*named[:2]))


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "f1", "roc_auc", "brier"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_tree_is_scikit_learns(classes, metric):
    """The same random state, the same tree: also where features are drawn."""
    S, Z, test = (labelled(n, 8, seed=n, classes=classes) for n in (80, 5, 60))
    estimators = [
        DecisionTreeClassifier(),
        DecisionTreeClassifier(max_features=2, criterion="entropy", min_samples_leaf=3),
        DecisionTreeClassifier(class_weight={0: 3.0}, max_depth=4, min_samples_split=6),
    ]
    if metric != "roc_auc":  # sums of probabilities tie or not by the order they were added in
        estimators += [
            ExtraTreesClassifier(3, class_weight={1: 2.0}, min_samples_leaf=2),
            RandomForestClassifier(3, class_weight={0: 2.0}, bootstrap=False),
        ]
    for estimator in estimators:
        U, refit = (
            ds.potential(estimator, test=test, metric=metric, retrain=path).seeded(9)
            for path in ("never", "always")
        )
        found, expected = U.marginals(S, Z), refit.marginals(S, Z)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)
        assert U(S) == pytest.approx(refit(S), abs=1e-12)


@pytest.mark.parametrize("metric", ["r2", "neg_mse", lambda y, f: -float(np.abs(y - f).max())])
def test_a_tree_of_numbers_is_scikit_learns(metric):
    S, Z, test = (numbers(n, 5, seed=n) for n in (120, 5, 60))
    for estimator in (
        DecisionTreeRegressor(min_samples_leaf=8),
        DecisionTreeRegressor(max_features=2, min_samples_leaf=8),
        DecisionTreeRegressor(max_depth=3, min_samples_split=20, min_samples_leaf=4),
    ):
        U, refit = (
            ds.potential(estimator, test=test, metric=metric, retrain=path).seeded(9)
            for path in ("never", "always")
        )
        found, expected = U.marginals(S, Z), refit.marginals(S, Z)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)


# --- where it broke once


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(10, max_samples=0.5, min_samples_leaf=2),
        RandomForestClassifier(10, max_depth=2, criterion="entropy"),
    ],
)
def test_marginals_are_differences_of_U_where_class_shares_tie(estimator):
    X, y = datasets.load_wine(return_X_y=True)
    order = np.random.default_rng(3).permutation(len(X))
    rows = ds.Points(X[order], y[order])
    U = ds.potential(estimator, test=rows.take(range(100, 178))).seeded(4)
    S, Z = rows.take(range(29)), rows.take(range(29, 69))
    direct = [U(S + Z.take([z])) - U(S) for z in range(len(Z))]
    np.testing.assert_allclose(U.marginals(S, Z), direct, atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(5),
        DecisionTreeRegressor(),
        GradientBoostingRegressor(n_estimators=3),
    ],
)
def test_a_huge_y_of_one_point_leaves_the_others_as_they_are(estimator):
    points = numbers(60)
    U = ds.potential(estimator, test=points.take(range(45, 60)), metric="r2")
    S, Z = points.take(range(40)), points.take(range(40, 45))
    with_outlier = ds.Points(Z.X, np.append(Z.y[:-1], 1e17))
    np.testing.assert_array_equal(U.marginals(S, Z)[:-1], U.marginals(S, with_outlier)[:-1])


@pytest.mark.parametrize("max_samples", [3, 0.3])
def test_bags_of_nothing(max_samples):
    estimator = RandomForestRegressor(7, max_samples=max_samples)
    _, alone, with_z, n_z = _bags(estimator, 0, 0)
    assert alone.shape == with_z.shape == (7, 0)
    assert (n_z == (3 if max_samples == 3 else 1)).all()
    points = numbers(20)
    U = ds.potential(estimator, test=points)
    nothing = points.take([])
    expected = [U(z) - U(nothing) for z in points]
    np.testing.assert_allclose(U.marginals(nothing, points), expected, rtol=0.0, atol=1e-12)


def test_a_missing_value_concerns_its_own_point_alone():
    points = labelled(80, seed=1)
    U = ds.potential(RandomForestClassifier(10), test=labelled(60, seed=2))
    S, Z = points.take(range(30)), points.take(range(30, 50))
    X = Z.X.copy()
    X[7, 1] = np.nan
    gains, other = U.marginals(S, Z), U.marginals(S, ds.Points(X, Z.y))
    np.testing.assert_array_equal(np.delete(gains, 7), np.delete(other, 7))


@pytest.mark.parametrize("path", ["never", "always"])
def test_adaboost_on_rows_that_contradict_is_the_constant_predictor(path):
    test = ds.Points(np.array([[0.0], [1.0], [2.0]]), [0, 1, 1])
    U = ds.potential(AdaBoostClassifier(), test=test, retrain=path)
    contradicting = ds.Points(np.zeros((4, 1)), [0, 1, 0, 1])
    assert U(contradicting) == pytest.approx(1 / 3)
