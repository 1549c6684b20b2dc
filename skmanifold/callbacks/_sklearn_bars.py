"""Bars of the tasks of a fit: the progress bar of scikit-learn, with a status line."""

from __future__ import annotations

from queue import Queue
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.callback import ProgressBar

from ..utils._sklearn_callbacks import RichProgressMonitor, get_context_path, open_listener, progress_runs, send
from ._status_lines import bars_with_status


class TaskBars(ProgressBar):
    """Base class of the progress bar."""

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Open the display at the start of a fit.

        Parameters
        ----------
        estimator : estimator instance
        context : CallbackContext
        """
        queue: Queue = Queue()
        self._listener_handles[context.root_uuid] = open_listener(queue.put)
        monitor = _PassMonitor(queue=queue)
        monitor.start()
        progress_runs(context.root_uuid, queue, monitor)

    def _end_pass(self, context: Any, status: str) -> None:
        """Update the bars after a task without subtasks, and show its status."""
        path = [task.task_id for task in get_context_path(context)]
        send(self._listener_handles[context.root_uuid], {"event": "end", "path": path, "status": status})


class _PassMonitor(RichProgressMonitor):
    """Draws the bars and the status of the running fits."""

    def run(self):
        """Draw until the end of the queue."""
        self.root_rich_task: Any = None
        self.progress_ctx = bars_with_status()
        with self.progress_ctx:
            while task_info := self.queue.get():
                if task_info.pop("event") == "begin":
                    self._on_task_begin(task_info)
                else:
                    self._on_task_end(task_info)
            self.progress_ctx.refresh()

    def _on_task_end(self, task_info):
        status, path = task_info.pop("status", None), task_info["path"]
        super()._on_task_end(task_info)
        if status:
            self.progress_ctx.update(self.root_rich_task.get_descendants(path)[-2].id, status=status)
