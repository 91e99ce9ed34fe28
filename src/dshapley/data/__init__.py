"""Points, and the tables and public data sets that they are made from.

`points` holds rows with labels, and bundles of rows. `tables` reads files and prepares them, with
the help of `encoding` and `targets`. `datasets` loads public data by name, which `downloads`
fetches. `folds` splits rows into folds, or into a database and a test set.
"""
