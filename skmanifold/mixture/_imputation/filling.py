"""Tables of any library with other values in their missing cells."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...emissions._columns.layout import ordered
from ...emissions._columns.reading import open_table


def filled(mixture: Any, X: Any, values: np.ndarray, filling: np.ndarray) -> Any:
    """A copy of X with values in its missing cells.

    Parameters
    ----------
    mixture : estimator instance
        The fitted mixture.
    X : array-like of shape (n_samples, n_features)
        As the user gave it.
    values : ndarray of shape (n_samples, n_features)
        X as numbers and codes; NaN where a cell is missing.
    filling : ndarray of shape (n_samples, n_features)
        Numbers and codes; those of missing cells are used.

    Returns
    -------
    X : array-like of shape (n_samples, n_features)
        Of the same kind as X. Columns of data frames that have no missing cells are unchanged.
    """
    table, names = open_table(X), getattr(mixture, "feature_names_in_", None)
    places, missing = ordered(table, names), np.isnan(values)
    out = np.where(missing, filling, values)
    if table.library == "numpy":
        return _filled_array(mixture, table.table, missing, out)
    replaced = {}
    for column in np.flatnonzero(missing.any(axis=0)):
        cells = mixture._cells_of(column, out[:, column])
        replaced[table.names[places[column]]] = cells  # type: ignore[index]
    module = sys.modules[table.library]
    if table.library == "pandas":
        return _filled_frame(table.table, replaced, module)
    if table.library == "polars":
        series = []
        for name, cells in replaced.items():
            dtype = table.table.schema[name]
            series.append(module.Series(name, cells.tolist(), dtype=None if dtype.is_integer() else dtype))
        return table.table.with_columns(series)
    whole = table.table
    for name, cells in replaced.items():
        place = whole.column_names.index(name)
        whole = whole.set_column(place, name, module.array(cells.tolist()))
    return whole


def _filled_array(mixture: Any, X: np.ndarray, missing: np.ndarray, out: np.ndarray) -> np.ndarray:
    if X.dtype.kind in "biuf":
        known = np.array([mixture._cells_of(column, out[:, column]) for column in range(out.shape[1])], dtype=float).T
        return np.where(missing, known, X.astype(np.float64))
    whole = X.astype(object)
    for column in np.flatnonzero(missing.any(axis=0)):
        holes = missing[:, column]
        whole[holes, column] = mixture._cells_of(column, out[:, column])[holes]
    return whole


def _filled_frame(X: Any, replaced: dict[Any, np.ndarray], pandas: Any) -> Any:
    X = X.copy()
    for name, cells in replaced.items():
        dtype = X[name].dtype
        if isinstance(dtype, pandas.CategoricalDtype):
            X[name] = pandas.Categorical(cells, dtype=dtype)
        elif pandas.api.types.is_integer_dtype(dtype):  # means of whole numbers are not whole
            X[name] = cells.astype(np.float64)
        else:
            X[name] = pandas.Series(cells, index=X.index).astype(dtype)
    return X
