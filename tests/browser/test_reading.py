"""What a reader does with a report: sort, search and point, with a mouse, a finger or the keys."""

import re

import pandas as pd
import pytest

from browser.reports import table
from dshapley.reporting.page import Page, Picture, Section, Table, write


@pytest.fixture
def written(tmp_path, opened):
    """Opens a page of one section with these tables and pictures."""

    def open_(tables=(), pictures=(), **options):
        section = Section(name="only", title="Only", tables=tables, pictures=pictures)
        page = Page(title="A page", lead=["A lead."], sections=[section])
        return opened(write(page, tmp_path), **options)

    return open_


def column(page, number, *, where="body"):
    """The shown cells of a column, in the order of the page."""
    cells = page.locator(f"{where} tbody tr:not([hidden]) td:nth-child({number})")
    return cells.all_text_contents()


def test_a_report_works_offline_and_runs_no_script_but_its_own(report, browser):
    context = browser.new_context()
    asked = []
    context.route("http*://**", lambda route: (asked.append(route.request.url), route.abort()))
    page = context.new_page()
    page.goto(report.as_uri())
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert "default-src 'none'" in policy
    # The page's own policy stops what a hole in the escaping would let in.
    page.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.hit = 1";
          const image = document.createElement("img");
          image.src = "https://example.org/a.png";
          image.setAttribute("onerror", "window.hit = 2");
          document.body.append(script, image);
          await fetch("https://example.org/").catch(() => 0);
          await new Promise((done) => setTimeout(done, 100));
        }"""
    )
    assert page.evaluate("window.hit") is None
    assert asked == []
    context.close()


NUMBERS = [10, 9, -1e-7, 2.5, None, 1_000_000_000, 0.0000012, -33, 100.25]
SHARES = ["0%", "5%", "10%", "100%", "50%", "20%", "", "9%", "b"]


@pytest.mark.parametrize("how", ["click", "Enter", "Space"])
def test_numbers_are_sorted_as_numbers_both_ways(written, how):
    rows = [[f"row {i}", a, b] for i, (a, b) in enumerate(zip(NUMBERS, SHARES, strict=True))]
    page = written([Table(title="Numbers", columns=["id", "n", "share"], rows=rows)])

    def use(name):
        button = page.get_by_role("button", name=name, exact=True)
        if how == "click":
            button.click()
        else:
            button.focus()
            page.keyboard.press(how)

    def order(n):
        return [int(cell.removeprefix("row ")) for cell in column(page, n)]

    def sorts():
        return page.locator("th").evaluate_all("all => all.map((th) => th.ariaSort)")

    known = [i for i, a in enumerate(NUMBERS) if a is not None]
    up = sorted(known, key=lambda i: NUMBERS[i])
    empty = [NUMBERS.index(None)]
    assert sorts() == [None, None, None]
    use("n")
    assert sorts() == [None, "ascending", None]
    assert order(1) == up + empty
    use("n")
    assert sorts() == [None, "descending", None]
    assert order(1) == up[::-1] + empty
    use("share")
    assert sorts() == [None, None, "ascending"]
    assert column(page, 3) == ["0%", "5%", "9%", "10%", "20%", "50%", "100%", "b", ""]
    use("id")
    assert order(1) == list(range(len(rows)))


def test_a_real_table_is_sorted_by_the_full_numbers_not_by_what_is_shown(report, opened):
    page = opened(report)
    values = pd.read_csv(report.parent / "values.csv").set_index("id")["value"]
    page.locator("#rows .table").first.get_by_role("button", name="value", exact=True).click()
    ids = [int(i) for i in column(page, 1, where="#rows-table-1 ~ .scroll")]
    assert len(ids) == len(values) == 300
    assert values.loc[ids].is_monotonic_increasing


def test_search_filters_rows_and_says_how_many(report, opened):
    page = opened(report)
    people = table(300)
    rows = page.locator("#rows .table").first
    search, count = rows.get_by_role("searchbox", name="Search"), rows.get_by_role("status")
    assert count.text_content() == "300 rows"
    search.fill("NURSE")
    nurses = int((people["job"] == "nurse").sum())
    assert rows.locator("tbody tr:visible").count() == nurses
    assert count.text_content() == f"{nurses} of 300 rows"
    search.fill("nurse >50k")
    both = int(((people["job"] == "nurse") & (people["income"] == ">50K")).sum())
    assert rows.locator("tbody tr:visible").count() == both
    # Sorting keeps what was searched for.
    rows.get_by_role("button", name="rank").click()
    assert rows.locator("tbody tr:visible").count() == both
    search.fill("no such person")
    assert count.text_content() == "0 of 300 rows"
    search.fill("")
    assert rows.locator("tbody tr:visible").count() == 300


MARKS = (
    '<svg viewBox="0 0 380 200"><g class="mark" data-tip="wide: 0.25"><path d="M10 100H370" '
    'stroke="currentColor"/></g>'
    + "".join(
        f'<g class="mark" data-tip="dot {i}: 0.{i}"><circle cx="{x}" cy="{y}" r="4"/></g>'
        for i, (x, y) in enumerate([(20, 20), (200, 100), (370, 190)])
    )
    + "</svg>"
)


def marked(written, **options):
    picture = Picture(title="Dots", svg=MARKS, summary="Three dots.", marks=["dot 0: 0.0"])
    return written(pictures=[picture], **options)


def point(page, selector):
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def inside(page):
    """Whether the words are shown whole."""
    box, size = page.locator("#tip").bounding_box(), page.viewport_size
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return box["x"] >= 0 and box["y"] >= 0 and right <= size["width"] and bottom <= size["height"]


@pytest.mark.parametrize("width", [1280, 390])
def test_words_appear_where_the_pointer_is(written, width):
    page = marked(written, width=width)
    tip = page.locator("#tip")
    assert tip.text_content() == ""
    page.mouse.move(*point(page, "[data-tip^='dot 0']"))
    assert tip.text_content() == "dot 0: 0.0"
    assert inside(page)
    x, y = point(page, "[data-tip^='dot 1']")
    page.mouse.move(x, y)
    assert tip.text_content() == "dot 1: 0.1"  # the small mark, though it lies on the line
    page.mouse.move(x - 60, y + 5)
    assert tip.text_content() == "wide: 0.25"  # near a line is on it
    page.keyboard.press("Escape")
    assert tip.text_content() == ""
    page.mouse.move(x, y)
    assert page.locator(".mark.shown").count() == 1
    page.mouse.move(2, 2)
    assert tip.text_content() == ""
    assert page.locator(".mark.shown").count() == 0


def test_words_appear_by_the_arrow_keys_and_go_with_escape(written):
    page = marked(written, width=390)
    tip = page.locator("#tip")
    page.locator(".picture").focus()
    said = []
    for key in ["ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"]:
        page.keyboard.press(key)
        page.wait_for_timeout(
            60
        )  # a scroll event comes a frame later, and the words must outlive it
        said.append(tip.text_content())
        assert inside(page)
    names = ["wide: 0.25", "dot 0: 0.0", "dot 1: 0.1", "dot 2: 0.2"]
    assert said == [*names, names[0], names[3]]
    page.keyboard.press("Home")
    assert tip.text_content() == names[0]
    page.keyboard.press("End")
    assert tip.text_content() == names[3]
    page.keyboard.press("Escape")
    assert tip.text_content() == ""
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    assert tip.text_content() == ""


def test_a_finger_shows_words_until_the_next_touch(written):
    page = marked(written, width=390, has_touch=True)
    tip = page.locator("#tip")
    page.touchscreen.tap(*point(page, "[data-tip^='dot 0']"))
    assert tip.text_content() == "dot 0: 0.0"
    page.touchscreen.tap(100, 10)
    assert tip.text_content() == ""


def test_every_picture_of_a_report_has_marks_with_words(report, opened):
    page = opened(report)
    pictures = page.locator(".picture")
    assert pictures.count() >= 6
    for picture in pictures.all():
        picture.focus()
        page.keyboard.press("ArrowRight")
        words = page.locator("#tip").text_content()
        assert words == picture.locator(".mark").first.get_attribute("data-tip")
        assert re.search(r"\w", words)
        assert inside(page)
        assert picture.get_attribute("aria-label")


STEP = """() => {
  const at = document.activeElement, b = at.getBoundingClientRect(), style = getComputedStyle(at);
  return {
    what: at.closest("[class], [id]") === at ? at.className || at.id : at.tagName,
    kind: at.matches(".skip") ? "skip" : at.matches("nav a") ? "nav" : at.matches("[type=search]")
      ? "search" : at.matches("th button") ? "sort" : at.matches(".scroll") ? "table"
      : at.matches(".picture") ? "picture" : at.tagName.toLowerCase(),
    seen: b.width > 0 && b.bottom > 0 && b.top < innerHeight && b.right > 0 && b.left < innerWidth,
    outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
  };
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_keys_alone_reach_everything_and_the_focus_is_seen(report, opened, width):
    page = opened(report, width=width, reduced_motion="reduce")
    steps = []
    while len(steps) < 400:
        page.keyboard.press("Tab")
        step = page.evaluate(STEP)
        if step["kind"] == "body":
            break
        steps.append(step)
    kinds = [step["kind"] for step in steps]
    assert kinds[0] == "skip"
    for kind, selector in {
        "nav": "nav a", "search": "[type=search]", "sort": "th button", "table": ".scroll",
        "picture": ".picture",
    }.items():  # fmt: skip
        assert kinds.count(kind) == page.locator(selector).count() > 0, kind
    assert [step for step in steps if not step["seen"]] == []
    assert [step for step in steps if step["outline"] < 2] == []


def test_the_skip_link_passes_the_navigation(report, opened):
    page = opened(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_links_lead_to_sections(report, opened):
    page = opened(report)
    targets = page.locator("a[href^='#']").evaluate_all("all => all.map((a) => a.hash.slice(1))")
    assert len(targets) > 8
    assert page.evaluate("(ids) => ids.filter((id) => !document.getElementById(id))", targets) == []
    ids = page.locator("[id]").evaluate_all("all => all.map((element) => element.id)")
    assert sorted(ids) == sorted(set(ids))
