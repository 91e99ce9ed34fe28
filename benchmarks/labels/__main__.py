"""`python -m benchmarks.labels FOLDER`: find wrong labels with every tool, and write the rows.

FOLDER has the tables. What is finished is kept in `--work` and not made again. With `--pilot` the
pilot seeds are run and nothing is written to docs/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.labels.cells import Cell, cells, write
from benchmarks.labels.settings import PILOT_SEEDS, SEEDS, TABLES
from benchmarks.labels.summary import COLUMNS, PAGE, ROOT, ROWS, Rows, page

PYTHONS = {
    "dshapley": Path(sys.executable),
    "cleanlab": ROOT / ".venv-cleanlab" / "bin" / "python",
    "pydvl": ROOT / ".venv-peers" / "bin" / "python",
    "opendataval": ROOT / ".venv-opendataval" / "bin" / "python",
}
"""The Python of each tool's environment. OpenDataVal's is large, so it may be missing."""
MODULES = {tool: f"{tool}_scores" for tool in PYTHONS} | {"dshapley": "ours"}


def scored(tool: str, work: Path, of: list[Cell]) -> None:
    """Run a tool's process on the cells."""
    python = PYTHONS[tool]
    if not python.exists():
        print(f"{tool} has no environment and is left out", file=sys.stderr)
        return
    subprocess.run(
        [python, "-W", "ignore", "-m", f"benchmarks.labels.{MODULES[tool]}", work,
         *(cell.name for cell in of)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
             "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        check=True,
    )  # fmt: skip


def measured(work: Path, of: list[Cell]) -> Rows:
    """A row for each score of each cell."""
    found: list[tuple[object, ...]] = []
    for cell in of:
        wrong = np.load(work / "flipped" / f"{cell.name}.npy")
        for path in sorted((work / "scores").glob(f"{cell.name}--*.npz")):
            if path.name.endswith(".part.npz"):
                continue
            _, tool, method = path.stem.split("--")
            with np.load(path) as arrays:
                for name in sorted(set(arrays) - {"seconds"}):
                    score = arrays[name]
                    ap, auc = average_precision_score(wrong, score), roc_auc_score(wrong, score)
                    numbers = (round(ap, 4), round(auc, 4), round(float(arrays["seconds"]), 2))
                    key = (cell.table, cell.seed, cell.noise.kind)
                    found.append((*key, tool, method, name, *numbers))
    return pd.DataFrame(found, columns=COLUMNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder of the tables")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench-labels")
    parser.add_argument("--pilot", action="store_true", help="the pilot seeds")
    parser.add_argument("--seeds", type=int, nargs="*", help="only these seeds; docs stay as is")
    parser.add_argument("--tools", nargs="*", choices=list(PYTHONS), default=list(PYTHONS))
    args = parser.parse_args()
    published = not args.pilot and args.seeds is None
    seeds = args.seeds or (PILOT_SEEDS if args.pilot else SEEDS)
    of = cells(seeds)
    write(args.work, of, args.folder)
    for tool in args.tools:
        scored(tool, args.work, of)
    rows = measured(args.work, of)
    target = ROWS if published else args.work / "rows.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(target, index=False)
    if published:
        PAGE.write_text(page(PAGE.read_text(), rows))
    print(f"{len(rows):,} rows of {len(of)} cells of {len(TABLES)} tables in {target}")


if __name__ == "__main__":
    main()
