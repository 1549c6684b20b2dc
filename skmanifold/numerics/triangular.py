"""Kernels for triangular matrices: inner loops run along rows without sums across lanes, so results are identical."""

from __future__ import annotations

import numpy as np

from ..utils._njit import njit


@njit(cache=True, nogil=True)
def fill_cholesky(matrix, least_share, out):
    """Fill `out` with the lower Cholesky factor of a matrix, whose lower triangle is read.

    Returns False, with `out` unfinished, if a pivot is less than this share of its diagonal entry, or NaN.
    """
    d = len(matrix)
    column = np.empty(d)
    for a in range(d):
        for b in range(a + 1):
            out[a, b] = matrix[a, b]
        for b in range(a + 1, d):
            out[a, b] = 0.0
    for j in range(d):
        if not out[j, j] > least_share * matrix[j, j]:
            return False
        pivot = np.sqrt(out[j, j])
        for a in range(j, d):
            out[a, j] /= pivot
            column[a] = out[a, j]
        out[j, j] = pivot
        for a in range(j + 1, d):
            entry = column[a]
            for b in range(j + 1, a + 1):
                out[a, b] -= entry * column[b]
    return True


@njit(cache=True, nogil=True)
def divide_by_lower(matrix, lower):
    """Replace a lower triangular matrix A by A L^-1, which is lower triangular too."""
    for a in range(len(matrix)):
        for j in range(a, -1, -1):
            entry = matrix[a, j] / lower[j, j]
            matrix[a, j] = entry
            for b in range(j):
                matrix[a, b] -= entry * lower[j, b]


@njit(cache=True, nogil=True)
def fill_square(lower, out):
    """Fill `out` with LL' of a lower triangular matrix L."""
    d = len(lower)
    columns = np.empty((d, d))
    for a in range(d):
        for b in range(d):
            columns[b, a] = lower[a, b]
    for a in range(d):
        for b in range(a + 1):
            out[a, b] = 0.0
        for j in range(a + 1):
            entry = lower[a, j]
            for b in range(j, a + 1):
                out[a, b] += entry * columns[j, b]
        for b in range(a):
            out[b, a] = out[a, b]
