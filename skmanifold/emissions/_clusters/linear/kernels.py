"""Kernels that clusters of binary rows and of counts share; a row is a sparse row of statistics.

Column j of the statistics is feature j, and a 1 in column ``n_features + j`` means that this cell is missing. `data` is
a `BernoulliData`, `NegativeBinomialData` or `PoissonData`. All densities leave out the part that does not depend on the
parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....utils._by_type import by_type
from ....utils._njit import njit, njit_part
from .. import kernels


class FeatureGroups(NamedTuple):
    """Features with the same prior and no missing cells in any row, and each feature with missing cells by itself.

    The number of observed cells in a cluster is the same for all features of a group, so that terms that depend on no
    other statistic are computed once per group.
    """

    of_feature: np.ndarray  # (n_features,) int64: the group of each feature
    first: np.ndarray  # (n_groups,) int64: a feature of each group
    sizes: np.ndarray  # (n_groups,) int64: number of features


class ZeroRow(NamedTuple):
    """Log predictive density, by label, of a row of zeros."""

    log_densities: np.ndarray  # (capacity,)


class LinearSides(NamedTuple):
    """Statistics of the two sides of a split, and which of them are not zero."""

    n_rows: np.ndarray  # (2,) int64
    sums: np.ndarray  # (2, n_statistics) int64
    of_groups: np.ndarray  # (2, n_groups) int64: sums of the counts of each group
    present: np.ndarray  # (n_statistics,) int64: columns that some row has, in the order of their first rows
    n_present: np.ndarray  # (1,) int64
    n_absent: np.ndarray  # (n_groups,) int64: features of each group that no row has


# Statistics and scores


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
    statistics.sizes[kept] += statistics.sizes[gone]
    statistics.sizes[gone] = 0
    for column in range(statistics.sums.shape[1]):
        statistics.sums[kept, column] += statistics.sums[gone, column]
        statistics.sums[gone, column] = 0


@njit_part
def fill_scores(data, statistics, rows, n_above, current, components, scores):
    """Log densities of rows: the offset of each component plus the counts times its natural parameters."""
    offsets, naturals = components
    for i in range(len(rows)):
        n, of_row = n_above[i], scores[i]
        if n <= 1:
            continue
        for k in range(n):
            of_row[k] = offsets[k]
        for e in range(data.indptr[rows[i]], data.indptr[rows[i] + 1]):
            natural = naturals[data.indices[e]]
            if data.counts[e] == 1:
                for k in range(n):
                    of_row[k] += natural[k]
            else:
                count = np.float64(data.counts[e])
                for k in range(n):
                    of_row[k] += count * natural[k]


# Sides


@njit_part
def note_row(data, row, sides):
    """List the columns of a row that no earlier row has."""
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column = data.indices[e]
        if sides.sums[0, column] + sides.sums[1, column] == 0:
            sides.present[sides.n_present[0]] = column
            sides.n_present[0] += 1
            if column < data.n_features:
                sides.n_absent[data.groups.of_feature[column]] -= 1


@njit_part
def add_to_side(data, statistics, row, side, sides):
    """Add a row to a side."""
    _count_on_side(data, row, side, 1, sides)


@njit_part
def remove_from_side(data, statistics, row, side, sides):
    """Remove a row from a side."""
    _count_on_side(data, row, side, -1, sides)


@njit_part
def _count_on_side(data, row, side, sign, sides):
    sides.n_rows[side] += sign
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], sign * data.counts[e]
        sides.sums[side, column] += count
        if column < data.n_features:
            sides.of_groups[side, data.groups.of_feature[column]] += count


@njit_part
def clear_sides(data, sides):
    """Remove all rows from both sides."""
    for place in range(sides.n_present[0]):
        column = sides.present[place]
        sides.sums[0, column] = sides.sums[1, column] = 0
        if column < data.n_features:
            group = data.groups.of_feature[column]
            sides.n_absent[group] += 1
            sides.of_groups[0, group] = sides.of_groups[1, group] = 0
    sides.n_present[0] = 0
    sides.n_rows[0] = sides.n_rows[1] = 0


# Densities, which each family has in its own form


@by_type
def log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""


@by_type
def log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""


@by_type
def log_bayes_factor(data, size_0, sums_0, size_1, sums_1):
    """Log marginal density of two sets of rows with these statistics minus that of their union."""


@njit(cache=True, nogil=True)
def refresh_cluster(data, statistics, label, cache):
    """Compute the log predictive density of a row of zeros again."""
    cache.log_densities[label] = log_density_of_zeros(data, statistics.sizes[label], statistics.sums[label])


@njit_part
def add_predictive(data, statistics, cache, row, labels, n_labels, out):
    """Add the log predictive densities of a row given the rows of each label."""
    for c in range(n_labels):
        label = labels[c]
        out[c] += cache.log_densities[label]
        out[c] += log_ratio_to_zeros(data, row, statistics.sizes[label], statistics.sums[label])


@njit(cache=True, nogil=True)
def log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    """Log marginal density of the rows of two labels minus that of their union."""
    sizes, sums = statistics
    return log_bayes_factor(data, sizes[label_0], sums[label_0], sizes[label_1], sums[label_1])


@njit_part
def log_predictive(data, row, sides, side):
    """Log predictive density of a row given a side."""
    size, sums = sides.n_rows[side], sides.sums[side]
    return log_density_of_zeros(data, size, sums) + log_ratio_to_zeros(data, row, size, sums)


@njit(cache=True, nogil=True)
def log_predictive_of_side(data, statistics, row, sides):
    """Log predictive density of a row given side 1."""
    return log_predictive(data, row, sides, 1)


@njit(cache=True, nogil=True)
def log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    """Log marginal density of the rows on both sides minus that of their union."""
    return log_bayes_factor(data, sides.n_rows[0], sides.sums[0], sides.n_rows[1], sides.sums[1])


_SHARED = (
    count_row,
    merge_labels,
    fill_scores,
    note_row,
    add_to_side,
    remove_from_side,
    clear_sides,
    refresh_cluster,
    add_predictive,
    log_bayes_factor_of_labels,
    log_predictive_of_side,
    log_bayes_factor_of_sides,
)


def register(cls: type) -> None:
    """Register these kernels for a class of data."""
    for kernel in _SHARED:
        getattr(kernels, kernel.__name__).of(cls)(kernel)
