"""Decision trees, forests and boosting, grown by compiled loops.

`splits` finds the best split of a node and `growth` grows a tree. `forest` and `boosting` are the
families of learners. `parameters` checks and reads the parameters of scikit-learn's estimators.
"""
