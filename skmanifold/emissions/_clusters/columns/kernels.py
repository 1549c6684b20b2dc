"""Kernels of clusters of tables: each calls those of its blocks, which are independent given the cluster.

Blocks form nested pairs: the first, and the pair of the others or the last block. Numba compiles a kernel for each pair
of types, so no choice is made at run time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....utils._njit import njit, njit_part
from .. import kernels


class JoinedData(NamedTuple):
    """Rows and priors of several blocks."""

    first: Any
    rest: Any


class Joined(NamedTuple):
    """Components, caches or sides of several blocks."""

    first: Any
    rest: Any


@kernels.count_row.of(JoinedData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    kernels.count_row(data.first, statistics.first, row, label, sign)
    kernels.count_row(data.rest, statistics.rest, row, label, sign)


@kernels.merge_labels.of(JoinedData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    kernels.merge_labels(data.first, statistics.first, kept, gone)
    kernels.merge_labels(data.rest, statistics.rest, kept, gone)


@kernels.fill_scores.of(JoinedData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    kernels.fill_scores(data.first, statistics.first, rows, n_above, current, components.first, scores)
    others = np.empty(scores.shape)
    kernels.fill_scores(data.rest, statistics.rest, rows, n_above, current, components.rest, others)
    for i in range(len(rows)):
        if n_above[i] > 1:
            for k in range(n_above[i]):
                scores[i, k] += others[i, k]


@kernels.refresh_cluster.of(JoinedData)
@njit(cache=True, nogil=True)
def _refresh_cluster(data, statistics, label, cache):
    kernels.refresh_cluster(data.first, statistics.first, label, cache.first)
    kernels.refresh_cluster(data.rest, statistics.rest, label, cache.rest)


@kernels.add_predictive.of(JoinedData)
@njit_part
def _add_predictive(data, statistics, cache, row, labels, n_labels, out):
    kernels.add_predictive(data.first, statistics.first, cache.first, row, labels, n_labels, out)
    kernels.add_predictive(data.rest, statistics.rest, cache.rest, row, labels, n_labels, out)


@kernels.log_bayes_factor_of_labels.of(JoinedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    of_first = kernels.log_bayes_factor_of_labels(data.first, statistics.first, cache.first, label_0, label_1)
    return of_first + kernels.log_bayes_factor_of_labels(data.rest, statistics.rest, cache.rest, label_0, label_1)


@kernels.note_row.of(JoinedData)
@njit_part
def _note_row(data, row, sides):
    kernels.note_row(data.first, row, sides.first)
    kernels.note_row(data.rest, row, sides.rest)


@kernels.add_to_side.of(JoinedData)
@njit_part
def _add_to_side(data, statistics, row, side, sides):
    kernels.add_to_side(data.first, statistics.first, row, side, sides.first)
    kernels.add_to_side(data.rest, statistics.rest, row, side, sides.rest)


@kernels.remove_from_side.of(JoinedData)
@njit_part
def _remove_from_side(data, statistics, row, side, sides):
    kernels.remove_from_side(data.first, statistics.first, row, side, sides.first)
    kernels.remove_from_side(data.rest, statistics.rest, row, side, sides.rest)


@kernels.odds_of_sides.of(JoinedData)
@njit_part
def _odds_of_sides(data, statistics, row, sides):
    factor_1, factor_0, log_odds = kernels.odds_of_sides(data.first, statistics.first, row, sides.first)
    other_1, other_0, others = kernels.odds_of_sides(data.rest, statistics.rest, row, sides.rest)
    return factor_1, factor_0, log_odds + others + math.log(other_1 / other_0)  # products could overflow


@kernels.log_predictive_of_side.of(JoinedData)
@njit(cache=True, nogil=True)
def _log_predictive_of_side(data, statistics, row, sides):
    of_first = kernels.log_predictive_of_side(data.first, statistics.first, row, sides.first)
    return of_first + kernels.log_predictive_of_side(data.rest, statistics.rest, row, sides.rest)


@kernels.log_bayes_factor_of_sides.of(JoinedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    of_first = kernels.log_bayes_factor_of_sides(data.first, statistics.first, cache.first, label, sides.first)
    return of_first + kernels.log_bayes_factor_of_sides(data.rest, statistics.rest, cache.rest, label, sides.rest)


@kernels.clear_sides.of(JoinedData)
@njit_part
def _clear_sides(data, sides):
    kernels.clear_sides(data.first, sides.first)
    kernels.clear_sides(data.rest, sides.rest)
