"""Models of each class: naive Bayes, discriminants, nearest centroid, without retraining."""
