"""From components to clusters: components that overlap, with no valley between them, are one cluster.

Components describe a density. A group of another shape has several of them, and the draws divide its rows between these
in different ways: the memberships of rows, averaged over the draws, overlap. But two groups that are close overlap too.
They differ from one group by a valley: few rows are in between, where the log odds of both are near zero.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from ..utils._conditions import Array, Integer, Sizes

_MOST_DRAWS = 100  # from which memberships are computed
_LEAST_OVERLAP = 0.03  # of one cluster
_LEAST_SIZE = 15, 0.02  # of a cluster, in rows and as a share of all: the smaller number
_LEAST_VALLEY = 2.5  # of two clusters, in standard deviations of the numbers of rows
_N_PLACES = 81  # between the medians of two clusters, at which rows are counted
_WIDTH = 0.25  # of the range of counted rows, as a share of the distance of the medians


class Merges(NamedTuple):
    """Successive merges of K components; a cluster has the number of its component, or K plus that of its merge."""

    pairs: Annotated[np.ndarray, Array("int64", "n_merges 2", low=0)]  # clusters that are merged
    overlaps: Annotated[np.ndarray, Array("float64", "n_merges", low=0)]
    n_chosen: Annotated[int, Integer(low=0)]  # merges of overlapping clusters without a valley, and of small ones

    def _disagreement(self, sizes: Sizes) -> str | None:
        n_merges = len(self.pairs)
        known = np.arange(n_merges)[:, np.newaxis] + n_merges + 1
        if self.n_chosen > n_merges or (self.pairs >= known).any() or len(np.unique(self.pairs)) < 2 * n_merges:
            return "has merges of clusters that do not exist"
        return None

    def clusters(self, n_clusters: int | None = None) -> np.ndarray:
        """The cluster of each component, (K,), numbered in the order of the components; None is the chosen number."""
        K = len(self.pairs) + 1
        n_merges = self.n_chosen if n_clusters is None else K - n_clusters
        clusters = np.arange(K)
        for step, pair in enumerate(self.pairs[:n_merges]):
            clusters[np.isin(clusters, pair)] = K + step
        _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse]


def merge_components(labels: np.ndarray, draws: np.ndarray, chosen: np.ndarray, terms: np.ndarray) -> Merges:
    """Merges of K components, the pair with the largest overlap first.

    `labels`, (n_rows,), are the components of rows, `draws`, (n_draws, n_rows), drawn partitions, and `terms`, (n, K),
    logs of weights times densities of the `chosen` rows, (n,), of which each component has some. After the last merge
    of overlapping clusters without a valley, small clusters are merged with others, and then the others: the pair with
    the smallest product of the mean log odds of its rows and of the rows of the smaller cluster.
    """
    K, (n_least, share) = terms.shape[1], _LEAST_SIZE
    least = min(n_least, share * len(terms))
    shares = _memberships(labels, draws, chosen, K)
    labels, own = labels[chosen], np.eye(K)[labels[chosen]]
    together, sizes, n_rows = shares.T @ shares, shares.sum(axis=0), own.sum(axis=0)
    means = own.T @ terms / n_rows[:, np.newaxis]  # of the terms of components, (K, K), in the rows of each
    apart = np.diag(means)[:, np.newaxis] - means
    apart += apart.T.copy()
    terms, numbers = terms.T.copy(), np.arange(K)
    alive, valleys, found, n_chosen = np.arange(K), {}, [], None
    for step in range(K - 1):
        i, j = (alive[own] for own in np.triu_indices(len(alive), 1))
        overlaps = together[i, j] / np.minimum(sizes[i], sizes[j])
        costs = np.minimum(n_rows[i], n_rows[j]) * apart[i, j]
        if n_chosen is None:
            order = np.argsort(-overlaps, kind="stable")
            for best in order[overlaps[order] >= _LEAST_OVERLAP]:
                a, b = i[best], j[best]
                pair = numbers[a], numbers[b]
                if pair not in valleys:
                    valleys[pair] = _valley(terms[a] - terms[b], labels == a, labels == b)
                if valleys[pair] < _LEAST_VALLEY:
                    break
            else:
                is_small = np.minimum(n_rows[i], n_rows[j]) < least
                best = np.argmin(np.where(is_small, costs, np.inf))
                n_chosen = None if is_small.any() else step
        if n_chosen is not None:
            best = np.argmin(costs)
        a, b = i[best], j[best]
        found.append((numbers[a], numbers[b], overlaps[best]))
        apart[a] = apart[:, a] = np.average(apart[[a, b]], axis=0, weights=n_rows[[a, b]])
        for sums in (together, together.T, sizes, n_rows):
            sums[a] += sums[b]
        terms[a] = np.logaddexp(terms[a], terms[b])
        labels[labels == b], numbers[a] = a, K + step
        alive = alive[alive != b]
    pairs, overlaps = np.array([pair for *pair, _ in found], np.int64), np.array([each for *_, each in found])
    return Merges(pairs.reshape(-1, 2), overlaps, K - 1 if n_chosen is None else n_chosen)


def _memberships(labels: np.ndarray, draws: np.ndarray, chosen: np.ndarray, n_components: int) -> np.ndarray:
    """Memberships of rows, (n, K): how the rows of their drawn components are divided, averaged over the draws."""
    draws = draws[np.linspace(0, len(draws) - 1, min(len(draws), _MOST_DRAWS)).astype(int)]
    shares = np.zeros((len(chosen), n_components))
    for drawn in draws:
        cells = drawn.astype(np.int64) * n_components + labels
        common = np.bincount(cells, minlength=(drawn.max() + 1) * n_components).reshape(-1, n_components)
        shares += (common / np.maximum(common.sum(axis=1, keepdims=True), 1))[drawn[chosen]]
    return shares / len(draws)


def _valley(log_odds: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """How many fewer rows there are between two clusters than on both sides, in standard deviations of the difference.

    Rows are counted in ranges of log odds between the medians of both clusters.
    """
    low, high = np.median(log_odds[second]), np.median(log_odds[first])
    places, half = np.linspace(low, high, _N_PLACES), 0.5 * _WIDTH * abs(high - low)
    rows = np.sort(log_odds[first | second])
    counts = np.searchsorted(rows, places + half, "right") - np.searchsorted(rows, places - half)
    sides = np.maximum.accumulate(counts), np.maximum.accumulate(counts[::-1])[::-1]
    top = np.minimum(*sides)
    return float(((top - counts) / np.sqrt(np.maximum(top + counts, 1))).max())
