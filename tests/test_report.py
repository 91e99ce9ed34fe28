"""The report: every number on the page is that of the run, and nothing on it is markup."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dshapley as ds
from dshapley.data.datasets import adult_sample
from dshapley.reporting.page import Finding, Page, Section, Table, shown, to_html, to_json
from dshapley.reporting.run_facts import facts_of_run
from dshapley.reporting.run_report import run_report
from test_cli import FAST, call, value, wide_screen  # noqa: F401

pytest.importorskip("matplotlib")

ORDER = (
    "findings", "next", "labels", "first", "meaning", "sure", "spread", "rows", "features",
    "sizes", "action", "reproduce",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of 120 rows of Adult, with its report."""
    there = tmp_path_factory.mktemp("run")
    table = there / "adult.csv"
    adult_sample().head(120).to_csv(table, index=False)
    result = value(table, "--draws", 60, "--out", there / "run", report=True)
    assert result.exit_code == 0, result.output
    assert "report.html" in result.stdout
    return there / "run"


@pytest.fixture(scope="module")
def content(folder):
    return json.loads((folder / "report.json").read_text())


def section(content, name):
    return next(part for part in content["sections"] if part["name"] == name)


class Text(HTMLParser):
    """The elements of a page, and the text that a person sees."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self._hidden = [], [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._hidden:
            self.text.append(data)


def test_the_sections_come_in_the_order_of_a_readers_questions(content):
    assert tuple(part["name"] for part in content["sections"]) == ORDER


def test_the_first_sentences_answer_with_the_runs_own_figures(folder, content):
    valuation = ds.estimate(ds.load_run(folder))
    lead = " ".join(content["lead"])
    best = int(np.argmax(valuation.values))
    low, high = valuation.interval()
    from dshapley.formatting import number

    said, plus = number(float(valuation.values[best]), float(high[best] - low[best]) / 2)
    assert f"the highest estimate, row {best}, raises it by {said} ± {plus}" in lead
    assert "each of 120 rows" in lead
    assert "predicts income on up to 20 such rows and measures accuracy" in lead
    assert f"for {valuation.settled_pairs():.0%} of all pairs" in lead


def test_the_table_has_the_values_and_the_columns_of_each_row(folder, content):
    table = section(content, "rows")["tables"][0]
    valuation = ds.estimate(ds.load_run(folder))
    low, high = valuation.interval()
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    adult = adult_sample().head(120)
    together = valuation.interval(simultaneous=True)[1] < 0
    assert sorted(int(row["id"]) for row in rows) == list(range(120))
    assert [row["rank"] for row in rows] == list(range(120, 0, -1))
    for row in rows:
        i = int(row["id"])
        assert row["value"] == valuation.values[i]
        assert row["±"] == (high[i] - low[i]) / 2
        assert row["below zero"].startswith("yes") == valuation.below_zero()[i]
        assert (row["below zero"] == "yes (all)") == together[i]
        occupation = None if pd.isna(adult.occupation[i]) else adult.occupation[i]
        assert (row["age"], row["occupation"]) == (adult.age[i], occupation)


def test_findings_count_what_the_valuation_says(folder, content):
    valuation = ds.estimate(ds.load_run(folder))
    first = section(content, "findings")["findings"][0]
    assert first["count"] == valuation.below_zero().sum()
    names = [part["name"] for part in content["sections"]]
    links = [f["section"] for part in content["sections"] for f in part["findings"]]
    assert {link for link in links if link} <= set(names)


def test_removal_is_what_fresh_rows_say(folder, content):
    fresh = facts_of_run(folder).fresh
    part = section(content, "action")
    table = part["tables"][0]
    assert [row[0] for row in table["rows"]] == fresh.fractions.tolist()
    assert [row[1] for row in table["rows"]] == fresh.lowest[..., 0].mean(axis=0).tolist()
    assert [row[3] for row in table["rows"]] == fresh.random[..., 0].mean(axis=0).tolist()
    for step, finding in enumerate(part["findings"][:5], 1):
        change, reach = fresh.change("lowest", step)
        better, worse = change - reach > 0, change + reach < 0
        assert ("were better" in finding["text"]) == better
        assert ("were worse" in finding["text"]) == worse
        assert ("no difference was shown" in finding["text"]) == (not better and not worse)


def test_labels_that_may_be_wrong_are_those_of_the_evidence(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = 3 * y + rng.normal(size=200)
    y[:20] = 1 - y[:20]
    frame = adult_sample().head(200)[["fnlwgt"]]  # a column that `value` leaves out
    frame.assign(x=x, income=np.array(["no", "yes"])[y]).to_csv(tmp_path / "t.csv", index=False)
    folder = tmp_path / "run"
    result = value(tmp_path / "t.csv", "--draws", 100, "--m", 100, "--out", folder, report=True)
    assert result.exit_code == 0, result.output
    content = json.loads((folder / "report.json").read_text())
    facts = facts_of_run(folder, retrain=False)
    evidence = facts.labels
    part = section(content, "labels")
    chosen = np.flatnonzero(evidence.wrong > 0.5)
    assert 15 <= len(chosen) <= 25
    assert f"{len(chosen)} rows have a label" in part["text"][1]
    assert f"About {evidence.wrong[chosen].sum():.0f} of these" in part["text"][1]
    table = part["tables"][0]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert {int(row["id"]) for row in rows} == set(chosen.tolist())
    for row in rows:
        i = int(row["id"])
        assert (row["wrong"], row["likelihood"]) == (evidence.wrong[i], evidence.probability[i])
        assert (row["given"], row["suggested"]) == (row["income"], evidence.suggested[i])
    fresh = facts_of_run(folder).fresh
    for finding, edit in zip(part["findings"], fresh.edits, strict=True):
        change, reach = fresh.change_by(edit)
        assert ("no difference" in finding["text"]) == (abs(change) <= reach)


@pytest.mark.slow
def test_the_command_on_the_page_gives_the_same_values(folder, content, tmp_path):
    import shlex

    words = shlex.split(section(content, "reproduce")["code"])
    assert words[:3] == ["dshapley", "value", "adult.csv"]
    again = call(
        "value",
        folder.parent / words[2],
        *words[3:],
        "--drop",
        "fnlwgt",
        "--out",
        tmp_path / "again",
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again/values.csv").read_bytes() == (folder / "values.csv").read_bytes()


def test_the_page_is_one_file_that_loads_nothing(folder):
    html = (folder / "report.html").read_text()
    page = Text(html)
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form")
        for name in ("src", "srcset", "action", "data"):
            assert name not in attrs
        assert attrs.get("href", "#").startswith("#")
        assert not [name for name in attrs if name.startswith("on")]
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 1
    policies = [attrs["content"] for tag, attrs in page.tags if "http-equiv" in attrs]
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"url\((?!#)", html)
    # Ids are unique, and every link within the page has its end.
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {
        attrs["href"][1:] for tag, attrs in page.tags if tag in ("a", "use") and "href" in attrs
    }
    assert links <= set(ids)


def test_sensitive_shows_no_row_no_label_and_no_name_of_a_column(folder):
    page = run_report(facts_of_run(folder, sensitive=True))
    text = to_html(page) + json.dumps(to_json(page))
    adult = adult_sample().head(120)
    words = {str(cell) for name in adult for cell in adult[name] if not str(cell).isdigit()}
    for word in [*words, *adult.columns]:
        if len(word) > 2:
            assert not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text), word
    assert "row 17" not in text
    assert [s.name for s in page.sections] == [
        n for n in ORDER if n not in ("first", "rows", "features")
    ]


@pytest.mark.slow
def test_report_of_a_run_without_its_table_says_what_is_missing(folder, tmp_path):
    import shutil

    moved = shutil.copytree(folder, tmp_path / "moved")
    (tmp_path / "adult.csv").unlink(missing_ok=True)
    manifest = moved / "manifest.json"
    manifest.write_text(manifest.read_text().replace(str(folder.parent), str(tmp_path / "gone")))
    page = to_json(run_report(facts_of_run(moved)))
    text = json.dumps(page)
    assert "Not measured" in text
    assert "Do not delete rows because of these values" in text
    assert "age" not in section(page, "rows")["tables"][0]["columns"]
    found = to_json(run_report(facts_of_run(moved, source=folder.parent)))
    assert "age" in section(found, "rows")["tables"][0]["columns"]


def test_a_changed_table_is_not_read_as_the_runs(folder, tmp_path):
    changed = adult_sample().head(120)
    changed.loc[3, "age"] += 1
    changed.to_csv(tmp_path / "adult.csv", index=False)
    result = call("report", folder, "--source", tmp_path)
    assert result.exit_code == 2
    assert "has changed since" in result.stderr


def test_retraining_that_would_take_too_long_is_left_out_with_its_time(folder):
    facts = facts_of_run(folder, most_seconds=1e-9)
    assert facts.fresh is None
    assert "would take about 1 second" in facts.not_retrained
    assert facts_of_run(folder, retrain=False).not_retrained.startswith("Retraining was turned off")


def test_a_model_that_is_code_is_not_imported_from_a_strangers_folder(
    folder, tmp_path, monkeypatch
):
    import shutil

    moved = shutil.copytree(folder, tmp_path / "moved")
    manifest = moved / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"naive_bayes"', '"evil:make"'))
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    facts = facts_of_run(moved, source=folder.parent)
    assert facts.fresh is None
    assert "is not imported" in facts.not_retrained
    assert "evil" not in sys.modules


def test_without_matplotlib_the_report_has_everything_but_pictures(folder, monkeypatch):
    from dshapley.reporting import svg

    monkeypatch.setattr(svg, "can_draw", lambda: False)
    page = run_report(facts_of_run(folder, retrain=False))
    assert not [picture for part in page.sections for picture in part.pictures]
    assert "dshapley[plots]" in to_html(page)
    assert section(to_json(page), "rows")["tables"][0]["rows"]


HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "</script>", "]]>",
    "$\\frac{1}{2}$", "&lt;b&gt;", "' onload='x", "tip:x", "\u202egnp.exe", "😀",
)  # fmt: skip


@pytest.mark.slow
def test_names_and_cells_of_a_table_are_shown_as_they_are(tmp_path):
    """Column names, cells, ids, labels and the file's name."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=110)
    table = pd.DataFrame(
        {
            "id<b>": [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(110)],
            HOSTILE[0]: x,
            HOSTILE[1]: rng.choice(HOSTILE, 110),
            HOSTILE[5]: rng.normal(size=110),
            "<i>y": np.where(x + 0.3 * rng.normal(size=110) > 0, HOSTILE[0], HOSTILE[4]),
        }
    )
    path = tmp_path / "a <b> & 'c'.csv"
    table.to_csv(path, index=False)
    result = call(
        "value", path, "--target", "<i>y", "--id", "id<b>", "--m", 10, "--draws", 40,
        "--jobs", 1, "--out", tmp_path / "run", report=True,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    html = (tmp_path / "run/report.html").read_text()
    page = Text(html)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"img", "b", "i", "iframe"}
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 1
    seen = "".join(page.text)
    for text in (HOSTILE[0], HOSTILE[2], HOSTILE[4], HOSTILE[5], HOSTILE[6]):
        assert text in seen
    assert "49" not in re.findall(r"\{\{.*?\}\}", seen)
    json.loads((tmp_path / "run/report.json").read_text())


def test_numbers_in_pictures_are_not_rounded(folder):
    """Coordinates may be; what a person reads may not."""
    from dshapley.reporting.svg import picture

    (made,) = picture("p", "t", lambda ax: ax.set_title("0.123456 and 7.00049"), "s")
    assert "0.123456 and 7.00049" in made.svg
    assert not re.search(r' d="[^"]*\d\.\d{3,}', made.svg)


@pytest.mark.slow
def test_a_hundred_thousand_rows_stay_under_two_megabytes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 1)).astype(np.float32)
    Z = ds.Points(X)
    draws = ds.run(
        lambda S: float(np.tanh(S.X.sum())), ds.Design(Z, 8, seed=0), Z.take(slice(0, 20)), stop=40
    )
    wide = ds.Draws(
        **{**draws.__dict__, "marginals": np.tile(draws.marginals, (1, 5000)),
           "ids": np.arange(100_000), "rows": np.ones(100_000, int)},
    )  # fmt: skip
    from dshapley.reporting.run_facts import RunFacts

    facts = RunFacts(
        folder=Path("none"), valuation=ds.estimate(wide), prepared=None,
        missing="", fresh=None, not_retrained="", sensitive=False,
    )  # fmt: skip
    size = len(to_html(run_report(facts)).encode())
    assert size < 500_000


def test_a_page_says_what_its_parts_say():
    page = Page(
        title="t",
        lead=["l"],
        sections=[
            Section(
                name="a",
                title="A",
                findings=[Finding(text="three", count=1234, section="a", level="warning")],
                tables=[
                    Table(title="T", columns=["x"], rows=[[0.5], [np.float64(np.nan)], [None]])
                ],
            )
        ],
    )
    html = to_html(page)
    assert "1,234" in html
    assert to_json(page)["sections"][0]["tables"][0]["rows"] == [[0.5], [None], [None]]
    assert [shown(cell) for cell in (0.5, True, None, "x" * 99)][3].endswith("…")


def test_long_cells_are_cut_unless_the_table_wraps_them():
    claim = "a claim of many words " * 9
    for wrapped in (False, True):
        table = Table(title="T", columns=["claim"], rows=[[claim]], wrapped=wrapped)
        page = Page(title="t", lead=[], sections=[Section(name="a", title="A", tables=[table])])
        assert (claim in to_html(page)) == wrapped


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_folder_that_is_no_run_is_an_error(tmp_path, name):
    if name == "empty":
        (tmp_path / name).mkdir()
    result = call("report", tmp_path / name)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert "holds no run" in result.stderr
    assert not (tmp_path / name / "report.html").exists()


@pytest.mark.slow
def test_price_lists_and_checks_have_reports(folder, tmp_path):
    prices = tmp_path / "prices"
    made = call("price", folder, "--rate", 100, "--m", 20, "--m", 10, "--out", prices)
    assert made.exit_code == 0, made.output
    page = json.loads((prices / "report.json").read_text())
    frame = pd.read_csv(prices / "prices.csv").query("m == 20").set_index("id")
    table = section(page, "m-20")["tables"][0]
    for row in table["rows"]:
        cells = dict(zip(table["columns"], row, strict=True))
        assert cells["price"] == frame.price[int(cells["id"])]
        assert cells["price, low"] == frame.price_low[int(cells["id"])]
    again = call("report", prices, "--sensitive")
    assert again.exit_code == 0, again.output
    hidden = json.loads((prices / "report.json").read_text())
    assert not section(hidden, "m-20")["tables"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--independent"],
        ["--no-control-variates", "--weights", "1/k"],
        ["--retrain", "always", "--min-rows", 5],
        ["--test-size", 0.3, "--seed", 4],
        ["--task", "classification", "--share", 0.5],
    ],
)
def test_the_command_on_the_page_repeats_any_run(tmp_path, options):
    import shlex

    table = tmp_path / "adult.csv"
    adult_sample().head(130).to_csv(table, index=False)
    words = ["--draws", 20, *options]
    assert value(table, *words, "--out", tmp_path / "run").exit_code == 0
    page = to_json(run_report(facts_of_run(tmp_path / "run", retrain=False)))
    command = shlex.split(section(page, "reproduce")["code"])
    command[command.index("adult.csv")] = str(table)
    again = call(*command[1:], "--out", tmp_path / "again")
    assert again.exit_code == 0, again.output
    one, two = (pd.read_csv(tmp_path / name / "values.csv") for name in ("run", "again"))
    pd.testing.assert_frame_equal(one, two, rtol=1e-12)  # a prediction may differ in its last bit


@pytest.mark.slow
def test_missing_cells_of_any_kind_are_shown_as_missing(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    table = pd.DataFrame(
        {
            "y": np.where(x > 0, "yes", "no"),
            "number": x,
            "whole": pd.array([None if i % 7 == 0 else i for i in range(120)], "Int64"),
            "truth": pd.array([None if i % 5 == 0 else i % 2 == 0 for i in range(120)], "boolean"),
            "text": pd.array([None if i % 4 == 0 else "ab"[i % 2] for i in range(120)], "string"),
            "when": pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(120), "D"),
        }
    )
    table.to_parquet(tmp_path / "t.parquet")
    result = call(
        "value", tmp_path / "t.parquet", "--target", "y", "--m", 15, "--draws", 40, "--jobs", 1,
        "--out", tmp_path / "run", report=True,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    page = json.loads((tmp_path / "run/report.json").read_text())
    rows = section(page, "rows")["tables"][0]
    cells = {row[rows["columns"].index("id")]: row for row in rows["rows"]}
    assert cells["0"][rows["columns"].index("whole")] is None
    assert "NA" not in json.dumps(rows["rows"])


@pytest.mark.parametrize("damage", ["gone", "changed", "unreadable"])
def test_sensitive_says_nothing_of_tables_that_cannot_be_read(folder, tmp_path, damage):
    import shutil

    moved = shutil.copytree(folder, tmp_path / "SECRETrun")
    there = tmp_path / "SECRETplace"
    there.mkdir()
    table = adult_sample().head(120)
    if damage == "changed":
        table.assign(age=99).to_csv(there / "adult.csv", index=False)
    elif damage == "unreadable":
        table.drop(columns="income").to_csv(there / "adult.csv", index=False)
    manifest = moved / "manifest.json"
    manifest.write_text(manifest.read_text().replace(str(folder.parent), str(there)))
    page = run_report(facts_of_run(moved, sensitive=True))
    text = to_html(page) + json.dumps(to_json(page))
    for word in ("SECRET", "adult", "income"):
        assert word not in text


def test_a_report_that_fails_is_a_notice(tmp_path, monkeypatch):
    table = tmp_path / "adult.csv"
    adult_sample().head(120).to_csv(table, index=False)
    (tmp_path / "run").mkdir()
    from dshapley.reporting import run_report as page

    def fails(*_, **__):
        raise ValueError("no picture today")

    monkeypatch.setattr(page, "run_report", fails)
    result = value(table, "--draws", 20, "--out", tmp_path / "run", report=True)
    assert result.exit_code == 0
    assert "there is no report (ValueError: no picture today)" in result.stderr
    assert (tmp_path / "run/values.csv").exists()


def test_a_page_that_cannot_be_written_is_said_in_one_line(folder, tmp_path):
    import shutil

    moved = shutil.copytree(folder, tmp_path / "run")
    (moved / "report.html").unlink()
    (moved / "report.html").mkdir()
    result = call("report", moved, "--no-retrain", "--source", folder.parent)
    assert result.exit_code == 2
    assert re.fullmatch(r"error: \S+report.html cannot be written: .*\n", result.stderr)


@pytest.mark.slow
def test_a_users_style_of_matplotlib_does_not_change_the_page(folder):
    import matplotlib

    plain = to_html(run_report(facts_of_run(folder, retrain=False)))
    with matplotlib.rc_context({"text.usetex": True, "font.size": 40, "axes.grid": True}):
        styled = to_html(run_report(facts_of_run(folder, retrain=False)))
    assert styled == plain
