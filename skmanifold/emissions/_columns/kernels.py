"""Kernels of rows of several blocks of columns, which call those of the blocks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...utils._njit import njit, njit_part
from .. import kernels

# Blocks form nested pairs: the first, and the pair of the others or the last block. Numba compiles a kernel for each
# pair of types, so no choice is made at run time.


class JoinedData(NamedTuple):
    """Rows and priors of several blocks."""

    first: Any
    rest: Any


class Joined(NamedTuple):
    """Components or posteriors of several blocks."""

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


@kernels.refresh_posterior.of(JoinedData)
@njit(cache=True, nogil=True)
def _refresh_posterior(data, statistics, posterior, label):
    kernels.refresh_posterior(data.first, statistics.first, posterior.first, label)
    kernels.refresh_posterior(data.rest, statistics.rest, posterior.rest, label)


@kernels.add_predictive.of(JoinedData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    kernels.add_predictive(data.first, statistics.first, posterior.first, row, labels, n_labels, out)
    kernels.add_predictive(data.rest, statistics.rest, posterior.rest, row, labels, n_labels, out)


@kernels.log_bayes_factor.of(JoinedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    of_first = kernels.log_bayes_factor(data.first, statistics.first, posterior.first, label_0, label_1)
    return of_first + kernels.log_bayes_factor(data.rest, statistics.rest, posterior.rest, label_0, label_1)


@kernels.update_posterior.of(JoinedData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    kernels.update_posterior(data.first, statistics.first, posterior.first, row, label, sign)
    kernels.update_posterior(data.rest, statistics.rest, posterior.rest, row, label, sign)


@kernels.odds_of_sides.of(JoinedData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    factor_1, factor_0, log_odds = kernels.odds_of_sides(data.first, statistics.first, posterior.first, row, scratch)
    other_1, other_0, others = kernels.odds_of_sides(data.rest, statistics.rest, posterior.rest, row, scratch)
    return factor_1, factor_0, log_odds + others + math.log(other_1 / other_0)  # products could overflow


@kernels.clear_sides.of(JoinedData)
@njit_part
def _clear_sides(data, statistics, posterior):
    kernels.clear_sides(data.first, statistics.first, posterior.first)
    kernels.clear_sides(data.rest, statistics.rest, posterior.rest)
