"""Parallelism: joblib's workers compute the draws, and the results come back in order.

Draws whose workers are lost are computed again. This is the only module that runs things in
parallel.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import joblib
import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats
from dshapley.errors import DrawError, InputError, warn

__all__ = ["Result", "Results", "Task", "results"]


class Result(NamedTuple):
    """The result of one draw."""

    k: int
    marginals: NDArray[Any]
    """The marginal of each point."""
    reference: float = float("nan")
    nested: Floats | None = None
    label_controls: Floats | None = None
    """`reference`, `nested` and `label_controls` are for control variates; see
    `dshapley.sampling.draws.ControlVariates`.
    """
    answers: Array | None = None
    """A row of `dshapley.sampling.evidence.Evidence.answers`, where S was asked."""
    moved: NDArray[Any] | None = None
    """See `dshapley.sampling.test_influence.TestInfluence`; None where S was not asked."""
    seconds: float = float("nan")
    t: int = -1
    """The number of the draw. The worker sets it, and it is checked before the draw is stored."""


class Results(NamedTuple):
    """The results of one draw for several records."""

    each: tuple[Result | None, ...]
    """The result for each record; None for a record that has the draw."""
    seconds: float = float("nan")
    t: int = -1
    """`seconds` and `t` are as in `Result`."""


R = TypeVar("R", Result, Results)

Task: TypeAlias = Callable[[int], R]
"""t -> its result. A pure function, so any worker may compute it, and compute it again."""

Pool: TypeAlias = Callable[[Iterator[Any]], Generator[Any]]
"""joblib's delayed calls -> their results in order."""

_FEWEST_LOSSES, _PATIENCE = 3, 60.0
"""A run fails after at least this many losses in a row, if no result came for this many seconds."""
_LONGEST_PAUSE = 5.0
"""The most seconds to wait before workers are started again."""
_LOOK, _CLUSTER_PATIENCE = 2.0, 60.0
"""The seconds between two checks of a cluster, and the seconds that it may do nothing. The second
is long, because a cluster also looks idle while data are sent to its workers.
"""

_FROM_TERMINALS = [getattr(signal, n) for n in ("SIGINT", "SIGHUP") if hasattr(signal, n)]
"""The signals that a terminal sends to all processes of a command."""
_CAN_BLOCK = hasattr(signal, "pthread_sigmask")  # not on Windows

_LARGE = 31 << 20
"""Bytes; glibc adapts its threshold to freed arrays of up to 32 MiB."""


@contextlib.contextmanager
def results(task: Task[R], ts: Iterable[int], n_jobs: int | None) -> Iterator[Iterator[R]]:
    """`task(t)` for each t in order, computed ahead by workers, which stop when the block ends."""
    stream = _surviving(_Shared(task), ts, lambda calls: _stream(calls, n_jobs))
    with _one_blas_thread:
        try:
            yield stream
        finally:
            stream.close()


def _surviving(shared: _Shared, ts: Iterable[int], pool: Pool) -> Generator[Any]:
    """The results in order. If workers are lost, their draws are computed again.

    Workers are lost when a process is killed for its memory, or when a machine or its data is gone.
    Any other error is raised.
    """
    unfinished = _Unfinished(ts)
    losses, last_result = 0, time.monotonic()
    while True:
        stream: Generator[Any] | None = None
        try:
            # The first calls are made here, because workers may also be lost while they start.
            stream = pool(joblib.delayed(_work)(shared, t) for t in unfinished.ask())
            for result in stream:
                unfinished.answered(result.t)
                losses, last_result = 0, time.monotonic()
                yield result
                last_result = time.monotonic()  # the caller's own time does not count
            return
        except pickle.PicklingError as error:
            raise InputError(
                f"the potential or the points cannot be sent to other processes ({error}): use "
                "n_jobs=1, or joblib's threads"
            ) from error
        except (Exception, asyncio.CancelledError) as error:
            if not _is_loss(error):
                raise
            losses += 1
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            if losses >= _FEWEST_LOSSES and time.monotonic() - last_result > _PATIENCE:
                raise DrawError(
                    f"the workers failed {losses} times in a row, perhaps for lack of memory: "
                    f"use fewer workers. The last error: {reason}"
                ) from error
            unfinished.lost()
            warn(f"workers were lost ({reason}); their draws are computed again")
        finally:
            with warnings.catch_warnings():
                # joblib warns of discarded tasks, but those beyond the stop are not needed.
                warnings.filterwarnings("ignore", message=".*tasks", category=UserWarning)
                if stream is not None:
                    stream.close()
        time.sleep(min(0.1 * 2**losses, _LONGEST_PAUSE))


class _Unfinished:
    """The numbers of the draws that have no result yet, in order.

    joblib asks for them from its own threads, even threads of a pool that was given up. A lock and
    the number of the attempt keep such a thread from taking a draw that would then be lost.
    """

    def __init__(self, ts: Iterable[int]) -> None:
        self._new = iter(ts)
        self._again: deque[int] = deque()
        self._asked: deque[int] = deque()
        self._attempt = 0
        self._lock = threading.Lock()

    def ask(self) -> Iterator[int]:
        """The draws to compute in this attempt: first those that were lost, then new ones."""
        return self._ask(self._attempt)

    def _ask(self, attempt: int) -> Iterator[int]:
        while True:
            with self._lock:
                if attempt != self._attempt:
                    return
                t = self._again.popleft() if self._again else next(self._new, None)
                if t is None:
                    return
                self._asked.append(t)
            yield t

    def answered(self, t: int) -> None:
        """Note that the oldest draw asked for has its result."""
        with self._lock:
            due = self._asked.popleft()
        if t != due:
            raise DrawError(f"draw {t} came back where draw {due} was due: workers are out of step")

    def lost(self) -> None:
        """Note that none of the draws asked for will get a result from this attempt."""
        with self._lock:
            self._attempt += 1
            self._again.extendleft(reversed(self._asked))
            self._asked.clear()


def _is_loss(error: BaseException) -> bool:
    """Whether the error means that workers are gone: one of loky, the standard library or dask.

    joblib raises TimeoutError when a cluster has no worker for ten seconds.
    """
    lost = BrokenExecutor | asyncio.CancelledError | CancelledError | TimeoutError
    return isinstance(error, lost) or type(error).__module__.startswith("distributed")


def _stream(calls: Iterator[Any], n_jobs: int | None) -> Generator[Any]:
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        if hasattr(backend, "client"):
            return _on_cluster(calls, n_jobs, backend)
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator", **_start_of(backend))
        # Worker processes start here and inherit blocked signals. Ctrl-C and a closed terminal
        # concern this process, which ends its workers; the workers would only print tracebacks.
        with _interrupts_later() if joblib.effective_n_jobs(n_jobs) > 1 else nullcontext():
            stream: Generator[Any] = parallel(calls)
        return stream
    return _in_rounds(calls, n_jobs)


def _on_cluster(calls: Iterator[Any], n_jobs: int | None, backend: Any) -> Generator[Any]:
    """The results from a dask cluster, where waiting for a result may never end.

    A cluster that loses its workers too often stops starting new ones, and a call that was being
    sent when a worker died is forgotten. After some time without workers, or without any pending
    call, waiting therefore ends with an error, which counts as a loss of workers.
    """
    if backend.client.status in ("closing", "closed"):
        raise DrawError(
            "the connection to the dask scheduler is lost: start the scheduler, then run the same "
            "command again to resume"
        )
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    stream: Generator[Any] = parallel(calls)
    over, waiting, stuck = threading.Event(), threading.Event(), threading.Event()

    def watch() -> None:
        well = time.monotonic()
        while not over.wait(_LOOK):
            if not waiting.is_set() or _is_at_work(backend.client):
                well = time.monotonic()
            elif time.monotonic() - well > _CLUSTER_PATIENCE:
                stuck.set()
                parallel.timeout = 0  # joblib reads it before each result

    threading.Thread(target=watch, name="dshapley-cluster", daemon=True).start()
    try:
        while True:
            waiting.set()
            result = next(stream, None)
            waiting.clear()
            if result is None:
                return
            yield result
    except (TimeoutError, multiprocessing.TimeoutError):  # joblib's is the second
        if not stuck.is_set():
            raise
        reason = f"the dask cluster has done nothing for {_CLUSTER_PATIENCE:.0f} seconds"
        raise TimeoutError(reason) from None
    finally:
        over.set()
        stream.close()


def _is_at_work(client: Any) -> bool:
    """Whether a cluster has workers and pending calls of this client."""
    if not client.scheduler_info(n_workers=-1).get("workers"):
        return False
    return any(future.status == "pending" for future in list(client.futures.values()))


def _start_of(backend: Any) -> dict[str, Any]:
    """How worker processes are initialised, for the backend that starts its own."""
    if type(backend).__name__ != "LokyBackend":
        return {}
    return {"initializer": _begin_worker, "initargs": (os.getpid(),)}


@functools.cache
def _begin_worker(parent: int) -> None:
    """Ignore a terminal's signals in this worker process, and end it when its parent is gone.

    A killed parent cannot end its workers, and nothing else would: each worker waits for work on a
    pipe that it holds open itself.
    """
    for number in _FROM_TERMINALS:
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="dshapley-parent", daemon=True).start()


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Block a terminal's signals: for good in new processes, in this one until the block ends.

    Processes inherit blocked signals. In this process another thread may still receive a signal,
    and its handler then runs here, so the handlers only note signals and they are raised again
    at the end.
    """
    if threading.current_thread() is not threading.main_thread() or not _CAN_BLOCK:
        yield  # only the main thread may set signal handlers
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _FROM_TERMINALS}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, frame: received.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FROM_TERMINALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in held.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


def _in_rounds(calls: Iterator[Any], n_jobs: int | None) -> Generator[Any]:
    """The results from backends that only return lists (ray, multiprocessing)."""
    with joblib.Parallel(n_jobs=n_jobs) as parallel:
        while some := list(itertools.islice(calls, 4 * joblib.effective_n_jobs(n_jobs))):
            yield from parallel(some)


@dataclass(frozen=True)
class _Shared:
    """What all draws of a run share: the potential and the data."""

    task: Task[Any]

    def __sizeof__(self) -> int:
        # Dask sends a large argument to each worker once, but a small one with every call. By
        # default the size of an object does not count what it refers to, so it would look small.
        return 1 << 20


def _work(shared: _Shared, t: int) -> Any:
    _keep_freed_memory()
    with _one_blas_thread:
        started = time.perf_counter()
        result = shared.task(t)
        return result._replace(t=t, seconds=time.perf_counter() - started)


@functools.cache
def _keep_freed_memory() -> None:
    """Let this process reuse freed memory instead of asking the system for fresh pages.

    glibc returns a freed array to the system if it is larger than any array freed before. The data
    of a worker lies in files, so it frees no large array early and would spend a third of its time
    on fresh pages. Freeing one large array here prevents that.
    """
    np.empty(_LARGE, dtype=np.uint8)


class _OneBlasThread:
    """Restricts BLAS and OpenMP to one thread while a draw is computed.

    The number of threads changes the last bits of a sum, and workers that each start a thread for
    each core slow each other down. Several draws may run in one process (in joblib's threads or a
    dask worker). BLAS has one setting for the process, so the first draw to enter sets it and the
    last to leave restores it. OpenMP has a setting for each thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._blas: Any = None
        self._openmp = threading.local()
        self._pools: Any = None
        self._modules = 0

    def __enter__(self) -> None:
        with self._lock:
            pools = self._controller()
            if self._inside == 0:
                self._blas = pools.limit(limits=1, user_api="blas")
            self._inside += 1
        self._openmp.__dict__.setdefault("stack", []).append(
            pools.limit(limits=1, user_api="openmp")
        )

    def __exit__(self, *_: object) -> None:
        self._openmp.stack.pop().restore_original_limits()
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._blas.restore_original_limits()

    def _controller(self) -> threadpoolctl.ThreadpoolController:
        # Finding the loaded libraries takes milliseconds, so it is repeated only after imports.
        if len(sys.modules) != self._modules:
            self._pools = threadpoolctl.ThreadpoolController()
            self._modules = len(sys.modules)
        return self._pools


_one_blas_thread = _OneBlasThread()
