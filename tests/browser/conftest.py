"""A browser without a network, and the reports that it opens."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from browser.chromium import MISSING, chromium
from browser.reports import report_of, table

HERE = Path(__file__).parent
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def pytest_ignore_collect(collection_path, config):
    """Collect these tests only where the command line names this folder: they need a browser."""
    named = (Path(config.invocation_params.dir, arg.split("::")[0]) for arg in config.args)
    return None if any(HERE in (path, *path.parents) for path in named) else True


@dataclass
class Heard:
    """What a page did that it must not do."""

    requests: list = field(default_factory=list)
    errors: list = field(default_factory=list)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    path = chromium()
    assert path is not None, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens a report in a fresh profile; it must not write errors or ask for anything."""
    contexts, heard = [], Heard()

    def open_(path, *, width=1280, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, **options
        )
        contexts.append(context)
        url = Path(path).absolute().as_uri()

        def only_the_file(route):
            if route.request.url.split("#")[0] == url:
                return route.continue_()
            heard.requests.append(route.request.url)
            return route.abort()

        context.route("**/*", only_the_file)
        page = context.new_page()
        page.on("request", lambda r: r.url.startswith("file:") or heard.requests.append(r.url))
        page.on("console", lambda m: m.type in ("error", "warning") and heard.errors.append(m.text))
        page.on("pageerror", lambda error: heard.errors.append(str(error)))
        page.on("dialog", lambda d: (heard.errors.append(f"dialog {d.message}"), d.dismiss()))
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert heard == Heard()


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """The report of a run: 300 rows, so that the table of rows holds all of them."""
    folder = tmp_path_factory.mktemp("report") / "people"
    return report_of(table(300), folder, "--draws", "60", "--m", "100", target="income")
