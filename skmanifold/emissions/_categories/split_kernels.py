"""Kernels of split-merge moves for categories: two sides of rows, and marginal probabilities of counts.

In column b, which has s_b categories, a component has a Dirichlet(a, ..., a) distribution, where a is `prior`. With the
components integrated out, rows with counts n_f and column totals N_b have the marginal probability prod_b Gamma(a s_b)
/ Gamma(a s_b + N_b) prod_f Gamma(a + n_f) / Gamma(a), for their tokens in order.
"""

from __future__ import annotations

import numpy as np

from ...numerics.special import log_rising
from ...utils._njit import njit_part
from .. import kernels
from .._odds import log_bayes_factor_of_counts, multiply_rising
from .kernels import CategoryData


@kernels.refresh_posterior.of(CategoryData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    for column in range(len(data.column_start) - 1):
        total = 0
        for category in range(data.column_start[column], data.column_start[column + 1]):
            total += statistics.categories[category, label]
        posterior.totals[column, label] = total


@kernels.add_predictive.of(CategoryData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    add_predictive(data, row, labels, n_labels, statistics.categories, posterior.totals, out)


@njit_part
def add_predictive(data, row, clusters, n_clusters, categories, totals, out):
    """Add to `out` the log density of one row given each of some clusters, as `add_given_counts` does.

    Nothing is computed in advance, so that the counts may change between calls. `categories` (n_categories, ...) and
    `totals` (n_columns, ...) are the numbers of tokens by cluster, without the prior.
    """
    indptr, indices, counts, column_start, column_of, prior = data
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column, tokens = column_of[indices[e]], np.int64(0)
        while e < stop and column_of[indices[e]] == column:
            for c in range(n_clusters):
                out[c] += log_rising(prior + categories[indices[e], clusters[c]], np.int64(counts[e]))
            tokens += counts[e]
            e += 1
        width = column_start[column + 1] - column_start[column]
        for c in range(n_clusters):
            out[c] -= log_rising(prior * width + totals[column, clusters[c]], tokens)


@kernels.log_bayes_factor.of(CategoryData)
@njit_part
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    log_factor = 0.0
    for category in range(len(statistics.categories)):
        log_factor += log_bayes_factor_of_counts(
            data.prior, statistics.categories[category, label_0], statistics.categories[category, label_1]
        )
    for column in range(len(data.column_start) - 1):
        column_prior = data.prior * (data.column_start[column + 1] - data.column_start[column])
        log_factor -= log_bayes_factor_of_counts(
            column_prior, posterior.totals[column, label_0], posterior.totals[column, label_1]
        )
    return log_factor


@kernels.update_posterior.of(CategoryData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    """Add or remove a row, and list the categories that no earlier row has."""
    statistics.sizes[label] += sign
    for e in range(data.indptr[row], data.indptr[row + 1]):
        category, count = data.indices[e], sign * data.counts[e]
        statistics.categories[category, label] += count
        posterior.totals[data.column_of[category], label] += count
        if not posterior.is_present[category]:
            posterior.is_present[category] = True
            posterior.present[posterior.n_present[0]] = category
            posterior.n_present[0] += 1


@kernels.odds_of_sides.of(CategoryData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    indptr, indices, counts, column_start, column_of, prior = data
    categories, totals = statistics.categories, posterior.totals
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column = column_of[indices[e]]
        column_stop = column_start[column + 1]
        row_tokens = np.int64(0)
        while e < stop and indices[e] < column_stop:
            category, tokens = indices[e], np.int64(counts[e])
            factor_1, factor_0, log_odds = multiply_rising(
                categories[category, 1] + prior, categories[category, 0] + prior, tokens, factor_1, factor_0, log_odds
            )
            row_tokens += tokens
            e += 1
        column_prior = prior * (column_stop - column_start[column])
        of_0, of_1 = totals[column, 0] + column_prior, totals[column, 1] + column_prior
        factor_1, factor_0, log_odds = multiply_rising(of_0, of_1, row_tokens, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


@kernels.clear_sides.of(CategoryData)
@njit_part
def _clear_sides(data, statistics, posterior):
    for place in range(posterior.n_present[0]):
        category = posterior.present[place]
        column = data.column_of[category]
        posterior.is_present[category] = False
        statistics.categories[category, 0] = statistics.categories[category, 1] = 0
        posterior.totals[column, 0] = posterior.totals[column, 1] = 0.0
    posterior.n_present[0] = 0
    statistics.sizes[0] = statistics.sizes[1] = 0
