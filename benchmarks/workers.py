"""What two worker processes gain over one, on the same draws; and that they are the same."""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression

import dshapley as ds
from benchmarks.setting import alternate, print_table, synthetic
from dshapley.potentials import Retrain

SETTINGS: list[tuple[Retrain, int, int, int]] = [
    ("always", 100, 50, 40),
    ("never", 500, 500, 400),
    ("never", 2500, 1000, 400),
]
"""(path, m, points, draws)"""


def main() -> None:
    database, test = synthetic()
    rows = []
    for path, m, n_points, n_draws in SETTINGS:
        U = ds.potential(LogisticRegression(), test=test, retrain=path)
        design = ds.Design(database, m=m)
        Z = database.take(range(n_points))
        bits = {}

        def run(n_jobs: int) -> None:
            bits[n_jobs] = ds.run(U, design, Z, stop=n_draws, n_jobs=n_jobs).marginals.tobytes()  # noqa: B023

        one, two = alternate(lambda: run(1), lambda: run(2), repeats=5)
        same = "yes" if bits[1] == bits[2] else "NO"
        rows.append(
            [
                path,
                str(m),
                str(n_points),
                str(n_draws),
                f"{one:.1f}",
                f"{two:.1f}",
                f"{one / two:.2f}",
                same,
            ]
        )
    print_table(
        "Workers: seconds for a run (logistic regression, uniform sizes)",
        ["path", "m", "points", "draws", "one process", "two", "ratio", "same bits"],
        rows,
    )


if __name__ == "__main__":
    main()
