"""Size weights found by a pilot, and runs that find them."""

import shutil
from dataclasses import fields, replace

import numpy as np
import pytest

import dshapley as ds
from conftest import labelled
from dshapley.allocation import Allocation, allocate, gain
from dshapley.draws import Pilot
from dshapley.sizes import bands, from_stability, per_size, power, uniform
from dshapley.stopping import FixedDraws, Precision, Seconds
from records import GOLDEN, plain_draws, quantiles


def simulated(n, m, *, a=1.0, c=0.0, weights=None, balanced=False, mean=0.0, seed=0, n_points=20):
    """Draws whose marginals have the mean `mean` / k and the spread k^-a, and cost k^c."""
    rng = np.random.default_rng(seed)
    w = power(m, 1.0) if weights is None else weights
    u = (rng.random() + np.arange(n) * GOLDEN) % 1.0 if balanced else rng.random(n)
    k = quantiles(u, w).astype(float)[:, np.newaxis]
    gains = mean / k + k**-a * rng.normal(size=(n, n_points))
    seconds = 1e-3 * (k[:, 0] ** c) * np.exp(0.2 * rng.normal(size=n))
    return plain_draws(k[:, 0].astype(int), gains, w, seconds=seconds, stratified=balanced)


def product(weights, *, a, c):
    """Variance times cost: (sum of spread^2 / w) (sum of w seconds)."""
    k = np.arange(1.0, len(weights) + 1)
    return (k ** (-2 * a) / weights).sum() * (weights * k**c).sum()


def optimum(m, *, a, c):
    """By Cauchy and Schwarz: spread over the root of the cost."""
    w = np.arange(1.0, m + 1) ** (-a - c / 2)
    return w / w.sum()


# --- what a pilot finds


@pytest.mark.parametrize("m", [8, 100])
@pytest.mark.parametrize(("a", "c"), [(1, 0), (0.5, 0), (1.5, 0), (0.5, 1), (1, 1), (0, 1)])
def test_the_optimum_is_found(m, a, c):
    """Variance times cost is within 15 % of the least there is, from 100 draws."""
    found = [allocate(simulated(100, m, a=a, c=c, seed=seed)) for seed in range(5)]
    best = product(optimum(m, a=a, c=c), a=a, c=c)
    assert min(best / product(one.weights, a=a, c=c) for one in found) >= 0.85
    for one in found:
        assert one.weights.sum() == pytest.approx(1.0)
        # But for the floor the weights are the optimal ones, up to the errors of the fit.
        floor = (power(m, 1.0) + 1 / m) / 2
        share = (one.weights - 0.1 * floor) / 0.9 / optimum(m, a=a, c=c)
        assert np.abs(np.log(share)).max() < 0.7


def test_other_weights_would_be_seen():
    """Where uniform sizes are optimal, 1/k is not, and the other way round."""
    for a, good, bad in (
        (0.0, uniform(100), power(100, 1.0)),
        (1.0, power(100, 1.0), uniform(100)),
    ):
        assert product(good, a=a, c=0) == pytest.approx(product(optimum(100, a=a, c=0), a=a, c=0))
        assert product(good, a=a, c=0) < 0.5 * product(bad, a=a, c=0)


def test_spread_and_cost_are_those_of_the_draws():
    found = allocate(simulated(400, 60, a=0.7, c=1.2))
    k = np.arange(1.0, 61)
    # Mean squares of 20 points in 400 draws; in the logarithm, so errors of a few percent.
    assert np.abs(np.log(found.spread * k**0.7)).max() < 0.25
    assert np.abs(np.log(found.seconds * 1e3 * k**-1.2)).max() < 0.25


def test_for_independent_sizes_a_marginal_counts_with_its_mean():
    """Marginals that are all 1/k leave no error where sizes are balanced, else much of it."""
    rng = np.random.default_rng(0)
    draws = simulated(200, 30, a=2.0, mean=0.0)
    k = draws.k[:, np.newaxis].astype(float)
    gains = 1 / np.sqrt(k) + 0.5 * k**-2.0 * rng.normal(size=(200, 20))
    apart = allocate(replace(draws, marginals=gains.astype(np.float32)))
    assert np.abs(np.log(apart.spread[1:] * np.arange(2, 31) ** 0.5)).max() < 0.1
    within = allocate(replace(draws, marginals=gains.astype(np.float32), stratified=True))
    assert (within.spread < apart.spread).all()
    assert within.spread[0] < 0.7 * apart.spread[0]


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("c", [0, 2])
def test_no_size_starves(c, balanced):
    """Whatever the pilot says, a tenth of the draws is spread as 1/k and uniformly."""
    m = 50
    for a in (0.0, 3.0):
        weights = allocate(simulated(100, m, a=a, c=c, balanced=balanced)).weights
        assert (weights >= 0.05 * power(m, 1.0) * (1 - 1e-9)).all()
        assert (weights >= 0.05 / m * (1 - 1e-9)).all()
        assert ds.sizes.as_weights(weights, m).tolist() == pytest.approx(weights.tolist())


@pytest.mark.parametrize("m", [1, 2, 3])
def test_below_four_sizes_there_is_nothing_to_find(m):
    found = allocate(simulated(30, m))
    assert found.weights.tolist() == power(m, 1.0).tolist()
    assert found.gain > 0


@pytest.mark.parametrize("balanced", [False, True])
def test_marginals_that_are_all_zero_say_nothing(balanced):
    draws = simulated(50, 20, balanced=balanced)
    found = allocate(replace(draws, marginals=np.zeros_like(draws.marginals)))
    assert found.weights.tolist() == power(20, 1.0).tolist()


def test_marginals_of_the_empty_set_alone():
    draws = simulated(60, 20)
    gains = np.where(draws.k[:, np.newaxis] == 1, draws.marginals, 0)
    weights = allocate(replace(draws, marginals=gains)).weights
    assert weights[0] > 0.9
    assert (weights > 0).all()


@pytest.mark.parametrize("k", [np.ones(50, int), np.full(50, 7), np.array([1, 7] * 25)])
def test_a_pilot_of_one_or_two_sizes(k):
    """Nothing is known of the others, and they are as those next to them."""
    rng = np.random.default_rng(0)
    draws = plain_draws(k, rng.normal(size=(50, 4)), power(20, 1.0), seconds=np.ones(50))
    for stratified in (False, True):
        weights = allocate(replace(draws, stratified=stratified)).weights
        assert np.isfinite(weights).all()
        assert weights.sum() == pytest.approx(1.0)
        assert (weights > 0).all()


def test_units_make_no_difference():
    """Neither that of U nor that of time."""
    draws = simulated(100, 40, c=1.0)
    weights = allocate(draws).weights
    for U, time in ((1e-6, 1.0), (1e6, 1.0), (1.0, 1e4)):
        other = replace(
            draws, marginals=draws.marginals * np.float32(U), seconds=draws.seconds * time
        )
        np.testing.assert_allclose(allocate(other).weights, weights, rtol=1e-3)


@pytest.mark.parametrize("where", [0, 13, -1])
def test_a_draw_that_was_held_up_does_not_bend_the_cost(where):
    draws = simulated(100, 40, c=1.0)
    late = draws.seconds.copy()
    late[where] *= 10_000
    straight, bent = allocate(draws), allocate(replace(draws, seconds=late))
    np.testing.assert_allclose(bent.seconds, straight.seconds, rtol=0.1)
    np.testing.assert_allclose(bent.weights, straight.weights, rtol=0.05)


def test_times_that_are_all_alike_or_too_short_to_measure():
    draws = simulated(100, 40)
    for seconds in (np.full(100, 0.5), np.zeros(100)):
        found = allocate(replace(draws, seconds=seconds))
        np.testing.assert_allclose(found.seconds, found.seconds[0], rtol=1e-3)
    with pytest.raises(ds.InputError, match="have no times"):
        allocate(replace(draws, seconds=None))


# --- gain


def test_the_expected_gain_is_that_of_the_formula():
    m, k = 30, np.arange(1.0, 31)
    known = {field.name: 1 / k for field in fields(Allocation)} | {"seconds": k}
    for w in (uniform(m), power(m, 1.0)):
        found = Allocation(**(known | {"weights": w}))
        assert found.gain == pytest.approx(product(uniform(m), a=1, c=1) / product(w, a=1, c=1))
    assert Allocation(**(known | {"weights": uniform(m)})).gain == pytest.approx(1.0)


def test_the_gain_of_a_run_with_a_known_one():
    """Marginals of mean zero: variance is sum of spread^2 / (w_k m^2), time is sum of w_k k^c."""
    m, a, c = 30, 1.0, 1.0
    truth = product(uniform(m), a=a, c=c) / product(power(m, 1.0), a=a, c=c)
    found = [gain(simulated(4000, m, a=a, c=c, seed=seed)) for seed in range(4)]
    obtained = np.array([one.obtained for one in found])
    # Each is a ratio of variances and times of 4,000 draws of 20 points.
    assert np.abs(np.log(obtained / truth)).max() < 0.15
    assert all(one.expected is None for one in found)
    one = gain(simulated(4000, m, a=a, c=c, weights=uniform(m)))
    assert one.obtained == pytest.approx(1.0, abs=0.15)


def test_what_a_pilot_promises_is_obtained():
    m, a, c = 30, 1.0, 1.0
    first = simulated(100, m, a=a, c=c)
    weights = allocate(first).weights
    rest = simulated(4000, m, a=a, c=c, weights=weights, seed=1)
    columns = {
        name: np.concatenate([part, rest.columns()[name]]) for name, part in first.columns().items()
    }
    draws = replace(rest.of(columns), t=np.arange(4100), pilot=Pilot(100, power(m, 1.0)))
    found = gain(draws)
    truth = product(uniform(m), a=a, c=c) / product(weights, a=a, c=c)
    assert found.expected == pytest.approx(truth, rel=0.4)
    assert found.obtained == pytest.approx(truth, rel=0.2)


def test_balanced_sizes_gain_what_lies_between_sizes():
    """Of marginals (1 + noise) / k half of the mean square is between the sizes."""
    plain, even = (
        gain(simulated(3000, 20, mean=1.0, weights=uniform(20), balanced=balanced))
        for balanced in (False, True)
    )
    k = np.arange(1.0, 21)
    truth = 1 + (1 / k).var() / (k**-2.0).mean()
    assert plain.obtained == pytest.approx(1.0, abs=0.1)
    assert even.obtained == pytest.approx(truth, rel=0.1)


def test_no_gain_without_times_or_draws():
    draws = simulated(20, 10)
    for poor in (draws.first(1), replace(draws, seconds=None)):
        with pytest.raises(ds.InputError, match="two or more draws with times"):
            gain(poor)
    still = gain(replace(draws, marginals=np.zeros_like(draws.marginals)))
    assert np.isnan(still.obtained)


# --- runs


@pytest.fixture
def setup(database, offered):
    """A run whose pilot is as short as it may be."""
    design = ds.Design(database, m=12, weights="auto", seed=3, pilot=20)
    return ds.MeanPotential(database), design, offered


def same(a, b):
    return (
        a.t.tolist() == b.t.tolist()
        and a.k.tolist() == b.k.tolist()
        and a.marginals.tobytes() == b.marginals.tobytes()
        and a.weights.tobytes() == b.weights.tobytes()
        and a.pilot.draws == b.pilot.draws
        and a.pilot.weights.tobytes() == b.pilot.weights.tobytes()
    )


def test_the_pilot_is_a_run_with_weights_1_over_k(setup):
    U, design, Z = setup
    draws = ds.run(*setup, until=60)
    plain = ds.run(U, ds.Design(design.database, 12, "1/k", seed=3), Z, until=20)
    assert draws.marginals[:20].tobytes() == plain.marginals.tobytes()
    assert draws.pilot.draws == 20
    assert draws.pilot.weights.tolist() == power(12, 1.0).tolist()
    assert draws.weights.tolist() != draws.pilot.weights.tolist()
    assert draws.weights.tobytes() == allocate(draws.first(20)).weights.tobytes()
    later = design.allocated(draws.weights)
    assert draws.k.tolist() == [later.draw(t).k for t in range(60)]


def test_the_values_are_right(setup):
    U, _, Z = setup
    found = ds.estimate(ds.run(*setup, until=2000))
    for m in (12, 5):
        error = np.abs(found.at(m=m).values - U.value(Z, m=m)) / found.at(m=m).stderr
        assert error.max() < 4


@pytest.mark.parametrize("options", [{}, {"stratified": True, "anchor": True}])
@pytest.mark.parametrize("stops", [(20,), (7, 20), (45,), (7, 20, 33, 46)], ids=str)
def test_a_run_goes_on_with_the_allocation_it_had(tmp_path, setup, stops, options):
    """Stopped in the pilot, at its end, or later: as if it had not been, bit for bit.

    The weights hang on measured times, so the straight run starts from the same pilot: a copy.
    """
    U, design, Z = setup
    design = replace(design, weights="auto", **options)
    for until in stops:
        ds.run(U, design, Z, until=until, store=tmp_path / "run")
    if max(stops) == 20:  # the allocation is yet to be found, from times that are kept
        ds.run(U, design, Z, until=21, store=tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for shard in sorted((tmp_path / "copy" / "draws").glob("*.npz")):
        if int(shard.name[:8]) >= 20:
            shard.unlink()
    resumed, straight = (
        ds.run(U, design, Z, until=80, store=tmp_path / name) for name in ("run", "copy")
    )
    assert len(resumed) == 80
    assert same(resumed, straight)
    assert same(ds.load(tmp_path / "run"), resumed)
    assert same(ds.run(U, design, Z, until=80, store=tmp_path / "run"), resumed)


def test_the_same_pilot_finds_the_same_weights(tmp_path, setup):
    """A run killed between its pilot and its allocation."""
    ds.run(*setup, until=20, store=tmp_path / "run")
    assert not (tmp_path / "run" / "allocation.npz").exists()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    one, two = (ds.run(*setup, until=50, store=tmp_path / name) for name in ("run", "copy"))
    assert (tmp_path / "run" / "allocation.npz").exists()
    assert same(one, two)


def test_a_pilot_computed_anew_keeps_the_allocation(tmp_path, setup):
    """Its times are others, which makes no difference any more."""
    first = ds.run(*setup, until=50, store=tmp_path / "run")
    for shard in (tmp_path / "run" / "draws").glob("*.npz"):
        shard.unlink()
    again = ds.run(*setup, until=50, store=tmp_path / "run")
    assert same(first, again)


def test_kept_weights_and_pilot_are_loaded(tmp_path, setup):
    draws = ds.run(*setup, until=50, store=tmp_path / "run")
    loaded = ds.load(tmp_path / "run")
    assert same(loaded, draws)
    a, b = ds.estimate(loaded), ds.estimate(draws)
    assert a.values.tobytes() == b.values.tobytes()
    assert a.stderr.tobytes() == b.stderr.tobytes()


def test_a_pilot_that_is_not_over_is_loaded(tmp_path, setup):
    ds.run(*setup, until=12, store=tmp_path / "run")
    loaded = ds.load(tmp_path / "run")
    assert loaded.pilot is None
    assert loaded.weights.tolist() == power(12, 1.0).tolist()


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def forge(path):
    with np.load(path) as kept:
        parts = dict(kept)
    parts["weights"] = parts["weights"][::-1].copy()
    np.savez(path, **parts)


@pytest.mark.parametrize("damage", [truncate, empty, forge])
def test_a_damaged_allocation_is_refused(tmp_path, setup, damage):
    """Without the weights the draws after the pilot stand for nothing."""
    ds.run(*setup, until=50, store=tmp_path / "run")
    damage(tmp_path / "run" / "allocation.npz")
    for ask in (
        lambda: ds.load(tmp_path / "run"),
        lambda: ds.run(*setup, until=50, store=tmp_path / "run"),
    ):
        with pytest.raises(ds.RunFolderError, match=r"allocation\.npz .*name a new folder"):
            ask()


def test_a_lost_allocation_is_said(tmp_path, setup):
    ds.run(*setup, until=50, store=tmp_path / "run")
    (tmp_path / "run" / "allocation.npz").unlink()
    with pytest.raises(ds.RunFolderError, match=r"allocation\.npz is not there"):
        ds.load(tmp_path / "run")


def test_a_lost_allocation_is_not_found_anew_for_draws_that_had_another(tmp_path, setup):
    """Times measured again give other weights: the old draws would count by the wrong ones."""
    ds.run(*setup, until=50, store=tmp_path / "run")
    (tmp_path / "run" / "allocation.npz").unlink()
    for shard in (tmp_path / "run" / "draws").glob("*.npz"):
        if int(shard.name[:8]) < 20:
            shard.unlink()
    with pytest.raises(ds.RunFolderError, match=r"allocation\.npz is not there"):
        ds.run(*setup, until=50, store=tmp_path / "run")


def test_an_allocation_of_another_run_is_refused(tmp_path, setup):
    U, design, Z = setup
    ds.run(*setup, until=30, store=tmp_path / "run")
    ds.run(U, replace(design, weights="auto", seed=9), Z, until=30, store=tmp_path / "other")
    (tmp_path / "other" / "allocation.npz").replace(tmp_path / "run" / "allocation.npz")
    with pytest.raises(ds.RunFolderError, match="belongs to another run"):
        ds.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weights": "1/k"}, "weights was auto, is"),
        ({"weights": "auto", "pilot": 30}, "pilot was 20, is 30"),
        ({"weights": "auto", "stratified": True}, "sizes was independent, is balanced"),
        ({"weights": "auto", "anchor": True}, "anchor was False, is True"),
    ],
)
def test_another_design_is_another_run(tmp_path, setup, change, says):
    U, design, Z = setup
    ds.run(*setup, until=30, store=tmp_path / "run")
    other = ds.Design(design.database, **{"m": 12, "seed": 3, "pilot": 20, **change})
    with pytest.raises(ds.RunFolderError, match=says):
        ds.run(U, other, Z, until=30, store=tmp_path / "run")


def test_any_number_of_workers_given_the_allocation(tmp_path, setup):
    ds.run(*setup, until=21, store=tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = (
        ds.run(*setup, until=60, store=tmp_path / name, n_jobs=n)
        for name, n in (("one", 1), ("two", 2))
    )
    assert same(one, two)


@pytest.mark.parametrize("until", [1, 12, 19, 20])
def test_a_rule_may_stop_the_pilot(setup, until):
    draws = ds.run(*setup, until=until)
    assert len(draws) == until
    assert draws.pilot is None
    assert draws.weights.tolist() == power(12, 1.0).tolist()
    assert np.isfinite(ds.estimate(draws).values).all()


def test_a_precision_may_stop_the_pilot_or_come_later(setup):
    draws = ds.run(*setup, until=Precision(1e6, at_least=10))
    assert len(draws) == 10
    assert draws.pilot is None
    rule = Precision(0.5, at_least=30)
    draws = ds.run(*setup, until=rule)
    assert len(draws) >= 30
    assert rule(draws, 0.0)
    assert not any(rule(draws.first(n), 0.0) for n in range(len(draws)))


def test_a_limit_is_kept_across_the_pilot(setup):
    class Never:
        limit = 33

        def __call__(self, draws, seconds):
            return False

    assert len(ds.run(*setup, until=Never())) == 33
    assert len(ds.run(*setup, until=FixedDraws(33))) == 33


def test_no_draw_is_lost_when_time_runs_out_after_the_pilot(setup):
    """The rule says stop as soon as the pilot is over, for instance while weights are found."""

    class Soon(Seconds):
        def __call__(self, draws, seconds):
            self.__dict__["asked"] = self.__dict__.get("asked", 0) + 1
            return self.asked > 21  # once for each draw of the pilot, and once after it

    assert len(ds.run(*setup, until=Soon(1.0))) >= 20


def test_rules_see_the_weights_of_the_draws(setup):
    """What a rule estimates on the way is what comes out in the end."""
    seen = {}

    def rule(draws, seconds):
        seen[len(draws)] = ds.estimate(draws).values
        return len(draws) >= 40

    draws = ds.run(*setup, until=rule)
    for n in (5, 20, 22, 40):
        assert seen[n].tolist() == ds.estimate(draws.first(n)).values.tolist()


def test_an_interrupted_pilot_goes_on(tmp_path, setup):
    def interrupt(draws, seconds):
        if len(draws) == 9:
            raise KeyboardInterrupt
        return False

    with pytest.raises(ds.Interrupted, match="repeat the same command") as stop:
        ds.run(*setup, until=interrupt, store=tmp_path / "run")
    assert len(stop.value.draws) == 9
    assert len(ds.run(*setup, until=40, store=tmp_path / "run")) == 40


def test_auto_by_value(database, held_out, offered):
    from sklearn.naive_bayes import GaussianNB

    found = ds.value(
        database, model=GaussianNB(), test=held_out, points=offered, m=10, weights="auto", draws=110
    )
    assert found.n_draws == 110
    assert found.draws.pilot.draws == 100
    assert found.about["weights"] == "auto"


@pytest.mark.parametrize("pilot", [0, 19, 20.5, -3])
def test_a_pilot_takes_some_draws(database, pilot):
    with pytest.raises(ds.InputError, match="a pilot takes 20 draws or more"):
        ds.Design(database, m=5, weights="auto", pilot=pilot)


# --- size weights from what is known


def test_weights_from_stability_by_hand():
    w = from_stability([1.0, 0.5, 0.25], [1.0, 4.0, 1.0])
    np.testing.assert_allclose(w, np.array([4, 1, 1]) / 6)
    np.testing.assert_allclose(from_stability(lambda k: 1 / k, lambda k: k**2, m=2), [0.8, 0.2])
    np.testing.assert_allclose(from_stability([3.0, 1.5], lambda k: 1.0), [2 / 3, 1 / 3])
    np.testing.assert_allclose(from_stability(lambda k: 1 / k, [1.0, 1.0]), [2 / 3, 1 / 3])


def bound(w, beta, cost):
    """Of appendix E: draws as the sum of beta^2 / w, each of the mean cost."""
    return (beta**2 / w).sum() * (w * cost).sum()


@pytest.mark.parametrize("c", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("b", [0.5, 1.0, 1.5])
def test_weights_from_stability_make_the_bound_least(b, c):
    m, k = 40, np.arange(1.0, 41)
    beta, cost = k**-b, k**c
    w = from_stability(beta, cost)
    least = bound(w, beta, cost)
    assert least == pytest.approx((beta * np.sqrt(cost)).sum() ** 2)
    assert least <= bound(power(m, 1.0), beta, cost) * (1 + 1e-12)
    if b + c / 2 != 1:
        assert least < 0.97 * bound(power(m, 1.0), beta, cost)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = w * np.exp(0.1 * rng.normal(size=m))
        assert least < bound(other / other.sum(), beta, cost)


@pytest.mark.parametrize(
    ("beta", "cost", "m", "says"),
    [
        (lambda k: 1 / k, lambda k: k, None, "give the largest, m, too"),
        ([1.0, 0.5], [1.0, 1.0, 1.0], None, r"cost must hold one number for each size 1\.\.2"),
        ([1.0, 0.5], [1.0, 1.0], 3, r"beta must hold one number for each size 1\.\.3"),
        ([1.0, 0.0], [1.0, 1.0], None, "more than 0 at every size"),
        ([1.0, 1.0], [1.0, 0.0], None, "more than 0 at every size"),
        ([1.0, -1.0], [1.0, 1.0], None, r"beta\(2\) is -1\.0"),
        ([1.0, 1.0], [np.nan, 1.0], None, r"cost\(1\) is nan"),
        (lambda k: np.inf, [1.0], None, r"beta\(1\) is inf"),
        (lambda k: 1.0, lambda k: 1.0, 0, "whole number from 1 to"),
    ],
)
def test_bad_stability(beta, cost, m, says):
    with pytest.raises(ds.InputError, match=says):
        from_stability(beta, cost, m=m)


@pytest.mark.parametrize(
    ("m", "edges"),
    [(1, [1, 2]), (2, [1, 2, 3]), (3, [1, 2, 4]), (4, [1, 2, 4, 5]), (16, [1, 2, 4, 8, 16, 17])],
)
def test_bands(m, edges):
    assert bands(m).tolist() == edges


@pytest.mark.parametrize("m", [1, 5, 64, 1000])
def test_bands_hold_every_size_once_and_double(m):
    edges = bands(m)
    assert edges[0] == 1
    assert edges[-1] == m + 1
    widths = np.diff(edges)
    assert (widths > 0).all()
    assert widths[:-1].tolist() == (2 ** np.arange(len(widths) - 1)).tolist()
    assert widths[-1] <= 2 ** (len(widths) - 1)


def test_a_number_for_each_size():
    assert per_size(lambda k: 2.0 * k, 3, name="x").tolist() == [2, 4, 6]
    assert per_size([1, 2, 0], 3, name="x").tolist() == [1, 2, 0]
    assert per_size(0.5, 3, name="x").tolist() == [0.5] * 3
    for wrong, says in (
        ([1, 2], r"x must hold one number for each size 1\.\.3, not \(2,\)"),
        ([[1, 2, 3]], r"not \(1, 3\)"),
        ([1, np.nan, 3], r"x\(2\) is nan: it must be finite, and 0 or more"),
        ([1, 2, -3], r"x\(3\) is -3\.0"),
        (lambda k: -np.inf, r"x\(1\) is -inf"),
        (lambda k: "much", r"x must give a number for each size 1\.\.3"),
    ):
        with pytest.raises(ds.InputError, match=says):
            per_size(wrong, 3, name="x")


def test_a_database_of_its_own_need_not_be_large():
    """A pilot on a handful of points, m larger than the database."""
    tiny = labelled(3)
    design = ds.Design(tiny, m=6, weights="auto", pilot=20)
    assert len(ds.run(ds.MeanPotential(tiny), design, tiny, until=40)) == 40
