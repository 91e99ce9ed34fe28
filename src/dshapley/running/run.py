"""A run: compute the draws that are missing, store them, and stop when a rule says so."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from dshapley.data.points import Bundles, Points, names_digest
from dshapley.errors import DrawError, InputError, warn
from dshapley.formatting import duration
from dshapley.identity import UNIDENTIFIED
from dshapley.inference.sampled import estimate
from dshapley.inference.valuation import Valuation
from dshapley.potentials import Potential, check_points, describe
from dshapley.running.marginals import Marginals, Tested
from dshapley.running.progress import Progress, progress_bar
from dshapley.running.run_folder import RunFolder
from dshapley.running.stopping import Stop, StopRule, as_rule
from dshapley.running.workers import Result, Results, Task, results
from dshapley.sampling.crossfitting import CrossFitted
from dshapley.sampling.design import Design
from dshapley.sampling.draws import Draws
from dshapley.sampling.draws_file import EVIDENCE
from dshapley.sampling.provenance import About, Context, Identity
from dshapley.sampling.sizes import shown
from dshapley.sampling.test_influence import N_GROUPS, TestInfluence

__all__ = ["METHOD", "Interrupted", "gather", "labels_of_test", "run", "run_each"]


METHOD = "distributional Shapley"
"""The name of the method in the manifest of a run."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `draws` holds the finished draws; the message says how to resume."""

    def __init__(self, message: str, each: Sequence[Draws]) -> None:
        super().__init__(message)
        self.draws = each[0]
        self.each = list(each)
        """The finished draws by each metric; `draws` are those by the first."""
        self.valuation: Valuation | None = None
        """The values so far, if `dshapley.value` was interrupted after enough draws."""
        self.valuations: dict[str, Valuation] = {}
        """The same by each metric."""


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
    return run_each(
        [U], design, Z, stop=stop, stores=None if store is None else [store], n_jobs=n_jobs,
        progress=progress, context=context,
    )[0]  # fmt: skip


def run_each(
    Us: Tested,
    design: Design,
    Z: Points | Bundles,
    *,
    stop: StopRule | Stop | int,
    stores: Sequence[str | Path] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    context: Context | None = None,
    test_rows: bool = False,
) -> list[Draws]:
    """The draws of each of several potentials that differ by their metric, from the same models.

    They are, bit for bit, those of a run of each alone. The stop rule sees the draws of the first.
    `stores` has a run folder for each; a draw is computed for those that lack it. With
    `test_rows`, the first draws are also scored without each group of the test rows, where the
    metric allows it, so that errors include the test rows (`dshapley.sampling.test_groups`).
    """
    for U in Us:
        check_points(U, design.database, name="database")
        check_points(U, Z, name="points")
    rule = as_rule(stop)
    task = Marginals.of(Us, design, Z, test_rows=test_rows)
    begun = Draws.none(
        Z,
        weights=design.weights,
        balanced=bool(design.balanced),
        n_label_controls=task.n_label_controls,
        folds=Us[0].folds if isinstance(Us[0], CrossFitted) else None,
        asked=None if task.witness is None else task.witness.nothing(),
    )
    abouts = [
        _about(U, design, Z, rule, context or Context(), test_rows=groups is not None)
        for U, groups in zip(Us, task.test_groups, strict=True)
    ]
    for U in Us:
        if hasattr(U, "warm_up"):
            U.warm_up(design.database, Z)
    runs = [
        replace(
            begun, about=about,
            test_influence=None if groups is None else TestInfluence.none(len(Z)),
        )
        for about, groups in zip(abouts, task.test_groups, strict=True)
    ]  # fmt: skip
    tracks = [
        _Track(run_, folder) for run_, folder in zip(runs, _folders(stores, runs), strict=True)
    ]
    stored = [set(track.where) for track in tracks]
    partial = set[int]().union(*stored) - stored[0].intersection(*stored)
    lacking = {t: tuple(i for i, ts in enumerate(stored) if t not in ts) for t in partial}
    _gather(replace(task, lacking=lacking), tracks, rule, n_jobs, progress)
    return [track.record.whole() for track in tracks]


def _folders(
    stores: Sequence[str | Path] | None, begun: Sequence[Draws]
) -> Sequence[RunFolder | None]:
    """The run folder of each record, if they are kept."""
    if stores is None:
        return [None] * len(begun)
    for run_ in begun:
        _check_identity(run_.about.identity)
    return [RunFolder(store, run_) for store, run_ in zip(stores, begun, strict=True)]


def _about(
    U: Potential | CrossFitted,
    design: Design,
    Z: Points | Bundles,
    rule: StopRule,
    context: Context,
    *,
    test_rows: bool,
) -> About:
    """What identifies the run of this potential, and what else its manifest keeps."""
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
        options={"test groups": N_GROUPS} if test_rows else {},
        potential=potential,
    )
    context = replace(
        context,
        database_rows=len(design.database),
        reasons=reasons,
        test_labels=labels_of_test(U),
        stop=repr(rule),
    )
    return About(identity=identity, context=context)


def labels_of_test(U: object) -> str | None:
    """A digest of the test labels, however encoded, or None.

    With it, the other party of a sale recognises its own test rows.
    """
    test = getattr(U, "test", None)
    if not isinstance(test, Points) or test.y is None or len(test) < _SECRET:
        return None
    return names_digest(test.y)


_SECRET = 64
"""The fewest labels of a digest. A digest of fewer could be undone by trying all labels."""


def gather(
    task: Task[Result],
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
    begun = replace(begun, about=About(identity=identity, context=context or Context()))
    folder = _folders(None if store is None else [store], [begun])[0]
    track = _Track(begun, folder)
    _gather(_Alone(task), [track], as_rule(until), n_jobs, progress)
    return track.record.whole()


@dataclass(frozen=True)
class _Alone:
    """A task whose results are for one record."""

    task: Task[Result]

    def __call__(self, t: int) -> Results:
        return Results((self.task(t),))


class _Track:
    """A record that grows draw by draw, with its run folder and the draws that this has already."""

    def __init__(self, begun: Draws, folder: RunFolder | None) -> None:
        self.folder = folder
        self.record = _Record(begun)
        self.stored = begun if folder is None else folder.stored()
        self.where = {int(t): i for i, t in enumerate(self.stored.t)}
        self._columns, self._answers = self.stored.columns(), _answers_of(self.stored)
        for t, moved in _moved_of(self.stored).items():
            self._answers[t] = self._answers.get(t, {}) | moved

    def append(self, t: int, result: Result | None) -> None:
        """Append draw t, which is stored already if there is no result."""
        if t in self.where:
            row = {name: column[self.where[t]] for name, column in self._columns.items()}
            self.record.append(row | self._answers.get(t, {}))
            return
        if result is None:
            raise DrawError(f"draw {t} came back without a result: not stored")
        self.record.append(result._asdict())
        if self.folder is not None:
            # after the record, because an interrupt reports its length
            self.folder.add(result._asdict())

    def warn_of_more(self) -> None:
        """Warn if the folder holds more draws than this call has used."""
        if self.folder is not None and len(self.stored) > len(self.record):
            warn(
                f"{self.folder.folder} holds {len(self.stored):,} draws, but this call stops after "
                f"{len(self.record):,}: the values use only the first {len(self.record):,}"
            )


def _gather(
    task: Task[Results],
    tracks: Sequence[_Track],
    rule: StopRule,
    n_jobs: int | None,
    progress: bool | None,
) -> None:
    """Append draws to all records until the rule, which sees the first, stops the run."""
    have = set.intersection(*(set(track.where) for track in tracks))
    limit = getattr(rule, "limit", None)
    ts = (t for t in (itertools.count() if limit is None else range(limit)) if t not in have)
    clock = time.monotonic()
    try:
        with progress_bar(progress) as report, results(task, ts, n_jobs) as missing:
            workers = joblib.effective_n_jobs(n_jobs)
            _fill(tracks, missing, rule, report, clock, workers)
    except KeyboardInterrupt:
        first = tracks[0]
        raise Interrupted(
            _how_to_resume(len(first.record), first.folder, len(tracks)),
            [track.record.whole() for track in tracks],
        ) from None
    finally:
        for track in tracks:
            if track.folder is not None:
                track.folder.flush()
    for track in tracks:
        track.warn_of_more()


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
    tracks: Sequence[_Track],
    missing: Iterator[Results],
    rule: StopRule,
    report: Progress | None,
    started: float,
    workers: int,
) -> None:
    """Append draws to the records, in order, until the rule stops the run."""
    first = tracks[0].record
    next_report, seconds = 0.0, list[float]()
    for t in itertools.count(len(first)):
        each: tuple[Result | None, ...] = (None,) * len(tracks)
        is_new = any(t not in track.where for track in tracks)
        if is_new:
            result = next(missing, None)
            if result is None:  # the rule's limit is reached
                return
            if result.t != t:
                raise DrawError(f"draw {result.t} came back where draw {t} was due: not stored")
            each = tuple(
                None if found is None else found._replace(t=t, seconds=result.seconds)
                for found in result.each
            )
            seconds.append(result.seconds)
            if len(seconds) == _TRIED:
                _say_if_long(sum(seconds) / _TRIED / workers, rule)
        for track, found in zip(tracks, each, strict=True):
            track.append(t, found)
        draws, now = first.draws(), time.monotonic()
        if report is not None and now > next_report and is_new and report.due():
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


def _moved_of(stored: Draws) -> dict[int, dict[str, Any]]:
    """The influence of the test rows in each stored draw that has it."""
    found = stored.test_influence
    if found is None:
        return {}
    return {t: {"moved": found.moved[i]} for i, t in enumerate(found.t.tolist())}


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
        self._of_test: dict[str, list[Any]] = {"t": [], "moved": []}
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
        if row.get("moved") is not None:
            for name, moved in self._of_test.items():
                moved.append(row[name])

    def draws(self) -> Draws:
        """The record so far, without what models were asked besides, which no stop rule needs."""
        return self._run.of({name: part[: self._size] for name, part in self._columns.items()})

    def whole(self) -> Draws:
        """The whole record so far."""
        draws, evidence, of_test = self.draws(), self._run.evidence, self._run.test_influence
        if evidence is not None and self._answers["t"]:
            found = _as_arrays(self._answers, evidence)
            draws = replace(draws, evidence=replace(evidence, **found))
        if of_test is not None and self._of_test["t"]:
            found = _as_arrays(self._of_test, of_test)
            draws = replace(draws, test_influence=TestInfluence(**found))
        return draws


def _as_arrays(rows: Mapping[str, list[Any]], like: Any) -> dict[str, Any]:
    """The lists as arrays of the types that the fields of `like` have."""
    return {name: np.array(part, dtype=getattr(like, name).dtype) for name, part in rows.items()}


def _how_to_resume(n: int, folder: RunFolder | None, n_metrics: int) -> str:
    if n == 0:
        return "no draw was finished yet"
    if folder is None:
        return (
            f"{_count(n)} finished; give a run folder (--out, store=) to keep them and resume later"
        )
    where = folder.folder if n_metrics == 1 else folder.folder.parent
    return f"{_count(n)} kept in {where}; run the same command again to resume"


def _count(n: int) -> str:
    return f"{n} draw is" if n == 1 else f"{n} draws are"
