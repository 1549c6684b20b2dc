"""Kernels of clusters with diagonal covariances whose parameters are integrated out: marginal and predictive densities.

A pool with prior scatter P, posterior scatter S, and n_j observed cells of feature j, n in total, has the density

    pi^(-n / 2) Gamma((nu + n) / 2) / Gamma(nu / 2) P^(nu / 2) / S^((nu + n) / 2) prod_j sqrt(kappa / (kappa + n_j)).

The predictive density of a row is the ratio of two of them: with m cells more, S increases by their weighted squared
distances from the means.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....numerics.special import log_rising_of_real
from ....numerics.vector_math import fill_log
from ....random._keys import fold_in
from ....random._variates import log_gamma_variate, normal
from ....utils._njit import njit
from .diagonal_kernels import fill_posterior, list_present  # noqa: F401

_HALF_LOG_PI = 0.5 * math.log(math.pi)
_LARGE, _SMALL = 1e100, 1e-100  # products beyond them are replaced by their logarithms
_N_FACTORS = 4  # of products whose sizes are not checked: each is below 1e75
_MOST_LOG_DEVIATION = 150.0  # as for the components


@njit(cache=True, nogil=True)
def total_log_marginal(data, posteriors):
    """Log density of the observed cells of all clusters."""
    total = 0.0
    for c in range(len(posteriors.log_marginals)):
        total += log_marginal(data, posteriors, c)
    return total


@njit(cache=True, nogil=True)
def log_marginal(data, posteriors, c):
    """Log density of the observed cells of a cluster."""
    result, half, kappa = 0.0, 0.5 * data.degrees, data.mean_precision
    of_prior = math.lgamma(half)
    n_last, log_gammas, n_of_feature, log_share = 0, 0.0, 0, 0.0
    for g in range(len(data.scatter)):
        n = posteriors.pooled[c, g]
        if n == 0:
            continue
        if n != n_last:  # features without missing cells have the same numbers
            n_last, log_gammas = n, math.lgamma(half + 0.5 * n) - of_prior - n * _HALF_LOG_PI
        scatter = posteriors.scatters[c, g]
        result += log_gammas - half * math.log(scatter / data.scatter[g]) - 0.5 * n * math.log(scatter)
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            n = posteriors.observed[c, j]
            if n != n_of_feature:
                n_of_feature, log_share = n, -0.5 * math.log1p(n / kappa)
            result += log_share - n * data.log_scales[j]
    return result


# Predictive density of one row given one cluster


@njit(cache=True, nogil=True)
def log_predictive(data, row, posteriors, c):
    """Log predictive density of a row given a cluster.

    Consecutive pools with equal numbers of observed cells have the same powers, so that their factors are multiplied
    before the logarithm.
    """
    result, shares = 0.0, 1.0
    n_last, m_last, n_factors, before, after = 0, 0, 0, 1.0, 1.0
    for g in range(len(data.scatter)):
        m, squares = 0, 0.0
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            x = data.rows[row, j]
            if x == x:
                gap, weight = x - posteriors.means[c, j], posteriors.weights[c, j]
                squares += weight * (gap * gap)
                shares *= weight
                if shares < _SMALL:
                    result += 0.5 * math.log(shares)
                    shares = 1.0
                result -= data.log_scales[j] + _HALF_LOG_PI
                m += 1
        if m == 0:
            continue
        n = posteriors.pooled[c, g]
        if n != n_last or m != m_last or not (_SMALL < before < _LARGE and after < _LARGE):
            result += _log_of_factors(data, n_last, m_last, n_factors, before, after)
            n_last, m_last, n_factors, before, after = n, m, 0, 1.0, 1.0
        before *= posteriors.scatters[c, g]
        after *= posteriors.scatters[c, g] + squares
        n_factors += 1
    return result + 0.5 * math.log(shares) + _log_of_factors(data, n_last, m_last, n_factors, before, after)


@njit(cache=True, nogil=True)
def _log_of_factors(data, n, m, n_factors, before, after):
    """Log of the gamma functions and the scatters of pools with n cells before and m more after."""
    if n_factors == 0:
        return 0.0
    if n + m < len(data.log_gammas):
        log_gammas = data.log_gammas[n + m] - data.log_gammas[n]
    else:
        log_gammas = log_rising_of_real(0.5 * (data.degrees + n), 0.5 * m)
    log_scatters = 0.5 * (data.degrees + n) * math.log(after / before) + 0.5 * m * math.log(after)
    return n_factors * log_gammas - log_scatters


# Predictive densities of many rows given all clusters


class PredictiveTerms(NamedTuple):
    """What predictive densities of rows given K clusters need, with contiguous clusters."""

    means: np.ndarray  # (d, K)
    factors: np.ndarray  # (d, K): weights of squared distances, divided by the scatter of the pool
    heights: np.ndarray  # (d, K): logarithms of the factors of each cell
    steps: np.ndarray  # (d + n_pools, K): log Gamma((n + m) / 2) - log Gamma(n / 2), for m = 0, 1, ... in each pool
    powers: np.ndarray  # (n_pools, K): half of the degrees of freedom
    totals: np.ndarray  # (K,): sums of all heights, and of the steps of complete rows
    groups: np.ndarray  # (n_pools,) int64: pools of one group have the same powers


@njit(cache=True, nogil=True)
def add_given_sums(first, stop, rows, pool_start, terms, out):
    """Add to `out`, (n_rows, K), the log predictive densities of the rows `first` to `stop` given each cluster."""
    d, K = terms.means.shape
    present, squares, products = np.empty(d, np.int64), np.empty(K), np.empty(K)
    scratch = np.empty((3, K))
    for row in range(first, stop):
        x, scores = rows[row], out[row]
        is_complete = list_present(x, present) == d
        if is_complete:
            for k in range(K):
                scores[k] += terms.totals[k]
        last, m_last, n_factors = 0, 0, 0
        for g in range(len(pool_start) - 1):
            m = 0
            for j in range(pool_start[g], pool_start[g + 1]):
                cell = x[j]
                if cell == cell:
                    _add_squares(cell, terms.means[j], terms.factors[j], m == 0, squares)
                    if not is_complete:
                        _add(terms.heights[j], scores)
                    m += 1
            if m == 0:
                continue
            if not is_complete:
                _add(terms.steps[pool_start[g] + g + m], scores)
            if n_factors == _N_FACTORS or (n_factors and (terms.groups[g] != terms.groups[last] or m != m_last)):
                _subtract_logs(products, terms.powers[last], m_last, scratch, scores)
                n_factors = 0
            if n_factors == 0:
                for k in range(K):
                    products[k] = 1.0 + squares[k]
            else:
                for k in range(K):
                    products[k] *= 1.0 + squares[k]
            last, m_last, n_factors = g, m, n_factors + 1
        if n_factors:
            _subtract_logs(products, terms.powers[last], m_last, scratch, scores)


@njit(cache=True, nogil=True)
def _add_squares(cell, means, factors, is_first, squares):
    if is_first:
        for k in range(len(means)):
            gap = cell - means[k]
            squares[k] = factors[k] * (gap * gap)
    else:
        for k in range(len(means)):
            gap = cell - means[k]
            squares[k] += factors[k] * (gap * gap)


@njit(cache=True, nogil=True)
def _add(terms, scores):
    for k in range(len(terms)):
        scores[k] += terms[k]


@njit(cache=True, nogil=True)
def _subtract_logs(products, powers, m, scratch, scores):
    fill_log(len(products), products, scratch[0], scratch[1], scratch[2])
    for k in range(len(products)):
        scores[k] -= (powers[k] + 0.5 * m) * scratch[2, k]


# New rows


@njit(cache=True, nogil=True)
def fill_new_rows(data, posteriors, labels, key, out):
    """Draw complete rows from the predictive distributions of clusters, relative to the origin and in the scales."""
    for i in range(len(labels)):
        c, of_row = labels[i], fold_in(key, i)
        of_normals, of_gammas = fold_in(of_row, 0), fold_in(of_row, 1)
        for g in range(len(data.scatter)):
            log_gamma = log_gamma_variate(fold_in(of_gammas, g), 0.5 * (data.degrees + posteriors.pooled[c, g]))
            log_deviation = 0.5 * (math.log(0.5 * posteriors.scatters[c, g]) - log_gamma)
            deviation = math.exp(min(log_deviation, _MOST_LOG_DEVIATION))
            for j in range(data.pool_start[g], data.pool_start[g + 1]):
                spread = deviation / math.sqrt(posteriors.weights[c, j])
                out[i, j] = posteriors.means[c, j] + spread * normal(of_normals, j)
