"""Kernels of negative binomial counts, whose probabilities have beta priors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..numerics.special import log_rising, log_rising_of_real
from ..random._discrete_variates import MAX_MEAN, poisson
from ..random._keys import fold_in
from ..random._variates import gamma_variate
from ..utils._njit import njit, njit_part
from . import _linear_kernels as linear_kernels
from ._linear_kernels import FeatureGroups

# A feature with the inverse dispersion r, the sum s and n observed cells has a beta posterior with the parameters x = a
# + s and y = 1 + (b + n) r. Its marginal probability is B(x, y) / B(a, 1 + b r), without the part that only depends on
# r and single counts. The next cell is a zero with the probability (y)_r / (x + y)_r, with rising factorials; a count c
# has this times (x)_c / (x + y + r)_c.

_N_SMALL = 32  # whole counts below have a table, which takes less time than two log gammas for each count


class NegativeBinomialData(NamedTuple):
    """Rows of counts in CSR format, with columns for missing cells, their prior and their dispersions."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    n_features: int
    shape: np.ndarray  # (n_features,)
    rate: np.ndarray  # (n_features,)
    inverses: np.ndarray  # (n_features,): inverse dispersions
    groups: FeatureGroups


linear_kernels.register(NegativeBinomialData)


@njit(cache=True, nogil=True)
def _tables_of_small(sizes):
    """Values of log(Gamma(x + r) / Gamma(r)) for small whole x, (n_features, _N_SMALL)."""
    of_small = np.zeros((len(sizes), _N_SMALL))
    for j in range(len(sizes)):
        for n in range(1, _N_SMALL):
            of_small[j, n] = of_small[j, n - 1] + math.log(sizes[j] + (n - 1))
    return of_small


@njit_part
def _log_rising_of_count(of_small, sizes, j, x):
    """Value of log(Gamma(x + r) / Gamma(r)) for a count of column j, which is a missing cell from ``len(sizes)`` on."""
    if j >= len(sizes):
        return 0.0
    is_small = x < _N_SMALL and x == math.floor(x)
    return of_small[j, np.int64(x)] if is_small else log_rising_of_real(sizes[j], x)


@njit(cache=True, nogil=True)
def add_log_rising(first, stop, indptr, indices, counts, sizes, out):
    """Add log(Gamma(x + r) / Gamma(r)) of the counts of rows, in CSR order, to all columns of `out`, (stop - first, K).

    Columns from ``len(sizes)`` on are missing cells.
    """
    of_small = _tables_of_small(sizes)
    for row in range(first, stop):
        total = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            total += _log_rising_of_count(of_small, sizes, indices[e], np.float64(counts[e]))
        for k in range(out.shape[1]):
            out[row - first, k] += total


@njit(cache=True, nogil=True)
def log_rising_of_columns(indices, counts, sizes):
    """Sums over rows of log(Gamma(x + r) / Gamma(r)) of the counts of each column, (n_features,)."""
    of_small, out = _tables_of_small(sizes), np.zeros(len(sizes))
    for e in range(len(indices)):
        if indices[e] < len(sizes):
            out[indices[e]] += _log_rising_of_count(of_small, sizes, indices[e], np.float64(counts[e]))
    return out


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


@njit_part
def _posterior(data, size, sums, j):
    """The parameters x and y of the beta posterior of a feature."""
    n_observed = size - sums[data.n_features + j]
    return data.shape[j] + sums[j], 1.0 + (data.rate[j] + n_observed) * data.inverses[j]


@njit_part
def _log_of_zero(x, y, r):
    """Log predictive probability of a zero."""
    return log_rising_of_real(y, r) - log_rising_of_real(x + y, r)


@njit_part
def _log_growth(x, y, count, length):
    """Log of B(x + count, y + length) / B(x, y)."""
    return log_rising(x, count) + log_rising_of_real(y, length) - log_rising_of_real(x + y, count + length)


@linear_kernels.log_density_of_zeros.of(NegativeBinomialData)
@njit(cache=True, nogil=True)
def _log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""
    result = 0.0
    for j in range(data.n_features):
        x, y = _posterior(data, size, sums, j)
        result += _log_of_zero(x, y, data.inverses[j])
    return result


@linear_kernels.log_of_count.of(NegativeBinomialData)
@njit_part
def _log_of_count(data, count, shape, total):
    return log_rising(shape, count) - log_rising(total, count)


@linear_kernels.log_ratio_to_zeros.of(NegativeBinomialData)
@njit(cache=True, nogil=True)
def _log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""
    result = 0.0
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], np.int64(data.counts[e])
        j = column if column < data.n_features else column - data.n_features
        x, y = _posterior(data, size, sums, j)
        r = data.inverses[j]
        if column == j:
            result += _log_of_count(data, count, x, x + y + r)
        else:
            result -= _log_of_zero(x, y, r)
    return result


@linear_kernels.log_factor_of_sums.of(NegativeBinomialData)
@njit(cache=True, nogil=True)
def _log_factor_of_sums(data, size_0, sums_0, size_1, sums_1):
    """Log marginal probability of two sets of rows with these statistics minus that of their union."""
    result = 0.0
    for j in range(data.n_features):
        a, y0, missing = data.shape[j], 1.0 + data.rate[j] * data.inverses[j], data.n_features + j
        x, y = _posterior(data, size_1, sums_1, j)
        length = (size_0 - sums_0[missing]) * data.inverses[j]
        result += _log_growth(a, y0, sums_0[j], length) - _log_growth(x, y, sums_0[j], length)
    return result
