"""Kernels of Gibbs updates: labels drawn given the slices, counts updated, and components drawn given the counts."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.simd import prefetch
from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in, uniform
from ...random._log_gamma_ziggurat import fill_log_gammas
from ...random._variates import open_uniform
from ...utils._njit import njit

_AHEAD = 3  # a row is prefetched so many rows before its use
_ITEMS_OF_LINE = 16  # of four bytes in a cache line of 64 bytes


@njit(cache=True, nogil=True)
def shuffle_rows(key, out):
    """Fill `out` with its indices in random order (Fisher and Yates)."""
    for i in range(len(out)):
        j = np.int64(uniform(key, i) * (i + 1))
        out[i] = out[j]
        out[j] = i


@njit(cache=True, nogil=True)
def least_slice(rows, labels, weights, key):
    """Minimum of the slices of the rows, u_i ~ U(0, weight of the component of row i)."""
    least = np.inf
    for row in rows:
        least = min(least, open_uniform(fold_in(key, row), 0) * weights[labels[row]])
    return least


@njit(cache=True, nogil=True)
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
def draw_from_logs(n, scores, scratch, uniform):
    """Draw an index below n with probability proportional to the exponential of its score; overwrites the scores."""
    largest = scores[0]
    for k in range(1, n):
        largest = max(largest, scores[k])
    for k in range(n):
        scores[k] -= largest
    fill_exp(n, scores, scratch[0], scratch[1])
    total = 0.0
    for k in range(n):
        total += scratch[1, k]
        scratch[0, k] = total
    at = uniform * total
    for k in range(n):
        if at < scratch[0, k]:
            return k
    return n - 1


@njit(cache=True, nogil=True)
def _prefetch_row(row, indptr, indices, counts, labels):
    prefetch(labels, row)
    for e in range(indptr[row], indptr[row + 1], _ITEMS_OF_LINE):
        prefetch(indices, e)
        prefetch(counts, e)


@njit(cache=True, nogil=True)
def draw_labels(rows, indptr, indices, counts, table, weights, components, weight_of, labels, key, out):
    """Draw the component of each row given its slice.

    P(z = j) is proportional to the density of the row given component j, among the components whose weight is larger
    than the slice. The columns of `table` are in order of decreasing weight, so that these components come first.

    Parameters
    ----------
    rows : (n,) int64
        Indices of the rows.
    indptr, indices, counts
        Arrays of the `Table` of data.
    table : (n_categories, K) float64
        Log probabilities of categories.
    weights, components : (K,)
        Weights of the columns of `table`, decreasing, and the labels of these components.
    weight_of : (n_components,)
        Weights by label.
    labels : (n_rows,) int32
        Current labels, which determine the slices.
    key
        The key that was passed to `least_slice`.
    out : (n,) int32
        The new labels.
    """
    n_components = len(weights)
    scores, scratch = np.empty(n_components), np.empty((2, n_components))
    for i in range(len(rows)):
        if i + _AHEAD < len(rows):
            _prefetch_row(rows[i + _AHEAD], indptr, indices, counts, labels)
        row = rows[i]
        child = fold_in(key, row)
        level = open_uniform(child, 0) * weight_of[labels[row]]
        n = 0
        while n < n_components and weights[n] > level:
            n += 1
        if n <= 1:
            out[i] = components[0]
            continue
        scores[:n] = 0.0
        add_scores(indptr, indices, counts, row, n, table, scores)
        out[i] = components[draw_from_logs(n, scores, scratch, open_uniform(child, 1))]


@njit(cache=True, nogil=True)
def move_rows(rows, new_labels, indptr, indices, counts, labels, sizes, category_counts):
    """Give rows new labels and update the counts."""
    for i in range(len(rows)):
        row = rows[i]
        old, new = labels[row], new_labels[i]
        if old == new:
            continue
        labels[row] = new
        sizes[old] -= 1
        sizes[new] += 1
        for e in range(indptr[row], indptr[row + 1]):
            f, count = indices[e], counts[e]
            category_counts[f, old] -= count
            category_counts[f, new] += count


@njit(cache=True, nogil=True)
def count_rows(indptr, indices, counts, labels, sizes, category_counts):
    """Add all rows to the counts of their components."""
    for row in range(len(labels)):
        label = labels[row]
        sizes[label] += 1
        for e in range(indptr[row], indptr[row + 1]):
            category_counts[indices[e], label] += counts[e]


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
