"""What the theorems promise: `bounds`, and `transport`, the distance of two tables."""
