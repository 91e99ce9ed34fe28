"""How often `market.check` calls a list wrong: honest sellers' lists, and shuffled ones.

Development seeds are 1000 and above; what is published is of seeds 0 to 49.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from benchmarks.setting import print_table
from dshapley import market
from dshapley.data.points import Floats
from dshapley.market import Check

TEST_ROWS = (20, 50, 100, 200, 500, 1000)
SELLERS_TEST_ROWS = 1000
QUESTIONS = ("order", "worth")


@dataclass(frozen=True)
class Sizes:
    """Of one sale."""

    database: int = 800
    bought: int = 120
    buyer: int = 80
    sellers_draws: int = 600
    draws: int = 500
    features: int = 8


QUICK = Sizes(database=400, sellers_draws=300, draws=250)


def points(rng: np.random.Generator, n: int, theta: Floats, wrong: float) -> ds.Points:
    """Rows of two classes, some of them mislabelled."""
    X = rng.normal(size=(n, len(theta)))
    y = X @ theta + 0.5 * rng.normal(size=n) > 0
    flipped = rng.random(n) < wrong
    return ds.Points(X, (y ^ flipped).astype(int))


def sale(seed: int, test_rows: Sequence[int], sizes: Sizes) -> dict[tuple[int, bool], Check]:
    """What a buyer finds of an honest list and of a shuffled one, by the buyer's test rows.

    The seller and the buyer have rows and test rows of one distribution, none in common.
    """
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=sizes.features)
    theta *= 2 / np.linalg.norm(theta)
    database, S, B = (
        points(rng, n, theta, 0.2) for n in (sizes.database, sizes.bought, sizes.buyer)
    )
    sellers_test = points(rng, SELLERS_TEST_ROWS, theta, 0.05)
    valuation = ds.value(
        database, model=LogisticRegression(), test=sellers_test, points=S,
        m=sizes.bought + sizes.buyer, stop=sizes.sellers_draws, seed=seed,
        sampling=ds.Sampling(weights="1/k", balanced=True),
    )  # fmt: skip
    order = rng.permutation(len(S))
    lists = {
        True: market.price_list(valuation, rate=1000.0),
        False: market.price_list(replace(valuation, ids=valuation.ids[order]), rate=1000.0),
    }
    found = {}
    for n in test_rows:
        U = ds.potential(LogisticRegression(), test=points(rng, n, theta, 0.05))
        with tempfile.TemporaryDirectory() as folder:  # both lists are checked by the same draws
            for right, prices in lists.items():
                found[n, right] = market.check(
                    prices, B, S, U=U, way="subsets", draws=sizes.draws, seed=seed, store=folder
                )
    return found


def verdicts(
    seeds: Iterable[int], test_rows: Sequence[int] = TEST_ROWS, sizes: Sizes | None = None
) -> Counter[tuple[int, bool, str, str]]:
    """How many checks said what: (test rows, whether the list is right, question, verdict)."""
    count: Counter[tuple[int, bool, str, str]] = Counter()
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ds.errors.DShapleyWarning)
            for (n, right), found in sale(seed, test_rows, sizes or Sizes()).items():
                for question in QUESTIONS:
                    count[n, right, question, getattr(found, question)] += 1
                if "fails" in (found.order, found.worth):
                    count[n, right, "either", "fails"] += 1
    return count


def main(asked: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, nargs=2, default=(0, 50), help="the first, and the end"
    )
    parser.add_argument("--quick", action="store_true", help="smaller sales")
    options = parser.parse_args(asked)
    count = verdicts(range(*options.seeds), sizes=QUICK if options.quick else None)
    rows = []
    for right in (True, False):
        for n in TEST_ROWS:
            said = [
                str(count[n, right, question, verdict])
                for question in QUESTIONS
                for verdict in ("holds", "not shown", "fails")
            ]
            name = "honest" if right else "shuffled"
            rows.append([name, str(n), *said, str(count[n, right, "either", "fails"])])
    columns = [f"{q} {v}" for q in QUESTIONS for v in ("holds", "not shown", "fails")]
    print_table(
        f"What `check` says of seeds {options.seeds[0]} to {options.seeds[1] - 1}",
        ["list", "test rows", *columns, "called wrong"],
        rows,
    )


if __name__ == "__main__":
    main()
