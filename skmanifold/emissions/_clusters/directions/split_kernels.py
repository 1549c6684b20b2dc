"""Kernels of split-merge moves of clusters of directions.

With a given concentration, or one that all clusters share and that is drawn before the moves, predictive densities are
those given it. Otherwise predictive densities use an estimate of the concentration from the rows of the cluster: they
propose sides and partners, and any function of the cluster is right for this. Marginal densities are exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....distributions._bessel_kernels import compute_log_peak
from ....utils._njit import njit, njit_part
from ..._von_mises_fisher.concentrations import tabulate
from .. import kernels
from .kernels import DenseDirectionData, SparseDirectionData, add_row, product_with

_MAX_RATIO = 1.0 - 1e-9


class DirectionCache(NamedTuple):
    """Lengths of the sums of each label."""

    lengths: np.ndarray  # (capacity,)
    concentration: float  # of all clusters; 0 if each has its own
    nodes: np.ndarray  # (MOST_NODES,) scratch
    logs: np.ndarray  # (MOST_NODES,) scratch


class DirectionSides(NamedTuple):
    """Sums of the rows on the two sides of a split."""

    sizes: np.ndarray  # (2,) int64
    sums: np.ndarray  # (2, d)
    lengths: np.ndarray  # (2,)
    concentration: float  # of all clusters; 0 if each has its own


@njit(cache=True, nogil=True)
def length_of(total):
    """Length of a vector."""
    square = 0.0
    for j in range(len(total)):
        square += total[j] * total[j]
    return math.sqrt(square)


@njit(cache=True, nogil=True)
def log_marginal(data, concentration, n, length, nodes, logs):
    """Log density of n rows whose sum has this length, relative to the uniform distribution."""
    order, length = 0.5 * data.n_features - 1.0, min(length, float(n))
    if concentration > 0.0:
        peaks = n * compute_log_peak(order, concentration) - compute_log_peak(order, concentration * length)
        return peaks - concentration * (n - length)
    lengths = np.full(1, length)
    n_lengths = 1 if length > 0.0 else 0
    of_rows = n + data.prior_rows, n - length + data.prior_gap
    return tabulate(order, of_rows[0], of_rows[1], lengths[:n_lengths], nodes, logs)[1] - data.log_normalizer


@njit(cache=True, nogil=True)
def _log_predictive(data, concentration, n, length, product):
    """Log predictive density of a row given n rows, whose sum has a length and a product with the row."""
    d = float(data.n_features)
    order = 0.5 * d - 1.0
    if concentration == 0.0:
        total, whole = length + data.prior_rows - data.prior_gap, n + data.prior_rows
        ratio = min(total / whole, _MAX_RATIO)
        concentration = ratio * (d - ratio * ratio) / (1.0 - ratio * ratio)
    after = math.sqrt(max(length * length + 2.0 * product + 1.0, 0.0))
    peaks = compute_log_peak(order, concentration) + compute_log_peak(order, concentration * length)
    return peaks - compute_log_peak(order, concentration * after) - concentration * (1.0 + length - after)


# Clusters


@kernels.refresh_cluster.of(DenseDirectionData)
@kernels.refresh_cluster.of(SparseDirectionData)
@njit_part
def _refresh_cluster(data, statistics, label, cache):
    cache.lengths[label] = length_of(statistics.sums[label])


@kernels.add_predictive.of(DenseDirectionData)
@kernels.add_predictive.of(SparseDirectionData)
@njit_part
def _add_predictive(data, statistics, cache, row, labels, n_labels, out):
    for c in range(n_labels):
        label = labels[c]
        product = product_with(data, row, statistics.sums[label])
        of_cluster = statistics.sizes[label], cache.lengths[label]
        out[c] += _log_predictive(data, cache.concentration, of_cluster[0], of_cluster[1], product)


@kernels.log_bayes_factor_of_labels.of(DenseDirectionData)
@kernels.log_bayes_factor_of_labels.of(SparseDirectionData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    sizes, lengths = statistics.sizes, cache.lengths
    return _log_bayes_factor(
        data,
        cache,
        sizes[label_0],
        sizes[label_1],
        lengths[label_0],
        lengths[label_1],
        statistics.sums[label_0],
        statistics.sums[label_1],
    )


@njit(cache=True, nogil=True)
def _log_bayes_factor(data, cache, n_0, n_1, length_0, length_1, sum_0, sum_1):
    """Log marginal density of two sets of rows minus that of their union."""
    square = 0.0
    for j in range(len(sum_0)):
        square += (sum_0[j] + sum_1[j]) * (sum_0[j] + sum_1[j])
    concentration, nodes, logs = cache.concentration, cache.nodes, cache.logs
    apart = log_marginal(data, concentration, n_0, length_0, nodes, logs)
    apart += log_marginal(data, concentration, n_1, length_1, nodes, logs)
    return apart - log_marginal(data, concentration, n_0 + n_1, math.sqrt(square), nodes, logs)


# Sides


@kernels.note_row.of(DenseDirectionData)
@kernels.note_row.of(SparseDirectionData)
@njit_part
def _note_row(data, row, sides):
    pass


@kernels.add_to_side.of(DenseDirectionData)
@kernels.add_to_side.of(SparseDirectionData)
@njit_part
def _add_to_side(data, statistics, row, side, sides):
    sides.sizes[side] += 1
    add_row(data, row, 1.0, sides.sums[side])
    sides.lengths[side] = length_of(sides.sums[side])


@kernels.remove_from_side.of(DenseDirectionData)
@kernels.remove_from_side.of(SparseDirectionData)
@njit_part
def _remove_from_side(data, statistics, row, side, sides):
    sides.sizes[side] -= 1
    add_row(data, row, -1.0, sides.sums[side])
    sides.lengths[side] = length_of(sides.sums[side])


@njit(cache=True, nogil=True)
def _log_predictive_of(data, row, side, sides):
    product = product_with(data, row, sides.sums[side])
    return _log_predictive(data, sides.concentration, sides.sizes[side], sides.lengths[side], product)


@kernels.odds_of_sides.of(DenseDirectionData)
@kernels.odds_of_sides.of(SparseDirectionData)
@njit_part
def _odds_of_sides(data, statistics, row, sides):
    return 1.0, 1.0, _log_predictive_of(data, row, 1, sides) - _log_predictive_of(data, row, 0, sides)


@kernels.log_predictive_of_side.of(DenseDirectionData)
@kernels.log_predictive_of_side.of(SparseDirectionData)
@njit_part
def _log_predictive_of_side(data, statistics, row, sides):
    return _log_predictive_of(data, row, 1, sides)


@kernels.log_bayes_factor_of_sides.of(DenseDirectionData)
@kernels.log_bayes_factor_of_sides.of(SparseDirectionData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    sizes, lengths, sums = sides.sizes, sides.lengths, sides.sums
    return _log_bayes_factor(data, cache, sizes[0], sizes[1], lengths[0], lengths[1], sums[0], sums[1])


@kernels.clear_sides.of(DenseDirectionData)
@kernels.clear_sides.of(SparseDirectionData)
@njit_part
def _clear_sides(data, sides):
    for side in range(2):
        sides.sizes[side] = 0
        sides.lengths[side] = 0.0
        for j in range(sides.sums.shape[1]):
            sides.sums[side, j] = 0.0
