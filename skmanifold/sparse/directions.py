"""Rows of data as directions: unit vectors in canonical CSR layout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils._validation import validate_data
from .counts import canonical_csr, refuse_texts


class Directions(NamedTuple):
    """Unit vectors in CSR order: row i has the values ``data[indptr[i]:indptr[i + 1]]``; a zero row has no entries."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    data: np.ndarray  # (nnz,) float64
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def directed(self) -> np.ndarray:
        """Rows that have a direction, ascending int64."""
        return np.flatnonzero(np.diff(self.indptr))


def validate_directions(estimator, X, *, reset: bool) -> Directions:
    """A user's dense or sparse X of finite numbers of either sign as directions.

    A row of zeros has no direction: it becomes a row without entries.

    Raises
    ------
    ValueError
        If X has strings, values that are not finite, or a single column.
    """
    return as_directions(validate_numbers(estimator, X, np.float64, reset=reset))


def validate_numbers(estimator, X, dtype, *, reset: bool):
    """A user's dense or sparse X of finite numbers of either sign, in a CSR format if it is sparse.

    Raises
    ------
    ValueError
        If X has strings, values that are not finite, or a single column.
    """
    refuse_texts(estimator, X, "directions", "TfidfVectorizer")
    least = 2 if reset else 1  # not at later calls, where the error about a different number of columns is more helpful
    return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=dtype, ensure_min_features=least)


def as_directions(X) -> Directions:
    """A validated matrix as directions; the matrix is not modified."""
    csr = canonical_csr(X)
    indptr = csr.indptr.astype(np.int64)
    n_entries = np.diff(indptr)
    full = n_entries > 0
    data = csr.data.astype(np.float64)  # a copy
    if full.any():
        # First divide by the largest entry of a row: squares of very long and very short rows overflow or underflow.
        starts = indptr[:-1][full]
        for reduce, power in ((np.maximum, False), (np.add, True)):
            sizes = reduce.reduceat(data * data if power else np.abs(data), starts)
            data /= np.repeat(np.sqrt(sizes) if power else sizes, n_entries[full])
    indices = csr.indices if csr.indices.flags.writeable else csr.indices.copy()
    return Directions(indptr, np.ascontiguousarray(indices, np.int32), data, csr.shape[1])
