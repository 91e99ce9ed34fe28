"""Run every command once on a small table: `python tools/smoke.py`, with dshapley installed.

Shows in about two minutes whether dshapley works with the installed versions of its
dependencies. `make lowest` runs it with the lowest versions that pyproject.toml allows.
"""

import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

DSHAPLEY = [sys.executable, "-m", "dshapley"]
OFFER = 20  # rows valued in most steps
ASKED = ["--target", "income", "--id", "name", "--points", "offer.csv", "--test", "test.csv"]
FEW = ["--m", "30", "--draws", "4", "--jobs", "1"]
RUN = [*ASKED, "--m", "80", "--draws", "60", "--out", "run"]
COMMANDS = [
    "demo",
    "value",
    "plan",
    "predict",
    "show",
    "price",
    "publish",
    "match",
    "check",
    "reproduce",
]
MODELS = ["knn", "forest", "naive_bayes", "svm"]  # numba compiles a minute for the other trees


class Smoke:
    """Steps that are run one after the other in a folder, and how many of them failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passed = 0
        self.failed = 0

    def step(self, name: str, does: Callable[[], None]) -> None:
        """Do one step, and print its name, its time and what was wrong."""
        start, wrong = time.perf_counter(), ""
        try:
            does()
        except (AssertionError, OSError) as error:
            wrong = str(error) or type(error).__name__
        verdict = "FAILED" if wrong else "passed"
        print(f"{verdict} {time.perf_counter() - start:5.1f} s  {name}", flush=True)
        if wrong:
            print("    " + wrong.replace("\n", "\n    "), flush=True)
        self.failed += bool(wrong)
        self.passed += not wrong

    def command(self, *words: str, rows: int | None = None, file: str | None = None) -> None:
        """A step: a command that ends with exit code 0, and a file that has so many rows."""

        def does() -> None:
            self.run(*DSHAPLEY, *words)
            if file is not None:
                self.expect(file, rows)

        self.step(f"dshapley {' '.join(words)}", does)

    def run(self, *words: str, code: int = 0) -> None:
        """Run a command that must end with this exit code, without warnings or a traceback."""
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        last = "\n".join(done.stderr.splitlines()[-12:])
        assert done.returncode == code, f"exit code {done.returncode}, not {code}\n{last}"
        for sign in ("Warning:", "Traceback"):
            assert sign not in done.stderr, f"{sign!r} is in the error output\n{last}"

    def expect(self, file: str, rows: int | None) -> None:
        """Fail unless the file exists and, if `rows` is given, has so many rows."""
        path = self.folder / file
        assert path.is_file(), f"{file} was not written"
        if rows is not None:
            with path.open(newline="") as lines:
                found = len(list(csv.DictReader(lines)))
            assert found == rows, f"{file} has {found} rows, not {rows}"

    def same_after(self, file: str, *words: str) -> None:
        """Fail if a command changes the file."""
        before = (self.folder / file).read_bytes()
        self.run(*DSHAPLEY, *words)
        assert (self.folder / file).read_bytes() == before, f"{file} has changed"


def make_tables(folder: Path) -> None:
    """Write the tables of a sale, from the embedded sample of Adult."""
    from dshapley.data.datasets import adult_sample

    people = adult_sample().drop(columns="fnlwgt")
    people.insert(0, "name", [f"p{i:04d}" for i in range(len(people))])
    people[:200].to_csv(folder / "seller.csv", index=False)
    people[:200].to_parquet(folder / "seller.parquet")
    people[200 : 200 + OFFER].to_csv(folder / "offer.csv", index=False)
    people[220:280].drop(columns="name").to_csv(folder / "buyer.csv", index=False)
    people[280:480].to_csv(folder / "test.csv", index=False)
    people[480:510].to_csv(folder / "new.csv", index=False)


def run_steps(smoke: Smoke) -> None:
    """Every command, in the order in which a sale uses them."""
    run, same = smoke.run, smoke.same_after
    values = "values.csv"
    smoke.step(
        "from dshapley import *", lambda: run(sys.executable, "-c", "from dshapley import *")
    )
    smoke.step("tables", lambda: make_tables(smoke.folder))
    smoke.command("--version")
    smoke.command("--help")
    for name in COMMANDS:
        smoke.command(name, "--help")
    smoke.step("dshapley value (no table: exit code 2)", lambda: run(*DSHAPLEY, "value", code=2))

    smoke.command("value", "seller.csv", *RUN, rows=OFFER, file=f"run/{values}")
    smoke.step(
        "dshapley value (the same command again)",
        lambda: same(f"run/{values}", "value", "seller.csv", *RUN),
    )
    for model in MODELS:
        words = ["value", "seller.csv", *ASKED, *FEW, "--model", model, "--out", model]
        smoke.command(*words, rows=OFFER, file=f"{model}/{values}")
    numbers = ["value", "seller.csv", "--target", "age", "--drop", "name", *FEW, "--out", "ages"]
    smoke.command(*numbers, rows=160, file=f"ages/{values}")
    parquet = ["value", "seller.parquet", *ASKED, *FEW, "--out", "parquet"]
    smoke.command(*parquet, rows=OFFER, file=f"parquet/{values}")
    precise = [
        "--weights",
        "1/k",
        "--balanced",
        "--control-variates",
        "--drop",
        "race",
        "--drop",
        "sex",
    ]
    smoke.command("value", "seller.csv", *ASKED, "--m", "30", "--draws", "20", *precise)
    smoke.command("show", "run", "--m", "40", "--top", "3")
    smoke.command("plan", "seller.csv", *ASKED, "--m", "30", "--draws", "20", "--precision", "0.01")
    smoke.command(
        "predict", "run", "new.csv", "--out", "new values.csv", rows=30, file="new values.csv"
    )

    prices = ["price", "run", "--rate", "100", "--m", "60", "--m", "80", "--out", "prices"]
    smoke.command(*prices, rows=2 * OFFER, file="prices/prices.csv")
    publish = ["publish", "seller.csv", "--target", "income", "--drop", "name"]
    smoke.command(*publish, "--out", "seller.json", file="seller.json")
    smoke.command("match", "seller.json", "buyer.csv", "--lipschitz", "0.01", "--prices", "prices")
    check = ["check", "prices", "buyer.csv", "offer.csv", "--target", "income", "--id", "name"]
    check += ["--test", "test.csv"]
    smoke.command(*check, "--draws", "10", "--out", "both.csv", rows=OFFER, file="both.csv")
    smoke.command(*check, "--draws", "40", "--way", "subsets")


def main() -> int:
    """Run all steps in a temporary folder; the exit code is 1 if one of them failed."""
    with tempfile.TemporaryDirectory() as folder:
        smoke = Smoke(Path(folder))
        run_steps(smoke)
    print(f"{smoke.passed} passed, {smoke.failed} failed")
    return int(smoke.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
