"""Array validation of scikit-learn, preceded by additional checks and conversions.

All functions that accept X from users call these, so that invalid indices raise an error before a kernel uses them, and
so that tables and arrays of all libraries give the same result as a plain array of the same numbers.
"""

from __future__ import annotations

import mmap
from numbers import Integral, Number
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar, validation

from ._inputs.column_order import in_column_order
from ._inputs.sparse_structure import check_structure
from ._inputs.tables import as_named, labels, named_columns, readable, refuse_dates
from ._sklearn import check_weights, n_rows
from ._typing import ArrayLike, MatrixLike


def validate_data(estimator: BaseEstimator, X: MatrixLike, *y: Any, **options: Any) -> Any:
    """`sklearn.utils.validation.validate_data` of X (and y) from any container, after a check of sparse structure."""
    _check_files(X)
    X, y = readable(X), tuple(map(labels, y))
    check_structure(X)
    if options.get("dtype", "numeric") is not None:
        refuse_dates(X)
    with named_columns(X, estimator):
        named = as_named(X, accept_sparse=options.get("accept_sparse"))
        if named is None:
            return validation.validate_data(estimator, X, *y, **options)
        validation.validate_data(estimator, named.names, reset=options.pop("reset", True), skip_check_array=True)
        options["estimator"] = estimator
        if y:
            return validation.check_X_y(named.values, *y, **options)
        return validation.check_array(named.values, input_name="X", **options)


def column_name(estimator: BaseEstimator, column: int) -> str:
    """Name of a column for messages: its feature name, or its index if X had no feature names."""
    labels = getattr(estimator, "column_labels", None)  # of a block of columns
    if labels is not None:
        return labels[column]
    names = getattr(estimator, "feature_names_in_", None)
    return repr(column if names is None else names[column])


def of_columns(estimator: BaseEstimator, name: str, axes: tuple[int, ...] = (1,)) -> Any:
    """A parameter with values of columns, in the order of the columns of X if both have names: `in_column_order`."""
    return in_column_order(getattr(estimator, name), getattr(estimator, "feature_names_in_", None), name, axes)


def check_array(X: Any, **options: Any) -> Any:
    """`sklearn.utils.check_array` of an X from any container, after a check of the sparse structure."""
    name = options.get("input_name") or "X"
    _check_files(X, name)
    X = readable(X, name)
    check_structure(X, name)
    refuse_dates(X, name)
    with named_columns(X, name=name):
        named = as_named(X, accept_sparse=options.get("accept_sparse"), name=name)
        return validation.check_array(X if named is None else named.values, **options)


def validate_sample_weight(sample_weight: ArrayLike, X: Any) -> np.ndarray:
    """`sample_weight` of any container as non-negative float64 with a positive finite sum, one for each row of X."""
    if not isinstance(sample_weight, Number):
        sample_weight = check_array(sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
    of_rows = np.empty(n_rows(readable(X)))
    weights = check_weights(sample_weight, of_rows, dtype=np.float64)
    validation.check_non_negative(weights, "`sample_weight`")
    with np.errstate(over="ignore"):
        if 0.0 < weights.sum() < np.inf:
            return weights
    raise ValueError("sample_weight must have a finite sum and must not be zero for all rows of X.")


def validate_proportions(X: Any, n_components: int, noun: str) -> np.ndarray:
    """X as proportions, (n_rows, n_components) float64; `noun` is the name of a component in errors."""
    proportions = check_array(X, dtype=np.float64, input_name="X")
    if proportions.shape[1] != n_components:
        raise ValueError(f"X has {proportions.shape[1]} columns, one per {noun}, but there are {n_components} {noun}s.")
    return proportions


def check_prior_sizes(
    estimator: BaseEstimator, n_samples: int, n_features: int | None, least: int = 1
) -> tuple[int, int | None]:
    """Numbers of rows and columns that `sample_prior` draws; the fit supplies what the number of columns would."""
    n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
    if n_features is not None:
        return n_samples, check_scalar(n_features, "n_features", Integral, min_val=least)
    not_fitted = "This %(name)s instance is not fitted: call 'fit', or give n_features."
    validation.check_is_fitted(estimator, msg=not_fitted)
    return n_samples, None


def _check_files(X: Any, name: str = "X") -> None:
    """Raise a ValueError if the file of a mapped array, or of a sparse matrix of such arrays, has become shorter.

    Access beyond the end of a file ends the process.
    """
    parts = (X.indptr, X.indices, X.data) if sp.issparse(X) and hasattr(X, "indptr") else (X,)
    for part in parts:
        owner: Any = part
        while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
            owner = owner.base
        if isinstance(owner, np.memmap):
            _check_file(owner, name)


def _check_file(array: Any, name: str) -> None:
    n_bytes = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY + len(array.base)
    if array.base.size() < n_bytes:
        raise ValueError(
            f"{name} is mapped from the file {array.filename}, which is truncated: it has {array.base.size()} bytes of "
            f"{n_bytes}."
        )
