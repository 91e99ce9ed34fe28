"""The parts of an audit, against brute force and planted faults, and the audit as a whole."""

import json

import numpy as np
import pandas as pd
import pytest

import dshapley as ds
from dshapley.auditing.audited import class_means
from dshapley.auditing.copies import copies, without_conflicts
from dshapley.auditing.rarity import distance_from_others, rare
from dshapley.auditing.regions import regions
from test_cli import call, wide_screen  # noqa: F401

# -- Copies


def by_brute_force(X, close):
    """Groups of rows that are joined by steps of at most `close` in every column."""
    near = np.abs(X[:, None] - X[None]).max(axis=2) <= close
    group = np.arange(len(X))
    while True:
        least = np.array([group[row].min() for row in near])
        if (least == group).all():
            return group
        group = least


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(150, 4)), rng.integers(0, 2, (150, 2))])
    extra = X[rng.integers(0, 150, 40)]
    extra[:20, :4] += rng.uniform(-0.004, 0.004, (20, 4))
    X = np.vstack([X, extra])
    y = rng.integers(0, 2, len(X))
    found = copies(ds.Points(X, y), classes=True)
    group = by_brute_force(X, 0.01)
    sizes = np.bincount(group, minlength=len(X))[group]
    assert np.array_equal(found.group >= 0, sizes > 1)
    assert 30 < (sizes > 1).sum() < 90
    for g in np.unique(group[sizes > 1]):
        rows = np.flatnonzero(group == g)
        assert len(np.unique(found.group[rows])) == 1
        assert (found.group == found.group[rows[0]]).sum() == len(rows)
        assert found.conflict[rows].tolist() == [len(np.unique(y[rows])) > 1] * len(rows)
    exact = [(np.abs(X - row).max(axis=1) == 0).sum() > 1 for row in X]
    assert found.exact.tolist() == exact
    assert not found.conflict[found.group < 0].any()


def test_rows_of_a_dense_table_are_no_copies():
    """A thousand rows on a line lie close together, and none is a copy of its neighbour."""
    X = np.sort(np.random.default_rng(0).normal(size=1000))[:, np.newaxis]
    assert (copies(ds.Points(X, np.zeros(1000, int)), classes=True).group == -1).all()
    wide = np.random.default_rng(0).normal(size=(300, 8))
    assert (copies(ds.Points(wide, np.zeros(300, int)), classes=True).group == -1).all()


def test_a_table_that_is_there_twice_has_copies():
    X = np.random.default_rng(0).normal(size=(100, 5))
    y = np.arange(100) % 2
    again = np.where(np.arange(100) < 10, 1 - y, y)
    found = copies(ds.Points(np.vstack([X, X]), np.append(y, again)), classes=True)
    assert (found.group >= 0).all()
    assert found.conflict.sum() == 20


def test_classes_of_whole_numbers_are_classes():
    X = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 2, axis=0)
    y = np.arange(80) // 2 + np.arange(80) % 2
    assert copies(ds.Points(X, y), classes=True).conflict.all()
    assert not copies(ds.Points(X, y), classes=False).conflict.any()


def test_equal_rows_of_a_table_of_few_values_are_no_copies():
    X = np.random.default_rng(0).integers(0, 3, (400, 2)).astype(float)
    found = copies(ds.Points(X, np.arange(400) % 2), classes=True)
    assert found.few_values
    assert not found.conflict.any()
    assert (found.group == -1).all()


def test_numbers_contradict_each_other_beyond_half_a_standard_deviation():
    X = np.array([[0.0], [0.0], [5.0], [5.0], [9.0], [11.0], [14.0], [19.0]])
    y = np.array([0.0, 10.0, 3.0, 3.5, 20.0, 1.0, 2.0, 3.0])
    found = copies(ds.Points(X, y), classes=False)
    assert np.flatnonzero(found.conflict).tolist() == [0, 1]
    assert np.flatnonzero(found.group == 1).tolist() == [2, 3]


def test_without_conflicts_the_majority_stays():
    X = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 9.0, 20.0, 31.0, 43.0, 57.0])[:, np.newaxis]
    rows = ds.Points(X, ["a", "a", "b", "a", "b", "b", "a", "b", "a", "b"])
    kept, n = without_conflicts(rows, classes=True)
    assert kept.ids.tolist() == [0, 1, 5, 6, 7, 8, 9]
    assert n == 3


# -- Rare rows


def test_the_distance_is_that_of_brute_force():
    X = np.random.default_rng(0).normal(size=(80, 3))
    X[10] = X[11] = X[12]
    apart = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    np.fill_diagonal(apart, np.inf)
    expected = np.sort(apart, axis=1)[:, :5].mean(axis=1)
    np.testing.assert_allclose(distance_from_others(ds.Points(X)), expected, atol=1e-12)
    assert rare(ds.Points(X)).sum() == 8


# -- Regions


def noise_table(rng, n):
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "hours": rng.normal(size=n),
            "site": rng.choice(["A", "B", "C", "D"], n),
            "member": rng.choice([True, False], n),
            "gaps": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        }
    )


@pytest.mark.parametrize("kind", ["normal", "exponential", "seldom"])
def test_on_noise_a_region_is_rarely_named(kind):
    """Of 150 tables without any difference about 5 % have a region, also with skewed scores."""
    named = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        scores = {
            "normal": lambda rng: rng.normal(size=300),
            "exponential": lambda rng: rng.exponential(size=300),
            "seldom": lambda rng: rng.normal(size=300) - 9 * (rng.random(300) < 0.06),
        }[kind](rng)
        named += bool(regions(noise_table(rng, 300), scores))
    assert named <= 0.05 * 150 + 2.5 * np.sqrt(150 * 0.05 * 0.95)  # measured: 1 to 6


def test_a_difference_is_within_its_reach_of_the_truth():
    """Rows of site C are 0.7 higher: found, and rarely missed by its interval."""
    right, named = [], 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        frame = noise_table(rng, 600)
        truth = 0.7 * (frame["site"] == "C").to_numpy()
        found = regions(frame, truth + rng.exponential(size=600))
        named += "site is C" in [region.rule for region in found]
        for region in found:
            inside = region.inside
            expected = truth[inside].mean() - truth[~inside].mean()
            right.append(abs(region.difference - expected) <= region.reach)
            assert region.difference == pytest.approx(region.mean - region.rest)
    assert named >= 58
    assert np.mean(right) > 0.97


def test_a_region_is_what_its_rule_says():
    rng = np.random.default_rng(3)
    frame = noise_table(rng, 900)
    age = frame["age"].to_numpy()
    scores = np.where((age > 34) & (age <= 49), 2.0, 0.0) + rng.normal(size=900)
    found = regions(frame, scores)[0]
    low, high = (float(found.rule.split()[i]) for i in (2, -1))
    assert found.rule == f"age above {low:g} up to {high:g}"
    assert np.array_equal(found.inside, (age > low) & (age <= high))
    missing = regions(frame, np.where(np.isnan(frame["gaps"]), 1.0, 0.0) + 0.1 * scores)
    assert next(r.rule for r in missing) == "gaps is missing"


def test_thresholds_have_all_their_digits():
    rng = np.random.default_rng(0)
    time = 1_712_000_000 + rng.permutation(900)
    frame = pd.DataFrame({"time": time})
    found = regions(frame, (time > np.median(time)) * 2.0 + rng.normal(size=900))[0]
    threshold = int(found.rule.split()[-1])
    assert np.array_equal(found.inside, time > threshold)


def test_errors_of_the_scores_widen_the_intervals():
    rng = np.random.default_rng(0)
    frame = noise_table(rng, 600)
    scores = (frame["site"] == "A") * 0.8 + rng.normal(size=600)
    (sure,) = (r for r in regions(frame, scores) if r.rule == "site is A")
    asked = []

    def error_of(weights):
        asked.append(weights)
        return 0.1

    (less,) = (r for r in regions(frame, scores, error_of=error_of) if r.rule == "site is A")
    assert less.reach > sure.reach
    w = asked[0]
    assert (w > 0).sum() == sure.inside.sum()
    assert w @ scores == pytest.approx(sure.difference)
    assert regions(frame, scores, error_of=lambda _: 1.0) == []


def test_scores_that_are_not_known_are_left_out():
    rng = np.random.default_rng(0)
    frame = noise_table(rng, 600)
    scores = (frame["site"] == "A") * 3.0 + rng.normal(size=600)
    scores[::3] = np.nan
    found = next(r for r in regions(frame, scores) if r.rule == "site is A")
    assert not found.inside[::3].any()
    assert regions(frame.iloc[:40], scores[:40]) == []


# -- The whole


def planted(seed=0, n=400):
    """A table with flipped labels, contradicting copies, and a site whose labels are random."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    score = 2.5 * x[:, 0] + 2 * x[:, 1]
    y = (score + 0.3 * rng.normal(size=n) > 0).astype(int)
    site = rng.choice(["north", "south", "west"], n, p=[0.4, 0.4, 0.2])
    y = np.where(site == "west", rng.permutation(y), y)
    flipped = (rng.random(n) < 0.06) & (site != "west")
    y = np.where(flipped, 1 - y, y)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(
        site=site, churned=np.array(["no", "yes"])[y]
    )
    again = frame.iloc[:8].assign(churned=np.where(frame["churned"][:8] == "no", "yes", "no"))
    return pd.concat([frame, again], ignore_index=True), np.append(flipped, np.zeros(8, bool))


@pytest.fixture(scope="module")
def found():
    frame, _ = planted()
    return ds.audit(frame, target="churned", stop=100, m=200)


def test_planted_faults_are_found(found):
    frame, flipped = planted()
    table = found.to_frame()
    assert len(table) == len(frame) == 408
    # Flipped labels: most of them, and the others named are copies or of the site without order.
    named = table["label_suspect"].to_numpy()
    assert (named & flipped).sum() >= 0.7 * flipped.sum()
    right = ~flipped & (frame["site"] != "west").to_numpy()
    right[:8] = right[-8:] = False
    assert (named & right).sum() <= 5
    assert table["contradicts_a_copy"].to_numpy().nonzero()[0].tolist() == [
        *range(8), *range(400, 408),
    ]  # fmt: skip
    assert found.contradicted[0].rule == "site is west"
    assert (table["contradicted_region"] == "site is west").sum() >= 60
    text = repr(found)
    assert "16 rows are copies of others, in 8 groups: 16 exactly, 0 nearly." in text
    assert "8 groups of copies have different labels" in text
    inside = (table["contradicted_region"] == "site is west").to_numpy()
    n, here, others = inside.sum(), (named & inside).sum(), (named & ~inside).sum()
    assert f"where site is west, {here} of {n} labels ({here / n:.0%}) are probably wrong" in text
    assert f"elsewhere {others} of {408 - n} ({others / (408 - n):.0%})" in text


def test_each_verdict_is_its_measurement(found):
    fresh = found.run.fresh
    assert list(fresh.edits)[:3] == ["without", "relabelled", "without conflicts"]
    sentences = [line for line in repr(found).splitlines() if "accuracy on fresh rows" in line]
    assert len(sentences) == len(fresh.edits)
    for edit, sentence in zip(fresh.edits, sentences, strict=True):
        change, reach = fresh.change_by(edit)
        said = "better" if change > reach else "worse" if -change > reach else "no difference"
        assert said in sentence, (edit, change, reach)


def test_the_frame_repeats_the_runs_own_numbers(found):
    table, valuation, labels = found.to_frame(), found.valuation, found.run.labels
    assert np.array_equal(table["value"], valuation.values)
    assert np.array_equal(table["wrong"], labels.wrong)
    assert np.array_equal(table["suggested"], labels.suggested)
    assert np.array_equal(table["below_zero"], valuation.below_zero())
    together = valuation.interval(simultaneous=True)[1] < 0
    assert np.array_equal(table["below_zero_all_at_once"], together)
    apart = valuation.values - class_means(valuation)
    low, high = valuation.interval()
    expected = found.rare & (apart > (high - low) / 2) & ~found.suspects
    assert np.array_equal(table["valuable_and_rare"], expected)


def test_the_page_has_what_was_found(found, tmp_path):
    path = found.report(tmp_path / "there")
    assert path.read_text().startswith("<!doctype html>")
    page = json.loads((tmp_path / "there" / "audit.json").read_text())
    names = [section["name"] for section in page["sections"]]
    assert names[:5] == ["findings", "next", "labels", "copies", "contradicted"]
    csv = pd.read_csv(tmp_path / "there" / "audit.csv")
    assert csv["id"].tolist() == list(range(408))
    copies_table = next(s for s in page["sections"] if s["name"] == "copies")["tables"][0]
    assert len(copies_table["rows"]) == 16
    assert found._repr_html_().count("rows") >= 5


@pytest.mark.slow
def test_a_clean_table_is_left_in_peace():
    """No planted fault: of 5 tables, labels are called wrong in few rows, and none is harmful."""
    named = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(300, 3))
        y = (2 * x[:, 0] + rng.normal(size=300) > 0).astype(int)
        found = ds.audit(x, y, stop=60, m=150, seed=seed)
        named += int(found.suspects.sum())
        better = [e for e in found.run.fresh.edits if np.greater(*found.run.fresh.change_by(e))]
        assert better == []
        assert found.contradicted == []
    assert named <= 15  # measured: 0 to 3 each


def test_regression_has_values_copies_and_regions():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=150), "price": 0.0})
    frame["price"] = 3 * frame["x"] + rng.normal(size=150)
    found = ds.audit(frame, target="price", stop=40, retrain=False)
    table = found.to_frame()
    assert "wrong" not in table.columns
    assert table["value"].notna().all()
    assert "Delete no row" in json.dumps([s.text for s in _steps(found)])


def _steps(found):
    from dshapley.auditing.audit_page import audit_page

    return next(s for s in audit_page(found).sections if s.name == "next").findings


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: ds.audit(f), "give a data frame and target="),
        (lambda f: ds.audit(f, f["churned"], target="churned"), "give a data frame and target="),
        (lambda f: ds.audit(f.to_numpy(), target="churned"), "has no column"),
        (lambda f: ds.audit(f, target="nothing"), "nothing"),
        (lambda f: ds.audit(f[["a"]], f["churned"][:5]), "5 labels"),
    ],
)
def test_wrong_calls_say_what_to_give(call, message):
    with pytest.raises(ds.InputError, match=message):
        call(planted()[0])


# -- The command


@pytest.fixture
def table(tmp_path):
    frame, _ = planted(n=150)
    frame.to_csv(tmp_path / "customers.csv", index=False)
    return tmp_path / "customers.csv"


def test_the_command_writes_what_it_says(table, monkeypatch):
    monkeypatch.chdir(table.parent)
    result = call("audit", table, "--target", "churned", "--draws", 60, "--jobs", 1)
    assert result.exit_code == 0, result.output
    out = table.parent / "customers-audit"
    assert "Labels that are probably wrong" in result.stdout
    assert "audit.csv" in result.stdout
    assert {"audit.html", "audit.json", "audit.csv", "values.csv", "manifest.json"} <= {
        path.name for path in out.iterdir()
    }
    # The same command again finds the same, from the draws that are kept.
    first = (out / "audit.csv").read_bytes()
    again = call("audit", table, "--target", "churned", "--draws", 60, "--jobs", 1)
    assert again.exit_code == 0, again.output
    assert (out / "audit.csv").read_bytes() == first


def test_labels_that_nobody_judged_are_not_called_right(table):
    out = table.parent / "short"
    result = call(
        "audit", table, "--target", "churned", "--draws", 6, "--jobs", 1, "--no-retrain",
        "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Labels were not judged. There are too few draws" in result.stdout
    text = (out / "audit.json").read_text()
    assert "nan" not in text
    assert "Labels: not judged." in text
    assert "are probably wrong" not in text


def test_an_interrupt_while_models_are_retrained_says_where_the_draws_are(table, monkeypatch):
    from dshapley.reporting import run_facts

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_facts, "on_fresh_rows", interrupted)
    out = table.parent / "there"
    words = ["audit", table, "--target", "churned", "--draws", 60, "--jobs", 1, "--out", out]
    result = call(*words)
    assert result.exit_code == 130
    assert f"The 60 draws are kept in {out}; run the same command again" in result.stderr
    monkeypatch.undo()
    assert call(*words).exit_code == 0


def test_nothing_leaks_from_a_sensitive_audit(table):
    out = table.parent / "secret"
    result = call(
        "audit", table, "--target", "churned", "--draws", 60, "--jobs", 1, "--sensitive",
        "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert not (out / "audit.csv").exists()
    assert not (out / "values.csv").exists()
    text = (out / "audit.html").read_text() + (out / "audit.json").read_text() + result.stdout
    for word in ("south", "north", "churned", "customers", "site is"):
        assert word not in text, word


def test_bad_input_is_one_line_and_exit_code_2(table):
    for words, message in (
        (["--group", "site"], "leave out the groups"),
        (["--target", "nobody"], "no column 'nobody'"),
        (["--top", "0"], "give at least 1"),
    ):
        target = [] if "--target" in words else ["--target", "churned"]
        result = call("audit", table, *target, *words, "--out", table.parent / "o")
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert not (table.parent / "o").exists()
