"""Kernels of Gaussian rows whose components share a covariance matrix: sums, scores, and posteriors of means.

For split-merge moves a covariance is drawn before and fixed during them. Rows are multiplied by F, the inverse of its
Cholesky factor, and are relative to the mean of the prior. Then the features are independent with variance 1, and the
mean of a cluster with kappa = mean_precision + n has the posterior N(sum / kappa, 1 / kappa) in each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.row_batches import ROW_LANES
from ...utils._njit import njit, njit_part
from .. import kernels
from .base import TiedParameters
from .kernels import fill_image, fill_images_of_rows, fill_tied_squares
from .missing_kernels import fill_observed_scores, row_of


class TiedData(NamedTuple):
    """Rows of numbers, and the normal-inverse-Wishart prior of means with one covariance."""

    values: np.ndarray  # (n_rows, d); NaN where a cell is missing
    place: np.ndarray  # (n_rows,) int32: index among the rows with missing cells, or -1
    patterns: np.ndarray  # (n_rows,) uint64: a number for the missing cells of each row
    origin: np.ndarray  # (d,), subtracted from rows before they are added, which reduces rounding errors
    mean: np.ndarray  # (d,) of the prior, relative to the origin
    mean_precision: float
    covariance: np.ndarray  # (d, d)
    degrees: float
    log_det: float  # of the covariance of the prior


class TiedComponents(NamedTuple):
    """Drawn parameters of K components, and what the scores of rows need of them."""

    parameters: TiedParameters
    images: np.ndarray  # (K, d): the factor times the means relative to the origin
    columns: np.ndarray  # (1, d, d): transpose of the factor; (0, d, d) if no cell is missing
    precisions: np.ndarray  # (1, d, d): lower triangle; (0, d, d) if no cell is missing


class TiedPosterior(NamedTuple):
    """Sums of the images of the rows of each label."""

    sums: np.ndarray  # (capacity, d)
    factor: np.ndarray  # (d, d)
    log_root: float  # log determinant of the factor
    gaps: np.ndarray  # (d,) scratch
    image: np.ndarray  # (d,), of the last row
    last: np.ndarray  # (1,) int64: the last row, or -1


@kernels.count_row.of(TiedData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    total = statistics.sums[label]
    if statistics.sizes[label] == 0:
        total[:] = 0.0
        return
    x, origin = row_of(data, statistics, row), data.origin
    for a in range(len(x)):
        total[a] += sign * (x[a] - origin[a])


@kernels.merge_labels.of(TiedData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    sums = statistics.sums
    statistics.sizes[kept] += statistics.sizes[gone]
    statistics.sizes[gone] = 0
    for a in range(sums.shape[1]):
        sums[kept, a] += sums[gone, a]
        sums[gone, a] = 0.0


@njit(cache=True, nogil=True)
def fill_tied_posterior(data, statistics, labels, means, scatter):
    """Fill the posterior means of labels, relative to the origin, and the scatter of all; returns the number of rows.

    The scatter is that of the prior, and of all rows about their means. Labels beyond the capacity have no rows.
    """
    d, prior, strength, mean, n_rows = len(data.mean), data.mean, data.mean_precision, np.empty(len(data.mean)), 0.0
    for a in range(d):
        for b in range(a + 1):
            scatter[a, b] = data.covariance[a, b] + statistics.products[a, b]
    for label in range(len(statistics.sizes)):
        n = statistics.sizes[label]
        if n == 0:
            continue
        n_rows += n
        _fill_mean(data, statistics, label, mean)
        for a in range(d):
            from_prior, from_mean = strength * prior[a], (strength + n) * mean[a]
            for b in range(a + 1):
                scatter[a, b] += from_prior * prior[b] - from_mean * mean[b]
    for a in range(d):
        for b in range(a):
            scatter[b, a] = scatter[a, b]
    for k in range(len(labels)):
        _fill_mean(data, statistics, labels[k], means[k])
    return n_rows


@njit(cache=True, nogil=True)
def _fill_mean(data, statistics, label, mean):
    strength, n = data.mean_precision, statistics.sizes[label] if label < len(statistics.sizes) else 0
    for a in range(len(mean)):
        total = statistics.sums[label, a] if n > 0 else 0.0
        mean[a] = (strength * data.mean[a] + total) / (strength + n)


@kernels.fill_scores.of(TiedData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    parameters, images, (K, d) = components.parameters, components.images, components.images.shape
    columns, image, total = np.empty((d, ROW_LANES)), np.empty((d, ROW_LANES)), np.empty(ROW_LANES)
    for first in range(0, len(rows), ROW_LANES):
        n, n_most = min(ROW_LANES, len(rows) - first), 0
        for lane in range(n):
            n_most = max(n_most, n_above[first + lane])
        if n_most <= 1:
            continue
        for lane in range(ROW_LANES):
            x = data.values[rows[first + min(lane, n - 1)]]
            for a in range(d):
                columns[a, lane] = x[a]
        fill_images_of_rows(columns, data.origin, parameters.factors, image)
        for k in range(min(n_most, K)):
            fill_tied_squares(image, images[k], total)
            for lane in range(n):
                scores[first + lane, k] = parameters.offsets[k] - 0.5 * total[lane]
    fill_observed_scores(data, rows, n_above, components, scores)


# Posteriors of labels


@njit(cache=True, nogil=True)
def _use_row(data, statistics, posterior, row):
    """Compute the image of a row unless it is that of the last one."""
    if posterior.last[0] == row:
        return
    x = row_of(data, statistics, row)
    for a in range(len(x)):
        posterior.gaps[a] = (x[a] - data.origin[a]) - data.mean[a]
    fill_image(posterior.factor, posterior.gaps, posterior.image)
    posterior.last[0] = row


@njit(cache=True, nogil=True)
def _log_density(data, n, total, image, log_root):
    """Log predictive density of a row with this image, given n rows whose images have this sum."""
    precision, d = data.mean_precision + n, len(image)
    spread, square = 1.0 + 1.0 / precision, 0.0
    for a in range(d):
        gap = image[a] - total[a] / precision
        square += gap * gap
    return log_root - 0.5 * d * math.log(2.0 * math.pi * spread) - 0.5 * square / spread


@kernels.refresh_posterior.of(TiedData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    n = statistics.sizes[label]
    for a in range(len(data.mean)):
        posterior.gaps[a] = statistics.sums[label, a] - n * data.mean[a]
    fill_image(posterior.factor, posterior.gaps, posterior.sums[label])


@kernels.add_predictive.of(TiedData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    _use_row(data, statistics, posterior, row)
    for c in range(n_labels):
        n = statistics.sizes[labels[c]]
        out[c] += _log_density(data, n, posterior.sums[labels[c]], posterior.image, posterior.log_root)


@kernels.log_bayes_factor.of(TiedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    sum_0, sum_1 = posterior.sums[label_0], posterior.sums[label_1]
    strength, d = data.mean_precision, len(sum_0)
    kappa_0, kappa_1 = strength + n_0, strength + n_1
    result = 0.5 * d * (math.log1p(n_1 / kappa_0) - math.log1p(n_1 / strength))
    of_0 = of_1 = of_union = 0.0
    for a in range(d):
        of_0 += sum_0[a] * sum_0[a]
        of_1 += sum_1[a] * sum_1[a]
        of_union += (sum_0[a] + sum_1[a]) * (sum_0[a] + sum_1[a])
    return result + 0.5 * (of_0 / kappa_0 + of_1 / kappa_1 - of_union / (kappa_0 + n_1))


@kernels.update_posterior.of(TiedData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    """Add or remove the image of a row; the sums of the rows of sides are not needed."""
    _use_row(data, statistics, posterior, row)
    statistics.sizes[label] += sign
    for a in range(len(posterior.image)):
        posterior.sums[label, a] += sign * posterior.image[a]
