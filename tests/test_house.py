"""The rules of the house: what may import what, and how fast the front door opens."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dshapley

SOURCE = Path(dshapley.__file__).parent

FLOW = [
    "start",
    "errors",
    "files",
    "documents",
    "ownership",
    "digits",
    "identity",
    "points",
    "folds",
    "metrics",
    "scorers",
    "models",
    "targets",
    "learners.protocol",
    "learners.refit",
    "learners.fast",
    "learners.kernels",
    "learners.flips",
    "learners.decisions",
    "learners.classes",
    "learners.kept",
    "learners.naive_bayes",
    "learners.shrunk",
    "learners.discriminant",
    "learners.quadratic",
    "learners.centroid",
    "learners.distances",
    "learners.nearest",
    "learners.ridge",
    "learners.kernel_ridge",
    "learners.precise",
    "learners.passes",
    "learners.polish",
    "learners.softmax_fit",
    "learners.softmax_polish",
    "learners.softmax",
    "learners.logistic",
    "learners.splits",
    "learners.growth",
    "learners.tree_parameters",
    "learners.forest",
    "learners.boosting",
    "learners.choice",
    "learners",
    "preprocessing",
    "potentials",
    "testing",
    "sizes",
    "transport",
    "bounds",
    "controls",
    "draws",
    "design",
    "crossfitting",
    "estimation",
    "uncertainty",
    "regression",
    "interpolation",
    "valuation",
    "jackknife",
    "profile",
    "stopping",
    "planning",
    "store",
    "progress",
    "workers",
    "neighbours",
    "runs",
    "subsets",
    "data_shapley",
    "curves",
    "market.prices",
    "market.comparing",
    "market.evidence",
    "market.rates",
    "market.pricing",
    "market.summaries",
    "market.matching",
    "market.splitting",
    "market.agreement",
    "market",
    "api",
    "encoding",
    "tables",
    "market.coding",
    "sources",
    "datasets",
    "plots",
    "experiments",
    "experiments.work",
    "experiments.tasks",
    "experiments.removing",
    "experiments.figure1",
    "experiments.figure2",
    "experiments.supplement1",
    "experiments.cifar10",
    "experiments.cost",
    "experiments.mislabelled",
    "experiments.selling",
    "experiments.figure3",
    "experiments.shift",
    "experiments.reproduce",
    "predict",
    "market.sales",
    "findings",
    "report",
    "options",
    "console",
    "market.commands",
    "cli",
    "__main__",
]


def modules():
    names = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        names[".".join(parts)] = path
    return names


def test_every_module_has_its_place():
    assert set(modules()) == {"", *FLOW}


@pytest.mark.parametrize("name", FLOW)
def test_a_module_imports_only_from_earlier_in_the_flow(name):
    tree = ast.parse(modules()[name].read_text())
    # At the top of the file: learners.choice, start and neighbours also look things up late.
    imported = {
        node.module.removeprefix("dshapley.")
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dshapley")
    }
    late = {other for other in imported if FLOW.index(other) >= FLOW.index(name)}
    assert not late


def test_the_core_imports_no_heavy_library():
    heavy = [
        "pandas",
        "numba",
        "sklearn",
        "scipy",
        "rich",
        "typer",
        "matplotlib",
        "dask",
        "pyarrow",
    ]
    code = f"import sys, dshapley; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_public_names_are_there():
    found = [getattr(dshapley, name) for name in dshapley.__all__]
    assert sum(not isinstance(part, ModuleType) for part in found) <= 25
    assert len(found) <= 35
