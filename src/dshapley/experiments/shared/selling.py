"""A sale: a seller's values, and buyers whose data the seller never sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dshapley import market
from dshapley.baselines.curves import addition
from dshapley.data.datasets import Dataset, load
from dshapley.data.points import Points
from dshapley.experiments.shared.work import Rows, Work
from dshapley.inference.sampled import estimate
from dshapley.learners.by_name import model_from_name
from dshapley.market.buyer_check import Way
from dshapley.potentials import ModelPotential, potential
from dshapley.running.run import run as run_draws
from dshapley.sampling.design import Design

__all__ = ["BUYER", "RANDOM", "SELLER", "Sale", "bought", "estimator"]

SELLER, BUYER, RANDOM = "seller's values", "buyer's own", "random"


@dataclass(frozen=True)
class Sale:
    """A table and a model, the seller and the buyers, and how precisely they value points."""

    data: str
    model: str
    m: int
    """The number of rows of each buyer, and of rows on offer."""
    _: KW_ONLY
    buyers: int
    draws: int
    """The draws of the seller's values."""
    permutations: int
    """The permutations, or subsets, of each buyer's values."""
    way: Way = "permutations"
    """How buyers compute their values: see `dshapley.market.check`."""
    n_database: int = 20_000
    n_test: int = 1_000
    n_heldout: int = 3_000
    repeats: int = 10
    """The number of random orders of addition for each buyer."""
    fractions: tuple[float, ...] = tuple(np.linspace(0, 1, 11).round(2).tolist())

    @cached_property
    def dataset(self) -> Dataset:
        """The rows of all parties, the public test set, and held-out rows to judge values on."""
        sizes = {name: getattr(self, name) for name in ("n_database", "n_test", "n_heldout")}
        return load(self.data, **sizes, encode="one-hot" if self.model == "logistic" else "codes")

    def buyer(self, i: int) -> Points:
        """The rows B of buyer i, which neither the seller nor another buyer has."""
        return self.dataset.database.take(slice(i * self.m, (i + 1) * self.m))

    @cached_property
    def seller(self) -> Points:
        """The seller's database."""
        return self.dataset.database.take(slice(self.buyers * self.m, None))

    @property
    def S(self) -> Points:
        """The rows on offer: the first of the seller's rows, which are in random order."""
        return self.seller.take(slice(0, self.m))

    def U(self, test: Points) -> ModelPotential:
        """Accuracy on these test rows."""
        return potential(estimator(self.model), test=test)

    def prices(self, work: Work) -> market.PriceList:
        """The seller's values for data sets of m rows, and of 2 m, which a buyer then has."""
        work.say(f"{self.data}, m = {self.m}: the seller's values")
        # Control variates lower the error of the sum of all values, which counts here.
        design = Design(self.seller, 2 * self.m, weights="auto", seed=0)
        store = work.runs("figure3 seller", repr(self))
        U = self.U(self.dataset.test)
        draws = run_draws(U, design, self.S, stop=self.draws, store=store, n_jobs=work.n_jobs)
        return market.price_list(estimate(draws), rate=1.0, floor=None, m=[self.m, 2 * self.m])


def estimator(model: str) -> Any:
    """The model, which is small to make thousands of permutations affordable."""
    from sklearn import ensemble

    if model == "random forest":
        return ensemble.RandomForestClassifier(n_estimators=10, random_state=0)
    if model == "AdaBoost":
        return ensemble.AdaBoostClassifier(n_estimators=10, random_state=0)
    if model == "gradient boosting":
        # Each stage has a tree for every class, so there are few stages with a high learning rate.
        return ensemble.GradientBoostingClassifier(
            n_estimators=5, learning_rate=0.5, max_depth=2, random_state=0
        )
    return model_from_name(model, "classification")


def bought(sale: Sale, listed: Callable[[], market.PriceList], i: int, work: Work) -> Rows:
    """The agreement of buyer i with the seller's values, and accuracy as points are added."""
    import pandas as pd

    prices, B, S = listed(), sale.buyer(i), sale.S
    work.say(f"{sale.data}, m = {sale.m}: buyer {i + 1} of {sale.buyers}")
    U = sale.U(sale.dataset.test)
    found = market.check(
        prices, B, S, U=U, m=sale.m, way=sale.way, draws=sale.permutations, seed=i,
        store=work.runs("figure3 buyer", i, repr(sale)), n_jobs=work.n_jobs,
    )  # fmt: skip
    totals = prices.totals
    agreement = {
        "rank_correlation": found.rank_correlation[0],
        "ceiling": found.ceiling,
        "total": totals.value[sale.m],
        "total_error": totals.stderr[sale.m],
        "total_of_both": totals.value[2 * sale.m],
        "total_of_both_error": totals.stderr[2 * sale.m],
        "own_total": found.totals[1],
        "own_total_error": found.total_errors[1],
        "empty_score": U.empty_value(),
    }
    judge = sale.U(sale.dataset.heldout)
    orders = {SELLER: found.frame.value, BUYER: found.frame.own}
    lines = []
    for order, values in orders.items():
        curve = addition(
            judge, B, S, values.to_numpy(), fractions=sale.fractions, seed=i,
            repeats=sale.repeats if order == SELLER else 0, n_jobs=work.n_jobs,
        )  # fmt: skip
        lines.append((order, curve.scores))
        if order == SELLER:
            lines.append((RANDOM, curve.random_mean))
    return pd.concat(
        [
            pd.DataFrame(
                {
                    **agreement,
                    "order": order,
                    "fraction": sale.fractions,
                    "change": scores - scores[0],
                }
            )
            for order, scores in lines
        ],
        ignore_index=True,
    )
