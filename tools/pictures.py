"""The two pictures of the README: `python tools/pictures.py` writes them to docs/figures.

A run on the embedded sample of Adult, its report as Chromium shows it, and a plot. It needs what
`make test-browser` installs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import dshapley as ds
from dshapley.cli.app import command
from dshapley.data.datasets import adult_sample

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> None:
    """Make the run, the report, its picture and the plot."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        adult_sample().to_csv(folder / "adult.csv", index=False)
        out = folder / "run"
        words = ["value", str(folder / "adult.csv"), "--target", "income", "--metric", "roc_auc"]
        if command([*words, "--m", "100", "--draws", "1500", "--out", str(out)]) != 0:
            raise SystemExit("dshapley value failed")
        path = os.environ.get("DSHAPLEY_CHROMIUM") or shutil.which("chromium")
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=path, args=_ARGUMENTS)
            page = browser.new_page(viewport={"width": 1180, "height": 900})
            page.goto((out / "report.html").as_uri())
            page.screenshot(path=FIGURES / "report.png")
            browser.close()
        valuation = ds.estimate(ds.load_run(out))
        figure = valuation.plot(n=6).get_figure(root=True)
        assert figure is not None
        figure.savefig(FIGURES / "plot.png", dpi=110)


if __name__ == "__main__":
    main()
