"""All private names of scikit-learn that the library uses, in one module."""

from sklearn.base import _fit_context as fit_context
from sklearn.callback._callback_context import get_context_path
from sklearn.callback._progressbar import RichProgressMonitor, _run_monitors, _run_queues
from sklearn.callback._transport import open_listener, send
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _num_samples as n_rows

from ._sparse_structure import check_structure

# Attributes of the estimator during a fit, which scikit-learn removes at the end of the fit, also after an error.
CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


def take_rows(X, rows):
    """Some rows of an array, a sparse matrix of any format, a data frame or a list."""
    check_structure(X)
    return _safe_indexing(indexable(X)[0], rows)


def progress_runs(root, queue, monitor) -> None:
    """Register the queue and the thread of a progress bar, so that the teardown of scikit-learn finds them."""
    _run_queues[root] = queue
    _run_monitors[root] = monitor


__all__ = [
    "CALLBACK_STATE",
    "HasMethods",
    "Interval",
    "RichProgressMonitor",
    "StrOptions",
    "fit_context",
    "get_context_path",
    "n_rows",
    "open_listener",
    "progress_runs",
    "send",
    "take_rows",
]
