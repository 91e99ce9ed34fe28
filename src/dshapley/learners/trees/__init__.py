"""Decision trees, forests and boosting, grown by compiled loops.

`splits` finds the best split of a node, `growth` grows a tree, `forest` and `boosting` are the
learners, and `parameters` says which parameters of scikit-learn's they take.
"""
