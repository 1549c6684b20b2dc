"""Private names of the callbacks of scikit-learn, from 1.9 on; `_sklearn` has those of all versions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.callback._callback_context import get_context_path
from sklearn.callback._callback_support import callback_management_context
from sklearn.callback._progressbar import RichProgressMonitor, _run_monitors, _run_queues
from sklearn.callback._transport import open_listener, send

_OF_FIT, _TO_TEAR_DOWN = "_callback_fit_ctx", "_skl_callbacks_to_teardown"


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


def progress_runs(root, queue, monitor) -> None:
    """Register the queue and the thread of a progress bar, so that the teardown of scikit-learn finds them."""
    _run_queues[root] = queue
    _run_monitors[root] = monitor


__all__ = ["RichProgressMonitor", "get_context_path", "open_listener", "progress_runs", "send", "torn_down"]
