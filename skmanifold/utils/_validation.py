"""Array validation of scikit-learn, preceded by a check of the structure of sparse matrices, which it does not check.

All functions that accept X from users call these, so that invalid indices raise an error before a kernel uses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import validation

from ._sparse_structure import check_structure
from ._typing import MatrixLike


def validate_data(estimator: BaseEstimator, X: MatrixLike, *y: Any, **options: Any) -> Any:
    """`sklearn.utils.validation.validate_data` of X (and y), after a check of the sparse structure."""
    check_structure(X)
    return validation.validate_data(estimator, X, *y, **options)


def column_name(estimator: BaseEstimator, column: int) -> str:
    """Name of a column for messages: its feature name, or its index if X had no feature names."""
    names = getattr(estimator, "feature_names_in_", None)
    return repr(column if names is None else names[column])


def check_array(X: Any, **options: Any) -> Any:
    """`sklearn.utils.check_array`, after a check of the sparse structure."""
    check_structure(X, options.get("input_name") or "X")
    return validation.check_array(X, **options)


def validate_proportions(X: Any, n_components: int, noun: str) -> np.ndarray:
    """X as proportions, (n_rows, n_components) float64; `noun` is what errors call a component."""
    proportions = check_array(X, dtype=np.float64, input_name="X")
    if proportions.shape[1] != n_components:
        raise ValueError(f"X has {proportions.shape[1]} columns, one per {noun}, but there are {n_components} {noun}s.")
    return proportions
