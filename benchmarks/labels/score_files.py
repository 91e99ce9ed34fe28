"""What every tool does with a cell: read it, score its rows, write scores and seconds.

It needs numpy only, because each tool runs in an environment of its own. Each method of a tool
writes one `.npz`, with one array for each of its scores: the higher, the more suspicious the label.
Finished files are not made again, so an interrupted benchmark resumes.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Method: TypeAlias = Callable[[Array, Array], Mapping[str, Array]]
"""From the features and the noisy labels to scores by name."""


def fill(folder: Path, cells: Sequence[str], tool: str, methods: Mapping[str, Method]) -> None:
    """Write the score files of a tool that are missing."""
    warnings.simplefilter("ignore")  # a model that did not converge, in every tool alike
    (folder / "scores").mkdir(exist_ok=True)
    for i, cell in enumerate(cells):
        for name, method in methods.items():
            path = folder / "scores" / f"{cell}--{tool}--{name}.npz"
            if path.exists():
                continue
            with np.load(folder / "cells" / f"{cell}.npz") as arrays:
                X, y = arrays["X"], arrays["y"]
            begun = time.process_time()
            scores = method(X, y)
            seconds = time.process_time() - begun
            for score in scores.values():
                if score.shape != y.shape or not np.isfinite(score).all():
                    raise SystemExit(f"{path.name}: not one finite score for each row")
            part = path.with_suffix(f".{os.getpid()}.part.npz")  # two processes may share the work
            made: dict[str, Any] = {"seconds": seconds, **scores}
            np.savez(part, **made)
            part.replace(path)
            print(f"{tool}: {i + 1}/{len(cells)} {cell} {name} {seconds:.1f} s", file=sys.stderr)


def main(tool: str, methods: Mapping[str, Method]) -> None:
    """The command of a tool's process: the work folder, then the names of cells."""
    fill(Path(sys.argv[1]), sys.argv[2:], tool, methods)
