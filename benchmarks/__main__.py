"""All benchmarks, one table each; with a folder of data sets, those that need them too."""

import sys
from pathlib import Path

from benchmarks import (
    beyond,
    check,
    closed_form,
    learners,
    memory,
    overhead,
    pipelines,
    subsets,
    trees,
    workers,
)

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    learners.main(folder)
    memory.main()
    workers.main()
    overhead.main()
    subsets.main()
    pipelines.main()
    check.main([])
    beyond.main([])
    if folder is not None:
        closed_form.main(folder)
        trees.main(folder)
