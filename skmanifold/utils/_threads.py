"""Parallel execution of nogil kernels in a pool of threads, and contexts of long work."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from threading import Lock

import numpy as np
from joblib import cpu_count
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector, unless it is disabled already."""
    enabled = gc.isenabled()
    try:  # at once, because an interrupt may come at any time
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Replace a SystemError by the KeyboardInterrupt that caused it.

    To return an array, a kernel runs a few lines of Python (numba's ``_numba_unpickle``), in which a signal can be
    handled. The kernel ignores the exception. Python then detects a result together with an exception and raises a
    SystemError, whose cause is another SystemError or the interrupt.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise


_controllers: dict[int, ThreadpoolController] = {}  # at most one entry, by the number of loaded modules
_lock = Lock()
_limits = ExitStack()  # of all contexts that are open
_limited: set[tuple[int, str | None]] = set()  # the numbers of loaded modules and the APIs of these limits
_n_open = 0


@contextmanager
def limit_threads(user_api: str | None) -> Iterator[None]:
    """Context manager in which the libraries of one API ("blas" or "openmp"), or all with None, run in one thread.

    A limit applies to the whole process. Contexts of several threads may overlap: limits end with the last of these.

    `threadpool_limits` searches for libraries at each call, which takes more than a millisecond. Here they are searched
    for only if modules were imported since the last call.
    """
    global _n_open
    n_modules = len(sys.modules)
    with _lock:
        if n_modules not in _controllers:
            _controllers.clear()
            _controllers[n_modules] = ThreadpoolController()
        if (n_modules, user_api) not in _limited:
            _limits.enter_context(_controllers[n_modules].limit(limits=1, user_api=user_api))
            _limited.add((n_modules, user_api))
        _n_open += 1
    try:
        yield
    finally:
        with _lock:
            _n_open -= 1
            if not _n_open:
                _limited.clear()
                _limits.close()


def count_threads(n_jobs: int | None) -> int:
    """The number of threads that `n_jobs` stands for, as in joblib, in any process and with any backend.

    `joblib.effective_n_jobs` counts processes by default, and warns and returns 1 where a process cannot start others.
    """
    backend, configured = get_active_backend()
    n_jobs = configured if n_jobs is None else n_jobs
    if n_jobs == 0 or n_jobs is None or getattr(backend, "uses_threads", False):
        return backend.effective_n_jobs(n_jobs)
    return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)


class Workers:
    """A pool of threads for kernels that release the GIL.

    The tasks do not depend on the number of workers, and no two tasks write to the same memory, so the result is the
    same for every `n_jobs`. A task should take at least a millisecond. Use it as a context manager.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib: None is 1 (or the value of a surrounding ``parallel_config``), -1 uses all cores.
    """

    def __init__(self, n_jobs: int | None = None):
        self.n_workers = count_threads(n_jobs)
        self._pool = ThreadPoolExecutor(self.n_workers, "skmanifold") if self.n_workers > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc_info) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, function: Callable, tasks: Iterable[tuple]) -> list:
        """Call ``function(*task)`` for every task; the results are in the order of the tasks."""
        tasks = list(tasks)
        if self._pool is None or len(tasks) < 2:
            return [function(*task) for task in tasks]
        futures = [self._pool.submit(function, *task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


ONE = Workers(1)


def split_by_task(task: np.ndarray) -> list[tuple[int, int]]:
    """The (start, stop) of each run of equal numbers in `task`, which is sorted; one empty run if `task` is empty."""
    cuts = np.flatnonzero(task[1:] != task[:-1]) + 1
    return list(pairwise([0, *cuts.tolist(), len(task)]))


def split_range(n: int, size: int) -> list[tuple[int, int]]:
    """Consecutive (start, stop) parts of ``range(n)`` of length `size`; the last one may be shorter."""
    return [(start, min(start + size, n)) for start in range(0, n, size)]
