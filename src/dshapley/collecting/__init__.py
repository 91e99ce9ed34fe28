"""What to collect next: candidates for a run of `dshapley value`, valued before they are bought.

- `candidates`: rows of another table, prepared as the rows of the run.
- `collected`: their expected values, and a batch of them.
- `batch`: how a batch is chosen that is not n copies of one row.
"""
