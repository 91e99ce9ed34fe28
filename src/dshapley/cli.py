"""The command line: parses and prints; no mathematics."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dshapley.errors import DShapleyError, DShapleyWarning, InputError

if TYPE_CHECKING:
    import pandas as pd

    from dshapley.tables import Prepared
    from dshapley.valuation import Valuation

__all__ = ["app", "main"]

app = typer.Typer(
    help="What is a data point worth? Distributional Shapley values with error bars.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the command `dshapley`."""
    app()


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from dshapley import __version__

        print(f"dshapley {__version__}")
        raise typer.Exit


@app.command()
def value(
    table: Annotated[Path, typer.Argument(help="The database: a .csv, .tsv or .parquet file.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    test: Annotated[Path | None, typer.Option(help="A table to test models on.")] = None,
    test_size: Annotated[
        float, typer.Option(help="Without --test: the share of rows set aside for it.")
    ] = 0.2,
    points: Annotated[
        Path | None, typer.Option(help="A table of rows to value; else those of the database.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that names the rows; else their number.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Value rows that agree in this column as one bundle.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out.")] = None,
    task: Annotated[
        str, typer.Option(help="classification or regression; else as the target looks.")
    ] = "auto",
    model: Annotated[
        str, typer.Option(help="A model by name, or module:factory for your own.")
    ] = "auto",
    metric: Annotated[
        str | None, typer.Option(help="How models are scored; else accuracy or neg_mse.")
    ] = None,
    m: Annotated[
        int | None, typer.Option("--m", help="The data set size to value for; else up to 1000.")
    ] = None,
    min_rows: Annotated[
        int, typer.Option(help="Sets of fewer rows are not fitted but get a constant predictor.")
    ] = 1,
    path: Annotated[
        str, typer.Option(help="fast (without retraining), refit, or whichever is possible.")
    ] = "auto",
    draws: Annotated[int | None, typer.Option(help="Stop after so many draws.")] = None,
    precision: Annotated[
        float | None, typer.Option(help="Stop when every standard error is this small.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Stop after so long: 90s, 10m, 2h.")] = None,
    weights: Annotated[
        str, typer.Option(help="Size weights: uniform, 1/k, or k^-a such as k^-0.5.")
    ] = "uniform",
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 0,
    jobs: Annotated[int, typer.Option(help="Worker processes; -1 for all cores.")] = -1,
    backend: Annotated[str, typer.Option(help="loky (processes), threading or dask.")] = "loky",
    scheduler: Annotated[
        str | None, typer.Option(help="With --backend dask: the scheduler's address.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder: results, and what it takes to go on.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many rows to show at each end.")] = 10,
) -> None:
    """Value the rows of a table: how much does each help a model trained on such data?

    The same command with the same --out goes on where it was stopped.
    """
    with _for_people():
        from dshapley.api import value as ds_value
        from dshapley.learners.refit import is_classifier
        from dshapley.models import model_from_name
        from dshapley.stopping import stop_rule
        from dshapley.tables import prepare, read_table, task_of

        _check_top(top)
        rule = stop_rule(draws=draws, precision=precision, seconds=_seconds(time))
        frame = read_table(table)
        estimator = model_from_name(model, task_of(frame, target, asked=task))
        prepared = prepare(
            frame,
            target=target,
            task="classification" if is_classifier(estimator) else "regression",
            test=None if test is None else read_table(test),
            test_size=test_size,
            points=None if points is None else read_table(points),
            id_column=id_column,
            group_column=group,
            drop=drop or [],
            seed=seed,
        )
        for notice in prepared.notices:
            _notice(notice)
        with _workers(backend, scheduler, jobs):
            valuation = ds_value(
                prepared.database,
                model=estimator,
                test=prepared.test,
                points=prepared.points,
                groups=prepared.groups,
                metric=metric,
                min_rows=min_rows,
                path=cast("Any", path),  # a wrong one is an error for people
                m=m,
                weights=weights,
                until=rule,
                seed=seed,
                store=out,
                info={
                    "table": str(table),
                    "target": target,
                    "test_table": test and str(test),
                    "test_size": test_size if test is None else None,
                    "points_table": points and str(points),
                    "id": id_column,
                    "group": group,
                    "drop": drop or [],
                    "model": model,
                    "weights_as": weights,
                },
            )
        if out is not None:
            _write_values(valuation, out)
        _print(valuation, top=top, details=_labels_of(prepared, target))
        if out is not None:
            print(f"values in {out / 'values.csv'} and .parquet; see also: dshapley show {out}")
        else:
            print("nothing was kept; add --out FOLDER to keep values and draws", file=sys.stderr)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    m: Annotated[
        int | None, typer.Option("--m", help="Values for data sets of this size, from 1 to m.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many rows to show at each end.")] = 10,
) -> None:
    """Show the values of a run, finished or not, for its own m or a smaller one."""
    with _for_people():
        from dshapley.runs import METHOD
        from dshapley.store import load
        from dshapley.valuation import estimate

        _check_top(top)
        draws = load(folder)
        if draws.about["method"] != METHOD:
            raise InputError(
                f"{folder} holds a run of {draws.about['method']}; show reads {METHOD}"
            )
        _print(estimate(draws, m=m), top=top)


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder.")] = None,
) -> None:
    """Value 100 rows of the embedded Adult census sample, in about half a minute."""
    with _for_people():
        from dshapley.api import value as ds_value
        from dshapley.datasets import adult_sample
        from dshapley.models import model_from_name
        from dshapley.tables import prepare

        table = adult_sample()
        offered, rest = table.iloc[:100], table.iloc[100:]
        prepared = prepare(
            rest, target="income", task="classification", points=offered, test_size=0.5
        )
        print(
            "Adult census (UCI, CC BY 4.0): who earns more than 50K?\n"
            f"{len(offered)} rows are on offer. What is each worth to a logistic regression\n"
            f"trained on {_DEMO_M} rows like them, by its ROC AUC on {len(prepared.test)} others?\n"
        )
        for notice in prepared.notices:
            _notice(notice)
        with _workers("loky", None, -1):
            valuation = ds_value(
                prepared.database,
                model=model_from_name("logistic", "classification"),
                test=prepared.test,
                points=prepared.points,
                metric="roc_auc",
                m=_DEMO_M,
                weights="1/k",
                draws=_DEMO_DRAWS,
                store=out,
            )
        columns = ["income", "age", "education", "occupation"]
        _print(valuation, top=6, details=offered[columns])
        print("\nNow yours: dshapley value TABLE.csv --target COLUMN --out run/")


_DEMO_M = 100
_DEMO_DRAWS = 1000


@contextlib.contextmanager
def _for_people() -> Iterator[None]:
    """Errors as one line on standard error and exit code 2; warnings as notices."""
    from dshapley.runs import Interrupted

    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except Interrupted as stop:
            print(f"stopped: {stop}", file=sys.stderr)
            raise typer.Exit(130) from None
        except DShapleyError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2) from None


_plain_showwarning = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], *where: Any, **named: Any
) -> None:
    if issubclass(category, DShapleyWarning):
        _notice(str(message))
    else:
        _plain_showwarning(message, category, *where, **named)


def _notice(text: str) -> None:
    print(f"notice: {text}", file=sys.stderr)


@contextlib.contextmanager
def _workers(backend: str, scheduler: str | None, jobs: int) -> Iterator[None]:
    """Where draws are computed: joblib's backends by name."""
    import joblib

    if jobs == 0:
        raise InputError("--jobs 0: give the number of worker processes, or -1 for all cores")
    if backend not in ("loky", "threading", "dask"):
        raise InputError(f"unknown backend {backend!r}: use loky, threading or dask")
    if (backend == "dask") != (scheduler is not None):
        raise InputError("--backend dask and --scheduler ADDRESS go together")
    with contextlib.ExitStack() as stack:
        if backend == "dask":
            stack.enter_context(_dask_client(str(scheduler)))
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=jobs))
        yield


def _dask_client(scheduler: str) -> Any:
    try:
        from dask.distributed import Client
    except ImportError:
        raise InputError("dask is not installed: pip install 'dshapley[dask]'") from None
    try:
        return Client(scheduler, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler answers at {scheduler}: {error}") from None


def _seconds(text: str | None) -> float | None:
    """A duration such as 90s, 10m or 2h in seconds.

    >>> _seconds("90"), _seconds("1.5m"), _seconds("2h")
    (90.0, 90.0, 7200.0)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", text.strip())
    if match is None:
        raise InputError(f"--time {text}: give a duration such as 90s, 10m or 2h")
    return float(match.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[match.group(2)]


def _labels_of(prepared: Prepared, target: str) -> pd.DataFrame | None:
    """The target beside each row valued; bundles have none of their own."""
    import pandas as pd

    return None if prepared.groups is not None else pd.DataFrame({target: prepared.points.y})


def _print(valuation: Valuation, *, top: int, details: pd.DataFrame | None = None) -> None:
    from rich.console import Console

    from dshapley.report import print_valuation

    print_valuation(Console(), valuation, top=top, details=details)


def _check_top(top: int) -> None:
    if top < 1:
        raise InputError(f"--top {top}: show at least one row")


def _write_values(valuation: Valuation, folder: Path) -> None:
    from dshapley.store import write_atomically

    frame = valuation.to_frame().reset_index()
    write_atomically(folder / "values.csv", lambda f: frame.to_csv(f, index=False))
    write_atomically(folder / "values.parquet", lambda f: frame.to_parquet(f, index=False))
