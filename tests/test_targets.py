"""Targets that can be meant, and those that cannot: free text, dates, ids."""

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dshapley as ds
from dshapley.cli.app import app
from dshapley.data.datasets import adult_sample
from dshapley.data.tables import read_table, task_of
from dshapley.data.targets import FEWEST_DISTINCT, FREE_TEXT, check_meant

N = 120
RNG = np.random.default_rng(0)
SHUFFLED = RNG.permutation(N)

TARGETS = {
    "in_hospital_death": ("physionet2012", "classification"),
    "income": ("adult", "classification"),
    "Cover_Type": ("covertype", "classification"),
    "readmitted": ("diabetes130", "classification"),
    "f01": ("sensorless_drive", "regression"),
    "class": ("pucrio_har", "classification"),
    "time_in_hospital": ("diabetes130", "classification"),
    "num_medications": ("diabetes130", "regression"),
    "fnlwgt": ("adult", "regression"),
    "age": ("adult", "regression"),
    "diag_1": ("diabetes130", "classification"),
}


def frame(cells, name="y"):
    return pd.DataFrame(
        {
            name: cells,
            "plan": np.array(["a", "b", "c"])[np.arange(len(cells)) % 3],
            "churned": np.arange(len(cells)) % 2 == 0,
            "height": np.linspace(0.0, 1.0, len(cells)),
        }
    )


@pytest.mark.skipif("DSHAPLEY_DATA" not in os.environ, reason="the public tables are elsewhere")
@pytest.mark.parametrize("target", TARGETS)
def test_the_targets_of_public_tables_pass(target):
    name, task = TARGETS[target]
    path = Path(os.environ["DSHAPLEY_DATA"]) / f"{name}.parquet"
    assert task_of(read_table(path), target) == task


def test_every_complete_column_of_the_embedded_sample_passes():
    table = adult_sample().dropna(axis="columns")
    for target in table.columns.drop("fnlwgt"):
        assert task_of(table, target) in ("classification", "regression")


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([f"called at {i}, no answer" for i in SHUFFLED], "free text or ids: 120 of 120 values"),
        ([f"user{i % 70}" for i in range(N)], "free text or ids: 70 of 120 values"),
        ([f"{1 + i % 28}/{1 + i % 12}/2024" for i in range(N)], "holds dates, which cannot be pr"),
        (pd.date_range("2024-01-01", periods=N), "holds dates, which cannot be predicted"),
        (pd.to_timedelta(np.arange(N), unit="h"), "holds durations, which cannot be predicted"),
        (SHUFFLED + 1000, "an id .the whole numbers from 1000 to 1119, once each"),
        (np.arange(N) * 17, "an id .whole numbers, all different and in order"),
        (np.arange(N)[::-1] * 17.0, "an id .whole numbers, all different and in order"),
        ([Decimal(i) for i in SHUFFLED.tolist()], "an id .the whole numbers from 0 to 119, once"),
        ([10**30 + 3 * i for i in range(N)], "an id .whole numbers, all different and in order"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_other_columns(cells, says):
    with pytest.raises(ds.InputError, match=says) as caught:
        task_of(frame(cells), "y")
    message = str(caught.value)
    assert message.startswith("the target 'y' of the table ")
    assert message.endswith(
        "; name another column, such as 'churned' (2 values), 'plan' (3 values)"
    )
    assert "\n" not in message


@pytest.mark.parametrize("name", ["encounter_id", "patient nbr", "orderId", "ID", "invoice_no"])
def test_distinct_whole_numbers_are_ids_where_the_name_says_so(name):
    cells = 17 * SHUFFLED + 3
    with pytest.raises(ds.InputError, match="all different, in a column of that name"):
        task_of(frame(cells, name), name)
    assert task_of(frame(cells, "paid"), "paid") == "regression"
    cells[0] = cells[1]  # ids are never equal
    assert task_of(frame(cells, name), name) == "regression"


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (RNG.normal(size=N), "regression"),
        (np.sort(RNG.normal(size=N)), "regression"),
        (17 * SHUFFLED, "regression"),
        (RNG.poisson(50, size=N), "regression"),
        (np.sort(RNG.poisson(50, size=N)), "regression"),
        (np.arange(N) % 7, "classification"),
        (np.arange(N) % 2 == 0, "classification"),
        ([f"town {i % 40}" for i in range(N)], "classification"),
        ([f"2024-05-{1 + i % 9}" for i in range(N)], "classification"),
        (pd.Categorical(np.arange(N) % 30), "classification"),
    ],
)
def test_what_can_be_meant_passes(cells, task):
    assert task_of(frame(cells), "y") == task


def test_a_quantity_in_order_is_regressed_where_that_is_asked_for():
    table = frame(np.arange(N) * 17)
    with pytest.raises(ds.InputError, match="if it is a quantity, add --task regression"):
        task_of(table, "y")
    assert task_of(table, "y", asked="regression") == "regression"
    with pytest.raises(ds.InputError, match="no classes that repeat: 120 of 120 values"):
        task_of(table, "y", asked="classification")


def test_the_limits_are_those_of_the_constants():
    few = [f"v{i}" for i in range(FEWEST_DISTINCT)]
    check_meant(frame(few), "y", asked="auto")
    with pytest.raises(ds.InputError, match="free text"):
        check_meant(frame([*few, "another"]), "y", asked="auto")
    half = [f"v{i % int(FREE_TEXT * N)}" for i in range(N)]
    check_meant(frame(half), "y", asked="auto")
    with pytest.raises(ds.InputError, match="free text"):
        check_meant(frame(["one more", *half[1:-1], "and more"]), "y", asked="auto")


def test_gaps_do_not_hide_free_text():
    cells = [None, *[f"note {i}" for i in range(N - 1)]]
    with pytest.raises(ds.InputError, match="free text or ids: 119 of 119 values"):
        task_of(frame(cells), "y")


def test_a_table_without_a_likely_target_gets_no_suggestion():
    with pytest.raises(ds.InputError, match=r"are different; name another column$"):
        task_of(frame([f"n{i}" for i in range(N)])[["y", "height"]], "y")


def test_the_command_line_refuses_at_once(tmp_path):
    table = tmp_path / "t.csv"
    notes = [f"note {i}" for i in range(200)]
    adult_sample().head(200).assign(note=notes).to_csv(table, index=False)
    result = CliRunner().invoke(app, ["value", str(table), "--target", "note"])
    assert result.exit_code == 2
    assert "error: the target 'note' of the table looks like free text or ids" in result.stderr
    assert "'income' (2 values)" in result.stderr


def test_labels_that_do_not_repeat_are_refused_in_python():
    X = RNG.normal(size=(N, 2))
    y = [f"note {i}" for i in range(N)]
    with pytest.raises(ds.InputError, match="database: 120 of 120 labels are different"):
        ds.value(X, y, model="naive_bayes", test=(X, y), stop=1)
