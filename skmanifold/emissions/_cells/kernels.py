"""Kernel of the conditional moments of missing cells of Gaussian rows."""

from __future__ import annotations

import numpy as np

from ...utils._njit import njit
from .._gaussian.missing_kernels import fill_columns_and_precisions, fill_gaps, fill_root
from .._pattern_kernels import find_missing, have_same_missing


@njit(cache=True, nogil=True)
def add_conditional_moments(X, chosen, patterns, shares, means, factors, firsts, seconds):
    """Add the conditional means and second moments of missing cells, weighted by the shares of the components.

    Parameters
    ----------
    X : (n, d)
        NaN where a cell is missing.
    chosen : (n_chosen,)
        Indices of rows of X; rows with the same pattern next to each other share factorizations.
    patterns : (n,) uint64
    shares : (n, K)
    means, factors : (K, d), (K, d, d) or (1, d, d)
    firsts, seconds : (n, d)
        Only missing cells are changed.
    """
    (K, d), n_factors = means.shape, len(factors)
    columns, precisions, roots = np.empty((n_factors, d, d)), np.empty((n_factors, d, d)), np.empty((n_factors, d, d))
    fill_columns_and_precisions(factors, columns, precisions)
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    noise, gaps, image = np.zeros(d), np.empty(d), np.empty(d)
    variances = np.empty((n_factors, d))
    for i in range(len(chosen)):
        row = chosen[i]
        if i == 0 or patterns[row] != patterns[chosen[i - 1]] or not have_same_missing(X, row, chosen[i - 1]):
            n_missing = find_missing(X, row, seen, missing)
            for f in range(n_factors):
                fill_root(precisions[f], missing, n_missing, image, roots[f])
                _fill_inverse_diagonal(roots[f], n_missing, image, variances[f])
        for k in range(K):
            share, f = shares[row, k], min(k, n_factors - 1)
            if share == 0.0:
                continue
            fill_gaps(X, row, means[k], columns[f], roots[f], seen, missing, n_missing, noise, gaps, image)
            for m in range(n_missing):
                b = missing[m]
                value = means[k, b] + gaps[b]
                firsts[row, b] += share * value
                seconds[row, b] += share * (value * value + variances[f, m])


@njit(cache=True, nogil=True)
def _fill_inverse_diagonal(root, n, column, out):
    """Fill the diagonal of the inverse of L L', for a lower triangular L of n rows."""
    for i in range(n):
        out[i] = 0.0
    for c in range(n):  # a column of the inverse of L
        for i in range(c, n):
            total = 1.0 if i == c else 0.0
            for j in range(c, i):
                total -= root[i, j] * column[j]
            column[i] = total / root[i, i]
        # entry (c, c) of L'^-1 L^-1 is the sum of squares of column c of L^-1
        for i in range(c, n):
            out[c] += column[i] * column[i]
