"""Random partitions."""

from __future__ import annotations

import numpy as np


def draw_partition(rng: np.random.Generator, n: int, concentration: float) -> np.ndarray:
    """Draw labels, (n,) int32, of a Chinese restaurant process with n >= 1; cluster 0 is the largest."""
    is_new = rng.random(n) * (np.arange(n) + concentration) < concentration
    is_new[0] = True
    of_earlier = rng.integers(0, np.maximum(np.arange(n), 1))  # an element joins the cluster of a random earlier one
    labels, n_clusters = np.empty(n, np.int32), 0
    for i in range(n):
        labels[i] = n_clusters if is_new[i] else labels[of_earlier[i]]
        n_clusters += is_new[i]
    order = np.argsort(-np.bincount(labels), kind="stable")
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order))
    return places[labels]
