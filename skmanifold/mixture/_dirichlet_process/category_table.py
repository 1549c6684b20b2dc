"""Rows of categories as the kernels read them: counts of a multinomial, or the cells of a table, in one layout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Table(NamedTuple):
    """Counts of categories by rows, in CSR order; the categories belong to columns.

    Row i holds ``counts[e]`` tokens of category ``indices[e]`` for e in ``indptr[i]:indptr[i + 1]``, sorted, counts
    positive. Column b has the categories ``column_start[b]:column_start[b + 1]``, over which each component has a
    distribution of its own. Counts of a multinomial are one column; a categorical table has a column for each of its
    own, and one token in every cell that is not missing.
    """

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32; float64 of rows to be predicted where some are fractions
    column_start: np.ndarray  # (n_columns + 1,) int64

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_columns(self) -> int:
        """Number of columns, each with a distribution of its own."""
        return len(self.column_start) - 1

    @property
    def n_categories(self) -> int:
        """Number of categories of all columns."""
        return int(self.column_start[-1])

    def column_of(self) -> np.ndarray:
        """The column that each category belongs to, (n_categories,) int32, made anew."""
        return np.repeat(np.arange(self.n_columns, dtype=np.int32), np.diff(self.column_start))
