"""A progress bar that shows the state of a fit."""

from __future__ import annotations

from queue import Queue
from time import perf_counter
from typing import Any

from sklearn.base import BaseEstimator

from ..utils._sklearn import ProgressBar as TaskBars
from ..utils._sklearn import RichProgressMonitor, get_context_path, open_listener, progress_runs, send
from ._hooks import PassReport, RunningFits, callbacks_of


class ProgressBar(TaskBars):
    """Progress bar that also shows passes, the objective, held-out scores and speed.

    Below the bars it shows a line such as
    ``StochasticLDA: 37 of 200, log likelihood -1.23e+06, held-out score -7.312, 1.9M tokens/s``. Set it on the
    outermost estimator, which may be a search or a pipeline; scikit-learn propagates it to the inner estimators.

    Parameters
    ----------
    max_propagation_depth : int, default=1
        Number of levels of inner estimators that have bars; None for all levels.

    See Also
    --------
    HeldOutMonitor : Computes the held-out score, if it is set on the same estimator.

    Notes
    -----
    It needs scikit-learn 1.9, and rich, which the extra ``demo`` installs. The speed is the mean since the start of the
    fit, over all chains, in tokens per second for models of tokens and in rows per second for other models.
    """

    def __init__(self, max_propagation_depth: int | None = 1) -> None:
        super().__init__(max_propagation_depth=max_propagation_depth)
        self._begun: RunningFits[float] = RunningFits()

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

    def on_fit_task_begin(self, estimator: BaseEstimator, context: Any) -> None:
        """Add a bar for a task that has subtasks.

        Parameters
        ----------
        estimator : estimator instance
        context : CallbackContext
        """
        self._begun.setdefault(estimator, perf_counter())
        super().on_fit_task_begin(estimator, context)

    def on_fit_task_end(self, estimator: BaseEstimator, context: Any) -> None:
        """Update the bars and the status line.

        Parameters
        ----------
        estimator : estimator instance
        context : CallbackContext
        """
        report = getattr(estimator, "_pass_report", None)
        if report is not None and context.max_subtasks == 0:
            n_done = context.task_id + 1
            seconds = perf_counter() - self._begun[estimator]
            status = _status(report, n_done, context.parent.max_subtasks, seconds, _held_out_score(estimator))
            status = f"{type(estimator).__name__}: {status}"
            path = [task.task_id for task in get_context_path(context)]
            send(self._listener_handles[context.root_uuid], {"event": "end", "path": path, "status": status})
            return
        if context.task_name == "fit":
            self._begun.pop(estimator, None)
        super().on_fit_task_end(estimator, context)


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


def bars_with_status() -> Any:
    """A ``rich.progress.Progress`` that draws ``_ordered_tasks``, and below them each ``status`` of a running task.

    If all have ended it shows the last one.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Bars(Progress):
        def get_renderables(self):
            tasks = getattr(self, "_ordered_tasks", [])
            yield self.make_tasks_table(tasks)
            with_status = [task for task in tasks if "status" in task.fields]
            for task in [task for task in with_status if not task.finished] or with_status[-1:]:
                yield Text(task.fields["status"], style="dim")

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )


def _status(report: PassReport, n_done: int, n_passes: int, seconds: float, held_out: float | None) -> str:
    parts = [f"{n_done} of {n_passes}", f"{report.objective} {report.value:.6g}"]
    if held_out is not None:
        parts.append(f"held-out score {held_out:.6g}")
    if seconds > 0:
        parts.append(f"{_short(n_done * report.n_units / seconds)} {report.unit}/s")
    return ", ".join(parts)


def _short(number: float) -> str:
    """Three significant digits with a suffix, as in 1.9M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _held_out_score(estimator: BaseEstimator) -> float | None:
    for callback in callbacks_of(estimator):
        if hasattr(callback, "scores_so_far"):
            scores = callback.scores_so_far(estimator)
            return scores[-1] if scores else None
    return None
