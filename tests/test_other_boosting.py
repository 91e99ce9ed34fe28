"""XGBoost and LightGBM are refitted like any other estimator."""

import numpy as np
import pytest

import dshapley as ds
from conftest import labelled
from dshapley.learners import Refit
from dshapley.potentials.testing import check_potential


def xgboost():
    module = pytest.importorskip("xgboost")
    return module.XGBClassifier(n_estimators=3, subsample=0.7, n_jobs=1)


def lightgbm():
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(
        n_estimators=3, min_child_samples=2, n_jobs=1, verbose=-1, subsample=0.7, subsample_freq=1
    )


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "log_score"])
@pytest.mark.parametrize("make", [xgboost, lightgbm])
def test_they_are_refitted(make, metric):
    S, Z, test = labelled(40), labelled(4, seed=1), labelled(50, seed=2)
    U = ds.potential(make(), test=test, metric=metric)
    assert isinstance(U.learner, Refit)
    assert "path.reason" not in U.describe()
    gains = U.seeded(3).marginals(S, Z)
    np.testing.assert_array_equal(gains, U.seeded(3).marginals(S, Z))
    np.testing.assert_array_equal(gains, [U.seeded(3)(S + z) - U.seeded(3)(S) for z in Z])
    assert len({U.seeded(seed)(S) for seed in range(5)}) > 1 or metric == "accuracy"


@pytest.mark.parametrize("make", [xgboost, lightgbm])
def test_they_keep_the_contract(make):
    check_potential(ds.potential(make(), test=labelled(30, seed=1)), labelled(12))


@pytest.mark.parametrize("make", [xgboost, lightgbm])
def test_the_fast_path_is_not_theirs(make):
    with pytest.raises(ds.InputError, match="no fast learner knows"):
        ds.potential(make(), test=labelled(20), retrain="never")
