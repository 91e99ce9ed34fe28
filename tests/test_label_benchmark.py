"""The pieces of the benchmark of finding wrong labels; none of the other tools is needed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.labels import cells, settings, summary
from benchmarks.labels.settings import ENTRIES, NOISES

ROOT = Path(__file__).parents[1]


def labels(n_classes, n=1000):
    return np.random.default_rng(3).integers(0, n_classes, n)


def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.kind)
def test_noise_flips_the_stated_share_to_other_classes(noise, n_classes):
    y = labels(n_classes)
    sure = np.random.default_rng(4).dirichlet(np.ones(n_classes), len(y))
    noisy = cells.flip(y, noise, rng(), sure)
    assert (noisy != y).sum() == round(noise.rate * len(y))
    assert set(noisy) <= set(range(n_classes))


def test_uniform_noise_takes_every_other_class_alike():
    y = labels(4, 40_000)
    noisy = cells.uniform(y, 0.3, rng())
    steps = np.bincount((noisy - y)[noisy != y] % 4, minlength=4)
    assert steps[0] == 0
    assert steps[1:] == pytest.approx(4000, abs=4 * np.sqrt(12_000 * 2 / 9))


def test_class_noise_has_one_target_and_a_rate_for_each_class():
    y = labels(3, 30_000)
    noisy = cells.class_dependent(y, 0.2, rng())
    rates = sorted((noisy[y == c] != c).mean() for c in range(3))
    # Rows are drawn without replacement, so the rates of 0.1, 0.2 and 0.3 are pulled together.
    assert rates == pytest.approx([0.1, 0.2, 0.3], abs=0.02)
    assert all(len(set(noisy[(y == c) & (noisy != c)])) == 1 for c in range(3))


def test_boundary_noise_flips_unsure_rows_to_the_likeliest_other_class():
    y = labels(3)
    sure = np.random.default_rng(4).dirichlet(np.ones(3), len(y))
    noisy = cells.near_boundary(y, 0.1, rng(), sure)
    top = np.sort(sure, axis=1)
    margin, wrong = top[:, 2] - top[:, 1], noisy != y
    assert margin[wrong].max() <= np.sort(margin)[299]
    assert (margin < margin[wrong].max()).sum() > 200  # not simply the smallest 100
    others = np.where(np.arange(3) == y[:, np.newaxis], -1, sure)
    assert (noisy[wrong] == others.argmax(axis=1)[wrong]).all()


def test_a_cell_is_the_same_whenever_it_is_made_and_hides_what_was_flipped(tmp_path):
    of = [cells.Cell("breast_cancer", 3, noise) for noise in (NOISES[0], NOISES[2])]
    cells.write(tmp_path / "a", of, tmp_path)
    cells.write(tmp_path / "b", of[1:], tmp_path)
    name = f"{of[1].name}.npz"
    with np.load(tmp_path / "a/cells" / name) as a, np.load(tmp_path / "b/cells" / name) as b:
        assert set(a) == {"X", "y"}
        assert all(np.array_equal(a[key], b[key]) for key in a)
    wrong = np.load(tmp_path / "a/flipped" / f"{of[1].name}.npy")
    assert wrong.mean() == pytest.approx(of[1].noise.rate, abs=0.001)


def rows_of(**ap):
    """Rows for two seeds of one table; `ap` by the label of an entry, one number for each seed."""
    entries = {entry.label: entry for entry in ENTRIES if entry.group == "same"}
    return pd.DataFrame(
        [
            ("adult", seed, noise.kind, e.tool, e.method, e.score, value + shift, 0.5, 1.0)
            for label, values in ap.items()
            for e in [entries[label]]
            for seed, value in enumerate(values)
            for noise, shift in zip(NOISES, (-0.1, 0, 0.1), strict=True)
        ],
        columns=summary.COLUMNS,
    )


def of_group(label, group="same"):
    return next(entry for entry in ENTRIES if entry.label == label and entry.group == group)


OURS = next(entry.label for entry in ENTRIES if entry.group == "same" and entry.judged)
PEERS = [e.label for e in ENTRIES if e.group == "same" and e.tool != "dshapley"]


def test_paired_differences_are_seed_by_seed_against_the_highest_peer():
    rows = rows_of(**{OURS: (0.5, 0.9), PEERS[0]: (0.4, 0.7), PEERS[1]: (0.5, 0.4)})
    found = summary.paired(rows, of_group(OURS), "adult")
    assert found.peer.label == PEERS[0]
    assert found.by == pytest.approx(0.15)  # of 0.1 and 0.2
    assert found.error == pytest.approx(0.05)
    assert found.verdict == "best"


@pytest.mark.parametrize(
    ("ours", "verdict"), [((0.5, 0.5), "best"), ((0.4, 0.55), "within"), ((0.4, 0.41), "behind")]
)
def test_within_the_error_means_one_standard_error_of_the_difference(ours, verdict):
    rows = rows_of(**{OURS: ours, PEERS[0]: (0.5, 0.5)})
    assert summary.paired(rows, of_group(OURS), "adult").verdict == verdict


def test_tables_show_means_over_noise_and_errors_over_seeds():
    rows = rows_of(**{OURS: (0.5, 0.9), PEERS[0]: (0.4, 0.7)})
    lines = summary.precision_table(rows, "same").splitlines()
    assert lines[2].startswith(f"| {OURS} | **0.700 ± 0.200** |")
    assert "0.550 ± 0.150" in lines[3]
    verdicts = summary.verdict_table(rows, "same").splitlines()
    assert f"| {OURS} | adult | {PEERS[0]} | +0.150 ± 0.050 | best |" in verdicts
    assert "best on 1, within the error on 0, behind on 0" in verdicts[-1]


def test_the_page_shows_the_rows_that_are_kept():
    rows = pd.read_csv(ROOT / "docs/benchmarks/labels.csv")
    text = (ROOT / "docs/labels.md").read_text()
    assert text == summary.page(text, rows)
    assert text.count("<!-- end -->") == 6
    assert sorted(rows.seed.unique()) == list(settings.SEEDS)
    counts = rows.groupby(["tool", "method", "score"]).size()
    assert set(counts) == {len(settings.TABLES) * len(settings.SEEDS) * len(NOISES)}
    assert all(len(summary.of(rows, entry)) for entry in ENTRIES)


def test_odds_compare_the_given_label_with_the_likeliest_other():
    from benchmarks.labels.ours import odds

    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])
    e = settings.SMALLEST
    expected = np.log([(0.2 + e) / (0.7 + e), (0.6 + e) / (0.2 + e)])
    assert odds(p, np.array([0, 1])) == pytest.approx(expected)


def test_evidence_alone_is_that_of_the_same_draws_with_marginals():
    from benchmarks.labels.ours import evidence

    import dshapley as ds
    from conftest import labelled
    from dshapley.inference.label_evidence import label_evidence

    rows = labelled(40)
    found = evidence(rows, "naive_bayes", 30, "uniform")
    U = ds.potential("naive_bayes", test=rows, database=rows)
    design = ds.Design(rows, m=40, weights="uniform", balanced=True, control_variates=False)
    draws = ds.run(U, design, rows, stop=30, n_jobs=1, progress=False)
    assert found.probability == pytest.approx(label_evidence(draws, rows).probability, rel=1e-12)
