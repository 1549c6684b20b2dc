"""The only home of scikit-learn's private names: what has to change when they do."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["Interval", "StrOptions", "fit_context"]
