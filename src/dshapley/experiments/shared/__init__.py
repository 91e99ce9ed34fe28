"""What the experiments share.

- `tasks`: a learning task, and the ways to value its points.
- `removing`: removal curves by the values of each way.
- `selling`: a sale, with its seller, its buyers and their checks.
- `work`: scales, folders to resume from, and claims.
"""
