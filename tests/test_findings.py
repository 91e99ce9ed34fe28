"""What is said of a valuation: each sentence where it is true, and not elsewhere."""

import re
from dataclasses import replace

import numpy as np
import pytest

import dshapley as ds
from dshapley.reporting.findings import by_class, cautions, class_labels, sentences
from dshapley.sampling.provenance import About, Identity
from records import plain_draws


def warnings_of(valuation):
    return [caution.text for caution in cautions(valuation)]


def valued(gains, *, y=None, m=8, **about):
    """Values from balanced draws of every size, whose marginals are these rows."""
    gains = np.asarray(gains, dtype=float)
    n, points = gains.shape
    draws = plain_draws(1 + np.arange(n) % m, gains, np.full(m, 1 / m), balanced=True)
    identity = {"database": "d", "points": "d"} | about
    metric = identity.pop("metric", "accuracy")
    about = About(identity=Identity(**identity, potential={"metric": metric}))
    draws = ds.Draws(**{**draws.__dict__, "about": about, "seconds": np.full(n, 2.0)})
    Z = ds.Points(np.zeros((points, 1)), np.zeros(points, int) if y is None else np.asarray(y))
    return ds.estimate(draws, points=Z)


def noisy(means, n=400, *, sd=0.01, seed=0, **more):
    rng = np.random.default_rng(seed)
    return valued(np.asarray(means) + sd * rng.normal(size=(n, len(means))), **more)


def test_the_meaning_has_this_runs_figures():
    found = noisy(np.linspace(-0.01, 0.02, 20))
    said = sentences(found)[0]
    assert "the change of accuracy when the row is added to 0 to 7 rows drawn at random" in said
    best = int(np.argmax(found.values))
    value, error = re.search(rf"for row {best} it is ([\d.]+) ± ([\d.]+) \(", said).groups()
    assert float(value) == pytest.approx(found.values[best], rel=0.05)
    assert float(error) == pytest.approx(2 * found.stderr[best], rel=0.05)
    assert "not advice to delete" in said
    assert "percentage points" not in sentences(noisy([1, 2], metric="neg_mse"))[0]


def test_how_sure_and_what_more_time_gives():
    found = noisy(np.linspace(-0.001, 0.001, 40), 64)
    assert found.surely_reliable < 0.95
    _, sure, more = sentences(found)
    assert f"reliability {found.reliability:.2f}" in sure
    needed = int(re.search(r"need about ([\d,]+) draws in all", more).group(1).replace(",", ""))
    assert needed == found.draws_for(0.95)
    assert "on one core" in more
    sharp = noisy(np.linspace(-1, 1, 40))
    assert len(sentences(sharp)) == 2  # nothing to gain


def test_the_draws_that_it_takes_are_those_that_it_took():
    means = np.linspace(-0.002, 0.002, 60)
    wanted = [noisy(means, 80, seed=s).draws_for(0.9) for s in range(20)]
    n = 8 * round(np.median(wanted) / 8)
    reached = [noisy(means, n, seed=100 + s).surely_reliable for s in range(20)]
    assert np.median(reached) == pytest.approx(0.9, abs=0.02)


def test_unknown_errors_are_said_and_no_error_is_stated():
    found = valued(np.zeros((1, 3)))
    assert sentences(found)[1].startswith("From 1 draw. The errors are not yet known: sizes 2-3")
    assert "±" not in sentences(found)[0]
    assert warnings_of(found) == []


def test_an_open_order_is_warned_of():
    assert any("leave the order open" in w for w in warnings_of(noisy(np.zeros(30) + 0.01, 40)))
    sharp = noisy(np.linspace(-1, 1, 30))
    assert not any("leave the order open" in w for w in warnings_of(sharp))


def test_rows_below_zero_that_are_of_one_class_are_warned_of():
    y = np.repeat(["no", "yes"], [60, 20])
    skewed = noisy(np.where(y == "no", 0.02, -0.02) + 0.0001 * np.arange(80), y=y)
    (text,) = [w for w in warnings_of(skewed) if "mostly of one class" in w]
    shares = {part.label: part.below / part.rows for part in by_class(skewed)}
    assert f"{shares['yes']:.0%} of the rows of yes, {shares['no']:.0%} of no" in text
    even = noisy(np.where(np.arange(80) % 2, 0.02, -0.02), y=y)
    assert not any("mostly of one class" in w for w in warnings_of(even))


def test_a_metric_that_hardly_moves_is_warned_of():
    """Only where the values are those of the database: their sum is then what the metric gains."""
    assert any("hardly moves" in w for w in warnings_of(noisy(np.linspace(-1, 1, 30) / 1000)))
    assert not any("hardly moves" in w for w in warnings_of(noisy(np.linspace(0.1, 0.2, 30))))
    elsewhere = noisy(np.linspace(-1, 1, 30) / 1000, points="others")
    assert not any("hardly moves" in w for w in warnings_of(elsewhere))


def test_each_class_by_itself():
    y = np.repeat([0, 1], [4, 4])
    found = noisy([1, 4, 2, 3, -1, -4, -2, -3], sd=0.1, y=y)
    zero, one = by_class(found)
    assert (zero.label, one.label, zero.rows, one.below) == (0, 1, 4, 4)
    assert zero.best.tolist() == [1, 3, 2, 0]
    assert one.worst.tolist() == [5, 7, 6, 4]
    assert zero.mean == pytest.approx(2.5, abs=0.1)


def test_numbers_and_unknown_labels_are_no_classes():
    assert class_labels(noisy([1, 2], y=[0.5, 1.5])) is None
    assert class_labels(ds.estimate(noisy([1, 2]).draws)) is None
    assert by_class(noisy([1, 2], y=[1, 1])) == []


def test_values_that_differ_by_rounding_alone_have_no_order():
    """Twelve times the same row: sums in another order make no reliability and no rank."""
    gains = np.repeat(np.random.default_rng(0).normal(size=(400, 1)), 12, axis=1)
    found = valued(gains * 1e-3 + 0.1)
    found = replace(found, values=found.values * (1 + 1e-15 * np.arange(12)))
    assert np.isnan(found.reliability)
    assert np.isnan(found.surely_reliable)
    assert found.draws_for(0.95) is None
    assert found.top_probability(0.1).tolist() == [1 / 12] * 12


def test_that_a_metric_hardly_moves_takes_more_than_a_noisy_zero():
    vague = noisy(np.zeros(30), 40, sd=0.5)
    vague = replace(vague, values=vague.values - vague.values.mean())
    assert not any("hardly moves" in w for w in warnings_of(vague))


def test_one_point_has_no_order():
    said = sentences(noisy([0.1]))
    assert "reliability" not in said[1]
    assert "the largest standard error" in said[1]
    assert warnings_of(noisy([0.0001], 40)) == []


def test_data_sets_of_one_row_are_said():
    draws = plain_draws(np.ones(40, int), np.tile([-0.5, 0.5], (40, 1)), np.ones(1))
    found = ds.estimate(draws)
    assert "is added to an empty set" in sentences(found)[0]


def test_data_that_makes_the_model_worse_is_said():
    (text,) = [t for t in warnings_of(noisy([-0.02, -0.03, -0.04])) if "worse" in t]
    assert "trained on 8 rows its accuracy is lower by 0.2" in text
    assert not [t for t in warnings_of(noisy([0.02, 0.03, 0.04])) if "worse" in t]
