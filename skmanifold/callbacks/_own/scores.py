"""Scores of a fit after its tasks, and their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, overload
from uuid import UUID

from sklearn.base import BaseEstimator

from .context import CallbackContext
from .transport import is_of_another_process, listen, post


@dataclass(repr=False)
class ScoringMonitorLog:
    """Scores of a fit.

    Attributes
    ----------
    run_id : UUID
        The fit.
    estimator_name : str
        Class of the outermost estimator that is fitted.
    timestamp : str
        Start of the fit, in UTC.
    data : list of dict
        A dict for each task that was scored, in the order of the tasks: its position among the tasks
        (``task_id_path``, ``parent_task_id_path``), ``estimator_name``, ``task_name``, ``task_id``,
        ``sequential_subtasks``, and the scores by their names.
    """

    run_id: UUID
    estimator_name: str
    timestamp: str
    data: list[dict[str, Any]]

    @property
    def data_as_pandas(self) -> Any:
        """``data`` as a data frame; needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.data)

    def __repr__(self) -> str:
        return (
            f"ScoringMonitorLog(run_id={self.run_id}, estimator_name={self.estimator_name}, timestamp={self.timestamp})"
        )


class _Task(NamedTuple):
    """Description of a task in a log."""

    estimator_name: str
    task_name: str
    task_id: int
    sequential_subtasks: bool


class _Entry(NamedTuple):
    """Scores of a task."""

    run_id: UUID
    timestamp: str
    path: tuple[_Task, ...]  # from the outermost fit to the task
    scores: dict[str, Any]


class ScoringMonitor:
    """Base class of `HeldOutMonitor`: computes and logs scores."""

    def __init__(self, *, scoring: str | Callable[..., Any] | Sequence[str] | Mapping[str, Any] | None) -> None:
        self._scoring = [scoring] if isinstance(scoring, str) else scoring
        self._estimator_scorers: dict[BaseEstimator, Callable[..., Any]] = {}
        self._log: list[_Entry] = []
        self._address = listen(self._log.append, self)  # so that copies in other processes have the address

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Create the scorer at the start of a fit."""
        from sklearn.metrics import check_scoring  # slow to import

        self._estimator_scorers[estimator] = check_scoring(estimator, self._scoring)

    def teardown(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Delete the scorer at the end of a fit."""
        self._estimator_scorers.pop(estimator, None)

    def on_fit_task_begin(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Do nothing, because scores are computed at the end of tasks.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : CallbackContext
            The task that begins.
        """

    def on_fit_task_end(
        self,
        estimator: BaseEstimator,
        context: CallbackContext,
        *,
        X: Any = None,
        y: Any = None,
        fitted_estimator: BaseEstimator | None = None,
    ) -> bool:
        """Score X and y."""
        scores = self._estimator_scorers[estimator](fitted_estimator, X, y)
        path = context.path()
        tasks = (_Task(*(getattr(task, name) for name in _Task._fields)) for task in path)
        timestamp = path[0].init_time.strftime("UTC%Y-%m-%d-%H:%M:%S.%f")
        post(self._address, _Entry(context.root_uuid, timestamp, tuple(tasks), scores))
        return False

    @overload
    def get_logs(
        self, select: Literal["most_recent"] = "most_recent", include_lineage: bool = False
    ) -> ScoringMonitorLog: ...

    @overload
    def get_logs(self, select: Literal["all"], include_lineage: bool = False) -> list[ScoringMonitorLog]: ...

    def get_logs(
        self, select: str = "most_recent", include_lineage: bool = False
    ) -> ScoringMonitorLog | list[ScoringMonitorLog]:
        """Scores of the most recent fit, or of all.

        Parameters
        ----------
        select : {"most_recent", "all"}, default="most_recent"
            Which fits.
        include_lineage : bool, default=False
            Whether the log also has the tasks around those that were scored.

        Returns
        -------
        logs : ScoringMonitorLog or list of ScoringMonitorLog
            The scores; a list, from the first fit to the last one, for "all".

        Raises
        ------
        ValueError
            If nothing has been scored, or `select` is neither of the two.
        """
        if select not in ("most_recent", "all"):
            raise ValueError(f"select must be 'most_recent' or 'all'; got {select!r}.")
        if not self._log:
            raise ValueError("No logs to retrieve: no fit has computed a score yet.")
        by_run: dict[UUID, list[_Entry]] = {}
        for entry in self._log:
            by_run.setdefault(entry.run_id, []).append(entry)
        logs = [_as_log(entries, include_lineage) for entries in by_run.values()]
        logs.sort(key=lambda log: (log.timestamp, log.estimator_name))
        return logs if select == "all" else logs[-1]

    def __getstate__(self) -> dict[str, Any]:
        """All attributes; the log is copied, because another thread may append to it."""
        return {**self.__dict__, "_log": list(self._log)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not is_of_another_process(self._address):
            self._address = listen(self._log.append, self)


def _as_log(entries: Sequence[_Entry], include_lineage: bool) -> ScoringMonitorLog:
    """The log of the entries of a fit."""
    rows = {_numbers(entry.path): _row(entry.path, entry.scores) for entry in entries}
    if include_lineage:
        for entry in entries:
            for length in range(1, len(entry.path)):
                rows.setdefault(_numbers(entry.path[:length]), _row(entry.path[:length], {}))
    ordered = [rows[numbers] for numbers in sorted(rows, key=lambda numbers: (len(numbers), numbers))]
    first = entries[0]
    return ScoringMonitorLog(first.run_id, first.path[0].estimator_name, first.timestamp, ordered)


def _row(path: Sequence[_Task], scores: Mapping[str, Any]) -> dict[str, Any]:
    numbers = _numbers(path)
    return {"task_id_path": numbers, "parent_task_id_path": numbers[:-1], **path[-1]._asdict(), **scores}


def _numbers(path: Iterable[_Task]) -> tuple[int, ...]:
    return tuple(task.task_id for task in path)
