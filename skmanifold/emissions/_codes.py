"""Rows of category codes: tables with a token for each observed cell, and their readers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..numerics.row_hash import hash_counts
from ..random._keys import fold_in, uniform
from ..utils._inputs.column_order import in_column_order
from ..utils._inputs.tables import not_a_number, reads_categories
from ..utils._njit import njit
from ..utils._threads import split_range
from ..utils._validation import column_name, validate_data
from ._linear_rows import LinearRows, sums_of_rows

_INT32_MAX = np.iinfo(np.int32).max
_MOST_CATEGORIES = 1_000_000  # of a column with fewer rows; a larger code is probably a date or an identifier
_CELLS_PER_BLOCK = 1 << 16  # converted at once: half a megabyte


def categories_of(column_start: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Indices of the categories of some columns, ascending."""
    is_chosen = np.zeros(len(column_start) - 1, bool)
    is_chosen[columns] = True
    return np.flatnonzero(np.repeat(is_chosen, np.diff(column_start)))


class Table(LinearRows):
    """Counts of categories by row; a component has a distribution over the categories of each column.

    Row i has ``counts[e]``, positive, tokens of category ``indices[e]``, sorted, for e in ``indptr[i]:indptr[i + 1]``.
    Column b has the categories ``column_start[b]:column_start[b + 1]``. Counts of a multinomial form one column; a
    categorical table has one for each column of X, and one token for each cell that is not missing.
    """

    __slots__ = ()

    column_start: np.ndarray  # (n_columns + 1,) int64
    bases_of_categories: np.ndarray

    @classmethod
    def of(cls, indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray, column_start: np.ndarray) -> Table:
        """A table of these columns."""
        return cls(indptr, indices, counts, len(column_start) - 1, None, column_start)

    def _column_of(self) -> np.ndarray:
        """The column that each category belongs to, (n_categories,)."""
        return np.repeat(np.arange(self.n_features), np.diff(self.column_start))

    def of_columns(self, columns: np.ndarray) -> Table:
        """The table of some columns, whose indices ascend."""
        sizes, chosen = np.diff(self.column_start), categories_of(self.column_start, columns)
        table = self._of_statistics(chosen, int(self.column_start[-1]))
        table = table._replace(n_features=len(columns), column_start=np.append(0, np.cumsum(sizes[columns])))
        if self.log_base is None:
            return table
        bases = self.bases_of_categories[chosen]
        return table._replace(log_base=sums_of_rows(table, bases[table.indices]), bases_of_categories=bases)

    def cells(self) -> np.ndarray:
        """Cells as numbers and codes, (n_rows, n_features); NaN where a cell is missing. A new array."""
        out = np.full((self.n_rows, self.n_features), np.nan)
        row_of, column_of = np.repeat(np.arange(self.n_rows), np.diff(self.indptr)), self._column_of()[self.indices]
        out[row_of, column_of] = self.indices - self.column_start[column_of]
        return out

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Indicators of the categories, (n_rows, n_categories), NaN where missing, and the column of each."""
        columns = self._column_of()
        codes = self.cells()[:, columns]
        indicators = codes == np.arange(len(columns)) - self.column_start[columns]
        return np.where(np.isnan(codes), np.nan, indicators), columns

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows, from 0 to 2**64 - 1; the hashes of ranges of rows add up, modulo 2**64."""
        sizes = np.diff(self.column_start).astype(np.int32)
        of_columns = np.array([0, len(sizes)]), np.arange(len(sizes), dtype=np.int32), sizes
        key_of_rows = np.uint64(hash_counts(*of_columns, key, 0))  # the same tokens may be codes of other columns
        return super().hash_rows(key_of_rows, first_row)


def validate_codes(estimator, X, *, reset: bool) -> np.ndarray:
    """Validate the shape and type of dense category codes; returns a numeric array (n_rows, n_columns).

    `fit_categories` and `category_table` check the values.
    """
    if sp.issparse(X):
        raise TypeError(
            "Sparse X was passed for emission='categorical', where zero is a category: pass a dense array "
            "(X.toarray()), or counts with emission='multinomial'."
        )
    codes = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False)
    return codes if codes.dtype.kind in "biuf" else _as_numbers(estimator, codes)


def fit_categories(estimator, codes: np.ndarray, min_categories) -> np.ndarray:
    """Find the categories of each column: ``column_start`` of a `Table`, (n_columns + 1,) int64.

    A column has its largest code plus 1, but at least `min_categories` (of all or each; None is 1).
    """
    n_rows, n_columns = codes.shape
    least = in_column_order(min_categories, getattr(estimator, "feature_names_in_", None), "min_categories")
    n_categories = _least_categories(least, n_columns)
    most = np.maximum(n_categories, max(n_rows, _MOST_CATEGORIES))
    for start, block in _blocks(codes):
        place = _count_categories(block, most, n_categories)
        if place >= 0:
            column, code = _name_code(estimator, codes, start * n_columns + place)
            raise ValueError(
                f"{code}, but a column of {n_rows} rows may have at most {most[column]} categories: number the "
                "categories from 0 first, as OrdinalEncoder does, or raise min_categories."
            )
    return _column_start(n_categories)


def given_categories(min_categories, n_columns: int) -> np.ndarray:
    """``column_start`` of a `Table` whose columns have `min_categories` categories, (n_columns + 1,) int64."""
    return _column_start(_least_categories(min_categories, n_columns))


def _column_start(n_categories: np.ndarray) -> np.ndarray:
    column_start = np.concatenate(([0], np.cumsum(n_categories)))
    if column_start[-1] > _INT32_MAX:
        raise ValueError(f"X has {column_start[-1]} categories in all columns; at most {_INT32_MAX} are supported.")
    return column_start


def category_table(estimator, codes: np.ndarray, column_start: np.ndarray, *, handle_unknown: str) -> Table:
    """Table with a token for each cell that is not NaN.

    Unknown codes raise an error if `handle_unknown` is "error", and count as missing if it is "ignore".
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
                f"{code}, but the fitted number of categories of the column is {n_categories}: set "
                "handle_unknown='ignore' to treat unknown codes as missing, or allow more categories by "
                "min_categories, parameters of DPCategoricalMixture and of the emission Categorical."
            )
    n_tokens = int(indptr[-1])
    return Table.of(indptr, indices[:n_tokens], np.ones(n_tokens, np.int32), column_start)


def _as_numbers(estimator, codes):
    """Convert an array of objects to float64. Strings raise an error, even strings of digits."""
    for column, cells in enumerate(codes.T):
        if codes.dtype.kind != "O" or any(isinstance(cell, str | bytes) for cell in cells):
            kind = "strings" if codes.dtype.kind in "OSU" else f"{codes.dtype.name} values"
            raise ValueError(
                f"Column {column_name(estimator, column)} of X has {kind}, but emission='categorical' takes codes of "
                "categories: encode the columns by OrdinalEncoder, for example in a pipeline, or use "
                f"{reads_categories(estimator)}, which reads them as they are."
            )
        cell = not_a_number(cells)
        if cell is not None:
            raise ValueError(
                f"Column {column_name(estimator, column)} of X has {cell}, but codes of categories are whole numbers "
                "from 0 (NaN where missing)."
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
    """Iterate over blocks of rows: the index of the first row, and the rows as C-ordered float64."""
    n_rows, n_columns = codes.shape
    size = max(1, _CELLS_PER_BLOCK // n_columns)
    buffer = np.empty((min(size, n_rows), n_columns))
    for start, stop in split_range(n_rows, size):
        block = buffer[: stop - start]
        block[...] = codes[start:stop]
        yield start, block


def _name_code(estimator, codes, place):
    """Column of an invalid cell and the beginning of the error message; raises if the value is not a code at all."""
    negative = codes < 0
    if negative.any():  # reported first, even if another invalid cell comes before it
        place = int(negative.argmax())
    row, column = divmod(place, codes.shape[1])
    name, value = column_name(estimator, column), codes[row, column]
    if value < 0:
        raise ValueError(
            f"Negative values in data passed to {type(estimator).__name__}: column {name} of X has {value!s}, but "
            "codes of categories start at 0; missing and unknown values must be NaN (in OrdinalEncoder: "
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
    """Increase the numbers of categories to include these codes; returns the flat index of the first bad one, or -1."""
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
    """Write the tokens of rows to `indices` from `n_tokens` on; returns the flat index of the first bad code, or -1."""
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


@njit(cache=True, nogil=True)
def fill_codes(key, labels, probabilities, column_start, out):
    """Draw rows of codes; `probabilities`, (K, n_categories), are those of each component, column after column."""
    for i in range(len(labels)):
        of_row, of_component = fold_in(key, i), probabilities[labels[i]]
        for j in range(out.shape[1]):
            category, last = column_start[j], column_start[j + 1] - 1
            place = uniform(of_row, j)
            while category < last and place >= of_component[category]:
                place -= of_component[category]
                category += 1
            out[i, j] = category - column_start[j]
