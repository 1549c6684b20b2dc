"""Random partitions."""

from __future__ import annotations

import numpy as np


def draw_partition(rng: np.random.Generator, n: int, concentration: float) -> np.ndarray:
    """Draw a partition from the Chinese restaurant process.

    Parameters
    ----------
    rng : numpy.random.Generator
        Random numbers.
    n : int
        Number of elements, at least 1.
    concentration : float
        Concentration of the Dirichlet process, positive.

    Returns
    -------
    labels : ndarray of shape (n,), int32
        Clusters of the elements; cluster 0 is the largest.
    """
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
