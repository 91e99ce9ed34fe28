"""Pictures of results (extra `plots`): each takes a result and an optional `ax`, returns the Axes.

None of them calls `show`; in a notebook the picture appears by itself.

- `values`: `extremes` (best and worst with intervals), `distribution`, `against` (a column).
- `comparison`: `compared`, two runs of a comparison.
- `runs`: `by_size` (other data set sizes), `convergence` (errors and reliability by draws).
- `curves`: `curve`, a removal or an addition curve.
- `market`: `prices`, `seller_and_buyer`.
- `figure`: axes, colours and names that all of them share.
"""

from dshapley.plots.comparison import compared
from dshapley.plots.curves import curve
from dshapley.plots.market import prices, seller_and_buyer
from dshapley.plots.runs import by_size, convergence
from dshapley.plots.values import against, distribution, extremes

__all__ = [
    "against",
    "by_size",
    "compared",
    "convergence",
    "curve",
    "distribution",
    "extremes",
    "prices",
    "seller_and_buyer",
]
