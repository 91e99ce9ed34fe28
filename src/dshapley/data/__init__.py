"""Points and where they come from.

`points` (rows with labels, bundles of rows), `tables` (files read and made ready, with `encoding`
and `targets`), `datasets` (public data by name, fetched by `downloads`), `folds`.
"""
