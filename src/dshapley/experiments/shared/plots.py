"""Pictures. The only module that imports matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dshapley.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["new_figure", "shade"]


def new_figure(
    n_rows: int, n_columns: int, *, size: tuple[float, float] = (5.2, 3.7), **options: Any
) -> tuple[Figure, Any]:
    """A figure, and its panels as an array of rows; each panel `size` inches wide and high."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("matplotlib is not installed: pip install 'dshapley[plots]'") from None
    figure = Figure(figsize=(size[0] * n_columns, size[1] * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def shade(at: float) -> tuple[float, ...]:
    """A colour of an even scale from dark (0) to light (1)."""
    from matplotlib import colormaps

    return tuple(colormaps["viridis"](at))
