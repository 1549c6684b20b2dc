"""Kernels of categories: counts, draws of the components, and densities of rows given parameters or counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.simd import prefetch
from ...numerics.special import log_rising, log_rising_of_real
from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in
from ...random._log_gamma_ziggurat import fill_log_gammas
from ...utils._njit import njit, njit_part
from .. import kernels
from .._linear_kernels import add_entries

_AHEAD = 3  # a row is prefetched so many rows before its use
_ITEMS_OF_LINE = 16  # of four bytes in a cache line of 64 bytes


class CategoryData(NamedTuple):
    """Rows of categories in CSR format, and the Dirichlet parameter of each category."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    column_start: np.ndarray  # (n_columns + 1,) int64
    column_of: np.ndarray  # (n_categories,) int32
    prior: float


class CategoryPosterior(NamedTuple):
    """Numbers of tokens of each column by label, and the categories that the rows on two sides have."""

    totals: np.ndarray  # (n_columns, capacity) float64
    is_present: np.ndarray  # (n_categories,) bool
    present: np.ndarray  # (n_categories,) int64
    n_present: np.ndarray  # (1,) int64


@kernels.count_row.of(CategoryData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    for e in range(data.indptr[row], data.indptr[row + 1]):
        statistics.categories[data.indices[e], label] += sign * data.counts[e]


@kernels.merge_labels.of(CategoryData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    statistics.sizes[kept] += statistics.sizes[gone]
    statistics.sizes[gone] = 0
    for category in range(len(statistics.categories)):
        statistics.categories[category, kept] += statistics.categories[category, gone]
        statistics.categories[category, gone] = 0


@njit_part
def _prefetch_row(data, row):
    for e in range(data.indptr[row], data.indptr[row + 1], _ITEMS_OF_LINE):
        prefetch(data.indices, e)
        prefetch(data.counts, e)


@kernels.fill_scores.of(CategoryData)
@njit_part
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    for i in range(len(rows)):
        if i + _AHEAD < len(rows):
            _prefetch_row(data, rows[i + _AHEAD])
        n = n_above[i]
        if n > 1:
            for k in range(n):
                scores[i, k] = 0.0
            add_entries(data.indptr, data.indices, data.counts, rows[i], n, components, scores[i])


@njit(cache=True, nogil=True)
def draw_columns(first, stop, column_start, counts, components, prior, levels, edges, heights, key, out):
    """Draw category probabilities from their Dirichlet posterior and write their logs to `out`.

    Parameters
    ----------
    first, stop : int
        Range of the columns of the table.
    column_start : (n_columns + 1,) int64
    counts : (n_categories, capacity)
    components : (K,) int64
        Labels of the components to draw. Labels beyond the capacity have no tokens.
    prior : (n_categories,)
        Dirichlet parameters of the categories.
    levels, edges, heights
        `GammaTables` of the most frequent of these.
    key
        The draw of a cell depends only on the key, the category and the index in `components`.
    out : (n_categories, K) float64
        The rows of these columns are filled.
    """
    n_components = len(components)
    largest, total = np.empty(n_components), np.empty(n_components)
    scratch, shapes = np.empty((2, n_components)), np.empty(n_components)
    bits, cells = np.empty(n_components, np.uint64), np.empty(n_components + 1, np.int64)
    capacity = counts.shape[1]
    for column in range(first, stop):
        begin, end = column_start[column], column_start[column + 1]
        largest[:] = -np.inf
        total[:] = 0.0
        for f in range(begin, end):
            for k in range(n_components):
                label = components[k]
                shapes[k] = prior[f] + (counts[f, label] if label < capacity else 0)
            fill_log_gammas(fold_in(key, f), shapes, levels, edges[0], heights[0], bits, cells, out[f])
            for k in range(n_components):
                largest[k] = max(largest[k], out[f, k])
        for f in range(begin, end):
            for k in range(n_components):
                scratch[0, k] = out[f, k] - largest[k]
            fill_exp(n_components, scratch[0], scratch[1], scratch[0])
            for k in range(n_components):
                total[k] += scratch[0, k]
        for k in range(n_components):
            total[k] = largest[k] + math.log(total[k])
        for f in range(begin, end):
            for k in range(n_components):
                out[f, k] -= total[k]


@njit(cache=True, nogil=True)
def add_given_counts(first, stop, indptr, indices, counts, column_of, cells, log_cells, totals, log_totals, out):
    """Add to `out` the log densities of rows given the counts of the components, with the parameters integrated out.

    This is the Dirichlet-multinomial distribution without multinomial coefficients: a quotient of rising factorials of
    ``cells`` = prior + counts and of ``totals``, their sums by column. Fractional counts are weights.

    Parameters
    ----------
    first, stop : int
        Range of the rows of the table.
    indptr, indices, counts, column_of
        Arrays of the table.
    cells, log_cells : (n_categories, K)
    totals, log_totals : (n_columns, K)
    out : (stop - first, K)
    """
    n_components = cells.shape[1]
    for row in range(first, stop):
        scores = out[row - first]
        tokens, column = 0.0, np.int64(-1)
        for e in range(indptr[row], indptr[row + 1]):
            f, count = indices[e], np.float64(counts[e])
            if column_of[f] != column:
                if tokens > 0:
                    _subtract_total(tokens, totals[column], log_totals[column], scores)
                tokens, column = 0.0, np.int64(column_of[f])
            tokens += count
            if count == 1:
                logs = log_cells[f]
                for k in range(n_components):
                    scores[k] += logs[k]
            else:
                for k in range(n_components):
                    scores[k] += _log_rising(cells[f, k], count)
        if tokens > 0:
            _subtract_total(tokens, totals[column], log_totals[column], scores)


@njit(cache=True, nogil=True)
def _subtract_total(tokens, totals, log_totals, scores):
    if tokens == 1:
        for k in range(len(scores)):
            scores[k] -= log_totals[k]
    else:
        for k in range(len(scores)):
            scores[k] -= _log_rising(totals[k], tokens)


@njit(cache=True, nogil=True)
def _log_rising(x, n):
    """Log of the rising factorial (x)_n; the result for a whole n does not depend on the type of the other counts."""
    return log_rising(x, np.int64(n)) if n == np.floor(n) else log_rising_of_real(x, n)


@njit(cache=True, nogil=True)
def log_marginal_of_counts(counts, column_start, prior):
    """Log marginal probability of rows whose summed `counts` are (n_categories,)."""
    result = 0.0
    for column in range(len(column_start) - 1):
        start, stop = column_start[column], column_start[column + 1]
        total = np.int64(0)
        for category in range(start, stop):
            if counts[category] > 0:
                result += log_rising(prior, counts[category])
                total += counts[category]
        result -= log_rising(prior * (stop - start), total)
    return result
