"""dshapley: what is a data point worth, under a data distribution?

The distributional Shapley value of Ghorbani, Kim and Zou, *A Distributional Framework for Data
Valuation* (2020), with a standard error on every number.

>>> import dshapley as ds
>>> design = ds.Design(ds.Points([[-1.0], [0.0], [4.0]]), m=10)
>>> U = ds.MeanPotential(design.database)
>>> valuation = ds.estimate(ds.run(U, design, design.database, until=2000))
>>> exact = U.value(design.database, m=10)
>>> bool((abs(valuation.values - exact) < 4 * valuation.stderr).all())
True
"""

import lazy_loader

__version__ = "0.1.0"

# The names are listed in __init__.pyi, for type checkers too. Loaded when first used, they keep
# `import dshapley` and the start of the command line instant.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
