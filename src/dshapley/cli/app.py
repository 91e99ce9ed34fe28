"""The command line: parses and prints; no mathematics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import dshapley.cli.options as options
from dshapley.cli.console import check_top, console, for_people, notice, write_table
from dshapley.cli.market import add_market
from dshapley.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from dshapley.api import Fitting, Sampling
    from dshapley.inference.valuation import Valuation

__all__ = ["app", "command"]

app = typer.Typer(
    help="What is a data point worth? Distributional Shapley values with error bars.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(args: Sequence[str]) -> int:
    """Run the command that these words ask for; its exit code."""
    try:
        app(list(args), prog_name="dshapley")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


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
    table: options.Table,
    target: options.Target,
    test: options.Test = None,
    id_column: options.Id = None,
    group: options.Group = None,
    model: options.Model = "auto",
    metric: options.Metric = None,
    m: options.Size = None,
    time: options.Time = None,
    precision: options.Precision = None,
    jobs: options.Jobs = -1,
    out: options.Out = None,
    top: options.Top = 10,
    test_size: options.TestSize = None,
    points: options.PointsTable = None,
    drop: options.Drop = None,
    task: options.TaskName = "auto",
    min_rows: options.MinRows = 1,
    retrain: options.RetrainOption = "auto",
    preprocess: options.PreprocessIn = "each",
    weights: options.Weights = "auto",
    balanced: options.Balanced = None,
    control_variates: options.ControlVariates = None,
    share: options.Share = None,
    draws: options.Draws = None,
    seed: options.Seed = 0,
    backend: options.Backend = "loky",
    scheduler: options.Scheduler = None,
) -> None:
    """Value the rows of a table: how much does each help a model trained on such data?

    Run the same command again to resume an interrupted run.
    """
    with for_people():
        from dshapley.running.run import Interrupted
        from dshapley.running.stopping import Stop

        check_top(top)
        rule = Stop(draws=draws, precision=precision, seconds=options.seconds_of(time))
        question = options.Question(
            table=table,
            target=target,
            test=test,
            test_size=test_size,
            points=points,
            id_column=id_column,
            group=group,
            drop=drop or [],
            task=task,
            model=model,
            metric=metric,
            m=m,
            fitting=_fitting(min_rows, retrain, preprocess),
            sampling=_sampling(weights, balanced, control_variates, share),
            seed=seed,
            jobs=jobs,
            backend=backend,
            scheduler=scheduler,
            out=out,
        )
        estimator, prepared = question.prepared(notice)

        columns = _MOST_COLUMNS if console().width >= _WIDE else _FEW_COLUMNS
        shown = None if prepared.rows is None else prepared.rows.iloc[:, :columns]

        def answer(valuation: Valuation) -> None:
            if out is not None:
                _write_values(valuation, out)
            _print(valuation, top=top, details=shown)
            if out is not None:
                print(f"values in {out / 'values.csv'} and .parquet; see also: dshapley show {out}")
            else:
                print(
                    "nothing was kept; add --out FOLDER to keep values and draws", file=sys.stderr
                )

        try:
            valuation = question.valuation(estimator, prepared, rule)
        except Interrupted as stop:
            if stop.valuation is not None:
                answer(stop.valuation)
            raise
        answer(valuation)


@app.command()
def plan(
    table: options.Table,
    target: options.Target,
    test: options.Test = None,
    id_column: options.Id = None,
    group: options.Group = None,
    model: options.Model = "auto",
    metric: options.Metric = None,
    m: options.Size = None,
    precision: Annotated[
        list[float] | None,
        typer.Option(help="This much on every value (95 %); may be repeated."),
    ] = None,
    jobs: options.Jobs = -1,
    out: options.Out = None,
    test_size: options.TestSize = None,
    points: options.PointsTable = None,
    drop: options.Drop = None,
    task: options.TaskName = "auto",
    min_rows: options.MinRows = 1,
    retrain: options.RetrainOption = "auto",
    preprocess: options.PreprocessIn = "each",
    weights: options.Weights = "auto",
    balanced: options.Balanced = None,
    control_variates: options.ControlVariates = None,
    share: options.Share = None,
    draws: Annotated[
        int | None,
        typer.Option(
            max=options.MOST_DRAWS,
            help="How many draws to plan from; else 50.",
            rich_help_panel=options.RUNNING,
        ),
    ] = None,
    seed: options.Seed = 0,
    backend: options.Backend = "loky",
    scheduler: options.Scheduler = None,
) -> None:
    """Say how many draws, and how long, a precision takes: from a few draws.

    With --out the draws are kept, and `dshapley value` with the same options continues from them.
    """
    with for_people():
        import joblib

        from dshapley.reporting.text import print_plans
        from dshapley.running.planning import plan as planned
        from dshapley.running.stopping import Precision, Stop

        rules = [Precision(within) for within in precision or []]
        question = options.Question(
            table=table,
            target=target,
            test=test,
            test_size=test_size,
            points=points,
            id_column=id_column,
            group=group,
            drop=drop or [],
            task=task,
            model=model,
            metric=metric,
            m=m,
            fitting=_fitting(min_rows, retrain, preprocess),
            sampling=_sampling(weights, balanced, control_variates, share),
            seed=seed,
            jobs=jobs,
            backend=backend,
            scheduler=scheduler,
            out=out,
        )
        estimator, prepared = question.prepared(notice)
        few = draws or _FEW
        valuation = question.valuation(estimator, prepared, Stop(draws=few))
        record = valuation.draws
        assert record is not None
        wanted = [rule.within for rule in rules] or _worth_asking(valuation)
        with options.workers(backend, scheduler, jobs):
            n_workers = joblib.effective_n_jobs(None)
        plans = [planned(record, within) for within in wanted]
        print_plans(console(), plans, n_draws=len(record), n_workers=n_workers)
        if record.folds is not None:
            print(
                "This is the error of the draws. Without --test, other test rows would change the "
                "values too, whatever the number of draws; `value` says by how much."
            )


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    table: Annotated[Path, typer.Argument(help="Rows that were never run.")],
    source: options.SourceOption = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file for the values.")
    ] = None,
    top: options.Top = 10,
) -> None:
    """Predict the values of new rows from those of a run, with errors, without any draw."""
    with for_people():
        from dshapley.reporting.text import print_prediction
        from dshapley.running.source_tables import predicted

        check_top(top)
        if out is not None and out.suffix not in (".csv", ".parquet"):
            raise InputError(f"--out {out}: name a .csv or .parquet file")
        valuation, prediction = predicted(folder, table, source=source)
        if out is not None:
            write_table(prediction.to_frame().reset_index(), out)
        print_prediction(console(), prediction, valuation.interpolation, top=top)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="DIR")],
    m: Annotated[
        int | None, typer.Option("--m", help="Values for data sets of this size, from 1 to m.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write values.csv and values.parquet to this folder.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many rows to show at each end.")] = 10,
) -> None:
    """Show the values of a run, finished or not, for its own m or a smaller one."""
    with for_people():
        from dshapley.inference.valuation import estimate
        from dshapley.running.run import METHOD
        from dshapley.running.run_folder import load_run

        check_top(top)
        draws = load_run(folder)
        about = draws.about
        if about.identity.method != METHOD:
            raise InputError(
                f"{folder} holds a run of {about.identity.method}; show reads {METHOD}"
            )
        if about.context.share != 1:
            notice(
                f"these are the {len(draws.ids):,} values that were measured; the predictions of "
                f"the others are in {folder / 'values.csv'}"
            )
        if out is not None and out.resolve() == folder.resolve():
            raise InputError(
                f"--out {out}: name a folder other than the run's; its values.csv is what "
                "dshapley value wrote"
            )
        valuation = estimate(draws, m=m)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            _write_values(valuation, out)
        _print(valuation, top=top)
        if out is not None:
            print(f"values in {out / 'values.csv'} and .parquet")


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder.")] = None,
) -> None:
    """Value 100 rows of the embedded Adult census sample, in about half a minute."""
    with for_people():
        from dshapley.api import value as ds_value
        from dshapley.data.datasets import adult_sample
        from dshapley.data.tables import prepare
        from dshapley.learners.by_name import model_from_name

        table = adult_sample()
        offered, rest = table.iloc[:100], table.iloc[100:]
        prepared = prepare(
            rest, target="income", task="classification", points=offered, test_size=0.5
        )
        assert prepared.test is not None
        print(
            "Adult census (UCI, CC BY 4.0): who earns more than 50K?\n"
            f"{len(offered)} rows are on offer. What is each worth to a logistic regression\n"
            f"trained on {_DEMO_M} rows like them, by its ROC AUC on {len(prepared.test)} others?\n"
        )
        for text in prepared.notices:
            notice(text)
        with options.workers("loky", None, -1):
            valuation = ds_value(
                prepared.database,
                model=model_from_name("logistic", "classification"),
                test=prepared.test,
                points=prepared.points,
                metric="roc_auc",
                m=_DEMO_M,
                store=out,
            )
        columns = ["income", "age", "education", "occupation"]
        _print(valuation, top=6, details=offered[columns])
        print("\nNow yours: dshapley value TABLE.csv --target COLUMN --out run/")


_DEMO_M = 100


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="figure1, figure2, supplement1, cifar10, cost, mislabelled, figure3, shift; or all"
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), small (minutes), or full: the paper's sizes.")
    ] = "small",
    out: Annotated[Path, typer.Option(help="The folder for rows, figures and claims.")] = Path(
        "reproduction"
    ),
    table: Annotated[
        Path | None, typer.Option(help="A table of yours in the place of the medical one.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="With --table: the column to predict.")] = None,
    jobs: options.Jobs = -1,
) -> None:
    """Reproduce an experiment of the paper: rows, a figure, and whether its claims hold.

    Run the same command again to resume it. The exit code is 1 where a claim fails, at
    scales that can tell.
    """
    with for_people():
        from dshapley.data.datasets import divided
        from dshapley.data.tables import read_table
        from dshapley.experiments import NAMES, WITH_TABLE, experiment
        from dshapley.experiments.reproduce import reproduce as reproduced
        from dshapley.experiments.shared.work import Work
        from dshapley.formatting import duration
        from dshapley.reporting.text import print_claims

        if (table is None) != (target is None):
            raise InputError("--table FILE and --target COLUMN go together")
        chosen = NAMES if name == "all" else (name,)
        own = None
        if table is not None and target is not None:
            if not set(chosen) & set(WITH_TABLE):
                raise InputError(f"--table: {name} has no task that a table could stand in for")
            divided(read_table(table), target=target)  # an error now, not after other tasks
            own = (table, target)
        kept = out / "work" / scale
        works = {
            n: Work(scale=cast("Any", scale), folder=kept / n, n_jobs=None, say=_doing, table=own)
            for n in chosen
        }
        minutes = sum(experiment(n).MINUTES[work.scale] for n, work in works.items())
        print(f"about {duration(60 * minutes)} on two cores; Ctrl-C stops it, to be resumed")
        failed = False
        for n, work in works.items():
            with options.workers("loky", None, jobs):
                found = reproduced(n, work, out)
            print_claims(console(), n, experiment(n), found.claims)
            verdicts = [claim.verdict for claim in found.claims]
            counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("holds", "not shown", "fails"))
            print(f"{n}: {counts}; rows, figure and claims in {out / n}.csv, .png and .json")
            failed |= any(claim.verdict == "fails" for claim in found.claims)
        if scale == "smoke":
            print("smoke shows that the experiments run; whether a claim holds takes --scale small")
        elif failed:
            raise typer.Exit(1)


def _fitting(min_rows: int, retrain: str, preprocess: str) -> Fitting:
    from dshapley.api import Fitting

    # A wrong word is an error for people, where models are made.
    return Fitting(
        min_rows=min_rows, retrain=cast("Any", retrain), preprocess=cast("Any", preprocess)
    )


def _sampling(
    weights: str, balanced: bool | None, control_variates: bool | None, share: float | None
) -> Sampling:
    from dshapley.api import Sampling

    return Sampling(
        weights=weights, balanced=balanced, control_variates=control_variates, share=share
    )


def _doing(text: str) -> None:
    print(f"  {text}", file=sys.stderr)


def _worth_asking(valuation: Valuation) -> list[float]:
    """Precisions to plan for, where none is asked: parts of the values' spread, rounded."""
    noise = (valuation.of_draws.stderr**2).mean()
    spread = max(valuation.values.var() - noise, noise) ** 0.5
    return [float(f"{part * spread:.0e}") for part in (1, 0.3, 0.1)]


def _print(valuation: Valuation, *, top: int, details: pd.DataFrame | None = None) -> None:
    from dshapley.reporting.text import print_valuation

    print_valuation(console(), valuation, top=top, details=details)


def _write_values(valuation: Valuation, folder: Path) -> None:
    from dshapley.reporting.findings import class_labels

    ranks = valuation.terms is not None and len(valuation) * valuation.n_draws <= _MOST_RANKED
    frame = valuation.to_frame(ranks=ranks)
    labels = class_labels(valuation)
    if labels is not None:
        frame.insert(0, "label", labels)
    frame = frame.sort_values("value", ascending=False, kind="stable").reset_index()
    for name in ("values.csv", "values.parquet"):
        write_table(frame, folder / name)


_MOST_COLUMNS, _FEW_COLUMNS, _WIDE = 6, 3, 110
"""Shown beside each row: the target and the first columns, fewer where the terminal is narrow."""
_FEW = 50
"""Draws to plan from."""

_MOST_RANKED = 10**8
"""Marginals held at once for rank intervals, which compare each point with every other."""


add_market(app)
