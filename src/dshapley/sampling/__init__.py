"""Which sets S are drawn, and the record of what came of them.

- `sizes`: the size weights, which say how often each set size is drawn.
- `design`: draw t, a pure function of the seed and of t.
- `controls`: control variates from the labels of S.
- `crossfitting`: test rows that change with the draw, so that every row gets a value.
- `test_groups`, `test_influence`: how much the values depend on the test rows, and the record.
- `draws`: the record of a run.
- `draws_file`: the record as named arrays, for files, and back.
- `evidence`, `witness`: what models say of points that they were not trained on, and which are
  asked.
- `provenance`: what is known about a run beside its draws.
"""
