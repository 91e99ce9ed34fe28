"""The market (section 4): prices that buyers can rely on without the seller seeing their data.

The seller makes a `price_list` from a valuation. Before a sale, both sides publish a `summary` of
their tables, and `match` gives the distance between the tables. After a sale, `check` tells the
buyer whether the list was right. `splitting` tells whether bundles are worth as much as their
parts. docs/market.md walks through a sale. The files:

    pricing            `price_list`: the price of each point, at a rate or for a budget
    price_list_file    `PriceList`, and the folder that it is saved in
    summaries          `summary` of points, and the same for a table with text columns
    summary_file       `Summary`, and the JSON file that it is saved in
    matching           `match`: the distance between two summaries
    buyer_check        `check`: the list's values beside the buyer's own
    check_errors       the errors behind a check, and how many test rows it needs
    comparison         statistics of two sides' sums: their errors, percentage error
    splitting          `splitting`: bundles beside their parts
    from_files         the same functions on run folders and tables, for the command line
"""

from __future__ import annotations

from dshapley.market.buyer_check import Check, check
from dshapley.market.matching import Match, match
from dshapley.market.price_list_file import PriceList, load_prices
from dshapley.market.pricing import price_list
from dshapley.market.splitting import Splitting, splitting
from dshapley.market.summaries import summary
from dshapley.market.summary_file import Summary, load_summary

__all__ = [
    "Check",
    "Match",
    "PriceList",
    "Splitting",
    "Summary",
    "check",
    "load_prices",
    "load_summary",
    "match",
    "price_list",
    "splitting",
    "summary",
]
