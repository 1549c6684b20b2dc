"""Kernels of negative binomial counts: the part of log densities that only depends on the dispersion, and new rows."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.special import log_rising_of_real
from ...random._discrete_variates import MAX_MEAN, poisson
from ...random._keys import fold_in
from ...random._variates import gamma_variate
from ...utils._njit import njit

_N_SMALL = 32  # whole counts below have a table, which takes less time than two log gammas for each count


@njit(cache=True, nogil=True)
def add_log_rising(first, stop, indptr, indices, counts, sizes, out):
    """Add the logs of Gamma(x + r) / Gamma(r) of the counts of rows, which are the same for all components.

    Parameters
    ----------
    first, stop : int
        Rows; `out` begins with the first.
    indptr, indices, counts
        Statistics of rows in CSR order; columns from ``len(sizes)`` on are missing cells.
    sizes : (n_features,)
        Inverse dispersions r.
    out : (stop - first, K)
    """
    n_features = len(sizes)
    of_small = np.zeros((n_features, _N_SMALL))
    for j in range(n_features):
        for n in range(1, _N_SMALL):
            of_small[j, n] = of_small[j, n - 1] + math.log(sizes[j] + (n - 1))
    for row in range(first, stop):
        total = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            j, x = indices[e], np.float64(counts[e])
            if j < n_features:
                is_small = x < _N_SMALL and x == math.floor(x)
                total += of_small[j, np.int64(x)] if is_small else log_rising_of_real(sizes[j], x)
        for k in range(out.shape[1]):
            out[row - first, k] += total


@njit(cache=True, nogil=True)
def fill_negative_binomial(key, labels, means, sizes, out):
    """Draw rows of counts; `means`, (K, m), are those of each component, `sizes`, (m,), the inverse dispersions.

    Each count is a Poisson variate whose mean has a gamma distribution.
    """
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            cell = fold_in(of_row, j)
            mean = gamma_variate(fold_in(cell, 0), sizes[j]) * means[labels[i], j] / sizes[j]
            out[i, j] = np.int64(poisson(fold_in(cell, 1), min(mean, MAX_MEAN)))
