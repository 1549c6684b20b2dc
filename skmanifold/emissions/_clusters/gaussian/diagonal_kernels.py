"""Kernels of components with diagonal covariances: sums of rows, posteriors, draws, and scores of rows.

The features of a pool share a variance: each feature is a pool, or all features are one. Given the variance v of its
pool, the mean of feature j is N(mean_j, v / kappa), and v is IG(nu / 2, scatter / 2). Rows and prior are relative to an
origin, in units of scales near the prior standard deviations, so that no square overflows. A cell with NaN is missing,
and contributes to no sum and to no density.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....numerics.simd import prefetch
from ....random._keys import fold_in
from ....random._variates import log_gamma_variate, normal
from ....utils._njit import njit, njit_part
from .. import kernels

_LEAST_LOG_ROOT = -150.0  # of a precision, which underflows with few degrees of freedom; e^-150 is never chosen
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_AHEAD = 3  # a row is prefetched so many rows before its use
_CELLS_OF_LINE = 8  # in a cache line of 64 bytes


class DiagonalData(NamedTuple):
    """Rows with missing cells and their prior, relative to an origin and in units of scales."""

    rows: np.ndarray  # (n_rows, d)
    pool_start: np.ndarray  # (n_pools + 1,) int64: pool g has the features pool_start[g] to pool_start[g + 1]
    mean: np.ndarray  # (d,)
    mean_precision: float  # in rows
    scatter: np.ndarray  # (n_pools,)
    degrees: float
    log_scales: np.ndarray  # (d,)
    log_gammas: np.ndarray  # log of Gamma((degrees + n) / 2) for small n


class DiagonalComponents(NamedTuple):
    """Parameters of K components; the log density of cell x is ``height - precision (x - mean)^2 / 2``."""

    means: np.ndarray  # (d, K)
    precisions: np.ndarray  # (d, K)
    heights: np.ndarray  # (d, K): log densities at the means, in the units of the user's rows


class DiagonalPosteriors(NamedTuple):
    """Posteriors of components, or of the two sides of a split, which come first."""

    observed: np.ndarray  # (n, d): numbers of observed cells
    pooled: np.ndarray  # (n, n_pools): observed cells of each pool
    means: np.ndarray  # (n, d)
    weights: np.ndarray  # (n, d): of a new cell's squared distance from the mean in the scatter
    scatters: np.ndarray  # (n, n_pools)
    log_marginals: np.ndarray  # (n,)


@njit(cache=True, nogil=True)
def no_posteriors(data, n, counts):
    """Space for the posteriors of n components, with numbers of cells of the type of `counts`."""
    wide, narrow = (n, len(data.mean)), (n, len(data.scatter))
    observed, pooled = np.zeros(wide, counts.dtype), np.zeros(narrow, counts.dtype)
    return DiagonalPosteriors(observed, pooled, np.zeros(wide), np.zeros(wide), np.zeros(narrow), np.zeros(n))


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
    statistics.sizes[kept] += statistics.sizes[gone]
    statistics.sizes[gone] = 0
    for j in range(statistics.observed.shape[1]):
        statistics.observed[kept, j] += statistics.observed[gone, j]
        statistics.sums[kept, j] += statistics.sums[gone, j]
        statistics.squares[kept, j] += statistics.squares[gone, j]
        statistics.observed[gone, j] = 0
        statistics.sums[gone, j] = statistics.squares[gone, j] = 0.0


# Posteriors


@njit(cache=True, nogil=True)
def posteriors_of(data, observed, sums, squares):
    """The posteriors of components with these sums, (K, d), all but the marginal densities."""
    posteriors = no_posteriors(data, len(observed), observed)
    for k in range(len(observed)):
        fill_posterior(data, observed[k], sums[k], squares[k], posteriors, k)
    return posteriors


@njit(cache=True, nogil=True)
def fill_posterior(data, observed, sums, squares, posteriors, c):
    """Compute the posterior c from the sums of a component, all but its marginal density."""
    kappa = data.mean_precision
    for g in range(len(data.scatter)):
        posteriors.pooled[c, g] = 0
        posteriors.scatters[c, g] = data.scatter[g]
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            n, prior = observed[j], data.mean[j]
            posteriors.means[c, j] = prior
            posteriors.weights[c, j] = (kappa + n) / (kappa + n + 1.0)
            posteriors.observed[c, j] = n
            posteriors.pooled[c, g] += n
            if n > 0:
                average = sums[j] / n
                within = max(squares[j] - sums[j] * average, 0.0)
                between = kappa * n / (kappa + n) * ((average - prior) * (average - prior))
                posteriors.means[c, j] = (kappa * prior + sums[j]) / (kappa + n)
                posteriors.scatters[c, g] += within + between


# Components


@njit(cache=True, nogil=True)
def draw_components(data, first, stop, labels, observed, sums, squares, key, components):
    """Draw the components `first` to `stop` given the sums of their labels; labels beyond the capacity have no rows."""
    posterior = no_posteriors(data, 1, observed)
    no_cells, zeros = posterior.observed[0].copy(), np.zeros(len(data.mean))
    for k in range(first, stop):
        label = labels[k]
        if label < len(observed):
            fill_posterior(data, observed[label], sums[label], squares[label], posterior, 0)
        else:
            fill_posterior(data, no_cells, zeros, zeros, posterior, 0)
        of_component = fold_in(key, k)
        of_normals, of_gammas = fold_in(of_component, 0), fold_in(of_component, 1)
        for g in range(len(data.scatter)):
            log_gamma = log_gamma_variate(fold_in(of_gammas, g), 0.5 * (data.degrees + posterior.pooled[0, g]))
            log_root = max(0.5 * (log_gamma - math.log(0.5 * posterior.scatters[0, g])), _LEAST_LOG_ROOT)
            precision = math.exp(2.0 * log_root)
            for j in range(data.pool_start[g], data.pool_start[g + 1]):
                precision_of_mean = precision * (data.mean_precision + posterior.observed[0, j])
                components.means[j, k] = posterior.means[0, j] + normal(of_normals, j) / math.sqrt(precision_of_mean)
                components.precisions[j, k] = precision
                components.heights[j, k] = log_root - data.log_scales[j] - _HALF_LOG_2PI


@kernels.fill_scores.of(DiagonalData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    d = data.rows.shape[1]
    present, totals = np.empty(d, np.int64), total_heights(components)
    for i in range(len(rows)):
        if i + _AHEAD < len(rows):
            for j in range(0, d, _CELLS_OF_LINE):
                prefetch(data.rows, rows[i + _AHEAD] * d + j)
        n = n_above[i]
        if n > 1:
            for k in range(n):
                scores[i, k] = 0.0
            add_scores(data.rows[rows[i]], n, components, totals, present, scores[i])


@njit(cache=True, nogil=True)
def total_heights(components):
    """Log densities of complete rows at the means, (K,)."""
    d, K = components.means.shape
    totals = np.zeros(K)
    for j in range(d):
        for k in range(K):
            totals[k] += components.heights[j, k]
    return totals


@njit(cache=True, nogil=True)
def list_present(x, out):
    """List the cells of a row that are not missing; returns their number."""
    n = 0
    for j in range(len(x)):
        out[n] = j
        n += x[j] == x[j]
    return n


@njit(cache=True, nogil=True)
def add_scores(x, n, components, totals, present, scores):
    """Add to `scores` the log densities of a row given the first n components; `present` is overwritten."""
    means, precisions, heights = components
    n_present = list_present(x, present)
    if n_present == 0:
        return
    for k in range(n):
        scores[k] += totals[k]
    if n_present < len(x):
        for j in range(len(x)):
            if x[j] != x[j]:
                for k in range(n):
                    scores[k] -= heights[j, k]
    whole = n_present - n_present % 4
    for p in range(0, whole, 4):  # scores are read and written once for four cells
        a, b, c, d = present[p], present[p + 1], present[p + 2], present[p + 3]
        x_a, x_b, x_c, x_d = x[a], x[b], x[c], x[d]
        for k in range(n):
            of_a, of_b, of_c, of_d = x_a - means[a, k], x_b - means[b, k], x_c - means[c, k], x_d - means[d, k]
            two = precisions[a, k] * of_a * of_a + precisions[b, k] * of_b * of_b
            scores[k] -= 0.5 * (two + (precisions[c, k] * of_c * of_c + precisions[d, k] * of_d * of_d))
    for p in range(whole, n_present):
        j = present[p]
        cell = x[j]
        for k in range(n):
            gap = cell - means[j, k]
            scores[k] -= 0.5 * (precisions[j, k] * gap * gap)
