"""Numba kernels for patterns: the sets of cells of rows that are missing."""

from __future__ import annotations

import numpy as np

from ..random._keys import mix64
from ..utils._njit import njit

_WORD = 64


@njit(cache=True, nogil=True)
def fill_patterns(X, patterns):
    """Fill `patterns`, (n,) uint64, with a number for the missing cells of each row: 0 if there are none.

    With up to 64 columns they are the bits of the number; with more columns the number is a hash.
    """
    n, d = X.shape
    for i in range(n):
        number, bits, is_complete = np.uint64(0), np.uint64(0), True
        for a in range(d):
            if np.isnan(X[i, a]):
                bits |= np.uint64(1) << np.uint64(a % _WORD)
                is_complete = False
            if a % _WORD == _WORD - 1 or a == d - 1:
                number = bits if d <= _WORD else mix64(number + bits) + np.uint64(1)
                bits = np.uint64(0)
        if is_complete:
            number = np.uint64(0)
        elif number == np.uint64(0):
            number = np.uint64(1)  # a hash, which the kernels compare with the cells
        patterns[i] = number


@njit(cache=True, nogil=True)
def find_missing(X, row, seen, missing):
    """Fill the first entries of `seen` and `missing` with the columns of a row; returns the number of missing ones."""
    n_seen = n_missing = 0
    for a in range(X.shape[1]):
        if np.isnan(X[row, a]):
            missing[n_missing] = a
            n_missing += 1
        else:
            seen[n_seen] = a
            n_seen += 1
    return n_missing


@njit(cache=True, nogil=True)
def have_same_missing(X, row, other):
    """Whether the same cells of two rows are missing; rows with the same pattern could differ, as it may be a hash."""
    for a in range(X.shape[1]):  # noqa: SIM110
        if np.isnan(X[row, a]) != np.isnan(X[other, a]):
            return False
    return True
