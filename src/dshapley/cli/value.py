"""The commands that compute values: value, plan, demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dshapley.cli.options as options
from dshapley.cli.console import check_top, console, for_people, notice, write_values
from dshapley.cli.report import AT_THE_END, write_run_report

if TYPE_CHECKING:
    from dshapley.inference.valuation import Valuation

__all__ = ["demo", "plan", "value"]

_MOST_COLUMNS, _FEW_COLUMNS, _WIDE = 6, 3, 110
"""How many columns are shown beside each row: fewer on a terminal narrower than `_WIDE`."""
_DRAWS_OF_A_PLAN = 50
_DEMO_M = 100


@options.with_question
def value(
    question: options.Question,
    time: options.Time = None,
    precision: options.Precision = None,
    draws: options.Draws = None,
    no_report: Annotated[
        bool,
        typer.Option("--no-report", help="Write no report.", rich_help_panel=options.RUNNING),
    ] = False,
    top: options.Top = 10,
) -> None:
    """Value the rows of a table: how much does each help a model trained on such data?

    Run the same command again to resume an interrupted run.
    """
    with for_people():
        from dshapley.reporting.text import print_in_short, print_valuation
        from dshapley.running.run import Interrupted
        from dshapley.running.stopping import Stop

        check_top(top)
        rule = Stop(draws=draws, precision=precision, seconds=options.seconds_of(time))
        estimator, prepared = question.prepared(notice)
        columns = _MOST_COLUMNS if console().width >= _WIDE else _FEW_COLUMNS
        details = None if prepared.rows is None else prepared.rows.iloc[:, :columns]

        def show(valuations: dict[str, Valuation], *, report: bool) -> None:
            folders = {name: question.folder_of(name) for name in valuations}
            for name, out in folders.items():
                if out is not None:
                    write_values(valuations[name], out)
            first, *others = valuations.items()
            print_valuation(console(), first[1], top=top, details=details)
            for name, valuation in others:
                print_in_short(console(), name, valuation)
            if question.out is None:
                print(
                    "nothing was kept; add --out FOLDER to keep values and draws", file=sys.stderr
                )
            for out in filter(None, folders.values()):
                print(f"values in {out / 'values.csv'} and .parquet; see also: dshapley show {out}")
                if report and not no_report:
                    _report(out, question.jobs, AT_THE_END / len(folders))
                elif not no_report:
                    print(f"a report of these values: dshapley report {out}")

        try:
            valuations = question.valuations(estimator, prepared, rule)
        except Interrupted as stop:
            if stop.valuations:
                show(stop.valuations, report=False)
            raise
        show(valuations, report=True)


def _report(out: Path, jobs: int, seconds: float) -> None:
    """Write the report of a run. The values are safe by then, so its failure is only a notice."""
    try:
        path = write_run_report(out, jobs=jobs, most_seconds=seconds)
    except Exception as error:  # whatever it is, the answer is already there
        notice(f"there is no report ({type(error).__name__}: {error}); the values are complete")
    else:
        print(f"report in {path}: open it in a browser, or send it to someone")


@options.with_question
def plan(
    question: options.Question,
    precision: Annotated[
        list[float] | None,
        typer.Option(
            help="The precision to plan for: every value's 95 % confidence interval is within ± "
            "this; may be repeated.",
            show_default="parts of the spread of the values",
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            max=options.MOST_DRAWS,
            help="The number of draws to plan from.",
            rich_help_panel=options.RUNNING,
        ),
    ] = _DRAWS_OF_A_PLAN,
) -> None:
    """Estimate from a few draws how many draws a precision takes, and how long.

    With --out the draws are kept, and `dshapley value` with the same options continues from them.
    """
    with for_people():
        import joblib

        from dshapley.reporting.text import print_plans
        from dshapley.running import planning
        from dshapley.running.stopping import Precision, Stop

        rules = [Precision(within) for within in precision or []]
        estimator, prepared = question.prepared(notice)
        valuations = question.valuations(estimator, prepared, Stop(draws=draws))
        with question.workers():
            n_workers = joblib.effective_n_jobs(None)
        for name, valuation in valuations.items():
            record = valuation.draws
            assert record is not None
            wanted = [rule.within for rule in rules] or _parts_of_the_spread(valuation)
            plans = [planning.plan(record, within) for within in wanted]
            if len(valuations) > 1:
                print(f"{name}:")
            print_plans(console(), plans, record, n_workers=n_workers)


def _parts_of_the_spread(valuation: Valuation) -> list[float]:
    """Precisions to plan for by default: the spread of the values, 0.3 and 0.1 of it, rounded."""
    noise = (valuation.of_draws.stderr**2).mean()
    spread = max(valuation.values.var() - noise, noise) ** 0.5
    return [float(f"{part * spread:.0e}") for part in (1, 0.3, 0.1)]


def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder.")] = None,
) -> None:
    """Value 100 rows of the embedded Adult census sample, in a few seconds."""
    with for_people():
        from dshapley import api
        from dshapley.data.datasets import adult_sample
        from dshapley.data.tables import prepare
        from dshapley.learners.by_name import model_from_name
        from dshapley.reporting.text import print_valuation

        table = adult_sample()
        offered, rest = table.iloc[:100], table.iloc[100:]
        prepared = prepare(
            rest, target="income", task="classification", points=offered, test_size=0.5
        )
        assert prepared.test is not None
        print(
            "Adult census (UCI, CC BY 4.0): who earns more than 50K?\n"
            f"{len(offered)} rows are valued: how much does each help a logistic regression that "
            "is\n"
            f"trained on up to {_DEMO_M} rows like them? The metric is ROC AUC on "
            f"{len(prepared.test)} other rows.\n"
        )
        for text in prepared.notices:
            notice(text)
        with options.workers("loky", None, -1):
            valuation = api.value(
                prepared.database,
                model=model_from_name("logistic", "classification"),
                test=prepared.test,
                points=prepared.points,
                metric="roc_auc",
                m=_DEMO_M,
                store=out,
            )
        details = offered[["income", "age", "education", "occupation"]]
        print_valuation(console(), valuation, top=6, details=details)
        print("\nNow value your own table: dshapley value TABLE.csv --target COLUMN --out run/")
