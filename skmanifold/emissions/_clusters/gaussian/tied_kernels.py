"""Kernels of clusters with one covariance matrix: sums of rows, the scatter within clusters, and scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numerics.row_batches import ROW_LANES
from ....utils._njit import njit, njit_part
from ... import kernels
from ..._gaussian.kernels import add_tied_densities, fill_images_of_rows, fill_tied_squares
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
    """Drawn parameters of K components."""

    means: np.ndarray  # (K, d)
    factor: np.ndarray  # (d, d): inverse F of the Cholesky factor of the covariance
    images: np.ndarray  # (K, d): F times the means relative to the origin
    offsets: np.ndarray  # (K,): log densities at the means, which are equal
    columns: np.ndarray  # (1, d, d): transpose of the factor; (0, d, d) if no cell is missing
    precisions: np.ndarray  # (1, d, d): lower triangle; (0, d, d) if no cell is missing


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
def fill_within(data, statistics, out):
    """Fill the lower triangle of the posterior scatter: that of the prior, and of all rows about their means.

    Returns the number of rows.
    """
    d, prior, strength = len(data.mean), data.mean, data.mean_precision
    mean, n_rows = np.empty(d), np.int64(0)
    for a in range(d):
        for b in range(a + 1):
            out[a, b] = data.covariance[a, b] + statistics.products[a, b]
    for label in range(len(statistics.sizes)):
        n = statistics.sizes[label]
        if n == 0:
            continue
        n_rows += n
        precision = strength + n
        for a in range(d):
            mean[a] = (strength * prior[a] + statistics.sums[label, a]) / precision
        for a in range(d):
            from_prior, from_mean = strength * prior[a], precision * mean[a]
            for b in range(a + 1):
                out[a, b] += from_prior * prior[b] - from_mean * mean[b]
    return n_rows


@njit(cache=True, nogil=True)
def fill_posterior_mean(data, statistics, label, mean):
    """Fill the posterior mean, relative to the origin; returns the precision.

    Labels beyond the capacity have no rows.
    """
    d, strength = len(mean), data.mean_precision
    n = statistics.sizes[label] if label < len(statistics.sizes) else np.int64(0)
    for a in range(d):
        total = statistics.sums[label, a] if n > 0 else 0.0
        mean[a] = (strength * data.mean[a] + total) / (strength + n)
    return strength + n


@njit(cache=True, nogil=True)
def fill_image(factor, vector, out):
    """Fill `out` with the product of a lower triangular matrix and a vector."""
    for j in range(len(vector)):
        total = 0.0
        for a in range(j + 1):
            total += factor[j, a] * vector[a]
        out[j] = total


@njit(cache=True, nogil=True)
def fill_means_and_images(data, statistics, labels, root, factor, normals, means, images):
    """Draw the means of components given the covariance, with standard normal variates, (K, d)."""
    K, d = normals.shape
    gap = np.empty(d)
    for k in range(K):
        precision = fill_posterior_mean(data, statistics, labels[k], means[k])
        fill_image(root, normals[k], gap)
        for a in range(d):
            means[k, a] += gap[a] / np.sqrt(precision)
        fill_image(factor, means[k], images[k])
        for a in range(d):
            means[k, a] += data.origin[a]


@kernels.fill_scores.of(TiedData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    (K, d), origin, images = components.images.shape, data.origin, components.images
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
        fill_images_of_rows(columns, origin, components.factor, image)
        for k in range(min(n_most, K)):
            fill_tied_squares(image, images[k], total)
            for lane in range(n):
                scores[first + lane, k] = components.offsets[k] - 0.5 * total[lane]
    fill_observed_scores(data, rows, n_above, components, scores)


@njit(cache=True, nogil=True)
def add_student_densities(start, stop, data, means, factor, shares, constants, power, out):
    """Add ``constant - power log(1 + share |F (x - mean)|^2)`` for the rows `start` to `stop` to `out`, (n_rows, K).

    `means`, (K, d), are relative to the origin; shares and constants are (K,).
    """
    K = len(constants)
    halves = np.zeros((stop - start, K))
    add_tied_densities(data.values, start, stop, data.origin, means, factor, np.zeros(K), halves)
    for i in range(stop - start):
        for k in range(K):
            out[start + i, k] += constants[k] - power * np.log1p(-2.0 * shares[k] * halves[i, k])
