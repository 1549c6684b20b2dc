"""A kernel of prediction: logs of sums."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp
from ...utils._njit import njit


@njit(cache=True, nogil=True)
def log_sums(first, stop, terms, out):
    """Log of the sum of each row's exponentials."""
    n = terms.shape[1]
    scratch = np.empty((2, n))
    for row in range(first, stop):
        largest = -np.inf
        for k in range(n):
            largest = max(largest, terms[row, k])
        for k in range(n):
            scratch[0, k] = terms[row, k] - largest
        fill_exp(n, scratch[0], scratch[1], scratch[0])
        total = 0.0
        for k in range(n):
            total += scratch[0, k]
        out[row] = largest + math.log(total)
