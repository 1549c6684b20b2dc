"""The only home of scikit-learn's private names: what has to change when they do."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

# What a fit under way leaves on the estimator, for scikit-learn to clear when the fit ends, well or badly.
CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")

__all__ = ["CALLBACK_STATE", "HasMethods", "Interval", "StrOptions", "fit_context"]
