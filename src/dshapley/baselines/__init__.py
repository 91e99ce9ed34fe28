"""Other values of the same points: data Shapley, leave-one-out, exact nearest neighbours.

`curves` retrains as points are removed or added in the order of any values.
"""
