"""The market (section 4): a price list that buyers agree with who never show their data.

The seller makes a `price_list` of a valuation. Both sides publish a `summary` of their tables and
`match` says how far apart they are; after a sale `check` says whether the list was right.
`splitting` says whether bundles are worth as much as their parts. See docs/market.md.
"""

from __future__ import annotations

from dshapley.market.agreement import Check, check
from dshapley.market.matching import Match, match
from dshapley.market.price_list_file import PriceList, load_prices
from dshapley.market.pricing import price_list
from dshapley.market.splitting import Splitting, splitting
from dshapley.market.summaries import Summary, load_summary, summary

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
