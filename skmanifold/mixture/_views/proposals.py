"""Partitions of the rows that are proposed for views, and the densities with which they are proposed.

The proposal for a new view of one column is one Gibbs scan. It begins at given labels, the *launch*, and takes the rows
in order. A row is removed from its cluster and joins a cluster, or a new one, with probability proportional to the
number of rows times the predictive density. One row of each launch cluster, its *anchor*, stays, so that each
partition has at most one path of the scan: its cluster with an anchor is that of the anchor, and its other clusters
begin at their first row. Partitions that join two anchors have density zero. Proposals for the views after a split join
clusters of the view before it.

The concentration has the gamma prior (a, b). Given K clusters of n rows it is proposed from Ga(a + K - 1, b + log n +
0.577), which is close to its posterior where K is small compared with n.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from ...emissions.kernels import add_predictive, count_row, log_bayes_factor, merge_labels, refresh_posterior
from ...random._discrete_variates import draw_partition
from ...random._keys import Purpose, subkey, uniform
from ...random._variates import log_gamma_variate
from ...samplers._latent.stick_breaking import LEAST_CONCENTRATED, MOST_CONCENTRATED
from ...utils._njit import njit
from ...utils._threads import ONE, Workers
from .._dirichlet_process.model import draw_from_logs
from .._memberships import log_partition_prior
from .._scores import typical_rows

_MORE_CLUSTERS = 32  # than the launch has, at most
_LOG_CONCENTRATION = 0.0  # with which proposals begin new clusters
_SHARE_OF_PRIOR = 0.05  # of the proposals of one column


class Launch(NamedTuple):
    """Labels at which a scan begins, (n_rows,) int32 from 0 on without gaps, and the anchor of each cluster, (K,)."""

    labels: np.ndarray
    anchors: np.ndarray

    @classmethod
    def of_labels(cls, clusters: Any, labels: np.ndarray) -> Launch:
        """The launch with these labels; the anchor of a cluster is the row that most certainly belongs to it."""
        labels = compacted(labels)
        statistics = counted(clusters, labels, ONE)
        terms = np.repeat(np.log(statistics.sizes)[np.newaxis], len(labels), axis=0)
        clusters.add_log_predictive(statistics, terms, ONE)
        of_own = terms[np.arange(len(labels)), labels] - logsumexp(terms, axis=1)
        return cls(labels, typical_rows(of_own, labels, len(statistics.sizes)))


def compacted(labels: np.ndarray) -> np.ndarray:
    """The same partition with labels from 0 on without gaps, int32."""
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int32)


def counted(clusters: Any, labels: np.ndarray, workers: Workers) -> Any:
    """Statistics of labels from 0 on without gaps, of a family with given hyperparameters."""
    statistics = clusters.no_statistics(int(labels.max()) + 1)
    clusters.count(labels, statistics, workers)
    return statistics


class Proposal(NamedTuple):
    """A proposed partition, the concentration of its prior, and the log of the density with which it is proposed."""

    labels: np.ndarray
    concentration: float
    log_density: float


@njit(cache=True, nogil=True)
def _scan(data, statistics, posterior, is_anchor, n_clusters, wanted, log_concentration, key, labels):
    """Make a scan; `labels` are overwritten. Returns its log probability; -inf if there is no space for a cluster.

    `wanted`, (n_rows,), are the labels after the scan; if it is empty they are drawn.
    """
    capacity, log_probability = len(statistics.sizes), 0.0
    names, scores, scratch = np.arange(capacity), np.empty(capacity), np.empty((2, capacity))
    kept = np.empty(capacity)
    for label in range(capacity):
        refresh_posterior(data, statistics, posterior, label)
    for row in range(len(labels)):
        if is_anchor[row]:
            continue
        if n_clusters == capacity:
            return -np.inf
        old = np.int64(labels[row])
        count_row(data, statistics, row, old, -1)
        refresh_posterior(data, statistics, posterior, old)
        for k in range(n_clusters):
            scores[k] = math.log(statistics.sizes[k])
        scores[n_clusters] = log_concentration
        n = n_clusters + 1
        add_predictive(data, statistics, posterior, row, names, n, scores)
        for k in range(n):
            kept[k] = scores[k]
        if len(wanted):
            new = np.int64(wanted[row])
        else:
            new = np.int64(draw_from_logs(n, scores, scratch, uniform(key, row)))
        largest, total = kept[0], 0.0
        for k in range(1, n):
            largest = max(largest, kept[k])
        for k in range(n):
            total += math.exp(kept[k] - largest)
        log_probability += kept[new] - largest - math.log(total)
        labels[row] = new
        count_row(data, statistics, row, new, 1)
        refresh_posterior(data, statistics, posterior, new)
        n_clusters = max(n_clusters, new + 1)
    return log_probability


def scanned(clusters: Any, launch: Launch, key: np.uint64, given: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Labels after a scan from the launch, (n_rows,) int32, drawn or `given`, and the log of their probability."""
    n_launched, empty = len(launch.anchors), np.empty(0, np.int32)
    wanted = empty if given is None else _wanted(launch, given)
    if wanted is None:
        return launch.labels, -np.inf
    statistics = clusters.no_statistics(n_launched + _MORE_CLUSTERS)
    clusters.count(launch.labels, statistics, ONE)
    posterior, _ = clusters.split_merge_space(statistics, key)
    labels, is_anchor = launch.labels.copy(), np.zeros(len(launch.labels), bool)
    is_anchor[launch.anchors] = True
    log_probability = _scan(
        clusters.data, statistics, posterior, is_anchor, n_launched, wanted, _LOG_CONCENTRATION, key, labels
    )
    return labels, float(log_probability)


def _wanted(launch: Launch, given: np.ndarray) -> np.ndarray | None:
    """Given labels, numbered as a scan numbers them; None if two anchors have the same."""
    of_anchors = given[launch.anchors]
    names = np.full(int(given.max()) + 1, -1, np.int32)
    names[of_anchors] = np.arange(len(of_anchors))
    if not np.array_equal(names[of_anchors], np.arange(len(of_anchors))):
        return None
    present, first = np.unique(given, return_index=True)
    others = present[names[present] < 0]
    order = np.argsort(first[names[present] < 0])
    names[others[order]] = len(of_anchors) + np.arange(len(others))
    return names[given]


@njit(cache=True, nogil=True)
def _join(data, statistics, posterior, order, other, wanted, log_concentration, key, clusters):
    """Join blocks of rows, the labels of `statistics`, to `clusters`, (K,), which are filled; returns the log density.

    `wanted`, (K,), are the clusters; if it is empty they are drawn. Blocks with the same label in `other` stay apart.
    """
    n_clusters, log_probability = 0, 0.0
    firsts, scores, kept = np.empty_like(order), np.empty(len(order)), np.empty(len(order))
    scratch = np.empty((2, len(order)))
    for block in order:
        refresh_posterior(data, statistics, posterior, block)
    for t, block in enumerate(order):
        size, new = statistics.sizes[block], n_clusters
        for c in range(n_clusters):
            first = firsts[c]
            of_prior = math.lgamma(statistics.sizes[first] + size) - math.lgamma(statistics.sizes[first])
            scores[c] = of_prior - log_bayes_factor(data, statistics, posterior, first, block)
            if len(wanted) and wanted[first] == wanted[block]:
                new = c
        for earlier in order[:t]:
            if other[earlier] == other[block]:
                scores[clusters[earlier]] = -np.inf
        scores[n_clusters] = log_concentration + math.lgamma(size)
        n = n_clusters + 1
        kept[:n] = scores[:n]
        if not len(wanted):
            new = int(draw_from_logs(n, scores, scratch, uniform(key, block)))
        largest = kept[:n].max()
        log_probability += kept[new] - largest - math.log(np.exp(kept[:n] - largest).sum())
        clusters[block] = new
        if new == n_clusters:
            firsts[new] = block
            n_clusters += 1
        else:
            merge_labels(data, statistics, firsts[new], block)
            refresh_posterior(data, statistics, posterior, firsts[new])
    return log_probability


def coarsened(
    family: Any, blocks: np.ndarray, other: np.ndarray, key: np.uint64, given: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """A coarser partition of the rows, drawn or `given`, as clusters of the blocks, (K,), and its log probability.

    The blocks, largest first, join a cluster of earlier ones, or begin one, in proportion to the prior probability with
    concentration 1 and the marginal density. Blocks with the same label in `other`, (K,), stay in different clusters.
    """
    statistics = counted(family, blocks, ONE)
    posterior, _ = family.split_merge_space(statistics, key)
    order, clusters = np.argsort(-statistics.sizes, kind="stable"), np.empty(len(statistics.sizes), np.int64)
    wanted = np.empty(0, np.int64) if given is None else given
    log_probability = _join(family.data, statistics, posterior, order, other, wanted, _LOG_CONCENTRATION, key, clusters)
    return clusters, float(log_probability)


class ConcentrationPrior(NamedTuple):
    """The prior of the concentration of a view: a given number, or a gamma distribution, and how it is proposed."""

    given: float | None
    shape: float
    rate: float

    def initial(self, n_rows: int) -> float:
        """The given concentration, or the mean of the prior, but at most the number of rows."""
        return min(self.shape / self.rate, float(n_rows)) if self.given is None else float(self.given)

    def log_density(self, concentration: float) -> float:
        """Log prior density; 0 if the concentration is given."""
        return 0.0 if self.given is not None else _log_gamma_density(concentration, self.shape, self.rate)

    def proposed(self, n_clusters: int, n_rows: int, key: np.uint64) -> float:
        """A concentration for a partition with so many clusters."""
        return self._drawn(*self._of_clusters(n_clusters, n_rows), key)

    def log_proposal(self, concentration: float, n_clusters: int, n_rows: int) -> float:
        """The log of the density of `proposed`."""
        if self.given is not None:
            return 0.0
        return _log_gamma_density(concentration, *self._of_clusters(n_clusters, n_rows))

    def drawn(self, key: np.uint64) -> float:
        """A concentration from the prior."""
        return self._drawn(self.shape, self.rate, key)

    def _drawn(self, shape: float, rate: float, key: np.uint64) -> float:
        if self.given is not None:
            return float(self.given)
        drawn = math.exp(log_gamma_variate(key, shape)) / rate
        return min(max(drawn, LEAST_CONCENTRATED), MOST_CONCENTRATED)

    def _of_clusters(self, n_clusters: int, n_rows: int) -> tuple[float, float]:
        return self.shape + n_clusters - 1.0, self.rate + math.log(n_rows) + np.euler_gamma


def _log_gamma_density(x: float, shape: float, rate: float) -> float:
    return float(shape * math.log(rate) - gammaln(shape) + (shape - 1.0) * math.log(x) - rate * x)


def log_view_prior(labels: np.ndarray, concentration: float, prior: ConcentrationPrior) -> float:
    """Log prior density of a partition and its concentration."""
    return log_partition_prior(np.bincount(labels), concentration) + prior.log_density(concentration)


def propose_partition(clusters: Any, launch: Launch, prior: ConcentrationPrior, key: np.uint64) -> Proposal:
    """Draw a partition for one column: mostly a scan, sometimes a draw from the prior."""
    n_rows, of_scan, of_prior = len(launch.labels), subkey(key, Purpose.LABELS), subkey(key, Purpose.CONCENTRATION)
    if uniform(key, 0) < _SHARE_OF_PRIOR:
        concentration = prior.drawn(of_prior)
        labels = draw_partition(np.random.default_rng(int(of_scan)), n_rows, concentration)
        return Proposal(labels, concentration, log_proposal(clusters, launch, prior, labels, concentration))
    labels, log_scan = scanned(clusters, launch, of_scan)
    if log_scan == -math.inf:  # too many clusters
        return Proposal(labels, prior.initial(n_rows), math.inf)
    concentration = prior.proposed(int(labels.max()) + 1, n_rows, of_prior)
    return Proposal(labels, concentration, _log_mixed(log_scan, prior, labels, concentration))


def log_proposal(
    clusters: Any, launch: Launch, prior: ConcentrationPrior, labels: np.ndarray, concentration: float
) -> float:
    """The log of the density with which `propose_partition` draws these labels and this concentration."""
    _, log_scan = scanned(clusters, launch, np.uint64(0), labels)
    return _log_mixed(log_scan, prior, labels, concentration)


def _log_mixed(log_scan: float, prior: ConcentrationPrior, labels: np.ndarray, concentration: float) -> float:
    of_scan = log_scan + prior.log_proposal(concentration, int(labels.max()) + 1, len(labels))
    of_prior = log_view_prior(labels, concentration, prior)
    return float(np.logaddexp(math.log1p(-_SHARE_OF_PRIOR) + of_scan, math.log(_SHARE_OF_PRIOR) + of_prior))
