"""Progress of long work: a bar on a terminal where rich is installed, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def show_progress(pause: float = 0.0) -> Iterator[Callable[[str, int, int | None], None]]:
    """A function of a description, the number of things done and the number of all, if known, which shows the progress.

    Parameters
    ----------
    pause : float, default=0.0
        Least time in seconds between lines.
    """
    if not sys.stdout.isatty() or find_spec("rich") is None:
        yield _Lines(pause)
        return
    from rich import progress

    columns = progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
    with progress.Progress(*columns, progress.TextColumn("{task.description}", markup=False)) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, n_done, n_all: bar.update(task, description=what, completed=n_done, total=n_all)


class _Lines:
    """Prints a line, unless there was one a short time ago; always the last one."""

    def __init__(self, pause: float):
        self._pause, self._next = pause, 0.0

    def __call__(self, what: str, n_done: int, n_all: int | None) -> None:
        if time.monotonic() < self._next and n_done != n_all:
            return
        self._next = time.monotonic() + self._pause
        count = f"{n_done}" if n_all is None else f"{n_done:{len(str(n_all))}d} of {n_all}"
        print(f"{count}: {what}", flush=True)
