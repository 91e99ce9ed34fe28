"""Names and cells that try to become part of the page are shown as text."""

import json

import pandas as pd
import pytest

from browser.reports import report_of, table
from dshapley.reporting.page import Finding, Page, Section, Table, write
from dshapley.reporting.svg import picture

SHORT = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{7*7}}",
    "{% raw %}",
    r"$\frac{1}$",
    "$x^2$ and $",
    "</script>",
    "</svg></td></tr></table>",
    "<!-- ",
    "]]>",
    "&lt;b&amp;",
    "javascript:alert(1)",
    "🦄👩‍🔬",
    "two\nlines",
    ' id="tip:not a mark"',
]
CODES = {
    "\u202etxt.exe": "[U+202E]txt.exe",
    "nul\0l": "nul␀l",
    "bell\a esc\x1b[31m": "bell␇ esc␛[31m",
    "next\x85line": "next[U+0085]line",
    "\u2067isolated": "[U+2067]isolated",
}
LONG = "x" * 10_000
HALF = "half \ud800"
ALL = [*SHORT, *CODES, LONG]

INJECTED = """() => ({
  scripts: document.scripts.length,
  strange: Array.from(document.querySelectorAll("img, iframe, form, base, b")).length,
  handlers: Array.from(document.querySelectorAll("*")).flatMap((e) => e.getAttributeNames())
    .filter((name) => name.startsWith("on")),
  links: Array.from(document.links).filter((a) => !a.getAttribute("href").startsWith("#")).length,
})"""
NOTHING = {"scripts": 1, "strange": 0, "handlers": [], "links": 0}


def everywhere():
    """A page with each hostile text in each place that takes text."""

    def draw(ax):
        for i, name in enumerate(ALL):
            text = name[:60]
            ax.plot(i, i, "o")[0].set_gid(f"tip:{text}")
        ax.set_yticks(range(len(SHORT)), SHORT)
        ax.set_title(SHORT[0])
        ax.set_xlabel(SHORT[1])

    sections = [
        Section(
            name="all",
            title=" ".join(SHORT),
            text=ALL,
            findings=[Finding(text=name, count=1, section="all", level="note") for name in ALL]
            + [Finding(text="gone", section="no such section")],
            pictures=picture("hostile", " ".join(SHORT), draw, " ".join(ALL)),
            tables=[
                Table(
                    title=" ".join(SHORT),
                    columns=[*ALL, "n"],
                    rows=[[*ALL, 1], [*ALL[::-1], 2]],
                    note=" ".join(SHORT),
                    searchable=True,
                )
            ],
            code="\n".join(SHORT),
        )
    ]
    return Page(title=" ".join(ALL), lead=ALL, sections=sections, made_by=" ".join(ALL))


def as_shown(text):
    text = CODES.get(text, text)
    return text if len(text) <= 60 else text[:59] + "…"


@pytest.fixture
def hostile(tmp_path):
    return write(everywhere(), tmp_path)


@pytest.mark.filterwarnings("ignore:Glyph")  # matplotlib measures with a font without them
def test_hostile_text_is_shown_as_text_in_every_place(hostile, opened):
    page = opened(hostile)
    assert page.evaluate(INJECTED) == NOTHING
    assert page.locator("table").count() == 1
    heads = page.locator("thead th button").all_text_contents()
    assert heads == [*map(as_shown, ALL), "n"]
    rows = page.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => Array.from(row.cells, (cell) => cell.textContent))"
    )
    assert rows == [[*map(as_shown, ALL), "1"], [*map(as_shown, ALL[::-1]), "2"]]
    paragraphs = page.locator("#all > p").all_text_contents()
    assert paragraphs == [CODES.get(text, text) for text in ALL]
    assert page.locator("pre").text_content() == "\n".join(SHORT)
    drawn_names = page.locator("svg text").all_text_contents()
    for name in SHORT:
        assert name.split("\n")[0] in drawn_names
    # What is used stays usable, and shows its text as text too.
    page.locator("[type=search]").fill("alert(1)")
    page.get_by_role("button", name="n", exact=True).click()
    page.get_by_role("button", name="n", exact=True).click()
    assert page.locator("tbody tr td:last-child").all_text_contents() == ["2", "1"]
    page.locator(".picture").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_html() == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert page.evaluate(INJECTED) == NOTHING


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("width", [1280, 390])
def test_long_words_do_not_widen_the_page(hostile, opened, width):
    page = opened(hostile, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.filterwarnings("ignore:Glyph")
def test_the_json_has_the_texts_as_they_are(hostile):
    found = json.loads(hostile.with_suffix(".json").read_text("utf-8"))
    [section] = found["sections"]
    assert section["tables"][0]["columns"] == [*ALL, "n"]
    assert section["tables"][0]["rows"][0] == [*ALL, 1]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_the_words_of_marks_are_as_they_are(hostile, opened):
    tips = opened(hostile).locator(".mark").evaluate_all("all => all.map((m) => m.dataset.tip)")
    assert tips[: len(SHORT)] == SHORT
    found = json.loads(hostile.with_suffix(".json").read_text("utf-8"))
    assert found["sections"][0]["pictures"][0]["marks"][: len(SHORT)] == SHORT


def test_half_a_surrogate_pair_is_written_and_read(tmp_path, opened):
    section = Section(name="one", title=HALF, text=[HALF])
    path = write(Page(title=HALF, lead=[HALF], sections=[section]), tmp_path)
    assert json.loads(path.with_suffix(".json").read_text("utf-8"))["title"] == HALF
    assert opened(path).locator("h1").text_content() == "half \ufffd"


def test_a_hostile_table_is_valued_and_reported(tmp_path, opened):
    """Through the command line: file name, columns, classes, ids and cells."""
    people = table(80)
    texts = [text for text in [*SHORT, "\u202etxt.exe", LONG] if "\n" not in text]
    frame = pd.DataFrame(
        {
            "name": [f"{texts[i % len(texts)]} {i}" for i in range(len(people))],
            "<script>alert(2)</script>": people["age"],
            '"><img src=x onerror=alert(3)>': [texts[i % len(texts)] for i in range(len(people))],
            "{{7*7}}": people["hours"],
            "$\\frac{1}$]]>": people["job"],
            "target\u202e</title>": people["income"].replace({">50K": "<script>alert(4)</script>"}),
        }
    )
    name = 'a"><img src=x onerror=alert(5)>{{7*7}}.csv'
    words = ["--draws", "40", "--id", "name"]
    path = report_of(frame, tmp_path / "hostile", *words, target="target\u202e</title>", name=name)
    page = opened(path)
    assert page.evaluate(INJECTED) == NOTHING
    rows = page.locator("#rows .table").first
    heads = rows.locator("th button").all_text_contents()
    assert '"><img src=x onerror=alert(3)>' in heads
    assert "target[U+202E]</title>" in heads
    assert rows.locator("tbody tr").count() == len(people)
    assert set(rows.locator("tbody tr").evaluate_all("all => all.map((r) => r.cells.length)")) == {
        len(heads)
    }
    ids = rows.locator("tbody td:nth-child(1)").all_text_contents()
    assert sorted(ids) == sorted(
        as_shown(id_.replace("\u202e", "[U+202E]")) for id_ in frame["name"]
    )
    assert "onerror=alert(5)" in page.locator("h1").text_content()
    for drawing in page.locator(".picture").all():
        drawing.focus()
        page.keyboard.press("ArrowRight")
    assert page.evaluate(INJECTED) == NOTHING
    found = json.loads(path.with_suffix(".json").read_text("utf-8"))
    [table_of_rows] = [s for s in found["sections"] if s["name"] == "rows"]
    assert {row[0] for row in table_of_rows["tables"][0]["rows"]} == set(frame["name"])
