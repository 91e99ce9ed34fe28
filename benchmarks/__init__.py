"""Speed as ratios taken in one run: `make bench`, or one alone: `python -m benchmarks.NAME`."""
