"""What commands that value a table have in common: options, and the valuation asked for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dshapley.errors import MOST_M, InputError

if TYPE_CHECKING:
    from dshapley.api import Fitting, Sampling
    from dshapley.data.tables import Prepared
    from dshapley.data.targets import Task
    from dshapley.inference.valuation import Valuation
    from dshapley.running.stopping import Stop, StopRule
    from dshapley.sampling.provenance import Source

__all__ = ["Question", "seconds_of", "workers"]

_YEAR = 366 * 86_400
MOST_DRAWS = 10**9
MOST_MONEY = 1e15
"""Beyond it, cents are lost in a float."""

DATA, FITTING = "More about the data", "How models are trained"
SAMPLING, RUNNING = "Which sets are drawn", "How the run goes"
"""Panels of --help for what is not needed every day."""

Table = Annotated[Path, typer.Argument(help="The database: a .csv, .tsv or .parquet file.")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Test = Annotated[Path | None, typer.Option(help="A table to test models on.")]
TestSize = Annotated[
    float | None,
    typer.Option(
        help="A share of the rows to set aside for testing; else each is valued by cross-fitting.",
        rich_help_panel=DATA,
    ),
]
PointsTable = Annotated[
    Path | None,
    typer.Option(
        help="A table of rows to value; else those of the database.", rich_help_panel=DATA
    ),
]
Id = Annotated[
    str | None, typer.Option("--id", help="The column that names the rows; else their number.")
]
Group = Annotated[
    str | None, typer.Option(help="Value rows that agree in this column as one bundle.")
]
Drop = Annotated[
    list[str] | None, typer.Option(help="A column to leave out.", rich_help_panel=DATA)
]
TaskName = Annotated[
    str,
    typer.Option(
        help="classification or regression; else as the target looks.", rich_help_panel=DATA
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="The model: logistic, ridge, linear, knn, naive_bayes, svm, tree, forest, adaboost or "
        "boosting; or module:factory for your own. auto: logistic for classes, ridge for numbers."
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="The metric: accuracy, balanced_accuracy, f1, roc_auc, log_score or brier for "
        "classes, neg_mse or r2 for numbers; or a scorer of scikit-learn, such as f1_macro. "
        "Without it: accuracy or neg_mse."
    ),
]
Size = Annotated[
    int | None,
    typer.Option("--m", max=MOST_M, help="The data set size to value for; else up to 1000."),
]
MinRows = Annotated[
    int,
    typer.Option(
        max=MOST_M,
        help="Sets of fewer rows are not fitted but get a constant predictor.",
        rich_help_panel=FITTING,
    ),
]
RetrainOption = Annotated[
    str,
    typer.Option(
        "--retrain",
        help="Train a model for every marginal: never, always, or auto: where it must be.",
        rich_help_panel=FITTING,
    ),
]
PreprocessIn = Annotated[
    str,
    typer.Option(
        "--preprocess",
        help="For a Pipeline of yours: fit its first steps within each set, or once.",
        rich_help_panel=FITTING,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        help="Size weights: auto, uniform (Algorithm 1), 1/k (Algorithm 2) or k^-a.",
        rich_help_panel=SAMPLING,
    ),
]
Balanced = Annotated[
    bool | None,
    typer.Option(
        "--balanced/--independent",
        help="Balanced set sizes, or independent ones [default: balanced with --weights auto].",
        rich_help_panel=SAMPLING,
    ),
]
ControlVariates = Annotated[
    bool | None,
    typer.Option(
        "--control-variates/--no-control-variates",
        help="Correct for what is known of the sets in advance [default: with --weights auto].",
        rich_help_panel=SAMPLING,
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        "--share",
        help="Measure this share of the rows, predict the others [default: all, if not too many].",
        rich_help_panel=SAMPLING,
    ),
]
Draws = Annotated[
    int | None,
    typer.Option(max=MOST_DRAWS, help="Stop after so many draws.", rich_help_panel=RUNNING),
]
Precision = Annotated[
    float | None,
    typer.Option(help="Stop when every value is known to within this much (95 %)."),
]
Time = Annotated[str | None, typer.Option(help="Stop after so long: 90s, 10m, 2h.")]
Seed = Annotated[
    int,
    typer.Option(max=2**63 - 1, help="The seed of all randomness.", rich_help_panel=RUNNING),
]
Jobs = Annotated[int, typer.Option(max=1024, help="Worker processes; -1 for all cores.")]
Backend = Annotated[
    str, typer.Option(help="loky (processes), threading or dask.", rich_help_panel=RUNNING)
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="With --backend dask: the scheduler's address.", rich_help_panel=RUNNING),
]
Out = Annotated[
    Path | None, typer.Option(help="The run folder: results, and what it takes to resume.")
]
SourceOption = Annotated[
    Path | None,
    typer.Option(help="The run's table, or the folder of its tables [default: where they were]."),
]
Top = Annotated[int, typer.Option(help="How many rows to show at each end.")]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be valued, and how: the options that `value` and `plan` have in common."""

    table: Path
    target: str
    test: Path | None
    test_size: float | None
    points: Path | None
    id_column: str | None
    group: str | None
    drop: Sequence[str]
    task: str
    model: str
    metric: str | None
    m: int | None
    fitting: Fitting
    sampling: Sampling
    seed: int
    jobs: int
    backend: str
    scheduler: str | None
    out: Path | None

    def prepared(self, notice: Callable[[str], None]) -> tuple[Any, Prepared]:
        """The estimator and the data; `notice` is told what was done to these."""
        from dshapley.data.tables import check_distinct, prepare, read_table, task_of
        from dshapley.learners.by_name import model_from_name
        from dshapley.learners.refit import is_classifier

        if self.test is not None and self.test_size is not None:
            raise InputError("--test and --test-size: give one of the two")
        names = [self.id_column, self.group]
        frame = read_table(self.table, text=names)
        estimator = model_from_name(self.model, task_of(frame, self.target, asked=self.task))
        prepared = prepare(
            frame,
            target=self.target,
            task="classification" if is_classifier(estimator) else "regression",
            test=None if self.test is None else read_table(self.test, text=names),
            test_size=self.test_size,
            points=None if self.points is None else read_table(self.points, text=names),
            id_column=self.id_column,
            group_column=self.group,
            drop=self.drop,
            seed=self.seed,
        )
        if self.id_column is not None and self.group is None:
            check_distinct(prepared.points.ids, self.id_column)
        for text in prepared.notices:
            notice(text)
        return estimator, prepared

    def valuation(self, estimator: Any, prepared: Prepared, stop: StopRule | Stop) -> Valuation:
        """The answer, computed until the rule says stop."""
        from dshapley.api import Request, answer
        from dshapley.learners.refit import is_classifier

        request = Request(
            database=prepared.database,
            model=estimator,
            test="cross" if prepared.test is None else prepared.test,
            points=prepared.points,
            groups=prepared.groups,
            metric=self.metric,
            m=self.m,
            sampling=self.sampling,
            stop=stop,
            fitting=self.fitting,
            seed=self.seed,
            store=self.out,
            source=self.source("classification" if is_classifier(estimator) else "regression"),
        )
        with workers(self.backend, self.scheduler, self.jobs):
            return answer(request)

    def source(self, task: Task) -> Source:
        """The tables and how they were made ready, for the run folder."""
        from dshapley.sampling.provenance import Source

        return Source(
            table=str(self.table.resolve()),
            target=self.target,
            task=task,
            model=self.model,
            test_table=None if self.test is None else str(self.test.resolve()),
            test_size=self.test_size,
            points_table=None if self.points is None else str(self.points.resolve()),
            id=self.id_column,
            group=self.group,
            drop=tuple(self.drop),
        )


@contextlib.contextmanager
def workers(backend: str, scheduler: str | None, jobs: int) -> Iterator[None]:
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


def seconds_of(text: str | None) -> float | None:
    """A duration such as 90s, 10m or 2h in seconds.

    >>> seconds_of("90"), seconds_of("1.5m"), seconds_of("2h")
    (90.0, 90.0, 7200.0)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", text.strip())
    if match is None:
        raise InputError(f"--time {text}: give a duration such as 90s, 10m or 2h")
    seconds = float(match.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[match.group(2)]
    if seconds > _YEAR:
        raise InputError(f"--time {text[:40]}: give at most a year")
    return seconds
