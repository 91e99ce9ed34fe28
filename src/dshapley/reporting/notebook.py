"""What a notebook shows of a result: a heading, a small table and a small picture.

Each fragment has inline styles and an inline SVG only: no script, nothing from elsewhere, and no
more than a few kilobytes however many points there are. Text and lines take the colour of the
notebook's text, so that dark notebooks show them too. All words are escaped, because ids and
names come from tables.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.baselines.curves import Curve
from dshapley.data.points import Array, Floats
from dshapley.formatting import duration, number
from dshapley.inference.comparison import Comparison
from dshapley.inference.database_error import DatabaseError
from dshapley.inference.interpolation import Prediction
from dshapley.inference.label_evidence import LabelEvidence
from dshapley.inference.profile import SizeProfile
from dshapley.inference.valuation import Valuation
from dshapley.market.buyer_check import Check
from dshapley.market.matching import Match
from dshapley.market.price_list_file import PriceList
from dshapley.market.splitting import Splitting
from dshapley.market.summary_file import Summary
from dshapley.plots.figure import BAD, GOOD, name_of
from dshapley.reporting.market import check_lines, match_lines
from dshapley.running.planning import Plan
from dshapley.sampling.draws import Draws

__all__ = ["fragment", "html_of"]

_EACH_END = 5
"""Rows of a table at each end."""
_MOST_SIZES = 4
"""Data set sizes of a price list that are shown."""
_MOST_LINES = 8
_WIDTH, _HEIGHT = 260, 110
_MOST_MARKS = 60
"""Marks in a picture; more of them would not be seen at this size."""
_ROUNDING = 1e-12
_LONGEST = 300
"""The most characters of a sentence; names are cut sooner."""


@singledispatch
def html_of(result: object) -> str:
    """The HTML of a result for a notebook.

    >>> values = Valuation(values=np.array([0.3, -0.1]), stderr=np.full(2, 0.01), m=5, n_draws=9,
    ...                    ids=np.array(["<b>", "b"]), rows=np.ones(2, int))
    >>> shown = html_of(values)
    >>> "&lt;b&gt;" in shown, "0.300" in shown, "<svg" in shown
    (True, True, True)
    """
    # A notebook shows the plain `repr` of a result whose `_repr_html_` is not implemented.
    raise NotImplementedError(f"there is no HTML for {type(result).__name__}")


@html_of.register
def _(valuation: Valuation) -> str:
    heading = repr(valuation).splitlines()[0].removeprefix(type(valuation).__name__)
    metric = valuation.about.identity.metric or "U"
    notes = [f"value: change of {metric} when the point is added; ±: two standard errors"]
    if valuation.unseen:
        notes.append(f"{valuation.what_is_unseen}, so the errors are not known yet")
    more: dict[str, Any] = {}
    if (valuation.rows != 1).any():
        more["rows"] = [f"{n:,}" for n in valuation.rows.tolist()]
    if valuation.predicted.any():
        more[""] = np.where(valuation.predicted, "predicted", "measured")
    return _of_values(type(valuation).__name__, heading, valuation, notes, more)


@html_of.register
def _(prediction: Prediction) -> str:
    notes = ["predicted, not measured; ±: two standard errors; interval() has 95 % intervals"]
    return _of_values("Prediction", f" of {len(prediction):,} points", prediction, notes, {})


def _of_values(
    name: str, heading: str, result: Valuation | Prediction, notes: list[str], more: dict[str, Any]
) -> str:
    order = np.argsort(-result.values, kind="stable")
    rows = [
        (name_of(result.ids[i]), *_pair(result.values[i], 2 * result.stderr[i]),
         *(column[i] for column in more.values()))
        for i in _ends(order)
    ]  # fmt: skip
    return fragment(
        name,
        heading,
        _table(["id", "value", "±", *more], rows, left_out=len(order) - len(rows)),
        _in_order(result.values, "values"),
        notes=notes,
    )


@html_of.register
def _(prices: PriceList) -> str:
    sizes = list(prices.terms["m"])
    shown, more = sizes[:_MOST_SIZES], len(sizes) - _MOST_SIZES
    also = f" and {more:,} others" if more > 0 else ""
    frame = prices.at(sizes[0])
    # At the floor many prices are equal.
    order = np.lexsort((-frame["value"].to_numpy(), -frame["price"].to_numpy()))
    rows = []
    for i in _ends(order):
        row = frame.iloc[i]
        rows.append((name_of(frame.index[i]), _with_error(row["value"], 2 * row["stderr"]),
                     *_with_ends(row["price"], row["price_low"], row["price_high"])))  # fmt: skip
    totals = [
        (f"{total['m']:,}", *_with_ends(total["price"], total["price_low"], total["price_high"]))
        for total in prices.terms["totals"][:_MOST_SIZES]
    ]
    interval = f"{prices.terms['confidence']:.0%} interval"
    return fragment(
        "PriceList",
        f" of {len(prices):,} points for m = {', '.join(f'{m:,}' for m in shown)}{also}",
        _table(
            ["id", "value", "price", interval], rows, left_out=len(order) - len(rows),
            caption=f"for m = {sizes[0]:,}",
        ),
        _in_order(frame["price"].to_numpy(), f"prices for m = {sizes[0]:,}"),
        _table(["m", "price", interval], totals, caption="all together"),
        notes=[prices.terms["pricing"]["rule"], "value ±: two standard errors"],
    )  # fmt: skip


@html_of.register
def _(check: Check) -> str:
    about, order, worth, *others = check_lines(check)
    rows = [(check.order, order), (check.worth, worth), *(("", line) for line in others)]
    frame = check.frame.sort_values("value", kind="stable")
    some = _evenly(len(frame), _MOST_MARKS)
    listed, own = (frame[name].to_numpy()[some] for name in ("value", "own"))
    return fragment(
        "Check",
        f": {about}",
        _table([], rows, sentences=True),
        _scatter(listed, own, "across: value in the list; up: your value; dashed: equal values"),
    )


@html_of.register
def _(match: Match) -> str:
    seen = "the distributions differ" if match.beyond_noise else "no difference beyond chance"
    rows = [(line,) for line in match_lines(match)[:_MOST_LINES]]
    return fragment("Match", f": {seen}", _table([], rows, sentences=True), _gauge(match))


@html_of.register
def _(splitting: Splitting) -> str:
    order = np.argsort(-splitting.difference, kind="stable")
    rows = []
    for i in _ends(order):
        error = 2 * float(splitting.stderr[i])
        whole, split = (
            number(float(part[i]), error)[0] for part in (splitting.whole, splitting.split)
        )
        beyond = "beyond the error" if splitting.beyond_error[i] else ""
        name, parts = name_of(splitting.ids[i]), name_of(splitting.parts[i])
        rows.append(
            (name, parts, whole, split, _with_error(splitting.difference[i], error), beyond)
        )
    head = ["id", "parts", "as a set", "its parts", "difference", ""]
    return fragment(
        "Splitting",
        f" of {len(order):,} bundles: {int(splitting.beyond_error.sum()):,} of them change their "
        "total beyond the error",
        _table(head, rows, left_out=len(order) - len(rows)),
        _in_order(splitting.difference, "differences"),
        notes=["difference: value of the parts minus value as a set; ±: two standard errors"],
    )


@html_of.register
def _(curve: Curve) -> str:
    repeats = len(curve.random)
    beside = curve.random_mean if repeats else np.full(len(curve.scores), np.nan)
    error = curve.random_stderr if repeats else beside
    heading = f" of {len(curve.scores):,} steps beside {repeats:,} random orders"
    if repeats:
        heading += f", score minus random order {_with_error(curve.gap[0], 2 * curve.gap[1])}"
    rows = [
        (f"{curve.fractions[i]:.0%}", f"{curve.counts[i]:,}", f"{curve.scores[i]:.4g}",
         *(_pair(beside[i], 2 * error[i]) if repeats else ()))
        for i in _evenly(len(curve.scores), 2 * _EACH_END + 1)
    ]  # fmt: skip
    head = ["share", "points", "score", *(["random order", "±"] if repeats else [])]
    return fragment(
        "Curve",
        heading,
        _table(head, rows),
        _lines(curve.fractions, curve.scores, beside),
        notes=["share: of the points, removed or added; ±: two standard errors"] if repeats else [],
    )


@html_of.register
def _(comparison: Comparison) -> str:
    rows = []
    for pair in comparison.pairs[:_MOST_LINES]:
        found, low, high = pair.order.without_noise
        rows.append(
            (f"{name_of(comparison.names[pair.first])} and "
             f"{name_of(comparison.names[pair.second])}",
             f"{pair.order.observed:.2f}",
             pair.order.hidden or f"{found:.2f} ({low:.2f} to {high:.2f})",
             f"{pair.top.found:.0%}", f"{pair.bottom.found:.0%}", f"{int(pair.differs.sum()):,}")
        )  # fmt: skip
    head = ["runs", "rank correlation", "without noise", "top tenth shared", "bottom tenth",
            "rows that differ"]  # fmt: skip
    first = comparison.pairs[0]
    scaled = [
        (values - values.mean()) / spread if spread > 0 else np.full(len(values), np.nan)
        for values, spread in zip(
            comparison.values[[first.first, first.second]], first.spreads, strict=True
        )
    ]
    return fragment(
        "Comparison",
        f" of {len(comparison.names):,} runs over {len(comparison):,} points",
        _table(head, rows),
        _scatter(
            scaled[0], scaled[1], f"standardised values: {rows[0][0]}; dashed: where they are equal"
        ),
        notes=["rows differ where their standardised values do, beyond the error"],
    )


@html_of.register
def _(error: DatabaseError) -> str:
    shown = f"{error.typical:.2g}" if error.known else f"at most {error.most:.2g}"
    rows = [
        ("between databases", shown),
        ("of the draws", f"{error.of_draws:.2g}"),
        ("draws", f"{error.n_draws:,}"),
    ]
    if error.draws_needed is not None:
        rows.append(("draws to know it", f"{error.draws_needed:,}"))
    heading = f" of {len(error):,} values, for databases of {error.rows:,} rows"
    notes = ["root mean square standard errors of the values"]
    return fragment(
        "DatabaseError",
        heading,
        _table([], rows, sentences=True),
        _in_order(error.stderr, "errors"),
        notes=notes,
    )


@html_of.register
def _(draws: Draws) -> str:
    identity, n, T = draws.about.identity, draws.marginals.shape[1], len(draws)
    how = [
        "balanced sizes" if draws.balanced else "",
        "control variates" if draws.control_variates is not None else "",
        f"cross-fitted in {draws.folds.n} folds" if draws.folds is not None else "",
    ]
    rows = [("method", identity.method), ("metric", identity.metric or "U")]
    if any(how):
        rows.append(("with", ", ".join(filter(None, how))))
    if T:
        rows.append(("set sizes k", f"{draws.k.min():,} to {draws.k.max():,}"))
    if T and draws.seconds is not None:
        median, total = float(np.median(draws.seconds)), float(draws.seconds.sum())
        rows.append(("time", f"{median:.2g} seconds a draw (median), {duration(total)} in all"))
    return fragment(
        "Draws",
        f" of {n:,} {'bundles' if (draws.rows != 1).any() else 'points'}, m = {draws.m:,}: "
        f"{T:,} draws",
        _table([], rows, sentences=True),
        _histogram(draws.k, draws.m),
        notes=["ds.estimate(draws) computes the values"],
    )


@html_of.register
def _(plan: Plan) -> str:
    rows = [
        ("draws in all", f"{plan.draws:,}"),
        ("time on one worker", duration(plan.seconds)),
    ]
    heading = f" for ±{plan.within:.3g} on every value ({plan.confidence:.0%} confidence)"
    return fragment("Plan", heading, _table([], rows, sentences=True))


@html_of.register
def _(found: LabelEvidence) -> str:
    order = np.argsort(found.probability, kind="stable")[: 2 * _EACH_END]
    heading = repr(found).removeprefix("LabelEvidence")
    rows = [
        (name_of(found.ids[i]), *([] if found.given is None else [name_of(found.given[i])]),
         *([] if found.suggested is None else [name_of(found.suggested[i])]),
         *_pair(found.probability[i], 2 * found.stderr[i]))
        for i in order.tolist()
    ]  # fmt: skip
    head = ["id", *([] if found.given is None else ["given"])]
    head += ["residual"] if found.suggested is None else ["suggested", "probability"]
    return fragment(
        "LabelEvidence",
        heading,
        _table([*head, "±"], rows, left_out=len(found) - len(rows)),
        notes=["the lowest first; ±: two standard errors over the models"],
    )


@html_of.register
def _(profile: SizeProfile) -> str:
    rows = []
    for i in _evenly(len(profile.smallest), 2 * _EACH_END + 1):
        low, high = int(profile.smallest[i]), int(profile.largest[i])
        known = np.isfinite(profile.means[i]).any()
        mean = f"{np.nanmean(profile.means[i]):.3g}" if known else "too few draws"
        rows.append(
            (f"{low:,}" if low == high else f"{low:,} to {high:,}", f"{profile.n_draws[i]:,}", mean)
        )
    return fragment(
        "SizeProfile",
        f" of {profile.means.shape[1]:,} points in {len(profile.smallest):,} bands of sizes",
        _table(["set size k", "draws", "mean marginal"], rows),
        notes=["mean marginal: over all points"],
    )


@html_of.register
def _(summary: Summary) -> str:
    directions, parts = summary.means.shape
    rows = [
        ("rows summarised", f"{summary.rows:,}"),
        ("columns", f"{len(summary.columns):,}"),
        ("random directions", f"{directions:,}, with {parts:,} means along each"),
    ]
    notes = ["it holds no rows; market.match(summary, ...) compares it with a table"]
    return fragment("Summary", " of a table", _table([], rows, sentences=True), notes=notes)


# -- Words


def _ends(order: NDArray[np.intp]) -> list[int]:
    """The first and the last few of an order."""
    if len(order) <= 2 * _EACH_END:
        return order.tolist()
    return [*order[:_EACH_END].tolist(), *order[-_EACH_END:].tolist()]


def _evenly(n: int, most: int) -> NDArray[np.intp]:
    """At most this many of 0 to n - 1, evenly spaced, both ends included."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(n, most)).round().astype(np.intp))


def _pair(value: float, reach: float) -> tuple[str, str]:
    """A number and its error as text; an error that is only rounding counts as none."""
    error = float(reach)
    return number(float(value), 0.0 if error < _ROUNDING * abs(value) else error)


def _with_error(value: float, reach: float) -> str:
    return " ± ".join(_pair(value, reach))


def _with_ends(middle: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """A number and its interval, with the digits that the interval allows."""
    if middle is None:
        return "not known", "?"
    if low is None or high is None:
        return f"{middle:.3g}", "?"
    error = float(high - low) / 4
    if not math.isfinite(error):
        return f"{middle:.3g}", "?"
    return number(middle, error)[0], " to ".join(number(end, error)[0] for end in (low, high))


def _escaped(text: object) -> str:
    """Text for HTML, cut if it is long, without characters that cannot be printed."""
    words = str(text)
    words = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in words))


# -- HTML


def fragment(name: str, heading: str, *parts: str, notes: Iterable[str] = ()) -> str:
    """A heading, then parts side by side where there is room, then notes."""
    below = "".join(
        f'<div style="opacity:.75;font-size:.9em">{_escaped(note)}</div>' for note in notes
    )
    # The classes stop MathJax, for which two dollar signs in names would be a formula.
    return (
        '<div class="tex2jax_ignore mathjax_ignore" style="max-width:60em;line-height:1.4">'
        f"<div><b>{_escaped(name)}</b>{_escaped(heading)}</div>"
        '<div style="display:flex;flex-wrap:wrap;gap:.5em 2.5em;align-items:flex-start;'
        f'margin:.4em 0">{"".join(parts)}</div>{below}</div>'
    )


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    left_out: int = 0,
    caption: str = "",
    sentences: bool = False,
) -> str:
    """A table; `left_out` rows are missing in its middle, and the text of `sentences` wraps."""
    cell = "padding:.1em .6em;"
    cell += (
        "text-align:left;vertical-align:top" if sentences else "text-align:right;white-space:nowrap"
    )
    lines = []
    if caption:
        lines.append(f'<caption style="text-align:left">{_escaped(caption)}</caption>')
    if head:
        top = f"{cell};border-bottom:1px solid currentColor"
        lines.append(_row("th", top, head))
    first = f"{cell};white-space:nowrap;font-weight:bold" if sentences else cell
    for i, row in enumerate(rows):
        if left_out and i == _EACH_END:
            gap = f"… {left_out:,} others …"
            lines.append(
                f'<tr><td colspan="{len(row)}" style="{cell};text-align:center;opacity:.75">'
                f"{_escaped(gap)}</td></tr>"
            )
        lines.append(_row("td", cell, row, first if len(row) > 1 else cell))
    style = "border-collapse:collapse;margin:0;font-variant-numeric:tabular-nums"
    if sentences:
        style += ";max-width:38em"
    return f'<table style="{style}">{"".join(lines)}</table>'


def _row(tag: str, style: str, cells: Sequence[object], first: str | None = None) -> str:
    """A row of a table; its first cell may have a style of its own."""
    styles = [style if first is None else first, *[style] * (len(cells) - 1)]
    inner = "".join(
        f'<{tag} style="{each}">{_escaped(cell)}</{tag}>'
        for each, cell in zip(styles, cells, strict=True)
    )
    return f"<tr>{inner}</tr>"


# -- Pictures. They have no text inside, which would remain where a notebook removes the picture.


def _picture(marks: str, caption: str, height: float = _HEIGHT) -> str:
    words = _escaped(caption)
    return (
        f'<div style="max-width:{_WIDTH}px"><svg viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{words}" '
        f'fill="none" stroke="currentColor">{marks}</svg>'
        f'<div style="opacity:.75;font-size:.9em">{words}</div></div>'
    )


def _in_order(values: Floats, what: str) -> str:
    """All values in order, the highest first, as an area above and below zero."""
    found = np.sort(values[np.isfinite(values)])[::-1]
    if not len(found):
        return ""
    y = found[_evenly(len(found), _MOST_MARKS)]
    x = np.linspace(0, 1, len(y)) if len(y) > 1 else np.array([0.0, 1.0])
    y = y if len(y) > 1 else np.repeat(y, 2)
    up = _heights(np.append(y, 0.0))
    zero = up(np.zeros(1))[0]
    marks = ""
    for part, color in ((np.maximum(y, 0), GOOD), (np.minimum(y, 0), BAD)):
        if part.any():
            path = _path(_across(x), up(part))
            ends = f"L{_across(x)[-1]:.1f} {zero:.1f}L{_across(x)[0]:.1f} {zero:.1f}Z"
            marks += f'<path d="{path}{ends}" fill="{color}" fill-opacity=".55" stroke="none"/>'
    marks += f'<path d="{_path(_across(x), up(y))}" stroke-width="1.2"/>'
    marks += f'<path d="M0 {zero:.1f}H{_WIDTH}" stroke-dasharray="4 3" stroke-opacity=".7"/>'
    return _picture(marks, f"all {len(found):,} {what} in order, the highest first; dashed: zero")


def _lines(x: Floats, scores: Floats, random: Floats) -> str:
    """Scores in order of value as a line, and those in random order dashed."""
    if not len(x):
        return ""
    some = _evenly(len(x), _MOST_MARKS)
    x, scores, random = x[some], scores[some], random[some]
    up, across = _heights(np.r_[scores, random]), _across(_unit(x))
    marks = f'<path d="{_path(across, up(scores))}" stroke="{GOOD}" stroke-width="2.2"/>'
    if np.isfinite(random).all():
        marks += f'<path d="{_path(across, up(random))}" stroke-dasharray="4 3"/>'
        return _picture(marks, "score by share; dashed: mean of the random orders")
    return _picture(marks, "score by share")


def _scatter(x: Floats, y: Floats, caption: str) -> str:
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x):
        return ""
    both = np.r_[x, y]
    up, unit = _heights(both), _unit(both)
    across = _across(unit)[: len(x)]
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across, up(y), strict=True))
    ends = np.array([both.min(), both.max()])
    equal = _path(_across(np.array([0.0, 1.0])), up(ends))
    return _picture(
        f'<path d="{equal}" stroke-dasharray="4 3" stroke-opacity=".7"/>'
        f'<path d="{dots}" stroke="{GOOD}" stroke-width="4.5" stroke-linecap="round"/>',
        caption,
    )


def _histogram(k: NDArray[np.int64], m: int) -> str:
    """How often sets of each size were drawn."""
    if not len(k):
        return ""
    counts, edges = np.histogram(k, bins=min(m, 40), range=(0.5, m + 0.5))
    across = _across((edges - edges[0]) / (edges[-1] - edges[0]))
    heights = counts / counts.max() * (_HEIGHT - 6)
    bars = "".join(
        f"M{a + 0.4:.1f} {_HEIGHT - 2}V{_HEIGHT - 2 - h:.1f}H{b - 0.4:.1f}V{_HEIGHT - 2}Z"
        for a, b, h in zip(across[:-1], across[1:], heights, strict=True)
        if h > 0
    )
    return _picture(
        f'<path d="{bars}" fill="{GOOD}" fill-opacity=".7" stroke="none"/>'
        f'<path d="M0 {_HEIGHT - 1.5}H{_WIDTH}" stroke-opacity=".7"/>',
        f"how often each set size k was drawn, from 1 to {m:,}",
    )


def _gauge(match: Match) -> str:
    """The distance on a line, with the range that chance alone explains."""
    low, high = match.distance - 2 * match.stderr, match.distance + 2 * match.stderr
    places = np.array([0.0, match.noise_high, max(low, 0.0), match.distance, high])
    if not np.isfinite(places).all():
        return ""
    _, chance, a, at, b = _across(places / (1.1 * places.max() or 1.0)).tolist()
    zero, line, height = 4, 20, 40
    color = BAD if match.beyond_noise else GOOD
    return _picture(
        f'<path d="M{zero} {line - 16}H{chance:.1f}V{line + 16}H{zero}Z" fill="currentColor" '
        'fill-opacity=".18" stroke="none"/>'
        f'<path d="M{zero} {line}H{_WIDTH - 4}M{zero} {line - 16}V{line + 16}" '
        'stroke-opacity=".7"/>'
        f'<path d="M{a:.1f} {line}H{b:.1f}" stroke="{color}" stroke-width="3"/>'
        f'<path d="M{at:.1f} {line}h0" stroke="{color}" stroke-width="11" '
        'stroke-linecap="round"/>',
        "dot: the distance, from 0; grey: what chance alone shows in 19 of 20 cases",
        height,
    )


def _across(unit: Array) -> Floats:
    """Places from 0 to 1 as places in the picture, with a margin."""
    return 4 + np.asarray(unit, dtype=np.float64) * (_WIDTH - 8)


def _unit(values: Floats) -> Floats:
    """Values as shares of their range; the middle where all are equal."""
    # Halved first, so that the range of numbers near the largest float does not overflow.
    half = values / 2
    reach = half.max() - half.min()
    return (half - half.min()) / reach if reach > 0 else np.full(len(values), 0.5)


def _heights(known: Floats) -> Callable[[Floats], Floats]:
    """From values to places in the picture, with the largest known value on top."""
    half = known[np.isfinite(known)] / 2
    low, high = (float(half.min()), float(half.max())) if len(half) else (0.0, 0.0)
    reach = high - low or 1.0
    return lambda values: 4 + (1 - (values / 2 - low) / reach) * (_HEIGHT - 8)


def _path(x: Floats, y: Floats) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
