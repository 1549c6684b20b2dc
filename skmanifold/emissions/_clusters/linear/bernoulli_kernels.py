"""Kernels of clusters of binary rows, whose probabilities have beta priors.

A feature with s ones among n observed cells has the marginal probability (a)_s (b)_{n - s} / (a + b)_n, with rising
factorials, and the next cell is a one with probability (a + s) / (a + b + n).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....numerics.special import log_rising
from ....random._keys import fold_in
from ....random._variates import log_gamma_variate
from ....utils._njit import njit, njit_part
from .. import kernels
from . import kernels as shared
from .kernels import FeatureGroups
from .odds import log_bayes_factor_of_counts, multiply, multiply_power


class BernoulliData(NamedTuple):
    """Binary rows in CSR format, with columns for missing cells, and their prior."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    n_features: int
    ones: np.ndarray  # (n_features,): pseudo-counts of ones
    zeros: np.ndarray  # (n_features,): pseudo-counts of zeros
    groups: FeatureGroups


shared.register(BernoulliData)


@njit(cache=True, nogil=True)
def draw_logits(first, stop, data, sizes, sums, labels, key, out):
    """Draw probabilities of the features `first` to `stop` from their beta posteriors.

    Parameters
    ----------
    first, stop : int
        Range of features.
    data : BernoulliData
    sizes : (capacity,) int64
    sums : (capacity, n_statistics) int64
    labels : (K,) int64
        Labels beyond the capacity have no rows.
    key
        A draw depends only on the key, the feature and the index in `labels`.
    out : (n_statistics, K) float64
        Logits of a one, followed by minus the logs of the probabilities of a zero.
    """
    for j in range(first, stop):
        missing = data.n_features + j
        for k in range(len(labels)):
            label, n_ones, n_zeros = labels[k], 0, 0
            if label < len(sizes):
                n_ones = sums[label, j]
                n_zeros = sizes[label] - sums[label, missing] - n_ones
            one = log_gamma_variate(fold_in(fold_in(key, j), k), data.ones[j] + n_ones)
            zero = log_gamma_variate(fold_in(fold_in(key, missing), k), data.zeros[j] + n_zeros)
            larger = max(one, zero)
            out[j, k] = one - zero
            out[missing, k] = larger + math.log1p(math.exp(min(one, zero) - larger)) - zero


@njit(cache=True, nogil=True)
def log_marginal_of_label(data, size, sums):
    """Log marginal probability of the rows with these statistics."""
    groups, n_absent = data.groups, data.groups.sizes.copy()
    result = 0.0
    for j in range(data.n_features):
        if sums[j] > 0:
            n_observed = size - sums[data.n_features + j]
            result += log_rising(data.ones[j], sums[j]) + log_rising(data.zeros[j], n_observed - sums[j])
            n_absent[groups.of_feature[j]] -= 1
    for group in range(len(groups.first)):
        j = groups.first[group]
        n_observed = size - sums[data.n_features + j]
        if n_absent[group] > 0:
            result += n_absent[group] * log_rising(data.zeros[j], n_observed)
        result -= groups.sizes[group] * log_rising(data.ones[j] + data.zeros[j], n_observed)
    return result


# Clusters


@shared.log_density_of_zeros.of(BernoulliData)
@njit(cache=True, nogil=True)
def _log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""
    groups, n_absent = data.groups, data.groups.sizes.copy()
    result = 0.0
    for j in range(data.n_features):
        if sums[j] > 0:
            result += math.log(data.zeros[j] + size - sums[data.n_features + j] - sums[j])
            n_absent[groups.of_feature[j]] -= 1
    for group in range(len(groups.first)):
        j = groups.first[group]
        n_observed = size - sums[data.n_features + j]
        result += n_absent[group] * math.log(data.zeros[j] + n_observed)
        result -= groups.sizes[group] * math.log(data.ones[j] + data.zeros[j] + n_observed)
    return result


@shared.log_ratio_to_zeros.of(BernoulliData)
@njit(cache=True, nogil=True)
def _log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""
    product, below, log_product = 1.0, 1.0, 0.0
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column = data.indices[e]
        j = column if column < data.n_features else column - data.n_features
        n_observed = size - sums[data.n_features + j]
        zero = data.zeros[j] + n_observed - sums[j]
        other = data.ones[j] + sums[j] if column == j else data.ones[j] + data.zeros[j] + n_observed
        product, below, log_product = multiply(other, zero, product, below, log_product)
    return log_product + math.log(product / below)


@shared.log_factor_of_sums.of(BernoulliData)
@njit(cache=True, nogil=True)
def _log_factor_of_sums(data, size_0, sums_0, size_1, sums_1):
    """Log marginal probability of two sets of rows with these statistics minus that of their union."""
    groups, n_absent = data.groups, data.groups.sizes.copy()
    result = 0.0
    for j in range(data.n_features):
        ones_0, ones_1 = sums_0[j], sums_1[j]
        if ones_0 + ones_1 > 0:
            missing = data.n_features + j
            zeros_0, zeros_1 = size_0 - sums_0[missing] - ones_0, size_1 - sums_1[missing] - ones_1
            result += log_bayes_factor_of_counts(data.ones[j], ones_0, ones_1)
            result += log_bayes_factor_of_counts(data.zeros[j], zeros_0, zeros_1)
            n_absent[groups.of_feature[j]] -= 1
    for group in range(len(groups.first)):
        j = groups.first[group]
        observed_0, observed_1 = size_0 - sums_0[data.n_features + j], size_1 - sums_1[data.n_features + j]
        result += n_absent[group] * log_bayes_factor_of_counts(data.zeros[j], observed_0, observed_1)
        both = data.ones[j] + data.zeros[j]
        result -= groups.sizes[group] * log_bayes_factor_of_counts(both, observed_0, observed_1)
    return result


# Sides


@kernels.odds_of_sides.of(BernoulliData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    """The odds of a row of zeros, times those of each entry compared with a zero."""
    n_features, ones, zeros, groups, n_absent = data.n_features, data.ones, data.zeros, data.groups, posterior.n_absent
    size_0, size_1 = statistics.sizes[0], statistics.sizes[1]
    sums_0, sums_1 = statistics.sums[0], statistics.sums[1]
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    for group in range(len(groups.first)):
        j = groups.first[group]
        observed_0, observed_1 = size_0 - sums_0[n_features + j], size_1 - sums_1[n_features + j]
        of_0, of_1 = ones[j] + zeros[j] + observed_0, ones[j] + zeros[j] + observed_1
        factor_1, factor_0, log_odds = multiply_power(of_0, of_1, groups.sizes[group], factor_1, factor_0, log_odds)
        of_0, of_1 = zeros[j] + observed_0, zeros[j] + observed_1
        factor_1, factor_0, log_odds = multiply_power(of_1, of_0, n_absent[group], factor_1, factor_0, log_odds)
    for place in range(posterior.n_present[0]):
        j = posterior.present[place]
        if j < n_features:
            of_0 = zeros[j] + size_0 - sums_0[n_features + j] - sums_0[j]
            of_1 = zeros[j] + size_1 - sums_1[n_features + j] - sums_1[j]
            factor_1, factor_0, log_odds = multiply(of_1, of_0, factor_1, factor_0, log_odds)
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column = data.indices[e]
        j = column if column < n_features else column - n_features
        observed_0, observed_1 = size_0 - sums_0[n_features + j], size_1 - sums_1[n_features + j]
        zero_0, zero_1 = zeros[j] + observed_0 - sums_0[j], zeros[j] + observed_1 - sums_1[j]
        if column == j:
            of_0, of_1 = ones[j] + sums_0[j], ones[j] + sums_1[j]
        else:
            of_0, of_1 = ones[j] + zeros[j] + observed_0, ones[j] + zeros[j] + observed_1
        factor_1, factor_0, log_odds = multiply(of_1 * zero_0, of_0 * zero_1, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds
