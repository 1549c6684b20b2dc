"""Initial components of rows and tokens, from seeds and a few rounds of hard assignments."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from sklearn import config_context

from ..random._keys import subkey, uniform
from ..random._variates import sample_rows
from ..utils._threads import split_range
from ._gaussian.kernels import add_diagonal_densities, add_labelled_products, add_shared_products
from ._gaussian.missing_kernels import count_labelled_missing, count_shared_missing

_N_ROUNDS = 10
_N_ROUNDS_OF_ROWS = 20
_N_ROUNDS_OF_LABELS = 5
_MIN_ROWS, _ROWS_PER_CLUSTER = 1000, 20  # among which seeds of clusters are chosen
_ROWS_AT_ONCE = 1 << 14  # whose log densities are stored
_SUBSET, _SEEDS = 0, 1  # uses of the key


def cluster_vectors(vectors: np.ndarray, weights: np.ndarray, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Cluster weighted vectors by k-means, with features scaled to equal variances.

    Seeds are those of k-means++ (Arthur and Vassilvitskii, 2007), each the best of a few candidates. If there are
    fewer different vectors than clusters, some clusters stay empty.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        Vectors.
    weights : ndarray of shape (n,)
        Not negative, and not all zero. Vectors with weight 0 have label 0.
    n_clusters : int
        Number of clusters K.
    key : uint64
        Key of the random choices.

    Returns
    -------
    labels : ndarray of shape (n,)
        Clusters.
    """
    labels = np.zeros(len(vectors), np.int64)
    present = np.flatnonzero(weights)
    rows, weights = vectors[present], weights[present]
    gaps = rows - np.average(rows, axis=0, weights=weights)
    scales = np.sqrt(np.average(gaps**2, axis=0, weights=weights))
    labels[present] = cluster_scaled(gaps / np.where(scales > 0.0, scales, 1.0), weights, n_clusters, key)
    return labels


def cluster_scaled(rows: np.ndarray, weights: np.ndarray, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Cluster weighted vectors by k-means as they are, with seeds as in `cluster_vectors`.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Vectors.
    weights : ndarray of shape (n,)
        Positive.
    n_clusters : int
        Number of clusters K.
    key : uint64
        Key of the random choices.

    Returns
    -------
    labels : ndarray of shape (n,)
        Clusters.
    """
    nearest = _squared_distances(rows, rows[_seeds(rows, weights, n_clusters, key)]).argmin(axis=1)
    for _ in range(_N_ROUNDS):
        before, sizes = nearest, np.bincount(nearest, weights=weights, minlength=n_clusters)
        sums = np.zeros((n_clusters, rows.shape[1]))
        np.add.at(sums, nearest, weights[:, np.newaxis] * rows)
        distances = _squared_distances(rows, sums / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis])
        nearest = np.where(sizes > 0.0, distances, np.inf).argmin(axis=1)
        if np.array_equal(nearest, before):
            break
    return nearest


def cluster_rows(X: np.ndarray, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None) -> np.ndarray:
    """Cluster rows by k-means, with features scaled to equal ranges; the result does not depend on the threads.

    Scaling by ranges separates clusters better than scaling by standard deviations (Milligan and Cooper, 1988), which
    gives features that are the same in nearly all rows too much weight.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows; NaN where a cell is missing. Such cells have the mean of the column while seeds are chosen. Then distances
        from centres, and centres, use the observed cells.
    n_clusters : int
        Number of clusters K.
    key : uint64
        Key of the random choices.
    row_weights : ndarray of shape (n,), optional
        Positive weights. Whole numbers have the same effect as copies of a row next to it.

    Returns
    -------
    labels : ndarray of shape (n,), int32
        Clusters.
    """
    from sklearn.cluster import kmeans_plusplus  # slow to import

    lowest = np.fmin.reduce(X, axis=0)
    scales = np.fmax.reduce(X, axis=0) - lowest
    scaled = (X - lowest) / np.where(scales > 0.0, scales, 1.0)  # squares of large means would hide small distances
    missing = np.isnan(scaled)
    filled = np.where(missing, _column_means(scaled, row_weights), scaled) if missing.any() else scaled
    with config_context(skip_parameter_validation=True, assume_finite=True):  # a fifth of the time for small tables
        of_rows = {"sample_weight": row_weights, "random_state": int(key >> np.uint64(32))}
        centres, _ = kmeans_plusplus(filled, n_clusters, **of_rows)
    labels = np.full(len(X), -1, np.int32)
    for _ in range(_N_ROUNDS_OF_ROWS):
        nearness = np.zeros((len(X), n_clusters))
        add_diagonal_densities(scaled, 0, len(X), centres, np.ones_like(centres), np.zeros_like(centres), nearness)
        before, labels = labels, nearness.argmax(axis=1).astype(np.int32)
        if np.array_equal(labels, before):
            break
        sizes, sums = _sums_of_cells(scaled, labels, row_weights, n_clusters, filled is not scaled)
        np.divide(sums, sizes, out=centres, where=sizes > 0.0)
    return labels


def _column_means(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Means of the observed cells of each column, weighted."""
    if weights is None:
        return np.nanmean(values, axis=0)
    missing = np.isnan(values)
    sums = np.einsum("i,ij->j", weights, np.where(missing, 0.0, values))
    return sums / np.einsum("i,ij->j", weights, ~missing)


def _sums_of_cells(
    values: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, n_clusters: int, has_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of observed cells of each label and feature, and their sums, (n_clusters, d) each, all weighted."""
    n, d = values.shape
    shape = 1, n_clusters, d
    sizes, sums, squares, missing = np.zeros(shape[:2]), np.zeros(shape), np.zeros((*shape, 1)), np.zeros(shape)
    known = np.nan_to_num(values, nan=0.0) if has_missing else values
    if weights is None:
        add_labelled_products(known, 0, n, n, labels, np.zeros(d), sizes, sums, squares)
        if has_missing:
            count_labelled_missing(values, 0, n, n, labels, missing)
    else:
        shares = weighted_indicators(labels, weights, n_clusters)
        add_shared_products(known, 0, n, shares, np.zeros(d), sizes[0], sums[0], squares[0])
        if has_missing:
            count_shared_missing(values, 0, n, shares, missing[0])
    return sizes[0, :, np.newaxis] - missing[0], sums[0]


def weighted_indicators(labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
    """The weight of each row in the column of its label, and zeros in the other columns.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Labels from 0.
    weights : ndarray of shape (n,)
        Weights of the rows.
    n_labels : int
        Number of labels.

    Returns
    -------
    indicators : ndarray of shape (n, n_labels)
        For sums that take membership probabilities.
    """
    indicators = np.zeros((len(labels), n_labels))
    indicators[np.arange(len(labels)), labels] = weights
    return indicators


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


def seed_labels(family: Any, rows: Any, key: np.uint64, row_weights: np.ndarray | None = None) -> np.ndarray:
    """Initial labels from K seeds, which are rows smoothed by the mean row, and a few rounds of hard assignments.

    Seeds are chosen as in k-means++ (Arthur and Vassilvitskii, 2007). The distance of a row is the difference between
    the highest log density that the family could give it and its log density given the best seed. The median of these
    distances is subtracted, because with many features most rows are far from all seeds, and only rows that are
    farther than others should become seeds. Each seed is the one of a few candidates that increases the log densities
    most.

    Parameters
    ----------
    family : LinearFamily
        With ``highest_log_densities``.
    rows : LinearRows
        Rows of the family.
    key : uint64
        Key of the random choices.
    row_weights : ndarray of shape (n_rows,), optional
        Positive weights. Whole numbers have the same effect as copies of a row next to it.

    Returns
    -------
    labels : ndarray of shape (n_rows,), int32
        Components.
    """
    weights = np.ones(rows.n_rows) if row_weights is None else row_weights
    levels = np.cumsum(weights)
    mean = rows.overall(family.n_statistics, row_weights) / levels[-1]
    highest = family.highest_log_densities(rows)
    n_candidates = 2 + int(math.log(family.n_components))

    def drawn(of_seed: np.uint64, levels: np.ndarray, n: int) -> np.ndarray:
        places = np.array([uniform(of_seed, c) for c in range(n)])
        return np.minimum(np.searchsorted(levels, places * levels[-1], side="right"), rows.n_rows - 1)

    chosen = drawn(key, levels, 1).tolist()
    best = _log_densities(family, rows, _smoothed_seeds(family, rows, chosen, mean), 1)[:, 0]
    for i in range(1, family.n_components):
        distances = highest - best
        median = np.median(distances) if row_weights is None else _weighted_median(distances, weights)
        running = np.cumsum(weights * np.maximum(distances - median, 0.0))
        all_are_alike = running[-1] == 0.0
        candidates = drawn(subkey(key, i), levels if all_are_alike else running, n_candidates)
        seeds = _smoothed_seeds(family, rows, candidates, mean)
        with_each = np.maximum(best[:, None], _log_densities(family, rows, seeds, n_candidates))
        winner = int(np.argmax((weights[:, np.newaxis] * with_each).sum(axis=0)))
        chosen.append(int(candidates[winner]))
        best = with_each[:, winner].copy()
    labels = _likeliest(family, rows, _smoothed_seeds(family, rows, chosen, mean))
    for _ in range(_N_ROUNDS_OF_LABELS):
        before = labels
        labels = _likeliest(family, rows, family.mode(_sums(family, rows, labels, row_weights)))
        if np.array_equal(labels, before):
            break
    return labels


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted median: the mean of the lower and the upper one, if half of the weight is below each."""
    order = np.argsort(values, kind="stable")
    levels = np.cumsum(weights[order])
    ends = [np.searchsorted(levels, 0.5 * levels[-1], side=side) for side in ("left", "right")]
    return float(np.mean(values[order[np.minimum(ends, len(order) - 1)]]))


def _sums(family: Any, rows: Any, labels: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Statistics of labels."""
    if weights is None:
        return family.sum_labels(rows, 0, rows.n_rows, 0, labels).total()
    shares = weighted_indicators(labels, weights, family.n_components)
    return family.sum_shares(rows, 0, rows.n_rows, 0, shares).total()


def seed_clusters(family: Any, rows: Any, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Initial labels: the likeliest components, estimated from a random part of the rows if there are many.

    Parameters
    ----------
    family : LinearFamily
        With ``seed_labels`` and any number of components.
    rows : LinearRows or Table
        Rows of the family.
    n_clusters : int
        Number of seeds; some clusters may have no rows.
    key : uint64
        Key of the random choices.

    Returns
    -------
    labels : ndarray of shape (n_rows,), int32
        Clusters.
    """
    family = copy.copy(family)
    family.n_components = n_clusters
    n_chosen = max(_MIN_ROWS, _ROWS_PER_CLUSTER * n_clusters)
    if n_chosen >= rows.n_rows:
        return family.seed_labels(rows, subkey(key, _SEEDS))
    chosen = np.empty((1, n_chosen), np.int64)
    sample_rows(np.array([key], np.uint64), _SUBSET, rows.n_rows, chosen)
    some = rows.take(np.sort(chosen[0]))
    labels = family.seed_labels(some, subkey(key, _SEEDS))
    parameters = family.mode(family.sum_labels(some, 0, n_chosen, 0, labels).total())
    out = np.empty(rows.n_rows, np.int32)
    for start, stop in split_range(rows.n_rows, _ROWS_AT_ONCE):
        scores = np.zeros((stop - start, n_clusters))
        family.add_log_densities(rows, start, stop, parameters, scores)
        out[start:stop] = scores.argmax(axis=1)
    return out


def _smoothed_seeds(family: Any, rows: Any, chosen: Any, mean: np.ndarray) -> Any:
    """Parameters of components, each estimated from one of the chosen rows and the mean row."""
    totals = np.repeat(mean[:, None], len(chosen), axis=1)
    for k, row in enumerate(chosen):
        cells = slice(rows.indptr[row], rows.indptr[row + 1])
        totals[rows.indices[cells], k] += rows.counts[cells]
    return family.mode(family._arranged(np.full(len(chosen), 2.0), totals))


def _log_densities(family: Any, rows: Any, parameters: Any, n_components: int) -> np.ndarray:
    out = np.zeros((rows.n_rows, n_components))
    family.add_log_densities(rows, 0, rows.n_rows, parameters, out)
    return out


def _likeliest(family: Any, rows: Any, parameters: Any) -> np.ndarray:
    return _log_densities(family, rows, parameters, family.n_components).argmax(axis=1).astype(np.int32)
