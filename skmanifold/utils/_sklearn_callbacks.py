"""Callbacks of scikit-learn, from 1.9 on, with their private names; `_sklearn` has those of all versions.

With an older scikit-learn, estimators refuse callbacks, and their fits have tasks that call nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._sklearn import CALLBACK_STATE

if TYPE_CHECKING or find_spec("sklearn.callback"):
    from sklearn.callback import CallbackSupportMixin, ProgressBar, ScoringMonitor
    from sklearn.callback._callback_context import get_context_path
    from sklearn.callback._callback_support import callback_management_context
    from sklearn.callback._progressbar import RichProgressMonitor, _run_monitors, _run_queues
    from sklearn.callback._transport import open_listener, send
else:
    from sklearn import __version__

    def _refuse(*_, **__):
        """Raise an ImportError that names the version."""
        raise ImportError(
            f"Callbacks need scikit-learn 1.9 or later, but the installed version is {__version__}: upgrade it, or fit "
            "without callbacks (verbose=1 prints the progress)."
        )

    class _Task:
        """A task of a fit without callbacks."""

        def subcontext(self, **_):
            return self

        def call_on_fit_task_begin(self, **_):
            return self

        def call_on_fit_task_end(self, **_):
            return False

        def propagate_callback_context(self, _):
            return nullcontext()

    class CallbackSupportMixin:
        set_callbacks = _refuse

        def _init_callback_context(self, **_):
            return _Task()

    class ScoringMonitor:
        __init__ = _refuse

    ProgressBar, RichProgressMonitor, callback_management_context = ScoringMonitor, object, nullcontext
    get_context_path = open_listener = send = _refuse
    _run_monitors = _run_queues = {}

_OF_FIT, _TO_TEAR_DOWN = CALLBACK_STATE


@contextmanager
def torn_down(estimator: Any) -> Iterator[None]:
    """Tear down the callbacks of a fit at its end, also after an error."""
    attributes = vars(estimator)
    # A Ctrl-C can leave one of the two attributes without the other; scikit-learn's own teardown then fails.
    attributes[_TO_TEAR_DOWN] = []
    try:
        with callback_management_context(estimator):
            yield
    finally:
        attributes.pop(_OF_FIT, None)
        attributes.pop(_TO_TEAR_DOWN, None)


def progress_runs(root: Any, queue: Any, monitor: Any) -> None:
    """Register the queue and the thread of a progress bar, so that the teardown of scikit-learn finds them."""
    _run_queues[root] = queue
    _run_monitors[root] = monitor


__all__ = [
    "CallbackSupportMixin",
    "ProgressBar",
    "RichProgressMonitor",
    "ScoringMonitor",
    "get_context_path",
    "open_listener",
    "progress_runs",
    "send",
    "torn_down",
]
