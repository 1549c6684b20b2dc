"""Labels that a mixture of an exponential family begins with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...emissions._base import Family
from ...emissions._gaussian_families import GaussianFamily
from ...emissions._gaussian_kernels import add_diagonal_densities
from ...emissions._linear import LinearFamily
from ...random._keys import subkey, uniform
from .._labels import random_labels, read_labels

_N_ROUNDS = 5  # of hard assignments after the seeds
_N_ROUNDS_OF_MEANS = 20


def checked_labels(init: Any, n_rows: int, n_components: int) -> np.ndarray:
    """A user's labels to begin with."""
    return read_labels(init, n_rows, n_components, "init must be a name, or").astype(np.int32)


def start_labels(family: Family, rows: Any, init: str, key: np.uint64) -> np.ndarray:
    """Labels to begin with, (n_rows,) int32.

    "random" deals them out. "k-means++" clusters Gaussian rows by k-means, features scaled to equal ranges; for the
    other families it spreads seeds by likelihood (see `seed_labels`).
    """
    K = family.n_components
    if K == 1:
        return np.zeros(rows.n_rows, np.int32)
    if init == "random":
        return random_labels(key, rows.n_rows, K)
    if isinstance(family, GaussianFamily):
        return _means_labels(rows.values, K, key)
    if not isinstance(family, LinearFamily):
        name = type(family).__name__
        raise ValueError(f"init='k-means++' knows no seeds of a {name}, which is no LinearFamily: set init='random'.")
    return seed_labels(family, rows, key)


def _means_labels(X: np.ndarray, K: int, key: np.uint64) -> np.ndarray:
    """Labels of k-means, features scaled to equal ranges; whatever threads there are, the same.

    Ranges separate clusters better than standard deviations do (Milligan and Cooper, 1988): these would make much of
    features that are the same in nearly all rows.
    """
    from sklearn.cluster import kmeans_plusplus  # slow to import

    scales = np.ptp(X, axis=0)
    scaled = X / np.where(scales > 0.0, scales, 1.0)
    centres, _ = kmeans_plusplus(scaled, K, random_state=int(key >> np.uint64(32)))
    labels = np.full(len(X), -1, np.int32)
    for _ in range(_N_ROUNDS_OF_MEANS):
        nearness = np.zeros((len(X), K))
        add_diagonal_densities(scaled, 0, len(X), centres, np.ones(centres.shape), np.zeros(K), nearness)
        before, labels = labels, nearness.argmax(axis=1).astype(np.int32)
        if np.array_equal(labels, before):
            break
        for k in np.unique(labels):
            centres[k] = scaled[labels == k].mean(axis=0)
    return labels


def seed_labels(family: LinearFamily, rows: Any, key: np.uint64) -> np.ndarray:
    """Labels by the likeliest of K seeds, which are rows smoothed by the mean of all, and rounds of hard assignments.

    Seeds are chosen as in k-means++ (Arthur and Vassilvitskii, 2007). In place of the squared distance stands what a
    row's log density given the best seed lacks of the highest that the family could give it, less the median of that:
    most rows are far from any seed, in many features, and what counts is who is farther than others. Of a few
    candidates the one that adds most to the log densities is taken.
    """
    mean = rows.overall(family.n_statistics) / rows.n_rows
    highest = family.highest_log_densities(rows)
    n_candidates = 2 + int(math.log(family.n_components))
    chosen = [int(uniform(key, 0) * rows.n_rows)]
    best = _log_densities(family, rows, _seeds(family, rows, chosen, mean))[:, 0]
    for i in range(1, family.n_components):
        lacks = highest - best
        running = np.cumsum(np.maximum(lacks - np.median(lacks), 0.0))
        of_seed = subkey(key, i)
        places = np.array([uniform(of_seed, c) for c in range(n_candidates)])
        if running[-1] > 0.0:
            candidates = np.searchsorted(running, places * running[-1], side="right")
        else:  # all rows are alike
            candidates = (places * rows.n_rows).astype(np.int64)
        candidates = np.minimum(candidates, rows.n_rows - 1)
        with_each = np.maximum(best[:, None], _log_densities(family, rows, _seeds(family, rows, candidates, mean)))
        winner = int(np.argmax(with_each.sum(axis=0)))
        chosen.append(int(candidates[winner]))
        best = with_each[:, winner].copy()
    labels = _likeliest(family, rows, _seeds(family, rows, chosen, mean))
    for _ in range(_N_ROUNDS):
        before = labels
        labels = _likeliest(family, rows, family.mode(family.sum_labels(rows, 0, rows.n_rows, 0, labels).total()))
        if np.array_equal(labels, before):
            break
    return labels


def _seeds(family: LinearFamily, rows: Any, chosen: Any, mean: np.ndarray) -> Any:
    """Components that have seen one of the chosen rows each, and one mean row."""
    totals = np.repeat(mean[:, None], len(chosen), axis=1)
    for k, row in enumerate(chosen):
        cells = slice(rows.indptr[row], rows.indptr[row + 1])
        totals[rows.indices[cells], k] += rows.counts[cells]
    return family.mode((np.full(len(chosen), 2.0), totals))


def _log_densities(family: LinearFamily, rows: Any, parameters: Any) -> np.ndarray:
    out = np.zeros((rows.n_rows, len(parameters.offsets)))
    family.add_log_densities(rows, 0, rows.n_rows, parameters, out)
    return out


def _likeliest(family: LinearFamily, rows: Any, parameters: Any) -> np.ndarray:
    return _log_densities(family, rows, parameters).argmax(axis=1).astype(np.int32)
