"""How a result shows itself in a notebook."""

from __future__ import annotations

__all__ = ["NotebookDisplay"]


class NotebookDisplay:
    """A result that a notebook shows as a small table and a picture."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # Late, because results are made far above the package that shows them.
        from dshapley.reporting.notebook import html_of

        return html_of(self)
