"""What the theorems promise: `bounds`, and the distance of two tables in `transport`."""
