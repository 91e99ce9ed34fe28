"""A report as one file that works offline: sections of sentences, pictures and tables.

Reports are made of these parts and know nothing of HTML. `to_html` renders them with Jinja2, which
escapes whatever comes from a table; the page forbids network access by its own policy. `to_json`
gives programs the same content.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from dshapley.files import write_atomically

__all__ = ["Finding", "Page", "Picture", "Section", "Table", "write"]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing, with its content in words for those who cannot see it."""

    title: str
    svg: str
    summary: str
    marks: Sequence[str] = ()
    """Each mark of the drawing in words."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under named columns. Numbers are shown as `shown` says and sorted as numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    searchable: bool = False


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sentence with a count, a link to the section that shows it, and how serious it is."""

    text: str
    count: int | None = None
    section: str = ""
    level: str = "note"
    """"note", "good" or "warning"."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a page. `name` is what links point at."""

    name: str
    title: str
    text: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole report."""

    title: str
    lead: Sequence[str]
    """The answer in a few sentences."""
    sections: Sequence[Section]
    made_by: str = field(default="")


def write(page: Page, folder: Path, name: str = "report") -> Path:
    """Write NAME.html and NAME.json to the folder; the path of the page."""
    html = to_html(page).encode()
    text = json.dumps(to_json(page), indent=1, ensure_ascii=False, allow_nan=False).encode()
    write_atomically(folder / f"{name}.json", lambda file: file.write(text + b"\n"))
    write_atomically(folder / f"{name}.html", lambda file: file.write(html))
    return folder / f"{name}.html"


def to_html(page: Page) -> str:
    """The page as one file: no part of it is loaded from elsewhere."""
    script, style = _asset("page.js"), _asset("page.css")
    titles = {section.name: section.title for section in page.sections}
    return str(
        _template().render(
            page=page, titles=titles, script=script, style=style, policy=_policy(script)
        )
    )


def to_json(page: Page) -> dict[str, Any]:
    """The same content as plain values; a picture is the words of its marks."""
    return {
        "title": page.title,
        "lead": list(page.lead),
        "made_by": page.made_by,
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "text": list(section.text),
                "findings": [
                    {"text": f.text, "count": f.count, "section": f.section, "level": f.level}
                    for f in section.findings
                ],
                "pictures": [
                    {"title": p.title, "summary": p.summary, "marks": list(p.marks)}
                    for p in section.pictures
                ],
                "tables": [
                    {
                        "title": t.title,
                        "columns": list(t.columns),
                        "rows": [[_plain(cell) for cell in row] for row in t.rows],
                    }
                    for t in section.tables
                ],
                "code": section.code,
            }
            for section in page.sections
        ],
    }


def _plain(cell: Any) -> Any:
    if hasattr(cell, "item"):
        cell = cell.item()
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell if isinstance(cell, str | int | float | bool | None) else str(cell)


def shown(cell: Any) -> str:
    """A cell as text.

    >>> shown(0.123456), shown(2024), shown(None)
    ('0.1235', '2024', '')
    """
    cell = _plain(cell)
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return str(cell)
    if isinstance(cell, float):
        return f"{cell:.4g}" if abs(cell) < 1e5 else f"{cell:,.0f}"
    return cell if len(cell) <= _LONGEST else f"{cell[: _LONGEST - 1]}…"


_LONGEST = 60
"""A longer cell is cut, so that no table makes the page wide or large."""


def key(cell: Any) -> str:
    """What a cell is sorted by: the full number, or nothing for text."""
    cell = _plain(cell)
    return repr(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else ""


def _policy(script: str) -> str:
    """Nothing may be loaded, and no script but ours may run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _asset(name: str) -> str:
    return (resources.files("dshapley.reporting") / "assets" / name).read_text("utf-8")


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(shown=shown, key=key)
    return environment.from_string(_asset("page.html.jinja"))
