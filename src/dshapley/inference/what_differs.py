"""What differs between runs: their model, metric, size, seed, rows and draws, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dshapley.inference.valuation import Valuation

__all__ = ["Difference", "what_differs"]

_NOT_SET = "not set"
_LEFT_OUT = {"path", "estimator", "metric", "metric.score", "test", "empty", "preprocess.fitted"}
"""Parts of a potential's description that have a line of their own, or that follow from others."""
_OF_MODEL = "estimator."


class Difference(NamedTuple):
    """One thing that differs, as each run has it."""

    what: str
    values: tuple[str, ...]


def what_differs(valuations: Sequence[Valuation]) -> tuple[Difference, ...]:
    """What differs between the runs behind these values, as far as their records tell.

    Parameters of a model are compared between runs of one class of model only.
    """
    found = [_line(name, read, valuations) for name, read in _LINES.items()]
    models = {_model(valuation) for valuation in valuations}
    described = [valuation.about.identity.potential for valuation in valuations]
    for name in dict.fromkeys(name for part in described for name in part):
        if name in _LEFT_OUT or (len(models) > 1 and name.startswith(_OF_MODEL)):
            continue
        shown = name.removeprefix(_OF_MODEL).replace("_", " ")
        found.append(Difference(shown, tuple(str(part.get(name, _NOT_SET)) for part in described)))
    return tuple(part for part in found if len(set(part.values)) > 1)


def _line(
    what: str, read: Callable[[Valuation], str | Told], valuations: Sequence[Valuation]
) -> Difference:
    told = [read(valuation) for valuation in valuations]
    texts = [part if isinstance(part, str) else part.text for part in told]
    keys = [part if isinstance(part, str) else part.digest for part in told]
    if len(set(keys)) > len(set(texts)):  # words alone would not tell them apart
        texts = [f"{text} ({key[:6]})" for text, key in zip(texts, keys, strict=True)]
    return Difference(what, tuple(texts))


class Told(NamedTuple):
    """Rows in words, and their digest, which is shown where the words are the same."""

    text: str
    digest: str


def _model(valuation: Valuation) -> str:
    name = valuation.about.identity.potential.get("estimator")
    return name.rpartition(".")[2] if isinstance(name, str) else _NOT_SET


def _database(valuation: Valuation) -> str | Told:
    digest = valuation.about.identity.database
    if digest is None:
        return _NOT_SET
    source = valuation.about.context.source
    rows = _n_rows(digest)
    return Told(rows if source is None else f"{rows} of {Path(source.table).name}", digest)


def _n_rows(digest: str) -> str:
    """The number of rows, which ends a digest such as "a9df41c2 (500 rows)"."""
    return digest.partition("(")[2].removesuffix(")") or "rows"


def _test(valuation: Valuation) -> str | Told:
    """The test rows: where they are from."""
    found: Any = valuation.about.identity.potential.get("test")
    if not isinstance(found, str):
        return _NOT_SET
    source, seed = valuation.about.context.source, valuation.about.identity.seed
    folds, of_folds, rest = found.partition(" folds ")
    if of_folds:
        return Told(f"each of {folds} parts of the table in turn, dealt by seed {seed}", rest)
    rows = _n_rows(found)
    if source is not None and source.test_table is not None:
        return Told(f"{rows} of {Path(source.test_table).name}", found)
    if source is not None and source.test_size is not None:
        return Told(f"{rows} of the table, set aside by seed {seed}", found)
    return Told(rows, found)


_LINES: dict[str, Callable[[Valuation], str | Told]] = {
    "method": lambda v: v.about.identity.method,
    "model": _model,
    "metric": lambda v: v.about.identity.metric or "U",
    "m": lambda v: f"{v.m:,}",
    "seed": lambda v: str(v.about.identity.seed) if v.draws is not None else _NOT_SET,
    "test rows": _test,
    "database": _database,
    "size weights": lambda v: str(v.about.context.weights or v.about.identity.weights or _NOT_SET),
    "draws": lambda v: f"{v.n_draws:,}",
}
