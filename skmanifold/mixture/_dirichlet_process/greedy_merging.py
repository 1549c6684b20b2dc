"""Merge the clusters of a partition greedily, as long as the evidence increases; for starts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import softmax

from ...emissions._family import Family
from ...emissions._statistics import occupied, selected
from ...emissions.kernels import log_bayes_factor, merge_labels, refresh_posterior
from ...random._keys import subkey
from ...utils._njit import njit
from ...utils._threads import Workers
from .label_scores import label_scores

LEAST_SHARE = 1e-4  # of a row in a cluster; smaller ones are left out of entropies


def merge_greedily(
    clusters: Family, labels: np.ndarray, statistics: Any, concentration: float, key: np.uint64, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Merge, in each step, the two clusters whose union increases the evidence most.

    The evidence of a set of clusters sums over all partitions that have about these parameters: its logarithm is that
    of the joint density of one of them, plus the entropy of the labels given the parameters. Without the entropy
    overlapping clusters would be merged although their parameters differ.

    Parameters
    ----------
    clusters : Family
    labels : ndarray of shape (n_rows,), int32
    statistics : NamedTuple
        Statistics of the labels; those of the merged labels afterwards.
    concentration : float
    key : uint64
        Key of a draw of parameters that all clusters share, if there are any.
    workers : Workers

    Returns
    -------
    labels : ndarray of shape (n_rows,), int32
        After merging.
    shares : ndarray of shape (n_rows, capacity)
        Probabilities of the labels given each row.
    """
    present = occupied(statistics)
    shares = _shares(clusters, statistics, present, workers)
    posterior, _ = clusters.split_merge_space(statistics, subkey(key))
    merged_with = np.arange(len(statistics.sizes), dtype=np.int32)
    _merge_greedily(clusters.data, statistics, posterior, math.log(concentration), present, shares, merged_with)
    of_labels = np.zeros((clusters.n_rows, len(statistics.sizes)))
    of_labels[:, present] = shares
    return merged_with[labels], of_labels


def _shares(clusters: Family, statistics: Any, present: np.ndarray, workers: Workers) -> np.ndarray:
    """Probabilities of the clusters `present` given each row, (n_rows, K)."""
    shares = np.empty((clusters.n_rows, len(present)))
    for rows, scores in label_scores(clusters, selected(statistics, present), workers):
        shares[rows] = softmax(scores, axis=1)
    return shares


@njit(cache=True, nogil=True)
def _gain(data, statistics, posterior, log_concentration, label_0, label_1):
    """Log posterior probability of the partition with two clusters merged, minus that without."""
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    of_prior = math.lgamma(n_0 + n_1) - math.lgamma(n_0) - math.lgamma(n_1) - log_concentration
    return of_prior - log_bayes_factor(data, statistics, posterior, label_0, label_1)


@njit(cache=True, nogil=True)
def _fill_pair_entropies(shares, a, out):
    """Entropies of the choice between clusters a and b given that it is one of them, summed over rows, for each b."""
    n, K = shares.shape
    out[:] = 0.0
    for i in range(n):
        of_a = shares[i, a]
        if of_a <= LEAST_SHARE:
            continue
        of_a_alone = of_a * math.log(of_a)
        for b in range(K):
            of_b = shares[i, b]
            if of_b > LEAST_SHARE and b != a:
                both = of_a + of_b
                out[b] += both * math.log(both) - of_a_alone - of_b * math.log(of_b)


@njit(cache=True, nogil=True)
def _merge_greedily(data, statistics, posterior, log_concentration, present, shares, merged_with):
    """Fill `merged_with` with the label that the rows of each label have after the merges; shares are merged too."""
    n = len(present)
    entropies = np.empty(n)
    for index in range(n):
        refresh_posterior(data, statistics, posterior, present[index])
    gains = np.full((n, n), -np.inf)
    for a in range(n):
        _fill_pair_entropies(shares, a, entropies)
        for b in range(a + 1, n):
            gain = _gain(data, statistics, posterior, log_concentration, present[a], present[b])
            gains[a, b] = gain - entropies[b]
    for _ in range(n - 1):
        best = int(np.argmax(gains))
        first, second = best // n, best % n
        if not gains[first, second] > 0.0:
            return
        kept, gone = present[first], present[second]
        merge_labels(data, statistics, kept, gone)
        refresh_posterior(data, statistics, posterior, kept)
        for i in range(len(shares)):
            shares[i, first] += shares[i, second]
            shares[i, second] = 0.0
        for label in range(len(merged_with)):
            if merged_with[label] == gone:
                merged_with[label] = kept
        for c in range(n):
            gains[second, c] = gains[c, second] = -np.inf
        _fill_pair_entropies(shares, first, entropies)
        for c in range(n):
            low, high = min(first, c), max(first, c)
            if c != first and statistics.sizes[present[c]] > 0:
                gain = _gain(data, statistics, posterior, log_concentration, present[low], present[high])
                gains[low, high] = gain - entropies[c]
