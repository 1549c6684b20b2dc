"""Kernels of split-merge moves for clusters with diagonal covariances: posteriors of labels and of two sides."""

from __future__ import annotations

import numpy as np

from ....utils._njit import njit, njit_part
from .. import kernels
from .diagonal_kernels import DiagonalData
from .diagonal_predictive_kernels import fill_posterior, log_marginal, log_predictive


@kernels.refresh_posterior.of(DiagonalData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    fill_posterior(
        data, statistics.observed[label], statistics.sums[label], statistics.squares[label], posterior, label
    )
    posterior.log_marginals[label] = log_marginal(data, posterior, label)


@kernels.add_predictive.of(DiagonalData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    for c in range(n_labels):
        out[c] += log_predictive(data, row, posterior, labels[c])


@kernels.log_bayes_factor.of(DiagonalData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    union, result = len(posterior.log_marginals) - 1, 0.0  # an entry without a label
    for label in (label_0, label_1):
        of_label = posterior.log_marginals[label]
        result += log_marginal(data, posterior, label) if of_label != of_label else of_label
    observed = statistics.observed[label_0] + statistics.observed[label_1]
    sums = statistics.sums[label_0] + statistics.sums[label_1]
    squares = statistics.squares[label_0] + statistics.squares[label_1]
    fill_posterior(data, observed, sums, squares, posterior, union)
    return result - log_marginal(data, posterior, union)


@kernels.update_posterior.of(DiagonalData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    kernels.count_row(data, statistics, row, label, sign)
    posterior.log_marginals[label] = np.nan  # computed when it is needed
    observed, means, weights = posterior.observed[label], posterior.means[label], posterior.weights[label]
    for g in range(len(data.scatter)):
        for j in range(data.pool_start[g], data.pool_start[g + 1]):
            x = data.rows[row, j]
            if x != x:
                continue
            observed[j] += sign
            posterior.pooled[label, g] += sign
            kappa, weight = data.mean_precision + observed[j], weights[j]
            weights[j] = kappa / (kappa + 1.0)
            if sign > 0:
                gap = x - means[j]
                posterior.scatters[label, g] += weight * (gap * gap)
                means[j] += gap / kappa
            else:
                means[j] = means[j] - (x - means[j]) / kappa if observed[j] else data.mean[j]
                gap = x - means[j]
                scatter = posterior.scatters[label, g] - weights[j] * (gap * gap)
                posterior.scatters[label, g] = max(scatter, data.scatter[g])
        if posterior.pooled[label, g] == 0:  # without the rounding errors of the rows before
            posterior.scatters[label, g] = data.scatter[g]
