"""What removing rows does: by hand, without leaks, and with intervals that hold."""

import joblib
import numpy as np
import pytest

import dshapley as ds
from dshapley.baselines import fresh_rows
from dshapley.baselines.fresh_rows import on_fresh_rows
from dshapley.data.points import row_digests
from dshapley.sampling.crossfitting import cross_fitted


def table(n, seed, *, flipped=0.0, noise=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=n) > 0).astype(int)
    if noise:
        y = rng.integers(0, 2, n)
    return ds.Points(X, np.where(rng.random(n) < flipped, 1 - y, y))


def make(test, database):
    return ds.potential("naive_bayes", test=test)


def crossed_run(rows, *, seed=0, m=30, stop=150):
    cross = cross_fitted(make(rows, rows), rows, seed=seed)
    design = ds.Design(rows, m, seed=seed, folds=cross.rows, control_variates=False)
    return ds.run(cross, design, rows, stop=stop)


@pytest.mark.slow
def test_scores_are_those_of_refits():
    """By scikit-learn, on the rows that the values of the other rows leave."""
    from sklearn.naive_bayes import GaussianNB

    rows = table(150, 0)
    draws = crossed_run(rows)
    found, compared = on_fresh_rows(draws, make, rows), 0
    for i, part in enumerate(fresh_rows._divisions(make, rows, rows, None, 0)):
        values = fresh_rows._valued(draws, make, part, found.n_draws).values
        # The lowest of each class first: by its place among the rows of its class.
        place = np.array(
            [
                ((values < v) & (part.kept.y == c)).sum() / (part.kept.y == c).sum()
                + 0.5 / (part.kept.y == c).sum()
                for v, c in zip(values, part.kept.y, strict=True)
            ]
        )
        order = np.argsort(place, kind="stable")
        for step, fraction in enumerate(found.fractions):
            n = round(fraction * len(order))
            for scores, way in ((found.lowest, order), (found.highest, order[::-1])):
                if n and place[way[n - 1]] == place[way[n]]:
                    continue  # two classes are level here, and chance decides
                stay = np.delete(np.arange(len(order)), way[:n])
                model = GaussianNB().fit(part.kept.X[stay], part.kept.y[stay])
                right = model.score(part.fresh.X, part.fresh.y)
                assert scores[i, step, 0] == pytest.approx(right, abs=1e-12)
                compared += 1
    assert compared >= 50


def test_rows_with_labels_that_are_probably_wrong_are_removed_and_relabelled():
    """By hand: a tenth of the labels of two classes that are apart is wrong."""
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = rng.integers(0, 2, 300)
    X[:, 0] += 3 * y
    wrong = rng.random(300) < 0.1
    rows = ds.Points(X, np.where(wrong, 1 - y, y))
    draws = crossed_run(rows, m=150, stop=200)
    found = on_fresh_rows(draws, make, rows, fractions=[0, 0.1])
    counts = []
    for i, part in enumerate(fresh_rows._divisions(make, rows, rows, None, 0)):
        evidence = fresh_rows._valued(draws, make, part, found.n_draws).label_evidence()
        low = evidence.wrong > 0.5
        counts.append(low.sum())
        fresh, (X_, y_) = part.fresh, (part.kept.X, part.kept.y)
        without = GaussianNB().fit(X_[~low], y_[~low]).score(fresh.X, fresh.y)
        assert found.edits["without"].scores[i, 0] == pytest.approx(without, abs=1e-12)
        relabelled = np.where(low, evidence.suggested, y_)
        again = GaussianNB().fit(X_, relabelled).score(fresh.X, fresh.y)
        assert found.edits["relabelled"].scores[i, 0] == pytest.approx(again, abs=1e-12)
    assert found.edits["without"].n_changed == np.mean(counts) > 0
    change, reach = found.change_by("relabelled")
    again = found.edits["relabelled"].scores - found.lowest[:, 0]
    assert change == pytest.approx(again[:, 0].mean())
    assert reach > 0


@pytest.mark.parametrize("own_test", [False, True])
def test_rows_kept_aside_play_no_part(own_test):
    """No potential sees a row that it is scored on in its database, nor do the values."""
    rows, test = table(150, 0), table(130, 1)
    asked = []

    def watched(tested, database):
        asked.append((set(row_digests(tested)), set(row_digests(database))))
        return make(tested, database)

    draws = (
        crossed_run(rows)
        if not own_test
        else ds.run(make(test, rows), ds.Design(rows, 30), rows, stop=60)
    )
    on_fresh_rows(draws, watched, rows, test=test if own_test else None, fractions=[0, 0.3])
    if not own_test:
        asked = asked[1:]  # the whole database, which only deals the folds
    aside, behind = asked[:5], asked[5:]
    assert len(behind) == 5
    for (fresh, database), (tested, known) in zip(aside, behind, strict=True):
        assert not fresh & database
        assert not fresh & tested
        assert not fresh & known
    assert len(set.union(*(fresh for fresh, _ in aside))) == len(test if own_test else rows)


def test_test_rows_that_are_rows_to_train_on_are_left_out():
    rows, other = table(120, 0), table(130, 1)
    draws = ds.run(make(other, rows), ds.Design(rows, 30), rows, stop=60)
    found = on_fresh_rows(draws, make, rows, test=rows + other, fractions=[0, 0.3])
    assert found.n_test == len(other) // 5
    with pytest.raises(ds.InputError, match="too few"):
        on_fresh_rows(draws, make, rows, test=rows, fractions=[0, 0.3])


def test_a_table_of_few_distinct_rows_keeps_its_rows():
    """Equal rows are no copies there: without them only odd rows would be trained on."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(600, 4)).astype(float)
    rows = ds.Points(X, (X[:, 0] + rng.random(600) > 0.8).astype(int))

    def logistic(test, database):
        return ds.potential("logistic", test=test)

    cross = cross_fitted(logistic(rows, rows), rows)
    draws = ds.run(cross, ds.Design(rows, 30, folds=cross.rows), rows, stop=40)
    found = on_fresh_rows(draws, logistic, rows, fractions=[0, 0.3])
    assert (found.n_train, found.n_test) == (480, 120)


def test_a_sample_of_many_rows_is_used(monkeypatch):
    monkeypatch.setattr(fresh_rows, "_MOST_TRAINED", 60)
    monkeypatch.setattr(fresh_rows, "_MOST_TESTED", 25)
    rows = table(200, 0)
    found = on_fresh_rows(crossed_run(rows, stop=60), make, rows, fractions=[0, 0.5])
    assert (found.n_train, found.n_test) == (60, 25)


@pytest.mark.slow
def test_a_metric_that_needs_both_classes_has_intervals_too():
    def make_auc(test, database):
        return ds.potential("naive_bayes", test=test, metric="roc_auc")

    rows = table(200, 0, flipped=0.1)
    found = on_fresh_rows(crossed_run(rows, stop=60), make_auc, rows, fractions=[0, 0.3])
    assert found.lowest.shape == (5, 2, 11)
    assert 0 < found.change("lowest", 1)[1] < 0.5


def test_the_same_rows_give_the_same_scores():
    rows = table(150, 0)
    draws = crossed_run(rows, stop=60)
    one = on_fresh_rows(draws, make, rows)
    with joblib.parallel_config(n_jobs=2):
        two = on_fresh_rows(draws, make, rows)
    assert one.lowest.tobytes() == two.lowest.tobytes()
    assert one.random.tobytes() == two.random.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fractions": [0.1, 0.2]}, "begin with 0"),
        ({"fractions": [0]}, "at least one more"),
        ({"most_seconds": 1e-9}, "would take about"),
    ],
)
def test_errors_are_for_people(options, message):
    rows = table(150, 0)
    with pytest.raises(ds.InputError, match=message):
        on_fresh_rows(crossed_run(rows, stop=40), make, rows, **options)


def test_too_few_rows_are_refused():
    rows = table(60, 0)
    with pytest.raises(ds.InputError, match="too few"):
        on_fresh_rows(crossed_run(rows, stop=40), make, rows)


def simulated(n, n_tables, **kind):
    """Changes and gaps with their half-widths and the truth of the same models, at all steps."""
    found = []
    for seed in range(n_tables):
        rows, many = table(n, seed, **kind), table(20_000, seed + 10_000, **kind)

        def on_many(test, database, many=many):
            """The models are the same, and scored on so many rows that no luck is left."""
            return make(test if test.key == database.key else many, database)

        draws = crossed_run(rows, seed=seed, stop=100)
        measured, true = (on_fresh_rows(draws, made, rows) for made in (make, on_many))
        for what, first in (("change", "lowest"), ("gap", "highest")):
            for step in range(1, 6):
                told = getattr(measured, what)(first, step)
                found.append([*told, getattr(true, what)(first, step)[0]])
    return np.array(found).reshape(n_tables, 2, 5, 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("n", "kind"), [(150, {"noise": True}), (200, {"flipped": 0.15})], ids=["noise", "flipped"]
)
def test_intervals_hold_for_all_shares_at_once(n, kind):
    """In 25 tables at least 95 % but for two standard errors; measured: 92 to 100 %.

    Where labels are noise no removal helps; in one table of 25 one is said to help.
    """
    found = simulated(n, 25, **kind)
    value, reach, true = np.moveaxis(found, -1, 0)
    held = (np.abs(value - true) <= reach).all(axis=2).mean(axis=0)
    assert (held >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 25)).all()
    said = (value - reach > 0)[:, 0]
    assert (said & (true[:, 0] <= 0)).any(axis=1).mean() <= 0.05
    # Where the labels can be learned, the intervals say so in 32 % of these small tables.
    shown = (value + reach < 0)[:, 1, 4].mean()
    assert shown == 0 if "noise" in kind else shown >= 0.2
