"""Rows of a sparse matrix, centred without its zeros being stored; kernels read blocks of them as dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils._threads import split_range

BLOCK = 2048  # rows that are dense at a time


class SparseRows:
    """The rows of a CSR matrix minus a location, (m,)."""

    dtype = np.dtype(np.float64)

    def __init__(self, matrix: sp.csr_array, location: np.ndarray):
        self.matrix, self.location, self.shape = matrix, location, matrix.shape
        self.size = self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> SparseRows:
        return SparseRows(self.matrix[rows], self.location)

    def __sub__(self, location: np.ndarray) -> SparseRows:
        return SparseRows(self.matrix, self.location + location)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.matrix.toarray() - self.location

    def copy(self) -> np.ndarray:
        """The rows as a dense array."""
        return np.asarray(self)

    def mean(self, axis: int) -> np.ndarray:
        """Means of the columns."""
        return np.asarray(self.matrix.mean(axis=axis)).ravel() - self.location


def blocks(X: Any) -> list[slice]:
    """Slices of X whose rows are read at a time: all of a dense array, blocks of sparse rows."""
    return [slice(*of) for of in split_range(len(X), BLOCK if isinstance(X, SparseRows) else max(len(X), 1))]


def sum_of_blocks(function: Any, X: Any) -> Any:
    """Sum of a function of dense blocks of X."""
    return sum(function(np.asarray(X[block])) for block in blocks(X))
