"""Missing draws -> workers -> store -> Draws."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshapley.design import Design
from dshapley.errors import DrawError, InputError
from dshapley.identity import UNIDENTIFIED
from dshapley.points import Array, Bundles, Points
from dshapley.potentials import Potential, check_points, describe, marginals, seeded
from dshapley.progress import Progress, progress_bar
from dshapley.stopping import FixedDraws, StopRule
from dshapley.store import RunFolder
from dshapley.valuation import Draws, inclusion_factors
from dshapley.workers import Result, Task, results

__all__ = ["METHOD", "Interrupted", "as_record", "gather", "run"]


METHOD = "distributional Shapley"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run. `draws` holds what was finished; the message says how to go on."""

    def __init__(self, message: str, draws: Draws) -> None:
        super().__init__(message)
        self.draws = draws


def run(
    U: Potential,
    design: Design,
    Z: Points | Bundles,
    *,
    until: StopRule | int,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    info: Mapping[str, Any] | None = None,
) -> Draws:
    """The marginals of each z of Z in draws 0, 1, 2, ... of the design, until a rule says stop.

    Parameters
    ----------
    U, design, Z
        The potential, how sets are drawn, and the points (or bundles) to value.
    until
        A number of draws or a stop rule (see `dshapley.stopping`).
    store
        A folder. Finished draws are kept there; the same call again goes on where it stopped,
        and more draws extend a finished run. A call with any other parameter is refused.
    n_jobs
        Worker processes, as in joblib: None for 1 (or what `joblib.parallel_config` says, with
        any backend), -1 for all cores. The draws are the same, bit for bit.
    progress
        Show a progress bar; None for wherever standard error is a terminal.
    info
        Anything worth keeping in the manifest; it does not count for what the run is.
    """
    check_points(U, design.database, name="database")
    check_points(U, Z, name="points")
    about = describe(U)
    # Words for people: a run goes on when they have changed.
    reason = {name: about.pop(name) for name in list(about) if name.endswith(".reason")}
    identity = {
        "method": METHOD,
        "m": design.m,
        "seed": design.seed,
        "weights": _shown(design.weights),
        "database": design.database.fingerprint(),
        "points": Z.fingerprint(),
        **about,
    }
    return gather(
        _Marginals(U, design, Z),
        Z,
        weights=design.weights,
        identity=identity,
        until=until,
        store=store,
        n_jobs=n_jobs,
        progress=progress,
        info={**(info or {}), **reason},
    )


@dataclass(frozen=True)
class _Marginals:
    """The task of one draw."""

    U: Potential
    design: Design
    Z: Points | Bundles

    def __call__(self, t: int) -> Result:
        draw = self.design.draw(t)
        where = f"draw {t} of seed {self.design.seed} (k = {draw.k}, so |S| = {draw.k - 1})"
        try:
            gains = marginals(seeded(self.U, draw.seed), draw.S, self.Z)
        except Exception as error:
            raise DrawError(f"{where} failed: {error}") from error
        return draw.k, as_record(gains, where)


def as_record(gains: Array, where: str) -> NDArray[np.float32]:
    """Marginals as they are kept; `where` names the draw in an error."""
    if np.abs(gains).max(initial=0.0) > np.finfo(np.float32).max:
        raise DrawError(f"{where} failed: marginals beyond 3e38 cannot be kept; rescale U")
    return gains.astype(np.float32)


def _shown(weights: Array) -> str:
    """Size weights as a person tells them apart: the ends, and a digest of all."""
    digest = hashlib.blake2b(weights.tobytes(), digest_size=8).hexdigest()
    return f"{weights[0]:.4g} (k = 1) ... {weights[-1]:.4g} (k = {len(weights)}), {digest}"


def gather(
    task: Task,
    Z: Points | Bundles,
    *,
    weights: Array,
    identity: Mapping[str, Any],
    until: StopRule | int,
    store: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    info: Mapping[str, Any] | None = None,
) -> Draws:
    """`task(t)` for t = 0, 1, 2, ..., from the store where it is there, until a rule says stop.

    The rule sees the draws in order, whatever the order they were computed in.
    """
    rule = FixedDraws(int(until)) if isinstance(until, int | np.integer) else until
    rows = Z.sizes if isinstance(Z, Bundles) else np.ones(len(Z), dtype=np.int64)
    header = {"ids": np.asarray(Z.ids), "rows": rows, "weights": weights}
    info = {**(info or {}), "until": repr(rule)}
    folder = None
    if store is not None:
        _check_identity(identity)
        folder = RunFolder(store, identity=identity, header=header, info=info)
    record = _Record(header, {**info, **identity})
    stored = folder.stored() if folder is not None else record.draws()
    have = set(stored.t.tolist())
    limit = getattr(rule, "limit", None)
    ts = (t for t in (itertools.count() if limit is None else range(limit)) if t not in have)
    try:
        with progress_bar(progress) as report, results(task, ts, n_jobs) as missing:
            _fill(record, stored, missing, rule, folder, report)
    except KeyboardInterrupt:
        raise Interrupted(_how_to_go_on(len(record), folder), record.draws()) from None
    finally:
        if folder is not None:
            folder.flush()
    return record.draws()


def _check_identity(identity: Mapping[str, Any]) -> None:
    for name, value in identity.items():
        if UNIDENTIFIED in str(value):
            raise InputError(
                f"{name} ({value}) cannot be kept in a run folder, since another could not be "
                "told from it; give the potential a method describe() that returns a dictionary "
                "of plain values"
            )


def _fill(
    record: _Record,
    stored: Draws,
    missing: Iterator[Result],
    rule: StopRule,
    folder: RunFolder | None,
    report: Progress | None,
) -> None:
    """Append draws 0, 1, 2, ... to the record until the rule says stop."""
    where = {int(t): i for i, t in enumerate(stored.t)}
    started = time.monotonic()
    reported = 0.0
    for t in itertools.count():
        if t in where:
            k, row = int(stored.k[where[t]]), stored.marginals[where[t]]
        else:
            result = next(missing, None)
            if result is None:  # the rule's own limit
                return
            k, row = result
            if folder is not None:
                folder.add(t, k, row)
        record.append(t, k, row)
        draws, seconds = record.draws(), time.monotonic() - started
        if report is not None and seconds - reported > 0.25 and t not in where:
            expected = rule.expected(draws, seconds) if hasattr(rule, "expected") else None
            report(t + 1, record.largest_stderr(), expected)
            reported = time.monotonic() - started
        if rule(draws, seconds):
            return


class _Record:
    """Draws in order of t, growing; with running sums for the progress line."""

    def __init__(self, header: Mapping[str, Array], about: Mapping[str, Any]) -> None:
        self._header = header
        self._about = about
        n = len(header["ids"])
        self._t = np.empty(16, np.int64)
        self._k = np.empty(16, np.int64)
        self._marginals = np.empty((16, n), np.float32)
        self._size = 0
        self._factors = inclusion_factors(header["weights"], len(header["weights"]))
        self._sum = np.zeros(n)
        self._sum_squares = np.zeros(n)

    def __len__(self) -> int:
        return self._size

    def append(self, t: int, k: int, row: NDArray[np.float32]) -> None:
        if self._size == len(self._t):
            self._t, self._k, self._marginals = (
                np.concatenate([part, np.empty_like(part)])
                for part in (self._t, self._k, self._marginals)
            )
        i = self._size
        self._t[i], self._k[i], self._marginals[i] = t, k, row
        self._size += 1
        gains = row * self._factors[k - 1]
        self._sum += gains
        self._sum_squares += gains**2

    def largest_stderr(self) -> float:
        """The largest standard error now, in one pass over running sums: for show only."""
        n = self._size
        if n < 2:
            return float("nan")
        variance = (self._sum_squares - self._sum**2 / n) / (n - 1)
        return float(np.sqrt(max(variance.max(), 0.0) / n))

    def draws(self) -> Draws:
        n = self._size
        return Draws(
            self._t[:n], self._k[:n], self._marginals[:n],
            self._header["weights"], self._header["ids"], self._header["rows"], self._about,
        )  # fmt: skip


def _how_to_go_on(n: int, folder: RunFolder | None) -> str:
    if n == 0:
        return "no draw was finished yet"
    if folder is None:
        return f"{_count(n)} finished; give store=FOLDER (--out) to keep them and go on later"
    return f"{_count(n)} kept in {folder.folder}; repeat the same command to go on"


def _count(n: int) -> str:
    return f"{n} draw is" if n == 1 else f"{n} draws are"
