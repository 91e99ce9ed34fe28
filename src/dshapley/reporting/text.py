"""Valuations, predictions, plans and claims as text, with only the digits that errors allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dshapley.formatting import duration, number
from dshapley.inference.interpolation import Interpolation, Prediction
from dshapley.inference.sampled import SampledValuation, estimate
from dshapley.inference.valuation import Valuation
from dshapley.reporting.findings import by_class, cautions, model_sentences, sentences
from dshapley.running.planning import Plan
from dshapley.sampling.draws import Draws

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from dshapley.experiments import Experiment
    from dshapley.experiments.shared.work import Claim

__all__ = [
    "cut",
    "print_claims",
    "print_in_short",
    "print_plans",
    "print_prediction",
    "print_valuation",
    "rounded",
]

_CONFIDENCE = 0.95
_LONGEST_CELL = 100


def print_claims(
    console: Console, name: str, experiment: Experiment, claims: Sequence[Claim]
) -> None:
    """What the paper says, and each of its claims as an inequality with its interval."""
    from rich.table import Table

    console.print(f"{name}: {experiment.TITLE}\nThe paper: {experiment.PAPER}", highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading, side in (("claim", "left"), ("by", "right"), ("95 % interval", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    table.add_column("")
    for claim in claims:
        by, *ends = rounded(claim)
        table.add_row(claim.text, by, " to ".join(ends), claim.verdict)
    console.print(table, highlight=False)
    verdicts = [claim.verdict for claim in claims]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("holds", "not shown", "fails"))
    console.print(f"{name}: {counts}", highlight=False)


def rounded(claim: Claim) -> list[str]:
    """By how much a claim holds and the ends of its interval, with the digits that it allows."""
    parts = (claim.by, claim.low, claim.high)
    known = [end for end in parts if math.isfinite(end)]
    error = (max(known) - min(known)) / 4 if known else math.nan
    return [number(end, error)[0] if math.isfinite(end) else "..." for end in parts]


def print_valuation(
    console: Console, valuation: Valuation, *, top: int, details: pd.DataFrame | None = None
) -> None:
    """The most and least valuable points, and what the values of all points show.

    `details` has columns to show beside each id, with one row for each point.
    """
    order = np.argsort(-valuation.values, kind="stable")
    n = len(order)
    if n <= 2 * top:
        console.print(_table("Points by value", valuation, order, details))
    else:
        console.print(_table(f"The {top} most valuable", valuation, order[:top], details))
        console.print(_table(f"The {top} least valuable", valuation, order[-top:], details))
    classes = _class_table(valuation)
    if classes is not None:
        console.print(classes)
    for line in _summary(valuation):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_in_short(console: Console, metric: str, valuation: Valuation) -> None:
    """The best and the worst rows by a further metric of a run, and how sure their order is."""
    order = np.argsort(-valuation.values, kind="stable")
    error = float(np.mean(valuation.stderr))

    def named(places: np.ndarray) -> str:
        return ", ".join(
            f"{cut(str(valuation.ids[i]))} ({number(float(valuation.values[i]), error)[0]})"
            for i in places
        )

    lines = [f"worth most {named(order[:_IDS])}"]
    if len(order) > _IDS:
        lines.append(f"worth least {named(order[::-1][:_IDS])}")
    lines += [f"standard errors about {number(error, error)[0]}"]
    if np.isfinite(valuation.reliability):
        lines.append(f"reliability {valuation.reliability:.2f}")
    text = f"by {metric}: {'; '.join(lines)}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _table(
    title: str, valuation: Valuation, order: np.ndarray, details: pd.DataFrame | None
) -> Table:
    from rich.table import Table
    from rich.text import Text

    bundles = bool((valuation.rows != 1).any())
    table = Table(title=title, title_justify="left")
    # Numbers are never cut: on a narrow terminal the details beside them wrap.
    for name in ["id", "value", "stderr", *(["rows", "value per row"] if bundles else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for column in [] if details is None else details.columns:
        table.add_column(Text(str(column)), overflow="fold")
    for i in order:
        value, stderr = float(valuation.values[i]), float(valuation.stderr[i])
        cells = [cut(str(valuation.ids[i])), *number(value, stderr)]
        if bundles:
            size = int(valuation.rows[i])
            per_row, _ = number(value / size, stderr / size)
            cells += [str(size), per_row]
        if details is not None:
            # Cells are read by column, since a row would turn its whole numbers into floats.
            cells += [cut(str(details[name].iloc[i])) for name in details.columns]
        table.add_row(*map(Text, cells))  # Text, so that "[b]" in a cell is not read as markup
    return table


def cut(text: str) -> str:
    """The text of a cell, cut if it is long: the cells of a table may be whole documents."""
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}..."


def _class_table(valuation: Valuation) -> Table | None:
    """Each class by itself, since rows of a rare class are worth more whatever they are like."""
    from rich.table import Table
    from rich.text import Text

    parts = by_class(valuation)
    if not parts:
        return None
    table = Table(title="Within each class", title_justify="left")
    below = f"below zero ({_CONFIDENCE:.0%})"
    for name in ("class", "rows", "mean value", below, "best", "worst"):
        table.add_column(name, justify="left" if name in ("best", "worst") else "right")
    error = float(np.mean(valuation.stderr))
    for part in parts:
        ids = [
            ", ".join(str(valuation.ids[i]) for i in places[:_IDS])
            for places in (part.best, part.worst)
        ]
        mean = number(part.mean, error)[0]
        share = "?" if part.below is None else f"{part.below:,} ({part.below / part.rows:.0%})"
        cells = (cut(str(part.label)), f"{part.rows:,}", mean, share, *map(cut, ids))
        table.add_row(*map(Text, cells))
    return table


_IDS = 3
"""How many of the best and of the worst rows of a class are named."""


def _summary(valuation: Valuation) -> list[str]:
    lines = [
        *sentences(valuation),
        *_below_zero(valuation),
        *_gains(valuation),
    ]
    return [
        *lines,
        *model_sentences(valuation),
        *(f"warning: {caution.text}" for caution in cautions(valuation)),
    ]


_WORTH_SAYING = 0.01
"""The least share of the variance for which control variates are mentioned."""


def _below_zero(valuation: Valuation) -> list[str]:
    if valuation.unseen:
        return ["It is not known yet which values are below zero and which rows are best."]
    below = valuation.below_zero(_CONFIDENCE)
    return [
        f"{len(valuation):,} value{'s' if len(valuation) > 1 else ''}; {below.sum():,} of them "
        f"({below.mean():.1%}) {'is' if below.sum() == 1 else 'are'} below zero "
        f"with {_CONFIDENCE:.0%} confidence, each on its own."
    ]


def _gains(valuation: Valuation) -> list[str]:
    """What control variates have saved, and how good predicted values are."""
    lines = []
    measured = valuation.measured
    terms = measured.terms if isinstance(measured, SampledValuation) else None
    if terms is not None and terms.controlled and valuation.m == terms.draws.m:
        draws = terms.draws
        with_it, without = (
            estimate(draws, control_variates=on).of_draws.stderr for on in (None, False)
        )
        if (before := float((without**2).mean())) > 0:
            saved = 1 - float((with_it**2).mean()) / before
            if saved >= _WORTH_SAYING:
                lines.append(f"Control variates removed {saved:.0%} of the variance.")
    n = int(valuation.predicted.sum())
    if n:
        lines.append(f"{n:,} of {len(valuation):,} values are predictions.")
        lines += _quality(valuation.interpolation)
    return lines


def _quality(interpolation: Interpolation) -> list[str]:
    without = f" (about {interpolation.r2_true:.2f} without the noise in their values)"
    return [
        f"Predictions are by {interpolation.name} from {interpolation.n_points:,} measured rows. "
        "For "
        f"held-out rows, R2 is {interpolation.r2:.2f}"
        f"{without if math.isfinite(interpolation.r2_true) else ''} and the rank correlation is "
        f"{interpolation.rank_correlation:.2f}."
    ]


def print_prediction(
    console: Console, prediction: Prediction, interpolation: Interpolation, *, top: int
) -> None:
    """The highest and lowest predicted values, and how good the predictions are."""
    from rich.table import Table

    order = np.argsort(-prediction.values, kind="stable")
    low, high = prediction.interval(_CONFIDENCE)
    shown = order if len(order) <= 2 * top else np.r_[order[:top], order[-top:]]
    table = Table(title="Predicted values, the highest and the lowest", title_justify="left")
    for name in ("id", "value", "stderr", f"{_CONFIDENCE:.0%} interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for i in shown:
        error = float(prediction.stderr[i])
        ends = "?"
        if math.isfinite(error):
            ends = " to ".join(number(float(end), error)[0] for end in (low[i], high[i]))
        table.add_row(str(prediction.ids[i]), *number(float(prediction.values[i]), error), ends)
    console.print(table)
    for line in _quality(interpolation):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_plans(console: Console, plans: Sequence[Plan], draws: Draws, *, n_workers: int) -> None:
    """One line for what each precision takes, as planned from these draws."""
    workers = f"{n_workers} worker{'s' if n_workers != 1 else ''}"
    lines = [
        f"for ±{plan.within:.3g} on every value ({plan.confidence:.0%} confidence, all at once) "
        "you "
        f"need about {_about(plan.draws)} draws"
        f"{', which are already made' if plan.draws <= len(draws) else ''}: about "
        f"{duration(plan.seconds / n_workers)} in all with {workers}"
        for plan in plans
    ]
    lines.append(f"planned from {len(draws)} draws: more draws make the plan more accurate")
    if draws.folds is not None:
        lines.append(
            "This is the error of the draws. Without --test, different test rows would also change "
            "the values, whatever the number of draws; dshapley value says by how much."
        )
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _about(n: int) -> str:
    """A whole number, rounded to two digits.

    >>> _about(1234), _about(87)
    ('1,200', '87')
    """
    return f"{int(float(f'{n:.1e}')):,}"
