"""Bars of rich with the status of running fits below them."""

from __future__ import annotations

from typing import Any


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
