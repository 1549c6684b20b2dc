"""Callbacks of an estimator: set before the fit, kept by clones, torn down after the fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from .context import OF_FIT, OF_PARENT, CallbackContext

_HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")


class CallbackSupportMixin:
    """Adds callbacks to an estimator."""

    _skl_callbacks: list[Any]  # as in scikit-learn, so that saved objects are compatible

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set the callbacks of the following fits, in place of earlier ones.

        Parameters
        ----------
        *callbacks : callback instances
            Objects such as `HeldOutMonitor` and `ProgressBar`; none removes all.

        Returns
        -------
        self : estimator instance
            This estimator.

        Raises
        ------
        TypeError
            If an object lacks a method of callbacks.
        """
        for callback in callbacks:
            lacking = [hook for hook in _HOOKS if not hasattr(callback, hook)]
            if isinstance(callback, type) or lacking:
                what = "is a class" if isinstance(callback, type) else f"lacks {', '.join(lacking)}"
                raise TypeError(
                    f"callbacks must be instances with the methods {', '.join(_HOOKS)}; {callback!r} {what}."
                )
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            vars(self).pop("_skl_callbacks", None)
        return self

    def __sklearn_clone__(self) -> Self:
        """A clone that has the same callbacks, not copies of them."""
        cloned: Any = super().__sklearn_clone__()  # type: ignore[misc]
        if "_skl_callbacks" in vars(self):
            cloned._skl_callbacks = self._skl_callbacks
        return cloned

    def _init_callback_context(
        self,
        task_name: str = "fit",
        task_id: int = 0,
        max_subtasks: int | None = 0,
        sequential_subtasks: bool = True,
    ) -> CallbackContext:
        """The task of a whole fit, after the setup of its callbacks; a fit calls it once."""
        callbacks = getattr(self, "_skl_callbacks", [])
        name = type(self).__name__
        context = CallbackContext(callbacks, name, task_name, max_subtasks, sequential_subtasks, task_id=task_id)
        task_of_parent = vars(self).get(OF_PARENT)
        if task_of_parent is not None:
            context.take_place_of(task_of_parent)
        vars(self)[OF_FIT] = context
        for callback in callbacks:
            if task_of_parent is None or not hasattr(callback, "max_propagation_depth"):
                context.to_tear_down.append(callback)
                callback.setup(estimator=self, context=context)
        return context


@contextmanager
def torn_down(estimator: Any) -> Iterator[None]:
    """Tear down the callbacks of a fit at its end, also after an error."""
    try:
        yield
    finally:
        _tear_down(estimator)


def _tear_down(estimator: Any) -> None:
    context = vars(estimator).pop(OF_FIT, None)
    if context is None:
        return
    errors = []
    for callback in context.to_tear_down:
        try:
            callback.teardown(estimator=estimator, context=context)
        except Exception as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"several callbacks failed at the end of the fit of {context.estimator_name}", errors)
