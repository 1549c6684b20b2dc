"""The one way to run in parallel: nogil kernels over a fixed list of tasks, in a pool of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from joblib import effective_n_jobs


class Workers:
    """A pool of threads for kernels that release the GIL.

    The tasks never depend on how many workers there are, and each writes only what it owns: the result is the same
    for every `n_jobs`. A task is worth at least a millisecond. Use as a context manager.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib: None is 1 (or what a surrounding ``parallel_config`` says), -1 every core.
    """

    def __init__(self, n_jobs: int | None = None):
        self.n_workers = effective_n_jobs(n_jobs)
        self._pool = ThreadPoolExecutor(self.n_workers, "skmanifold") if self.n_workers > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc_info) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, function: Callable, tasks: Iterable[tuple]) -> list:
        """Call ``function(*task)`` for every task; the results stand in the order of the tasks."""
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


def split_by_task(task: np.ndarray) -> list[tuple[int, int]]:
    """The (start, stop) of each run of equal numbers in `task`, which never falls; one empty one if it has none."""
    cuts = np.flatnonzero(np.diff(task, prepend=0)).tolist()
    return list(pairwise([0, *cuts, len(task)]))


def split_range(n: int, size: int) -> list[tuple[int, int]]:
    """Consecutive (start, stop) pieces of ``range(n)``, `size` long but for the last."""
    return [(start, min(start + size, n)) for start in range(0, n, size)]
