"""Finding wrong labels: dshapley beside cleanlab, pyDVL and OpenDataVal (docs/labels.md).

- `settings`: tables, seeds, kinds of noise, and every number that was fixed before the run
- `cells`: the rows, features and labels that all tools are given, and which labels were flipped
- `ours`, `cleanlab_scores`, `pydvl_scores`, `opendataval_scores`: a score for each row; the last
  three run in environments of their own
- `summary`: rows of results, paired comparisons and the tables of the page
"""
