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
from .kernels import DenseDirectionData, SparseDirectionData, product_with

_MAX_RATIO = 1.0 - 1e-9


class DirectionPosterior(NamedTuple):
    """Lengths of the sums of each label."""

    lengths: np.ndarray  # (capacity,)
    concentration: float  # of all clusters; 0 if each has its own
    nodes: np.ndarray  # (MOST_NODES,) scratch
    logs: np.ndarray  # (MOST_NODES,) scratch


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


@kernels.refresh_posterior.of(DenseDirectionData)
@kernels.refresh_posterior.of(SparseDirectionData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    posterior.lengths[label] = length_of(statistics.sums[label])


@kernels.add_predictive.of(DenseDirectionData)
@kernels.add_predictive.of(SparseDirectionData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    for c in range(n_labels):
        label = labels[c]
        product = product_with(data, row, statistics.sums[label])
        n, length = statistics.sizes[label], posterior.lengths[label]
        out[c] += _log_predictive(data, posterior.concentration, n, length, product)


@kernels.log_bayes_factor.of(DenseDirectionData)
@kernels.log_bayes_factor.of(SparseDirectionData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    sum_0, sum_1, square = statistics.sums[label_0], statistics.sums[label_1], 0.0
    for j in range(len(sum_0)):
        square += (sum_0[j] + sum_1[j]) * (sum_0[j] + sum_1[j])
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    concentration, nodes, logs = posterior.concentration, posterior.nodes, posterior.logs
    apart = log_marginal(data, concentration, n_0, posterior.lengths[label_0], nodes, logs)
    apart += log_marginal(data, concentration, n_1, posterior.lengths[label_1], nodes, logs)
    return apart - log_marginal(data, concentration, n_0 + n_1, math.sqrt(square), nodes, logs)
