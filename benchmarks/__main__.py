"""All benchmarks, one table each."""

from benchmarks import overhead, workers

if __name__ == "__main__":
    for benchmark in (overhead, workers):
        benchmark.main()
