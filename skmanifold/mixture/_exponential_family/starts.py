"""Initial labels of a finite mixture, and priors that are learned from clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._abilities import HasSumsOfClusters
from ...emissions._seeds import sums_of_labels
from ...emissions._statistics import occupied
from ...random._keys import Purpose, subkey
from ...utils._parameters import offers
from .._memberships import random_labels
from .._merge_kernels import merge_pairs

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
    return offers(family, HasSumsOfClusters) and family.n_features <= _MOST_COLUMNS


def _seeds(family: Any, rows: Any, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
    if row_weights is None:
        return family.seed_labels(rows, key)
    return family.seed_weighted_labels(rows, key, row_weights)


def _merged_labels(
    family: Any, rows: Any, free: tuple[str, ...], key: np.uint64, row_weights: np.ndarray | None
) -> np.ndarray:
    """Labels of K clusters: of many small ones, the two with the lowest log Bayes factor are merged in each step."""
    K = family.n_components
    many = family.with_components(min(max(_LEAST_CLUSTERS, _CLUSTERS_OF_COMPONENT * K), rows.n_rows))
    labels = _seeds(many, rows, subkey(key, Purpose.CENTRES), row_weights)
    statistics = sums_of_labels(many, rows, labels, row_weights)
    learned = family.with_learned_numbers(statistics, free, is_rough=True) if free else family
    clusters, sums = learned.clusters_of_sums(statistics)
    present = occupied(sums)
    posterior = clusters.new_posterior(many.n_components, sums, subkey(key, Purpose.COMPONENTS))
    merged_with = np.arange(many.n_components, dtype=np.int32)
    no_shares = np.empty((0, len(present)))
    merge_pairs(clusters.data, sums, posterior, present, no_shares, merged_with, 0.0, 0.0, -np.inf, K)
    return np.unique(merged_with[labels], return_inverse=True)[1].astype(np.int32)  # in an order without weights
