"""Kernels of split-merge moves for clusters with diagonal covariances: posteriors of labels and of two sides."""

from __future__ import annotations

from ....utils._njit import njit, njit_part
from .. import kernels
from .diagonal_kernels import DiagonalData
from .diagonal_predictive_kernels import fill_posterior, log_marginal, log_predictive

# Clusters


@kernels.refresh_cluster.of(DiagonalData)
@njit_part
def _refresh_cluster(data, statistics, label, cache):
    fill_posterior(data, statistics.observed[label], statistics.sums[label], statistics.squares[label], cache, label)
    cache.log_marginals[label] = log_marginal(data, cache, label)


@kernels.add_predictive.of(DiagonalData)
@njit_part
def _add_predictive(data, statistics, cache, row, labels, n_labels, out):
    for c in range(n_labels):
        out[c] += log_predictive(data, row, cache, labels[c])


@kernels.log_bayes_factor_of_labels.of(DiagonalData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    union = len(cache.log_marginals) - 1  # an entry without a label
    observed = statistics.observed[label_0] + statistics.observed[label_1]
    sums = statistics.sums[label_0] + statistics.sums[label_1]
    squares = statistics.squares[label_0] + statistics.squares[label_1]
    fill_posterior(data, observed, sums, squares, cache, union)
    return cache.log_marginals[label_0] + cache.log_marginals[label_1] - log_marginal(data, cache, union)


# Sides


@kernels.note_row.of(DiagonalData)
@njit_part
def _note_row(data, row, sides):
    pass


@kernels.add_to_side.of(DiagonalData)
@njit_part
def _add_to_side(data, statistics, row, side, sides):
    observed, means, weights = sides.observed[side], sides.means[side], sides.weights[side]
    for g in range(len(data.scatter)):
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            x = data.rows[row, j]
            if x == x:
                gap = x - means[j]
                sides.scatters[side, g] += weights[j] * (gap * gap)
                observed[j] += 1
                sides.pooled[side, g] += 1
                kappa = data.mean_precision + observed[j]
                means[j] += gap / kappa
                weights[j] = kappa / (kappa + 1.0)


@kernels.remove_from_side.of(DiagonalData)
@njit_part
def _remove_from_side(data, statistics, row, side, sides):
    observed, means, weights = sides.observed[side], sides.means[side], sides.weights[side]
    for g in range(len(data.scatter)):
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            x = data.rows[row, j]
            if x == x:
                observed[j] -= 1
                sides.pooled[side, g] -= 1
                kappa = data.mean_precision + observed[j]
                means[j] = means[j] - (x - means[j]) / kappa if observed[j] else data.mean[j]
                weights[j] = kappa / (kappa + 1.0)
                gap = x - means[j]
                scatter = sides.scatters[side, g] - weights[j] * (gap * gap)
                sides.scatters[side, g] = max(scatter, data.scatter[g])
        if sides.pooled[side, g] == 0:  # without the rounding errors of the rows before
            sides.scatters[side, g] = data.scatter[g]


@kernels.odds_of_sides.of(DiagonalData)
@njit_part
def _odds_of_sides(data, statistics, row, sides):
    return 1.0, 1.0, log_predictive(data, row, sides, 1) - log_predictive(data, row, sides, 0)


@kernels.log_predictive_of_side.of(DiagonalData)
@njit_part
def _log_predictive_of_side(data, statistics, row, sides):
    return log_predictive(data, row, sides, 1)


@kernels.log_bayes_factor_of_sides.of(DiagonalData)
@njit_part
def _log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    return log_marginal(data, sides, 0) + log_marginal(data, sides, 1) - cache.log_marginals[label]


@kernels.clear_sides.of(DiagonalData)
@njit_part
def _clear_sides(data, sides):
    weight = data.mean_precision / (data.mean_precision + 1.0)
    for side in range(2):
        for g in range(len(data.scatter)):
            sides.pooled[side, g] = 0
            sides.scatters[side, g] = data.scatter[g]
            for j in range(data.pool_start[g], data.pool_start[g + 1]):
                sides.observed[side, j] = 0
                sides.means[side, j] = data.mean[j]
                sides.weights[side, j] = weight
