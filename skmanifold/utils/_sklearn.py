"""All private names of scikit-learn that the library uses, and its callbacks, which exist from 1.9 on.

With an older scikit-learn, estimators refuse callbacks, and their fits have tasks that call nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils.metaestimators import _BaseComposition as BaseComposition
from sklearn.utils.validation import _check_sample_weight as check_weights
from sklearn.utils.validation import _num_samples as n_rows

from ._inputs.sparse_structure import check_structure
from ._inputs.tables import is_arrow, is_table, readable

if TYPE_CHECKING or find_spec("sklearn.callback"):
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import ProgressBar as ProgressBar
    from sklearn.callback import ScoringMonitor as ScoringMonitor
    from sklearn.callback._callback_context import get_context_path as get_context_path
    from sklearn.callback._callback_support import callback_management_context
    from sklearn.callback._progressbar import RichProgressMonitor as RichProgressMonitor
    from sklearn.callback._progressbar import _run_monitors, _run_queues
    from sklearn.callback._transport import open_listener as open_listener
    from sklearn.callback._transport import send as send
else:
    from sklearn import __version__

    def _refuse(*_: Any, **__: Any) -> NoReturn:
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

__all__ = ["BaseComposition", "check_weights", "fit_context", "n_rows"]  # the others keep their names

# Attributes of an estimator during a fit with callbacks, which `torn_down` removes at its end, also after an error
CALLBACK_STATE = _OF_FIT, _TO_TEAR_DOWN = "_callback_fit_ctx", "_skl_callbacks_to_teardown"


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


class NumberOf(Interval):
    """A whole number from 1 on which the user must choose; the error for another value explains how."""

    def __init__(self, advice: str, most: int | None = None):
        super().__init__(Integral, 1, most, closed="left" if most is None else "both")
        self.advice = advice

    def __str__(self):
        return f"{super().__str__()} ({self.advice})"


def take_rows(X, rows):
    """Some rows of an array, a sparse matrix of any format, a table or a list."""
    check_structure(X)
    X = X if is_table(X) else readable(X)
    if is_arrow(X):
        return X.take(rows)  # missing in scikit-learn before 1.7
    return _safe_indexing(indexable(X)[0], rows)
