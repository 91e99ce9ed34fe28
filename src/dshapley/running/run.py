"""A run: compute the draws that are missing, store them, and stop when a rule says so."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Bundles, Floats, Points, names_digest
from dshapley.errors import DrawError, InputError, warn
from dshapley.formatting import duration
from dshapley.identity import UNIDENTIFIED
from dshapley.inference.estimation import NESTED_EVERY
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.potentials import (
    ModelPotential,
    Potential,
    check_points,
    describe,
    marginals,
    seeded,
)
from dshapley.running.progress import Progress, progress_bar
from dshapley.running.run_folder import RunFolder
from dshapley.running.stopping import Stop, StopRule, as_rule
from dshapley.running.workers import Result, Task, results
from dshapley.sampling.controls import LabelControls
from dshapley.sampling.crossfitting import CrossFitted
from dshapley.sampling.design import Design, Draw
from dshapley.sampling.draws import NO_FOLD, Draws
from dshapley.sampling.draws_file import EVIDENCE
from dshapley.sampling.provenance import About, Context, Identity
from dshapley.sampling.sizes import bands, shown
from dshapley.sampling.witness import Witness

__all__ = [
    "FEWEST_REFERENCES",
    "METHOD",
    "Interrupted",
    "as_record",
    "gather",
    "labels_of_test",
    "run",
]


METHOD = "distributional Shapley"
"""The name of the method in the manifest of a run."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `draws` holds the finished draws; the message says how to resume."""

    def __init__(self, message: str, draws: Draws) -> None:
        super().__init__(message)
        self.draws = draws
        self.valuation: Valuation | None = None
        """The values so far, if `dshapley.value` was interrupted after enough draws."""


def run(
    U: Potential | CrossFitted,
    design: Design,
    Z: Points | Bundles,
    *,
    stop: StopRule | Stop | int,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    context: Context | None = None,
) -> Draws:
    """The marginals of each z of Z in draws 0, 1, 2, ... of the design, until a rule stops the run.

    Parameters
    ----------
    U, design, Z
        The potential or a `CrossFitted` one, how sets are drawn, and the points or bundles to
        value.
    stop
        A number of draws or a stop rule (see `dshapley.stopping`).
    store
        A run folder, which keeps finished draws. The same call resumes an interrupted run, and a
        call for more draws extends a finished one. A call with any other parameter changed is
        refused.
    n_jobs
        The number of worker processes, as in joblib: None for 1 (or what `joblib.parallel_config`
        says, with any backend), -1 for all cores. The draws are the same, bit for bit.
    progress
        None for a progress bar in a terminal or a notebook, and elsewhere a line on standard error
        now and then after a minute. True for the same at once, False for nothing.
    context
        What is worth keeping in the manifest although it does not identify the run.
    """
    check_points(U, design.database, name="database")
    check_points(U, Z, name="points")
    rule = as_rule(stop)
    potential = describe(U)
    # Reasons are texts for people and do not identify the run, so they may change on resuming.
    reasons = {
        name: str(potential.pop(name)) for name in list(potential) if name.endswith(".reason")
    }
    identity = Identity(
        method=METHOD,
        m=design.m,
        seed=design.seed,
        weights=shown(design.weights),
        balanced=bool(design.balanced),
        control_variates=bool(design.control_variates),
        database=design.database.fingerprint(),
        points=Z.fingerprint(),
        ids=names_digest(Z.ids),
        potential=potential,
    )
    task = _Marginals.of(U, design, Z)
    begun = Draws.none(
        Z,
        weights=design.weights,
        balanced=bool(design.balanced),
        n_label_controls=task.n_label_controls,
        folds=U.folds if isinstance(U, CrossFitted) else None,
        asked=None if task.witness is None else task.witness.nothing(),
    )
    if hasattr(U, "warm_up"):
        U.warm_up(design.database, Z)
    return gather(
        task,
        begun,
        identity=identity,
        until=rule,
        store=store,
        n_jobs=n_jobs,
        progress=progress,
        context=replace(
            context or Context(),
            database_rows=len(design.database),
            reasons=reasons,
            test_labels=labels_of_test(U),
            stop=repr(rule),
        ),
    )


def labels_of_test(U: object) -> str | None:
    """A digest of the test labels, however encoded, or None.

    With it, the other party of a sale recognises its own test rows.
    """
    test = getattr(U, "test", None)
    if not isinstance(test, Points) or test.y is None or len(test) < _SECRET:
        return None
    return names_digest(test.y)


@dataclass(frozen=True, kw_only=True)
class _Marginals:
    """The function that computes draw t."""

    U: Potential | CrossFitted
    design: Design
    Z: Points | Bundles
    label_controls: dict[int, LabelControls]
    """The label controls of each fold; empty if the run keeps no control variates."""
    witness: Witness | None
    """Which models are asked about the points they were not trained on; None if none is."""

    @classmethod
    def of(cls, U: Potential | CrossFitted, design: Design, Z: Points | Bundles) -> _Marginals:
        """The function that computes the draws of this run."""
        if isinstance(U, CrossFitted) != (design.folds is not None):
            raise InputError("cross-fitting needs both cross_fitted(U) and Design(..., folds=)")
        folds = [NO_FOLD] if design.folds is None else np.unique(design.folds).tolist()
        of_fold = (
            {f: LabelControls.of(design.outside(f)) for f in folds}
            if design.control_variates
            else {}
        )
        witness = None
        model = U.U if isinstance(U, CrossFitted) else U
        if isinstance(model, ModelPotential) and isinstance(Z, Points):
            witness = Witness.of(design.database, Z, design.weights)
        return cls(U=U, design=design, Z=Z, label_controls=of_fold, witness=witness)

    @property
    def n_label_controls(self) -> int | None:
        """The number of label controls of a draw; None without control variates."""
        return max(map(len, self.label_controls.values())) if self.label_controls else None

    def __call__(self, t: int) -> Result:
        draw = self.design.draw(t)
        where = f"draw {t} of seed {self.design.seed} (k = {draw.k}, so |S| = {draw.k - 1})"
        try:
            return self._result(draw, where)
        except DrawError:
            raise
        except Exception as error:
            raise DrawError(f"{where} failed: {error}") from error

    def _result(self, draw: Draw, where: str) -> Result:
        Z, valued = self.Z, np.ones(len(self.Z), dtype=bool)
        if isinstance(self.U, CrossFitted):
            valued, Z = self.U.outside(self.Z, draw.fold)
            U: Potential = self.U.on(draw.t)
        else:
            U = self.U
        found = np.full(len(self.Z), np.nan, dtype=np.float32)
        V = seeded(U, draw.seed)
        answers = self._answers(V, draw)
        if not self.label_controls:
            found[valued] = as_record(marginals(V, draw.S, Z), where)
            return Result(draw.k, found, answers=answers)
        gains, reference = self._with_reference(V, draw, Z)
        found[valued] = as_record(gains, where)
        nested = self._nested(draw.t, seeded(U, draw.seed ^ 1))
        if (
            not np.isfinite(reference)
            or np.isinf(nested).any()
            or np.isnan(nested[1:]).any() != (np.isnan(nested[0]))
        ):
            raise DrawError(f"{where} failed: U of a set for the control variates is not finite")
        controls = np.zeros(self.n_label_controls or 0)
        own = self.label_controls[draw.fold](draw.S.y)
        controls[: len(own)] = own  # fewer if one fold has all rows of a class
        return Result(draw.k, found, reference, nested, controls, answers)

    def _answers(self, V: Potential, draw: Draw) -> Array | None:
        """What the model of S says of the points that it was not trained on, if it is asked."""
        if self.witness is None or not self.witness.asks(draw.t, len(draw.S)):
            return None
        assert isinstance(V, ModelPotential)
        # All points are asked about, not only the unseen: learners keep tables of the same rows.
        outputs = V.answers(draw.S, self.witness.points, self.witness.labels)
        return self.witness.answer(outputs, self.witness.unseen(draw.rows))

    def _with_reference(self, U: Potential, draw: Draw, Z: Points | Bundles) -> tuple[Array, float]:
        """The marginals of Z, and the mean marginal of the reference sample, for one S."""
        whole = isinstance(self.Z, Points) and self.Z.key == self.design.database.key
        if whole:
            gains = marginals(U, draw.S, Z)
            return gains, float(gains.mean())
        R = self.design.reference(draw.t, max(FEWEST_REFERENCES, min(_MOST, len(self.Z) // 20)))
        if isinstance(Z, Bundles):
            return marginals(U, draw.S, Z), float(marginals(U, draw.S, R).mean())
        # One call for both, so that the model of S is trained only once.
        gains = marginals(U, draw.S, Z + R)
        return gains[: len(Z)], float(gains[len(Z) :].mean())

    def _nested(self, t: int, U: Potential) -> Floats:
        """U of nested sets of 0, 1, 3, 7, ..., m points; NaN except in every so many draws."""
        sizes = bands(self.design.m) - 1
        if t % NESTED_EVERY:
            return np.full(len(sizes), np.nan)
        B = self.design.nested(t)
        return np.array([float(U(B.take(slice(0, n)))) for n in sizes])


_SECRET = 64
"""The fewest labels of a digest. A digest of fewer could be undone by trying all labels."""
FEWEST_REFERENCES, _MOST = 20, 100
"""The least and the largest size of a reference sample. Between these it is a twentieth of the
points valued.
"""


def as_record(gains: Array, where: str) -> NDArray[np.float32]:
    """The marginals as float32; `where` names the draw in an error."""
    if np.abs(gains).max(initial=0.0) > np.finfo(np.float32).max:
        raise DrawError(f"{where} failed: marginals beyond 3e38 cannot be kept: rescale U")
    return gains.astype(np.float32)


def gather(
    task: Task,
    begun: Draws,
    *,
    identity: Identity,
    until: StopRule | int,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    context: Context | None = None,
) -> Draws:
    """`task(t)` for t = 0, 1, 2, ..., read from the store if present, until a rule stops the run.

    The rule sees the draws in order, whichever order they were computed in. `begun` is an empty
    record of the run.
    """
    rule = as_rule(until)
    begun = replace(begun, about=About(identity=identity, context=context or Context()))
    folder = None
    if store is not None:
        _check_identity(identity)
        folder = RunFolder(store, begun)
    stored = folder.stored() if folder is not None else begun
    record = _Record(begun)
    have = set(stored.t.tolist())
    limit = getattr(rule, "limit", None)
    ts = (t for t in (itertools.count() if limit is None else range(limit)) if t not in have)
    clock = time.monotonic()
    try:
        with progress_bar(progress) as report, results(task, ts, n_jobs) as missing:
            workers = joblib.effective_n_jobs(n_jobs)
            _fill(record, stored, missing, rule, folder, report, clock, workers)
    except KeyboardInterrupt:
        raise Interrupted(_how_to_resume(len(record), folder), record.whole()) from None
    finally:
        if folder is not None:
            folder.flush()
    if folder is not None and len(stored) > len(record):
        warn(
            f"{folder.folder} holds {len(stored):,} draws, but this call stops after "
            f"{len(record):,}: the values use only the first {len(record):,}"
        )
    return record.whole()


def _check_identity(identity: Identity) -> None:
    for name, value in identity.named.items():
        if UNIDENTIFIED in str(value):
            raise InputError(
                f"{name} ({value}) cannot be kept in a run folder, because a changed one would "
                "look the same: give the potential a method describe() that returns a dictionary "
                "of plain values"
            )


def _reliability(draws: Draws) -> float:
    """The reliability of the values so far; NaN until every point has been valued."""
    return estimate(draws).reliability if draws.all_valued else np.nan


def _expected(rule: StopRule, draws: Draws, seconds: float) -> float | None:
    """The number of draws that the rule expects; None if it expects none."""
    if not draws.all_valued or not hasattr(rule, "expected"):
        return None
    found: float | None = rule.expected(draws, seconds)
    return found


def _fill(
    record: _Record,
    stored: Draws,
    missing: Iterator[Result],
    rule: StopRule,
    folder: RunFolder | None,
    report: Progress | None,
    started: float,
    workers: int,
) -> None:
    """Append draws to the record, in order, until the rule stops the run."""
    where = {int(t): i for i, t in enumerate(stored.t)}
    columns, answers = stored.columns(), _answers_of(stored)
    next_report, seconds = 0.0, list[float]()
    for t in itertools.count(len(record)):
        if t in where:
            row = {name: column[where[t]] for name, column in columns.items()} | answers.get(t, {})
        else:
            result = next(missing, None)
            if result is None:  # the rule's limit is reached
                return
            if result.t != t:
                raise DrawError(f"draw {result.t} came back where draw {t} was due: not stored")
            row = result._asdict()
            seconds.append(result.seconds)
            if len(seconds) == _TRIED:
                _say_if_long(sum(seconds) / _TRIED / workers, rule)
        record.append(row)
        if t not in where and folder is not None:
            folder.add(row)  # after the record, because an interrupt reports its length
        draws, now = record.draws(), time.monotonic()
        if report is not None and now > next_report and t not in where and report.due():
            expected = _expected(rule, draws, now - started)
            report(t + 1, _reliability(draws), expected)
            took = time.monotonic() - now
            next_report = now + max(0.25, 20 * took)  # a report reads every marginal
        if rule(draws, now - started):
            return


def _answers_of(stored: Draws) -> dict[int, dict[str, Any]]:
    """The evidence of each stored draw that has some."""
    evidence = stored.evidence
    if evidence is None:
        return {}
    return {t: {"answers": evidence.answers[i]} for i, t in enumerate(evidence.t.tolist())}


_TRIED, _ANSWER, _LONG = 4, 100, 600.0
"""After `_TRIED` draws a warning is given if `_ANSWER` draws, about as many as an answer takes,
would take longer than `_LONG` seconds.
"""


def _say_if_long(seconds: float, rule: StopRule) -> None:
    """Warn if a hundred draws would take long, and say what would be quicker."""
    draws = min(_ANSWER, getattr(rule, "limit", None) or _ANSWER)
    if draws * seconds > _LONG:
        share = max(float(f"{300 / (_ANSWER * seconds):.1g}"), 0.001)
        warn(
            f"{draws} draws will take about {duration(draws * seconds)}: a smaller m (--m) is "
            f"quicker, and measuring a share of {share:g} of the points (--share) brings a "
            "hundred draws in about 5 minutes"
        )


class _Record:
    """A growing record of draws in order of t."""

    def __init__(self, run: Draws) -> None:
        self._run = run
        self._answers: dict[str, list[Any]] = {name: [] for name in EVIDENCE}
        self._columns = {
            name: np.concatenate([column, np.empty((16, *column.shape[1:]), column.dtype)])
            for name, column in run.columns().items()
        }
        self._size = len(run)

    def __len__(self) -> int:
        return self._size

    def append(self, row: Mapping[str, Any]) -> None:
        for name, column in self._columns.items():
            if self._size == len(column):
                self._columns[name] = column = np.concatenate([column, np.empty_like(column)])
            column[self._size] = row[name]
        self._size += 1
        if row.get("answers") is not None:
            for name, answers in self._answers.items():
                answers.append(row[name])

    def draws(self) -> Draws:
        """The record so far, without the evidence, which no stop rule needs."""
        return self._run.of({name: part[: self._size] for name, part in self._columns.items()})

    def whole(self) -> Draws:
        """The record so far, with the evidence."""
        evidence = self._run.evidence
        if evidence is None or not self._answers["t"]:
            return self.draws()
        found = {
            name: np.array(rows, dtype=getattr(evidence, name).dtype)
            for name, rows in self._answers.items()
        }
        return replace(self.draws(), evidence=replace(evidence, **found))


def _how_to_resume(n: int, folder: RunFolder | None) -> str:
    if n == 0:
        return "no draw was finished yet"
    if folder is None:
        return (
            f"{_count(n)} finished; give a run folder (--out, store=) to keep them and resume later"
        )
    return f"{_count(n)} kept in {folder.folder}; run the same command again to resume"


def _count(n: int) -> str:
    return f"{n} draw is" if n == 1 else f"{n} draws are"
