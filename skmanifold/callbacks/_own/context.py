"""Tasks of a fit, which call the callbacks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any, Self
from uuid import UUID, uuid4

from sklearn.base import BaseEstimator

# Attributes of the estimator: its running fit, and the task of a meta-estimator to which the fit corresponds.
OF_FIT, OF_PARENT = "_callback_context", "_callback_task_of_parent"


class CallbackContext:
    """A task of a fit, such as a pass, with its position in the tree of all tasks.

    Attributes
    ----------
    estimator_name, task_name : str
        The class of the estimator, and what the task does.
    task_id : int
        Number of the task among the tasks of its parent.
    max_subtasks : int or None
        Largest number of subtasks: 0 if the task has none, None if the number is unknown.
    sequential_subtasks : bool
        Whether subtasks are numbered in their order, from 0.
    parent : CallbackContext or None
        The task of which this task is a part.
    root_uuid : UUID
        The outermost fit.
    init_time : datetime
        Time at which the task was created, in UTC.
    source_estimator_name, source_task_name : str or None
        The task of a meta-estimator to which this fit of an inner estimator corresponds.
    """

    def __init__(
        self,
        callbacks: list[Any],
        estimator_name: str,
        task_name: str,
        max_subtasks: int | None,
        sequential_subtasks: bool,
        parent: CallbackContext | None = None,
        task_id: int = 0,
    ) -> None:
        self.callbacks = callbacks
        self.estimator_name = estimator_name
        self.task_name = task_name
        self.max_subtasks = max_subtasks
        self.sequential_subtasks = sequential_subtasks
        self.parent = parent
        self.task_id = task_id
        self.root_uuid: UUID = uuid4() if parent is None else parent.root_uuid
        self.init_time = datetime.now(UTC)
        self.source_estimator_name: str | None = None
        self.source_task_name: str | None = None
        self.depth: int = 0 if parent is None else parent.depth  # number of estimators around this one
        self.to_tear_down: list[Any] = []
        self._children: set[int] = set()
        self._propagated: list[Any] = []

    def take_place_of(self, task: CallbackContext) -> None:
        """Become a task of a meta-estimator, at the start of the fit of an inner estimator."""
        self.parent, self.task_id, self.root_uuid = task.parent, task.task_id, task.root_uuid
        self.source_estimator_name, self.source_task_name = task.estimator_name, task.task_name
        self.depth = task.depth + 1

    def path(self) -> list[CallbackContext]:
        """The tasks from the outermost fit to this one."""
        return [*([] if self.parent is None else self.parent.path()), self]

    def subcontext(
        self,
        task_name: str = "",
        task_id: int | None = None,
        max_subtasks: int | None = 0,
        sequential_subtasks: bool = True,
    ) -> CallbackContext:
        """A part of this task; `task_id` is its number if the subtasks are not sequential."""
        if self.sequential_subtasks is (task_id is not None):
            rule = "must be None" if self.sequential_subtasks else "must be an integer"
            raise ValueError(
                f"task_id {rule} because the subtasks of {self.task_name!r} of {self.estimator_name} "
                f"{'are' if self.sequential_subtasks else 'are not'} sequential; got {task_id!r}."
            )
        number = len(self._children) if task_id is None else task_id
        if number in self._children or len(self._children) == self.max_subtasks:
            raise ValueError(
                f"{self.task_name!r} of {self.estimator_name} has {len(self._children)} of {self.max_subtasks} "
                f"subtasks, and cannot have one more with task_id={number}."
            )
        self._children.add(number)
        return CallbackContext(
            self.callbacks, self.estimator_name, task_name, max_subtasks, sequential_subtasks, self, number
        )

    def call_on_fit_task_begin(self, *, estimator: BaseEstimator, **values: Any) -> Self:
        """Call ``on_fit_task_begin`` of all callbacks; see `call_on_fit_task_end` for the values."""
        self._call("on_fit_task_begin", estimator, values)
        return self

    def call_on_fit_task_end(self, *, estimator: BaseEstimator, **values: Any) -> bool:
        """Call ``on_fit_task_end`` of all callbacks; returns whether one of them stops the fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        **values : dict
            X, y, metadata and reconstruction_attributes, or functions that return them. A callback receives those that
            are keyword-only parameters of its method. Fitted attributes become ``fitted_estimator``.
        """
        return self._call("on_fit_task_end", estimator, values)

    def _call(self, hook: str, estimator: BaseEstimator, values: dict[str, Any]) -> bool:
        evaluated: dict[str, Any] = {}
        stops = False
        for callback in self.callbacks:
            if callback in self._propagated:  # the inner estimator calls it for the same task
                continue
            method = getattr(callback, hook)
            names = _values_of(method)
            for name in names:
                if name not in evaluated:
                    evaluated[name] = _value(name, estimator, values)
            stops |= bool(method(estimator, self, **{name: evaluated[name] for name in names}))
        return stops

    @contextmanager
    def propagate_callback_context(self, sub_estimator: BaseEstimator) -> Iterator[None]:
        """Use this task for the fit of an inner estimator, with those callbacks that also apply to inner estimators.

        These are the callbacks that have an attribute `max_propagation_depth`, the largest number of estimators around
        the inner one, or None.
        """
        own = list(getattr(sub_estimator, "_skl_callbacks", []))
        propagates = [callback for callback in self.callbacks if hasattr(callback, "max_propagation_depth")]
        misplaced = [type(callback).__name__ for callback in own if hasattr(callback, "max_propagation_depth")]
        if misplaced:
            raise TypeError(
                f"{', '.join(misplaced)} must be set on {self.estimator_name} and not on its inner estimator "
                f"{type(sub_estimator).__name__}."
            )
        if hasattr(sub_estimator, "set_callbacks"):
            self._propagated = [
                callback
                for callback in propagates
                if callback.max_propagation_depth is None or self.depth < callback.max_propagation_depth
            ]
        vars(sub_estimator)[OF_PARENT] = self
        if self._propagated:
            sub_estimator.set_callbacks(*own, *self._propagated)
        try:
            yield
        finally:
            del vars(sub_estimator)[OF_PARENT]
            if self._propagated:
                sub_estimator.set_callbacks(*own)


def _value(name: str, estimator: BaseEstimator, values: dict[str, Any]) -> Any:
    given = values.get("reconstruction_attributes" if name == "fitted_estimator" else name)
    value = given() if callable(given) else given
    if name != "fitted_estimator" or value is None:
        return value
    fitted = copy.copy(estimator)
    vars(fitted).pop(OF_FIT, None)
    for attribute, fitted_value in value.items():
        setattr(fitted, attribute, fitted_value)
    return fitted


_signature = lru_cache(maxsize=256)(signature)


def _values_of(method: Callable[..., Any]) -> list[str]:
    """Names of the values that a method of a callback receives."""
    parameters = _signature(method).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
