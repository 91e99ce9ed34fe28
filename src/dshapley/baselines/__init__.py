"""Other values of the same points, on the same potentials, and what removing points does.

- `data_shapley`: data Shapley values (exact, along permutations, from subsets), leave-one-out.
- `subsets`: data Shapley values from random subsets, without retraining where possible.
- `exact_neighbours`: exact distributional values for nearest neighbours, in closed form.
- `curves`: a model's score as points are removed or added in the order of any values.
- `fresh_rows`: whether the order of the values holds on rows that played no part in it.
- `signatures`: functions that pass all their options on to another function.
"""
