"""The commands of a sale: price, publish, match, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dshapley.cli.options as options
from dshapley.cli.console import check_top, console, for_people, notice, write_table
from dshapley.errors import MOST_M, InputError

__all__ = ["add_market"]


def add_market(app: typer.Typer) -> None:
    """Add the commands of a sale to a command line."""
    for command in (price, publish, match, check):
        app.command()(command)


def price(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    rate: Annotated[
        float | None, typer.Option(max=options.MOST_MONEY, help="Money for a value of 1.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(max=options.MOST_MONEY, help="Instead: what the whole list is to cost."),
    ] = None,
    floor: Annotated[
        float, typer.Option(max=options.MOST_MONEY, help="No price is below this.")
    ] = 0.0,
    no_floor: Annotated[
        bool, typer.Option("--no-floor", help="Negative values have negative prices.")
    ] = False,
    m: Annotated[
        list[int] | None,
        typer.Option(
            "--m", max=MOST_M, help="A data set size of buyers; may be repeated; else the run's."
        ),
    ] = None,
    split: Annotated[
        Path | None,
        typer.Option(help="For bundles: a run of their rows, to see what splitting changes."),
    ] = None,
    details: Annotated[
        list[str] | None,
        typer.Option(help="A column of the table to show on the list; may be repeated."),
    ] = None,
    source: options.SourceOption = None,
    out: Annotated[Path | None, typer.Option(help="The folder for the price list.")] = None,
    top: options.Top = 10,
) -> None:
    """Make a price list of a run: values, prices, totals, each with its interval."""
    with for_people():
        from dshapley.market.sales import priced
        from dshapley.market.sales import split as splitted
        from dshapley.reporting.text import print_prices, print_splitting

        check_top(top)
        prices = priced(
            folder, m=m or [], rate=rate, budget=budget, floor=None if no_floor else floor,
            details=details or [], source=source,
        )  # fmt: skip
        parted = None if split is None else splitted(folder, split, source=source)
        if out is not None:
            prices.save(out)
        print_prices(console(), prices, top=top)
        if parted is not None:
            print_splitting(console(), parted)
        if out is not None:
            print(f"prices.csv, prices.parquet and terms.json in {out}")
        else:
            notice("nothing was kept; add --out FOLDER to keep the list")


def publish(
    table: Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file.")],
    target: Annotated[
        str | None, typer.Option(help="The column to predict; else that of --like.")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="The other side's summary, to be comparable with it.")
    ] = None,
    drop: options.Drop = None,
    task: options.TaskName = "auto",
    projections: Annotated[int, typer.Option(max=10_000, help="How many random directions.")] = 100,
    label_cost: Annotated[
        float, typer.Option(max=1e6, help="How far apart two classes are.")
    ] = 1.0,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="The .json file for the summary.")] = None,
) -> None:
    """Summarise a table for the other side of a sale: no rows, only means of projections."""
    with for_people():
        from dshapley.data.tables import read_table
        from dshapley.market.coding import table_summary
        from dshapley.market.summaries import load_summary

        if out is None or out.suffix != ".json":
            raise InputError("name a .json file for the summary: --out FILE.json")
        found = table_summary(
            read_table(table),
            target=target,
            task=task,
            drop=drop or [],
            like=None if like is None else load_summary(like),
            n_projections=projections,
            seed=seed,
            label_cost=label_cost,
        )
        found.save(out)
        n_directions, n_parts = found.means.shape
        print(
            f"{out}: {found.rows} rows and {len(found.columns)} columns as {n_parts} means along "
            f"each of {n_directions} directions, medians, scales and names of columns and "
            "categories; no rows"
        )


def match(
    seller: Annotated[Path, typer.Argument(help="The seller's summary, a .json file.")],
    buyer: Annotated[Path, typer.Argument(help="The buyer's table, or its summary.")],
    target: Annotated[
        str | None, typer.Option(help="The column to predict; else the seller's.")
    ] = None,
    lipschitz: Annotated[
        float | None,
        typer.Option(max=1e100, help="L of beta(k) = L / k, U's Lipschitz stability."),
    ] = None,
    m: Annotated[
        int | None, typer.Option("--m", max=MOST_M, help="The buyer's data set size.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A price list: how far its prices may be off.")
    ] = None,
) -> None:
    """Say how far apart the buyer's and the seller's data are, from summaries."""
    with for_people():
        from dshapley.market.sales import matched

        found = matched(seller, buyer, target=target, lipschitz=lipschitz, m=m, prices=prices)
        for line in found.lines():
            print(line)


def check(
    prices: Annotated[Path, typer.Argument(help="The folder of a price list.")],
    buyer: Annotated[Path, typer.Argument(help="The buyer's own table.")],
    bought: Annotated[Path, typer.Argument(help="The rows bought.")],
    target: options.Target,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column of the rows bought that has the list's ids."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="For bundles: the column that has their ids.")
    ] = None,
    test: options.Test = None,
    test_size: Annotated[
        float, typer.Option(help="Without --test: the share of your rows set aside for it.")
    ] = 0.2,
    drop: options.Drop = None,
    model: Annotated[str | None, typer.Option(help="The buyer's model; else the list's.")] = None,
    metric: Annotated[str | None, typer.Option(help="How it is scored; else as the list.")] = None,
    m: Annotated[
        int | None, typer.Option("--m", help="A size of the list's; else the nearest to the rows.")
    ] = None,
    way: Annotated[
        str, typer.Option(help="permutations (TMC-Shapley), or subsets: the same values sooner.")
    ] = "permutations",
    draws: Annotated[
        int, typer.Option(max=options.MOST_DRAWS, help="How many permutations or subsets.")
    ] = 100,
    tolerance: Annotated[float, typer.Option(help="Where TMC-Shapley cuts a permutation.")] = 0.01,
    seed: options.Seed = 0,
    jobs: options.Jobs = -1,
    keep: Annotated[
        Path | None, typer.Option(help="A folder for your own draws, to resume later.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file for both sides' values.")
    ] = None,
) -> None:
    """Check a price list after a sale: your own values of what you bought, beside the list's.

    The exit code is 1 where the list's order or total is wrong beyond the error.
    """
    with for_people():
        from dshapley.market.sales import checked

        if out is not None and out.suffix not in (".csv", ".parquet"):
            raise InputError(f"--out {out}: name a .csv or .parquet file")
        if out is not None and not out.parent.is_dir():
            raise InputError(f"--out {out}: there is no folder {out.parent}")
        with options.workers("loky", None, jobs):
            found = checked(
                prices, buyer, bought, target=target, id_column=id_column, group_column=group,
                test=test, test_size=test_size, drop=drop or [], model=model, metric=metric, m=m,
                way=way, draws=draws, tolerance=tolerance, store=keep, seed=seed, notice=notice,
            )  # fmt: skip
        if out is not None:
            write_table(found.frame.reset_index(), out)
        for line in found.lines():
            print(line)
        if "fails" in (found.order, found.worth):
            raise typer.Exit(1)
