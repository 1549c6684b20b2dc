"""Kernels that clusters of binary rows and of counts share; a row is a sparse row of statistics.

Column j of the statistics is feature j, and a 1 in column ``n_features + j`` means that this cell is missing. `data` is
a `BernoulliData`, `NegativeBinomialData` or `PoissonData`. All densities leave out the part that does not depend on the
parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....utils._njit import njit_part


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


def register(cls: type) -> None:
    """Register these kernels for a class of data."""
    from .. import kernels

    for kernel in count_row, merge_labels, fill_scores, note_row, add_to_side, remove_from_side, clear_sides:
        getattr(kernels, kernel.__name__).of(cls)(kernel)
