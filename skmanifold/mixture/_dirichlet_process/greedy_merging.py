"""Merge the clusters of a partition greedily, as long as its posterior probability increases; for starts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...emissions._clusters.base import Clusters
from ...emissions._clusters.kernels import log_bayes_factor_of_labels, merge_labels, refresh_cluster
from ...emissions._clusters.statistics import occupied
from ...random._keys import subkey
from ...utils._njit import njit


def merge_greedily(
    clusters: Clusters, labels: np.ndarray, statistics: Any, concentration: float, key: np.uint64
) -> np.ndarray:
    """Labels after merging, in each step, the two clusters whose union increases the posterior most.

    Parameters
    ----------
    clusters : Clusters
    labels : ndarray of shape (n_rows,), int32
    statistics : NamedTuple
        Statistics of the labels; overwritten.
    concentration : float
    key : uint64
        Key of a draw of parameters that all clusters share, if there are any.
    """
    present = occupied(statistics)
    cache, _ = clusters.split_merge_space(statistics, subkey(key))
    merged_with = np.arange(len(statistics.sizes), dtype=np.int32)
    _merge_greedily(clusters.data, statistics, cache, math.log(concentration), present, merged_with)
    return merged_with[labels]


@njit(cache=True, nogil=True)
def _gain(data, statistics, cache, log_concentration, label_0, label_1):
    """Log posterior probability of the partition with two clusters merged, minus that without."""
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    of_prior = math.lgamma(n_0 + n_1) - math.lgamma(n_0) - math.lgamma(n_1) - log_concentration
    return of_prior - log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1)


@njit(cache=True, nogil=True)
def _merge_greedily(data, statistics, cache, log_concentration, present, merged_with):
    """Fill `merged_with` with the label that the rows of each label have after the merges."""
    n = len(present)
    for index in range(n):
        refresh_cluster(data, statistics, present[index], cache)
    gains = np.full((n, n), -np.inf)
    for a in range(n):
        for b in range(a + 1, n):
            gains[a, b] = _gain(data, statistics, cache, log_concentration, present[a], present[b])
    for _ in range(n - 1):
        best = int(np.argmax(gains))
        first, second = best // n, best % n
        if not gains[first, second] > 0.0:
            return
        kept, gone = present[first], present[second]
        merge_labels(data, statistics, kept, gone)
        refresh_cluster(data, statistics, kept, cache)
        for label in range(len(merged_with)):
            if merged_with[label] == gone:
                merged_with[label] = kept
        for c in range(n):
            gains[second, c] = gains[c, second] = -np.inf
        for c in range(n):
            low, high = min(first, c), max(first, c)
            if c != first and statistics.sizes[present[c]] > 0:
                gains[low, high] = _gain(data, statistics, cache, log_concentration, present[low], present[high])
