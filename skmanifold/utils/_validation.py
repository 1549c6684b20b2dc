"""scikit-learn's checks of users' arrays, behind a check of what they take on trust: the structure of sparse ones.

Whatever takes X from a user calls these, so that broken indices are refused before any loop reads them.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import validation

from ._sparse_structure import check_structure
from ._typing import MatrixLike


def validate_data(estimator: BaseEstimator, X: MatrixLike, *y: Any, **options: Any) -> Any:
    """`sklearn.utils.validation.validate_data` of X (and y) whose structure is sound."""
    check_structure(X)
    return validation.validate_data(estimator, X, *y, **options)


def column_name(estimator: BaseEstimator, column: int) -> str:
    """How a message names a column that `validate_data` has read: by its name, or its number."""
    names = getattr(estimator, "feature_names_in_", None)
    return repr(column if names is None else names[column])


def check_array(X: Any, **options: Any) -> Any:
    """`sklearn.utils.check_array` of an array whose structure is sound."""
    check_structure(X, options.get("input_name") or "X")
    return validation.check_array(X, **options)
