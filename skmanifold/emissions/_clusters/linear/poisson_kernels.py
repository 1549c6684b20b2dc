"""Kernels of clusters of Poisson counts, whose rates have gamma priors.

A feature with sum s over n observed cells has the marginal probability (a)_s b^a / (b + n)^(a + s), with a rising
factorial and without the factorials of the counts. The next cell has a negative binomial distribution: a zero has the
probability ((b + n) / (b + n + 1))^(a + s), and a count x this times (a + s)_x / (b + n + 1)^x.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....numerics.special import log_rising
from ....random._discrete_variates import MAX_MEAN, poisson
from ....random._keys import fold_in
from ....random._variates import gamma_variate, log_gamma_variate
from ....utils._njit import njit, njit_part
from .. import kernels
from . import kernels as shared
from .kernels import FeatureGroups
from .odds import log_bayes_factor_of_counts, multiply_power, multiply_rising


class PoissonData(NamedTuple):
    """Poisson rows in CSR format, with columns for missing cells, and their prior."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    n_features: int
    shape: np.ndarray  # (n_features,)
    rate: np.ndarray  # (n_features,)
    groups: FeatureGroups  # of features with the same rate
    group_shapes: np.ndarray  # (n_groups,): sums of the shapes


shared.register(PoissonData)


@njit(cache=True, nogil=True)
def draw_rates(first, stop, data, sizes, sums, labels, key, out):
    """Draw rates of the features `first` to `stop` from their gamma posteriors.

    Parameters
    ----------
    first, stop : int
        Range of features.
    data : PoissonData
    sizes : (capacity,) int64
    sums : (capacity, n_statistics) int64
    labels : (K,) int64
        Labels beyond the capacity have no rows.
    key
        A draw depends only on the key, the feature and the index in `labels`.
    out : (n_statistics, K) float64
        Logs of the rates, followed by the rates.
    """
    for j in range(first, stop):
        missing = data.n_features + j
        for k in range(len(labels)):
            label, total, n_observed = labels[k], 0, 0
            if label < len(sizes):
                total, n_observed = sums[label, j], sizes[label] - sums[label, missing]
            of_one = log_gamma_variate(fold_in(fold_in(key, j), k), data.shape[j] + total)
            out[j, k] = of_one - math.log(data.rate[j] + n_observed)
            out[missing, k] = math.exp(out[j, k])


@njit(cache=True, nogil=True)
def fill_counts(key, labels, shapes, rates, out):
    """Draw rows of counts; the rate of each cell is drawn from the gamma distribution of its label, (K, m)."""
    for i in range(len(labels)):
        label, of_row = labels[i], fold_in(key, i)
        for j in range(shapes.shape[1]):
            cell = fold_in(of_row, j)
            mean = gamma_variate(fold_in(cell, 0), shapes[label, j]) / rates[label, j]
            out[i, j] = np.int64(poisson(fold_in(cell, 1), min(mean, MAX_MEAN)))


@njit(cache=True, nogil=True)
def add_given_sums(first, stop, indptr, indices, counts, offsets, naturals, shapes, log_next, out):
    """Add to `out` the log densities of rows given the sums of the components, with the rates integrated out.

    Parameters
    ----------
    first, stop : int
        Rows; `out` begins with the first.
    indptr, indices, counts
        Statistics of rows in CSR order.
    offsets : (K,)
        Log densities of a row of zeros.
    naturals : (n_statistics, K)
        What a count of one and a missing cell add to them.
    shapes, log_next : (n_features, K)
        Shapes of the gamma posteriors, and logs of their rates plus 1.
    out : (stop - first, K)
    """
    n_components = len(offsets)
    for row in range(first, stop):
        scores = out[row - first]
        for k in range(n_components):
            scores[k] += offsets[k]
        for e in range(indptr[row], indptr[row + 1]):
            column, count = indices[e], np.int64(counts[e])
            if count == 1:
                for k in range(n_components):
                    scores[k] += naturals[column, k]
            else:
                for k in range(n_components):
                    scores[k] += log_rising(shapes[column, k], count) - count * log_next[column, k]


@njit(cache=True, nogil=True)
def log_marginal_of_label(data, size, sums):
    """Log marginal probability of the rows with these statistics, without the factorials of the counts."""
    groups, totals = data.groups, data.group_shapes.copy()
    result = 0.0
    for j in range(data.n_features):
        result += log_rising(data.shape[j], sums[j])
        totals[groups.of_feature[j]] += sums[j]
    for group in range(len(groups.first)):
        j = groups.first[group]
        n_observed = size - sums[data.n_features + j]
        result -= data.group_shapes[group] * math.log1p(n_observed / data.rate[j])
        result -= (totals[group] - data.group_shapes[group]) * math.log(data.rate[j] + n_observed)
    return result


# Clusters


@shared.log_density_of_zeros.of(PoissonData)
@njit(cache=True, nogil=True)
def _log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""
    groups, totals = data.groups, data.group_shapes.copy()
    for j in range(data.n_features):
        totals[groups.of_feature[j]] += sums[j]
    result = 0.0
    for group in range(len(groups.first)):
        j = groups.first[group]
        result -= totals[group] * math.log1p(1.0 / (data.rate[j] + size - sums[data.n_features + j]))
    return result


@shared.log_ratio_to_zeros.of(PoissonData)
@njit(cache=True, nogil=True)
def _log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""
    result = 0.0
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], np.int64(data.counts[e])
        j = column if column < data.n_features else column - data.n_features
        shape, rate = data.shape[j] + sums[j], data.rate[j] + size - sums[data.n_features + j]
        if column == j:
            result += log_rising(shape, count) - count * math.log(rate + 1.0)
        else:
            result += shape * math.log1p(1.0 / rate)
    return result


@shared.log_factor_of_sums.of(PoissonData)
@njit(cache=True, nogil=True)
def _log_factor_of_sums(data, size_0, sums_0, size_1, sums_1):
    """Log marginal probability of two sets of rows with these statistics minus that of their union."""
    groups = data.groups
    totals_0, totals_1 = np.zeros(len(groups.first)), np.zeros(len(groups.first))
    result = 0.0
    for j in range(data.n_features):
        result += log_bayes_factor_of_counts(data.shape[j], sums_0[j], sums_1[j])
        totals_0[groups.of_feature[j]] += sums_0[j]
        totals_1[groups.of_feature[j]] += sums_1[j]
    for group in range(len(groups.first)):
        j = groups.first[group]
        rate, shape = data.rate[j], data.group_shapes[group]
        observed_0, observed_1 = size_0 - sums_0[data.n_features + j], size_1 - sums_1[data.n_features + j]
        result += (shape + totals_0[group]) * math.log1p(observed_1 / (rate + observed_0))
        result += totals_1[group] * math.log1p(observed_0 / (rate + observed_1))
        result -= shape * math.log1p(observed_1 / rate)
    return result


# Sides


@kernels.odds_of_sides.of(PoissonData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    """The odds of a row of zeros, times those of each entry compared with a zero."""
    n_features, groups = data.n_features, data.groups
    size_0, size_1 = statistics.sizes[0], statistics.sizes[1]
    sums_0, sums_1 = statistics.sums[0], statistics.sums[1]
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    for group in range(len(groups.first)):
        j = groups.first[group]
        rate_0 = data.rate[j] + size_0 - sums_0[n_features + j]
        rate_1 = data.rate[j] + size_1 - sums_1[n_features + j]
        log_odds += (data.group_shapes[group] + posterior.of_groups[0, group]) * math.log1p(1.0 / rate_0)
        log_odds -= (data.group_shapes[group] + posterior.of_groups[1, group]) * math.log1p(1.0 / rate_1)
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], np.int64(data.counts[e])
        j = column if column < n_features else column - n_features
        shape_0, rate_0 = data.shape[j] + sums_0[j], data.rate[j] + size_0 - sums_0[n_features + j]
        shape_1, rate_1 = data.shape[j] + sums_1[j], data.rate[j] + size_1 - sums_1[n_features + j]
        if column != j:
            log_odds += shape_1 * math.log1p(1.0 / rate_1) - shape_0 * math.log1p(1.0 / rate_0)
            continue
        factor_1, factor_0, log_odds = multiply_rising(shape_1, shape_0, count, factor_1, factor_0, log_odds)
        factor_1, factor_0, log_odds = multiply_power(rate_0 + 1.0, rate_1 + 1.0, count, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds
