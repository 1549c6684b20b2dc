"""Progress of the command: a bar on a terminal where rich is installed, otherwise a line for each fit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A function of a description, the number of fits so far and the number of all fits, which shows the progress."""
    try:
        from rich import progress
    except ImportError:
        yield _print_line
        return
    if not sys.stdout.isatty():
        yield _print_line
        return
    columns = progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
    with progress.Progress(*columns, progress.TextColumn("{task.description}", markup=False)) as bar:
        task = bar.add_task("", total=None)

        def update(what: str, n_done: int, n_all: int) -> None:
            bar.update(task, description=what, completed=n_done, total=n_all)

        yield update


def _print_line(what: str, n_done: int, n_all: int) -> None:
    print(f"{n_done:{len(str(n_all))}d} of {n_all}: {what}", flush=True)
