"""From the record of a run to values and their errors.

- `estimation`: values as sums over draws, and the influence of each draw.
- `valuation`, `sampled`, `completed`: what a user asks of values; of values that keep their draws;
  of values that are partly predicted. `saved` writes and reads them.
- `uncertainty`: quantiles, degrees of freedom, ranks.
- `test_rows`: the error that comes from the test rows. `jackknife`: the same for data Shapley.
- `label_evidence`: what models that were not trained on a point say of its label. `label_noise`:
  how many labels are wrong, and the probability that each is.
- `database_error`: the error that comes from the finite database.
- `comparison`, `joint_errors`, `agreement`, `what_differs`: two or more runs of the same points.
- `profile`: values for other data set sizes.
- `interpolation`, `regression`: points that were never run.
"""
