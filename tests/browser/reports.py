"""Runs and their reports, made by the command line."""

import subprocess
import sys

import numpy as np
import pandas as pd


def command(*words, timeout=120):
    """Run dshapley in a process of its own, with state that is gone afterwards."""
    done = subprocess.run(
        [sys.executable, "-m", "dshapley", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=timeout
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def table(n, *, seed=0):
    """People with a class that their age and job decide, but for noise."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    hours = np.round(rng.normal(40, 10, n), 1)
    job = rng.choice(["clerk", "farmer", "teacher", "nurse"], n)
    score = (age - 45) / 20 + (hours - 40) / 10 + (job == "nurse") + rng.normal(size=n)
    income = np.where(score > 0.5, ">50K", "<=50K")
    return pd.DataFrame({"age": age, "hours": hours, "job": job, "income": income})


def report_of(frame, folder, *words, target, name="table.csv", retrain=True):
    """Value the rows of a table and write the report; its path."""
    folder.mkdir()
    frame.to_csv(folder / name, index=False)
    run = folder / "run"
    words = [folder / name, "--target", target, "--out", run, "--jobs", "2", "--no-report", *words]
    command("value", *words)
    command("report", run, "--jobs", "2", *([] if retrain else ["--no-retrain"]))
    return run / "report.html"


def audit_of(frame, folder, *words, target):
    """Audit a table; the path of its page."""
    folder.mkdir()
    frame.to_csv(folder / "table.csv", index=False)
    out = folder / "audit"
    command("audit", folder / "table.csv", "--target", target, "--out", out, "--jobs", "2", *words)
    return out / "audit.html"
