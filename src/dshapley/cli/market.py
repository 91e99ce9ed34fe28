"""The commands of a sale: price, publish, match, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dshapley.cli.options as options
from dshapley.cli.console import check_top, console, for_people, notice, write_table
from dshapley.errors import MOST_M, InputError

__all__ = ["check", "match", "price", "publish"]


def price(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    rate: Annotated[
        float | None, typer.Option(max=options.MOST_MONEY, help="The price of a value of 1.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            max=options.MOST_MONEY, help="Instead of --rate: the price of the whole list."
        ),
    ] = None,
    floor: Annotated[
        float,
        typer.Option(max=options.MOST_MONEY, help="The lowest price; negative values cost this."),
    ] = 0.0,
    no_floor: Annotated[
        bool, typer.Option("--no-floor", help="Give negative values negative prices.")
    ] = False,
    m: Annotated[
        list[int] | None,
        typer.Option(
            "--m",
            max=MOST_M,
            help="A data set size of buyers; may be repeated.",
            show_default="the run's m",
        ),
    ] = None,
    split: Annotated[
        Path | None,
        typer.Option(help="For bundles: a run of their rows, to show what splitting changes."),
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
        from dshapley.market.from_files import price_list_of_run, splitting_of_runs
        from dshapley.reporting.market import print_prices, print_splitting

        check_top(top)
        prices = price_list_of_run(
            folder, m=m or [], rate=rate, budget=budget, floor=None if no_floor else floor,
            details=details or [], source=source,
        )  # fmt: skip
        splitting = None if split is None else splitting_of_runs(folder, split, source=source)
        if out is not None:
            prices.save(out)
        print_prices(console(), prices, top=top)
        if splitting is not None:
            print_splitting(console(), splitting)
        if out is not None:
            from dshapley.reporting.market_report import price_list_report
            from dshapley.reporting.page import write

            print(f"prices.csv, prices.parquet and terms.json are in {out}")
            print(f"report in {write(price_list_report(prices), out)}")
        else:
            notice("nothing was kept; add --out FOLDER to keep the list")


def publish(
    table: Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file.")],
    target: Annotated[
        str | None, typer.Option(help="The column to predict.", show_default="that of --like")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="The other side's summary, to make this one comparable.")
    ] = None,
    drop: options.Drop = None,
    task: options.TaskName = "auto",
    projections: Annotated[
        int, typer.Option(max=10_000, help="The number of random directions.")
    ] = 100,
    label_cost: Annotated[
        float, typer.Option(max=1e6, help="The distance between two classes, in column spreads.")
    ] = 1.0,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="The .json file for the summary.")] = None,
) -> None:
    """Summarise a table for the other side of a sale by means of projections, without its rows."""
    with for_people():
        from dshapley.data.tables import read_table
        from dshapley.market.summaries import table_summary
        from dshapley.market.summary_file import load_summary
        from dshapley.reporting.market import print_summary

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
        print_summary(console(), found, out)


def match(
    seller: Annotated[Path, typer.Argument(help="The seller's summary, a .json file.")],
    buyer: Annotated[Path, typer.Argument(help="The buyer's table, or its summary.")],
    target: Annotated[
        str | None, typer.Option(help="The column to predict.", show_default="the seller's")
    ] = None,
    lipschitz: Annotated[
        float | None,
        typer.Option(max=1e100, help="The L of U's Lipschitz stability, beta(k) = L / k."),
    ] = None,
    m: Annotated[
        int | None, typer.Option("--m", max=MOST_M, help="The buyer's data set size.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A price list, to show how far its prices may be off.")
    ] = None,
) -> None:
    """Compare the buyer's data with the seller's summary: how far apart are they?"""
    with for_people():
        from dshapley.market.from_files import match_of_files
        from dshapley.reporting.market import print_match

        found = match_of_files(
            seller, buyer, target=target, lipschitz=lipschitz, m=m, prices=prices
        )
        print_match(console(), found)


def check(
    prices: Annotated[Path, typer.Argument(help="The folder of a price list.")],
    buyer: Annotated[Path, typer.Argument(help="The buyer's own table.")],
    bought: Annotated[Path, typer.Argument(help="The rows bought.")],
    target: options.Target,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column in the rows bought that has the list's ids."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="For bundles: the column in the rows bought that has the list's ids."),
    ] = None,
    test: options.Test = None,
    test_size: Annotated[
        float,
        typer.Option(help="Without --test: the share of your rows to set aside as test rows."),
    ] = 0.2,
    drop: options.Drop = None,
    model: Annotated[
        str | None, typer.Option(help="Your model.", show_default="the list's")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Your metric.", show_default="the list's")
    ] = None,
    m: Annotated[
        int | None,
        typer.Option(
            "--m",
            help="Which of the list's data set sizes to compare with.",
            show_default="the nearest to the rows of both tables",
        ),
    ] = None,
    way: Annotated[
        str,
        typer.Option(
            help="permutations (TMC-Shapley), or subsets (the same values, mostly faster)."
        ),
    ] = "permutations",
    draws: Annotated[
        int, typer.Option(max=options.MOST_DRAWS, help="The number of permutations or subsets.")
    ] = 100,
    tolerance: Annotated[
        float,
        typer.Option(
            help="TMC-Shapley cuts a permutation this near to the score of all rows; 0: never."
        ),
    ] = 0.01,
    seed: options.Seed = 0,
    jobs: options.Jobs = -1,
    keep: Annotated[
        Path | None,
        typer.Option(help="A folder for your draws, from which the same command resumes."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file for the values of both sides.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="A folder for report.html, the result as a page.")
    ] = None,
    sensitive: Annotated[
        bool, typer.Option("--sensitive", help="Leave out ids and values in the report.")
    ] = False,
) -> None:
    """Check a price list after a sale: compare it with your own values of what you bought.

    The exit code is 1 if the list's order or total is wrong beyond the error.
    """
    with for_people():
        from dshapley.market.from_files import check_of_files
        from dshapley.reporting.market import print_check

        if out is not None and out.suffix not in (".csv", ".parquet"):
            raise InputError(f"--out {out}: name a .csv or .parquet file")
        if out is not None and not out.parent.is_dir():
            raise InputError(f"--out {out}: there is no folder {out.parent}")
        if report is not None and report.exists() and not report.is_dir():
            raise InputError(f"--report {report} is a file: name a folder")
        with options.workers("loky", None, jobs):
            found = check_of_files(
                prices, buyer, bought, target=target, id_column=id_column, group_column=group,
                test=test, test_size=test_size, drop=drop or [], model=model, metric=metric, m=m,
                way=way, draws=draws, tolerance=tolerance, store=keep, seed=seed, notice=notice,
            )  # fmt: skip
        if out is not None:
            write_table(found.frame.reset_index(), out)
        print_check(console(), found)
        if report is not None:
            from dshapley.reporting.market_report import check_report
            from dshapley.reporting.page import write

            report.mkdir(parents=True, exist_ok=True)
            print(f"report in {write(check_report(found, sensitive=sensitive), report)}")
        if "fails" in (found.order, found.worth):
            raise typer.Exit(1)
