"""The page of an audit, in a browser: it can be read, its links lead to what was found."""

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

from browser.reports import audit_of, table


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    frame = table(300)
    rng = np.random.default_rng(0)
    wrong = rng.choice(300, 25, replace=False)
    frame.loc[wrong, "income"] = np.where(frame["income"][wrong] == ">50K", "<=50K", ">50K")
    copies = frame.iloc[:4].assign(income=["<=50K", ">50K"] * 2)
    frame = pd.concat([frame, copies], ignore_index=True)
    folder = tmp_path_factory.mktemp("audit") / "people"
    return audit_of(frame, folder, "--draws", "60", "--m", "100", target="income")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_its_links_lead_to_sections(audit, opened, width):
    page = opened(audit, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    names = page.eval_on_selector_all("section", "parts => parts.map(part => part.id)")
    assert {"findings", "next", "labels", "copies", "action"} <= set(names)
    targets = page.eval_on_selector_all(
        "a[href^='#']", "links => links.map(link => link.getAttribute('href').slice(1))"
    )
    assert len(targets) > 15
    missing = [name for name in targets if page.query_selector(f"[id='{name}']") is None]
    assert missing == []


def test_nothing_hinders_those_who_cannot_see_it(audit, opened):
    found = Axe().run(opened(audit))
    assert found.violations_count == 0, found.generate_report()
