"""What the experiments have in common.

`tasks` (a learning task and the ways to value its points), `removing` (removal curves), `selling`
(a sale: seller, buyers, what they find), `work` (scales, folders that resume, claims), `plots`.
"""
