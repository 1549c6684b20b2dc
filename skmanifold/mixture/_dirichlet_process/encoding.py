"""Users' X as the kernels' table: counts of a multinomial, or columns of category codes in which NaN is missing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import scipy.sparse as sp

from ...emissions._base import BaseEmission
from ...sparse.counts import as_counts, counts_to_fit, validate_counts
from ...utils._njit import njit
from ...utils._threads import split_range
from ...utils._validation import column_name, validate_data
from .category_table import Table

_INT32_MAX = np.iinfo(np.int32).max
_MOST_CATEGORIES = 1_000_000  # of a column with fewer rows: a code above is a date or an identifier
_HIGHEST_CODE = 30  # of tables that may be codes
_MOST_SCATTER = 0.95  # variance over mean of codes, in half of the columns; of counts it is 1 or more
_LEAST_SHARE, _LEAST_ROWS = 0.05, 3  # of the highest code, in half of the columns
_HIGHEST_OFTEN = 12  # counts that end at a higher number are rather cut off there, as pixels are
_WEIGH_FRACTIONS = "pass whole counts, or use ExponentialFamilyMixture, which takes fractions as weights"
_MAY_BE_CODES = (
    "Each column of X holds a few small whole numbers, as codes of categories do, but emission='multinomial' takes "
    "counts: use emission='categorical' for codes, or pass counts as a sparse matrix to silence this."
)
_CELLS_PER_BLOCK = 1 << 16  # converted at a time: half a megabyte


def count_table(estimator, emission, X, rounding_key: np.uint64 | None, *, reset: bool) -> Table:
    """Counts of one multinomial as a table of one column. Rows may have no tokens.

    To be fitted they are whole, fractions rounded at random by `rounding_key`; without it they stay as they are. A
    user-defined emission with a reader of its own has read what it makes of X.
    """
    if type(emission).read_tokens is not BaseEmission.read_tokens:
        counts = emission.read_tokens(estimator, X, rounding_key, reset=reset)
        return Table(counts.indptr, counts.indices, counts.counts, np.array([0, counts.n_features], np.int64))
    csr = validate_counts(estimator, X, reset=reset)
    if rounding_key is None:
        counts = as_counts(csr)
    else:
        counts = counts_to_fit(csr, rounding_key, _WEIGH_FRACTIONS, stacklevel=6)
        if reset and not sp.issparse(X) and _look_like_codes(csr):
            warnings.warn(_MAY_BE_CODES, stacklevel=6)
    return Table(counts.indptr, counts.indices, counts.counts, np.array([0, counts.n_features], np.int64))


def _look_like_codes(csr: sp.csr_array) -> bool:
    """Whether dense counts are rather numbers of categories, by the columns with more than zeros and ones.

    Counts of events scatter at least as Poisson variables, unless the sums of rows are fixed, and their highest are
    rare. Codes have smaller variances than means if categories are few, and often the highest code.
    """
    n_rows, n_columns = csr.shape
    highest = csr.max(axis=0).toarray()
    several = highest >= 2
    if not several.any() or highest.max() > _HIGHEST_CODE or (csr.data % 1).any():
        return False
    means = np.asarray(csr.mean(axis=0))
    variances = np.asarray(csr.multiply(csr).mean(axis=0)) - means**2
    if csr.sum(axis=1).var() < 0.5 * variances.sum():
        return False
    scatter = np.median(variances[several] / means[several])
    if scatter < min(_MOST_SCATTER, 1.0 - 4.0 * math.sqrt(2.0 / (n_rows * several.sum()))):
        return True
    at_highest = np.bincount(csr.indices, weights=csr.data == highest[csr.indices], minlength=n_columns)
    often = at_highest[several] >= max(_LEAST_ROWS, _LEAST_SHARE * n_rows)
    return bool(often.mean() >= 0.5 and highest.max() <= _HIGHEST_OFTEN)


def validate_codes(estimator, X, *, reset: bool) -> np.ndarray:
    """Dense X of category codes as an array (n_rows, n_columns) of numbers, of the type that X has.

    What the numbers are is seen when they are read, by `fit_categories` and `category_table`.
    """
    if sp.issparse(X):
        raise TypeError(
            "Sparse X was passed for emission='categorical', where zero is a category: pass a dense array "
            "(X.toarray()), or counts with emission='multinomial'."
        )
    codes = validate_data(estimator, _without_categoricals(X), reset=reset, dtype=None, ensure_all_finite=False)
    return codes if codes.dtype.kind in "biuf" else _as_numbers(estimator, codes)


def fit_categories(estimator, codes: np.ndarray, min_categories) -> np.ndarray:
    """Where the categories of each column begin, and the number of all: (n_columns + 1,) int64.

    A column has as many categories as its largest code needs, and at least `min_categories` (an int, or one for each
    column; None: 1). One without any code has that least number: with a single category it tells nothing, as if it
    were not there.
    """
    n_rows, n_columns = codes.shape
    n_categories = _least_categories(min_categories, n_columns)
    most = np.maximum(n_categories, max(n_rows, _MOST_CATEGORIES))
    for start, block in _blocks(codes):
        place = _count_categories(block, most, n_categories)
        if place >= 0:
            column, code = _name_code(estimator, codes, start * n_columns + place)
            raise ValueError(
                f"{code}, beyond the {most[column]} categories that a column of {n_rows} rows may have: number the "
                "categories from 0 first, as OrdinalEncoder does, or raise min_categories."
            )
    column_start = np.concatenate(([0], np.cumsum(n_categories)))
    if column_start[-1] > _INT32_MAX:
        raise ValueError(f"X has {column_start[-1]} categories in all columns; at most {_INT32_MAX} are supported.")
    return column_start


def category_table(estimator, codes: np.ndarray, column_start: np.ndarray, *, handle_unknown: str) -> Table:
    """The cells that are not NaN as tokens of their columns' categories.

    A code beyond the categories of its column is refused if `handle_unknown` is "error", and missing if it is "ignore".
    """
    n_rows, n_columns = codes.shape
    indptr = np.zeros(n_rows + 1, np.int64)
    indices = np.empty(codes.size, np.int32)
    for start, block in _blocks(codes):
        row_stop = indptr[start + 1 : start + 1 + len(block)]
        place = _encode_rows(block, column_start, handle_unknown == "ignore", indptr[start], row_stop, indices)
        if place >= 0:
            column, code = _name_code(estimator, codes, start * n_columns + place)
            n_categories = column_start[column + 1] - column_start[column]
            raise ValueError(
                f"{code}, but {n_categories} was its number of categories when fitted: set handle_unknown='ignore' to "
                "take unknown codes as missing, or make room for them by min_categories."
            )
    n_tokens = int(indptr[-1])
    return Table(indptr, indices[:n_tokens], np.ones(n_tokens, np.int32), column_start)


def _without_categoricals(X):
    """A pandas DataFrame with its categorical columns written out; anything else as it is.

    Left to itself, pandas writes what is missing among categories that are integers as -2**63.
    """
    if not hasattr(getattr(X, "dtypes", None), "items"):
        return X
    plain = {
        column: np.float64 if dtype.categories.dtype.kind in "biuf" else object
        for column, dtype in X.dtypes.items()
        if getattr(dtype, "name", None) == "category"
    }
    return X.astype(plain) if plain else X


def _as_numbers(estimator, codes):
    """An array of objects as float64, unless it has strings: even those made of digits are names, not codes."""
    for column, cells in enumerate(codes.T):
        if codes.dtype.kind != "O" or any(isinstance(cell, str | bytes) for cell in cells):
            kind = "strings" if codes.dtype.kind in "OSU" else f"{codes.dtype.name} values"
            raise ValueError(
                f"Column {column_name(estimator, column)} of X has {kind}, but emission='categorical' takes codes of "
                "categories: put OrdinalEncoder before it in a pipeline."
            )
    return codes.astype(np.float64)


def _least_categories(min_categories, n_columns):
    if min_categories is None:
        return np.ones(n_columns, np.int64)
    least = np.asarray(min_categories)
    if least.dtype.kind not in "iu" or least.shape not in ((), (n_columns,)) or least.min() < 1:
        raise ValueError(
            f"min_categories must be None, an int of at least 1 or an array of {n_columns} of them (one for each "
            f"column of X); got {min_categories!r}."
        )
    return np.full(n_columns, least, np.int64)


def _blocks(codes):
    """The first row of each block of rows, and the block: float64 in C order for all types and orders of X."""
    n_rows, n_columns = codes.shape
    size = max(1, _CELLS_PER_BLOCK // n_columns)
    buffer = np.empty((min(size, n_rows), n_columns))
    for start, stop in split_range(n_rows, size):
        block = buffer[: stop - start]
        block[...] = codes[start:stop]
        yield start, block


def _name_code(estimator, codes, place):
    """The column of a bad cell and the beginning of a sentence on its code; refused here if it is no code at all."""
    negative = codes < 0
    if negative.any():  # told first, wherever it stands
        place = int(negative.argmax())
    row, column = divmod(place, codes.shape[1])
    name, value = column_name(estimator, column), codes[row, column]
    if value < 0:
        raise ValueError(
            f"Negative values in data passed to {type(estimator).__name__}: column {name} of X has {value!s}, but "
            "codes of categories count from 0; what is missing or unknown is NaN (in OrdinalEncoder: "
            "encoded_missing_value=np.nan, unknown_value=np.nan)."
        )
    if not np.isfinite(value) or value != np.floor(value):
        raise ValueError(
            f"Column {name} of X has {value!s}, but codes of categories are whole numbers from 0 (NaN where missing)."
        )
    return column, f"Column {name} of X has the code {value!s}"


@njit(cache=True, nogil=True)
def _is_code(value, n_categories):
    return 0 <= value < n_categories and value == np.floor(value)


@njit(cache=True, nogil=True)
def _count_categories(codes, most, n_categories):
    """Raise the columns' numbers of categories to hold these codes; the place of the first that is none, or -1."""
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            value = codes[i, j]
            if _is_code(value, most[j]):
                n_categories[j] = max(n_categories[j], np.int64(value) + 1)
            elif not np.isnan(value):
                return i * codes.shape[1] + j
    return -1


@njit(cache=True, nogil=True)
def _encode_rows(codes, column_start, ignore_unknown, n_tokens, row_stop, indices):
    """Append the rows' tokens to `indices`, of which n_tokens are there; the place of the first bad code, or -1."""
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            value, start = codes[i, j], column_start[j]
            if _is_code(value, column_start[j + 1] - start):
                indices[n_tokens] = start + np.int64(value)
                n_tokens += 1
            elif not (np.isnan(value) or (ignore_unknown and _is_code(value, np.inf))):
                return i * codes.shape[1] + j
        row_stop[i] = n_tokens
    return -1
