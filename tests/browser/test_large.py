"""A report of many rows is small and quick to open."""

import pytest

from browser.reports import report_of, table

pytestmark = pytest.mark.slow


def test_a_hundred_thousand_rows_are_two_megabytes_and_two_seconds(tmp_path, opened):
    """The one promise about time: two seconds after the click on the file, the page can be used."""
    words = ["--draws", "4", "--m", "100", "--model", "knn", "--share", "0.02"]
    folder = tmp_path / "large"
    path = report_of(table(100_000), folder, *words, target="income", retrain=False)
    assert path.stat().st_size < 2e6
    page = opened(path)
    rows = page.locator("#rows .table").first
    rows.get_by_role("button", name="value", exact=True).click()
    assert rows.locator("th[aria-sort=ascending]").count() == 1
    # The clock of the page starts with the navigation.
    assert page.evaluate("performance.now()") < 2000
    assert rows.locator("tbody tr").count() == 400
