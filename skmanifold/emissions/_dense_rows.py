"""Validated rows of real numbers, with and without missing cells."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..numerics.row_hash import hash_dense
from ..random._keys import mix64
from ..utils._njit import njit
from ..utils._typing import MatrixLike
from ..utils._validation import column_name, validate_data
from ._base import BaseEmission, explained_refusals

_WORD = 64


@njit(cache=True, nogil=True)
def fill_patterns(X, patterns):
    """Fill `patterns`, (n,) uint64, with a number for the missing cells of each row: 0 if there are none.

    With up to 64 columns they are the bits of the number; with more columns the number is a hash.
    """
    n, d = X.shape
    for i in range(n):
        number, bits, is_complete = np.uint64(0), np.uint64(0), True
        for a in range(d):
            if np.isnan(X[i, a]):
                bits |= np.uint64(1) << np.uint64(a % _WORD)
                is_complete = False
            if a % _WORD == _WORD - 1 or a == d - 1:
                number = bits if d <= _WORD else mix64(number + bits) + np.uint64(1)
                bits = np.uint64(0)
        patterns[i] = np.uint64(0) if is_complete else max(number, np.uint64(1))  # a hash may be 0


@njit(cache=True, nogil=True)
def find_missing(X, row, seen, missing):
    """Fill the first entries of `seen` and `missing` with the columns of a row; returns the number of missing ones."""
    n_seen = n_missing = 0
    for a in range(X.shape[1]):
        if np.isnan(X[row, a]):
            missing[n_missing] = a
            n_missing += 1
        else:
            seen[n_seen] = a
            n_seen += 1
    return n_missing


@njit(cache=True, nogil=True)
def have_same_missing(X, row, other):
    """Whether the same cells of two rows are missing; rows with the same pattern could differ, as it may be a hash."""
    for a in range(X.shape[1]):  # noqa: SIM110
        if np.isnan(X[row, a]) != np.isnan(X[other, a]):
            return False
    return True


class DenseRows(NamedTuple):
    """Rows of real numbers.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features), float64
        C-contiguous; NaN where a cell is missing.
    log_base : ndarray of shape (n_rows,) or None
        The part of each row's log density that does not depend on the parameters; None if it is zero.
    patterns : ndarray of shape (n_rows,), uint64, or None
        Of rows with missing cells, see `IncompleteRows`; None if no cell is missing.
    """

    values: np.ndarray
    log_base: np.ndarray | None = None
    patterns: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.values.shape[1]

    @property
    def has_missing(self) -> bool:
        """Whether cells may be missing."""
        return self.patterns is not None

    def filled(self, start: int, stop: int, origin: np.ndarray) -> np.ndarray:
        """The values of the rows `start` to `stop`, with those of an origin in missing cells.

        Parameters
        ----------
        start, stop : int
        origin : ndarray of shape (n_features,)

        Returns
        -------
        values : ndarray of shape (stop - start, n_features)
            A view if no cell is missing.
        """
        values = self.values[start:stop]
        return np.where(np.isnan(values), origin, values) if self.has_missing else values

    def cells(self) -> np.ndarray:
        """Cells as numbers and codes.

        Returns
        -------
        cells : ndarray of shape (n_rows, n_features)
            A new array; NaN where a cell is missing.
        """
        return self.values.copy()

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        return hash_dense(self.values, key, first_row)

    def part(self, start: int, stop: int) -> Self:
        """The rows `start` to `stop`, or to the last."""
        return self.take(slice(start, stop))

    def take(self, rows: np.ndarray | slice) -> Self:
        """The rows with these indices.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64, or slice

        Returns
        -------
        taken : DenseRows
        """
        others = (None if array is None else array[rows] for array in self[1:])
        return type(self)(self.values[rows], *others)

    def of_columns(self, columns: np.ndarray) -> DenseRows:
        """These rows with some columns alone, without a ``log_base``."""
        values = np.take(self.values, columns, axis=1)
        is_complete = not self.has_missing or not np.isnan(values).any()
        return DenseRows(values) if is_complete else IncompleteRows.of_values(values)


class IncompleteRows(DenseRows):
    """Rows of real numbers with missing cells, or some of these rows.

    Attributes
    ----------
    values, log_base : ndarray
        As of `DenseRows`.
    patterns : ndarray of shape (n_rows,), uint64
        A number for the set of missing cells of each row, 0 if it is empty. With more than 64 features, it is a hash.
    """

    patterns: np.ndarray

    @classmethod
    def of_values(cls, values: np.ndarray) -> IncompleteRows:
        """Rows with these values.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_features), float64
            C-contiguous; NaN where a cell is missing.

        Returns
        -------
        rows : IncompleteRows
        """
        patterns = np.empty(len(values), np.uint64)
        fill_patterns(values, patterns)
        return cls(values, patterns=patterns)

    def split(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the complete rows among the rows `start` to `stop`, and of the others, sorted by pattern.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        complete : ndarray of int64
        incomplete : ndarray of int64
            Rows with the same pattern are next to each other, in their order.
        """
        patterns = self.patterns[start:stop]
        order = np.argsort(patterns, kind="stable")
        n_complete = len(order) - np.count_nonzero(patterns)
        return start + order[:n_complete], start + order[n_complete:]


def read_dense(
    estimator: BaseEstimator, X: MatrixLike, *, reset: bool, emission: BaseEmission | None = None, missing: bool = False
) -> DenseRows | IncompleteRows:
    """Validate a dense X of finite numbers, or of finite numbers and NaN.

    Parameters
    ----------
    estimator : estimator instance
        Validation stores the number and names of columns in it, as scikit-learn does.
    X : array-like of shape (n_samples, n_features)
    reset : bool
        Whether to store the number and names of columns, or to compare them with those of `fit`.
    emission : BaseEmission, default=None
        The emission that errors name.
    missing : bool, default=False
        Whether NaN marks a missing cell; if not, NaN is an error.

    Returns
    -------
    rows : DenseRows or IncompleteRows
        The values as float64, without a ``log_base``; `IncompleteRows` if cells are missing.

    Raises
    ------
    ValueError
        If X has other values than finite numbers, or NaN that is not allowed, or a column without observed cells when
        `reset` is true.
    TypeError
        If X is sparse.
    """
    finite = "allow-nan" if missing else True
    with explained_refusals(emission, X):
        valid = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)
    values = np.require(valid, requirements=["C", "W"])
    if not missing or not np.isnan(values.min()):
        return DenseRows(values)
    if reset:
        _refuse_empty_columns(estimator, values)
    return IncompleteRows.of_values(values)


def _refuse_empty_columns(estimator: BaseEstimator, values: np.ndarray) -> None:
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if len(empty) == values.shape[1] and not hasattr(estimator, "column_labels"):  # which blocks of tables have
        raise ValueError("All cells of X are missing (NaN): a fit needs observed cells in every column.")
    if len(empty):
        name = column_name(estimator, int(empty[0]))
        raise ValueError(f"Column {name} of X has no observed cell, only NaN: remove such columns before the fit.")
