"""Kernels of split-merge moves for categories: two sides of rows, and marginal probabilities of counts.

In column b, which has s_b categories, a component has a Dirichlet(a, ..., a) distribution, where a is `prior`. With the
components integrated out, rows with counts n_f and column totals N_b have the marginal probability prod_b Gamma(a s_b)
/ Gamma(a s_b + N_b) prod_f Gamma(a + n_f) / Gamma(a), for their tokens in order.
"""

from __future__ import annotations

import numpy as np

from ....numerics.special import log_rising
from ....utils._njit import njit, njit_part
from .. import kernels
from ..linear.odds import log_bayes_factor_of_counts, multiply_rising
from .kernels import CategoryData

_SIDE_1 = np.array([1])


# Clusters


@kernels.refresh_cluster.of(CategoryData)
@njit_part
def _refresh_cluster(data, statistics, label, cache):
    for column in range(len(data.column_start) - 1):
        total = 0
        for category in range(data.column_start[column], data.column_start[column + 1]):
            total += statistics.categories[category, label]
        cache.totals[column, label] = total


@kernels.add_predictive.of(CategoryData)
@njit_part
def _add_predictive(data, statistics, cache, row, labels, n_labels, out):
    add_predictive(data, row, labels, n_labels, statistics.categories, cache.totals, out)


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


@kernels.log_bayes_factor_of_labels.of(CategoryData)
@njit_part
def _log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    log_bayes_factor = 0.0
    for category in range(len(statistics.categories)):
        log_bayes_factor += log_bayes_factor_of_counts(
            data.prior, statistics.categories[category, label_0], statistics.categories[category, label_1]
        )
    for column in range(len(data.column_start) - 1):
        column_prior = data.prior * (data.column_start[column + 1] - data.column_start[column])
        log_bayes_factor -= log_bayes_factor_of_counts(
            column_prior, cache.totals[column, label_0], cache.totals[column, label_1]
        )
    return log_bayes_factor


# Sides


@kernels.note_row.of(CategoryData)
@njit_part
def _note_row(data, row, sides):
    """List the categories of a row that no earlier row has."""
    for e in range(data.indptr[row], data.indptr[row + 1]):
        category = data.indices[e]
        if sides.counts[category, 0] + sides.counts[category, 1] == 0.0:
            sides.present[sides.n_present[0]] = category
            sides.n_present[0] += 1


@kernels.add_to_side.of(CategoryData)
@njit_part
def _add_to_side(data, statistics, row, side, sides):
    for e in range(data.indptr[row], data.indptr[row + 1]):
        category = data.indices[e]
        sides.counts[category, side] += data.counts[e]
        sides.totals[data.column_of[category], side] += data.counts[e]


@kernels.remove_from_side.of(CategoryData)
@njit_part
def _remove_from_side(data, statistics, row, side, sides):
    for e in range(data.indptr[row], data.indptr[row + 1]):
        category = data.indices[e]
        sides.counts[category, side] -= data.counts[e]
        sides.totals[data.column_of[category], side] -= data.counts[e]


@kernels.odds_of_sides.of(CategoryData)
@njit_part
def _odds_of_sides(data, statistics, row, sides):
    indptr, indices, counts, column_start, column_of, prior = data
    sub_counts, sub_totals = sides.counts, sides.totals
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column = column_of[indices[e]]
        column_stop = column_start[column + 1]
        row_tokens = np.int64(0)
        while e < stop and indices[e] < column_stop:
            category, tokens = indices[e], np.int64(counts[e])
            factor_1, factor_0, log_odds = multiply_rising(
                sub_counts[category, 1] + prior, sub_counts[category, 0] + prior, tokens, factor_1, factor_0, log_odds
            )
            row_tokens += tokens
            e += 1
        column_prior = prior * (column_stop - column_start[column])
        of_0, of_1 = sub_totals[column, 0] + column_prior, sub_totals[column, 1] + column_prior
        factor_1, factor_0, log_odds = multiply_rising(of_0, of_1, row_tokens, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


@kernels.log_predictive_of_side.of(CategoryData)
@njit(cache=True, nogil=True)
def _log_predictive_of_side(data, statistics, row, sides):
    out = np.zeros(1)
    add_predictive(data, row, _SIDE_1, 1, sides.counts, sides.totals, out)
    return out[0]


@kernels.log_bayes_factor_of_sides.of(CategoryData)
@njit_part
def _log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    """The sum over the categories that are present; sets their counts to zero, so that a column counts once."""
    log_bayes_factor = 0.0
    for place in range(sides.n_present[0]):
        category = sides.present[place]
        log_bayes_factor += log_bayes_factor_of_counts(data.prior, sides.counts[category, 0], sides.counts[category, 1])
        sides.counts[category, 0] = sides.counts[category, 1] = 0.0
        column = data.column_of[category]
        column_prior = data.prior * (data.column_start[column + 1] - data.column_start[column])
        log_bayes_factor -= log_bayes_factor_of_counts(column_prior, sides.totals[column, 0], sides.totals[column, 1])
        sides.totals[column, 0] = sides.totals[column, 1] = 0.0
    return log_bayes_factor


@kernels.clear_sides.of(CategoryData)
@njit_part
def _clear_sides(data, sides):
    for place in range(sides.n_present[0]):
        category = sides.present[place]
        column = data.column_of[category]
        sides.counts[category, 0] = sides.counts[category, 1] = 0.0
        sides.totals[column, 0] = sides.totals[column, 1] = 0.0
    sides.n_present[0] = 0
