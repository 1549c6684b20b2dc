"""Kernels for Cholesky factors that change by one vector: upper triangular U, whose rows the inner loops run along."""

from __future__ import annotations

import math

import numpy as np

from ..utils._njit import njit

_LEAST_SHARE = 1e-7  # of a squared pivot that a downdate may leave: below this it would lose half of the digits


@njit(cache=True, nogil=True)
def fill_upper_root(matrix, out):
    """Fill the upper triangle of `out` with U, U'U = A, of a matrix A, whose lower triangle is read.

    Returns the log determinant of A; NaN, with `out` unfinished, if a pivot is not positive.
    """
    d = len(matrix)
    log_det = 0.0
    for a in range(d):
        for b in range(a + 1):
            out[b, a] = matrix[a, b]
    for k in range(d):
        if not out[k, k] > 0.0:
            return np.nan
        pivot = math.sqrt(out[k, k])
        log_det += 2.0 * math.log(pivot)
        out[k, k] = pivot
        inverse = 1.0 / pivot
        for j in range(k + 1, d):
            out[k, j] *= inverse
        for i in range(k + 1, d):
            entry = out[k, i]
            for j in range(i, d):
                out[i, j] -= entry * out[k, j]
    return log_det


@njit(cache=True, nogil=True)
def squared_length(upper, vector):
    """``|U'^-1 v|^2``; overwrites the vector v."""
    d, total = len(vector), 0.0
    for k in range(d):
        entry = vector[k] / upper[k, k]
        total += entry * entry
        for j in range(k + 1, d):
            vector[j] -= entry * upper[k, j]
    return total


@njit(cache=True, nogil=True)
def add_outer(upper, vector):
    """Change U so that U'U increases by vv', and overwrite v; returns the change of the log determinant of U'U."""
    d, ratios = len(vector), 1.0
    for k in range(d):
        pivot, entry = upper[k, k], vector[k]
        ratio = math.sqrt(1.0 + (entry / pivot) * (entry / pivot))
        slope, inverse = entry / pivot, 1.0 / ratio
        ratios *= ratio
        upper[k, k] = pivot * ratio
        for j in range(k + 1, d):
            upper[k, j] = (upper[k, j] + slope * vector[j]) * inverse
            vector[j] = ratio * vector[j] - slope * upper[k, j]
    return 2.0 * math.log(ratios)


@njit(cache=True, nogil=True)
def subtract_outer(upper, vector):
    """Change U so that U'U decreases by vv', and overwrite v; returns the change of the log determinant of U'U.

    The result is NaN, with U unfinished, if a pivot would lose too many digits.
    """
    d, ratios = len(vector), 1.0
    for k in range(d):
        pivot, entry = upper[k, k], vector[k]
        slope = entry / pivot
        left = (1.0 - slope) * (1.0 + slope)
        if not left > _LEAST_SHARE:
            return np.nan
        ratio = math.sqrt(left)
        inverse = 1.0 / ratio
        ratios *= ratio
        upper[k, k] = pivot * ratio
        for j in range(k + 1, d):
            upper[k, j] = (upper[k, j] - slope * vector[j]) * inverse
            vector[j] = ratio * vector[j] - slope * upper[k, j]
    return 2.0 * math.log(ratios)
