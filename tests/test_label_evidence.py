"""Out-of-bag evidence: what the models of a run say of points that they were not trained on."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import dshapley as ds
from conftest import labelled
from dshapley.sampling import witness
from dshapley.sampling.witness import Witness
from records import plain_draws


def run_of(model, *, B, test=None, m=30, stop=60, seed=1, metric=None, **options):
    test = labelled(40, seed=9, classes=len(np.unique(B.y))) if test is None else test
    U = ds.potential(model, test=test, metric=metric)
    return ds.run(U, ds.Design(B, m, seed=seed), B, stop=stop, **options)


def by_hand(model, draws, B, *, seed=1):
    """The same with scikit-learn: fit S of each draw that was asked, and ask it."""
    design, labels = ds.Design(B, draws.m, seed=seed), np.unique(B.y)
    found = np.full(draws.evidence.given.shape, np.nan)
    for row, t in zip(found, draws.evidence.t.tolist(), strict=True):
        draw = design.draw(t)
        unseen = ~np.isin(np.arange(len(B)), draw.rows)
        here = np.unique(draw.S.y)
        p = np.zeros((len(B), len(labels)))
        if len(here) == 1:
            p[:, labels == here[0]] = 1.0
        else:
            fitted = model.fit(draw.S.X, draw.S.y)
            p[:, np.isin(labels, here)] = fitted.predict_proba(B.X)
        row[unseen] = p[np.arange(len(B)), np.searchsorted(labels, B.y)][unseen]
    return found


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", [GaussianNB(), LogisticRegression(tol=1e-10, max_iter=5000)])
def test_it_is_what_refits_say(model, classes):
    B = labelled(50, classes=classes)
    draws = run_of(model, B=B)
    assert len(draws.evidence) > 10
    expected = by_hand(model, draws, B)
    np.testing.assert_allclose(draws.evidence.given, expected, atol=2e-6)
    known = np.isfinite(expected)
    assert np.isnan(draws.evidence.answers[~known]).all()
    np.testing.assert_allclose(draws.evidence.answers[known].sum(axis=1), 1, atol=2e-6)


@pytest.mark.slow
def test_other_metrics_and_learners_give_the_same_kind():
    B = labelled(50)
    for model in (KNeighborsClassifier(3), RandomForestClassifier(5), RidgeClassifier(), SVC()):
        for metric in ("accuracy", "roc_auc"):
            evidence = run_of(model, B=B, stop=20, metric=metric).evidence
            known = np.isfinite(evidence.given)
            assert known.any()
            assert ((evidence.given[known] >= 0) & (evidence.given[known] <= 1)).all()
    # A model without probabilities votes.
    assert set(np.unique(evidence.given[known])) <= {0.0, 1.0}


def test_only_larger_sets_are_asked_and_not_about_their_own_rows():
    B = labelled(50)
    draws = run_of(GaussianNB(), B=B, m=40, stop=80)
    design = ds.Design(B, 40, seed=1)
    large = [t for t in range(80) if design.draw(t).k - 1 >= 10]
    assert draws.evidence.t.tolist() == large
    for t, given in zip(large, draws.evidence.given, strict=True):
        assert np.isnan(given[design.draw(t).rows]).all()
        assert np.isfinite(np.delete(given, design.draw(t).rows)).all()


def test_copies_of_a_row_count_as_seen():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[1] = X[0]
    y = (X[:, 0] > 0).astype(int)
    B = ds.Points(X, y)
    draws = run_of(GaussianNB(), B=B, m=20, stop=120)
    design = ds.Design(B, 20, seed=1)
    seen = [bool({0, 1} & set(design.draw(int(t)).rows.tolist())) for t in draws.evidence.t]
    assert np.isnan(draws.evidence.given[:, 0]).tolist() == seen
    assert np.isnan(draws.evidence.given[:, 1]).tolist() == seen
    assert any(seen)


def test_a_copy_with_another_label_counts_as_seen():
    """A nearest neighbour that has seen (x, a) would call (x, b) wrong from memory."""
    B = labelled(60)
    twins = ds.Points(B.X[:20], 1 - B.y[:20])
    both = B + twins
    found = run_of(KNeighborsClassifier(1), B=both, m=60, stop=150)
    design = ds.Design(both, 60, seed=1)
    for t, given in zip(found.evidence.t.tolist(), found.evidence.given, strict=True):
        inside = set((design.draw(t).rows % 60).tolist())  # row i and its twin 60 + i
        expected = [i % 60 in inside for i in range(80)]
        assert np.isnan(given).tolist() == expected


def test_labels_are_judged_by_models_that_know_their_class():
    rng = np.random.default_rng(0)
    y = np.array([0] * 60 + [1] * 60 + [2])
    X = 6.0 * np.eye(3)[y] + rng.normal(size=(121, 3))
    found = ds.value(X, y, model="naive_bayes", m=100, stop=80).label_evidence()
    assert found.n_informed[-1] == 0 < found.n_models[-1]
    assert np.isnan(found.wrong[-1])
    assert not found.suspects[-1]


def test_regression_keeps_what_is_left_of_y():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    B = ds.Points(X, X[:, 0] + 0.1 * rng.normal(size=60))
    draws = run_of(Ridge(), B=B, test=ds.Points(X[:20], X[:20, 0]), m=40, stop=60)
    design = ds.Design(B, 40, seed=1)
    for t, given in zip(draws.evidence.t.tolist(), draws.evidence.given, strict=True):
        draw = design.draw(t)
        left = B.y - Ridge().fit(draw.S.X, draw.S.y).predict(X)
        unseen = np.isfinite(given)
        np.testing.assert_allclose(given[unseen], left[unseen], atol=1e-5)
    frame = ds.estimate(draws, points=B).label_evidence().to_frame()
    assert frame.columns.tolist() == ["given", "residual", "stderr", "n_models"]


@pytest.mark.parametrize("crossed", [False, True])
def test_interrupted_runs_and_any_number_of_workers_keep_the_same_bits(tmp_path, crossed):
    B = labelled(60)
    options = {"model": "logistic", "m": 40, "store": tmp_path / "run"}
    options |= {} if crossed else {"test": labelled(30, seed=2)}
    straight = ds.value(B, stop=60, **(options | {"store": None})).draws
    ds.value(B, stop=15, **options)
    ds.value(B, stop=40, n_jobs=2, **options)
    resumed = ds.value(B, stop=60, **options).draws
    loaded = ds.load_run(tmp_path / "run")
    for found in (resumed, loaded):
        for name in ("t", "answers", "codes"):
            one, two = getattr(straight.evidence, name), getattr(found.evidence, name)
            assert one.tobytes() == two.tobytes()
        assert found.marginals.tobytes() == straight.marginals.tobytes()
    assert len(straight.evidence) > 10


def test_the_marginals_do_not_change(monkeypatch):
    B = labelled(60)
    with_it = run_of(GaussianNB(), B=B)
    monkeypatch.setattr(Witness, "of", staticmethod(lambda *_, **__: None))
    without = run_of(GaussianNB(), B=B)
    assert without.evidence is None
    assert with_it.marginals.tobytes() == without.marginals.tobytes()
    with pytest.raises(ds.InputError, match="keeps no evidence"):
        ds.estimate(without).label_evidence()


def test_some_draws_and_some_points_keep_their_evidence():
    B = labelled(50)
    draws = run_of(GaussianNB(), B=B)
    first = draws.first(30)
    assert first.evidence.t.tolist() == [t for t in draws.evidence.t.tolist() if t < 30]
    chosen = np.arange(50) % 2 == 0
    half = draws.points(chosen).evidence
    assert half.given.tobytes() == np.ascontiguousarray(draws.evidence.given[:, chosen]).tobytes()


def test_means_by_hand():
    """Weights are the sizes of the sets; the error is that of a weighted mean."""
    from dataclasses import replace

    from dshapley.inference.label_evidence import label_evidence
    from dshapley.sampling.evidence import Evidence

    draws = plain_draws([3, 5, 9], np.zeros((3, 2)), np.full(10, 0.1))
    given = np.array([[0.2, np.nan], [0.4, 0.499], [0.9, 0.7]], np.float32)
    evidence = Evidence(
        t=np.array([0, 1, 2]),
        answers=np.stack([1 - given, given], axis=2),
        labels=np.array(["no", "yes"]),
        codes=np.array([1, 1]),
    )
    points = ds.Points(np.zeros((2, 1)), ["yes", "yes"])
    found = label_evidence(replace(draws, evidence=evidence), points)
    w = np.array([2.0, 4.0, 8.0])
    mean = (w @ [0.2, 0.4, 0.9]) / 14
    assert found.probability[0] == pytest.approx(mean, abs=1e-7)
    assert found.probability[1] == pytest.approx((4 * 0.499 + 8 * 0.7) / 12, abs=1e-7)
    off = np.array([0.2, 0.4, 0.9]) - mean
    assert found.stderr[0] == pytest.approx(np.sqrt((w**2 @ off**2) / 14**2 * 3 / 2), abs=1e-7)
    assert found.votes.tolist() == pytest.approx([8 / 14, 8 / 12])
    assert found.probabilities[0].tolist() == pytest.approx([1 - mean, mean])
    assert found.suggested.tolist() == ["yes", "yes"]
    assert found.n_models.tolist() == [3, 2]


def test_points_that_are_not_in_the_database_are_asked_about_every_time():
    B, Z = labelled(50), labelled(7, seed=5)
    U = ds.potential(GaussianNB(), test=labelled(30, seed=2))
    evidence = ds.run(U, ds.Design(B, 30), Z, stop=50).evidence
    assert np.isfinite(evidence.given).all()


def test_there_is_none_without_labels_or_for_bundles_or_own_functions():
    B = labelled(30)
    design = ds.Design(B, 10)
    U = ds.potential(GaussianNB(), test=labelled(20, seed=2))
    assert ds.run(lambda S: float(len(S)), design, B, stop=5).evidence is None
    assert ds.run(U, design, ds.Bundles(B, np.arange(30) // 3), stop=5).evidence is None


@pytest.mark.slow
def test_wrong_labels_are_found_better_than_by_value():
    """Average precision over five tables with 10 % flipped labels; measured: 0.83 against 0.64."""
    from sklearn.metrics import average_precision_score

    evidence, value = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 6))
        y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=300) > 0).astype(int)
        wrong = rng.permutation(300) < 30
        valuation = ds.value(X, np.where(wrong, 1 - y, y), model="logistic", stop=300, seed=seed)
        found = valuation.label_evidence()
        evidence.append(average_precision_score(wrong, -found.probability))
        value.append(average_precision_score(wrong, -valuation.values))
        assert (found.suggested[wrong] == y[wrong]).mean() > 0.7
    assert np.mean(evidence) == pytest.approx(0.83, abs=0.02)
    assert np.mean(value) == pytest.approx(0.64, abs=0.02)


@pytest.mark.slow
def test_the_error_is_that_of_fewer_models(monkeypatch):
    """Over 60 seeds: how far 240 draws are from many, in stated errors."""
    monkeypatch.setattr(witness, "_ENOUGH", 10_000)
    B = labelled(80)
    many = run_of(GaussianNB(), B=B, m=40, stop=1500, seed=10_000)
    truth = ds.estimate(many, points=B).label_evidence().probability
    z = []
    for seed in range(60):
        found = ds.estimate(run_of(GaussianNB(), B=B, m=40, stop=240, seed=seed), points=B)
        found = found.label_evidence()
        z.append((found.probability - truth) / found.stderr)
    within = (np.abs(np.array(z)) < 2).mean()
    assert within == pytest.approx(0.94, abs=0.02)


def test_enough_models_are_enough():
    """About 150 models are asked, however long the run is."""
    B = labelled(50)
    evidence = run_of(GaussianNB(), B=B, m=20, stop=1200).evidence
    assert 140 <= len(evidence) <= 160
    assert evidence.t.max() < 800


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_model_decides_whether_labels_are_classes(task):
    """A regression of few whole numbers, and a classifier of more than twenty."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8 if task == "regression" else 31, 400)
    X = y[:, np.newaxis] + 0.1 * rng.normal(size=(400, 2))
    model = Ridge() if task == "regression" else GaussianNB()
    evidence = ds.value(X, y, model=model, m=100, stop=12).label_evidence()
    assert (evidence.suggested is None) == (task == "regression")
    known = evidence.probability[np.isfinite(evidence.probability)]
    assert len(known) > 200
    assert (np.abs(known).mean() < 1.5) if task == "regression" else (known.mean() > 0.3)
