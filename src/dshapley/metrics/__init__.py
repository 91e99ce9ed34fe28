"""Metrics, which score the outputs of models.

`metric` has our metrics, and `scorers` makes metrics of scikit-learn's scorers.
"""

from dshapley.metrics.metric import (
    METRICS,
    Metric,
    Output,
    RocAucWithout,
    SomeRows,
    WithoutGroup,
    as_metric,
    range_of,
)

__all__ = [
    "METRICS",
    "Metric",
    "Output",
    "RocAucWithout",
    "SomeRows",
    "WithoutGroup",
    "as_metric",
    "range_of",
]
