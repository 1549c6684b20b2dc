"""Kernels of components with diagonal covariances: sums of rows, posteriors, draws, densities, and split-merge moves.

The features of a pool share a variance: each feature is a pool, or all features are one. Given the variance v of its
pool, the mean of feature j is N(mean_j, v / kappa), and v is IG(nu / 2, scatter / 2). Rows and prior are relative to an
origin, in units of scales near the prior standard deviations, so that no square overflows. A cell with NaN is missing,
and contributes to no sum and to no density.

With its parameters integrated out, a pool with prior scatter P, posterior scatter S, and n_j observed cells of feature
j, n in total, has the density

    pi^(-n / 2) Gamma((nu + n) / 2) / Gamma(nu / 2) P^(nu / 2) / S^((nu + n) / 2) prod_j sqrt(kappa / (kappa + n_j)).

The predictive density of a row is the ratio of two of them: with m cells more, S increases by their weighted squared
distances from the means.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.simd import ROW_LANES
from ...numerics.special import fill_log, log_rising_of_real
from ...random._keys import fold_in
from ...random._variates import log_gamma_variate, normal
from ...utils._njit import njit, njit_part
from .. import kernels
from .._statistics import move_entry
from .kernels import count_seen, fill_cell_densities, load_columns

_LEAST_LOG_ROOT = -150.0  # of a precision, which underflows with few degrees of freedom; e^-150 is never chosen
_HALF_LOG_PI = 0.5 * math.log(math.pi)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LARGE, _SMALL = 1e100, 1e-100  # products beyond them are replaced by their logarithms
_N_FACTORS = 4  # of products whose sizes are not checked: each is below 1e75


class DiagonalData(NamedTuple):
    """Rows with missing cells and their prior, relative to an origin and in units of scales."""

    rows: np.ndarray  # (n_rows, d)
    pool_start: np.ndarray  # (n_pools + 1,) int64: pool g has the features pool_start[g] to pool_start[g + 1]
    mean: np.ndarray  # (d,)
    mean_precision: np.ndarray  # (d,), in rows
    scatter: np.ndarray  # (n_pools,)
    degrees: np.ndarray  # (n_pools,)
    log_scales: np.ndarray  # (d,)
    log_gammas: np.ndarray  # log of Gamma((degrees + n) / 2) for small n; empty if pools have degrees of their own


class DiagonalComponents(NamedTuple):
    """Parameters of K components; the log density of cell x is ``height - precision (x - mean)^2 / 2``."""

    means: np.ndarray  # (K, d)
    precisions: np.ndarray  # (K, d)
    heights: np.ndarray  # (K, d): log densities at the means, in the units of the user's rows


class DiagonalPosteriors(NamedTuple):
    """Posteriors of components."""

    pooled: np.ndarray  # (n, n_pools): observed cells of each pool
    means: np.ndarray  # (n, d)
    weights: np.ndarray  # (n, d): of a new cell's squared distance from the mean in the scatter
    scatters: np.ndarray  # (n, n_pools)
    log_marginals: np.ndarray  # (n,): NaN if it has to be computed
    within: np.ndarray  # (d,) scratch


@njit(cache=True, nogil=True)
def no_posteriors(data, n, counts):
    """Space for the posteriors of n components, with numbers of cells of the type of `counts`."""
    wide, narrow = (n, len(data.mean)), (n, len(data.scatter))
    of_pools = np.zeros(narrow), np.zeros(n), np.empty(len(data.mean))
    return DiagonalPosteriors(np.zeros(narrow, counts.dtype), np.zeros(wide), np.zeros(wide), *of_pools)


# Sums


@kernels.count_row.of(DiagonalData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    observed, sums, squares = statistics.observed[label], statistics.sums[label], statistics.squares[label]
    statistics.sizes[label] += sign
    for j in range(len(observed)):
        x = data.rows[row, j]
        if x == x:
            observed[j] += sign
            sums[j] += sign * x
            squares[j] += sign * (x * x)
            if observed[j] == 0:  # without the rounding errors of the rows before
                sums[j] = squares[j] = 0.0


@kernels.merge_labels.of(DiagonalData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    move_entry(statistics.sizes, kept, gone)
    move_entry(statistics.observed, kept, gone)
    move_entry(statistics.sums, kept, gone)
    move_entry(statistics.squares, kept, gone)


# Posteriors


@njit(cache=True, nogil=True)
def posteriors_of(data, statistics):
    """The posteriors of components with these statistics, all but the marginal densities."""
    posteriors = no_posteriors(data, len(statistics.sizes), statistics.observed)
    for k in range(len(statistics.sizes)):
        _refresh_posterior(data, statistics, posteriors, k)
    return posteriors


@kernels.refresh_posterior.of(DiagonalData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    of_label = statistics.observed[label], statistics.sums[label], statistics.squares[label]
    fill_posterior(data, *of_label, posterior, label)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_posterior(data, observed, sums, squares, posteriors, c):
    """Compute the posterior c from the sums of a component, all but its marginal density."""
    means, weights, within = posteriors.means[c], posteriors.weights[c], posteriors.within
    for j in range(len(means)):  # without branches, so that it is vectorized
        n, total, prior, kappa = observed[j], sums[j], data.mean[j], data.mean_precision[j]
        average = total / n if n > 0 else prior
        means[j] = (kappa * prior + total) / (kappa + n) if n > 0 else prior
        gap = average - prior
        within[j] = max(squares[j] - total * average, 0.0) + kappa * n / (kappa + n) * (gap * gap)
        weights[j] = (kappa + n) / (kappa + n + 1.0)
    for g in range(len(data.scatter)):
        n_pooled, scatter = 0 * observed[0], data.scatter[g]
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            n_pooled += observed[j]
            scatter += within[j]
        posteriors.pooled[c, g], posteriors.scatters[c, g] = n_pooled, scatter
    posteriors.log_marginals[c] = np.nan


# Components


@njit(cache=True, nogil=True)
def draw_components(data, first, stop, observed, posteriors, key, components):
    """Draw the components `first` to `stop` from their posteriors."""
    means, precisions, heights = components
    for k in range(first, stop):
        of_component = fold_in(key, k)
        of_normals, of_gammas = fold_in(of_component, 0), fold_in(of_component, 1)
        for g in range(len(data.scatter)):
            log_gamma = log_gamma_variate(fold_in(of_gammas, g), 0.5 * (data.degrees[g] + posteriors.pooled[k, g]))
            log_root = max(0.5 * (log_gamma - math.log(0.5 * posteriors.scatters[k, g])), _LEAST_LOG_ROOT)
            precision = math.exp(2.0 * log_root)
            for j in range(data.pool_start[g], data.pool_start[g + 1]):
                precision_of_mean = precision * (data.mean_precision[j] + observed[k, j])
                means[k, j] = posteriors.means[k, j] + normal(of_normals, j) / math.sqrt(precision_of_mean)
                precisions[k, j] = precision
                heights[k, j] = log_root - data.log_scales[j] - _HALF_LOG_2PI


@kernels.fill_scores.of(DiagonalData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    (means, precisions, heights), d = components, data.rows.shape[1]
    columns, block, n_seen = np.zeros((d, ROW_LANES)), np.empty((len(means), ROW_LANES)), np.empty(ROW_LANES)
    chosen, i = np.empty(ROW_LANES, np.int64), 0
    while i < len(rows):
        n, n_most, i = load_columns(data.rows, rows, n_above, i, columns, chosen)
        is_complete = count_seen(columns, n_seen)
        for k in range(n_most):
            fill_cell_densities(columns, is_complete, means[k], precisions[k], heights[k], block[k])
        for lane in range(n):
            of_row, is_empty = scores[chosen[lane]], n_seen[lane] == 0.0
            for k in range(n_above[chosen[lane]]):
                of_row[k] = 0.0 if is_empty else block[k, lane]


# Marginal densities


@njit(cache=True, nogil=True)
def total_log_marginal(data, statistics):
    """Log density of the observed cells of all clusters."""
    total, posteriors = 0.0, posteriors_of(data, statistics)
    for c in range(len(statistics.sizes)):
        total += log_marginal(data, statistics.observed[c], posteriors, c, 0, len(data.scatter))
    return total


@njit(cache=True, nogil=True)
def log_marginals_of_pools(data, statistics):
    """Log densities of the observed cells of each pool of all clusters, (n_pools,)."""
    totals, posteriors = np.zeros(len(data.scatter)), posteriors_of(data, statistics)
    for c in range(len(statistics.sizes)):
        for g in range(len(totals)):
            totals[g] += log_marginal(data, statistics.observed[c], posteriors, c, g, g + 1)
    return totals


@njit(cache=True, nogil=True)
def log_marginal(data, observed, posteriors, c, first, stop):
    """Log density of the observed cells of a cluster in the pools `first` to `stop`."""
    result, half, of_prior = 0.0, np.nan, 0.0
    n_last, log_gammas, n_of_feature, kappa, log_share = 0, 0.0, 0, 0.0, 0.0
    for g in range(first, stop):
        n = posteriors.pooled[c, g]
        if n == 0:
            continue
        if 0.5 * data.degrees[g] != half:
            n_last, half = 0, 0.5 * data.degrees[g]
            of_prior = math.lgamma(half)
        if n != n_last:  # features without missing cells have the same numbers
            n_last, log_gammas = n, math.lgamma(half + 0.5 * n) - of_prior - n * _HALF_LOG_PI
        scatter = posteriors.scatters[c, g]
        result += log_gammas - half * math.log(scatter / data.scatter[g]) - 0.5 * n * math.log(scatter)
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            n = observed[j]
            if n != n_of_feature or data.mean_precision[j] != kappa:
                n_of_feature, kappa = n, data.mean_precision[j]
                log_share = -0.5 * math.log1p(n / kappa)
            result += log_share - n * data.log_scales[j]
    return result


# Predictive density of one row given one cluster


@njit(cache=True, nogil=True)
def log_predictive(data, row, posteriors, c):
    """Log predictive density of a row given a cluster.

    Factors of consecutive pools with equal numbers of observed cells, so equal powers, are multiplied before the
    logarithm.
    """
    result, shares = 0.0, 1.0
    n_last, m_last, last, n_factors, before, after = 0, 0, 0, 0, 1.0, 1.0
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
        is_other = n != n_last or m != m_last or data.degrees[g] != data.degrees[last]
        if is_other or not (_SMALL < before < _LARGE and after < _LARGE):
            result += _log_of_factors(data, last, n_last, m_last, n_factors, before, after)
            n_last, m_last, last, n_factors, before, after = n, m, g, 0, 1.0, 1.0
        before *= posteriors.scatters[c, g]
        after *= posteriors.scatters[c, g] + squares
        n_factors += 1
    of_last = _log_of_factors(data, last, n_last, m_last, n_factors, before, after)
    return result + 0.5 * math.log(shares) + of_last


@njit(cache=True, nogil=True)
def _log_of_factors(data, g, n, m, n_factors, before, after):
    """Log of the gamma functions and the scatters of pools with the degrees of g, n cells before and m more after."""
    if n_factors == 0:
        return 0.0
    degrees = data.degrees[g]
    if n + m < len(data.log_gammas):
        log_gammas = data.log_gammas[n + m] - data.log_gammas[n]
    else:
        log_gammas = log_rising_of_real(0.5 * (degrees + n), 0.5 * m)
    log_scatters = 0.5 * (degrees + n) * math.log(after / before) + 0.5 * m * math.log(after)
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
    squares, products, scratch = np.empty(K), np.empty(K), np.empty((3, K))
    for row in range(first, stop):
        x, scores, n_seen = rows[row], out[row], 0
        # A complete row has all heights and steps in one sum, which is known in advance.
        for j in range(d):
            n_seen += x[j] == x[j]
        is_complete = n_seen == d
        if is_complete:
            scores += terms.totals
        last, m_last, n_factors = 0, 0, 0
        for g in range(len(pool_start) - 1):
            m = 0
            for j in range(pool_start[g], pool_start[g + 1]):
                cell = x[j]
                if cell == cell:
                    _add_squares(cell, terms.means[j], terms.factors[j], m == 0, squares)
                    if not is_complete:
                        scores += terms.heights[j]
                    m += 1
            if m == 0:
                continue
            if not is_complete:
                scores += terms.steps[pool_start[g] + g + m]
            # Pools with equal powers share a logarithm: a few of their factors are multiplied, without overflow.
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


@njit_part
def _add_squares(cell, means, factors, is_first, squares):
    if is_first:
        for k in range(len(means)):
            gap = cell - means[k]
            squares[k] = factors[k] * (gap * gap)
    else:
        for k in range(len(means)):
            gap = cell - means[k]
            squares[k] += factors[k] * (gap * gap)


@njit_part
def _subtract_logs(products, powers, m, scratch, scores):
    fill_log(len(products), products, scratch[0], scratch[1], scratch[2])
    for k in range(len(products)):
        scores[k] -= (powers[k] + 0.5 * m) * scratch[2, k]


# Split-merge moves


@kernels.add_predictive.of(DiagonalData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    for c in range(n_labels):
        out[c] += log_predictive(data, row, posterior, labels[c])


@kernels.log_bayes_factor.of(DiagonalData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    union, result, pools = len(posterior.log_marginals) - 1, 0.0, (0, len(data.scatter))  # an entry without a label
    for label in (label_0, label_1):
        if np.isnan(posterior.log_marginals[label]):
            posterior.log_marginals[label] = log_marginal(data, statistics.observed[label], posterior, label, *pools)
        result += posterior.log_marginals[label]
    observed = statistics.observed[label_0] + statistics.observed[label_1]
    sums = statistics.sums[label_0] + statistics.sums[label_1]
    squares = statistics.squares[label_0] + statistics.squares[label_1]
    fill_posterior(data, observed, sums, squares, posterior, union)
    return result - log_marginal(data, observed, posterior, union, *pools)
