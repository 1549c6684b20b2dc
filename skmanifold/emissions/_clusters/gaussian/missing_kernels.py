"""Kernels of clusters with covariance matrices for rows with missing cells, whose current values are drawn."""

from __future__ import annotations

import numpy as np

from ....utils._njit import njit
from ..._gaussian.missing_kernels import HALF_LOG_2PI, fill_root, observed_square
from ..._pattern_kernels import find_missing, have_same_missing


@njit(inline="always")  # kernels without counts of references cannot return an array
def row_of(data, statistics, row):
    """The cells of a row; those that are missing have their current values."""
    place = data.place[row]
    return data.values[row] if place < 0 else statistics.completed[place]


@njit(cache=True, nogil=True)
def fill_observed_scores(data, rows, n_above, components, scores):
    """Fill the scores of rows with missing cells: log densities of their observed cells.

    Rows with the same missing cells, next to each other, share factorizations.
    """
    means, columns, precisions = components.means, components.columns, components.precisions
    X, d, n_factors = data.values, means.shape[1], len(columns)
    if n_factors == 0:  # no row has missing cells
        return
    n_chosen = 0
    for i in range(len(rows)):
        n_chosen += data.place[rows[i]] >= 0 and n_above[i] > 1
    if n_chosen == 0:
        return
    roots, log_roots = np.empty((n_factors, d, d)), np.empty(n_factors)
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    noise, gaps, image = np.zeros(d), np.empty(d), np.empty(d)
    last = np.int64(-1)
    for i in range(len(rows)):
        row = rows[i]
        if data.place[row] < 0 or n_above[i] <= 1:
            continue
        if last < 0 or data.patterns[row] != data.patterns[last] or not have_same_missing(X, row, last):
            n_missing = find_missing(X, row, seen, missing)
            for f in range(n_factors):
                log_roots[f] = np.nan
        last = row
        for k in range(n_above[i]):
            f = min(k, n_factors - 1)
            if n_missing == d:
                scores[i, k] = 0.0
                continue
            if np.isnan(log_roots[f]):
                log_roots[f] = fill_root(precisions[f], missing, n_missing, image, roots[f])
            of_component = means[k], columns[f], roots[f]
            square = observed_square(X, row, *of_component, seen, missing, n_missing, noise, gaps, image)
            scores[i, k] = components.offsets[k] + n_missing * HALF_LOG_2PI - log_roots[f] - 0.5 * square
