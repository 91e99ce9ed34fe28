"""Pictures: each shows the numbers of its result, takes an `ax`, and never opens a window."""

from dataclasses import replace

import numpy as np
import pytest

import dshapley as ds
from conftest import labelled
from dshapley import plots
from dshapley.baselines.curves import Curve
from dshapley.inference.completed import completed
from dshapley.market import price_list
from records import MeanGame, record

pytest.importorskip("matplotlib")

M = 16


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("agg")

    def show(*args, **options):
        raise AssertionError("a picture was shown")

    monkeypatch.setattr(pyplot, "show", show)
    yield
    pyplot.close("all")


@pytest.fixture
def valuation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    game = MeanGame(X, X[:30], m=M)
    return ds.estimate(record(game, rng, 300), points=ds.Points(X[:30], np.arange(30) % 2))


def tips(ax):
    """The words of all marks, in the order of drawing."""
    artists = [*ax.lines, *ax.patches, *ax.collections]
    return [str(a.get_gid())[4:] for a in artists if str(a.get_gid()).startswith("tip:")]


def dots(ax):
    """The positions of the single dots."""
    return [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]


def test_extremes_shows_the_best_and_the_worst_with_joint_intervals(valuation):
    ax = plots.extremes(valuation, n=3)
    order = np.argsort(-valuation.values, kind="stable")
    shown = [*order[:3], *order[-3:]]
    assert [x for x, _ in dots(ax)] == pytest.approx(valuation.values[shown])
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(i) for i in shown]
    low, high = valuation.interval(simultaneous=True)
    lines = [line.get_xdata() for line in ax.lines if line.get_marker() == "None"]
    lines = [ends for ends in lines if ends[0] != ends[1]]  # the line at zero is upright
    assert lines == [pytest.approx([low[i], high[i]]) for i in shown]
    assert "all at once" in ax.get_xlabel()
    a, b = valuation.rank_interval()
    said = [text.get_text() for text in ax.texts]
    assert all(f"{a[i]:,} to {b[i]:,}" in said or f"{a[i]:,}" in said for i in shown)


def test_extremes_of_few_points_shows_each_once(valuation):
    few = ds.estimate(record(MeanGame(np.eye(3), np.eye(3)[:3], m=4), np.random.default_rng(0), 60))
    assert len(dots(plots.extremes(few, n=10))) == 3


def test_plot_is_the_picture_of_extremes(valuation):
    assert dots(valuation.plot(n=2))[0] == pytest.approx(dots(plots.extremes(valuation, n=2))[0])


def test_a_valuation_partly_predicted_has_intervals_of_its_own():
    database = labelled(60)
    U = ds.potential("logistic", test=labelled(40, seed=1))
    where = np.arange(60) < 40
    draws = ds.run(U, ds.Design(database, 10), database.take(where), stop=60)
    found = completed(ds.estimate(draws, points=database.take(where)), database, where)
    assert "each on its own" in plots.extremes(found).get_xlabel()


def test_distribution_counts_every_value(valuation):
    ax = plots.distribution(valuation)
    assert sum(bar.get_height() for bar in ax.patches) == len(valuation)


def test_distribution_by_group_has_the_quantiles_of_each(valuation):
    group = np.where(np.arange(30) % 3 == 0, "a", "b")
    ax = plots.distribution(valuation, by=group, name="group")
    names = [label.get_text() for label in ax.get_yticklabels()]
    medians = {g: np.median(valuation.values[group == g]) for g in "ab"}
    first, second = sorted("ab", key=lambda g: -medians[g])
    counts = {"a": 10, "b": 20}
    assert names == [f"{g} ({counts[g]})" for g in (first, second)]
    boxes = [bar for bar in ax.patches if bar.get_width() > 0]
    ends = [np.quantile(valuation.values[group == g], [0.25, 0.75]) for g in (first, second)]
    for box, (low, high) in zip(boxes, ends, strict=True):
        assert (box.get_x(), box.get_width()) == pytest.approx((low, high - low))


def test_against_numbers_shows_means_of_equal_groups(valuation):
    column = np.arange(30.0)
    ax = plots.against(valuation, column, name="age")
    found = dots(ax)
    assert len(found) == 10
    x, mean = found[0]
    inside = column <= np.quantile(column, 0.1)
    assert (x, mean) == pytest.approx((column[inside].mean(), valuation.values[inside].mean()))
    assert ax.get_xlabel() == "age"


def test_against_a_column_with_gaps_leaves_them_out(valuation):
    column = np.arange(30.0)
    column[::5] = np.nan
    ax = plots.against(valuation, column)
    counted = dict.fromkeys(tips(ax))
    assert sum(int(tip.split()[-2]) for tip in counted) == 24


def test_against_categories_draws_boxes(valuation):
    ax = plots.against(valuation, np.where(np.arange(30) < 12, "<b>", "$x$"), name="kind")
    assert sorted(label.get_text() for label in ax.get_yticklabels()) == ["$x$ (18)", "<b> (12)"]


def test_by_size_ends_at_the_values(valuation):
    ax = plots.by_size(valuation, n=1)
    best, worst = np.argmax(valuation.values), np.argmin(valuation.values)
    curves = [line for line in ax.lines if len(line.get_xdata()) > 2]
    assert curves[0].get_ydata()[-1] == pytest.approx(valuation.values[best])
    assert curves[1].get_ydata()[-1] == pytest.approx(valuation.values[worst])
    m = int(curves[0].get_xdata()[0])
    assert curves[0].get_ydata()[0] == pytest.approx(valuation.at(m=m).values[best])


def test_convergence_shows_the_errors_of_the_first_draws(valuation):
    ax = plots.convergence(valuation, precision=0.1)
    largest = next(line for line in ax.lines if line.get_label() == "largest")
    for n, error in largest.get_xydata():
        known = ds.estimate(valuation.draws.first(int(n))).stderr
        assert error == pytest.approx(known.max())
    ahead = next(line for line in ax.lines if line.get_linestyle() == ":").get_ydata()
    assert ahead[-1] == pytest.approx(valuation.stderr.max() / np.sqrt(8))
    assert "1,200 draws" in ax.get_title()  # four times as many, half the error
    sure = plots.convergence(valuation, what="reliability")
    assert max(y for _, y in dots(sure)) <= 1


def test_a_curve_beside_random_orders():
    found = Curve(
        fractions=np.array([0.0, 0.5]),
        counts=np.array([0, 5]),
        scores=np.array([0.9, 0.5]),
        random=np.array([[0.9, 0.8], [0.9, 0.7]]),
    )
    ax = plots.curve(found, metric="accuracy")
    assert "in order of value, 50 % removed: accuracy 0.5" in tips(ax)
    assert "random order, 50 % removed: accuracy 0.75 ± 0.098" in tips(ax)
    assert "% of" in ax.get_xlabel()


def test_prices_show_the_interval_of_the_list(valuation):
    prices = price_list(valuation, rate=100.0)
    ax = plots.prices(prices, n=2)
    frame = prices.at(M).sort_values("price", ascending=False, kind="stable")
    assert [x for x, _ in dots(ax)] == pytest.approx(frame["price"].iloc[[0, 1, -2, -1]])
    ends = frame[["price_low", "price_high"]].iloc[0].to_numpy()
    assert ax.lines[0].get_xdata() == pytest.approx(ends)


def test_rows_that_differ_stand_out(valuation):
    values = valuation.values.copy()
    values[7] += 4 * values.std()
    other = replace(valuation.without_draws(), values=values, stderr=valuation.stderr / 9)
    found = ds.compare(valuation, other, names=("old", "new"))
    ax = plots.compared(found)
    assert f"rank correlation {found.pairs[0].order.observed:.2f} over 30 rows" in ax.get_title()
    assert ax.get_xlabel().startswith("old")
    assert found.pairs[0].most_different.tolist() == [7]
    marked = [line.get_gid() for line in ax.lines if line.get_gid()]
    assert len(marked) == 1
    assert marked[0].startswith(f"tip:{found.ids[7]}: ")


def test_a_given_ax_is_used_and_returned(valuation):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    for draw in (plots.extremes, plots.distribution, plots.by_size, plots.convergence):
        assert draw(valuation, ax=ax) is ax


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda v: plots.extremes(v, n=0), "at least one point"),
        (lambda v: plots.against(v, [1, 2]), "one entry for each of the 30 points"),
        (lambda v: plots.distribution(v, by=["a"]), "one entry for each of the 30 points"),
        (lambda v: plots.convergence(v.shrunk()), "keep no draws"),
        (lambda v: plots.prices(price_list(v, rate=1.0), m=3), "prices for m = 16 only"),
    ],
)
def test_errors_are_for_people(valuation, draw, message):
    with pytest.raises(ds.InputError, match=message):
        draw(valuation)


def test_too_few_draws_for_convergence_is_said():
    X = np.eye(5)
    valuation = ds.estimate(record(MeanGame(X, X, m=4), np.random.default_rng(0), 2))
    with pytest.raises(ds.InputError, match="too few"):
        plots.convergence(valuation)


def test_long_and_hostile_names_stay_short_text(valuation):
    names = np.array([f"<script>{'x' * 500}{i}\n$\\frac{{1}}{{2}}$" for i in range(30)])
    ax = plots.extremes(valuation, n=1, names=names)
    assert all(len(label.get_text()) <= 28 for label in ax.get_yticklabels())


@pytest.mark.parametrize("name", ["$x^$", "\ud800", "\u202eabc", "a\x00b", "\\frac{1}$ $"])
def test_no_name_stops_a_picture(valuation, name):
    for ax in (
        plots.extremes(valuation, n=1, names=np.array([name] * 30, dtype=object)),
        plots.distribution(valuation, by=np.array([name] * 30, dtype=object), name=name),
        plots.against(valuation, np.arange(30.0), name=name),
    ):
        ax.figure.canvas.draw()
        assert all(label.get_text().isprintable() for label in ax.get_yticklabels())
