"""Kernels of Gaussian rows whose components share a covariance matrix: sums, scores, and posteriors of means.

For split-merge moves a covariance is drawn before and fixed during them. Rows are multiplied by F, the inverse of its
Cholesky factor, and are relative to the mean of the prior. Then the features are independent with variance 1, and the
mean of a cluster with kappa = mean_precision + n has the posterior N(sum / kappa, 1 / kappa) in each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.row_lanes import ROW_LANES
from ...utils._njit import njit, njit_part
from .. import kernels
from .._statistics import move_entry
from . import matrix_kernels
from .base import MatrixData
from .kernels import fill_image, fill_images_of_rows, fill_tied_squares, load_columns
from .missing_kernels import fill_observed_scores, row_of


class TiedData(MatrixData):
    """Rows of clusters with one covariance matrix."""

    __slots__ = ()


class TiedPosterior(NamedTuple):
    """Sums of the images of the rows of each label."""

    sums: np.ndarray  # (capacity, d)
    factor: np.ndarray  # (d, d)
    offset: float  # log density of a row at the mean, given the parameters
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
    move_entry(statistics.sizes, kept, gone)
    move_entry(statistics.sums, kept, gone)


@kernels.fill_scores.of(TiedData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    n_above = fill_observed_scores(data, rows, n_above, components, scores)
    parameters, images, d = components.parameters, components.prepared, components.prepared.shape[1]
    columns, image, total = np.zeros((d, ROW_LANES)), np.empty((d, ROW_LANES)), np.empty(ROW_LANES)
    chosen, i = np.empty(ROW_LANES, np.int64), 0
    while i < len(rows):
        n, n_most, i = load_columns(data.values, rows, n_above, i, columns, chosen)
        fill_images_of_rows(columns, data.origin, parameters.factors[0], image)
        for k in range(n_most):
            fill_tied_squares(image, images[k], total)
            for lane in range(n):
                scores[chosen[lane], k] = parameters.offsets[k] - 0.5 * total[lane]


# Posteriors of labels


@matrix_kernels.fill_posteriors.of(TiedData)
@njit(cache=True, nogil=True)
def _fill_posteriors(data, statistics, labels, first, stop, precisions, means, scatters, degrees):
    """The scatter is that of all rows about the posterior means of all labels."""
    sizes, sums, scatter = statistics.sizes, statistics.sums, scatters[0]
    d, strength, centre = len(scatter), data.mean_precision, np.empty(len(scatter))
    for a in range(d):
        for b in range(d):
            scatter[a, b] = data.covariance[a, b] + statistics.products[0, a, b]
    degrees[0] = data.degrees + sizes.sum()
    for k in range(len(sizes)):
        if sizes[k] == 0:
            continue
        for a in range(d):
            from_prior = strength * data.mean[a]
            centre[a] = from_prior + sums[k, a]
            of_mean = centre[a] / (strength + sizes[k])
            for b in range(a + 1):
                scatter[a, b] += from_prior * data.mean[b] - of_mean * centre[b]
    for a in range(d):
        for b in range(a):
            scatter[b, a] = scatter[a, b]
    for i, k in enumerate(labels):
        has_rows = k < len(sizes) and sizes[k] > 0
        precisions[i] = strength + sizes[k] if has_rows else strength
        for a in range(d):
            given = (strength * data.mean[a] + sums[k, a]) / (strength + sizes[k]) if has_rows else data.mean[a]
            means[i, a] = given


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
def _log_density(data, n, total, image, offset):
    """Log predictive density of a row with this image, given n rows whose images have this sum."""
    precision, d = data.mean_precision + n, len(image)
    spread, square = 1.0 + 1.0 / precision, 0.0
    for a in range(d):
        gap = image[a] - total[a] / precision
        square += gap * gap
    return offset - 0.5 * d * math.log(spread) - 0.5 * square / spread


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
        out[c] += _log_density(data, n, posterior.sums[labels[c]], posterior.image, posterior.offset)


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
