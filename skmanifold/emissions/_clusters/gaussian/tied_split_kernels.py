"""Kernels of split-merge moves for one covariance matrix, which is drawn before the moves and fixed during them.

Rows are multiplied by F, the inverse of the Cholesky factor of the covariance, and are relative to the mean of the
prior. Then the features are independent with variance 1, and the mean of a cluster with kappa = mean_precision + n has
the posterior N(sum / kappa, 1 / kappa) in each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....utils._njit import njit, njit_part
from .. import kernels
from .missing_kernels import row_of
from .tied_kernels import TiedData, fill_image


class TiedCache(NamedTuple):
    """Sums of the images of the rows of each label."""

    sums: np.ndarray  # (capacity, d)
    factor: np.ndarray  # (d, d)
    log_root: float  # log determinant of the factor
    gaps: np.ndarray  # (d,) scratch
    image: np.ndarray  # (d,) scratch


class TiedSides(NamedTuple):
    """Sums of the images of the rows on the two sides of a split."""

    sizes: np.ndarray  # (2,) int64
    sums: np.ndarray  # (2, d)
    factor: np.ndarray  # (d, d)
    log_root: float  # log determinant of the factor
    gaps: np.ndarray  # (d,) scratch
    image: np.ndarray  # (d,), of the last row
    last: np.ndarray  # (1,) int64: the last row, or -1


@njit(cache=True, nogil=True)
def _fill_image_of_row(data, statistics, row, factor, gaps, image):
    x = row_of(data, statistics, row)
    for a in range(len(x)):
        gaps[a] = (x[a] - data.origin[a]) - data.mean[a]
    fill_image(factor, gaps, image)


@njit(cache=True, nogil=True)
def _log_density(data, n, total, image, log_root):
    """Log predictive density of a row with this image, given n rows whose images have this sum."""
    precision, d = data.mean_precision + n, len(image)
    spread, square = 1.0 + 1.0 / precision, 0.0
    for a in range(d):
        gap = image[a] - total[a] / precision
        square += gap * gap
    return log_root - 0.5 * d * math.log(2.0 * math.pi * spread) - 0.5 * square / spread


@njit(cache=True, nogil=True)
def _log_bayes_factor(data, n_0, n_1, sum_0, sum_1):
    """Log marginal density of two sets of rows minus that of their union, given the sums of their images."""
    strength, d = data.mean_precision, len(sum_0)
    kappa_0, kappa_1 = strength + n_0, strength + n_1
    result = 0.5 * d * (math.log1p(n_1 / kappa_0) - math.log1p(n_1 / strength))
    of_0 = of_1 = of_union = 0.0
    for a in range(d):
        of_0 += sum_0[a] * sum_0[a]
        of_1 += sum_1[a] * sum_1[a]
        of_union += (sum_0[a] + sum_1[a]) * (sum_0[a] + sum_1[a])
    return result + 0.5 * (of_0 / kappa_0 + of_1 / kappa_1 - of_union / (kappa_0 + n_1))


# Clusters


@kernels.refresh_cluster.of(TiedData)
@njit_part
def _refresh_cluster(data, statistics, label, cache):
    n = statistics.sizes[label]
    for a in range(len(data.mean)):
        cache.gaps[a] = statistics.sums[label, a] - n * data.mean[a]
    fill_image(cache.factor, cache.gaps, cache.sums[label])


@kernels.add_predictive.of(TiedData)
@njit_part
def _add_predictive(data, statistics, cache, row, labels, n_labels, out):
    _fill_image_of_row(data, statistics, row, cache.factor, cache.gaps, cache.image)
    for c in range(n_labels):
        n = statistics.sizes[labels[c]]
        out[c] += _log_density(data, n, cache.sums[labels[c]], cache.image, cache.log_root)


@kernels.log_bayes_factor_of_labels.of(TiedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    return _log_bayes_factor(data, n_0, n_1, cache.sums[label_0], cache.sums[label_1])


# Sides


@kernels.note_row.of(TiedData)
@njit_part
def _note_row(data, row, sides):
    pass


@njit(cache=True, nogil=True)
def _use_row(data, statistics, row, sides):
    """Compute the image of a row unless it is that of the last one."""
    if sides.last[0] != row:
        _fill_image_of_row(data, statistics, row, sides.factor, sides.gaps, sides.image)
        sides.last[0] = row


@kernels.add_to_side.of(TiedData)
@njit_part
def _add_to_side(data, statistics, row, side, sides):
    _use_row(data, statistics, row, sides)
    sides.sizes[side] += 1
    for a in range(len(sides.image)):
        sides.sums[side, a] += sides.image[a]


@kernels.remove_from_side.of(TiedData)
@njit_part
def _remove_from_side(data, statistics, row, side, sides):
    _use_row(data, statistics, row, sides)
    sides.sizes[side] -= 1
    for a in range(len(sides.image)):
        sides.sums[side, a] -= sides.image[a]


@njit(cache=True, nogil=True)
def _log_predictive(data, statistics, row, side, sides):
    _use_row(data, statistics, row, sides)
    return _log_density(data, sides.sizes[side], sides.sums[side], sides.image, sides.log_root)


@kernels.odds_of_sides.of(TiedData)
@njit_part
def _odds_of_sides(data, statistics, row, sides):
    of_1 = _log_predictive(data, statistics, row, 1, sides)
    return 1.0, 1.0, of_1 - _log_predictive(data, statistics, row, 0, sides)


@kernels.log_predictive_of_side.of(TiedData)
@njit_part
def _log_predictive_of_side(data, statistics, row, sides):
    return _log_predictive(data, statistics, row, 1, sides)


@kernels.log_bayes_factor_of_sides.of(TiedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    return _log_bayes_factor(data, sides.sizes[0], sides.sizes[1], sides.sums[0], sides.sums[1])


@kernels.clear_sides.of(TiedData)
@njit_part
def _clear_sides(data, sides):
    sides.last[0] = -1
    for side in range(2):
        sides.sizes[side] = 0
        for a in range(len(sides.image)):
            sides.sums[side, a] = 0.0
