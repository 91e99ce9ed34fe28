"""dshapley: the value of each data point under a data distribution.

It computes the distributional Shapley value of Ghorbani, Kim and Zou, *A Distributional Framework
for Data Valuation* (2020), with a standard error for every value.

>>> import dshapley as ds
>>> design = ds.Design(ds.Points([[-1.0], [0.0], [4.0]]), m=10)
>>> U = ds.MeanPotential(design.database)
>>> valuation = ds.estimate(ds.run(U, design, design.database, stop=2000))
>>> exact = U.value(design.database, m=10)
>>> bool((abs(valuation.values - exact) < 4 * valuation.stderr).all())
True
"""

from importlib import import_module

__version__ = "0.1.0"

_MODULES = {
    "bounds": "theory.bounds",
    "curves": "baselines.curves",
    "data_shapley": "baselines.data_shapley",
    "datasets": "data.datasets",
    "errors": "errors",
    "market": "market",
    "metrics": "metrics",
    "planning": "running.planning",
    "plots": "plots",
    "profile": "inference.profile",
    "sizes": "sampling.sizes",
    "stopping": "running.stopping",
    "testing": "potentials.testing",
}
_NAMES = {
    "Bundles": "data.points",
    "DShapleyError": "errors",
    "Design": "sampling.design",
    "DrawError": "errors",
    "Draws": "sampling.draws",
    "FitError": "errors",
    "Fitting": "api",
    "InputError": "errors",
    "Interrupted": "running.run",
    "MeanPotential": "potentials",
    "Metric": "metrics",
    "Points": "data.points",
    "Potential": "potentials",
    "RunFolderError": "errors",
    "Sampling": "api",
    "Stop": "running.stopping",
    "Valuation": "inference.valuation",
    "audit": "auditing",
    "compare": "inference.comparison",
    "estimate": "inference.sampled",
    "knn_values": "baselines.exact_neighbours",
    "label_values": "running.label_values",
    "learner": "learners",
    "load_run": "running.run_folder",
    "marginals": "potentials",
    "potential": "potentials",
    "run": "running.run",
    "value": "api",
}
"""The modules of the public names. Names are loaded when they are first used, so that
`import dshapley` and the command line start fast. `__init__.pyi` lists them for type checkers."""

__all__ = sorted([*_MODULES, *_NAMES])


def __getattr__(name: str) -> object:
    if name in _MODULES:
        found: object = import_module(f"dshapley.{_MODULES[name]}")
    elif name in _NAMES:
        found = getattr(import_module(f"dshapley.{_NAMES[name]}"), name)
    else:
        raise AttributeError(f"module 'dshapley' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
