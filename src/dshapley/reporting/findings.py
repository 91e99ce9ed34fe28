"""Sentences about a valuation, with the numbers of this run, and warnings of misreadings."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from dshapley.data.points import Array, Bundles
from dshapley.data.targets import are_classes
from dshapley.formatting import duration, number
from dshapley.inference.database_error import DatabaseError
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation
from dshapley.sampling.draws import Draws

__all__ = [
    "ByClass",
    "Caution",
    "by_class",
    "cautions",
    "class_labels",
    "database_sentence",
    "model_sentences",
    "more_time",
    "percentage_points",
    "sentences",
]

CONFIDENCE = 0.95
_SETTLED, _OPEN = 0.95, 0.8
"""The reliability from which the order counts as settled, and below which it counts as open."""
_MORE = 0.98
"""The reliability that more time is suggested for if the order is settled."""
_MOST_SHOWN = 20
"""The most classes that a table by class has room for."""
_SKEWED = 0.3
"""A warning says so if the shares below zero of two classes differ by more than this."""
_HARDLY = 0.02
"""A smaller gain in a bounded metric counts as hardly any."""
_SHARES = {"accuracy", "balanced_accuracy"}
_BOUNDED = {"accuracy", "balanced_accuracy", "f1", "roc_auc", "average_precision", "r2"}


class ByClass:
    """One class: how many rows it has, how many are surely below zero, its best and worst rows."""

    def __init__(self, label: object, valuation: Valuation, where: Array) -> None:
        order = where[np.argsort(-valuation.values[where], kind="stable")]
        self.label, self.rows = label, len(where)
        self.mean = float(valuation.values[where].mean())
        below = valuation.below_zero(CONFIDENCE)[where]
        self.below = None if valuation.unseen else int(below.sum())
        self.best, self.worst = order, order[::-1]


def class_labels(valuation: Valuation) -> Array | None:
    """The class of each point; None for bundles and for labels that are numbers or not known."""
    points = valuation.points
    if points is None or isinstance(points, Bundles) or points.y is None:
        return None
    return points.y if are_classes(points.y) and len(np.unique(points.y)) <= _MOST_SHOWN else None


def by_class(valuation: Valuation) -> list[ByClass]:
    """Each class by itself; empty if there are fewer than two."""
    y = class_labels(valuation)
    if y is None or len(np.unique(y)) < 2:
        return []
    return [ByClass(label, valuation, np.flatnonzero(y == label)) for label in np.unique(y)]


def sentences(valuation: Valuation) -> list[str]:
    """What the values mean, how sure they are, and what more time would give."""
    return [_meaning(valuation), *_how_sure(valuation)]


def _meaning(valuation: Valuation) -> str:
    metric = valuation.about.identity.metric or "U"
    i = int(np.argmax(valuation.values))
    value, error = float(valuation.values[i]), 2 * float(valuation.stderr[i])
    shown, reach = number(value, error)
    points = percentage_points(metric, value)
    bundle = bool((valuation.rows != 1).any())
    what = "bundle" if bundle else "row"
    sets = f"0 to {valuation.m - 1} rows drawn at random from the database, averaged over these"
    sets = f"{sets} set sizes" if valuation.m > 1 else "an empty set"
    name = " ".join(str(valuation.ids[i]).split())
    plus = f" ± {reach}" if math.isfinite(error) else ""
    return (
        f"A value is the change of {metric} when the {what} is added to {sets}: "
        f"for {what} {name} it is {shown}{plus}{points}. It is what the {what} adds to data sets "
        f"of up to m = {valuation.m} rows. It is not advice to delete the {what}s of low value: a "
        "model trained without them can be worse."
    )


def percentage_points(metric: str, value: float) -> str:
    """A change of a metric that is a share, in brackets; nothing for other metrics.

    >>> percentage_points("accuracy", 0.0021), percentage_points("roc_auc", 0.0021)
    (' (0.21 percentage points)', '')
    """
    return f" ({100 * value:.2g} percentage points)" if metric in _SHARES else ""


def _how_sure(valuation: Valuation) -> list[str]:
    n = valuation.n_draws
    draws = f"{n:,} draw{'s' if n != 1 else ''}"
    if valuation.unseen:
        return [f"From {draws}. The errors are not yet known: {valuation.what_is_unseen}."]
    worst = float(np.max(valuation.stderr))
    if not math.isfinite(worst):
        return [f"From {draws}, which are too few to know the errors."]
    r = valuation.reliability if len(valuation) > 1 else math.nan
    if not math.isfinite(r):
        return [f"From {draws}; the largest standard error is {worst:.2g}."]
    line = (
        f"From {draws}: reliability {r:.2f} (the share of the variance between values that is not "
        f"noise); the largest standard error is {worst:.2g}."
    )
    return [line, *_test_rows(valuation), *more_time(valuation)]


def _test_rows(valuation: Valuation) -> list[str]:
    """Whether the errors include the sampling error of the test rows."""
    record = valuation.draws
    if record is None:
        return []
    if record.folds is None:
        if "test" not in record.about.identity.potential:
            return []
        return [_own_test_rows(valuation, record)]
    line = (
        f"Each row is tested only on rows of the other {record.folds.n - 1} of {record.folds.n} "
        "parts of the table"
    )
    alone = valuation.of_draws
    if valuation.widened == 1.0 or not math.isfinite(valuation.widened * alone.reliability):
        return [f"{line}."]
    return [
        f"{line}. The errors include how much the values differ between the parts, and are "
        f"{valuation.widened:.1f} times those of the draws alone. More rows lower that part of the "
        "errors; more draws do not."
    ]


def _own_test_rows(valuation: Valuation, record: Draws) -> str:
    """Whether the errors of a run with test rows of its own include those of the test rows."""
    if valuation.widened > 1 and math.isfinite(valuation.widened):
        return (
            "The errors include the choice of the test rows, and are "
            f"{valuation.widened:.1f} times those of the draws alone. More test rows lower that "
            "part of the errors; more draws do not."
        )
    if record.test_influence is None:
        return (
            "The errors hold for these test rows. With different test rows the values would differ "
            "by more."
        )
    return (
        "The errors hold for these test rows. How much the values would differ with different test "
        "rows is not known, because the first draws have too few sets of some sizes."
    )


def database_sentence(error: DatabaseError) -> str:
    """How much the values would differ with another database, and what that compares with."""
    start = (
        f"With another {error.rows:,} rows from the same source as the database, the values would "
        "differ by"
    )
    beside = f"The standard error of the draws is {error.of_draws:.2g}."
    if error.known:
        return (
            f"{start} {error.typical:.2g} (standard deviation, root mean square over the rows). "
            f"{beside}"
        )
    needed = error.draws_needed
    more = "" if needed is None else f" About {needed:,} draws in all would tell how much."
    return f"{start} at most {error.most:.2g} (95% confidence). {beside}{more}"


def more_time(valuation: Valuation) -> list[str]:
    """What more draws would give, and how long they take."""
    record, sure = valuation.draws, valuation.surely_reliable
    wanted = _SETTLED if sure < _SETTLED else _MORE
    needed = valuation.draws_for(wanted)
    if sure >= _MORE or record is None or record.seconds is None:
        return []
    if needed is None:
        most = valuation.most_reliable
        if not most < wanted:
            return []
        return [
            f"More draws alone would raise the reliability to {most:.2f} at most. "
            f"{_more_rows(valuation).capitalize()} would raise it further."
        ]
    if needed <= valuation.n_draws:
        return []
    seconds = float(np.median(record.seconds)) * (needed - valuation.n_draws)
    return [
        f"To be sure of a reliability of {wanted:.2f} you need about {needed:,} draws in all, "
        "which "
        f"take about {duration(seconds)} more on one core."
    ]


def model_sentences(valuation: Valuation) -> list[str]:
    """Which model was trained, and its score with no data and with m rows."""
    identity = valuation.about.identity
    metric, empty, lines = identity.metric, identity.empty, []
    estimator = identity.potential.get("estimator")
    if isinstance(estimator, str) and "path" in identity.potential:
        how = "retrained with and without each row"
        if identity.potential["path"] == "fast":
            how = "computed with and without each row without retraining"
        lines.append(f"Model: {estimator.rpartition('.')[2]}, {how}.")
    if metric is None or empty is None:
        return lines
    line = f"A model trained on nothing has {metric} {empty:.4g}"
    gain = _gain(valuation)
    if gain is None:
        return [*lines, f"{line}."]
    shown, reach = number(empty + gain[0], gain[1])
    return [
        *lines,
        f"{line}, one trained on {valuation.m:,} random rows has {shown} ± {reach} (two standard "
        "errors).",
    ]


def _gain(valuation: Valuation) -> tuple[float, float] | None:
    """What m random rows add to U(empty), and twice its standard error; None if not known.

    It is m times the mean value of the database's rows.
    """
    identity = valuation.about.identity
    if valuation.predicted.any() or valuation.unseen or (valuation.rows != 1).any():
        return None
    if identity.database is None or identity.database != identity.points:
        return None
    error = 2 * valuation.m * _error_of_mean(valuation)
    return (float(valuation.values.mean()) * valuation.m, error) if math.isfinite(error) else None


class Caution(NamedTuple):
    """A warning of what a person could misread."""

    about: Literal["order", "classes", "metric"]
    text: str


def cautions(valuation: Valuation) -> list[Caution]:
    """Warnings of what a person could misread."""
    return [
        *(Caution("order", text) for text in _open_order(valuation)),
        *(Caution("classes", text) for text in _skewed(valuation)),
        *(Caution("metric", text) for text in _hardly_moves(valuation)),
    ]


def _error_of_mean(valuation: Valuation) -> float:
    """The standard error of the mean value, or its upper bound if correlations are not known."""
    if not isinstance(valuation, SampledValuation):
        return float(valuation.stderr.mean())
    return valuation.error_of_sum()[0] / len(valuation)


def _open_order(valuation: Valuation) -> list[str]:
    r = valuation.reliability
    if len(valuation) < 2 or not r < _OPEN:
        return []
    return [
        f"the errors leave the order open: {1 - r:.0%} of the differences between values is noise, "
        f"so the best and worst rows shown may be neither; {_remedy(valuation)} before you use the "
        "order"
    ]


def _remedy(valuation: Valuation) -> str:
    """What would lower the errors."""
    if valuation.widened > 1 and valuation.of_draws.reliability >= _OPEN:
        return f"bring {_more_rows(valuation)}"
    return "make more draws"


def _more_rows(valuation: Valuation) -> str:
    """The rows that would lower the part of the errors that draws do not lower."""
    if valuation.draws is not None and valuation.draws.folds is None:
        return "more test rows"
    return "more rows in the table, or a test table with more rows than this one (--test),"


def _skewed(valuation: Valuation) -> list[str]:
    parts = [part for part in by_class(valuation) if part.rows >= 10]
    shares = {part.below / part.rows: part for part in parts if part.below is not None}
    if len(shares) < 2:
        return []
    low, high = min(shares), max(shares)
    if high - low <= _SKEWED:
        return []
    most, fewest = shares[high], shares[low]
    return [
        f"the rows below zero are mostly of one class: {high:.0%} of the rows of {most.label!s}, "
        f"{low:.0%} of {fewest.label!s}. Much of this is a difference between the classes: "
        "compare rows within their class"
    ]


def _hardly_moves(valuation: Valuation) -> list[str]:
    """A warning if data hardly changes the metric, or lowers it."""
    metric, found = valuation.about.identity.metric, _gain(valuation)
    if metric not in _BOUNDED or found is None:
        return []
    gain, error = found
    if gain + error < 0:
        return [
            f"data makes this model worse: trained on {valuation.m} rows its {metric} is lower by "
            f"{-gain:.2g} (± {error:.1g}) than that of a model trained on nothing. Look at the "
            "columns (ids among them?), the scaling, or another model before you use the values"
        ]
    if not abs(gain) + error < _HARDLY:
        return []
    return [
        f"{metric} hardly moves: models trained on {valuation.m} rows score only {gain:+.2g} "
        f"(± {error:.1g}) relative to a model trained on nothing, so the values say little: try "
        "another metric, such as log_score or roc_auc"
    ]
