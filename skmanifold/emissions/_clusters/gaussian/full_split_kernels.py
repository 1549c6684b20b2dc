"""Kernels of split-merge moves for full covariances: posteriors of labels, predictive and marginal densities.

Given n rows, a component has kappa = mean_precision + n, nu = degrees + n, a mean m and a scatter Psi. A further row x
then has a Student t density, which depends on the squared length |L^-1 (x - m)|^2 with LL' = Psi; here U = L'.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....numerics.rank_one import add_outer, fill_upper_root, squared_length, subtract_outer
from ....numerics.special import log_rising_of_real
from ....utils._njit import njit, njit_part
from .. import kernels
from .full_kernels import FullData, fill_from_sums, fill_posterior
from .missing_kernels import row_of

_LOG_PI = math.log(math.pi)


class FullPosterior(NamedTuple):
    """Posterior of each label with rows."""

    means: np.ndarray  # (capacity, d), relative to the origin
    roots: np.ndarray  # (capacity, d, d): U, upper triangular
    log_dets: np.ndarray  # (capacity,): of the scatters
    constants: np.ndarray  # (capacity,): of the predictive densities
    scratch: np.ndarray  # (d, d)
    gaps: np.ndarray  # (d,) scratch


@njit(cache=True, nogil=True)
def constant_of(data, n, log_det):
    """The part of the log predictive density given n rows that does not depend on the new row."""
    d, precision = len(data.mean), data.mean_precision + n
    of_degrees = log_rising_of_real(0.5 * (data.degrees + n + 1.0 - d), 0.5 * d)
    return of_degrees - 0.5 * d * (_LOG_PI + math.log1p(1.0 / precision)) - 0.5 * log_det


@njit(cache=True, nogil=True)
def log_density(data, n, constant, square):
    """Log predictive density given n rows of a row with this squared length."""
    share = (data.mean_precision + n) / (data.mean_precision + n + 1.0)
    return constant - 0.5 * (data.degrees + n + 1.0) * math.log1p(share * square)


@njit(cache=True, nogil=True)
def log_marginal_of(data, n, log_det):
    """Log marginal density of n rows whose scatter has this log determinant."""
    d, degrees = len(data.mean), data.degrees
    result = 0.5 * degrees * data.log_det - 0.5 * (degrees + n) * log_det - 0.5 * n * d * _LOG_PI
    result -= 0.5 * d * math.log1p(n / data.mean_precision)
    for j in range(d):
        result += log_rising_of_real(0.5 * (degrees - j), 0.5 * n)
    return result


@njit(cache=True, nogil=True)
def _square_of(data, statistics, row, mean, root, gaps):
    x, origin = row_of(data, statistics, row), data.origin
    for a in range(len(x)):
        gaps[a] = (x[a] - origin[a]) - mean[a]
    return squared_length(root, gaps)


@kernels.refresh_posterior.of(FullData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    n = fill_posterior(data, statistics, label, posterior.means[label], posterior.scratch)
    log_det = fill_upper_root(posterior.scratch, posterior.roots[label])
    posterior.log_dets[label], posterior.constants[label] = log_det, constant_of(data, n, log_det)


@kernels.add_predictive.of(FullData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    for c in range(n_labels):
        label = labels[c]
        square = _square_of(data, statistics, row, posterior.means[label], posterior.roots[label], posterior.gaps)
        out[c] += log_density(data, statistics.sizes[label], posterior.constants[label], square)


@kernels.log_bayes_factor.of(FullData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    sizes, sums, products = statistics.sizes, statistics.sums, statistics.products
    d, n_0, n_1 = len(data.mean), sizes[label_0], sizes[label_1]
    total, product, mean = np.empty(d), np.empty((d, d)), np.empty(d)
    for a in range(d):
        total[a] = sums[label_0, a] + sums[label_1, a]
        for b in range(a + 1):
            product[a, b] = products[label_0, a, b] + products[label_1, a, b]
    fill_from_sums(data, n_0 + n_1, total, product, mean, posterior.scratch)
    of_union = log_marginal_of(data, n_0 + n_1, fill_upper_root(posterior.scratch, product))
    of_0, of_1 = posterior.log_dets[label_0], posterior.log_dets[label_1]
    return log_marginal_of(data, n_0, of_0) + log_marginal_of(data, n_1, of_1) - of_union


@kernels.update_posterior.of(FullData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    """Change the root of the scatter by a row, which takes less time than its computation from the sums."""
    kernels.count_row(data, statistics, row, label, sign)
    n, mean, root = statistics.sizes[label], posterior.means[label], posterior.roots[label]
    x, origin, gaps, precision = row_of(data, statistics, row), data.origin, posterior.gaps, data.mean_precision + n
    scale = math.sqrt((precision - sign) / precision)
    for a in range(len(x)):
        gap = (x[a] - origin[a]) - mean[a]
        mean[a] += sign * gap / precision
        gaps[a] = scale * gap
    change = add_outer(root, gaps) if sign > 0 else subtract_outer(root, gaps)
    posterior.log_dets[label] += change
    if np.isnan(change):
        fill_from_sums(data, n, statistics.sums[label], statistics.products[label], mean, posterior.scratch)
        posterior.log_dets[label] = fill_upper_root(posterior.scratch, root)
    posterior.constants[label] = constant_of(data, n, posterior.log_dets[label])
