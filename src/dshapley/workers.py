"""Pure tasks computed by joblib's workers, in order. The only place with parallelism."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
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
from typing import Any, NamedTuple, TypeAlias

import joblib
import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from dshapley.errors import DrawError, InputError, warn
from dshapley.points import Floats

__all__ = ["Result", "Task", "results"]


class Result(NamedTuple):
    """What a task has found out in its draw."""

    k: int
    marginals: NDArray[Any]
    """One for each point."""
    reference: float = float("nan")
    chain: Floats | None = None
    controls: Floats | None = None
    """These three for the anchor; see `dshapley.draws.Anchor`."""
    seconds: float = float("nan")


Task: TypeAlias = Callable[[int], Result]
"""t -> its result: a pure function, so that anyone may compute it, and again."""

_MOST_LOSSES = 3

_LARGE = 31 << 20
"""Bytes; glibc learns from arrays of up to 32 MiB."""


@contextlib.contextmanager
def results(task: Task, ts: Iterable[int], n_jobs: int | None) -> Iterator[Iterator[Result]]:
    """`task(t)` for each t in order, computed ahead by workers; given up when the block ends."""
    stream = _surviving(_Shared(task), iter(ts), n_jobs)
    with _one_blas_thread:
        try:
            yield stream
        finally:
            stream.close()


def _surviving(shared: _Shared, ts: Iterator[int], n_jobs: int | None) -> Generator[Result]:
    """The results in order; where workers are lost, what they had in hand is computed again.

    Lost is a process killed for its memory, a machine gone, data gone with it. Any other error
    is the caller's.
    """
    in_hand: deque[int] = deque()

    def calls(again: list[int]) -> Iterator[Any]:
        for t in itertools.chain(again, ts):
            in_hand.append(t)
            yield joblib.delayed(_work)(shared, t)

    losses = 0
    while True:
        again = list(in_hand)
        in_hand.clear()
        stream = _stream(calls(again), n_jobs)
        try:
            for result in stream:
                in_hand.popleft()
                losses = 0
                yield result
            return
        except pickle.PicklingError as error:
            raise InputError(
                f"the potential or the points cannot be sent to other processes ({error}); use "
                "n_jobs=1, or joblib's threads"
            ) from error
        except (Exception, asyncio.CancelledError) as error:
            if not _is_loss(error):
                raise
            losses += 1
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            if losses == _MOST_LOSSES:
                raise DrawError(
                    f"the workers failed {losses} times in a row, perhaps for lack of memory; "
                    f"use fewer of them. The last time: {reason}"
                ) from error
            warn(f"workers were lost ({reason}); their draws are computed again")
        finally:
            with warnings.catch_warnings():
                # Work ahead of a rule that then says stop is lost by intent.
                warnings.filterwarnings("ignore", message=".*tasks", category=UserWarning)
                stream.close()


def _is_loss(error: BaseException) -> bool:
    """Whether workers are gone: loky's and the standard library's errors, and dask's."""
    return isinstance(error, BrokenExecutor | asyncio.CancelledError | CancelledError) or type(
        error
    ).__module__.startswith("distributed")


def _stream(calls: Iterator[Any], n_jobs: int | None) -> Generator[Result]:
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
        # Processes are started here, and inherit what is ignored. Ctrl-C is for this process,
        # which ends its workers; they would only fill the screen with tracebacks.
        with _ignoring_interrupts() if joblib.effective_n_jobs(n_jobs) > 1 else nullcontext():
            stream: Generator[Result] = parallel(calls)
        return stream
    return _in_rounds(calls, n_jobs)


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_rounds(calls: Iterator[Any], n_jobs: int | None) -> Generator[Result]:
    """The same, for backends that only return lists (ray, multiprocessing)."""
    with joblib.Parallel(n_jobs=n_jobs) as parallel:
        while some := list(itertools.islice(calls, 4 * joblib.effective_n_jobs(n_jobs))):
            yield from parallel(some)


@dataclass(frozen=True)
class _Shared:
    """What all draws of a run have in common: the potential and the data."""

    task: Task

    def __sizeof__(self) -> int:
        # Dask sends an argument to each worker once if it is large, and else with every call. It
        # goes by this number, which for an object does not count what it refers to.
        return 1 << 20


def _work(shared: _Shared, t: int) -> Result:
    _keep_freed_memory()
    with _one_blas_thread:
        started = time.perf_counter()
        result = shared.task(t)
        return result._replace(seconds=time.perf_counter() - started)


@functools.cache
def _keep_freed_memory() -> None:
    """Let this process use freed memory again instead of asking the system for fresh pages.

    Of large arrays, glibc returns those to the system that are larger than any freed before, and a
    worker's data lies in files: without this it spends a third of its time on empty pages.
    """
    np.empty(_LARGE, dtype=np.uint8)


class _OneBlasThread:
    """Holds BLAS and OpenMP to one thread while a draw is computed.

    The number of threads changes the last bits of a sum, and workers that each start a thread
    per core slow each other down. Several draws may run in one process (joblib's threads, a dask
    worker's). BLAS has one setting for the process: the first draw in sets it, the last one out
    puts it back. OpenMP has one for each thread.
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
        # Finding the loaded libraries takes milliseconds: again only when more was imported.
        if len(sys.modules) != self._modules:
            self._pools = threadpoolctl.ThreadpoolController()
            self._modules = len(sys.modules)
        return self._pools


_one_blas_thread = _OneBlasThread()
