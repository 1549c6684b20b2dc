"""All private names of scikit-learn that the library uses; those of its callbacks are in `_sklearn_callbacks`."""

from numbers import Integral

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _BaseComposition as BaseComposition
from sklearn.utils.validation import _check_sample_weight as check_weights
from sklearn.utils.validation import _num_samples as n_rows

from ._inputs.sparse_structure import check_structure
from ._inputs.tables import is_arrow, is_table, readable

# Attributes of an estimator during a fit with callbacks, which `torn_down` removes at its end, also after an error
CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


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


__all__ = [
    "CALLBACK_STATE",
    "BaseComposition",
    "HasMethods",
    "Interval",
    "NumberOf",
    "StrOptions",
    "check_weights",
    "fit_context",
    "n_rows",
    "take_rows",
]
