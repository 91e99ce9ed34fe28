"""A matplotlib picture as SVG for a page, in the colours of the page, each mark with words."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["drawn"]

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


def drawn(
    draw: Callable[[Axes], object], name: str, *, height: float = _HEIGHT
) -> tuple[str, list[str]]:
    """The picture that `draw` makes on the axes it is given, and the words of its marks.

    Names from a table reach the picture as text only: matplotlib escapes them, and a dollar sign
    does not start a formula.

    Parameters
    ----------
    name
        A word that no other picture of the page has; the ids in the picture begin with it.
    """
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {**_STYLE, "svg.hashsalt": name}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(file.getvalue(), name)


def _inline(text: str, name: str) -> tuple[str, list[str]]:
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' (xmlns(:xlink)?|version)="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=").replace(_INK, "currentColor")
    text = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text)
    tips = [html.unescape(tip) for tip in re.findall(r' id="tip:([^"]*)"', text)]
    text = re.sub(r' id="tip:([^"]*)"', r' class="mark" data-tip="\1"', text)
    # Ids are of one picture; a page has many.
    text = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = re.sub(
        r' id="[^"]*-(figure|axes|patch|matplotlib|text|line2d|xtick|ytick)[^"]*"', "", text
    )
    return re.sub(r"\n\s*", "\n", text), list(dict.fromkeys(tips))
