"""Kernels of split-merge moves for full covariances: two sides of rows, predictive and marginal densities.

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


class FullCache(NamedTuple):
    """Posterior of each label with rows."""

    means: np.ndarray  # (capacity, d), relative to the origin
    roots: np.ndarray  # (capacity, d, d): U, upper triangular
    log_dets: np.ndarray  # (capacity,): of the scatters
    scratch: np.ndarray  # (d, d)
    gaps: np.ndarray  # (d,) scratch


class FullSides(NamedTuple):
    """Sums and posteriors of the two sides of a split."""

    sizes: np.ndarray  # (2,) int64
    sums: np.ndarray  # (2, d), relative to the origin
    products: np.ndarray  # (2, d, d): lower triangles
    means: np.ndarray  # (2, d), relative to the origin
    roots: np.ndarray  # (2, d, d): U, upper triangular
    log_dets: np.ndarray  # (2,)
    constants: np.ndarray  # (2,): of the predictive densities
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


# Clusters


@kernels.refresh_cluster.of(FullData)
@njit_part
def _refresh_cluster(data, statistics, label, cache):
    fill_posterior(data, statistics, label, cache.means[label], cache.scratch)
    cache.log_dets[label] = fill_upper_root(cache.scratch, cache.roots[label])


@kernels.add_predictive.of(FullData)
@njit_part
def _add_predictive(data, statistics, cache, row, labels, n_labels, out):
    for c in range(n_labels):
        label = labels[c]
        n = statistics.sizes[label]
        square = _square_of(data, statistics, row, cache.means[label], cache.roots[label], cache.gaps)
        out[c] += log_density(data, n, constant_of(data, n, cache.log_dets[label]), square)


@kernels.log_bayes_factor_of_labels.of(FullData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    sizes, sums, products = statistics.sizes, statistics.sums, statistics.products
    d, n_0, n_1 = len(data.mean), sizes[label_0], sizes[label_1]
    total, product, mean = np.empty(d), np.empty((d, d)), np.empty(d)
    for a in range(d):
        total[a] = sums[label_0, a] + sums[label_1, a]
        for b in range(a + 1):
            product[a, b] = products[label_0, a, b] + products[label_1, a, b]
    fill_from_sums(data, n_0 + n_1, total, product, mean, cache.scratch)
    of_union = log_marginal_of(data, n_0 + n_1, fill_upper_root(cache.scratch, product))
    of_0, of_1 = cache.log_dets[label_0], cache.log_dets[label_1]
    return log_marginal_of(data, n_0, of_0) + log_marginal_of(data, n_1, of_1) - of_union


# Sides


@kernels.note_row.of(FullData)
@njit_part
def _note_row(data, row, sides):
    pass


@kernels.add_to_side.of(FullData)
@njit_part
def _add_to_side(data, statistics, row, side, sides):
    n, mean = sides.sizes[side] + 1, sides.means[side]
    _count(data, statistics, row, side, 1.0, sides)
    x, origin, gaps, precision = row_of(data, statistics, row), data.origin, sides.gaps, data.mean_precision + n
    scale = math.sqrt((precision - 1.0) / precision)
    for a in range(len(x)):
        gap = (x[a] - origin[a]) - mean[a]
        mean[a] += gap / precision
        gaps[a] = scale * gap
    sides.log_dets[side] += add_outer(sides.roots[side], gaps)
    sides.constants[side] = constant_of(data, n, sides.log_dets[side])


@kernels.remove_from_side.of(FullData)
@njit_part
def _remove_from_side(data, statistics, row, side, sides):
    n, mean = sides.sizes[side] - 1, sides.means[side]
    _count(data, statistics, row, side, -1.0, sides)
    x, origin, gaps, precision = row_of(data, statistics, row), data.origin, sides.gaps, data.mean_precision + n
    scale = math.sqrt((precision + 1.0) / precision)
    for a in range(len(x)):
        gap = (x[a] - origin[a]) - mean[a]
        mean[a] -= gap / precision
        gaps[a] = scale * gap
    sides.log_dets[side] += subtract_outer(sides.roots[side], gaps)
    if np.isnan(sides.log_dets[side]):
        fill_from_sums(data, n, sides.sums[side], sides.products[side], mean, sides.scratch)
        sides.log_dets[side] = fill_upper_root(sides.scratch, sides.roots[side])
    sides.constants[side] = constant_of(data, n, sides.log_dets[side])


@njit(cache=True, nogil=True)
def _count(data, statistics, row, side, sign, sides):
    """Add a row to the sums of a side, or subtract it: its posterior may have to be computed again from them."""
    x, origin, total, product = row_of(data, statistics, row), data.origin, sides.sums[side], sides.products[side]
    sides.sizes[side] += np.int64(sign)
    for a in range(len(x)):
        entry = sign * (x[a] - origin[a])
        total[a] += entry
        for b in range(a + 1):
            product[a, b] += entry * (x[b] - origin[b])


@njit(cache=True, nogil=True)
def _log_predictive(data, statistics, row, side, sides):
    square = _square_of(data, statistics, row, sides.means[side], sides.roots[side], sides.gaps)
    return log_density(data, sides.sizes[side], sides.constants[side], square)


@kernels.odds_of_sides.of(FullData)
@njit_part
def _odds_of_sides(data, statistics, row, sides):
    of_1 = _log_predictive(data, statistics, row, 1, sides)
    return 1.0, 1.0, of_1 - _log_predictive(data, statistics, row, 0, sides)


@kernels.log_predictive_of_side.of(FullData)
@njit_part
def _log_predictive_of_side(data, statistics, row, sides):
    return _log_predictive(data, statistics, row, 1, sides)


@kernels.log_bayes_factor_of_sides.of(FullData)
@njit_part
def _log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    of_0 = log_marginal_of(data, sides.sizes[0], sides.log_dets[0])
    of_1 = log_marginal_of(data, sides.sizes[1], sides.log_dets[1])
    return of_0 + of_1 - log_marginal_of(data, statistics.sizes[label], cache.log_dets[label])


@kernels.clear_sides.of(FullData)
@njit_part
def _clear_sides(data, sides):
    d = len(data.mean)
    for side in range(2):
        sides.sizes[side] = 0
        sides.log_dets[side] = data.log_det
        sides.constants[side] = constant_of(data, np.int64(0), data.log_det)
        for a in range(d):
            sides.sums[side, a] = 0.0
            sides.means[side, a] = data.mean[a]
            for b in range(a + 1):
                sides.products[side, a, b] = 0.0
                sides.roots[side, b, a] = data.root[b, a]
