"""Linear algebra: for all chains at once, of small matrices outside of kernels, and of triangular factors in kernels.

In a kernel, each use of LAPACK and each combination of memory layouts of two factors adds 0.1 s or more to its
compilation, and again to that of the kernels that call it. In the kernels here inner loops run along rows without sums
across lanes, so results are identical on all processors.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, lapack

from ..utils._njit import njit

_LEAST_SHARE = 1e-7  # of a squared pivot that a downdate may leave: below this it would lose half of the digits


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products of diagonals ``(n, k)`` or matrices ``(n or 1, m, k)`` with vectors ``(n, k)``."""
    if matrices.ndim == 2:
        return matrices * vectors
    return np.matmul(matrices, vectors[:, :, None])[:, :, 0]


def as_matrices(diagonals: np.ndarray) -> np.ndarray:
    """Diagonals ``(n, size)`` as matrices ``(n, size, size)``; matrices are returned unchanged."""
    return diagonals if diagonals.ndim == 3 else diagonals[:, :, None] * np.eye(diagonals.shape[1])


def from_eigen(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Symmetric matrices ``(n, size, size)`` with these eigenvalues and eigenvectors, their columns."""
    return (vectors * values[:, None, :]) @ vectors.mT


def gram_of_columns(A: np.ndarray) -> np.ndarray:
    """A'A for a C-contiguous matrix A."""
    return blas.dgemm(1.0, A.T, A.T, trans_b=1).T


def gram_of_rows(A: np.ndarray) -> np.ndarray:
    """AA' for a C-contiguous matrix A."""
    return blas.dgemm(1.0, A.T, A.T, trans_a=1).T


def symmetric_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues and eigenvectors, as of `numpy.linalg.eigh`, but three times faster if small."""
    values, vectors, error = lapack.dsyevd(matrix, lower=1)
    if error:
        raise np.linalg.LinAlgError("The eigenvalues did not converge.")
    return values, vectors


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
def add_outer(upper, vector, sign):
    """Change U so that U'U changes by sign * vv', and overwrite v; returns the change of the log determinant of U'U.

    The result is NaN, with U unfinished, if a pivot would lose too many digits, which occurs only if `sign` is -1.
    """
    d, ratios = len(vector), 1.0
    for k in range(d):
        pivot, slope = upper[k, k], vector[k] / upper[k, k]
        square = 1.0 + slope * slope if sign > 0 else (1.0 - slope) * (1.0 + slope)
        if not square > _LEAST_SHARE:
            return np.nan
        ratio, signed = math.sqrt(square), sign * slope
        inverse = 1.0 / ratio
        ratios *= ratio
        upper[k, k] = pivot * ratio
        for j in range(k + 1, d):
            upper[k, j] = (upper[k, j] + signed * vector[j]) * inverse
            vector[j] = ratio * vector[j] - slope * upper[k, j]
    return 2.0 * math.log(ratios)
