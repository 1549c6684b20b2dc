"""Kernels of clusters with diagonal covariances: sums of rows, draws of components, and scores of rows.

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
    """Drawn parameters of K components; the log density of cell x is ``log_heights - (roots x + shifts)^2 / 2``."""

    roots: np.ndarray  # (d, K): square roots of precisions
    shifts: np.ndarray  # (d, K): minus the means times the roots
    log_heights: np.ndarray  # (d, K): log densities at the means, in the units of the user's rows


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


@njit(cache=True, nogil=True)
def posterior_of_cells(data, j, n, total, squares):
    """Posterior mean of the mean of feature j, and what its n cells add to the scatter of its pool."""
    if n == 0:
        return data.mean[j], 0.0
    kappa, prior = data.mean_precision, data.mean[j]
    mean = (kappa * prior + total) / (kappa + n)
    average = total / n
    within = squares - total * average
    between = kappa * n / (kappa + n) * ((average - prior) * (average - prior))
    return mean, max(within, 0.0) + between


# Components


@njit(cache=True, nogil=True)
def draw_components(data, first, stop, labels, statistics, key, components):
    """Draw the components `first` to `stop` given the sums of their labels; labels beyond the capacity have no rows."""
    capacity, n_pools = statistics.observed.shape[0], len(data.scatter)
    means = np.empty(len(data.mean))
    for k in range(first, stop):
        label = labels[k]
        of_component = fold_in(key, k)
        of_normals, of_gammas = fold_in(of_component, 0), fold_in(of_component, 1)
        for g in range(n_pools):
            scatter, n_pooled = data.scatter[g], 0
            for j in range(data.pool_start[g], data.pool_start[g + 1]):
                means[j] = data.mean[j]
                if label < capacity:
                    n = statistics.observed[label, j]
                    means[j], added = posterior_of_cells(
                        data, j, n, statistics.sums[label, j], statistics.squares[label, j]
                    )
                    scatter += added
                    n_pooled += n
            log_gamma = log_gamma_variate(fold_in(of_gammas, g), 0.5 * (data.degrees + n_pooled))
            log_root = max(0.5 * (log_gamma - math.log(0.5 * scatter)), _LEAST_LOG_ROOT)
            root = math.exp(log_root)
            for j in range(data.pool_start[g], data.pool_start[g + 1]):
                n = statistics.observed[label, j] if label < capacity else 0
                components.roots[j, k] = root
                components.shifts[j, k] = -root * means[j] - normal(of_normals, j) / math.sqrt(data.mean_precision + n)
                components.log_heights[j, k] = log_root - data.log_scales[j] - _HALF_LOG_2PI


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
    d, K = components.roots.shape
    totals = np.zeros(K)
    for j in range(d):
        for k in range(K):
            totals[k] += components.log_heights[j, k]
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
    roots, shifts, log_heights = components
    n_present = list_present(x, present)
    if n_present == 0:
        return
    for k in range(n):
        scores[k] += totals[k]
    if n_present < len(x):
        for j in range(len(x)):
            if x[j] != x[j]:
                for k in range(n):
                    scores[k] -= log_heights[j, k]
    whole = n_present - n_present % 4
    for p in range(0, whole, 4):  # scores are read and written once for four cells
        a, b, c, d = present[p], present[p + 1], present[p + 2], present[p + 3]
        x_a, x_b, x_c, x_d = x[a], x[b], x[c], x[d]
        for k in range(n):
            of_a, of_b = roots[a, k] * x_a + shifts[a, k], roots[b, k] * x_b + shifts[b, k]
            of_c, of_d = roots[c, k] * x_c + shifts[c, k], roots[d, k] * x_d + shifts[d, k]
            scores[k] -= 0.5 * ((of_a * of_a + of_b * of_b) + (of_c * of_c + of_d * of_d))
    for p in range(whole, n_present):
        j = present[p]
        cell = x[j]
        for k in range(n):
            gap = roots[j, k] * cell + shifts[j, k]
            scores[k] -= 0.5 * (gap * gap)


@njit(cache=True, nogil=True)
def add_given_components(first, stop, rows, components, out):
    """Add to `out`, (n_rows, K), the log densities of the rows `first` to `stop` given each component."""
    present, totals = np.empty(rows.shape[1], np.int64), total_heights(components)
    for row in range(first, stop):
        add_scores(rows[row], len(totals), components, totals, present, out[row])
