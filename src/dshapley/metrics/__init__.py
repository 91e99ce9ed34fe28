"""What a model's answers are worth: `metric` has ours, `scorers` those of scikit-learn."""

from dshapley.metrics.metric import METRICS, Metric, Output, as_metric, range_of

__all__ = ["METRICS", "Metric", "Output", "as_metric", "range_of"]
