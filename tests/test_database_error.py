"""The error that comes from the finite database: the stated one is the spread over databases.

Values of each database are exact (`records.py`); the error is stated from the draws of one.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

import dshapley as ds
from conftest import labelled
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.inference.database_error import _kernel
from dshapley.reporting.findings import database_sentence
from dshapley.sampling.draws import Folds
from dshapley.sampling.provenance import About, Context, Identity
from records import KnnGame, plain_draws


def made(design, gains, draws, **more):
    """A record of these draws of a design, that says how it was made."""
    identity = Identity(
        m=design.m, seed=design.seed, balanced=design.balanced, control_variates=False,
        database="one", **more,
    )  # fmt: skip
    about = About(identity=identity, context=Context(database_rows=len(design.database)))
    return plain_draws(
        [draw.k for draw in draws], gains, design.weights, balanced=design.balanced, about=about
    )


def knn_run(game, seed, T):
    """T draws of a game by a real design."""
    design = ds.Design(game.database, game.m, seed=seed, control_variates=False)
    draws = [design.draw(t) for t in range(T)]
    index = np.zeros((T, game.m - 1), dtype=np.intp)
    for i, draw in enumerate(draws):
        index[i, : draw.k - 1] = draw.rows
    k = np.array([draw.k for draw in draws])
    return ds.estimate(made(design, game.gains(index, k - 1), draws))


def knn_game(database, m):
    return KnnGame(labelled(database[0], seed=database[1]), TEST, OFFERED, K=3, m=m)


TEST, OFFERED = labelled(60, seed=1), labelled(25, seed=2)


def test_the_rows_of_a_draw_are_known_without_the_draw():
    folds = np.random.default_rng(0).permutation(40) % 5
    for options in ({}, {"folds": folds}):
        design = ds.Design(labelled(40), 20, seed=5, **options)
        for t in range(12):
            draw = design.draw(t)
            assert (design.rows(t, draw.k) == draw.rows).all()


@pytest.mark.parametrize("crossed", [False, True])
def test_the_kernel_by_hand(crossed):
    """The products of the counts of rows less their means, over all pairs of draws."""
    folds = np.random.default_rng(0).permutation(33) % 5 if crossed else None
    design = ds.Design(labelled(33), 12, seed=1, folds=folds)
    draws = [design.draw(t) for t in range(20)]
    counts = np.zeros((20, 33))
    for t, draw in enumerate(draws):
        allowed = np.ones(33) if folds is None else folds != draw.fold
        counts[t] = np.bincount(draw.rows, minlength=33) - (draw.k - 1) * allowed / allowed.sum()
    wanted = counts @ counts.T
    np.fill_diagonal(wanted, 0.0)
    found = _kernel(made(design, np.zeros((20, 2)), draws), design)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "m"), [(30, 16), (80, 30)])
def test_the_stated_error_is_the_spread_over_databases(rows, m):
    """100 databases, the values of each exact; runs of 300 draws on 15 of them."""
    exact = np.array([knn_game((rows, 100 + r), m).values(m) for r in range(100)])
    true = exact.var(axis=0, ddof=1)
    stated, inside = [], []
    for r in range(15):
        run = knn_run(knn_game((rows, 100 + r), m), r, 300)
        found = run.database_error()
        assert found.known
        stated.append(found.stderr**2)
        both = np.hypot(run.stderr, found.stderr)
        inside.append(np.abs(run.values - exact.mean(axis=0)) < 1.96 * both)
        assert found.typical**2 == pytest.approx((found.stderr**2).mean(), rel=0.3)
    # Databases differ in their errors too, by about a quarter of the variance here.
    mean, error = np.mean(stated), np.std(np.mean(stated, axis=1)) / np.sqrt(15)
    assert mean == pytest.approx(true.mean(), abs=3 * np.hypot(error, 0.1 * true.mean()))
    assert np.corrcoef(np.mean(stated, axis=0), true)[0, 1] > 0.9
    # The values of one database are wrong together: the shares of databases vary by 0.1.
    assert np.mean(inside) == pytest.approx(0.95, abs=3 * 0.1 / np.sqrt(15))
    # Without it, intervals are about this database alone.
    alone = np.abs(run.values - exact.mean(axis=0)) < 1.96 * run.stderr
    assert alone.mean() < np.mean(inside)


@pytest.mark.slow
def test_where_no_row_matters_nothing_is_found():
    """Marginals of pure chance: the mean of the estimates is 0, and few runs claim to know."""
    rng, known, limits = np.random.default_rng(0), [], []
    design = ds.Design(labelled(50), 20, seed=0, control_variates=False)
    draws = [design.draw(t) for t in range(200)]
    for _ in range(60):
        gains = rng.normal(size=(200, 10)) / np.array([draw.k for draw in draws])[:, np.newaxis]
        found = ds.estimate(made(design, gains, draws)).database_error()
        known.append(found.known)
        limits.append(found.most)
    assert np.mean(known) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert min(limits) >= 0


def test_a_run_with_more_draws_than_rows_matter_says_how_many_it_takes():
    run = knn_run(knn_game((2000, 0), 10), 0, 150)
    found = run.database_error()
    assert not found.known
    assert np.isnan(found.stderr).all()
    assert found.most < 5 * found.of_draws
    assert "at most" in repr(found)
    assert "at most" in database_sentence(found)
    assert found.rows == 2000


def test_a_run_knows_its_design():
    """Cross-fitted or not; and if it does not, it asks for the design."""
    B = labelled(40)
    U = ds.potential(GaussianNB(), test=labelled(50, seed=1))
    design = ds.Design(B, 10, seed=3)
    run = ds.estimate(ds.run(U, design, labelled(6, seed=2), stop=320))
    found = run.database_error()
    assert found.typical == run.database_error(design).typical
    assert np.isfinite(found.most)
    bare = ds.estimate(replace(run.draws, about=About()))
    with pytest.raises(ds.InputError, match="do not say how they were made"):
        bare.database_error()
    assert bare.database_error(design).most == found.most
    other = replace(run.draws, folds=Folds(5, np.arange(6) % 5))
    with pytest.raises(ds.InputError, match="folds of the database are not known"):
        ds.estimate(other).database_error()
    crossed = ds.value(B.X, B.y, model=GaussianNB(), m=10, stop=150)
    assert crossed.database_error().rows == 40
    with pytest.raises(ds.InputError, match="keep no draws"):
        run.without_draws().database_error()


def test_a_design_of_other_draws_is_refused():
    run = knn_run(knn_game((60, 0), 10), 0, 60)
    with pytest.raises(ds.InputError, match="not the design of these draws"):
        run.database_error(ds.Design(labelled(60), 10, seed=9))


def test_show_says_it(tmp_path):
    adult_sample().head(60).to_csv(tmp_path / "adult.csv", index=False)
    words = ["value", tmp_path / "adult.csv", "--target", "income", "--model", "naive_bayes",
             "--m", 8, "--jobs", 1, "--no-report", "--draws", 60,
             "--out", tmp_path / "run"]  # fmt: skip
    assert CliRunner().invoke(app, [str(w) for w in words]).exit_code == 0
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "run"), "--database-error"])
    assert shown.exit_code == 0, shown.output
    assert "With another 60 rows from the same source as the database" in shown.stdout
