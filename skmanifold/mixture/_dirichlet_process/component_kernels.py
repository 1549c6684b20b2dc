"""Kernels of a mixture's components: their category probabilities drawn given counts, as logarithms."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in
from ...random._log_gamma_ziggurat import fill_log_gammas
from ...utils._njit import njit


@njit(cache=True, nogil=True)
def draw_columns(first, stop, column_start, counts, components, prior, levels, edges, heights, key, out):
    """Fill the rows of `out` that belong to columns `first` to `stop` with logs of Dirichlet draws.

    Parameters
    ----------
    first, stop : int
        Columns of the table.
    column_start : (n_columns + 1,) int64
    counts : (n_categories, capacity) int64
    components : (K,) int64
        Labels of the components to draw; those beyond the capacity have no tokens.
    prior : float
    levels, edges, heights
        `GammaTables` of the prior.
    key
        The draw of a cell belongs to (key, category, place among `components`).
    out : (n_categories, K) float64
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
