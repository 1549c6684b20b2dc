"""Merge or dissolve clusters of a partition, as long as the evidence increases; for initial labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import entr, softmax

from ...emissions._family import Family
from ...emissions._statistics import by_size, occupied, selected
from ...emissions.kernels import log_bayes_factor, merge_labels, refresh_posterior
from ...random._keys import subkey
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .model import DPModel

_LEAST_SHARE = 1e-4  # of a row in a cluster; smaller ones are left out of entropies
_CELLS_AT_ONCE = 1 << 20  # scores of so many rows and clusters are stored


def label_scores(clusters: Family, statistics: Any, workers: Workers) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a block of rows, a slice, and the log of size times predictive density in each cluster, (n_rows, K)."""
    log_sizes = np.log(statistics.sizes)
    for start, stop in split_range(clusters.n_rows, max(1, _CELLS_AT_ONCE // len(log_sizes))):
        scores = np.repeat(log_sizes[np.newaxis], stop - start, axis=0)
        clusters.part(start, stop).add_log_predictive(statistics, scores, workers)
        yield slice(start, stop), scores


def merge_greedily(
    clusters: Family, labels: np.ndarray, statistics: Any, concentration: float, key: np.uint64, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Merge, in each step, the two clusters whose union increases the evidence most; returns labels and shares of rows.

    The evidence of a set of clusters sums over all partitions that have about these parameters: the log joint density
    of one of them plus the entropy of the labels given the parameters. Without the entropy overlapping clusters would
    be merged although their parameters differ. `statistics` become those of the new labels.
    """
    present = occupied(statistics)
    shares = np.empty((clusters.n_rows, len(present)))
    for rows, scores in label_scores(clusters, selected(statistics, present), workers):
        shares[rows] = softmax(scores, axis=1)
    posterior, _ = clusters.split_merge_space(statistics, subkey(key))
    merged_with = np.arange(len(statistics.sizes), dtype=np.int32)
    _merge_greedily(clusters.data, statistics, posterior, math.log(concentration), present, shares, merged_with)
    of_labels = np.zeros((clusters.n_rows, len(statistics.sizes)))
    of_labels[:, present] = shares
    return merged_with[labels], of_labels


def dissolve_small(
    model: DPModel, labels: np.ndarray, statistics: Any, shares: np.ndarray, concentration: float
) -> float:
    """Move all rows of a cluster to the others that suit each best, if the evidence increases; returns the evidence.

    Rows between large clusters may form a small one that no merge removes, since it belongs to several. Clusters
    smaller than the average are tried, smallest first. Labels, statistics and shares, (n_rows, capacity), are
    overwritten.
    """
    shares[shares <= _LEAST_SHARE] = 0.0
    entropy = _entropy(shares)
    evidence = model.log_joint(statistics, concentration) + entropy
    present = by_size(statistics)[::-1]
    for label in present[statistics.sizes[present] < model.n_rows / len(present)]:
        concerned = np.flatnonzero(shares[:, label])
        others = shares[concerned]
        others[:, label] = 0.0
        totals = others.sum(axis=1, keepdims=True)
        rows = np.flatnonzero(labels == label)
        targets = shares[rows]
        targets[:, label] = 0.0
        if not (totals.all() and targets.any(axis=1).all()):
            continue
        others /= totals
        new_labels = targets.argmax(axis=1).astype(labels.dtype)
        model.move(rows, new_labels, labels, statistics)
        new_entropy = entropy + _entropy(others) - _entropy(shares[concerned])
        new_evidence = model.log_joint(statistics, concentration) + new_entropy
        if new_evidence > evidence:
            shares[concerned] = others
            entropy, evidence = new_entropy, new_evidence
        else:
            model.move(rows, np.full(len(rows), label, labels.dtype), labels, statistics)
    return evidence


def _entropy(shares: np.ndarray) -> float:
    """Entropy of the label of each row, summed over rows, in nats."""
    return float(entr(shares).sum())


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
        if of_a <= _LEAST_SHARE:
            continue
        of_a_alone = of_a * math.log(of_a)
        for b in range(K):
            of_b = shares[i, b]
            if of_b > _LEAST_SHARE and b != a:
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
