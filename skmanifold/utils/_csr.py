"""Counts as the kernels want them: a canonical CSR matrix, and whole numbers made of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from ._random import fold_in, row_key, uniform


class Counts(NamedTuple):
    """Whole-number counts in CSR order: row i holds ``indices[indptr[i]:indptr[i + 1]]``, sorted, counts positive."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return int(self.counts.sum(dtype=np.int64))


def canonical_csr(X) -> sp.csr_array:
    """A CSR array with float64 values, int32 indices sorted within rows, no duplicates and no explicit zeros.

    Never changes its argument.
    """
    csr = sp.csr_array(X, dtype=np.float64, copy=sp.issparse(X))
    if csr.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"X has {csr.shape[1]} columns; at most {np.iinfo(np.int32).max} (int32) are supported.")
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


def whole_counts(csr: sp.csr_array, key: np.uint64, *, by_content: bool) -> Counts:
    """Whole numbers from a canonical CSR of non-negative values, by keyed stochastic rounding.

    A value x becomes floor(x) + 1 with probability x - floor(x), else floor(x): right on average, and a whole number
    stays as it is. In ``fit`` the draw belongs to (key, row, column); with `by_content` to the row's content instead,
    so that a row is rounded the same way in whichever batch or position it comes.
    """
    indptr = csr.indptr.astype(np.int64)
    indices = csr.indices.astype(np.int32)
    if csr.nnz and csr.data.max() > np.iinfo(np.int32).max:
        raise ValueError(f"X has a count of {csr.data.max():.6g}; at most {np.iinfo(np.int32).max} are supported.")
    counts = np.floor(csr.data).astype(np.int32)
    if np.any(counts != csr.data):
        data = np.ascontiguousarray(csr.data)
        _round_rows(indptr, indices, data, data.view(np.uint64), key, by_content, counts)
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        keep = counts > 0
        indices, counts = indices[keep], counts[keep]
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows[keep], minlength=len(indptr) - 1)))).astype(np.int64)
    return Counts(indptr, indices, counts, csr.shape[1])


@njit(cache=True, nogil=True)
def _round_rows(indptr, indices, data, bits, key, by_content, out):
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        key_of_row = row_key(key, indices, bits, start, stop) if by_content else fold_in(key, row)
        for j in range(start, stop):
            whole = np.floor(data[j])
            out[j] = np.int32(whole) + (1 if uniform(key_of_row, indices[j]) < data[j] - whole else 0)
