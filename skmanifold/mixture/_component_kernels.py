"""Kernels of a mixture's components: their category probabilities drawn given counts, as logarithms."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..samplers._lazy_rows_kernels import fill_exp, prior_log_gamma
from ..utils._random import fold_in
from ..utils._variates import log_gamma_variate


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
        The draw of a cell belongs to (key, category, label).
    out : (n_categories, K) float64
    """
    n_components = len(components)
    largest, total = np.empty(n_components), np.empty(n_components)
    scratch = np.empty((2, n_components))
    for column in range(first, stop):
        begin, end = column_start[column], column_start[column + 1]
        largest[:] = -np.inf
        total[:] = 0.0
        for f in range(begin, end):
            _draw_row(fold_in(key, f), counts[f], components, prior, levels, edges, heights, out[f])
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
def _draw_row(key, counts, components, prior, levels, edges, heights, out):
    """Logs of Ga(prior + count, 1) draws: cells without tokens, most of them, by the prior's ziggurat."""
    for k in range(len(components)):
        label = components[k]
        child = fold_in(key, label)
        if label < len(counts) and counts[label] > 0:
            out[k] = log_gamma_variate(child, prior + counts[label])
        else:
            out[k] = prior_log_gamma(child, levels, edges, heights)
