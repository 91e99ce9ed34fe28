"""Metrics: equal to scikit-learn's, one score a row of outputs, bounded, more is better."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from dshapley import InputError, Metric
from dshapley.metrics import METRICS, as_metric
from dshapley.metrics.metric import (
    accuracy,
    balanced_accuracy,
    brier,
    f1,
    log_score,
    neg_mse,
    r2,
    roc_auc,
)

# Sums of a few dozen terms of order one in another order: rounding only.
EXACT = {"rtol": 0.0, "atol": 1e-12}

ROWS, N = 7, 41

LABEL_METRICS = ["accuracy", "balanced_accuracy", "f1"]
PROBABILITY_METRICS = ["log_score", "brier"]
REGRESSION_METRICS = ["r2", "neg_mse"]


def targets(c, *, seed=0, n=N):
    """Codes 0..c-1, each there at least once, in uneven shares."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1.0, c + 1) / np.arange(1.0, c + 1).sum()
    y = np.concatenate([np.arange(c), rng.choice(c, size=n - c, p=shares)])
    return rng.permutation(y)


def labels(c, *, seed=1, unknown=False):
    """Predicted codes; where `unknown`, some are -1: classes that the test set lacks."""
    low = -1 if unknown else 0
    return np.random.default_rng(seed).integers(low, c, size=(ROWS, N))


def probabilities(c, *, seed=2):
    return np.random.default_rng(seed).dirichlet(np.full(c, 0.3), size=(ROWS, N))


def numbers(*, seed=3):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=N)
    return y, y + rng.normal(scale=np.geomspace(0.1, 10, ROWS)[:, np.newaxis], size=(ROWS, N))


def outputs_for(name, c=3):
    """Targets and random outputs of the kind that the metric wants."""
    kind = METRICS[name].output
    if kind == "prediction":
        return numbers()
    if kind == "label":
        return targets(c), labels(c, unknown=True)
    return targets(c), probabilities(c)


# --- equal to scikit-learn


@pytest.mark.parametrize("c", [2, 3, 5])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_accuracy_equals_the_reference(c, unknown):
    y, predicted = targets(c), labels(c, unknown=unknown)
    expected = [reference.accuracy_score(y, row) for row in predicted]
    np.testing.assert_allclose(accuracy(y, predicted), expected, **EXACT)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("c", [2, 3, 5])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_balanced_accuracy_equals_the_reference(c, unknown):
    y, predicted = targets(c), labels(c, unknown=unknown)
    expected = [reference.balanced_accuracy_score(y, row) for row in predicted]
    np.testing.assert_allclose(balanced_accuracy(y, predicted), expected, **EXACT)


def test_f1_of_two_classes_is_that_of_the_second():
    y, predicted = targets(2), labels(2)
    expected = [reference.f1_score(y, row, pos_label=1) for row in predicted]
    np.testing.assert_allclose(f1(y, predicted), expected, **EXACT)


@pytest.mark.parametrize("c", [3, 5])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_f1_of_more_classes_is_the_mean_over_the_classes_of_the_test_set(c, unknown):
    y, predicted = targets(c), labels(c, unknown=unknown)
    expected = [reference.f1_score(y, row, average="macro", labels=range(c)) for row in predicted]
    np.testing.assert_allclose(f1(y, predicted), expected, **EXACT)


def test_f1_of_a_class_that_is_never_predicted_is_zero():
    y = np.array([0, 1, 1, 0])
    assert f1(y, np.zeros((1, 4), dtype=int)).tolist() == [0.0]


def test_auc_of_two_classes_equals_the_reference():
    y, scores = targets(2), np.random.default_rng(4).normal(size=(ROWS, N, 2))
    expected = [reference.roc_auc_score(y, row[:, 1]) for row in scores]
    np.testing.assert_allclose(roc_auc(y, scores), expected, **EXACT)


@pytest.mark.parametrize("c", [3, 5])
def test_auc_of_more_classes_is_one_against_the_rest(c):
    y, scores = targets(c), probabilities(c)
    expected = [
        reference.roc_auc_score(y, row, multi_class="ovr", average="macro") for row in scores
    ]
    np.testing.assert_allclose(roc_auc(y, scores), expected, **EXACT)


@pytest.mark.parametrize("c", [2, 3])
def test_auc_with_many_ties_equals_the_reference(c):
    y = targets(c)
    coarse = np.random.default_rng(5).integers(0, 3, size=(ROWS, N, c)).astype(float)
    if c == 2:
        expected = [reference.roc_auc_score(y, row[:, 1]) for row in coarse]
    else:
        one_hot = np.eye(c)[y]
        expected = [reference.roc_auc_score(one_hot, row, average="macro") for row in coarse]
    np.testing.assert_allclose(roc_auc(y, coarse), expected, **EXACT)


def test_auc_counts_a_tie_as_one_half():
    y = np.array([0, 1, 1])
    positive = np.array([[0.5, 0.5, 0.9]])  # one tie, one pair in the right order
    assert roc_auc(y, np.stack([1 - positive, positive], axis=2)).tolist() == [0.75]


def test_auc_takes_minus_infinity_for_a_class_that_was_never_seen():
    y = np.array([0, 1, 2, 0, 1, 2])
    scores = np.random.default_rng(6).normal(size=(1, 6, 3))
    scores[:, :, 2] = -np.inf
    one_hot = np.eye(3)[y]
    finite = np.where(np.isinf(scores[0]), -1e9, scores[0])
    expected = reference.roc_auc_score(one_hot, finite, average="macro")
    np.testing.assert_allclose(roc_auc(y, scores), [expected], **EXACT)


@pytest.mark.parametrize("c", [2, 4])
def test_log_score_is_the_clipped_log_loss_by_hand(c):
    y, p = targets(c), probabilities(c)
    by_hand = []
    for row in p:
        logs = [np.log(max(row[i, y[i]], 1e-3)) for i in range(N)]
        by_hand.append(1.0 + np.mean(logs) / np.log(1000.0))
    assert any((row[np.arange(N), y] < 1e-3).any() for row in p), "clipping is not put to work"
    np.testing.assert_allclose(log_score(y, p), by_hand, **EXACT)


def test_log_score_without_clipping_is_scikit_learns_log_loss():
    y = targets(3)
    p = 0.1 + 0.7 * probabilities(3)  # all above the floor, rows still sum to one
    expected = [1.0 - reference.log_loss(y, row) / np.log(1000.0) for row in p]
    np.testing.assert_allclose(log_score(y, p), expected, **EXACT)


def test_log_score_at_another_floor():
    y = np.array([0, 1])
    p = np.array([[[1.0, 0.0], [1.0, 0.0]]])  # right, then as wrong as can be
    for floor in (1e-1, 1e-3, 1e-6):
        np.testing.assert_allclose(log_score(y, p, floor=floor), [0.5], **EXACT)


@pytest.mark.parametrize("c", [2, 3, 5])
def test_brier_equals_the_reference(c):
    y, p = targets(c), probabilities(c)
    expected = [1.0 - 0.5 * ((row - np.eye(c)[y]) ** 2).sum(axis=1).mean() for row in p]
    np.testing.assert_allclose(brier(y, p), expected, **EXACT)
    if c == 2:  # where scikit-learn has always had it
        expected = [1.0 - reference.brier_score_loss(y, row[:, 1]) for row in p]
        np.testing.assert_allclose(brier(y, p), expected, **EXACT)


@pytest.mark.parametrize("name", PROBABILITY_METRICS)
def test_mass_on_a_class_that_the_test_set_lacks_is_lost(name):
    y = np.array([0, 1, 0])
    right = np.eye(2)[y]
    wide = np.concatenate([0.6 * right, np.full((3, 1), 0.4)], axis=1)
    score = METRICS[name].score
    assert score(y, wide[np.newaxis])[0] < score(y, right[np.newaxis])[0]
    if name == "brier":
        np.testing.assert_allclose(score(y, wide[np.newaxis]), [1 - 0.5 * (0.4**2 + 0.4**2)])


def test_r2_equals_the_reference():
    y, predictions = numbers()
    expected = [reference.r2_score(y, row) for row in predictions]
    # The worst of these is about -100, so that rounding is relative.
    np.testing.assert_allclose(r2(y, predictions), expected, rtol=1e-12, atol=1e-12)


def test_neg_mse_is_the_mean_squared_error_in_units_of_four_variances():
    y, _ = numbers()
    close = y + np.random.default_rng(7).uniform(-1, 1, size=(ROWS, N)) * y.std()
    expected = [1.0 - reference.mean_squared_error(y, row) / (4 * y.var()) for row in close]
    np.testing.assert_allclose(neg_mse(y, close), expected, **EXACT)


def test_neg_mse_counts_a_row_at_most_once():
    y = np.array([0.0, 2.0])  # variance 1: off by 2 is fully wrong
    predictions = np.array([[0.0, 4.0], [0.0, 1e150], [0.0, 3.0]])
    np.testing.assert_allclose(neg_mse(y, predictions), [0.5, 0.5, 1 - 0.25 / 2], **EXACT)


def test_r2_is_a_rescaled_neg_mse_where_no_error_is_cut():
    y, _ = numbers()
    close = y + np.random.default_rng(8).uniform(-1, 1, size=(ROWS, N)) * y.std()
    np.testing.assert_allclose(neg_mse(y, close), 1 - (1 - r2(y, close)) / 4, **EXACT)


# --- many rows at once


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("c", [2, 3])
def test_many_rows_at_once_equal_one_by_one(name, c):
    y, outputs = outputs_for(name, c)
    score = METRICS[name].score
    together = score(y, outputs)
    assert together.shape == (ROWS,)
    assert together.dtype == np.float64
    alone = np.concatenate([score(y, outputs[i : i + 1]) for i in range(ROWS)])
    np.testing.assert_allclose(together, alone, **EXACT)
    assert len(set(together.tolist())) > 1


@pytest.mark.parametrize("name", METRICS)
def test_the_order_of_the_test_rows_does_not_count(name):
    y, outputs = outputs_for(name)
    turn = np.random.default_rng(9).permutation(N)
    score = METRICS[name].score
    np.testing.assert_allclose(score(y[turn], outputs[:, turn]), score(y, outputs), rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_outputs_are_not_written_to(name):
    y, outputs = outputs_for(name)
    before = y.copy(), outputs.copy()
    METRICS[name].score(y, outputs)
    np.testing.assert_array_equal(y, before[0])
    np.testing.assert_array_equal(outputs, before[1])


# --- best, worst and constant predictors


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("c", [2, 3])
def test_the_perfect_model_scores_one(name, c):
    y, _ = outputs_for(name, c)
    kind = METRICS[name].output
    perfect = np.eye(c)[y] if kind in ("probability", "score") else y
    # The half distance of brier and the log of one are exact here.
    np.testing.assert_allclose(METRICS[name].score(y, perfect[np.newaxis]), [1.0], **EXACT)


@pytest.mark.parametrize("name", [*LABEL_METRICS, *PROBABILITY_METRICS, "roc_auc"])
def test_the_worst_model_of_two_classes_scores_zero(name):
    y = targets(2)
    kind = METRICS[name].output
    worst = np.eye(2)[1 - y] if kind in ("probability", "score") else 1 - y
    np.testing.assert_allclose(METRICS[name].score(y, worst[np.newaxis]), [0.0], **EXACT)


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_predicting_only_unknown_classes_scores_zero(name):
    y = targets(3)
    assert METRICS[name].score(y, np.full((2, N), -1)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("c", [2, 3, 5])
def test_constant_predictors(c):
    y = targets(c)
    counts = np.bincount(y)
    each_class = np.repeat(np.arange(c)[:, np.newaxis], N, axis=1)
    np.testing.assert_allclose(accuracy(y, each_class), counts / N, **EXACT)
    np.testing.assert_allclose(balanced_accuracy(y, each_class), np.full(c, 1 / c), **EXACT)
    even = np.full((1, N, c), 1 / c)
    np.testing.assert_allclose(roc_auc(y, even), [0.5], **EXACT)
    np.testing.assert_allclose(log_score(y, even), [1 - np.log(c) / np.log(1000)], **EXACT)
    np.testing.assert_allclose(brier(y, even), [1 - 0.5 * (1 - 1 / c)], **EXACT)


def test_constant_regressors():
    y, _ = numbers()
    mean = np.full((1, N), y.mean())
    np.testing.assert_allclose(r2(y, mean), [0.0], **EXACT)
    np.testing.assert_allclose(r2(y, mean + y.std()), [-1.0], **EXACT)
    assert neg_mse(y, mean + 1e6).tolist() == [0.0]


# --- bounds


@st.composite
def classified(draw):
    c = draw(st.integers(2, 4))
    n = draw(st.integers(c, 12))
    seed = draw(st.integers(0, 2**16))
    return targets(c, seed=seed, n=n), np.random.default_rng(seed), c


@given(case=classified(), name=st.sampled_from(LABEL_METRICS))
@settings(max_examples=60, deadline=None)
def test_label_metrics_lie_between_zero_and_one(case, name):
    y, rng, c = case
    scores = METRICS[name].score(y, rng.integers(-1, c, size=(5, len(y))))
    assert (scores >= 0).all()
    assert (scores <= 1).all()


@given(case=classified(), name=st.sampled_from([*PROBABILITY_METRICS, "roc_auc"]))
@settings(max_examples=60, deadline=None)
def test_probability_metrics_lie_between_zero_and_one(case, name):
    y, rng, c = case
    p = rng.dirichlet(np.full(c + 1, 0.2), size=(5, len(y)))  # one class more than the test set
    scores = METRICS[name].score(y, p)
    assert (scores >= -1e-12).all()
    assert (scores <= 1 + 1e-12).all()


@given(seed=st.integers(0, 2**16), scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3))
@settings(max_examples=60, deadline=None)
def test_neg_mse_lies_between_zero_and_one_and_r2_below_one(seed, scale, shift):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=9)
    predictions = shift + scale * rng.normal(size=(5, 9))
    assert (neg_mse(y, predictions) >= 0).all()
    assert (neg_mse(y, predictions) <= 1).all()
    assert (r2(y, predictions) <= 1).all()


@given(case=classified(), power=st.sampled_from([0.5, 1.0, 3.0]), shift=st.floats(-5, 5))
@settings(max_examples=40, deadline=None)
def test_auc_sees_only_the_order_of_the_scores(case, power, shift):
    y, rng, c = case
    scores = rng.integers(0, 5, size=(3, len(y), c)).astype(float)
    np.testing.assert_array_equal(roc_auc(y, scores**power + shift), roc_auc(y, scores))


@given(seed=st.integers(0, 2**16), gain=st.floats(0.1, 10), shift=st.floats(-10, 10))
@settings(max_examples=40, deadline=None)
def test_regression_metrics_do_not_depend_on_the_unit_of_y(seed, gain, shift):
    rng = np.random.default_rng(seed)
    y, predictions = rng.normal(size=9), rng.normal(size=(4, 9))
    for score in (r2, neg_mse):
        moved = score(gain * y + shift, gain * predictions + shift)
        np.testing.assert_allclose(moved, score(y, predictions), rtol=1e-9, atol=1e-9)


# --- by name, or from a function


def test_the_table_of_metrics_knows_its_names():
    assert set(METRICS) == {
        *LABEL_METRICS,
        *PROBABILITY_METRICS,
        *REGRESSION_METRICS,
        "roc_auc",
    }
    for name, metric in METRICS.items():
        assert metric.name == name
        assert as_metric(name) is metric
        assert metric.task == ("regression" if name in REGRESSION_METRICS else "classification")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("acuracy", "accuracy"),
        ("balanced-accuracy", "balanced_accuracy"),
        ("auc", "roc_auc"),
        ("roc-auc", "roc_auc"),
        ("logscore", "log_score"),
        ("mse", "neg_mse"),
        ("brier_score", "brier"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(typed, meant):
    with pytest.raises(InputError, match=f"unknown metric '{typed}': did you mean '{meant}'"):
        as_metric(typed)


def test_a_name_near_to_none_lists_them_all():
    with pytest.raises(InputError, match="unknown metric 'xyzzy': there are: ") as caught:
        as_metric("xyzzy")
    for name in METRICS:
        assert name in str(caught.value)


def test_a_metric_is_taken_as_it_is():
    metric = Metric("mine", "label", accuracy)
    assert as_metric(metric) is metric
    assert metric.task == "any"


def test_a_function_is_asked_row_by_row_with_the_predictions_as_they_are():
    asked = []

    def share_of_yes(y, predictions):
        asked.append((y.tolist(), predictions.tolist()))
        return np.float32(np.mean(predictions == "yes"))

    metric = as_metric(share_of_yes)
    assert metric.output == "prediction"
    assert metric.task == "any"
    assert metric.name.endswith("share_of_yes")
    y = np.array(["yes", "no"])
    scores = metric.score(y, np.array([["yes", "no"], ["no", "no"]]))
    assert scores.dtype == np.float64
    assert scores.tolist() == [0.5, 0.0]
    assert asked == [(["yes", "no"], ["yes", "no"]), (["yes", "no"], ["no", "no"])]


def test_an_object_that_can_be_called_is_a_metric_too():
    class Worst:
        def __call__(self, y, predictions):
            return -np.abs(y - predictions).max()

    metric = as_metric(Worst())
    assert metric.name == "Worst"
    assert metric.score(np.array([0.0, 1.0]), np.array([[0.5, 1.0]])).tolist() == [-0.5]


def test_scikit_learns_own_functions_can_be_given():
    y, predictions = numbers()
    metric = as_metric(reference.r2_score)
    assert metric.name == "r2_score"
    np.testing.assert_allclose(metric.score(y, predictions), r2(y, predictions), rtol=1e-12)
