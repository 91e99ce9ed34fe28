"""Cross-fitting: every row gets a value, on rows that are not itself, with an error that holds."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import dshapley as ds
from conftest import labelled
from dshapley.data.folds import in_folds
from dshapley.errors import InputError
from dshapley.inference.estimation import NESTED_EVERY
from dshapley.sampling.crossfitting import CrossFitted, cross_fitted
from dshapley.sampling.draws import NO_FOLD, Folds
from records import REFERENCES, CrossGame, columns, crossed
from test_neighbours import soft_knn

DEFAULT = {"weights": "auto", "balanced": True, "control_variates": True}


@dataclass
class SoftNeighbours:
    """A potential whose values are known, with what cross-fitting asks of one."""

    test: ds.Points
    K: int = 3

    def __call__(self, S):
        return soft_knn(self.test, self.K)(S)

    def check_test(self, test, of):
        assert set(test.ids) <= set(of.ids)

    def check(self, points, *, name):
        pass

    def warm_up(self, database, Z):
        pass

    def empty_value(self):
        return 0.0

    def describe(self):
        return {"potential": "soft neighbours", "metric": "share right"}


def known(n=60, *, seed=0, m=16):
    database = labelled(n, seed=seed)
    rows = cross_fitted(SoftNeighbours(database), database, seed=seed).rows
    return CrossGame(database, rows, m=m)


# --- what a draw of a cross-fitted run is


def test_a_draw_trains_and_values_outside_the_fold_it_tests_on():
    database = labelled(40)
    cross = cross_fitted(SoftNeighbours(database), database, seed=3)
    design = ds.Design(database, 9, seed=3, folds=cross.rows)
    run = ds.run(cross, design, database, stop=25)
    for t in range(25):
        draw = design.draw(t)
        tested = set(cross.on(t).test.ids.tolist())
        assert tested == set(database.ids[cross.rows == t % 5].tolist())
        assert not tested & set(draw.S.ids.tolist())
        valued = ~np.isnan(run.marginals[t])
        assert valued.tolist() == (cross.rows != t % 5).tolist()
        U = soft_knn(cross.on(t).test, 3)
        for z in np.flatnonzero(valued)[:3]:
            gain = U(draw.S + database.take([z])) - U(draw.S)
            assert run.marginals[t, z] == pytest.approx(gain, abs=1e-6)


def test_a_simulated_record_is_that_of_a_run():
    """With control variates: the simulations below speak of real runs."""
    game = known(40)
    database = game.Z
    cross = cross_fitted(SoftNeighbours(database), database, seed=0)
    design = ds.Design(
        database, 16, weights="1/k", seed=2, control_variates=True, balanced=True, folds=cross.rows
    )
    run = ds.run(cross, design, database, stop=70)
    for t in range(70):
        draw, fold = design.draw(t), game.games[t % 5]
        place = {name: i for i, name in enumerate(fold.database.ids.tolist())}

        def places(S, place=place):
            return np.array([[place[i] for i in S.ids.tolist()] + [0] * (16 - len(S))])

        some = design.nested(t) if t % NESTED_EVERY == 0 else design.database.take([])
        R = design.reference(t, REFERENCES).ids
        found = columns(
            fold,
            np.array([t]),
            np.array([draw.k]),
            places(draw.S),
            places(some) if len(some) else np.zeros((1, 16), int),
            np.array([[place[i] for i in R.tolist()]]),
        )
        outside = game.outside[t % 5]
        np.testing.assert_allclose(run.marginals[t, outside], found["marginals"][0], atol=2e-7)
        if len(some):
            np.testing.assert_allclose(
                run.control_variates.nested[t], found["nested"][0], atol=1e-12
            )
        controls = found["label_controls"][0]
        np.testing.assert_allclose(
            run.control_variates.label_controls[t][: len(controls)], controls
        )


@pytest.mark.slow
def test_values_are_the_means_over_the_folds_a_row_is_not_in():
    """By complete knowledge: the mean of 300 short runs is within its own error."""
    game, rng = known(), np.random.default_rng(0)
    truth = game.values(16)
    for how in (DEFAULT, {"weights": "1/k", "balanced": False, "control_variates": False}):
        errors = np.array(
            [ds.estimate(crossed(game, rng, 60, **how)).values - truth for _ in range(300)]
        )
        z = errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(300))
        assert np.abs(z).max() < 4.2
        assert np.sqrt((z**2).mean()) < 1.5  # rows share their draws


# --- its errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [DEFAULT, {"weights": "1/k", "balanced": False, "control_variates": False}],
    ids=["default", "1/k"],
)
def test_errors_of_the_draws_hold_wherever_a_run_is_interrupted(how):
    """`of_draws`: the average over these test rows, after 60 to 3,000 draws at random."""
    game, rng = known(), np.random.default_rng(0)
    truth, covered = game.values(16), []
    for _ in range(200):
        n = int(np.exp(rng.uniform(np.log(60), np.log(3000))))
        found = ds.estimate(crossed(game, rng, n, **how))
        if not found.unseen:
            low, high = found.of_draws.interval(0.95)
            covered.append(((low <= truth) & (truth <= high)).mean())
    assert len(covered) > 100
    error = np.std(covered) / np.sqrt(len(covered))
    assert 0.93 - 2 * error < np.mean(covered) < 0.97 + 2 * error


@pytest.fixture(scope="module")
def with_fresh_rows():
    """For 80 databases: estimates of runs, and the values that 1,500 fresh test rows would give.

    S and z stay rows of the same database, so that nothing but the test rows is different.
    """
    rng, found = np.random.default_rng(0), []
    fresh = labelled(1500, seed=10_000)
    for seed in range(80):
        game = known(60, seed=seed)
        n = int(np.exp(rng.uniform(np.log(100), np.log(3000))))
        valuation = ds.estimate(crossed(game, rng, n, **DEFAULT))
        of_folds = np.full((5, 60), np.nan)
        for fold, part in enumerate(game.games):
            values = ds.knn_values(part.database, test=fresh, n_neighbors=3, m=16).values
            of_folds[fold, game.outside[fold]] = values
        found.append((valuation, np.nanmean(of_folds, axis=0)))
    return found


@pytest.mark.slow
def test_intervals_hold_for_fresh_test_rows(with_fresh_rows):
    """The error of the test rows is in them. Those of the draws alone would cover a quarter."""
    covered, alone = [], []
    for valuation, truth in with_fresh_rows:
        for found, of in ((valuation, covered), (valuation.of_draws, alone)):
            low, high = found.interval(0.95)
            of.append(((low <= truth) & (truth <= high)).mean())
    # 94 % and 23 %, each to about three standard errors over the databases.
    assert np.mean(covered) == pytest.approx(0.95, abs=3 * np.std(covered) / np.sqrt(80))
    assert np.mean(alone) == pytest.approx(0.23, abs=3 * np.std(alone) / np.sqrt(80))


@pytest.mark.slow
def test_reliability_is_the_squared_correlation_with_fresh_rows(with_fresh_rows):
    stated = [valuation.reliability for valuation, _ in with_fresh_rows]
    squared = [np.corrcoef(v.values, truth)[0, 1] ** 2 for v, truth in with_fresh_rows]
    difference = np.array(stated) - np.array(squared)
    # Rather too low than too high: 0.27 on average where it is 0.37.
    assert difference.mean() == pytest.approx(-0.1, abs=3 * difference.std() / np.sqrt(80))
    assert np.mean(squared) == pytest.approx(0.37, abs=3 * np.std(squared) / np.sqrt(80))
    of_draws = [valuation.of_draws.reliability for valuation, _ in with_fresh_rows]
    assert np.mean(of_draws) > 0.95


def test_more_draws_bring_down_the_errors_of_the_draws_alone():
    game, rng = known(), np.random.default_rng(0)
    few, many = (ds.estimate(crossed(game, rng, n, **DEFAULT)) for n in (200, 3200))
    # Sixteen times the draws: a fifth, and nine tenths of what the folds have a part in.
    assert many.of_draws.stderr.mean() / few.of_draws.stderr.mean() < 0.25
    assert many.stderr.mean() / few.stderr.mean() > 0.8
    assert many.widened > few.widened


def test_influences_add_up_to_the_errors():
    """Of every row, however much the folds widen its error: ranks and differences use them."""
    game, rng = known(), np.random.default_rng(0)
    found = ds.estimate(crossed(game, rng, 400, **DEFAULT))
    np.testing.assert_allclose((found.influence() ** 2).sum(axis=0), found.stderr**2)
    assert found.widened > 1
    assert (found.stderr >= found.of_draws.stderr).all()
    mean_square = (found.stderr**2).mean() / (found.of_draws.stderr**2).mean()
    assert found.widened**2 == pytest.approx(mean_square)


def test_rows_that_depend_more_on_the_test_rows_have_larger_errors():
    """Half the rows differ between folds, half do not: pooled alone, all errors would be alike."""
    folds = np.arange(40) % 5
    rng, t = np.random.default_rng(0), np.arange(600)
    moved = np.where(np.arange(40) < 20, 1.0, 0.0) * rng.normal(size=(5, 40))
    gains = (moved[t % 5] + rng.normal(size=(600, 40))).astype(np.float32)
    gains[(t % 5)[:, np.newaxis] == folds] = np.nan
    record = ds.Draws(
        t=t,
        k=np.ones(600, int),
        marginals=gains,
        weights=np.ones(1),
        ids=np.arange(40),
        rows=np.ones(40, int),
        folds=Folds(5, folds),
    )
    error = ds.estimate(record).stderr
    assert error[:20].mean() > 1.3 * error[20:].mean()


# --- the folds


def test_folds_are_even_and_random():
    database = labelled(103)
    one, two = (in_folds(database, seed=seed) for seed in (0, 1))
    assert sorted(np.bincount(one)) == [20, 20, 21, 21, 21]
    # By chance a fifth of the rows is in the same fold twice.
    assert (one != two).mean() == pytest.approx(0.8, abs=3 * np.sqrt(0.8 * 0.2 / 103))
    assert (one == in_folds(database, seed=0)).all()


def test_every_class_is_in_every_fold_where_that_can_be():
    y = np.array(["common"] * 95 + ["rare"] * 5)
    for seed in range(20):
        folds = in_folds(ds.Points(np.arange(100.0)[:, np.newaxis], y), seed=seed)
        assert sorted(folds[95:]) == [0, 1, 2, 3, 4]
        assert (np.bincount(folds) == 20).all()


def test_folds_do_not_even_out_common_classes():
    """Even classes would hide how much the answer depends on the test rows."""
    y = np.repeat(["a", "b"], 100)
    points = ds.Points(np.arange(200.0)[:, np.newaxis], y)
    shares = [
        (y[folds == fold] == "a").mean()
        for folds in (in_folds(points, seed=seed) for seed in range(40))
        for fold in range(5)
    ]
    expected = np.sqrt(0.25 / 40 * (1 - 40 / 200) * 200 / 199)
    # Of 200 shares; the last of each five follows from the others.
    assert np.std(shares) == pytest.approx(expected, rel=3 / np.sqrt(2 * 160))


def test_bundles_are_kept_in_one_fold():
    database = labelled(90)
    groups = np.arange(90) // 6
    Z = ds.Bundles(database, groups)
    cross = cross_fitted(SoftNeighbours(database), Z)
    assert all(len(set(cross.rows[groups == g])) == 1 for g in range(15))
    assert cross.folds.of.tolist() == [cross.rows[groups == g][0] for g in Z.ids]
    found = ds.value(database, model=GaussianNB(), groups=groups, m=8, stop=60)
    assert len(found) == 15
    assert np.isfinite(found.values).all()


def test_rows_from_elsewhere_are_valued_by_every_draw():
    database, other = labelled(40), labelled(6, seed=5)
    cross = cross_fitted(SoftNeighbours(database), other)
    assert (cross.folds.of == NO_FOLD).all()
    found = ds.value(database, model=GaussianNB(), points=other, m=8, stop=30)
    assert not np.isnan(found.draws.marginals).any()


def test_a_row_that_is_also_in_the_database_is_never_tested_on():
    """Brought as points of its own, and as integers where the database has floats."""
    X = np.arange(60.0).reshape(30, 2)
    database = ds.Points(X, np.arange(30) % 2)
    again = ds.Points(X[[3, 17]].astype(int), np.array([1, 1]))
    cross = cross_fitted(SoftNeighbours(database), again)
    assert cross.folds.of.tolist() == cross.rows[[3, 17]].tolist()


def test_large_folds_are_tested_on_in_parts():
    """In turn, and all rows: a sample of them would add its luck to all values."""
    database = labelled(205)
    cross = cross_fitted(SoftNeighbours(database), database, most=10)
    for fold in range(5):
        tests = [cross.on(t).test for t in range(fold, 50, 5)]
        assert all(7 <= len(test) <= 10 for test in tests)
        assert all(abs(test.y.mean() - database.y.mean()) < 0.25 for test in tests)
        ids = np.concatenate([test.ids for test in tests[:5]])
        assert sorted(ids) == database.ids[cross.rows == fold].tolist()
        assert tests[0].key == tests[5].key
    design = ds.Design(database, 9, folds=cross.rows)
    run = ds.run(cross, design, database, stop=25)
    for t in (0, 7, 24):
        z = int(np.flatnonzero(~np.isnan(run.marginals[t]))[0])
        U, draw = soft_knn(cross.on(t).test, 3), design.draw(t)
        gain = U(draw.S + database.take([z])) - U(draw.S)
        assert run.marginals[t, z] == pytest.approx(gain, abs=1e-6)


# --- as users call it


def test_every_row_gets_a_value_by_default():
    database = labelled(50)
    found = ds.value(database, model=LogisticRegression(), m=10, stop=60)
    assert len(found) == 50
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.stderr).all()
    assert found.ids.tolist() == database.ids.tolist()


def test_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=60)
    found = ds.value(X, y, model=Ridge(), m=20, stop=80)
    assert found.about.identity.metric == "neg_mse"
    assert np.isfinite(found.stderr).all()


def test_a_share_is_set_aside_and_gets_no_value():
    database = labelled(50)
    found = ds.value(database, model=GaussianNB(), test=0.2, m=8, stop=20)
    assert len(found) == 40
    assert found.draws.folds is None
    groups = np.arange(50) // 5
    found = ds.value(database, model=GaussianNB(), test=0.2, groups=groups, m=8, stop=20)
    assert found.rows.sum() == 40


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("folds", "test = 'folds': give 'cross', a share of the rows, or a pair"),
        (None, "test = None: give 'cross', a share"),
        (True, "test = True: give 'cross', a share"),
        (0.0, "test size 0.0: give a share of the rows between 0 and 1"),
        (1, "test size 1.0: give a share of the rows between 0 and 1"),
    ],
)
def test_what_test_may_be(test, says):
    with pytest.raises(InputError, match=says):
        ds.value(labelled(30), model=GaussianNB(), test=test, m=5, stop=4)


def test_too_few_rows_or_bundles():
    with pytest.raises(InputError, match="cross-fitting needs at least three rows or bundles"):
        ds.value(labelled(12), model=GaussianNB(), groups=[0] * 6 + [1] * 6, m=5, stop=4)


def test_bad_seeds_are_refused_before_rows_are_divided():
    for test in ("cross", 0.2):
        for seed in (-1, 1.5, "a"):
            with pytest.raises(InputError, match="seed = "):
                ds.value(labelled(30), model=GaussianNB(), test=test, m=5, stop=4, seed=seed)


@pytest.mark.slow
def test_workers_and_resuming_change_no_bit(tmp_path):
    database = labelled(60)
    call = {"model": LogisticRegression(), "m": 12, "seed": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = ds.value(database, **call, stop=70)
        workers = ds.value(database, **call, stop=70, n_jobs=2)
        ds.value(database, **call, stop=20, store=tmp_path / "run")
        resumed = ds.value(database, **call, stop=70, store=tmp_path / "run")
    for other in (workers, resumed):
        assert other.values.tobytes() == whole.values.tobytes()
        assert other.stderr.tobytes() == whole.stderr.tobytes()


def test_a_run_folder_keeps_the_folds(tmp_path):
    made = ds.value(labelled(60), model=GaussianNB(), m=12, stop=70, store=tmp_path / "run")
    read = ds.load_run(tmp_path / "run")
    assert read.folds.n == 5
    np.testing.assert_array_equal(read.folds.of, made.draws.folds.of)
    np.testing.assert_array_equal(ds.estimate(read).stderr, made.stderr)


def test_another_database_cannot_be_resumed(tmp_path):
    database = labelled(60)
    ds.value(database, model=GaussianNB(), m=12, stop=10, store=tmp_path / "run")
    other = ds.Points(database.X + 1, database.y, ids=database.ids)
    with pytest.raises(InputError):
        ds.value(other, model=GaussianNB(), m=12, stop=20, store=tmp_path / "run")


def test_smaller_data_sets_and_predictions_come_from_the_same_draws():
    database = labelled(80)
    found = ds.value(database, model=LogisticRegression(), m=20, stop=200)
    smaller = found.at(m=5)
    assert smaller.m == 5
    assert np.isfinite(smaller.stderr).all()
    assert np.isfinite(ds.profile.size_profile(found.draws).means).all()
    predicted = found.predict(labelled(5, seed=9))
    assert np.isfinite(predicted.values).all()
    assert (predicted.stderr > 0).all()


def test_a_share_measured_and_the_rest_predicted():
    database = labelled(200)
    found = ds.value(
        database, model=LogisticRegression(), m=10, stop=100, sampling=ds.Sampling(share=0.4)
    )
    assert len(found) == 200
    assert abs(found.predicted.sum() - 120) <= 3 * np.sqrt(200 * 0.4 * 0.6)
    assert np.isfinite(found.values).all()
    assert found.of_draws.stderr[~found.predicted].mean() <= (
        found.stderr[~found.predicted].mean() + 1e-12
    )


@pytest.mark.slow
def test_pipelines_and_frames():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    points = labelled(60)
    frame = pd.DataFrame(points.X, columns=list("abc"), index=[f"row{i}" for i in range(60)])
    model = make_pipeline(StandardScaler(), LogisticRegression())
    for preprocess, path in (("once", "auto"), ("each", "always")):
        found = ds.value(
            frame,
            points.y,
            model=model,
            m=10,
            stop=40,
            fitting=ds.Fitting(preprocess=preprocess, retrain=path),
        )
        assert found.to_frame().index.tolist() == frame.index.tolist()


def test_draws_that_leave_out_a_point_have_no_estimate():
    game = known()
    record = crossed(game, np.random.default_rng(0), 1)
    assert not record.all_valued
    with pytest.raises(InputError, match="1 draws have not valued every point"):
        ds.estimate(record)


def test_only_one_of_potential_and_design_is_refused():
    database = labelled(40)
    cross = cross_fitted(SoftNeighbours(database), database)
    assert isinstance(cross, CrossFitted)
    with pytest.raises(InputError, match="cross-fitting needs both"):
        ds.run(cross, ds.Design(database, 9), database, stop=3)
    design = ds.Design(database, 9, folds=cross.rows)
    with pytest.raises(InputError, match="cross-fitting needs both"):
        ds.run(SoftNeighbours(database), design, database, stop=3)


def test_equal_rows_are_in_one_fold():
    """A copy among the test rows would be answered by heart; of whatever type it is."""
    half = labelled(60)
    doubled = ds.Points(np.concatenate([half.X, half.X]), np.concatenate([half.y, half.y]))
    rows = cross_fitted(SoftNeighbours(doubled), doubled).rows
    np.testing.assert_array_equal(rows[:60], rows[60:])
    frame = pd.DataFrame({"a": np.arange(30), "b": list("ab") * 15})
    database = ds.Points(frame, np.arange(30) % 2)
    same = ds.Points(frame.astype({"a": object, "b": "category"}).iloc[[3, 17]], np.array([1, 1]))
    cross = cross_fitted(SoftNeighbours(database), same)
    assert cross.folds.of.tolist() == cross.rows[[3, 17]].tolist()


def test_equal_rows_of_discrete_data_are_not_copies():
    """Of eight distinct rows none is kept out of the training sets."""
    rng = np.random.default_rng(0)
    points = ds.Points(rng.integers(2, size=(200, 2)), rng.integers(2, size=200))
    rows = cross_fitted(SoftNeighbours(points), points).rows
    assert np.bincount(rows).tolist() == [40] * 5
    one = np.equal(points.X, points.X[0]).all(axis=1) & (points.y == points.y[0])
    assert len(set(rows[one])) == 5


def test_bundles_with_a_row_in_common_are_in_one_fold():
    database = labelled(60)
    chosen = np.concatenate([np.arange(6), [0], np.arange(6, 11), np.arange(20, 30)])
    Z = ds.Bundles(database.take(chosen), ["a"] * 6 + ["b"] * 6 + ["c"] * 10)
    for seed in range(5):
        cross = cross_fitted(SoftNeighbours(database), Z, seed=seed)
        assert len(set(cross.rows[:11])) == 1
        assert len(set(cross.rows[20:30])) == 1
        assert cross.folds.of.tolist() == cross.rows[[0, 0, 20]].tolist()


@pytest.mark.parametrize(("n", "folds"), [(3, 3), (4, 3), (5, 5), (9, 5)])
def test_few_bundles_make_three_folds(n, folds):
    """Not four: draws with nested sets come every 32 draws, and would all test on one fold."""
    database = labelled(n * 6)
    Z = ds.Bundles(database, np.arange(n * 6) // 6)
    assert cross_fitted(SoftNeighbours(database), Z).folds.n == folds


def test_folds_that_move_values_apart_are_errors_of_their_difference():
    """What helps one class on a fold hurts the other: the error of a difference is the larger."""
    game, rng = known(), np.random.default_rng(0)
    found = ds.estimate(crossed(game, rng, 800, **DEFAULT))
    assert len(found.influence()) == len(found.terms.groups) + 5
    moved = found.fold_influence
    y = game.Z.y
    common = np.corrcoef(moved[:, y == 0].mean(axis=1), moved[:, y == 1].mean(axis=1))[0, 1]
    assert common < -0.9


def test_errors_are_those_of_the_folds_where_draws_are_all_alike():
    """For m = 1 every draw trains on z alone."""
    found = ds.value(labelled(100), model=GaussianNB(), m=1, stop=100)
    assert (found.of_draws.stderr == 0).all()
    assert found.stderr.min() > 0
    assert found.reliability < 1
    assert found.widened == np.inf


def test_draws_beyond_number_are_not_promised():
    """More draws leave the spread between folds as it is."""
    game, rng = known(), np.random.default_rng(0)
    found = ds.estimate(crossed(game, rng, 3000, **DEFAULT))
    assert found.draws_for(0.999) is None
    assert found.of_draws.draws_for(0.999) > 3000


def test_the_reliability_that_endless_draws_would_bring():
    game, rng = known(), np.random.default_rng(0)
    few, many = (ds.estimate(crossed(game, rng, n, **DEFAULT)) for n in (400, 6000))
    assert few.reliability < few.most_reliable < 1
    assert many.reliability == pytest.approx(few.most_reliable, abs=0.05)
    assert few.of_draws.most_reliable == 1


def test_values_made_of_others_keep_the_spread_between_folds():
    database = labelled(100)
    found = ds.value(database, model=LogisticRegression(), m=20, stop=400)
    beyond = found.stderr**2 - found.of_draws.stderr**2
    further = ds.profile.extrapolate(found, m=30)
    of_draws = ds.profile.extrapolate(found.of_draws, m=30)
    np.testing.assert_array_equal(of_draws.values, further.values)
    np.testing.assert_allclose(further.stderr**2 - of_draws.stderr**2, beyond)
    assert beyond.mean() > 0.1 * (further.stderr**2).mean()
    shrunk = found.shrunk()
    assert shrunk.of_draws is shrunk


def test_too_few_draws_are_refused_before_anything_is_kept(tmp_path):
    with pytest.raises(InputError, match="draws = 1: cross-fitting needs at least 2 draws"):
        ds.value(labelled(30), model=GaussianNB(), m=5, stop=1, store=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_progress_bar_from_the_first_draw_on():
    """When there is no value of some rows yet."""
    database = labelled(30)
    cross = cross_fitted(ds.potential(GaussianNB(), test=database), database)
    design = ds.Design(database, 5, folds=cross.rows)
    assert len(ds.run(cross, design, database, stop=40, progress=True)) == 40
