"""Bars of the tasks of a fit, on one display for all fits that run at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from threading import RLock
from typing import Any
from uuid import UUID

from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar

from ..._install import install_command
from .._status_lines import bars_with_status
from .context import CallbackContext

_Path = tuple[int, ...]


class TaskBars:
    """Base class of the progress bar."""

    def __init__(self, max_propagation_depth: int | None = 1) -> None:
        try:
            import rich  # noqa: F401
        except ImportError as error:
            raise ImportError(f"ProgressBar needs rich: {install_command('demo')}") from error
        if max_propagation_depth is not None:
            check_scalar(max_propagation_depth, "max_propagation_depth", Integral, min_val=0)
        self.max_propagation_depth = max_propagation_depth

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Open the display at the start of a fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : CallbackContext
            The fit.
        """
        _DISPLAY.open(context.root_uuid)

    def teardown(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Close the display at the end of a fit, if no other fit runs.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : CallbackContext
            The fit.
        """
        _DISPLAY.close(context.root_uuid)

    def on_fit_task_begin(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Add a bar for a task that has subtasks, and for the fit of any estimator."""
        if context.max_subtasks != 0 or context.parent is None or context.source_task_name is not None:
            _DISPLAY.add(context)

    def on_fit_task_end(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Update the bars."""
        _DISPLAY.end(context, None)

    def _end_pass(self, context: CallbackContext, status: str) -> None:
        """Update the bars after a task without subtasks, and show its status."""
        _DISPLAY.end(context, status)


@dataclass
class _Bar:
    """A task with a bar."""

    row: Any  # of rich
    n_parts: int | None
    done: dict[int, float] = field(default_factory=dict)  # progress of each started subtask, from 0 to 1

    def fraction(self) -> float:
        return sum(self.done.values()) / self.n_parts if self.n_parts else 0.0


class _Display:
    """The display of this process."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._bars: Any = None  # of rich, while a fit is running
        self._fits: dict[UUID, dict[_Path, _Bar]] = {}

    def open(self, fit: UUID) -> None:
        with self._lock:
            if self._bars is None:
                self._bars = bars_with_status()
                self._bars.start()
            self._fits[fit] = {}

    def close(self, fit: UUID) -> None:
        with self._lock:
            self._bars.refresh()
            del self._fits[fit]
            if not self._fits:
                self._bars.stop()
                self._bars = None

    def add(self, context: CallbackContext) -> None:
        with self._lock:
            fit, path = self._fits[context.root_uuid], _path(context)
            total = None if context.max_subtasks is None else 1.0
            number = self._bars.add_task(_description(context), total=total)
            row = next(task for task in self._bars.tasks if task.id == number)
            fit[path] = _Bar(row, context.max_subtasks)
            self._order()

    def _order(self) -> None:
        """Rows in the order of tasks: each subtask after its parent; fits that have ended remain at the top."""
        running = {id(bar.row) for fit in self._fits.values() for bar in fit.values()}
        ended = [row for row in getattr(self._bars, "_ordered_tasks", []) if id(row) not in running]
        self._bars._ordered_tasks = ended + [
            bar.row for fit in self._fits.values() for _, bar in sorted(fit.items(), key=lambda item: item[0])
        ]

    def end(self, context: CallbackContext, status: str | None) -> None:
        with self._lock:
            fit, path = self._fits[context.root_uuid], _path(context)
            done = 1.0
            if path in fit:
                self._bars.update(fit[path].row.id, total=1.0, completed=1.0)
            for length in range(len(path) - 1, 0, -1):
                bar = fit[path[:length]]
                bar.done[path[length]] = done
                done = bar.fraction()
                if bar.n_parts is not None:
                    self._bars.update(bar.row.id, completed=done)
            if status is not None:
                self._bars.update(fit[path[:-1]].row.id, status=status)


_DISPLAY = _Display()


def _path(context: CallbackContext) -> _Path:
    return tuple(task.task_id for task in context.path())


def _description(context: CallbackContext) -> str:
    """A description such as ``SubspaceClassifier - class | SubspaceMixture - fit #1``, indented by depth."""
    depth = len(context.path()) - 1
    source = ""
    if context.source_task_name is not None:
        source = f"{context.source_estimator_name} - {context.source_task_name} | "
    number = f" #{context.task_id}" if depth else ""
    return f"{'  ' * depth}{source}{context.estimator_name} - {context.task_name}{number}"
