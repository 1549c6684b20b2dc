"""Initial components of rows and tokens, from seeds and a few rounds of hard assignments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn import config_context

from ..random._keys import subkey, uniform
from ..random._variates import some_rows
from ..utils._threads import split_range
from ._gaussian.kernels import add_diagonal_densities, add_labelled_products, add_shared_products
from ._gaussian.missing_kernels import count_labelled_missing, count_shared_missing

_N_ROUNDS = 20
_N_ROUNDS_OF_LABELS = 5
_MIN_ROWS, _ROWS_PER_CLUSTER = 1000, 20  # among which seeds of clusters are chosen
_CELLS_AT_ONCE = 1 << 22  # distances that are stored
_ROWS_AT_ONCE = 1 << 14  # whose log densities are stored
SUBSET, _SEEDS = 0, 1  # uses of the key


def cluster_rows(
    X: np.ndarray, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None, n_sampled: int | None = None
) -> np.ndarray:
    """Labels, (n,) int32, of k-means with features scaled to equal ranges; they do not depend on the threads.

    Ranges separate clusters better than standard deviations (Milligan and Cooper, 1988), which give features that are
    the same in nearly all rows too much weight. A positive whole weight has the effect of copies of a row next to it.
    Centres are found in `n_sampled` random rows, and rows get the nearest centre.
    """
    lowest = np.fmin.reduce(X, axis=0)
    scales = np.fmax.reduce(X, axis=0) - lowest
    scaled = (X - lowest) / np.where(scales > 0.0, scales, 1.0)  # squares of large means would hide small distances
    if n_sampled is None or n_sampled >= len(X):
        return k_means(scaled, n_clusters, key, row_weights)[0]
    chosen = some_rows(key, SUBSET, len(X), n_sampled)
    of_chosen = None if row_weights is None else row_weights[chosen]
    return nearest(scaled, k_means(scaled[chosen], n_clusters, key, of_chosen)[1])


def k_means(
    X: np.ndarray, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Cluster rows by k-means as they are: labels, (n,) int32, and centres, (K, d); they do not depend on threads.

    Seeds are those of k-means++ (Arthur and Vassilvitskii, 2007), with means of columns in missing cells, which
    distances and centres then omit. Clusters may be empty if rows are equal; K is at most the number of rows.
    """
    from sklearn.cluster import kmeans_plusplus  # slow to import

    n_clusters = min(n_clusters, len(X))
    if not X.size:  # all rows are equal
        return np.zeros(len(X), np.int32), np.zeros((n_clusters, X.shape[1]))
    has_missing = bool(np.isnan(X.min()))
    filled = np.where(np.isnan(X), _column_means(X, row_weights), X) if has_missing else X
    with config_context(skip_parameter_validation=True, assume_finite=True):  # a fifth of the time for small tables
        of_rows = {"sample_weight": row_weights, "random_state": int(key >> np.uint64(32))}
        centres, _ = kmeans_plusplus(filled, n_clusters, **of_rows)
    labels = np.full(len(X), -1, np.int32)
    for _ in range(_N_ROUNDS):
        before, labels = labels, nearest(X, centres)
        if np.array_equal(labels, before):
            break
        sizes, sums = _sums_of_cells(X, labels, row_weights, n_clusters, has_missing)
        np.divide(sums, sizes, out=centres, where=sizes > 0.0)
    return labels, centres


def nearest(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Index of the nearest centre of each row, (n,) int32, by the observed cells."""
    labels, of_centres = np.empty(len(X), np.int32), (centres, np.ones_like(centres), np.zeros_like(centres))
    for start, stop in split_range(len(X), max(1, _CELLS_AT_ONCE // len(centres))):
        nearness = np.zeros((stop - start, len(centres)))
        add_diagonal_densities(X, start, stop, *of_centres, nearness)
        labels[start:stop] = nearness.argmax(axis=1)
    return labels


def _column_means(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Means of the observed cells of each column, weighted; 0 without any."""
    missing = np.isnan(values)
    known, is_seen = np.where(missing, 0.0, values), ~missing
    if weights is None:
        return known.sum(axis=0) / np.maximum(is_seen.sum(axis=0), 1)
    sums, sizes = (np.einsum("i,ij->j", weights, cells) for cells in (known, is_seen))
    return np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0.0)


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
    """The weight of each row in the column of its label, (n, n_labels), for sums that use membership probabilities."""
    indicators = np.zeros((len(labels), n_labels))
    indicators[np.arange(len(labels)), labels] = weights
    return indicators


def seed_labels(family: Any, rows: Any, key: np.uint64, row_weights: np.ndarray | None = None) -> np.ndarray:
    """Initial labels, (n_rows,) int32, from K seeds, rows smoothed by the mean row, and a few hard assignments.

    Seeds are chosen as in k-means++ (Arthur and Vassilvitskii, 2007), each the best of a few candidates. The distance
    of a row is its `highest_log_densities` minus the log density given the best seed, minus the median of these: with
    many features most rows are far from all seeds, and only those farther than others should become seeds.
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
        labels = _likeliest(family, rows, family.mode(sums_of_labels(family, rows, labels, row_weights)))
        if np.array_equal(labels, before):
            break
    return labels


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted median: the mean of the lower and the upper one, if half of the weight is below each."""
    order = np.argsort(values, kind="stable")
    levels = np.cumsum(weights[order])
    ends = [np.searchsorted(levels, 0.5 * levels[-1], side=side) for side in ("left", "right")]
    return float(np.mean(values[order[np.minimum(ends, len(order) - 1)]]))


def sums_of_labels(family: Any, rows: Any, labels: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Statistics of labels."""
    if weights is None:
        return family.sum_labels(rows, 0, rows.n_rows, 0, labels).total()
    shares = weighted_indicators(labels, weights, family.n_components)
    return family.sum_shares(rows, 0, rows.n_rows, 0, shares).total()


def seed_clusters(family: Any, rows: Any, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Initial labels, (n_rows,) int32: the likeliest components, estimated from a random part of the rows if many."""
    family = family.with_components(n_clusters)
    n_chosen = max(_MIN_ROWS, _ROWS_PER_CLUSTER * n_clusters)
    if n_chosen >= rows.n_rows:
        return family.seed_labels(rows, subkey(key, _SEEDS))
    some = rows.take(some_rows(key, SUBSET, rows.n_rows, n_chosen))
    labels = family.seed_labels(some, subkey(key, _SEEDS))
    return _likeliest(family, rows, family.mode(sums_of_labels(family, some, labels, None)))


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
    """The component with the highest log density of each row, (n_rows,) int32."""
    out = np.empty(rows.n_rows, np.int32)
    for start, stop in split_range(rows.n_rows, _ROWS_AT_ONCE):
        part = rows.part(start, stop)
        out[start:stop] = _log_densities(family, part, parameters, family.n_components).argmax(axis=1)
    return out
