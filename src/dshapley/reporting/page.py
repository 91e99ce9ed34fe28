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
from typing import Any, NamedTuple

from dshapley.errors import InputError
from dshapley.files import write_atomically

__all__ = ["Finding", "Number", "Page", "Picture", "Section", "Table", "write"]


class Number(NamedTuple):
    """A number with its own text, such as the digits that its error allows."""

    value: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing, with its content in words for those who cannot see it."""

    title: str
    svg: str
    summary: str
    marks: Sequence[str] = ()
    """Each mark of the drawing in words."""
    wide: bool = False
    """It takes the whole width of the page."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under named columns. Numbers are shown as `shown` says and sorted as numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    searchable: bool = False
    wrapped: bool = False
    """Long cells are shown whole, on several lines."""


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
    # Half a surrogate pair, which a damaged name can hold, is written as an escape in both.
    html = to_html(page).encode(errors="xmlcharrefreplace")
    text = json.dumps(to_json(page), indent=1, ensure_ascii=False, allow_nan=False)
    data = text.encode(errors="backslashreplace") + b"\n"
    for ending, content in (("html", html), ("json", data)):
        path = folder / f"{name}.{ending}"
        try:
            write_atomically(path, lambda file, content=content: file.write(content))  # type: ignore[misc]
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
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
                        "note": t.note,
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
    if isinstance(cell, Number):
        cell = cell.value
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
    if isinstance(cell, Number):
        return cell.text
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


class _Column(NamedTuple):
    """How one column of a table is shown."""

    name: str
    is_number: bool
    """All cells are numbers or empty: the name stands at the right, above the digits."""
    decimals: int | None
    """The digits after the point that all fractions of the column have, so that they line up."""

    whole: bool = False
    """Long cells are not cut."""

    def text(self, cell: Any) -> str:
        if isinstance(cell, Number):
            return cell.text
        cell = _plain(cell)
        if self.whole and isinstance(cell, str):
            return cell
        if not isinstance(cell, float) or self.decimals is None:
            return shown(cell)
        text = f"{cell:.{self.decimals}f}"
        return shown(cell) if cell and not float(text) else text


def columns_of(table: Table) -> list[_Column]:
    """How the columns of a table are shown.

    >>> table = Table(title="", columns=["id", "age"], rows=[["a", 7.125], ["b", 19.5], ["c", 3.0]])
    >>> [column.text(row[1]) for column in columns_of(table)[1:] for row in table.rows]
    ['7.12', '19.50', '3.00']
    """
    columns = []
    for i, name in enumerate(table.columns):
        cells = [_plain(row[i]) for row in table.rows]
        known = [cell for cell in cells if cell is not None]
        is_number = bool(known) and all(key(cell) for cell in known)
        fractions = [cell for cell in known if isinstance(cell, float)]
        columns.append(_Column(shown(name), is_number, _decimals(fractions), table.wrapped))
    return columns


def _decimals(fractions: list[float]) -> int | None:
    """As many as show four digits of the largest; None where the sizes are too far from 1."""
    largest = max(map(abs, fractions), default=0.0)
    if not 1e-4 <= largest < 1e5:
        return None
    if all(cell.is_integer() for cell in fractions):
        return 0
    return max(0, 3 - math.floor(math.log10(largest)))


def visible(text: Any) -> Any:
    """The text with a sign in place of each character that cannot be seen.

    Such characters, from a table or a file name, could hide text or turn its direction around.

    >>> visible("a" + chr(0) + chr(0x202E) + "b")
    'a␀[U+202E]b'
    """
    return text.translate(_SIGNS) if isinstance(text, str) else text


_SIGNS = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"},
    **{code: f"[U+{code:04X}]" for code in (*range(0x7F, 0xA0), *range(0x202A, 0x202F))},
    **{code: f"[U+{code:04X}]" for code in range(0x2066, 0x206A)},
}


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
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(columns_of=columns_of, key=key)
    return environment.from_string(_asset("page.html.jinja"))
