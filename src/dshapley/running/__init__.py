"""A run: draws computed by workers until a rule says stop, kept in a folder.

`run`, `workers`, `run_folder`, `progress`, `stopping`, `planning`, and `source_tables`, the tables
that a run was made from.
"""
