"""Classifiers that model each class, without retraining.

- `naive_bayes`: GaussianNB, BernoulliNB and MultinomialNB.
- `discriminant`: linear discriminant analysis; `discriminant_shrunk` has two of its solvers.
- `quadratic`: quadratic discriminant analysis.
- `centroid`: nearest centroid.
"""
