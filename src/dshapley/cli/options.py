"""The options of the commands, and the `Question` that those which value a table ask."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dshapley.errors import MOST_M, InputError

if TYPE_CHECKING:
    from dshapley.api import Request
    from dshapley.data.tables import Prepared
    from dshapley.data.targets import Task
    from dshapley.inference.valuation import Valuation
    from dshapley.running.stopping import Stop, StopRule
    from dshapley.sampling.provenance import Source

__all__ = ["Question", "seconds_of", "with_question", "workers"]

_YEAR = 366 * 86_400
MOST_DRAWS = 10**9
MOST_MONEY = 1e15
"""Larger amounts lose cents, since a float has 15 digits."""

DATA, FITTING = "More about the data", "How models are trained"
SAMPLING, RUNNING = "Which sets are drawn", "How the run is computed"
"""Panels of --help for options that are not needed every day."""

Table = Annotated[Path, typer.Argument(help="The database: a .csv, .tsv or .parquet file.")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Test = Annotated[Path | None, typer.Option(help="A table of rows that models are scored on.")]
TestSize = Annotated[
    float | None,
    typer.Option(
        help="Set this share of the rows aside as test rows.",
        show_default="cross-fitting, which gives every row a value",
        rich_help_panel=DATA,
    ),
]
PointsTable = Annotated[
    Path | None,
    typer.Option(
        help="A table of the rows to value.",
        show_default="the rows of the database",
        rich_help_panel=DATA,
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="The column that names the rows.", show_default="their number"),
]
Group = Annotated[
    str | None, typer.Option(help="Value rows that agree in this column as one bundle.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out; may be repeated.", rich_help_panel=DATA),
]
TaskName = Annotated[
    str,
    typer.Option(
        help="classification, regression, or auto: decided by the target.", rich_help_panel=DATA
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="The model: logistic, ridge, linear, knn, naive_bayes, svm, tree, forest, adaboost or "
        "boosting; module:factory for your own; or auto: logistic for classes, ridge for numbers."
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="The metric: accuracy, balanced_accuracy, f1, roc_auc, log_score or brier for "
        "classes, neg_mse or r2 for numbers; or a scorer of scikit-learn, such as f1_macro. May be "
        "repeated: models are trained once, and each metric gets a run folder inside --out.",
        show_default="accuracy for classes, neg_mse for numbers",
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--m",
        max=MOST_M,
        help="The data set size that the values are for.",
        show_default="the size of the database, at most 1000; 200 for models that are retrained",
    ),
]
MinRows = Annotated[
    int,
    typer.Option(
        max=MOST_M,
        help="Sets of fewer rows get a constant predictor instead of a fitted model.",
        rich_help_panel=FITTING,
    ),
]
RetrainOption = Annotated[
    str,
    typer.Option(
        "--retrain",
        help="Retrain the model for every marginal: never, always, or auto: only if necessary.",
        rich_help_panel=FITTING,
    ),
]
PreprocessIn = Annotated[
    str,
    typer.Option(
        "--preprocess",
        help="Fit the first steps of your own Pipeline within each set, or once on the database.",
        rich_help_panel=FITTING,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        help="Size weights: auto, uniform (Algorithm 1), 1/k (Algorithm 2), or k^-a, as k^-0.5.",
        rich_help_panel=SAMPLING,
    ),
]
Balanced = Annotated[
    bool | None,
    typer.Option(
        "--balanced/--independent",
        help="Draw balanced set sizes, or independent ones.",
        show_default="balanced with --weights auto",
        rich_help_panel=SAMPLING,
    ),
]
ControlVariates = Annotated[
    bool | None,
    typer.Option(
        "--control-variates/--no-control-variates",
        help="Use control variates, which lower the error, or none.",
        show_default="used with --weights auto",
        rich_help_panel=SAMPLING,
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        "--share",
        help="Measure this share of the rows and predict the others.",
        show_default="all rows, or fewer if there are many thousands",
        rich_help_panel=SAMPLING,
    ),
]
Draws = Annotated[
    int | None,
    typer.Option(max=MOST_DRAWS, help="Stop after this many draws.", rich_help_panel=RUNNING),
]
Precision = Annotated[
    float | None,
    typer.Option(help="Stop when every value's 95 % confidence interval is within ± this."),
]
Time = Annotated[str | None, typer.Option(help="Stop after this time, such as 90s, 10m or 2h.")]
Seed = Annotated[int, typer.Option(max=2**63 - 1, help="The random seed.", rich_help_panel=RUNNING)]
Jobs = Annotated[
    int, typer.Option(max=1024, help="The number of worker processes; -1 for all cores.")
]
Backend = Annotated[
    str, typer.Option(help="loky (processes), threading or dask.", rich_help_panel=RUNNING)
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="The scheduler's address, for --backend dask.", rich_help_panel=RUNNING),
]
Out = Annotated[
    Path | None,
    typer.Option(help="The run folder: it keeps the results and what is needed to resume."),
]
SourceOption = Annotated[
    Path | None,
    typer.Option(
        help="The run's table, or the folder of its tables.", show_default="where they were"
    ),
]
Top = Annotated[int, typer.Option(help="How many rows to show at each end.")]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What to value, and how: its fields are the options that `value` and `plan` share."""

    table: Table
    target: Target
    test: Test = None
    id_column: Id = None
    group: Group = None
    model: Model = "auto"
    metric: Metric = None
    m: Size = None
    jobs: Jobs = -1
    out: Out = None
    test_size: TestSize = None
    points: PointsTable = None
    drop: Drop = None
    task: TaskName = "auto"
    min_rows: MinRows = 1
    retrain: RetrainOption = "auto"
    preprocess: PreprocessIn = "each"
    weights: Weights = "auto"
    balanced: Balanced = None
    control_variates: ControlVariates = None
    share: Share = None
    seed: Seed = 0
    backend: Backend = "loky"
    scheduler: Scheduler = None

    def prepared(self, notice: Callable[[str], None]) -> tuple[Any, Prepared]:
        """The estimator and the data; `notice` gets a sentence for each change to the data."""
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
            drop=self.drop or [],
            seed=self.seed,
        )
        if self.id_column is not None and self.group is None:
            check_distinct(prepared.points.ids, self.id_column)
        for text in prepared.notices:
            notice(text)
        return estimator, prepared

    def folder_of(self, metric: str) -> Path | None:
        """The run folder of a metric: --out, or a folder in it if there are several metrics."""
        from dshapley.running.metric_folders import folder_name

        several = self.out is not None and len(self.metric or []) > 1
        return self.out / folder_name(metric) if several and self.out is not None else self.out

    def valuations(
        self, estimator: Any, prepared: Prepared, stop: StopRule | Stop
    ) -> dict[str, Valuation]:
        """The values by each metric, computed until the rule says stop."""
        from dshapley.api import answers

        with self.workers():
            return answers(self.request(estimator, prepared, stop))

    def request(self, estimator: Any, prepared: Prepared, stop: StopRule | Stop) -> Request:
        """The same question without options."""
        from dshapley.api import Fitting, Request, Sampling
        from dshapley.learners.refit import is_classifier

        return Request(
            database=prepared.database,
            model=estimator,
            test="cross" if prepared.test is None else prepared.test,
            points=prepared.points,
            groups=prepared.groups,
            metric=self.metric[0] if self.metric and len(self.metric) == 1 else self.metric,
            m=self.m,
            sampling=Sampling(
                weights=self.weights,
                balanced=self.balanced,
                control_variates=self.control_variates,
                share=self.share,
            ),
            stop=stop,
            # An unknown word is refused with an error for people when the model is made.
            fitting=Fitting(
                min_rows=self.min_rows,
                retrain=cast("Any", self.retrain),
                preprocess=cast("Any", self.preprocess),
            ),
            seed=self.seed,
            store=self.out,
            source=self.source("classification" if is_classifier(estimator) else "regression"),
        )

    def workers(self) -> contextlib.AbstractContextManager[None]:
        """The context in which draws are computed by the workers asked for."""
        return workers(self.backend, self.scheduler, self.jobs)

    def source(self, task: Task) -> Source:
        """The tables and how they were prepared, as the run folder keeps them."""
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
            drop=tuple(self.drop or []),
            min_rows=self.min_rows,
            preprocess=cast("Any", self.preprocess),
            retrain=cast("Any", self.retrain),
        )


def with_question(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of a `Question`, which becomes the first argument, and its own."""
    shared = list(inspect.signature(Question, eval_str=True).parameters.values())
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        asked = {option.name: given.pop(option.name) for option in shared}
        command(Question(**asked), **given)

    # Typer reads the options of a command from these two.
    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in (*shared, *own)]
    with_options.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    with_options.__annotations__ = {option.name: option.annotation for option in options}
    return with_options


@contextlib.contextmanager
def workers(backend: str, scheduler: str | None, jobs: int) -> Iterator[None]:
    """The context in which draws are computed by these workers: joblib's backends by name."""
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
        raise InputError(
            f"no dask scheduler answers at {scheduler} ({error}): check --scheduler"
        ) from None


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
        raise InputError(f"--time {text[:40]}: give at most one year")
    return seconds
