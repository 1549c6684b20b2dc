"""Validated rows of counts, categories or events, as sparse statistics."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..numerics.row_hash import hash_counts
from ..random._keys import fold_in_each
from ..sparse.counts import COUNT_TYPES, Counts, as_counts, canonical_csr, check_signs, refuse_texts, take_rows
from ..sparse.counts import sums_of_rows as sums_of_rows
from ..utils._conditions import Array
from ..utils._njit import njit
from ..utils._typing import MatrixLike
from ..utils._validation import validate_data
from ._base import BaseEmission, explained_refusals
from ._negative_binomial_kernels import add_log_rising


class LinearRows(NamedTuple):
    """Sparse statistics of rows in CSR order.

    Columns are the features. Where cells may be missing, there are as many columns again: a 1 in column
    ``n_features + j`` means that feature j is missing.

    Attributes
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1]``.
    indices : ndarray of shape (nnz,), int32
        Columns of the entries.
    counts : ndarray of shape (nnz,)
        Values: int32, or float64 if some are fractions.
    n_features : int
        Number of features.
    log_base : ndarray of shape (n_rows,) or None
        The part of each row's log density that does not depend on the parameters; None if it is zero.
    column_start : ndarray of shape (n_features + 1,), int64, or None
        Of rows of categories: the first category of each feature, and the number of all categories.
    bases_of_categories : ndarray of shape (n_categories,), or None
        Of rows of categories with a `log_base`: the terms that it is the sum of.
    """

    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    n_features: int
    log_base: np.ndarray | None
    column_start: np.ndarray | None = None
    bases_of_categories: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def part(self, start: int, stop: int) -> Self:
        """The rows `start` to `stop`, or to the last."""
        indptr = self.indptr[start : stop + 1]
        cells = slice(indptr[0], indptr[-1])
        log_base = None if self.log_base is None else self.log_base[start:stop]
        indices, counts = self.indices[cells], self.counts[cells]
        return self._replace(indptr=indptr - indptr[0], indices=indices, counts=counts, log_base=log_base)

    @classmethod
    def none(cls, n_features: int) -> LinearRows:
        """No rows.

        Parameters
        ----------
        n_features : int

        Returns
        -------
        rows : LinearRows
        """
        return cls(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), n_features, None)

    def take(self, rows: np.ndarray) -> Self:
        """The rows with these indices.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64

        Returns
        -------
        taken : LinearRows
        """
        log_base = None if self.log_base is None else self.log_base[rows]
        indptr, indices, counts = take_rows(*self[:3], rows)
        return self._replace(indptr=indptr, indices=indices, counts=counts, log_base=log_base)

    def of_columns(self, columns: np.ndarray) -> Self:
        """The rows of some columns; a `log_base` is minus the logs of the factorials of their counts."""
        n = len(columns)
        rows = self._of_statistics(np.concatenate([columns, columns + self.n_features]), 2 * self.n_features)
        rows = rows._replace(n_features=n)
        if self.log_base is None:
            return rows
        log_factorials = np.zeros((self.n_rows, 1))
        add_log_rising(0, self.n_rows, *rows[:3], np.ones(n), log_factorials)
        return rows._replace(log_base=-log_factorials[:, 0])

    def _of_statistics(self, chosen: np.ndarray, n_statistics: int) -> Self:
        """The same rows with only the chosen ones of the columns of entries."""
        place_of = np.full(n_statistics, -1, np.int32)
        place_of[chosen] = np.arange(len(chosen))
        indptr, indices, counts = _entries_of_columns(*self[:3], place_of)
        return self._replace(indptr=indptr, indices=indices, counts=counts)

    def cells(self) -> np.ndarray:
        """Cells as numbers and codes.

        Returns
        -------
        cells : ndarray of shape (n_rows, n_features)
            A new array; NaN where a cell is missing.
        """
        row_of = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
        out, m = np.zeros((self.n_rows, self.n_features)), self.n_features
        out[row_of, self.indices % m] = np.where(self.indices < m, self.counts, np.nan)
        return out

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Square roots of the cells, whose variances barely depend on the means of counts, and the column of each.

        Returns
        -------
        cells : ndarray of shape (n_rows, n_features)
            NaN where a cell is missing.
        columns : ndarray of shape (n_features,), int64
        """
        return np.sqrt(self.cells()), np.arange(self.n_features)

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        return hash_counts(self.indptr, self.indices, self.counts, key, first_row)

    def overall(self, n_statistics: int, row_weights: np.ndarray | None = None) -> np.ndarray:
        """The sum of each statistic over all rows.

        Parameters
        ----------
        n_statistics : int
        row_weights : ndarray of shape (n_rows,), optional

        Returns
        -------
        sums : ndarray of shape (n_statistics,)
        """
        counts = self.counts
        if row_weights is not None:
            counts = counts * np.repeat(row_weights, np.diff(self.indptr))
        return np.bincount(self.indices, weights=counts, minlength=n_statistics)


@njit(cache=True, nogil=True)
def _entries_of_columns(indptr, indices, counts, place_of):
    """The entries whose column has a place, with the places as columns; ``place_of[column]`` is -1 for others."""
    starts, places, values, n = np.zeros(len(indptr), np.int64), np.empty_like(indices), np.empty_like(counts), 0
    for row in range(len(indptr) - 1):
        for e in range(indptr[row], indptr[row + 1]):
            places[n], values[n] = place_of[indices[e]], counts[e]
            n += places[n] >= 0
        starts[row + 1] = n
    return starts, places[:n].copy(), values[:n].copy()


def read_counts(
    estimator: BaseEstimator, X: MatrixLike, *, reset: bool, missing: bool, emission: BaseEmission | None = None
) -> Counts:
    """Validate non-negative X, which may have fractions; a missing cell becomes a 1 in an additional column.

    Parameters
    ----------
    estimator : estimator instance
        Validation stores the number and names of columns in it, as scikit-learn does.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    reset : bool
        Whether to store the number and names of columns, or to compare them with those of `fit`.
    missing : bool
        Whether NaN marks a missing cell; if not, NaN is an error.
    emission : BaseEmission, default=None
        The emission that errors name.

    Returns
    -------
    counts : Counts
        If `missing`, with twice as many columns as X; the second half is for missing cells.

    Raises
    ------
    ValueError
        If X has negative or infinite values, or NaN that is not allowed.
    """
    refuse_texts(estimator, X)
    with explained_refusals(emission, X):
        options = {"accept_sparse": "csr", "dtype": COUNT_TYPES, "ensure_all_finite": "allow-nan" if missing else True}
        valid = validate_data(estimator, X, reset=reset, **options)
    csr = canonical_csr(_with_columns_for_missing(sp.csr_array(valid)) if missing else valid)
    check_signs(csr, estimator)
    return as_counts(csr)


def refuse_fractions(rows: LinearRows, emission: str, values: str) -> None:
    """Raise a ValueError that names the emission, and what cells should be, if a count is a fraction."""
    if rows.counts.dtype.kind != "f":
        return
    entry = int((rows.counts % 1 != 0).argmax())
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    raise ValueError(
        f"A Dirichlet process mixture with emission={emission!r} takes {values}, but X has {rows.counts[entry]} in row "
        f"{row}, column {rows.indices[entry]}: round them, or use ExponentialFamilyMixture."
    )


def _with_columns_for_missing(csr: sp.csr_array) -> sp.csr_array:
    n, m = csr.shape
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    absent = np.isnan(csr.data)
    if not absent.any():
        return sp.csr_array((csr.data, csr.indices, csr.indptr), shape=(n, 2 * m))
    indices = csr.indices.astype(np.int64) + m * absent
    wider = sp.csr_array((np.where(absent, 1.0, csr.data), indices, csr.indptr), shape=(n, 2 * m))
    wider.sort_indices()
    return wider


LENGTHS = Array("int64 int32", "n_lengths", low=0)
LEVELS = Array("float64", "n_lengths", above=0, high=1)


def distinct_lengths(lengths: np.ndarray, row_weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers of tokens of rows, sorted, and the running sums of their (weighted) shares, up to 1."""
    distinct, of_row = np.unique(lengths, return_inverse=True)
    levels = np.cumsum(np.bincount(of_row, row_weights))
    return distinct, levels / levels[-1]


def draw_lengths(lengths: np.ndarray, levels: np.ndarray, n_samples: int, key: np.uint64) -> np.ndarray:
    """Draw the numbers of tokens of new rows, (n_samples,) int64, from `distinct_lengths`."""
    uniforms = fold_in_each(key, np.arange(n_samples)) * 2.0**-64
    return lengths[np.searchsorted(levels[:-1], uniforms, side="right")].astype(np.int64)
