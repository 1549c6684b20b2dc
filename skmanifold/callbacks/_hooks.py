"""The interface between a fit and its callbacks beyond the hooks of scikit-learn."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

from ..inference._distributed_fits.sources import is_elsewhere
from ..utils._inputs.tables import readable
from ..utils._sklearn import n_rows

Value = TypeVar("Value")


class RunningFits(WeakKeyDictionary[BaseEstimator, Value]):
    """Data of running fits by estimator, which are not part of a copy or a pickle."""

    def __reduce__(self) -> tuple:
        return RunningFits, ()

    def __deepcopy__(self, memo: dict) -> RunningFits[Value]:
        return RunningFits()


class PassReport(NamedTuple):
    """State of a fit after a pass, stored as ``_pass_report`` of the estimator during the fit."""

    objective: str  # name of `value`
    value: float
    n_units: int  # rows or tokens that a pass processes, over all chains
    unit: str
    may_stop: bool  # whether a fit that stops now has all of its fitted attributes


def rows_to_fit(estimator: BaseEstimator, X: Any, *others: Any) -> tuple:
    """X and the arrays aligned with it, without the rows that callbacks hold out.

    A callback that holds out rows has a method ``hold_out(estimator, X, *others)``, which returns the remaining rows.

    Parameters
    ----------
    estimator : estimator instance
        Its callbacks may hold out rows.
    X : array-like
        Rows as the user gave them.
    *others : array-like
        Arrays with one entry for each row, such as sample weights.

    Returns
    -------
    arrays : tuple
        X and the others, without the held-out rows.
    """
    arrays = (X, *others)
    for callback in callbacks_of(estimator):
        if hasattr(callback, "hold_out"):
            arrays = callback.hold_out(estimator, *arrays)
    return arrays


def wants_estimator(estimator: BaseEstimator, context: Any) -> bool:
    """Whether a callback needs the fitted estimator after this task; its construction may be as slow as the task."""
    return any(not hasattr(each, "is_due") or each.is_due(context) for each in callbacks_of(estimator))


def check_labels_of_all(estimator: BaseEstimator, X: Any) -> None:
    """Raise a ValueError if callbacks hold out rows of an X that is not in memory, which `predict` does not read."""
    if is_elsewhere(X) and any(getattr(callback, "fraction", None) for callback in callbacks_of(estimator)):
        raise ValueError("fit_predict cannot predict rows that a callback holds out of X on disk or in Dask: call fit.")


def labels_of_all(estimator: Any, X: Any) -> np.ndarray:
    """``labels_`` of a fit to X, or predicted labels of all rows if callbacks have held out rows."""
    is_whole = is_elsewhere(X) or len(estimator.labels_) == n_rows(readable(X))
    return estimator.labels_ if is_whole else estimator.predict(X)


def callbacks_of(estimator: BaseEstimator) -> list:
    """The callbacks of a fit."""
    return getattr(estimator, "_skl_callbacks", [])
