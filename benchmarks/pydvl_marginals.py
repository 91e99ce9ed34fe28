"""pyDVL's side of `benchmarks.peers`, in an environment of its own: pyDVL needs numpy 1.

Started with a data file, it answers requests until its standard input ends: one line of JSON in,
one line out.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from typing import Any

import numpy as np
import sklearn
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

MODELS = {
    "logistic": LogisticRegression(max_iter=1000),
    "ridge": RidgeClassifier(),
    "neighbours": KNeighborsClassifier(),
    "naive Bayes": GaussianNB(),
    "discriminant": LinearDiscriminantAnalysis(),
}
"""What both sides train."""


def versions() -> str:
    """What this side runs on."""
    return (
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )


def settle_memory() -> None:
    """Free a large array, so that either side has its memory allocator in the same state.

    Until a process has done so, glibc gives memory back to the system at every turn. Fetching it
    again doubled the time of naive Bayes on the one side that had not made the data itself.
    """
    np.ones(28 << 17)  # 28 MiB: glibc learns from blocks below 32


def main(file: str) -> None:
    import joblib  # here, for the other side has no pyDVL and takes MODELS from this module
    import threadpoolctl
    from pydvl.valuation import (
        Dataset,
        MinUpdates,
        ModelUtility,
        NoTruncation,
        PermutationSampler,
        ShapleyValuation,
        SupervisedScorer,
    )
    from pydvl.valuation.types import Sample

    class Counted(ModelUtility):  # type: ignore[misc]
        """Counts the sets that a model is trained on; those for which that fails, too."""

        trained = 0

        def _utility(self, sample: Any) -> float:
            Counted.trained += 1
            return float(super()._utility(sample))

    def permutations(model: str, first: int, k: int, n: int, seed: int) -> dict[str, float]:
        """The seconds of a valuation, the models trained in them; and U of all k points."""
        part = slice(first, first + k)
        Counted.trained = 0
        start = time.perf_counter()
        train = Dataset(data["X"][part], database=data["y"][part])
        test = Dataset(data["X_test"], database=data["y_test"])
        scorer = SupervisedScorer("accuracy", test, default=0.0, range=(0.0, 1.0))
        valuation = ShapleyValuation(
            Counted(MODELS[model], scorer),
            PermutationSampler(NoTruncation(), seed=seed),
            MinUpdates(n),
            progress=False,
        )
        valuation.fit(train)
        seconds = time.perf_counter() - start
        trained = Counted.trained
        score = valuation.utility(Sample(None, train.indices))
        return {"seconds": seconds, "trained": trained, "score": score}

    data = dict(np.load(file))
    settle_memory()
    print(json.dumps(versions()), flush=True)
    with threadpoolctl.threadpool_limits(1), joblib.parallel_config(n_jobs=1):
        for line in sys.stdin:
            print(json.dumps(permutations(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
