import numpy as np
import pytest

import dshapley as ds
from conftest import labelled


def test_draw_is_pure_in_seed_and_t(database):
    design = ds.Design(database, m=9, weights="1/k", seed=4)
    again = ds.Design(database, m=9, weights="1/k", seed=4)
    for t in (7, 0, 7, 123):  # whatever was drawn before
        a, b = design.draw(t), again.draw(t)
        assert (a.k, a.seed) == (b.k, b.seed)
        np.testing.assert_array_equal(a.S.ids, b.S.ids)


def test_draws_differ_by_t_and_by_seed(database):
    ids = {
        (seed, t): tuple(
            ds.Design(database, m=9, weights=[0.0125] * 8 + [0.9], seed=seed).draw(t).S.ids
        )
        for seed in (0, 1)
        for t in range(20)
    }
    assert len(set(ids.values())) == 40


def test_k_is_the_size_of_S_plus_one(database):
    design = ds.Design(database, m=6)
    draws = [design.draw(t) for t in range(200)]
    assert all(len(d.S) == d.k - 1 for d in draws)
    assert {d.k for d in draws} == set(range(1, 7))


@pytest.mark.parametrize("weights", ["uniform", "1/k", "k^-2"])
def test_sizes_follow_their_weights(weights):
    design = ds.Design(labelled(5), m=5, weights=weights)
    n = 4000
    counts = np.bincount([design.draw(t).k for t in range(n)], minlength=6)[1:]
    error = np.sqrt(n * design.weights * (1 - design.weights))
    assert np.abs(counts - n * design.weights).max() < 4 * error.max()


def test_sets_are_drawn_uniformly_with_replacement():
    design = ds.Design(labelled(4), m=6, weights=[1e-9] * 5 + [1 - 5e-9])
    sets = [design.draw(t).S.ids for t in range(1000)]
    counts = np.bincount(np.concatenate(sets), minlength=4)
    assert np.abs(counts - 1250).max() < 4 * np.sqrt(5000 * 0.25 * 0.75)
    # Five draws of four points are 4 (1 - (3/4)^5) = 3.05 different ones on average.
    different = [len(set(ids)) for ids in sets]
    error = np.std(different) / np.sqrt(1000)
    assert np.mean(different) == pytest.approx(4 * (1 - 0.75**5), abs=4 * error)


def test_database_need_not_contain_the_points_valued(database, held_out, offered):
    run = ds.run(ds.MeanPotential(database), ds.Design(database, m=4), offered, stop=10)
    assert run.marginals.shape == (10, len(offered))


@pytest.mark.parametrize("balanced", [False, True])
def test_reference_and_chain_are_points_of_their_own(balanced):
    """Pure in seed and t; apart from S and from each other, as independent draws are."""
    design = ds.Design(
        labelled(1000), 40, weights="uniform", seed=4, balanced=balanced, control_variates=True
    )
    for t in (0, 5, 16):
        S, R, nested = design.draw(t).S.ids, design.reference(t, 20).ids, design.nested(t).ids
        assert (len(R), len(nested)) == (20, 40)
        assert R.tolist() == design.reference(t, 20).ids.tolist()
        assert nested.tolist() == design.nested(t).ids.tolist()
        assert R.tolist() != nested[:20].tolist()
        assert S[:20].tolist() != R[: len(S)].tolist()
        assert S.tolist() != nested[: len(S)].tolist()
    assert design.nested(0).ids.tolist() != design.nested(16).ids.tolist()


@pytest.mark.parametrize("wrong", [{"m": 0}, {"m": 2.5}, {"m": 3, "seed": -1}, {"m": -4}])
def test_bad_designs(database, wrong):
    with pytest.raises(ds.InputError):
        ds.Design(database, **wrong)


def test_empty_database(database):
    with pytest.raises(ds.InputError, match="no rows"):
        ds.Design(database.take([]), m=3)
