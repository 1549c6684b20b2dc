"""Initial labels of a finite mixture, and priors that are learned from clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._abilities import HasSumsOfClusters
from ...emissions._seeds import weighted_indicators
from ...emissions._statistics import occupied
from ...emissions.kernels import log_bayes_factor, merge_labels, refresh_posterior
from ...metrics._partitions import compact_labels
from ...numerics.block_sums import BlockSums
from ...random._keys import Purpose, subkey
from ...utils._njit import njit
from ...utils._parameters import offers
from .._memberships import random_labels

_LEAST_CLUSTERS, _CLUSTERS_OF_COMPONENT = 30, 3  # that are merged
_MOST_COLUMNS = 32


def start_labels(
    family: Any,
    rows: Any,
    init: str,
    free: tuple[str, ...],
    key: np.uint64,
    number: int = 0,
    row_weights: np.ndarray | None = None,
    found: tuple[np.uint64, np.ndarray] | None = None,
) -> np.ndarray:
    """Initial labels of one start, (n_rows,) int32: "random", "k-means++", "hierarchical" or "auto".

    "auto" are those of a hierarchy for the `number` 0, else "k-means++". A hierarchy learns the numbers of the prior
    that are `free`. `found` are labels and the key for which they were computed before. Weights need a family with
    `HasWeightedSeeds`, labels without weights one with `HasSeeds`.
    """
    K = family.n_components
    if found is not None and key == found[0]:
        return found[1]
    if K == 1:
        return np.zeros(rows.n_rows, np.int32)
    if init == "random":
        return random_labels(key, rows.n_rows, K)
    if init == "hierarchical" or (init == "auto" and number == 0 and can_merge(family)):
        return _merged_labels(family, rows, free, key, row_weights)
    return _seeds(family, rows, key, row_weights)


def can_merge(family: Any) -> bool:
    """Whether to merge clusters: there are marginal densities, and few columns, so that few rows determine clusters."""
    return offers(family, HasSumsOfClusters) and family.is_proper and family.n_features <= _MOST_COLUMNS


def _seeds(family: Any, rows: Any, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
    if row_weights is None:
        return family.seed_labels(rows, key)
    return family.seed_weighted_labels(rows, key, row_weights)


def sums_of(family: Any, rows: Any, labels: np.ndarray, row_weights: np.ndarray | None) -> BlockSums:
    """Statistics of labels."""
    if row_weights is None:
        return family.sum_labels(rows, 0, rows.n_rows, 0, labels)
    return family.sum_shares(rows, 0, rows.n_rows, 0, weighted_indicators(labels, row_weights, family.n_components))


def _merged_labels(
    family: Any, rows: Any, free: tuple[str, ...], key: np.uint64, row_weights: np.ndarray | None
) -> np.ndarray:
    """Labels of K clusters: of many small ones, the two with the lowest log Bayes factor are merged in each step."""
    K = family.n_components
    many = family.with_components(min(max(_LEAST_CLUSTERS, _CLUSTERS_OF_COMPONENT * K), rows.n_rows))
    labels = _seeds(many, rows, subkey(key, Purpose.CENTRES), row_weights)
    statistics = sums_of(many, rows, labels, row_weights).total()
    if free:
        many = many.with_learned_numbers(statistics, free, is_rough=True)
    clusters, sums = many.clusters_of_sums(statistics)
    present = occupied(sums)
    posterior = clusters.new_posterior(many.n_components, sums, subkey(key, Purpose.COMPONENTS))
    merged_with = np.arange(many.n_components, dtype=np.int32)
    _merge(clusters.data, sums, posterior, present, K, merged_with)
    return compact_labels(merged_with[labels]).astype(np.int32)


@njit(cache=True, nogil=True)
def _merge(data, statistics, posterior, present, n_left, merged_with):
    """Merge the clusters `present` until `n_left` are left; `merged_with` gets the last label of each."""
    n = len(present)
    costs = np.full((n, n), np.inf)
    for a in range(n):
        refresh_posterior(data, statistics, posterior, present[a])
    for a in range(n):
        for b in range(a + 1, n):
            costs[a, b] = log_bayes_factor(data, statistics, posterior, present[a], present[b])
    for _ in range(n - n_left):
        best = int(np.argmin(costs))
        first, second = best // n, best % n
        kept, gone = present[first], present[second]
        merge_labels(data, statistics, kept, gone)
        refresh_posterior(data, statistics, posterior, kept)
        for label in range(len(merged_with)):
            if merged_with[label] == gone:
                merged_with[label] = kept
        for c in range(n):
            costs[second, c] = costs[c, second] = np.inf
        for c in range(n):
            a, b = min(first, c), max(first, c)
            if c != first and statistics.sizes[present[c]] > 0:
                costs[a, b] = log_bayes_factor(data, statistics, posterior, present[a], present[b])
