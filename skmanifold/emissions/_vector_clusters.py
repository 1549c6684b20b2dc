"""Clusters of vectors, for components of Gaussian tokens to begin with: k-means from spread seeds."""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import subkey, uniform

_N_ROUNDS = 10


def cluster_vectors(vectors: np.ndarray, weights: np.ndarray, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Labels of vectors that weigh something, features scaled to equal variances; the others have label 0.

    Seeds are those of k-means++ (Arthur and Vassilvitskii, 2007), the best of a few candidates each; a few rounds of
    k-means follow. Where there are fewer different vectors than clusters, some clusters stay empty.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
        Not negative, and not all zero.
    n_clusters : int
    key : uint64
    """
    labels = np.zeros(len(vectors), np.int64)
    present = np.flatnonzero(weights)
    rows, weights = vectors[present], weights[present]
    gaps = rows - np.average(rows, axis=0, weights=weights)
    scales = np.sqrt(np.average(gaps**2, axis=0, weights=weights))
    rows = gaps / np.where(scales > 0.0, scales, 1.0)
    nearest = _squared_distances(rows, rows[_seeds(rows, weights, n_clusters, key)]).argmin(axis=1)
    for _ in range(_N_ROUNDS):
        before, sizes = nearest, np.bincount(nearest, weights=weights, minlength=n_clusters)
        sums = np.zeros((n_clusters, rows.shape[1]))
        np.add.at(sums, nearest, weights[:, np.newaxis] * rows)
        distances = _squared_distances(rows, sums / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis])
        nearest = np.where(sizes > 0.0, distances, np.inf).argmin(axis=1)
        if np.array_equal(nearest, before):
            break
    labels[present] = nearest
    return labels


def _seeds(rows: np.ndarray, weights: np.ndarray, n_clusters: int, key: np.uint64) -> list[int]:
    n_candidates = 2 + int(math.log(n_clusters))
    distances = np.ones(len(rows))
    seeds: list[int] = []
    for i in range(n_clusters):
        running = np.cumsum(weights * distances)
        if running[-1] == 0.0:  # every vector is a seed
            break
        of_seed = subkey(key, i)
        places = np.array([uniform(of_seed, c) for c in range(n_candidates)]) * running[-1]
        candidates = np.minimum(np.searchsorted(running, places, side="right"), len(rows) - 1)
        with_each = _squared_distances(rows, rows[candidates])
        if seeds:
            with_each = np.minimum(with_each, distances[:, np.newaxis])
        winner = int(np.argmin(weights @ with_each))
        seeds.append(int(candidates[winner]))
        distances = with_each[:, winner].copy()
        distances[seeds[-1]] = 0.0
    return seeds


def _squared_distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    products = rows @ centres.T
    return np.maximum((rows**2).sum(axis=1)[:, np.newaxis] - 2.0 * products + (centres**2).sum(axis=1), 0.0)
