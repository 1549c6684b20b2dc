"""Rows of emissions as dense arrays of numbers and codes, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._codes import Table
from .._columns.rows import ColumnRows, scattered
from .._linear_rows import LinearRows


def values_of(rows: Any) -> np.ndarray:
    """Cells of rows.

    Parameters
    ----------
    rows : DenseRows, IncompleteRows, LinearRows, Table or ColumnRows
        Rows of an emission of the library.

    Returns
    -------
    values : ndarray of shape (n_rows, n_columns)
        Numbers and codes; NaN where a cell is missing. A new array.
    """
    if isinstance(rows, ColumnRows):
        return scattered(rows.places, [values_of(block) for block in rows.blocks])
    if isinstance(rows, LinearRows | Table):
        row_of = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
        if isinstance(rows, Table):
            out = np.full((rows.n_rows, rows.n_columns), np.nan)
            column_of = rows.column_of()[rows.indices]
            out[row_of, column_of] = rows.indices - rows.column_start[column_of]
            return out
        out, m = np.zeros((rows.n_rows, rows.n_features)), rows.n_features
        out[row_of, rows.indices % m] = np.where(rows.indices < m, rows.counts, np.nan)
        return out
    return rows.values.copy()
