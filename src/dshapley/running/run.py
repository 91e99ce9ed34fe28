"""Missing draws -> workers -> store -> Draws."""

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
from dshapley.inference.estimation import CHAIN_EVERY
from dshapley.inference.valuation import Valuation, estimate
from dshapley.potentials import Potential, check_points, describe, marginals, seeded
from dshapley.running.progress import Progress, progress_bar
from dshapley.running.run_folder import RunFolder
from dshapley.running.stopping import Stop, StopRule, as_rule
from dshapley.running.workers import Result, Task, results
from dshapley.sampling.controls import Controls
from dshapley.sampling.crossfitting import CrossFitted
from dshapley.sampling.design import Design, Draw
from dshapley.sampling.draws import NO_FOLD, Draws
from dshapley.sampling.provenance import About, Context, Identity
from dshapley.sampling.sizes import bands, shown

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


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run. `draws` holds what was finished; the message says how to resume."""

    def __init__(self, message: str, draws: Draws) -> None:
        super().__init__(message)
        self.draws = draws
        self.valuation: Valuation | None = None
        """The values so far, where `dshapley.value` was interrupted after some draws."""


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
    """The marginals of each z of Z in draws 0, 1, 2, ... of the design, until a rule says stop.

    Parameters
    ----------
    U, design, Z
        The potential or a `CrossFitted` one, how sets are drawn, and the points or bundles to
        value.
    stop
        A number of draws or a stop rule (see `dshapley.stopping`).
    store
        A folder. Finished draws are kept there; the same call again resumes where it stopped,
        and more draws extend a finished run. A call with any other parameter is refused.
    n_jobs
        Worker processes, as in joblib: None for 1 (or what `joblib.parallel_config` says, with
        any backend), -1 for all cores. The draws are the same, bit for bit.
    progress
        Show a progress bar; None for wherever standard error is a terminal.
    context
        What is worth keeping in the manifest and does not count for what the run is.
    """
    check_points(U, design.database, name="database")
    check_points(U, Z, name="points")
    rule = as_rule(stop)
    potential = describe(U)
    # Words for people: a run is resumed when they have changed.
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
        controls=task.n_controls,
        folds=U.folds if isinstance(U, CrossFitted) else None,
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
    """A digest by which the other side of a sale knows its own test rows, however encoded."""
    test = getattr(U, "test", None)
    if not isinstance(test, Points) or test.y is None or len(test) < _SECRET:
        return None
    return names_digest(test.y)


@dataclass(frozen=True, kw_only=True)
class _Marginals:
    """The task of one draw."""

    U: Potential | CrossFitted
    design: Design
    Z: Points | Bundles
    controls: dict[int, Controls]
    """For the anchor, by fold; none without it."""

    @classmethod
    def of(cls, U: Potential | CrossFitted, design: Design, Z: Points | Bundles) -> _Marginals:
        """The task of this run's draws."""
        if isinstance(U, CrossFitted) != (design.folds is not None):
            raise InputError("cross-fitting takes both: cross_fitted(U) and Design(..., folds=)")
        folds = [NO_FOLD] if design.folds is None else np.unique(design.folds).tolist()
        of_fold = (
            {f: Controls.of(design.outside(f)) for f in folds} if design.control_variates else {}
        )
        return cls(U=U, design=design, Z=Z, controls=of_fold)

    @property
    def n_controls(self) -> int | None:
        """How many controls each draw has; None without the anchor."""
        return max(map(len, self.controls.values())) if self.controls else None

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
        if not self.controls:
            found[valued] = as_record(marginals(V, draw.S, Z), where)
            return Result(draw.k, found)
        gains, reference = self._with_reference(V, draw, Z)
        found[valued] = as_record(gains, where)
        chain = self._chain(draw.t, seeded(U, draw.seed ^ 1))
        if (
            not np.isfinite(reference)
            or np.isinf(chain).any()
            or np.isnan(chain[1:]).any() != (np.isnan(chain[0]))
        ):
            raise DrawError(f"{where} failed: U of a set drawn for the anchor is not a number")
        controls = np.zeros(self.n_controls or 0)
        own = self.controls[draw.fold](draw.S.y)
        controls[: len(own)] = own  # where a fold has all rows of a class there are fewer
        return Result(draw.k, found, reference, chain, controls)

    def _with_reference(self, U: Potential, draw: Draw, Z: Points | Bundles) -> tuple[Array, float]:
        """The marginals of Z, and the mean marginal of points of the database, for one S."""
        whole = isinstance(self.Z, Points) and self.Z.key == self.design.database.key
        if whole:
            gains = marginals(U, draw.S, Z)
            return gains, float(gains.mean())
        R = self.design.reference(draw.t, max(FEWEST_REFERENCES, min(_MOST, len(self.Z) // 20)))
        if isinstance(Z, Bundles):
            return marginals(U, draw.S, Z), float(marginals(U, draw.S, R).mean())
        # Together, so that S is trained on once.
        gains = marginals(U, draw.S, Z + R)
        return gains[: len(Z)], float(gains[len(Z) :].mean())

    def _chain(self, t: int, U: Potential) -> Floats:
        """In every so many draws, U of nested sets of 0, 1, 3, 7, ..., m points."""
        sizes = bands(self.design.m) - 1
        if t % CHAIN_EVERY:
            return np.full(len(sizes), np.nan)
        B = self.design.chain(t)
        return np.array([float(U(B.take(slice(0, n)))) for n in sizes])


_SECRET = 64
"""A digest of fewer labels could be undone by trying all that there are."""
FEWEST_REFERENCES, _MOST = 20, 100
"""Of reference points: a twentieth of the points valued, but between these."""


def as_record(gains: Array, where: str) -> NDArray[np.float32]:
    """Marginals as they are kept; `where` names the draw in an error."""
    if np.abs(gains).max(initial=0.0) > np.finfo(np.float32).max:
        raise DrawError(f"{where} failed: marginals beyond 3e38 cannot be kept; rescale U")
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
    """`task(t)` for t = 0, 1, 2, ..., from the store where it is there, until a rule says stop.

    The rule sees the draws in order, whatever the order they were computed in. `begun` is the
    record of no draw.
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
        raise Interrupted(_how_to_go_on(len(record), folder), record.draws()) from None
    finally:
        if folder is not None:
            folder.flush()
    if folder is not None and len(stored) > len(record):
        warn(
            f"{folder.folder} holds {len(stored):,} draws; these values are of the first "
            f"{len(record):,}, as asked"
        )
    return record.draws()


def _check_identity(identity: Identity) -> None:
    for name, value in identity.named.items():
        if UNIDENTIFIED in str(value):
            raise InputError(
                f"{name} ({value}) cannot be kept in a run folder, since another could not be "
                "told from it; give the potential a method describe() that returns a dictionary "
                "of plain values"
            )


def _reliability(draws: Draws) -> float:
    """Of the values so far; NaN while there are points that no draw has valued."""
    return estimate(draws).reliability if draws.all_valued else np.nan


def _expected(rule: StopRule, draws: Draws, seconds: float) -> float | None:
    """The number of draws that the rule foresees, if it does."""
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
    """Append the draws that follow to the record until the rule says stop."""
    where = {int(t): i for i, t in enumerate(stored.t)}
    columns = stored.columns()
    next_report, seconds = 0.0, list[float]()
    for t in itertools.count(len(record)):
        if t in where:
            row = {name: column[where[t]] for name, column in columns.items()}
        else:
            result = next(missing, None)
            if result is None:  # the rule's own limit
                return
            if result.t != t:
                raise DrawError(f"draw {result.t} came back where draw {t} was due: not stored")
            row = result._asdict()
            seconds.append(result.seconds)
            if len(seconds) == _TRIED:
                _say_if_long(sum(seconds) / _TRIED / workers, rule)
        record.append(row)
        if t not in where and folder is not None:
            folder.add(row)  # writes now and then: after the record, which an interrupt counts
        draws, now = record.draws(), time.monotonic()
        if report is not None and now > next_report and t not in where:
            expected = _expected(rule, draws, now - started)
            report(t + 1, _reliability(draws), expected)
            took = time.monotonic() - now
            next_report = now + max(0.25, 20 * took)  # a look reads every marginal
        if rule(draws, now - started):
            return


_TRIED, _ANSWER, _LONG = 4, 100, 600.0
"""After the first few draws their time tells whether an answer, which takes about a hundred, takes
longer than these seconds."""


def _say_if_long(seconds: float, rule: StopRule) -> None:
    """Warn where a hundred draws take long, with what would be quicker."""
    draws = min(_ANSWER, getattr(rule, "limit", None) or _ANSWER)
    if draws * seconds > _LONG:
        share = max(float(f"{300 / (_ANSWER * seconds):.1g}"), 0.001)
        warn(
            f"{draws} draws will take about {duration(draws * seconds)}: a smaller m (--m) is "
            f"quicker, and measuring a share of {share:g} of the points (p, --p) brings a hundred "
            "draws in about 5 minutes"
        )


class _Record:
    """Draws in order of t, growing."""

    def __init__(self, run: Draws) -> None:
        self._run = run
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

    def draws(self) -> Draws:
        return self._run.of({name: part[: self._size] for name, part in self._columns.items()})


def _how_to_go_on(n: int, folder: RunFolder | None) -> str:
    if n == 0:
        return "no draw was finished yet"
    if folder is None:
        return f"{_count(n)} finished; name a folder (--out, store=) to keep them and resume later"
    return f"{_count(n)} kept in {folder.folder}; run the same command again to resume"


def _count(n: int) -> str:
    return f"{n} draw is" if n == 1 else f"{n} draws are"
