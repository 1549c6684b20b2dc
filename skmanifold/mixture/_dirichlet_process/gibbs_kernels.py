"""Kernels of Gibbs updates for clusters of any family: labels drawn given the slices, and statistics updated."""

from __future__ import annotations

import numpy as np

from ...emissions.kernels import fill_scores
from ...numerics.simd import prefetch
from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in
from ...random._variates import open_uniform
from ...utils._njit import njit, njit_part

_AHEAD = 8  # the label of a row is prefetched so many rows before its use
_ROWS_AT_ONCE = 64  # whose scores are stored


@njit(cache=True, nogil=True)
def least_slice(rows, labels, weights, key):
    """Minimum of the slices of the rows, u_i ~ U(0, weight of the component of row i)."""
    least = np.inf
    for row in rows:
        least = min(least, open_uniform(fold_in(key, row), 0) * weights[labels[row]])
    return least


@njit_part
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
def draw_labels(data, statistics, rows, components, weights, label_of, weight_of, place_of, labels, key, out):
    """Draw the component of each row given its slice, with the key of `least_slice`; the labels are in `out`, (n,).

    P(z = j) is proportional to the density of component j among those whose weight exceeds the slice, which come first:
    `weights` and `label_of`, (K,), are in decreasing order. `weight_of` and `place_of`, (n_sticks,), are by label.
    """
    n_components = len(weights)
    size = min(len(rows), _ROWS_AT_ONCE)
    scores, scratch = np.empty((size, n_components)), np.empty((2, n_components))
    n_above, current = np.empty(size, np.int64), np.empty(size, np.int64)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        _find_components_above(
            rows, first, first + len(some), weights, weight_of, place_of, labels, key, n_above, current
        )
        fill_scores(data, statistics, some, n_above, current, components, scores)
        _draw_from_scores(some, n_above, scores, label_of, key, scratch, out[first:])


# What does not depend on the family is in functions whose types are inferred once for all families.


@njit(cache=True, nogil=True)
def _find_components_above(rows, first, stop, weights, weight_of, place_of, labels, key, n_above, current):
    """Fill the number of components whose weight is above each row's slice, and the component that the row has."""
    for i in range(stop - first):
        if first + i + _AHEAD < len(rows):
            prefetch(labels, rows[first + i + _AHEAD])
        row = rows[first + i]
        level = open_uniform(fold_in(key, row), 0) * weight_of[labels[row]]
        n = 0
        while n < len(weights) and weights[n] > level:
            n += 1
        n_above[i], current[i] = n, place_of[labels[row]]


@njit(cache=True, nogil=True)
def _draw_from_scores(rows, n_above, scores, label_of, key, scratch, out):
    """Draw the label of each row among the first ``n_above[i]`` components; overwrites the scores."""
    for i in range(len(rows)):
        if n_above[i] <= 1:
            out[i] = label_of[0]
            continue
        u = open_uniform(fold_in(key, rows[i]), 1)
        out[i] = label_of[draw_from_logs(n_above[i], scores[i], scratch, u)]
