"""Kernels of prediction for full covariances: densities of rows given the sums of clusters, and marginal densities."""

from __future__ import annotations

import numpy as np

from ....numerics.rank_one import fill_upper_root
from ....numerics.triangular import divide_by_lower, fill_cholesky
from ....utils._njit import njit
from ..._gaussian.kernels import add_full_densities
from .full_kernels import fill_posterior
from .full_split_kernels import constant_of, log_density, log_marginal_of


@njit(cache=True, nogil=True)
def log_marginals(first, stop, data, statistics, labels, out):
    """Fill `out` with the log marginal densities of the rows of ``labels[first:stop]``."""
    d = len(data.mean)
    mean, scatter, root = np.empty(d), np.empty((d, d)), np.empty((d, d))
    for k in range(first, stop):
        n = fill_posterior(data, statistics, labels[k], mean, scatter)
        out[k] = log_marginal_of(data, n, fill_upper_root(scatter, root))


@njit(cache=True, nogil=True)
def fill_posteriors(first, stop, data, statistics, means, roots, factors, constants):
    """Fill the posterior of the labels `first` to `stop`: means, Cholesky factors of the scatters, and inverses.

    Parameters
    ----------
    first, stop : int
    data, statistics
    means : (K, d)
    roots, factors : (K, d, d)
        L with LL' the scatter, and its inverse.
    constants : (K,)
        Of the log predictive densities; NaN for a singular scatter.
    """
    d = len(data.mean)
    scatter = np.empty((d, d))
    for k in range(first, stop):
        n = fill_posterior(data, statistics, k, means[k], scatter)
        if not fill_cholesky(scatter, 0.0, roots[k]):
            constants[k] = np.nan
            continue
        log_det = 0.0
        for a in range(d):
            means[k, a] += data.origin[a]
            log_det += 2.0 * np.log(roots[k, a, a])
            for b in range(d):
                factors[k, a, b] = 1.0 if a == b else 0.0
        divide_by_lower(factors[k], roots[k])
        constants[k] = constant_of(data, n, log_det)


@njit(cache=True, nogil=True)
def add_given_sums(start, stop, data, sizes, means, factors, constants, out):
    """Add to `out`, (n_rows, K), the log predictive densities of the rows `start` to `stop`."""
    K = len(sizes)
    halves = np.zeros((stop - start, K))
    add_full_densities(data.values, start, stop, means, factors, np.zeros(K), halves)
    for i in range(stop - start):
        for k in range(K):
            out[start + i, k] += log_density(data, sizes[k], constants[k], -2.0 * halves[i, k])
