"""Pictures of matplotlib as SVG for a page: in the colours of the page, with words for marks."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dshapley.reporting.page import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["can_draw", "made_by", "picture", "picture_of"]

_INK = "#010203"
"""Drawn in this colour is whatever takes the colour of the page's text."""
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "grid.color": "#8a8a8a",
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), _INK
    ),
}
_WIDTH, _HEIGHT = 5.3, 3.4
_COORDINATES = re.compile(r' (?:d|x|y|x1|x2|y1|y2|width|height|points|transform)="[^"]*"')
_QUOTED = re.compile(r"""="[^"]*"|='([^']*)'""")
_DECIMALS = re.compile(r"\d+\.\d{3,}")
"""Only coordinates are rounded, to a hundredth of a point: never a number that a person reads."""


def picture(
    name: str,
    title: str,
    draw: Callable[[Axes], object],
    summary: str,
    *,
    height: float = _HEIGHT,
) -> list[Picture]:
    """What `draw` makes on the axes it is given, as a part of a page.

    Names from a table reach the picture as text only: matplotlib escapes them, and a dollar sign
    does not start a formula.

    Parameters
    ----------
    name
        A word that no other picture of the page has; the ids in the picture begin with it.
    """

    def figure() -> Figure:
        from matplotlib.figure import Figure

        made = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(made.add_subplot())
        return made

    return picture_of(figure, name, title, summary)


def picture_of(
    figure: Callable[[], Figure], name: str, title: str, summary: str, *, wide: bool = False
) -> list[Picture]:
    """A figure as a part of a page; no picture where matplotlib is not installed.

    A wide one has several panels, and perhaps legends outside of them.
    """
    if not can_draw():
        return []
    import matplotlib

    # The user's own style would change the page, or stop it (fonts, LaTeX).
    own: Any = {n: v for n, v in matplotlib.rcParamsDefault.items() if n != "backend"}
    own |= {**_STYLE, "svg.hashsalt": name}
    with matplotlib.rc_context(own):
        file = io.StringIO()
        figure().savefig(
            file,
            format="svg",
            metadata={"Date": None, "Creator": None},
            bbox_inches="tight" if wide else None,
        )
    svg, marks = _inline(file.getvalue(), name)
    return [Picture(title=title, svg=svg, summary=summary, marks=marks, wide=wide)]


def made_by(origin: str = "") -> str:
    """The last line of a page: what made it, and how to get pictures if there are none."""
    from dshapley import __version__

    line = f"Made by dshapley {__version__}{origin}."
    if can_draw():
        return line
    return f"{line} For pictures, pip install 'dshapley[plots]' and make the report again."


def can_draw() -> bool:
    """Whether matplotlib is installed and can be imported."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def _inline(text: str, name: str) -> tuple[str, list[str]]:
    """The SVG for use within a page, and the words of its marks."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    tips: dict[str, None] = {}

    def tag(found: re.Match[str]) -> str:
        # Only tags are changed: between them is text, which may come from a table.
        return _tag(found[0], name, tips)

    text = re.sub(r"<[^>]*>", tag, text)
    return re.sub(r"\n\s*", "\n", text), list(tips)


def _tag(tag: str, name: str, tips: dict[str, None]) -> str:
    # matplotlib quotes a value by ' if it contains a ".
    tag = _QUOTED.sub(_double_quoted, tag)
    if tag.startswith("<svg"):
        tag = re.sub(r' ((width|height)="[\d.]+pt"|(xmlns(:xlink)?|version)="[^"]*")', "", tag)
    tag = tag.replace("xlink:href=", "href=").replace(_INK, "currentColor")
    tag = _COORDINATES.sub(lambda found: _DECIMALS.sub(_rounded, found[0]), tag)
    marked = re.search(r' id="tip:([^"]*)"', tag)
    if marked:
        tips[html.unescape(marked[1])] = None
        return tag.replace(marked[0], f' class="mark" data-tip="{marked[1]}"')
    # Ids are of one picture; a page has many.
    tag = re.sub(r' id="(figure|axes|patch|matplotlib|text|line2d|xtick|ytick)[^"]*"', "", tag)
    tag = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', tag)
    return re.sub(r'(href="|url\()#', rf"\1#{name}-", tag)


def _double_quoted(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else '="' + found[1].replace('"', "&quot;") + '"'


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}"
