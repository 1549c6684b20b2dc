"""What a fit tells its callbacks beyond scikit-learn's hooks, and what it asks them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..utils._sklearn import n_rows


class PassReport(NamedTuple):
    """How a fit stands after a pass, as ``_pass_report`` of the estimator while it is fitted."""

    objective: str  # what `value` is
    value: float
    n_units: int  # that a pass works through, of all chains
    unit: str
    may_stop: bool  # whether a fit that stops here has all that it promises


def rows_to_fit(estimator: BaseEstimator, X: Any, *others: Any) -> tuple:
    """X and what goes with its rows, without the rows that callbacks hold out.

    A callback that holds rows out has a method ``hold_out(estimator, X, *others)``, which returns what is left.
    """
    arrays = (X, *others)
    for callback in _callbacks(estimator):
        if hasattr(callback, "hold_out"):
            arrays = callback.hold_out(estimator, *arrays)
    return arrays


def wants_estimator(estimator: BaseEstimator, context: Any) -> bool:
    """Whether any callback looks at the fitted estimator after this task: making one may take as long as the task."""
    return any(callback.is_due(context) if hasattr(callback, "is_due") else True for callback in _callbacks(estimator))


def labels_of_all(estimator: Any, X: Any) -> np.ndarray:
    """``labels_`` of a fit to X; where callbacks have held rows out, the predicted ones."""
    return estimator.labels_ if len(estimator.labels_) == n_rows(X) else estimator.predict(X)


def _callbacks(estimator: BaseEstimator) -> list:
    return getattr(estimator, "_skl_callbacks", [])
