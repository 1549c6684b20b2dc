"""Kernels of families whose log densities are linear in sparse statistics; a row is a sparse row of statistics.

In families of features, column j of the statistics is feature j, and a 1 in column ``n_features + j`` means that this
cell is missing. `data` is a `BernoulliData`, `NegativeBinomialData` or `PoissonData`. All densities leave out the part
that does not depend on the parameters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..numerics.special import log_rising
from ..utils._njit import by_type, njit, njit_inlined, njit_part
from . import kernels
from ._statistics import move_entry

# The odds are factor_x / factor_y * exp(log_odds). Both factors are kept between 1e-100 and 1e100, so that a logarithm
# is needed only if their quotient leaves that range.

_MOST_FACTORS = 8  # so many are multiplied before the size of the product is checked
_LARGE, _SMALL = 1e100, 1e-100


@njit(cache=True, nogil=True)
def log_bayes_factor_of_counts(prior, of_0, of_1):
    """Log of (a)_m (a)_n / (a)_{m + n}, rising factorials of the prior a; 0 if a count is zero.

    It is the contribution of the counts of one category in two clusters, and minus that of their totals.
    """
    if of_0 == 0 or of_1 == 0:
        return 0.0
    return log_rising(prior, np.int64(of_0)) - log_rising(prior + of_1, np.int64(of_0))


@njit(cache=True, nogil=True)
def _in_range(factor_x, factor_y, log_odds):
    """The same odds, with factors in their range."""
    if not (_SMALL < factor_x < _LARGE and _SMALL < factor_y < _LARGE):
        larger = max(factor_x, factor_y)
        factor_x /= larger
        factor_y /= larger
        if min(factor_x, factor_y) < _SMALL:
            log_odds += math.log(factor_x) - math.log(factor_y)
            factor_x = factor_y = 1.0
    return factor_x, factor_y, log_odds


@njit(cache=True, nogil=True)
def multiply_rising(x, y, n, factor_x, factor_y, log_odds):
    """Multiply the odds by the rising factorials (x)_n / (y)_n; long factorials are added as logarithms."""
    if n > _MOST_FACTORS:
        log_odds += log_rising(x, n) - log_rising(y, n)
        return factor_x, factor_y, log_odds
    for t in range(n):
        factor_x *= x + t
        factor_y *= y + t
    return _in_range(factor_x, factor_y, log_odds)


@njit(cache=True, nogil=True)
def multiply_power(x, y, n, factor_x, factor_y, log_odds):
    """Multiply the odds by (x / y)^n; high powers are added as logarithms."""
    if n > _MOST_FACTORS:
        return factor_x, factor_y, log_odds + n * math.log(x / y)
    for _ in range(n):
        factor_x *= x
        factor_y *= y
    return _in_range(factor_x, factor_y, log_odds)


@njit(cache=True, nogil=True)
def multiply(x, y, factor_x, factor_y, log_odds):
    """Multiply the odds by x / y."""
    return _in_range(factor_x * x, factor_y * y, log_odds)


class FeatureGroups(NamedTuple):
    """Features with the same prior and no missing cells in any row; each with missing cells by itself.

    Observed cells of a cluster are equally many for a group: terms without other statistics are computed once per
    group.
    """

    of_feature: np.ndarray  # (n_features,) int64: the group of each feature
    first: np.ndarray  # (n_groups,) int64: a feature of each group
    sizes: np.ndarray  # (n_groups,) int64: number of features


class LinearPosterior(NamedTuple):
    """Log predictive density of a row of zeros by label, and what the odds of sides need besides."""

    log_densities: np.ndarray  # (capacity,): NaN if it has to be computed
    of_groups: np.ndarray  # (2, n_groups) int64: sums of the counts of each group on each side
    is_present: np.ndarray  # (n_statistics,) bool: columns that some row of a side has had
    present: np.ndarray  # (n_statistics,) int64: these columns, in the order of their first rows
    n_present: np.ndarray  # (1,) int64
    n_absent: np.ndarray  # (n_groups,) int64: features of each group that are not present


# Ranges of rows, for finite mixtures


@njit(cache=True, nogil=True)
def add_linear_scores(first, stop, indptr, indices, counts, offsets, table, out):
    """Add to `out`, (stop - first, K), the offsets, (K,), plus the counts of rows times `table`, (n_statistics, K)."""
    n_components = table.shape[1]
    for row in range(first, stop):
        scores = out[row - first]
        for k in range(n_components):
            scores[k] += offsets[k]
        add_entries(indptr, indices, counts, row, n_components, table, scores)


@njit_inlined
def add_entries(indptr, indices, counts, row, n, table, scores):
    """Add the counts of a row times the first `n` columns of `table`."""
    for e in range(indptr[row], indptr[row + 1]):
        count, natural = np.float64(counts[e]), table[indices[e]]
        for k in range(n):
            scores[k] += count * natural[k]


@njit(cache=True, nogil=True)
def add_labelled(first, stop, indptr, indices, counts, labels, sizes, totals):
    """Add rows to the statistics of their components; `labels` begin with row `first`."""
    for row in range(first, stop):
        k = labels[row - first]
        sizes[k] += 1
        for e in range(indptr[row], indptr[row + 1]):
            totals[indices[e], k] += counts[e]


@njit(cache=True, nogil=True)
def add_shared(first, stop, indptr, indices, counts, shares, sizes, totals):
    """Add rows to the statistics of all components, weighted by `shares`, which begin with row `first`."""
    n_components = len(sizes)
    for row in range(first, stop):
        share = shares[row - first]
        for k in range(n_components):
            sizes[k] += share[k]
        for e in range(indptr[row], indptr[row + 1]):
            count, total = np.float64(counts[e]), totals[indices[e]]
            for k in range(n_components):
                total[k] += count * share[k]


# Statistics and scores by label, for Dirichlet process mixtures


@njit_part
def count_row(data, statistics, row, label, sign):
    """Add or subtract a row."""
    statistics.sizes[label] += sign
    sums = statistics.sums[label]
    for e in range(data.indptr[row], data.indptr[row + 1]):
        sums[data.indices[e]] += sign * data.counts[e]


@njit_part
def merge_labels(data, statistics, kept, gone):
    """Add the statistics of one label to another."""
    move_entry(statistics.sizes, kept, gone)
    move_entry(statistics.sums, kept, gone)


@njit_part
def fill_scores(data, statistics, rows, n_above, current, components, scores):
    """Log densities of rows: the offset of each component plus the counts times its natural parameters."""
    for i in range(len(rows)):
        n, of_row = n_above[i], scores[i]
        if n > 1:
            for k in range(n):
                of_row[k] = components.offsets[k]
            add_entries(data.indptr, data.indices, data.counts, rows[i], n, components.naturals, of_row)


# Densities, which each family has in its own form


@by_type
def log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""


@by_type
def log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""


@by_type
def log_of_count(data, count, shape, other):
    """Log of the factor of a count in a predictive density, compared with a zero, given tables of the posterior."""


@by_type
def log_factor_of_sums(data, size_0, sums_0, size_1, sums_1):
    """Log marginal density of two sets of rows with these statistics minus that of their union."""


@njit(cache=True, nogil=True)
def add_given_sums(first, stop, data, offsets, naturals, shapes, others, out):
    """Add to `out` the log densities of rows given the sums of components, whose parameters are integrated out.

    `offsets`, (K,), are those of a row of zeros; `naturals`, (n_statistics, K), what a count of one and a missing cell
    add; `shapes` and `others`, (n_features, K), are for `log_of_count`.
    """
    n_components = len(offsets)
    for row in range(first, stop):
        scores = out[row - first]
        for k in range(n_components):
            scores[k] += offsets[k]
        for e in range(data.indptr[row], data.indptr[row + 1]):
            column, count = data.indices[e], np.int64(data.counts[e])
            if count == 1:
                for k in range(n_components):
                    scores[k] += naturals[column, k]
            else:
                for k in range(n_components):
                    scores[k] += log_of_count(data, count, shapes[column, k], others[column, k])


@njit(cache=True, nogil=True)
def refresh_posterior(data, statistics, posterior, label):
    """Compute the log predictive density of a row of zeros again."""
    posterior.log_densities[label] = log_density_of_zeros(data, statistics.sizes[label], statistics.sums[label])


@njit_part
def add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    """Add the log predictive densities of a row given the rows of each label."""
    for c in range(n_labels):
        label = labels[c]
        if np.isnan(posterior.log_densities[label]):
            refresh_posterior(data, statistics, posterior, label)
        out[c] += posterior.log_densities[label]
        out[c] += log_ratio_to_zeros(data, row, statistics.sizes[label], statistics.sums[label])


@njit(cache=True, nogil=True)
def log_bayes_factor(data, statistics, posterior, label_0, label_1):
    """Log marginal density of the rows of two labels minus that of their union."""
    sizes, sums = statistics.sizes, statistics.sums
    return log_factor_of_sums(data, sizes[label_0], sums[label_0], sizes[label_1], sums[label_1])


# Sides, whose columns are mostly zero


@njit_part
def update_posterior(data, statistics, posterior, row, label, sign):
    """Add or remove a row, and list the columns that no earlier row has."""
    statistics.sizes[label] += sign
    posterior.log_densities[label] = np.nan
    sums, of_groups = statistics.sums[label], posterior.of_groups[label]
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], sign * data.counts[e]
        sums[column] += count
        is_feature = column < data.n_features
        if is_feature:
            of_groups[data.groups.of_feature[column]] += count
        if not posterior.is_present[column]:
            posterior.is_present[column] = True
            posterior.present[posterior.n_present[0]] = column
            posterior.n_present[0] += 1
            if is_feature:
                posterior.n_absent[data.groups.of_feature[column]] -= 1


@njit_part
def clear_sides(data, statistics, posterior):
    """Remove all rows from both sides."""
    for place in range(posterior.n_present[0]):
        column = posterior.present[place]
        statistics.sums[0, column] = statistics.sums[1, column] = 0
        posterior.is_present[column] = False
        if column < data.n_features:
            group = data.groups.of_feature[column]
            posterior.n_absent[group] += 1
            posterior.of_groups[0, group] = posterior.of_groups[1, group] = 0
    posterior.n_present[0] = 0
    for side in range(2):
        statistics.sizes[side] = 0
        posterior.log_densities[side] = np.nan


_SHARED = (
    count_row,
    merge_labels,
    fill_scores,
    refresh_posterior,
    add_predictive,
    log_bayes_factor,
    update_posterior,
    clear_sides,
)


def register(cls: type) -> None:
    """Register these kernels for a class of data."""
    for kernel in _SHARED:
        getattr(kernels, kernel.__name__).of(cls)(kernel)
