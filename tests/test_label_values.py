"""Values of counterfactual labels, and the expected value over them."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import dshapley as ds
from conftest import labelled
from dshapley.running.label_values import label_values
from dshapley.sampling.crossfitting import cross_fitted
from dshapley.sampling.draws import NO_FOLD


def rows_of(n, *, seed=5):
    """Rows whose labels must not be used: there are none."""
    return ds.Points(labelled(n, seed=seed).X, ids=np.arange(100, 100 + n))


def test_the_value_of_each_label_is_that_of_the_point_with_it():
    B, rows = labelled(50, classes=3), rows_of(4)
    U = ds.potential(GaussianNB(), test=labelled(40, seed=9, classes=3))
    design = ds.Design(B, 30, seed=1)
    found = label_values(U, design, rows, stop=60)
    assert found.labels.tolist() == [[0, 1, 2]] * 4
    for c in range(3):
        alone = ds.estimate(ds.run(U, design, ds.Points(rows.X, [c] * 4), stop=60))
        # The reference sample of the control variates grows with the points, but not below 400.
        np.testing.assert_allclose(found.values[:, c], alone.values, atol=1e-6)
        np.testing.assert_allclose(found.stderr[:, c], alone.stderr, atol=1e-6)
    assert found.expected.ids.tolist() == [100, 101, 102, 103]
    frame = found.to_frame()
    assert frame["id"].tolist() == np.repeat([100, 101, 102, 103], 3).tolist()
    assert frame["probability"].to_numpy().reshape(4, 3).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_rows_of_the_database_are_judged_by_models_that_do_not_know_them_by_any_label():
    # Not naive Bayes: a set that holds a row with two labels and nothing else has no variance.
    B, model = labelled(40), LogisticRegression(tol=1e-10, max_iter=5000)
    U = ds.potential(model, test=labelled(40, seed=9))
    design = ds.Design(B, 40, seed=1)
    found = label_values(U, design, B.take(slice(3)), stop=60)
    total, weight = np.zeros((3, 2)), np.zeros((3, 1))
    for t in range(60):
        draw = design.draw(t)
        if len(draw.S) < 0.25 * 39:
            continue
        unseen = ~np.isin(np.arange(3), draw.rows)[:, np.newaxis]
        here = np.unique(draw.S.y)
        p = np.zeros((3, 2))
        p[:, here] = model.fit(draw.S.X, draw.S.y).predict_proba(B.X[:3])
        total += np.where(unseen, len(draw.S) * p, 0.0)
        weight += np.where(unseen, len(draw.S), 0.0)
    np.testing.assert_allclose(found.probability, total / weight, atol=1e-5)


@pytest.mark.parametrize("crossed", [False, True])
def test_the_expected_value_is_the_mean_over_the_labels(crossed):
    B = labelled(60)
    design = ds.Design(B, 30, seed=1)
    U = ds.potential("logistic", test=B if crossed else labelled(40, seed=9))
    if crossed:
        U = cross_fitted(U, B, seed=1)
        design = ds.Design(B, 30, seed=1, folds=U.rows)
    found = label_values(U, design, B.take(slice(5)) + ds.Points(rows_of(5).X, [0] * 5), stop=320)
    mean = (found.probability * found.values).sum(axis=1)
    np.testing.assert_allclose(found.expected.values, mean, atol=1e-6)
    each = ds.estimate(found.expected.draws)
    np.testing.assert_allclose(each.values, mean, atol=1e-6)
    # The errors of two labels go together, so they are not the errors of independent values.
    apart = np.sqrt((found.probability**2 * found.stderr**2).sum(axis=1))
    assert not np.allclose(found.expected.stderr, apart, rtol=0.02)
    assert (found.expected_stderr >= found.expected.stderr).all()
    if crossed:
        assert found.expected.draws.folds.of.tolist() == [*U.rows[:5].tolist(), *[NO_FOLD] * 5]
        gaps = np.isnan(found.expected.draws.marginals)
        assert (gaps[:, :5].mean(axis=0) == 0.2).all()
        assert not gaps[:, 5:].any()


@pytest.mark.slow
def test_errors_of_expected_values_by_simulation():
    """The spread over independent runs, in the errors that they state."""
    B, rows = labelled(60, classes=3), rows_of(6)
    U = ds.potential(GaussianNB(), test=labelled(50, seed=9, classes=3))
    runs = [label_values(U, ds.Design(B, 20, seed=i), rows, stop=60) for i in range(30)]
    values = np.array([found.expected.values for found in runs])
    stated = np.array([found.expected_stderr for found in runs])
    ratio = values.var(axis=0, ddof=1) / (stated**2).mean(axis=0)
    # 0.7 in 150 runs: the errors of p and of the values partly cancel, which is not counted.
    assert ratio.mean() == pytest.approx(0.7, abs=3 * 0.7 * np.sqrt(2 / 29 / 3))
    # The part of p by itself, at fixed values: 0.95 in 150 runs.
    of_p = np.array([found.stderr_of_p for found in runs])
    fixed = np.mean([found.values for found in runs], axis=0)
    moved = np.array([(found.probability * fixed).sum(axis=1) for found in runs])
    ratio = moved.var(axis=0, ddof=1) / (of_p**2).mean(axis=0)
    assert ratio.mean() == pytest.approx(0.95, abs=3 * 0.95 * np.sqrt(2 / 29 / 3))


def test_regression_takes_the_prediction_plus_quantiles_of_the_residuals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    B = ds.Points(X, X[:, 0] + rng.normal(size=400))
    new = rng.normal(size=(50, 2))
    U = ds.potential(Ridge(), test=ds.Points(X, B.y))
    found = label_values(U, ds.Design(B, 200, seed=1), ds.Points(new), stop=40)
    offsets = found.labels - new[:, :1]
    # Middles of five equal parts of a standard normal; the errors are of quantiles of 400 rows.
    expected = stats.norm.ppf([0.1, 0.3, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(offsets.mean(axis=0), expected, atol=0.25)
    assert (found.probability == 0.2).all()
    np.testing.assert_allclose(found.expected.values, found.values.mean(axis=1), atol=1e-6)
    assert not found.stderr_of_p.any()


def test_too_few_draws_are_said():
    B = labelled(60)
    U = ds.potential(GaussianNB(), test=labelled(40, seed=9))
    with pytest.raises(ds.InputError, match="draws are too few"):
        label_values(U, ds.Design(B, 50, seed=1, weights="1/k"), rows_of(2), stop=1)
