"""Kernels of clusters of categories: counts, scores of rows, and draws of the components."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....numerics.simd import prefetch
from ....numerics.vector_math import fill_exp
from ....random._keys import fold_in
from ....random._log_gamma_ziggurat import fill_log_gammas
from ....utils._njit import njit, njit_part
from .. import kernels

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
            add_scores(data.indptr, data.indices, data.counts, rows[i], n, components, scores[i])


@njit_part
def add_scores(indptr, indices, counts, row, n, table, scores):
    """Add to `scores` the log densities of a row given the first n components, which are columns of `table`."""
    for e in range(indptr[row], indptr[row + 1]):
        count = counts[e]
        logs = table[indices[e]]
        if count == 1:
            for k in range(n):
                scores[k] += logs[k]
        else:
            for k in range(n):
                scores[k] += count * logs[k]


@njit(cache=True, nogil=True)
def draw_columns(first, stop, column_start, counts, components, prior, levels, edges, heights, key, out):
    """Draw category probabilities from their Dirichlet posterior and write their logs to `out`.

    Parameters
    ----------
    first, stop : int
        Range of the columns of the table.
    column_start : (n_columns + 1,) int64
    counts : (n_categories, capacity) int64
    components : (K,) int64
        Labels of the components to draw. Labels beyond the capacity have no tokens.
    prior : float
        Dirichlet parameter of each category.
    levels, edges, heights
        `GammaTables` of the prior.
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
                shapes[k] = prior + (counts[f, label] if label < capacity else 0)
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
