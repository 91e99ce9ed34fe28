"""From the record of a run to values and their errors.

`estimation` (sums over draws), `valuation` (what a user asks of values), `uncertainty` (quantiles,
ranks), `jackknife` (the error of the test rows), `profile` (other data set sizes), `interpolation`
and `regression` (points that were never run).
"""
