"""Predicted values of points that were never run, and whether their stated errors are right."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression

import dshapley as ds
from conftest import labelled
from dshapley.errors import InputError
from dshapley.inference.interpolation import VALUE_MODELS, fit, shrunk


def smooth(n, *, seed=0):
    """Points on a square, and a smooth function of them."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 2))
    return ds.Points(X), np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def shared_errors(y, stderr, rng, B):
    """B errors of each value: all points share 35 % of the variance, those of a class 35 % more."""
    groups = np.zeros(len(stderr), dtype=int) if y is None else y
    everyone, own = rng.standard_normal((B, 1)), rng.standard_normal((B, len(stderr)))
    of_class = rng.standard_normal((B, groups.max() + 1))[:, groups]
    return stderr * (np.sqrt(0.35) * (everyone + of_class) + np.sqrt(0.3) * own)


@pytest.fixture(scope="module")
def neighbours():
    """Points of two classes with their exact values for nearest neighbours."""
    database, test = labelled(1000), labelled(300, seed=1)
    return database, ds.knn_values(database, test=test, n_neighbors=5, m=100, n_jobs=1).values


@pytest.fixture(scope="module")
def means():
    """Unlabelled points with their exact values for mean estimation."""
    database = ds.Points(np.random.default_rng(0).normal(size=(1000, 3)))
    return database, ds.MeanPotential(database).value(database, m=50)


def replications(points, truth, *, n, level, model, repeats, simulated=True, seed=0):
    """Many measurements: the fit, the measured values, and the share of new points covered."""
    for t in range(repeats):
        rng = np.random.default_rng([seed, t])
        order = rng.permutation(len(points))
        some, new = order[:n], order[n : n + 200]
        stderr = level * truth.std() * rng.uniform(0.5, 1.5, n)
        y = None if points.y is None else points.y[some]
        values = truth[some] + shared_errors(y, stderr, rng, 1)[0]
        noise = shared_errors(y, stderr, rng, 16) if simulated else None
        h = fit(points.take(some), values, stderr, noise=noise, model=model, seed=t)
        low, high = h.predict(points.take(new)).interval()
        covered = np.mean((low <= truth[new]) & (truth[new] <= high))
        yield h, values, stderr, truth[some], covered


@pytest.fixture(scope="module")
def measured(neighbours):
    """Forty measurements of a hundred points; the error is half the spread of the values."""
    return list(replications(*neighbours, n=100, level=0.5, model="ridge", repeats=40))


def assert_covers(covered, *, most=0.97):
    """95 % intervals cover 95 % to `most`, within two standard errors over the replications.

    Measured: 95.4 to 96.6 %, with standard errors of 0.6 to 0.9 %; up to 98 % for the best model.
    """
    error = np.std(covered) / np.sqrt(len(covered))
    assert error < 0.01  # else the next line says nothing
    assert 0.95 - 2 * error < np.mean(covered) < most + 2 * error


class TestPrediction:
    def test_a_smooth_function_is_recovered_from_noisy_values(self):
        """The error is 0.047; following the noise it would be 0.2, missing the function 0.7."""
        points, truth = smooth(600)
        noise = 0.2 * np.random.default_rng(1).standard_normal(300)
        h = fit(points.take(slice(300)), truth[:300] + noise, np.full(300, 0.2))
        new = h.predict(points.take(slice(300, 600)))
        assert np.sqrt(np.mean((new.values - truth[300:]) ** 2)) < 0.06
        assert h.name == min(h.scores, key=h.scores.get) == "kernel_ridge"
        assert list(h.scores) == list(VALUE_MODELS)
        assert h.n_points == 300

    def test_exact_values_have_no_noise(self):
        """Measured: an r2 of 0.9996, and errors of 0.42 times those stated."""
        points, truth = smooth(200)
        h = fit(points.take(slice(100)), truth[:100], np.zeros(100), model="kernel_ridge")
        new = h.predict(points.take(slice(100, 200)))
        assert (new.inherited == 0).all()
        assert h.r2 == h.r2_true > 0.999
        errors = new.values - truth[100:]
        assert 0.3 < np.sqrt(np.mean(errors**2) / np.mean(new.stderr**2)) < 1
        assert np.mean(np.abs(errors) < 1.96 * new.stderr) > 0.95  # measured: 0.99

    @pytest.mark.parametrize("model", ["nearest", "kernel_ridge", "forest"])
    def test_a_few_very_noisy_points_do_not_spoil_it(self, model):
        """The error is at most 1.003 times that without them; with equal weights, 4 to 40 times."""
        points, truth = smooth(500)
        stderr = np.where(np.arange(200) % 10 == 0, 20.0, 0.05)
        values = truth[:200] + stderr * np.random.default_rng(2).standard_normal(200)

        def error(some, given):
            h = fit(points.take(some), values[some], given[some], model=model)
            new = h.predict(points.take(slice(200, 500)))
            return np.sqrt(np.mean((new.values - truth[200:]) ** 2)), new.stderr.mean()

        everything, clean = np.arange(200), np.flatnonzero(stderr < 1)
        weighted, stated = error(everything, stderr)
        without, stated_without = error(clean, stderr)
        assert weighted < 1.05 * without
        assert stated < 1.05 * stated_without  # measured: 0.88 to 0.98 times
        assert weighted < 0.3 * error(everything, np.full(200, 0.05))[0]

    def test_a_model_for_each_class_where_classes_differ_in_more_than_level(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(240, 5)), rng.integers(6, size=240)
        slopes = rng.normal(size=(6, 5))
        stderr = np.full(240, 0.3)
        noise = stderr * rng.standard_normal(240)
        apart = fit((X, y), np.einsum("ij,ij->i", X, slopes[y]) + noise, stderr, model="ridge")
        assert apart.name == "ridge, per class"
        together = fit((X, y), X @ slopes[0] + y + noise, stderr, model="ridge")
        assert together.name == "ridge"

    def test_no_model_for_each_class_where_one_is_small(self):
        y = np.r_[np.zeros(60, dtype=int), np.ones(15, dtype=int)]
        X = np.random.default_rng(0).normal(size=(75, 2))
        h = fit((X, y), X[:, 0] * y, np.full(75, 0.1), model="ridge")
        assert list(h.scores) == ["ridge"]

    def test_labels_of_every_kind(self):
        """Renamed classes give the same fit; labels that are numbers serve as a feature."""
        X = np.random.default_rng(0).normal(size=(80, 2))
        y = (X[:, 0] > 0).astype(int)
        values, stderr = X[:, 1] * (2 * y - 1), np.full(80, 0.1)
        first = fit((X, y), values, stderr, model="ridge").held_out.values
        for other in (y.astype(bool), np.array(["no", "yes"])[y]):
            same = fit((X, other), values, stderr, model="ridge").held_out.values
            np.testing.assert_array_equal(first, same)
        target = np.random.default_rng(1).normal(size=80)
        h = fit((X, target), target**2, stderr, model="kernel_ridge")
        assert h.r2 > 0.95  # measured: 0.97
        assert len(h.predict((X[:3], target[:3]))) == 3

    def test_a_point_is_not_its_own_neighbour(self):
        """A measured point has the same features when predicted; alone of its label it agrees 0."""
        points = labelled(60)
        y = points.y.copy()
        y[7] = 5
        points = ds.Points(points.X, y)
        h = fit(points, np.arange(60.0), np.ones(60), model="ridge")
        table, _ = h.features(points)
        some = [9, 7, 40]
        np.testing.assert_array_equal(h.features(points.take(some))[0], table[some])
        assert (table[7, -3:] <= table[:, -3:].min(axis=0)).all()

    def test_any_regressor(self):
        points, truth = smooth(60)
        h = fit(points, truth, np.full(60, 0.1), model=LinearRegression())
        assert h.name == "LinearRegression"
        plain = LinearRegression().fit(points.X, truth)
        np.testing.assert_allclose(h.predict(points).values, plain.predict(points.X))

    def test_the_same_seed_the_same_bits(self):
        points, truth = smooth(60)
        fits = [fit(points, truth, np.full(60, 0.2), seed=seed) for seed in (1, 1, 2)]
        new = smooth(5, seed=3)[0]
        first, same, other = (h.predict(new) for h in fits)
        np.testing.assert_array_equal(first.values, same.values)
        np.testing.assert_array_equal(first.stderr, same.stderr)
        assert (first.stderr != other.stderr).any()
        again = pickle.loads(pickle.dumps(fits[0])).predict(new)
        np.testing.assert_array_equal(first.values, again.values)

    def test_a_frame_of_predictions(self):
        points, truth = smooth(40)
        new = fit(points, truth, np.zeros(40), model="ridge").predict(points.take([3, 1]))
        low, high = new.interval()
        assert new.ids.tolist() == [3, 1]
        assert (low < new.values).all()
        assert (new.values < high).all()
        wider = new.interval(0.99)
        assert (wider[0] < low).all()


class TestErrors:
    @pytest.mark.parametrize("model", [*VALUE_MODELS, LinearRegression()])
    def test_an_error_that_all_points_share_is_passed_on_whole(self, model):
        """However many points there are: the mean of equal errors is that error."""
        points, truth = smooth(80)
        shift = np.random.default_rng(0).standard_normal((16, 1)) * np.ones(80)
        h = fit(points, truth, np.full(80, 0.3), noise=shift, model=model)
        new = h.predict(smooth(20, seed=1)[0])
        # A shift of all values shifts each model's predictions as much.
        np.testing.assert_allclose(new.inherited * new.stderr**2, 0.09, rtol=1e-12)
        np.testing.assert_allclose(h.held_out.covariance, 0.09, rtol=1e-12)

    def test_independent_errors_are_averaged(self):
        """The mean of ten equal points has a tenth of the variance.

        Over 20 such means of 8 errors each, within three standard errors.
        """
        X = np.repeat(np.arange(20.0), 10)[:, np.newaxis]
        values = X[:, 0] + np.random.default_rng(0).standard_normal(200)
        noise = np.random.default_rng(1).standard_normal((8, 200))
        h = fit(ds.Points(X), values, np.ones(200), noise=noise, model=Groups())
        new = h.predict(ds.Points(np.arange(20.0)[:, np.newaxis]))
        inherited = np.mean(new.inherited * new.stderr**2)
        assert inherited == pytest.approx(0.1, abs=3 * 0.1 * np.sqrt(2 / (20 * 8)))

    @pytest.mark.slow
    def test_coverage_of_new_points(self, measured):
        assert_covers([run[-1] for run in measured])

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("which", "model", "level"),
        [
            ("neighbours", "nearest", 1.0),
            ("neighbours", "kernel_ridge", 0.0),
            ("means", "nearest", 0.5),
        ],
    )
    def test_coverage_of_other_models_and_values(self, which, model, level, request):
        points, truth = request.getfixturevalue(which)
        repeats = 12 if model == "kernel_ridge" else 30
        runs = replications(points, truth, n=80, level=level, model=model, repeats=repeats)
        assert_covers([run[-1] for run in runs])

    @pytest.mark.slow
    @pytest.mark.parametrize(("which", "level"), [("neighbours", 0.1), ("means", 0.0)])
    def test_coverage_of_the_best_model(self, which, level, request):
        points, truth = request.getfixturevalue(which)
        runs = replications(points, truth, n=80, level=level, model="auto", repeats=4)
        assert_covers([run[-1] for run in runs], most=0.98)

    @pytest.mark.slow
    def test_errors_taken_for_independent_cover_too_little(self, means):
        """Why `fit` asks for `noise`, and proof that the tests above can fail: 56 +- 12 %."""
        points, truth = means
        runs = replications(
            points, truth, n=100, level=1.0, model="kernel_ridge", repeats=10, simulated=False
        )
        covered = [run[-1] for run in runs]
        assert np.mean(covered) < 0.95 - 3 * np.std(covered) / np.sqrt(10)

    @pytest.mark.slow
    def test_r2_true_is_that_against_the_truth(self, measured):
        """Were shared errors taken for independent ones, it would be off by 0.34 +- 0.04."""
        gaps, naive = [], []
        for h, values, stderr, truth, _ in measured:
            guess = h.held_out.values
            actual = 1 - np.mean((guess - truth) ** 2) / truth.var()
            lost = np.mean((guess - values) ** 2) - np.mean(stderr**2)
            gaps.append(h.r2_true - actual)
            naive.append(1 - lost / (values.var() - np.mean(stderr**2)) - actual)
        assert abs(np.mean(gaps)) < 3 * np.std(gaps) / np.sqrt(40)
        assert np.mean(naive) > 6 * np.std(naive) / np.sqrt(40)

    def test_r2_is_what_it_says(self):
        points, truth = smooth(100)
        values = truth + 0.3 * np.random.default_rng(0).standard_normal(100)
        h = fit(points, values, np.full(100, 0.3), model="nearest")
        r2 = 1 - ((values - h.held_out.values) ** 2).sum() / ((values - values.mean()) ** 2).sum()
        assert h.r2 == pytest.approx(r2)
        assert h.rank_correlation == spearmanr(values, h.held_out.values).statistic
        # Predictions are nearer to the truth than to the noisy values.
        true = 1 - ((truth - h.held_out.values) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
        assert h.r2 < h.r2_true - 0.1
        assert h.r2_true == pytest.approx(true, abs=0.07)  # its standard error is 0.033

    def test_values_that_are_all_noise(self):
        points, _ = smooth(100)
        h = fit(points, np.random.default_rng(0).standard_normal(100), np.ones(100), model="ridge")
        assert np.isnan(h.r2_true)
        assert fit(points, np.ones(100), np.zeros(100)).predict(points).values == pytest.approx(1)


class TestShrunk:
    @pytest.mark.slow
    def test_mean_squared_error_falls_and_intervals_cover(self, measured):
        """It falls by 15 %, which is eight standard errors; intervals cover 94.1 +- 1.8 %."""
        before, fall, covered = [], [], []
        for h, values, stderr, truth, _ in measured:
            guess = h.held_out
            mean, error = shrunk(
                values, stderr, guess.values, guess.stderr, covariance=guess.covariance
            )
            assert (error <= stderr + 1e-12).all()
            before.append(np.mean((values - truth) ** 2))
            fall.append(before[-1] - np.mean((mean - truth) ** 2))
            covered.append(np.mean(np.abs(mean - truth) < 1.96 * error))
        error = np.std(fall) / np.sqrt(40)
        assert np.mean(fall) > 6 * error
        assert np.mean(fall) > 0.15 * np.mean(before) - 2 * error
        assert abs(np.mean(covered) - 0.95) < 2 * np.std(covered) / np.sqrt(40)

    def test_independent_errors_fall_by_much(self, means):
        """To 0.18 of the mean squared error; 98 % of 300 points are covered."""
        points, truth = means
        stderr = np.full(300, truth.std())
        values = truth[:300] + stderr * np.random.default_rng(0).standard_normal(300)
        guess = fit(points.take(slice(300)), values, stderr, model="kernel_ridge").held_out
        mean, error = shrunk(values, stderr, guess.values, guess.stderr)
        assert np.mean((mean - truth[:300]) ** 2) < 0.2 * np.mean((values - truth[:300]) ** 2)
        assert np.mean(np.abs(mean - truth[:300]) < 1.96 * error) > 0.955  # two standard errors

    def test_a_prediction_far_off_is_not_followed(self):
        near, far = shrunk([0.0, 0.0], [1.0, 1.0], [1.0, 30.0], [1.0, 1.0])[0]
        assert near == 0.5
        assert far == pytest.approx(30 / 226.5)  # P = 1 + (30^2 - 2) / 4 = 225.5

    def test_what_is_exact_stays(self):
        assert shrunk(1.0, 0.0, 2.0, 0.5) == (1.0, 0.0)
        assert shrunk(1.0, 0.0, 1.0, 0.0) == (1.0, 0.0)
        mean, error = shrunk(1.0, 0.3, 1.2, 0.3, covariance=0.09)  # the same error twice
        assert (mean, error) == (pytest.approx(1.0), pytest.approx(0.3))


class Groups(LinearRegression):
    """The mean of the values with the same x."""

    def fit(self, X, y, sample_weight=None):
        self.means_ = {x: y[X[:, 0] == x].mean() for x in np.unique(X[:, 0])}
        return self

    def predict(self, X):
        return np.array([self.means_[x] for x in X[:, 0]])


class TestWhatPeopleAreTold:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"n": 6}, "6 measured points are too few .* raise the share"),
            ({"stderr": np.nan}, "a single draw"),
            ({"stderr": -1.0}, "stderr at least 0"),
            ({"values": np.inf}, "finite"),
            ({"model": "kernel"}, "did you mean 'kernel_ridge'"),
            ({"model": LinearRegression}, "a name or a scikit-learn regressor"),
            ({"noise": np.zeros((4, 3))}, "B rows of 20 finite numbers"),
            ({"folds": 1}, "at least two"),
        ],
    )
    def test_arguments(self, change, message):
        n = change.pop("n", 20)
        options = {"values": 1.0, "stderr": 1.0, **change}
        values, stderr = (options.pop(name) * np.ones(n) for name in ("values", "stderr"))
        with pytest.raises(InputError, match=message):
            fit(labelled(n), values, stderr, **options)

    def test_other_numbers_than_points(self):
        with pytest.raises(InputError, match="20 points, but values"):
            fit(labelled(20), np.ones(19), np.ones(19))

    def test_features_that_are_no_numbers(self):
        frame = pd.DataFrame({"age": np.arange(20.0), "city": ["Bern"] * 20})
        with pytest.raises(InputError, match="is not numeric"):
            fit(ds.Points(frame), np.ones(20), np.ones(20))
        with pytest.raises(InputError, match="column age has NaN"):
            fit(ds.Points(frame[["age"]].replace(3.0, np.nan)), np.ones(20), np.ones(20))

    def test_points_unlike_the_fitted(self):
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
        y = np.arange(30) % 2
        h = fit(ds.Points(frame, y), np.arange(30.0), np.ones(30), model="ridge")
        assert len(h.predict(ds.Points(frame, y))) == 30
        for X, labels, message in [
            (frame[["b", "a"]], y, "the same in the same order"),
            (frame[["a"]], y, "1 columns"),
            (frame.replace(frame.iloc[0, 0], np.nan), y, "column a has NaN"),
            (frame, None, "give labels"),
            (frame, y + 1, "no measured point has the label 2"),
        ]:
            with pytest.raises(InputError, match=message):
                h.predict(ds.Points(X, labels))

    def test_a_confidence_is_a_probability(self):
        points, truth = smooth(20)
        with pytest.raises(InputError, match="between 0 and 1"):
            fit(points, truth, np.ones(20), model="ridge").held_out.interval(95)
