"""Kernels of a mixture's labels: each row's component drawn among those above its slice, and the counts kept."""

from __future__ import annotations

import numpy as np

from ...numerics.simd import prefetch
from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in, uniform
from ...random._variates import open_uniform
from ...utils._njit import njit

_AHEAD = 3  # rows between the prefetch of one and its use
_ITEMS_OF_LINE = 16  # of four bytes, in a line of the cache


@njit(cache=True, nogil=True)
def shuffle_rows(key, out):
    """Fill `out` with its indices in random order (Fisher and Yates)."""
    for i in range(len(out)):
        j = np.int64(uniform(key, i) * (i + 1))
        out[i] = out[j]
        out[j] = i


@njit(cache=True, nogil=True)
def least_slice(rows, labels, weights, key):
    """The least of the rows' slices, u_i ~ U(0, weight of the row's component)."""
    least = np.inf
    for row in rows:
        least = min(least, open_uniform(fold_in(key, row), 0) * weights[labels[row]])
    return least


@njit(cache=True, nogil=True)
def add_scores(indptr, indices, counts, row, n, table, scores):
    """Add the row's log densities given the first n components, columns of `table`, to its scores."""
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
    """Index of one of n scores, drawn with probability proportional to its exponential; overwrites the scores."""
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

    The columns of `table` stand in order of falling weight, so that those above a row's slice come first:
    P(z = j) is proportional to the row's density given j, over the components that weigh more than the slice.

    Parameters
    ----------
    rows : (n,) int64
    indptr, indices, counts
        The table of data.
    table : (n_categories, K) float64
        Log probabilities of categories.
    weights, components : (K,)
        Weights of the columns of `table`, falling, and whose they are.
    weight_of : (n_components,)
        Weight by label.
    labels : (n_rows,) int32
        Labels as they were when the slices were drawn.
    key
        As given to `least_slice`.
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
    """Give rows new labels, and take their tokens along."""
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
    """Add every row to the counts of its component."""
    for row in range(len(labels)):
        label = labels[row]
        sizes[label] += 1
        for e in range(indptr[row], indptr[row + 1]):
            category_counts[indices[e], label] += counts[e]
