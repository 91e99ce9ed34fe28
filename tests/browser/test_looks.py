"""How a report looks: on a phone, in the dark, on paper, and to a checker of accessibility."""

import pytest
from axe_playwright_python.sync_playwright import Axe

WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
BOTH = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]

WORDS = """() => {
  // All that is read: its words, its size on the screen, its colour and what is behind it.
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const light = ([r, g, b]) => [r, g, b]
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, .skip")) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element), drawn = element.closest("svg");
    const m = drawn ? element.getScreenCTM() : { a: 1, b: 0 };
    const color = parts(drawn ? style.fill : style.color);
    found.push({
      words: node.textContent.trim().slice(0, 40), drawn: drawn !== null,
      size: parseFloat(style.fontSize) * Math.hypot(m.a, m.b),
      contrast: contrast(color, behind(drawn || element)),
    });
  }
  const marks = Array.from(document.querySelectorAll(".mark path[style], .mark use"), (mark) => {
    const style = getComputedStyle(mark);
    const color = [style.fill, style.stroke].find((c) => c.startsWith("rgb"));
    if (!color || mark.closest("defs")) return null;
    return { color, contrast: contrast(parts(color), behind(mark.closest("svg"))) };
  }).filter(Boolean);
  return { found, marks, paper: light(behind(document.body)) };
}"""


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_as_wide_as_the_screen_and_can_be_read(report, opened, width):
    page = opened(report, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.body.scrollWidth") <= width
    words = page.evaluate(WORDS)["found"]
    assert len([word for word in words if word["drawn"]]) > 50
    assert [word for word in words if word["drawn"] and word["size"] < 9] == []
    assert [word for word in words if not word["drawn"] and word["size"] < 12] == []


def test_tables_and_pictures_scroll_in_their_own_boxes(report, opened):
    page = opened(report, width=390)
    for selector in ("#rows .scroll", "#spread .picture"):
        box = page.locator(selector).first
        inner, outer = box.evaluate("b => [b.scrollWidth, b.clientWidth]")
        assert inner > outer > 0
        box.evaluate("b => b.scrollTo(1e6, 0)")
        assert box.evaluate("b => b.scrollLeft") == inner - outer


def test_the_names_of_columns_stay_in_sight(report, opened):
    page = opened(report)
    box = page.locator("#rows .scroll").first
    box.evaluate("b => b.scrollTo(0, 3000)")
    head = box.locator("thead th").first.bounding_box()
    assert head["y"] == pytest.approx(box.bounding_box()["y"], abs=2)


@pytest.mark.parametrize(("width", "scheme"), BOTH)
def test_words_and_marks_stand_out(report, opened, width, scheme):
    """WCAG 2.2 asks for 4.5 to 1 of words, and for 3 to 1 of parts of a picture."""
    page = opened(report, width=width, scheme=scheme)
    seen = page.evaluate(WORDS)
    assert seen["paper"] < 0.05 if scheme == "dark" else seen["paper"] > 0.9
    assert [word for word in seen["found"] if word["contrast"] < 4.5] == []
    assert len(seen["marks"]) > 50
    assert [mark for mark in seen["marks"] if mark["contrast"] < 3] == []


@pytest.mark.parametrize(("width", "scheme"), BOTH)
def test_axe_finds_nothing_serious(report, opened, width, scheme):
    page = opened(report, width=width, scheme=scheme)
    found = Axe().run(page).response
    assert len(found["passes"]) > 15
    bad = [
        (rule["id"], rule["impact"], node["html"][:200])
        for rule in found["violations"]
        for node in rule["nodes"]
        if rule["impact"] in ("serious", "critical")
    ]
    assert bad == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_report_prints_whole(report, opened, scheme):
    page = opened(report, width=688, scheme=scheme)  # A4 without its margins
    page.emulate_media(media="print")
    for selector in ("nav", ".search", ".skip", "#tip"):
        assert page.locator(selector).count() > 0
        assert page.locator(f"{selector}:visible").count() == 0, selector
    assert page.locator(".scroll").evaluate_all(
        "all => all.filter((b) => getComputedStyle(b).overflow !== 'visible').length"
    ) == 0  # fmt: skip
    cut = page.locator(".scroll").evaluate_all(
        "all => all.filter((b) => b.firstElementChild.offsetHeight > b.offsetHeight).length"
    )
    assert cut == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 688
    seen = page.evaluate(WORDS)
    assert seen["paper"] == pytest.approx(1)
    assert [word for word in seen["found"] if word["contrast"] < 4.5] == []
    assert page.pdf(format="A4").startswith(b"%PDF")
