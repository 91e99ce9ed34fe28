"""The functions of a sale on files, for the command line: run folders, tables, lists, summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dshapley.data.points import Bundles, Points
from dshapley.data.tables import prepare, read_table, task_of
from dshapley.errors import InputError, nearest, warn
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.learners.by_name import MODELS, model_from_name
from dshapley.market.buyer_check import Check, check
from dshapley.market.matching import Match, match
from dshapley.market.price_list_file import PriceList, load_prices
from dshapley.market.pricing import price_list
from dshapley.market.splitting import Splitting, splitting
from dshapley.market.summaries import table_summary
from dshapley.market.summary_file import load_summary
from dshapley.metrics.scorers import is_metric_name
from dshapley.potentials import potential
from dshapley.running.run import METHOD
from dshapley.running.run_folder import load_run
from dshapley.running.source_tables import run_tables

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_of_files", "match_of_files", "price_list_of_run", "splitting_of_runs"]


def price_list_of_run(
    folder: Path,
    *,
    m: Sequence[int],
    details: Sequence[str] = (),
    source: Path | None = None,
    **pricing: Any,
) -> PriceList:
    """The price list of a run of `dshapley value`, with columns of its table as details."""
    valuation = _valuation(folder)
    if valuation.about.context.share != 1:
        warn(f"{folder}: only the rows with measured values are priced, not those predicted")
    shown = _details(folder, valuation, details, source) if details else None
    return price_list(valuation, m=list(m) or None, details=shown, **pricing)


def _details(
    folder: Path, valuation: Valuation, columns: Sequence[str], source: Path | None
) -> pd.DataFrame:
    """Columns of the table of the priced rows, in the order of these rows."""
    tables = run_tables(folder, valuation.about, source=source)
    name_column = tables.asked.id
    if tables.asked.group is not None:
        raise InputError(
            f"--details: {folder} has bundles, and a bundle has many rows: leave out --details"
        )
    tables.valued()  # an error if the table has changed since the run
    table = read_table(tables.of_rows, text=[name_column])
    for name in columns:
        if list(columns).count(name) > 1:
            raise InputError(f"--details {name}: give each column once")
        if name not in table.columns:
            raise InputError(
                f"--details: the table has no column {name!r}; {nearest(name, table.columns)}"
            )
    names = table.index if name_column is None else table[name_column]
    by_name = table[list(columns)].set_axis(names.astype(str))
    ids = [str(name) for name in valuation.ids]
    if by_name.index[by_name.index.isin(ids)].has_duplicates:
        raise InputError(f"--details: some ids of {folder} belong to several rows of its table")
    return by_name.loc[ids]


def splitting_of_runs(folder: Path, rows: Path, *, source: Path | None = None) -> Splitting:
    """The values of bundles beside those of their rows, which were valued in another run.

    The table of the first run says which row is in which bundle.
    """
    whole, parts = _valuation(folder), _valuation(rows)
    tables = run_tables(folder, whole.about, source=source)
    if tables.asked.group is None:
        raise InputError(f"{folder} has no bundles: value them with --group COLUMN")
    ours, theirs = (v.about.identity for v in (whole, parts))
    for name, a, b in (
        ("database", ours.database, theirs.database),
        ("test", ours.potential.get("test"), theirs.potential.get("test")),
    ):
        if a != b:
            raise InputError(
                f"{rows} and {folder} have different {name} rows: make {rows} by the command of "
                f"{folder} without --group and with --drop {tables.asked.group}"
            )
    bundles = tables.valued()
    assert isinstance(bundles, Bundles)
    if not np.array_equal(bundles.points.ids.astype(str), parts.ids.astype(str)):
        raise InputError(f"{rows} does not have the values of the rows in {folder}'s bundles")
    return splitting(whole, parts, bundles.groups)


def _valuation(folder: Path) -> Valuation:
    draws = load_run(folder)
    method = draws.about.identity.method
    if method != METHOD:
        raise InputError(f"{folder} holds a run of {method}: prices need a run of {METHOD}")
    return estimate(draws)


def match_of_files(
    seller: Path,
    buyer: Path,
    *,
    target: str | None = None,
    lipschitz: float | None = None,
    m: int | None = None,
    prices: Path | None = None,
) -> Match:
    """The distance between a published summary and a table or another summary."""
    published = load_summary(seller)
    if buyer.suffix == ".json":
        other = load_summary(buyer)
    else:
        other = table_summary(read_table(buyer), target=target, like=published)
    if lipschitz is None and (m is not None or prices is not None):
        raise InputError(
            "--m and --prices need --lipschitz: without it nothing is known about the values"
        )
    if lipschitz is not None and not 0 < lipschitz < float("inf"):
        raise InputError(f"--lipschitz {lipschitz}: give a number above 0")
    beta: Callable[[int], float] | None = None
    if lipschitz is not None:
        top = lipschitz
        beta = lambda k: top / k  # noqa: E731
    listed = None if prices is None else load_prices(prices)
    return match(published, other, beta=beta, m=m, prices=listed)


def check_of_files(  # noqa: PLR0913 - it takes the options of a command
    prices: Path,
    buyer: Path,
    bought: Path,
    *,
    target: str,
    id_column: str | None,
    group_column: str | None = None,
    test: Path | None,
    test_size: float,
    drop: Sequence[str],
    model: str | None,
    metric: str | None,
    seed: int,
    notice: Callable[[str], object],
    **options: Any,
) -> Check:
    """The buyer's check of a price list, with the buyer's data from tables."""
    listed = load_prices(prices)
    terms = listed.terms
    if (id_column is None) == (group_column is None):
        raise InputError(
            "name the column with the list's ids: --id for rows or --group for bundles"
        )
    named_by = str(id_column or group_column)
    if terms.get("target") not in (None, target):
        raise InputError(f"the list's target is {terms['target']!r}, not {target!r}")
    own, new = (read_table(path, text=[named_by]) for path in (buyer, bought))
    task = task_of(own, target, asked=terms.get("task") or "auto")
    estimator = model_from_name(_model(terms, model), task)
    prepared = prepare(
        own,
        target=target,
        task=task,
        test=None if test is None else read_table(test),
        test_size=test_size,
        points=_named(new, named_by),
        id_column=id_column,
        group_column=group_column,
        drop=drop,
        seed=seed,
    )
    for text in prepared.notices:
        notice(text)
    chosen = metric if metric is not None else terms.get("metric")
    if not is_metric_name(chosen):
        raise InputError(
            f"the list's metric {chosen!r} is not known here: name yours with --metric"
        )
    assert prepared.test is not None
    U = potential(
        estimator,
        test=prepared.test,
        metric=chosen,
        min_rows=cast("int", terms["potential"].get("min_rows", 1)),
        preprocess=terms["potential"].get("preprocess", "each"),
        database=prepared.database,
    )
    sold: Points | Bundles = prepared.points
    if prepared.groups is not None:
        sold = Bundles(prepared.points, prepared.groups)
    return check(listed, prepared.database, sold, U=U, seed=seed, **options)


def _model(terms: Mapping[str, Any], asked: str | None) -> str:
    """The model's name. A list may only name models of dshapley: others would run code."""
    if asked is not None:
        return asked
    name = terms.get("model")
    if name != "auto" and name not in MODELS:
        raise InputError(
            f"the list's model {name!r} is not one of dshapley's: name yours with --model"
        )
    return str(name)


def _named(new: pd.DataFrame, column: str) -> pd.DataFrame:
    if column in new.columns and new[column].isna().any():
        row = int(np.flatnonzero(new[column].isna())[0])
        raise InputError(f"the id is missing in row {row} of the rows bought")
    return new
