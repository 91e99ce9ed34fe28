"""Would another run say the same? Joint errors, the order without noise, and the rows that differ.

True values are known in closed form (`records.py`); runs are simulated by the hundred.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dshapley as ds
from conftest import labelled
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.inference import comparison
from dshapley.inference.agreement import agreement
from dshapley.inference.joint_errors import errors_of_draws, with_test_rows
from dshapley.inference.uncertainty import spearman
from dshapley.reporting.comparison import comparison_report, pair_lines
from dshapley.reporting.page import to_html, to_json
from dshapley.sampling.provenance import About, Context, Identity, Source
from records import CrossGame, KnnGame, MeanGame, crossed, record

AUTO = {"weights": "auto", "balanced": True, "control_variates": True}
BALANCED = {"weights": "auto", "balanced": True}


def known(draws, seed=0, **more):
    """The record with a manifest that names its database and seed."""
    identity = Identity(database="one (60 rows)", points="one (60 rows)", seed=seed, **more)
    return replace(draws, about=About(identity=identity))


def two_games(n=60):
    """Nearest neighbours with K = 3 and with K = 5: values of the same rows that differ."""
    B, test = labelled(n), labelled(30, seed=1)
    return KnnGame(B, test, K=3), KnnGame(B, test, K=5)


def two_runs(games, seed, T, *, shared, n_second=None, **options):
    """Two runs of the games, of the same draws or of independent ones."""
    first = record(games[0], np.random.default_rng([1, seed]), T, **options)
    stream = [1, seed] if shared else [2, seed]
    second = record(games[1], np.random.default_rng(stream), n_second or T, **options)
    return ds.estimate(known(first)), ds.estimate(known(second, seed=0 if shared else 1))


def everyone(n):
    return np.arange(n), np.arange(n)


# --- errors of two runs together


@pytest.mark.parametrize("options", [{}, BALANCED], ids=["independent", "balanced"])
def test_the_error_of_a_difference_is_that_of_the_differences(options):
    """Of two runs with the same draws, subtracted draw by draw before they are averaged."""
    games = two_games()
    a, b = two_runs(games, 0, 90, shared=True, **options)
    marginals = a.draws.marginals - b.draws.marginals
    difference = ds.estimate(replace(a.draws, marginals=marginals))
    found = errors_of_draws(a, b, everyone(60))
    np.testing.assert_allclose(a.values - b.values, difference.values, atol=1e-6)
    np.testing.assert_allclose(found.of_difference, difference.stderr, rtol=1e-4)
    apart = np.hypot(a.stderr, b.stderr)
    assert (difference.stderr < 0.9 * apart).mean() > 0.8  # what is shared is not little


def test_the_errors_of_a_run_alone_are_its_standard_errors():
    """Whether it shares its draws, some of them, or none."""
    for shared, more in ((True, None), (True, 150), (False, None)):
        a, b = two_runs(two_games(), 1, 90, shared=shared, n_second=more, **BALANCED)
        found = errors_of_draws(a, b, everyone(60))
        for run, variance in zip((a, b), found.variances, strict=True):
            # The draws are grouped anew where runs differ in their number, so not exactly.
            assert np.sqrt(variance.mean()) == pytest.approx(
                np.sqrt((run.stderr**2).mean()), rel=1e-9 if more is None else 0.1
            )


def test_rows_may_be_in_another_order():
    a, b = two_runs(two_games(), 2, 90, shared=True, **BALANCED)
    order = np.random.default_rng(0).permutation(60)
    shuffled = ds.estimate(b.draws.points(order))
    whole = errors_of_draws(a, b, everyone(60))
    found = errors_of_draws(a, shuffled, (np.arange(60), np.argsort(order)))
    np.testing.assert_allclose(found.of_difference, whole.of_difference, rtol=1e-9)
    some = errors_of_draws(a, shuffled, (np.arange(7), np.argsort(order)[:7]))
    np.testing.assert_allclose(some.of_difference, whole.of_difference[:7], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("T", "more", "options"), [(60, 120, {}), (80, 160, BALANCED)])
def test_errors_are_covered_that_two_runs_share_in_part(T, more, options):
    """One run has more draws than the other: the stated covariance is the one over 60 runs."""
    games, products, stated, z = two_games(), [], [], []
    true = [game.values(16) for game in games]
    for seed in range(60):
        a, b = two_runs(games, seed, T, shared=True, n_second=more, **options)
        errors = errors_of_draws(a, b, everyone(60))
        apart = [run.values - values for run, values in zip((a, b), true, strict=True)]
        products.append((apart[0] * apart[1]).mean())
        stated.append(errors.covariance.mean())
        z.append((apart[0] - apart[1]) / errors.of_difference)
    error = np.std(products) / np.sqrt(60)
    assert np.mean(stated) == pytest.approx(np.mean(products), abs=3 * error)
    assert np.mean(stated) > 3 * np.std(stated) / np.sqrt(60)
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1.0, abs=0.12)


def test_the_smaller_set_of_a_draw_is_the_start_of_the_larger():
    """Runs of one seed share sets although m and the size weights differ."""
    B = labelled(50)
    small, large = ds.Design(B, 10, seed=3, weights="uniform"), ds.Design(B, 40, seed=3)
    for t in range(20):
        a, b = sorted([small.draw(t).rows, large.draw(t).rows], key=len)
        assert (b[: len(a)] == a).all()


def crossed_run(seed, deal, n=45):
    B = labelled(n)
    folds = np.random.default_rng(deal).permutation(n) % 5
    game = CrossGame(B, folds)
    return ds.estimate(known(crossed(game, np.random.default_rng([3, seed]), 150)))


def test_the_same_test_rows_are_an_error_of_the_difference_only():
    """In the same folds they move both runs; two runs of other folds share four fifths."""
    a, b = crossed_run(0, deal=0), crossed_run(1, deal=0)
    where = everyone(45)
    draws = errors_of_draws(a, b, where)
    np.testing.assert_allclose(draws.variances[0], a.of_draws.stderr**2, rtol=0.5)
    whole = with_test_rows(draws, a, b, where)
    assert np.mean(whole.variances[0]) > np.mean(draws.variances[0])
    c = crossed_run(1, deal=1)
    apart = errors_of_draws(a, c, where)
    of_folds = (a.fold_influence**2).sum(axis=0)
    np.testing.assert_allclose(apart.variances[0], a.of_draws.stderr**2 + of_folds / 5, rtol=1e-9)
    np.testing.assert_allclose(with_test_rows(apart, a, c, where).variances[0], a.stderr**2)


# --- the order


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["independent", "shared"])
def test_the_order_without_noise_is_unbiased_and_covered(shared):
    """Over 60 pairs of noisy runs, of the same draws or of others.

    Nine of ten intervals hold, not 19 of 20: errors of few draws have long tails.
    """
    games = two_games()
    true = spearman(games[0].values(16), games[1].values(16))
    found = []
    for seed in range(60):
        a, b = two_runs(games, seed, 200, shared=shared, **BALANCED)
        errors = errors_of_draws(a, b, everyone(60))
        freedom = 2 / (1 / a.freedom + 1 / b.freedom)
        one = agreement((a.values, b.values), errors, freedom=freedom)
        found.append((one.observed, *one.without_noise))
    observed, corrected, low, high = np.transpose(found)
    error = corrected.std() / np.sqrt(60)
    assert corrected.mean() == pytest.approx(true, abs=3 * error)
    assert observed.mean() < true - (0 if shared else 3 * error)  # something is to be corrected
    covered = ((low <= true) & (true <= high)).mean()
    assert covered == pytest.approx(0.9, abs=3 * np.sqrt(0.9 * 0.1 / 60))


def test_runs_that_agree_have_an_order_of_one_or_none():
    game = two_games()[0]
    a, b = two_runs((game, game), 0, 200, shared=False, **BALANCED)
    errors = errors_of_draws(a, b, everyone(60))
    found = agreement((a.values, b.values), errors)
    assert found.without_noise[2] == 1.0
    assert found.observed == pytest.approx(found.ceiling, abs=0.05)
    same = agreement((a.values, a.values), errors_of_draws(a, a, everyone(60)))
    assert same.without_noise[0] == pytest.approx(1.0)


def test_noise_that_hides_the_order_is_said():
    rng = np.random.default_rng(0)
    made = {"stderr": np.ones(50), "m": 5, "n_draws": 9, "ids": np.arange(50),
            "rows": np.ones(50, int)}  # fmt: skip
    one, other = (ds.Valuation(values=rng.normal(size=50), **made) for _ in range(2))
    found = ds.compare(one, other).pairs[0]
    assert np.isnan(found.order.without_noise).all()
    assert "hide" in found.order.hidden
    assert not found.differs.any()


@pytest.mark.parametrize("crowded", [False, True])
def test_the_overlap_of_tenths_that_runs_who_agree_would_share(crowded):
    """Not only for normal values: most rows may be alike, and the top tenth chance."""
    rng, n, noise = np.random.default_rng(0), 300, 0.3
    seen, expected = [], []
    for _ in range(12):
        true = rng.normal(size=n)
        if crowded:
            true = np.where(rng.random(n) < 0.75, 0.15 * true, 0.8 * true - 3) / 1.4
        made = {"stderr": np.full(n, noise), "m": 5, "n_draws": 9, "ids": np.arange(n),
                "rows": np.ones(n, int)}  # fmt: skip
        a, b = (ds.Valuation(values=true + noise * rng.normal(size=n), **made) for _ in range(2))
        seen.append(comparison._in_both(a.values, b.values)[0])
        errors = errors_of_draws(a, b, everyone(n))
        expected.append(comparison._agreeing((a.values, b.values), errors)[0])
    error = np.std(seen) / np.sqrt(12)
    assert np.mean(expected) == pytest.approx(np.mean(seen), abs=3 * error + 0.02)


# --- the rows that differ


def standardised(a, b):
    values, where = (a.values, b.values), everyone(len(a))
    errors = errors_of_draws(a, b, where)
    freedom = comparison._pooled(errors, (a.freedom, b.freedom))
    return comparison._differences(values, errors, errors, freedom)[1:]


@pytest.mark.slow
@pytest.mark.parametrize(("T", "options"), [(150, BALANCED), (330, AUTO)])
def test_two_seeds_of_a_run_differ_in_no_row(T, options):
    """In 5 % of 40 pairs at most is any row pointed out; and the stated errors are those seen."""
    game, wrong, z = two_games()[1], [], []
    for seed in range(40):
        a, b = two_runs((game, game), seed, T, shared=False, **options)
        apart, error, differs = standardised(a, b)
        wrong.append(differs.any())
        z.append(apart / error)
    assert np.mean(wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)
    assert np.sqrt(np.mean(np.square(z))) == pytest.approx(1.0, abs=0.12)


def test_an_error_of_scale_is_no_difference():
    """Runs that shift and scale all values alike say the same of every row."""
    a, _ = two_runs(two_games(), 0, 90, shared=True)
    b = replace(a.draws, marginals=(3 * a.draws.marginals + 0.5).astype(np.float32))
    apart, error, differs = standardised(a, ds.estimate(b))
    np.testing.assert_allclose(apart, 0, atol=1e-5)
    assert not differs.any()
    assert (error < 1e-4).all()


def test_planted_rows_are_found():
    """Another model, to which five rows are worth something else."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    game, planted = MeanGame(X), np.array([3, 14, 15, 9, 26])
    a, b = two_runs((game, game), 0, 400, shared=False, **BALANCED)
    marginals = b.draws.marginals.copy()
    marginals[:, planted] += 2 * float(b.values.std()) * np.array([1, -1, 1, -1, 1])
    found = ds.compare(a, ds.estimate(replace(b.draws, marginals=marginals)))
    assert set(found.pairs[0].most_different.tolist()) == set(planted.tolist())
    assert set(found.most_different().tolist()) == set(planted.tolist())
    frame = found.to_frame()
    assert frame["differs run 1 - run 2"].sum() == 5
    assert frame["value run 2"].tolist() == found.values[1].tolist()


# --- matching and words


def plain(n=30, ids=None, seed=0, stderr=0.01, **more):
    values = np.random.default_rng(seed).normal(size=n)
    return ds.Valuation(
        values=values, stderr=np.full(n, stderr), m=5, n_draws=9,
        ids=np.arange(n) if ids is None else ids, rows=np.ones(n, int), **more,
    )  # fmt: skip


def test_rows_are_matched_by_id():
    a, b = plain(), plain(ids=np.arange(10, 40)[::-1])
    found = ds.compare(a, b)
    assert found.ids.tolist() == list(range(10, 30))
    assert found.values[1].tolist() == b.values[::-1][:20].tolist()
    assert "30 in run 1, 30 in run 2" in found.matched
    assert "on the 20 rows whose id all of them have" in found.matched


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([plain()], "1 run: a comparison needs two or more"),
        ([plain(), plain(ids=np.arange(30) + 99)], "no row in common"),
        ([plain(), plain(ids=np.arange(30) + 27)], "only 3 rows in common"),
        ([plain(), plain(ids=np.zeros(30, int))], "run 2 has the same id twice"),
        ([plain(), replace(plain(), rows=np.full(30, 2))], "run 2 has values of bundles"),
        ([plain(), plain(stderr=np.nan)], "run 2: its errors are not known yet"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs, message):
    with pytest.raises(ds.InputError, match=message):
        ds.compare(*runs)


def of_table(table, seed=0, target="y"):
    draws = record(two_games(40)[0], np.random.default_rng(seed), 60)
    context = Context(source=Source(table=table, target=target, task="classification", model="knn"))
    return ds.estimate(replace(draws, about=About(identity=Identity(seed=seed), context=context)))


def test_equal_ids_of_different_tables_are_not_the_same_rows():
    with pytest.raises(ds.InputError, match="of different tables or targets"):
        ds.compare(of_table("/a.csv"), of_table("/b.csv"))
    assert len(ds.compare(of_table("/a.csv"), of_table("/a.csv", seed=1))) == 40


def described(model, metric, **more):
    potential = {"estimator": f"module.{model}", "metric": metric, "test": "5 folds ab (60 rows)"}
    draws = record(two_games(40)[0], np.random.default_rng(0), 60)
    identity = Identity(method="m", potential={**potential, **more}, database="ab (60 rows)")
    return ds.estimate(replace(draws, about=About(identity=identity)))


def test_what_differs_is_said_in_words():
    runs = [described("Ridge", "r2", **{"estimator.alpha": a, "min_rows": 1}) for a in (1.0, 2.0)]
    assert [tuple(part) for part in ds.compare(*runs).differences] == [("alpha", ("1.0", "2.0"))]
    other = described("Lasso", "neg_mse", **{"estimator.tol": 1, "min_rows": 5})
    found = ds.compare(runs[0], other.at(m=9), names=("a", "b")).differences
    assert [part.what for part in found] == ["model", "metric", "m", "draws", "min rows"]
    assert found[0].values == ("Ridge", "Lasso")
    assert found[2].values == ("16", "9")
    moved = described("Ridge", "r2", **{"estimator.alpha": 1.0, "min_rows": 1})
    identity = moved.about.identity
    potential = {**identity.potential, "test": "5 folds cd (60 rows)"}
    about = About(identity=replace(identity, potential=potential))
    moved = ds.estimate(replace(moved.draws, about=about))
    (test,) = ds.compare(runs[0], moved).differences
    assert [text[-15:] for text in test.values] == ["seed 0 (ab (60)", "seed 0 (cd (60)"]


# --- pages and commands


def test_three_runs_have_a_matrix_and_a_page():
    found = ds.compare(plain(), plain(seed=1), plain(stderr=0.02), names=("a", "b", "<c>"))
    assert len(found.pairs) == 3
    assert found.pair(2, 0).order.observed == pytest.approx(1.0)
    details = pd.DataFrame({"age": np.arange(30)})
    page = comparison_report(found, details=details)
    text, content = to_html(page), to_json(page)
    assert "&lt;c&gt;" in text
    assert "<c>" not in text
    matrix = content["sections"][0]["tables"][1]
    assert matrix["rows"][0][0] == "a"
    assert matrix["rows"][2][1] == pytest.approx(1.0)
    rows = content["sections"][-1]["tables"][0]
    assert rows["columns"][-1] == "age"
    assert len(rows["rows"]) == found.differs.sum() > 5
    assert "treat it like the table itself" in text
    assert len(pair_lines(found, found.pairs[0])) == 4


def test_a_sensitive_page_has_no_id_and_no_column():
    ids = np.array([f"person{i}" for i in range(30)])
    found = ds.compare(plain(ids=ids), plain(ids=ids, seed=1))
    assert found.differs.any()
    details = pd.DataFrame({"wealth": np.arange(30)})
    shown, hidden = (
        comparison_report(found, details=details, sensitive=sensitive)
        for sensitive in (False, True)
    )
    for word in ("person", "wealth"):
        assert word in to_html(shown)
        assert word not in to_html(hidden)
        assert word not in str(to_json(hidden))
    assert "<svg" in to_html(hidden)


def call(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs of the same 80 rows by two metrics and two seeds, one of bundles, one of few draws."""
    here = tmp_path_factory.mktemp("runs")
    table = adult_sample().head(80)
    table.to_csv(here / "adult.csv", index=False)
    table.iloc[::-1].to_csv(here / "other.csv", index=False)
    fast = ["--target", "income", "--model", "naive_bayes", "--m", "8", "--jobs", "1",
            "--drop", "fnlwgt", "--no-report"]  # fmt: skip
    for name, options in {
        "a": ["--draws", 60],
        "b": ["--draws", 60, "--metric", "log_score"],
        "c": ["--draws", 60, "--seed", 1],
        "few": ["--draws", 3],
        "several": ["--draws", 60, "--metric", "accuracy", "--metric", "brier"],
        "bundles": ["--draws", 60, "--group", "race"],
    }.items():
        result = call("value", here / "adult.csv", *fast, "--out", here / name, *options)
        assert result.exit_code == 0, result.output
    result = call("value", here / "other.csv", *fast, "--draws", 60, "--out", here / "else")
    assert result.exit_code == 0, result.output
    return here


def test_the_command_prints_and_writes(folders, tmp_path):
    out = tmp_path / "found"
    result = call("compare", folders / "a", folders / "b", folders / "c", "--out", out)
    assert result.exit_code == 0, result.output
    for words in ("log_score", "Rank correlations", "Pairs of runs", "All runs value the same 80"):
        assert words in result.stdout
    frame = pd.read_csv(out / "compare.csv")
    assert len(frame) == 80
    values = ds.estimate(ds.load_run(folders / "b")).values
    np.testing.assert_allclose(frame["value b"], values)
    assert "Would another run say the same?" in (out / "compare.html").read_text()
    one = call("compare", folders / "a", folders / "b", "--m", 4)
    assert one.exit_code == 0, one.output
    assert "Both runs drew the same sets" in one.stdout
    metrics = call("compare", folders / "several")
    assert metrics.exit_code == 0, metrics.output
    assert "brier" in metrics.stdout


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "two or more run folders"),
        (["a", "a"], "is named twice"),
        (["a", "nothing"], "holds no run"),
        (["a", "bundles"], "bundles has values of bundles"),
        (["a", "few"], "few: its errors are not known yet"),
        (["a", "else"], "different tables or targets"),
        (["a", "b", "--out", "a"], "it is a run folder"),
        (["a", "b", "--m", "9"], "whole numbers m from 1 to 8"),
        (["a", "b", "--top", "0"], "give at least 1"),
    ],
)
def test_errors_are_one_line(folders, monkeypatch, names, message):
    monkeypatch.chdir(folders)
    result = call("compare", *names)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
