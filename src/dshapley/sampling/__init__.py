"""Which sets are drawn.

`sizes` (how often each set size), `design` (draw t: a pure function of the seed and t), `controls`
(what the labels of a set say in advance), `crossfitting`, `draws`, the record
of a run, and `provenance`, what is known of it beside.
"""
