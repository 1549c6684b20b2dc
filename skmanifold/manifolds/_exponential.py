"""The exponential of small matrices, in plain loops.

Linear algebra libraries may start threads for products and solves even of 4 x 4 matrices. On busy cores, a step of a
microsecond then waits for milliseconds.
"""

from __future__ import annotations

import math

import numpy as np

from ..utils._njit import njit

_INVERSE_FACTORIALS = np.array([1.0 / math.factorial(j) for j in range(17)])


@njit(cache=True, nogil=True)
def exponential(matrices):
    """Matrix exponentials along the first axis, by scaling and squaring with a Taylor polynomial of degree 16."""
    result = np.empty_like(matrices)
    n = matrices.shape[1]
    powers = np.empty((5, n, n))
    product = np.empty((n, n))
    for i in range(matrices.shape[0]):
        total = result[i]
        norm = _largest_row_sum(matrices[i])
        if not math.isfinite(norm):
            _scale(matrices[i], math.nan, total)
            continue
        # For norms below 3/4 the first omitted term is smaller than half a unit in the last place of one
        n_squarings = max(math.frexp(norm / 0.75)[1], 0)
        _scale(matrices[i], 0.5**n_squarings, powers[1])
        for k in range(2, 5):
            _multiply(powers[1], powers[k - 1], powers[k])
        _scale(powers[4], _INVERSE_FACTORIALS[16], total)
        _add_terms(powers, 12, total)
        for first in (8, 4, 0):
            _multiply(powers[4], total, product)
            _scale(product, 1.0, total)
            _add_terms(powers, first, total)
        for _ in range(n_squarings):
            _multiply(total, total, product)
            _scale(product, 1.0, total)
    return result


@njit(cache=True, nogil=True)
def _largest_row_sum(a):
    largest = 0.0
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += abs(a[i, j])
        if not math.isfinite(total):
            return total
        largest = max(largest, total)
    return largest


@njit(cache=True, nogil=True)
def _scale(a, factor, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = factor * a[i, j]


@njit(cache=True, nogil=True)
def _add_terms(powers, first, total):
    """Add the terms of degree 0 to 3, with the coefficients of degree `first` and after."""
    for i in range(total.shape[0]):
        total[i, i] += _INVERSE_FACTORIALS[first]
        for k in range(1, 4):
            coefficient = _INVERSE_FACTORIALS[first + k]
            for j in range(total.shape[1]):
                total[i, j] += coefficient * powers[k, i, j]


@njit(cache=True, nogil=True)
def _multiply(a, b, out):
    """Matrix product by rows, each a sum of rows of `b`, so that the order of additions is fixed."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0.0
        for k in range(b.shape[0]):
            a_ik = a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += a_ik * b[k, j]
