"""From components to clusters: components that overlap, with no valley between them, are one cluster.

Components describe a density. A group of another shape has several of them, and the draws divide its rows between these
in different ways: the memberships of rows, averaged over the draws, overlap. But two groups that are close overlap too.
They differ from one group by a valley: few rows are in between, where the log odds of both are near zero. The
components of each draw are merged; the clusters of the estimate are those nearest to the clusters of the draws.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from ..utils._conditions import Array, Integer, Sizes

_MOST_DRAWS = 15  # from which memberships are computed
_LEAST_OVERLAP = 0.03  # of one cluster
_LEAST_SIZE = 15, 0.02  # of a cluster, in rows and as a share of all: the smaller number
_LEAST_VALLEY = 2.35  # of two clusters, in standard deviations of the numbers of rows
_PLACES = np.linspace(0.0, 1.0, 81)  # between the medians of two clusters, where rows are counted
_WIDTH = 0.25  # of the range of counted rows, as a share of the distance of the medians


class Merges(NamedTuple):
    """Successive merges of K components; a cluster has the number of its component, or K plus that of its merge."""

    pairs: Annotated[np.ndarray, Array("int64", "n_merges 2", low=0)]  # clusters that are merged
    overlaps: Annotated[np.ndarray, Array("float64", "n_merges", low=0)]
    n_chosen: Annotated[int, Integer(low=0)]  # merges after which the clusters are those nearest to the draws

    def _disagreement(self, sizes: Sizes) -> str | None:
        n_merges = len(self.pairs)
        known = np.arange(n_merges)[:, np.newaxis] + n_merges + 1
        if self.n_chosen > n_merges or (self.pairs >= known).any() or len(np.unique(self.pairs)) < 2 * n_merges:
            return "has merges of clusters that do not exist"
        return None

    def clusters(self, n_clusters: int | None, sizes: np.ndarray) -> np.ndarray:
        """The cluster of each component, (K,), the largest first by `sizes`, (K,); None is the chosen number."""
        K = len(self.pairs) + 1
        n_merges = self.n_chosen if n_clusters is None else max(0, K - n_clusters)
        clusters = np.arange(K)
        for step, pair in enumerate(self.pairs[:n_merges]):
            clusters[np.isin(clusters, pair)] = K + step
        clusters = np.unique(clusters, return_inverse=True)[1]
        return np.argsort(np.argsort(-np.bincount(clusters, sizes), kind="stable"))[clusters]


class _Merging:
    """Clusters of components that are merged step by step.

    `labels`, (n,), are the components of some rows, of which each component has at least one, `draws`, (n_draws, n),
    drawn partitions, and `terms`, (n, K), the logs of weights times densities.
    """

    def __init__(self, labels: np.ndarray, draws: np.ndarray, terms: np.ndarray) -> None:
        K = terms.shape[1]
        shares, own = _memberships(labels, draws, K), np.eye(K)[labels]
        self.together, self.sizes, self.n_rows = shares.T @ shares, shares.sum(axis=0), own.sum(axis=0)
        means = own.T @ terms / self.n_rows[:, np.newaxis]  # of the terms of components, (K, K), in the rows of each
        apart = np.diag(means)[:, np.newaxis] - means
        self.apart = apart + apart.T  # mean log odds of both
        self.terms, self.labels = terms.T.copy(), labels.copy()
        self.clusters, self.alive = np.arange(K), np.ones(K, bool)  # a cluster has the number of one of its components

    def overlaps(self, i: np.ndarray | int, j: np.ndarray) -> np.ndarray:
        """Overlaps of pairs of clusters."""
        return self.together[i, j] / np.minimum(self.sizes[i], self.sizes[j])

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All pairs of clusters, and how much log odds are lost if they are merged."""
        alive = np.flatnonzero(self.alive)
        first, second = np.nonzero(np.tri(len(alive), k=-1, dtype=bool).T)
        i, j = alive[first], alive[second]
        return i, j, np.minimum(self.n_rows[i], self.n_rows[j]) * self.apart[i, j]

    def merge(self, a: int, b: int) -> None:
        """Merge two clusters."""
        share = self.n_rows[a] / (self.n_rows[a] + self.n_rows[b])
        self.apart[a] = self.apart[:, a] = share * self.apart[a] + (1.0 - share) * self.apart[b]
        for sums in (self.together, self.together.T, self.sizes, self.n_rows):
            sums[a] += sums[b]
        self.terms[a] = np.logaddexp(self.terms[a], self.terms[b])
        self.labels[self.labels == b] = self.clusters[self.clusters == b] = a
        self.alive[b] = False

    def valley(self, a: int, b: int) -> float:
        """How many fewer rows there are between two clusters than on both sides, in standard deviations.

        Rows are counted in ranges of log odds between the medians of both clusters.
        """
        of_clusters = [np.flatnonzero(self.labels == cluster) for cluster in (b, a)]
        log_odds = [np.sort(self.terms[a, rows] - self.terms[b, rows]) for rows in of_clusters]
        low, high = (own[len(own) // 2] for own in log_odds)
        places, half = low + _PLACES * (high - low), 0.5 * _WIDTH * abs(high - low)
        ends = np.concatenate((places - half, np.nextafter(places + half, np.inf)))
        below, above = np.sum([np.searchsorted(own, ends) for own in log_odds], axis=0).reshape(2, -1)
        counts = above - below
        sides = np.maximum.accumulate(counts), np.maximum.accumulate(counts[::-1])[::-1]
        top = np.minimum(*sides)
        return float(((top - counts) / np.sqrt(np.maximum(top + counts, 1))).max())


def merge_draw(labels: np.ndarray, draws: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Clusters of the K components of a draw, (K,); the arguments are those of `_Merging`.

    The pair with the largest overlap is merged until no pair that overlaps is without a valley. Then small clusters are
    merged with those for which the fewest log odds are lost.
    """
    merging = _Merging(labels, draws, terms)
    n_least, share = _LEAST_SIZE
    least = min(n_least, share * len(labels))
    every = np.arange(terms.shape[1])
    left = np.triu(merging.overlaps(every[:, np.newaxis], every), 1)  # zero for pairs that are not merged
    while np.count_nonzero(merging.alive) > 1:
        a, b = divmod(int(left.argmax()), len(left))
        if left[a, b] >= _LEAST_OVERLAP:
            if merging.valley(a, b) >= _LEAST_VALLEY:
                left[a, b] = 0.0
                continue
        else:
            i, j, costs = merging.pairs()
            is_small = np.minimum(merging.n_rows[i], merging.n_rows[j]) < least
            if not is_small.any():
                break
            best = np.argmin(np.where(is_small, costs, np.inf))
            a, b = int(i[best]), int(j[best])
        merging.merge(a, b)
        left[b] = left[:, b] = 0.0
        of_merged = merging.overlaps(a, every) * merging.alive
        left[a, a + 1 :], left[:a, a] = of_merged[a + 1 :], of_merged[:a]
    return np.unique(merging.clusters, return_inverse=True)[1]


def merge_components(labels: np.ndarray, draws: np.ndarray, nearest: np.ndarray, terms: np.ndarray) -> Merges:
    """Merges of K components; the arguments are those of `_Merging`, and `nearest`, (n,), clusters of the rows.

    The first merges lead to these clusters, as far as components permit. In each of the others the fewest log odds are
    lost.
    """
    merging, K = _Merging(labels, draws, terms), terms.shape[1]
    common = np.zeros((K, nearest.max() + 1))
    np.add.at(common, (labels, nearest), 1)
    wanted, numbers, found, n_chosen = common.argmax(axis=1), np.arange(K), [], 0
    for step in range(K - 1):
        i, j, costs = merging.pairs()
        is_wanted = wanted[i] == wanted[j]
        n_chosen += is_wanted.any()
        overlaps = merging.overlaps(i, j)
        best = np.where(is_wanted, overlaps, -1.0).argmax() if is_wanted.any() else costs.argmin()
        a, b = i[best], j[best]
        found.append((numbers[a], numbers[b], overlaps[best]))
        merging.merge(a, b)
        numbers[a] = K + step
    pairs, overlaps = np.array([pair for *pair, _ in found], np.int64), np.array([each for *_, each in found])
    return Merges(pairs.reshape(-1, 2), overlaps, int(n_chosen))


def followed(labels: np.ndarray, clusters: np.ndarray, n_labels: int) -> np.ndarray:
    """The cluster of most rows of each component, (n_labels,); -1 if it has none. Rows with -1 are left out."""
    own, both = np.zeros((n_labels, max(1, clusters.max() + 1))), (labels >= 0) & (clusters >= 0)
    np.add.at(own, (labels[both], clusters[both]), 1)
    return np.where(own.any(axis=1), own.argmax(axis=1), -1)


def clusters_of(clusters: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Clusters of rows, (..., n), with these labels of components, of which `clusters` are (..., K); -1 stays."""
    return np.where(labels < 0, -1, np.take_along_axis(clusters, np.maximum(labels, 0), axis=-1))


def joined(shares: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Memberships of rows in clusters, (n, n_clusters): sums of those in components, (n, K), with these `clusters`."""
    sums = np.zeros((len(shares), clusters.max() + 1))
    for k, cluster in enumerate(clusters):
        sums[:, cluster] += shares[:, k]
    return sums


def _memberships(labels: np.ndarray, draws: np.ndarray, n_components: int) -> np.ndarray:
    """Memberships of rows, (n, K): how the rows of their drawn components are divided, averaged over the draws."""
    draws = draws[np.linspace(0, len(draws) - 1, min(len(draws), _MOST_DRAWS)).astype(int)]
    shares = np.zeros((len(labels), n_components))
    for drawn in draws:
        cells = drawn.astype(np.int64) * n_components + labels
        common = np.bincount(cells, minlength=(drawn.max() + 1) * n_components).reshape(-1, n_components)
        shares += (common / np.maximum(common.sum(axis=1, keepdims=True), 1))[drawn]
    return shares / len(draws)
