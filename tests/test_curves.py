"""Point removal and addition: by hand where U is a sum, and what is refused."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled
from dshapley.baselines.curves import addition, removal

WORTH = np.random.default_rng(0).normal(size=40)
POINTS = ds.Points(WORTH[:, np.newaxis])
NONE = POINTS.take([])


def total(S):
    return float(S.X.sum())


def test_highest_first_leaves_the_sum_of_the_lowest():
    curve = removal(total, POINTS, WORTH, fractions=[0, 0.25, 0.5, 1])
    ordered = np.sort(WORTH)
    expected = [ordered.sum(), ordered[:30].sum(), ordered[:20].sum(), 0.0]
    np.testing.assert_allclose(curve.scores, expected, atol=1e-12)
    assert curve.counts.tolist() == [0, 10, 20, 40]


def test_lowest_first_leaves_the_sum_of_the_highest():
    curve = removal(total, POINTS, WORTH, first="lowest", fractions=[0.25])
    np.testing.assert_allclose(curve.scores, [np.sort(WORTH)[10:].sum()], atol=1e-12)


def test_addition_is_removal_from_the_other_end():
    parts = np.linspace(0, 1, 5)
    added = addition(total, NONE, POINTS, WORTH, fractions=parts, repeats=3)
    removed = removal(total, POINTS, WORTH, first="lowest", fractions=1 - parts, repeats=3)
    np.testing.assert_allclose(added.scores, removed.scores, atol=1e-12)


def test_addition_begins_with_what_there_is():
    start = ds.Points([[100.0]])
    curve = addition(total, start, POINTS, WORTH, fractions=[0, 0.5], repeats=2)
    best = np.sort(WORTH)[20:].sum()
    np.testing.assert_allclose(curve.scores, [100.0, 100.0 + best], atol=1e-12)
    assert curve.random[:, 0].tolist() == [100.0, 100.0]


def test_random_orders_are_random_and_their_error_is_right():
    """A sum falls in proportion, on average."""
    curve = removal(total, POINTS, WORTH, fractions=[0, 0.3, 0.7], repeats=400)
    off = curve.random_mean - WORTH.sum() * (1 - curve.fractions)
    assert (np.abs(off[1:]) < 4 * curve.random_stderr[1:]).all()
    assert off[0] == pytest.approx(0, abs=1e-12)
    # Of n of N numbers without replacement the sum has variance n (1 - n / N) S^2.
    n = 40 - curve.counts[1:]
    spread = np.sqrt(n * (1 - n / 40) * WORTH.var(ddof=1) / 400)
    np.testing.assert_allclose(curve.random_stderr[1:], spread, rtol=4 / np.sqrt(800))


def test_the_gap_is_below_zero_where_what_matters_goes_first():
    by, error = removal(total, POINTS, WORTH, repeats=20).gap
    assert by < -4 * error < 0
    by, error = removal(total, POINTS, WORTH, first="lowest", repeats=20).gap
    assert by > 4 * error > 0


def test_equal_values_go_in_random_order():
    firsts = {
        removal(total, POINTS, np.zeros(40), fractions=[1 / 40], repeats=0, seed=s).scores[0]
        for s in range(8)
    }
    # Of 40 rows 8 random ones are 7.3 different ones on average.
    assert len(firsts) >= 6


def test_a_valuation_will_do_for_values():
    B = labelled(30)
    U = ds.potential(LogisticRegression(), test=labelled(20, seed=1))
    valuation = ds.estimate(ds.run(U, ds.Design(B, 10), B, stop=20))
    a, b = (removal(U, B, values, repeats=2) for values in (valuation, valuation.values))
    assert a.scores.tolist() == b.scores.tolist()
    order = np.argsort(-valuation.values)
    by_hand = [U(B.take(np.sort(order[n:]))) for n in a.counts[:2]]
    assert a.scores[:2].tolist() == by_hand


def test_points_stay_in_their_order():
    """The order of rows matters to some models; with nothing removed all orders are alike."""

    def by_order(S):
        return float(S.X[:, 0] @ np.arange(len(S)))

    removed = removal(by_order, POINTS, WORTH, fractions=[0, 0.5], repeats=2)
    left = WORTH[np.sort(np.argsort(-WORTH)[20:])]
    np.testing.assert_allclose(removed.scores, [WORTH @ np.arange(40), left @ np.arange(20)])
    added = addition(by_order, NONE, POINTS, -WORTH, fractions=[0.5], repeats=0)
    np.testing.assert_allclose(added.scores, removed.scores[1:])


def test_workers_change_nothing():
    B, test = labelled(30), labelled(20, seed=1)
    U = ds.potential(LogisticRegression(), test=test)
    one, two = (removal(U, B, np.arange(30), repeats=3, n_jobs=n) for n in (1, 2))
    assert one.scores.tolist() == two.scores.tolist()
    assert one.random.tolist() == two.random.tolist()


def test_one_row_a_step():
    curve = removal(total, POINTS, WORTH, fractions=[0, 0.5], repeats=1)
    frame = curve.to_frame()
    assert frame.columns.tolist() == ["fraction", "count", "score", "random", "random_stderr"]
    assert frame["count"].tolist() == [0, 20]
    assert frame.random_stderr.isna().all()  # of a single order


def broken(S):
    if len(S) == 30:
        raise ValueError("no")
    return 0.0


def test_a_failing_potential_is_named():
    with pytest.raises(ds.DrawError, match=r"U of the 30 points .* failed: no"):
        removal(broken, POINTS, WORTH, fractions=[0, 0.25])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [1.0]}, "for 40 points: give one number"),
        ({"values": [np.nan, *WORTH[1:]]}, "value of point 0 is nan"),
        ({"first": "best"}, "use 'highest' or 'lowest'"),
        ({"fractions": [0.5, 1.5]}, "numbers from 0 to 1"),
        ({"fractions": []}, "numbers from 0 to 1"),
        ({"values": [np.inf, *WORTH[1:]]}, "value of point 0 is inf"),
        ({"values": ["a"] * 40}, "a number for each point"),
        ({"repeats": -1}, "at least 0"),
        ({"seed": -1}, "at least 0"),
    ],
)
def test_errors_are_for_people(change, message):
    options = {"values": WORTH, **change}
    with pytest.raises(ds.InputError, match=message):
        removal(total, POINTS, options.pop("values"), **options)


def test_no_points():
    with pytest.raises(ds.InputError, match="no points"):
        removal(total, NONE, [])


def test_values_of_other_points_are_refused():
    B = labelled(30)
    U = ds.potential(LogisticRegression(), test=labelled(20, seed=1))
    valuation = ds.estimate(ds.run(U, ds.Design(B, 10), B, stop=5))
    with pytest.raises(ds.InputError, match="not those of the points"):
        removal(U, B.take(np.arange(30)[::-1]), valuation)


def test_bundles_and_what_is_no_number_are_refused():
    with pytest.raises(ds.InputError, match="bundles"):
        removal(total, ds.Bundles(POINTS, np.arange(40) // 2), WORTH)
    with pytest.raises(ds.DrawError, match="is nan"):
        removal(lambda S: float("nan"), POINTS, WORTH)
    with pytest.raises(ds.InputError, match="no random order"):
        _ = removal(total, POINTS, WORTH, repeats=0).gap


def test_the_start_is_checked_too():
    B, U = labelled(20), ds.potential(LogisticRegression(), test=labelled(20, seed=1))
    with pytest.raises(ds.InputError, match="start"):
        addition(U, ds.Points(B.X[:, :1], B.y), B, np.arange(20))
    pair = removal(U, (B.X, B.y), np.arange(20), repeats=1)
    assert pair.scores.tolist() == removal(U, B, np.arange(20), repeats=1).scores.tolist()
