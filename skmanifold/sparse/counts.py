"""Counts in canonical CSR layout, and stochastic rounding to integers."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from ..random._keys import fold_in, uniform
from ..utils._inputs.tables import is_column, is_table, names_or_indices, readable, reads_categories
from ..utils._njit import njit
from ..utils._validation import validate_data


class Counts(NamedTuple):
    """Counts in CSR order: row i has the columns ``indices[indptr[i]:indptr[i + 1]]``, sorted; counts are positive.

    Algorithms that process tokens need whole numbers, see `whole_counts`. Inference uses fractional counts.
    """

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32; float64 if some are fractions
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return int(self.counts.sum(dtype=np.int64))

    def part(self, start: int, stop: int) -> Counts:
        """The rows `start` to `stop`; shares memory with this object."""
        first, last = self.indptr[start], self.indptr[stop]
        indptr = self.indptr[start : stop + 1] - first
        return Counts(indptr, self.indices[first:last], self.counts[first:last], self.n_features)

    def take(self, rows: np.ndarray) -> Counts:
        """The rows with these indices, as new arrays."""
        return Counts(*take_rows(*self[:3], rows), self.n_features)

    def pair_start(self) -> np.ndarray:
        """Index of the first token of each pair in CSR order, then the number of tokens, (nnz + 1,) int64."""
        return np.concatenate(([0], np.cumsum(self.counts, dtype=np.int64)))

    def token_start(self) -> np.ndarray:
        """Index of the first token of each row in CSR order, then the number of tokens, (n_rows + 1,) int64."""
        return np.concatenate(([0], np.cumsum(self.row_sums())))

    def row_sums(self) -> np.ndarray:
        """Sum of the counts of each row, (n_rows,) int64; float64 if some counts are fractions."""
        if self.counts.dtype.kind == "f":
            return sums_of_rows(self, self.counts)
        return whole_sums_of_rows(self.indptr, self.counts)


def take_rows(
    indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a sparse array in CSR order, given their indices: the same three arrays."""
    taken, entries = entries_of_rows(indptr, rows)
    return taken, indices[entries], counts[entries]


def entries_of_rows(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries of each of some rows start in a list of these, and their indices among all entries."""
    sizes = indptr[1:][rows] - indptr[:-1][rows]
    taken = np.concatenate(([0], np.cumsum(sizes)))
    return taken, np.repeat(indptr[rows] - taken[:-1], sizes) + np.arange(taken[-1])


class _Rows(Protocol):
    """Entries in rows, for functions of rows of any type."""

    @property
    def indptr(self) -> np.ndarray:
        """Index of the first entry of each row, and the number of all entries: (n_rows + 1,)."""


def sums_of_rows(rows: _Rows, values: np.ndarray) -> np.ndarray:
    """Sums of a value for each entry over the entries of each row.

    Parameters
    ----------
    rows : Counts or LinearRows
        Rows of entries.
    values : ndarray of shape (nnz,)
        A value for each entry, row after row.

    Returns
    -------
    sums : ndarray of shape (n_rows,)
    """
    n_rows = len(rows.indptr) - 1
    return np.bincount(np.repeat(np.arange(n_rows), np.diff(rows.indptr)), weights=values, minlength=n_rows)


def whole_sums_of_rows(indptr: np.ndarray, values: np.ndarray) -> np.ndarray:
    """As `sums_of_rows`, for integers: int64, exact, and without arrays of the size of `values`."""
    sums = np.zeros(len(indptr) - 1, np.int64)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, indptr[filled], dtype=np.int64)
    return sums


def no_rows(n_features: int) -> Counts:
    """Counts of no rows."""
    return Counts(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), n_features)


_INT32_MAX = np.iinfo(np.int32).max
MAX_TOKENS = _INT32_MAX  # in memory, because counts of words in topics have 32 bits
MAX_ROW_TOKENS = 100_000_000  # per row: labels have two bytes, and one task draws all those of a row
_MOST_MOVED = 0.05  # relative change of the sum of counts by rounding that gives no warning
USE_COUNTS_OF_WORDS = "pass counts of words (CountVectorizer), or use SphericalAdmixture for tf-idf"
COUNT_TYPES = [np.float64, np.int64, np.int32]  # types that validation keeps; others become the first one


def canonical_csr(X) -> sp.csr_array:
    """A CSR array with int32 indices sorted within rows, no duplicates and no explicit zeros.

    float64, int64 and int32 keep their type, others become float64. The result may share arrays with X, which stays.
    """
    csr = sp.csr_array(X)  # a new array: scipy's flags (sorted, unique) can be out of date after changes of the arrays
    if csr.shape[1] > _INT32_MAX:
        raise ValueError(f"X has {csr.shape[1]} columns; at most {_INT32_MAX} (int32) are supported.")
    if csr.data.dtype not in COUNT_TYPES:
        csr = csr.astype(np.float64)
    if not (csr.has_canonical_format and csr.data.all()):
        csr = csr.astype(np.float64, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        if np.isinf(csr.data).any():
            raise ValueError("X has entries for the same row and column whose sum exceeds the range of float64.")
    if csr.indices.dtype != np.int32:
        csr.indices = csr.indices.astype(np.int32)
        csr.indptr = csr.indptr.astype(np.int32 if csr.nnz <= _INT32_MAX else np.int64)
    return csr


def validate_counts(estimator, X, *, reset: bool) -> sp.csr_array:
    """A user's dense or sparse X of non-negative numbers as a canonical CSR."""
    refuse_texts(estimator, X)
    csr = canonical_csr(validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=COUNT_TYPES))
    check_signs(csr, estimator)
    return csr


def refuse_texts(estimator, X, wanted: str = "counts", vectorizer: str = "CountVectorizer") -> None:
    """Raise an error if the first row of X has strings: texts must be vectorised first, and categories encoded."""
    if isinstance(X, str):
        X = [X]
    if is_table(X) or is_column(X):
        first = readable(getattr(X, "iloc", X)[:1])
    else:
        holds_objects = isinstance(X, np.ndarray) and X.ndim and X.dtype.kind in "OU"
        first = X[:1] if holds_objects or isinstance(X, list | tuple) else []
    cells = np.array(first, dtype=object)
    if not any(map(_is_text, cells.flat)):
        return
    what, remedy = "X has strings", f"put {vectorizer} before it in a pipeline"
    if cells.ndim == 2 and cells.shape[1] > 1 and not (isinstance(X, list | tuple) and all(map(_is_text, cells.flat))):
        place = next(column for column, cell in enumerate(cells[0]) if _is_text(cell))
        what = f"Column {names_or_indices(first, cells.shape[1])[place]!r} of X has {cells[0, place]!r}"
        remedy += f" if this is a text, or use {reads_categories(estimator)} if it is a category"
    raise ValueError(f"{what}, but {type(estimator).__name__} takes {wanted}: {remedy}.")


def _is_text(cell) -> bool:
    """Whether a cell is a string that is not a number."""
    if not isinstance(cell, str):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def check_signs(csr: sp.csr_array, estimator) -> None:
    """Raise an error for negative entries, and for counts of a block of columns that are too large."""
    labels = getattr(estimator, "column_labels", None)
    if csr.data.size and csr.data.min() < 0:
        worst = int(csr.data.argmin())
        if labels is not None:  # of a block of columns
            column = labels[csr.indices[worst]]
            raise ValueError(
                f"Column {column} of X has {csr.data[worst]:g}, but its emission needs values of at least 0."
            )
        raise ValueError(f"Negative values in data passed to {type(estimator).__name__}.")
    if labels is not None and csr.data.size and csr.data.max() > _INT32_MAX:
        largest = int(csr.data.argmax())
        raise ValueError(
            f"Column {labels[csr.indices[largest]]} of X has a count of {csr.data[largest]:.6g}; at most {_INT32_MAX} "
            "are supported."
        )


def as_counts(csr: sp.csr_array) -> Counts:
    """The counts of a canonical CSR array of non-negative values: int32 if all are whole, else float64."""
    if csr.data.size and csr.data.max() > _INT32_MAX:
        raise ValueError(f"X has a count of {csr.data.max():.6g}; at most {_INT32_MAX} are supported.")
    counts = csr.data.astype(np.int32, copy=False)
    if csr.data.dtype == np.float64 and (counts != csr.data).any():
        counts = csr.data
    # Read-only arrays are copied, because kernels would be compiled again for them.
    indices, counts = (np.require(array, None, ["C", "W"]) for array in (csr.indices, counts))
    return Counts(csr.indptr.astype(np.int64), indices, counts, csr.shape[1])


def whole_counts(csr: sp.csr_array, key: np.uint64, *, first_row: int = 0) -> Counts:
    """Whole counts from a canonical CSR array of non-negative values, by keyed stochastic rounding.

    x becomes floor(x) + 1 with probability x - floor(x), else floor(x): the expected value is x. The draw depends on
    key, row from `first_row`, and column.
    """
    exact = as_counts(csr)
    if exact.counts.dtype != np.float64:
        return exact
    indptr, indices, data, n_features = exact
    counts = np.empty(len(data), np.int32)
    _round_rows(indptr, indices, data, key, first_row, counts)
    keep = counts > 0
    return Counts(np.concatenate(([0], np.cumsum(keep)))[indptr], indices[keep], counts[keep], n_features)


def moved_by_rounding(csr: sp.csr_array) -> float:
    """The expected change of `whole_counts`: f (1 - f) for a value with the fraction f."""
    if csr.data.dtype != np.float64:
        return 0.0
    fractions = csr.data - np.floor(csr.data)
    return float((fractions * (1.0 - fractions)).sum())


def warn_of_fractions(moved: float, total: float, cure: str, *, stacklevel: int) -> None:
    """Warn if rounding changes more than a twentieth of the sum of X; `cure` is the end of the message."""
    if moved > _MOST_MOVED * total:
        warnings.warn(
            f"X has fractional counts, which fit rounds at random: this moves {moved / total:.0%} of their sum; "
            f"{cure}.",
            stacklevel=stacklevel + 1,
        )


def counts_to_fit(csr: sp.csr_array, key: np.uint64, cure: str, *, stacklevel: int) -> Counts:
    """`whole_counts`, with a warning if they differ much from the counts of X."""
    warn_of_fractions(moved_by_rounding(csr), float(csr.data.sum()), cure, stacklevel=stacklevel + 1)
    return whole_counts(csr, key)


def check_tokens(counts: Counts, *, most_per_row: int = MAX_ROW_TOKENS, first_row: int = 0) -> None:
    """`check_token_start` for counts; rows are only summed if they could exceed a limit."""
    if counts.counts.size * int(np.ceil(counts.counts.max(initial=0))) > most_per_row:
        lengths = np.ceil(counts.row_sums()).astype(np.int64)
        token_start = np.concatenate(([0], np.cumsum(lengths)))
        check_token_start(token_start, most_per_row=most_per_row, first_row=first_row)


def check_token_start(
    token_start: np.ndarray, *, most: int = MAX_TOKENS, most_per_row: int = MAX_ROW_TOKENS, first_row: int = 0
) -> None:
    """Raise a ValueError if all rows, or one, have more tokens than the algorithms for tokens support.

    `token_start` is (n_rows + 1,); `first_row` is the index of the first of these rows in X.
    """
    lengths = np.diff(token_start)
    longest = int(lengths.max(initial=0))
    if longest > most_per_row:
        raise ValueError(
            f"Row {first_row + int(lengths.argmax())} of X has {longest} tokens, more than the limit of {most_per_row} "
            "tokens per row: divide the counts by a constant, or split the row."
        )
    total = int(token_start[-1] - token_start[0])
    if total > most:
        raise ValueError(
            f"X has {total} tokens, more than the limit of {most} tokens in memory: divide the counts by a "
            "constant, or pass the rows in parts."
        )


@njit(cache=True, nogil=True)
def _round_rows(indptr, indices, data, key, first_row, out):
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        key_of_row = fold_in(key, first_row + row)
        for j in range(start, stop):
            whole = np.floor(data[j])
            out[j] = np.int32(whole) + (1 if uniform(key_of_row, indices[j]) < data[j] - whole else 0)


@njit(cache=True, nogil=True)
def index_columns(indices, out_indptr, out_entries):
    """List the entries of each column (positions in CSR order), rows ascending."""
    n_columns = len(out_indptr) - 1
    out_indptr[:] = 0
    for j in range(len(indices)):
        out_indptr[indices[j] + 1] += 1
    for column in range(n_columns):
        out_indptr[column + 1] += out_indptr[column]
    free = out_indptr[:-1].copy()
    for j in range(len(indices)):
        out_entries[free[indices[j]]] = j
        free[indices[j]] += 1
