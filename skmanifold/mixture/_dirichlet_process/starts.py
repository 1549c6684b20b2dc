"""Initial labels of a Dirichlet process mixture."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from ...emissions._clusters.base import Clusters
from ...emissions._clusters.statistics import by_size, selected
from ...metrics._partitions import compact_labels
from ...random._keys import Purpose, fold_in_each, subkey
from ...samplers import Slice
from ...utils._threads import Workers, split_range
from .._labels import read_labels
from .greedy_merging import merge_greedily
from .model import DPModel, Start

_AUTO_CLUSTERS = 100
_FEWER_CLUSTERS = 30, 10, 3, 1  # from these too: too many small clusters may share parameters that fit them alone
_MOST_SAMPLED = 20_000  # rows
_N_PASSES = 5
_ROWS_AT_ONCE = 1 << 14
_CONCENTRATION = 1.0


def spread_start(init: Any, clusters: Clusters) -> Start:
    """Initial labels from many seeds, from one cluster, or those that the user passed, renumbered without gaps."""
    n_rows = clusters.n_rows
    if isinstance(init, str | Integral):
        n_clusters = min(_AUTO_CLUSTERS if isinstance(init, str) else int(init), n_rows)
        return np.zeros(n_rows, np.int32) if n_clusters == 1 else partial(_labels_from_seeds, clusters, n_clusters)
    return compact_labels(read_labels(init, n_rows, None, "init must be 'auto', a number of clusters, or"))


def _labels_from_seeds(clusters: Clusters, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Labels from seeds that are spread over the rows, improved on a sample of the rows and merged greedily.

    A few passes from the seeds adapt the clusters to the emission. Then superfluous clusters are merged, which the
    chain would do slowly if they are large. A random sample of the rows suffices; its clusters then receive the other
    rows.
    """
    if clusters.n_rows <= _MOST_SAMPLED:
        return _merged_clusters(clusters, n_clusters, key)
    order = np.argsort(fold_in_each(subkey(key, Purpose.SUBSAMPLE), np.arange(clusters.n_rows)), kind="stable")
    sample = clusters.subset(np.sort(order[:_MOST_SAMPLED]))
    statistics = _statistics_of(sample, _merged_clusters(sample, n_clusters, key))
    labels = np.empty(clusters.n_rows, np.int32)
    log_shares = np.log(statistics.sizes / statistics.sizes.sum())
    with Workers(1) as workers:
        for start, stop in split_range(clusters.n_rows, _ROWS_AT_ONCE):
            terms = np.repeat(log_shares[np.newaxis], stop - start, axis=0)
            clusters.part(start, stop).add_log_predictive(statistics, terms, workers)
            labels[start:stop] = terms.argmax(axis=1)
    return labels


def _merged_clusters(clusters: Clusters, n_clusters: int, key: np.uint64) -> np.ndarray:
    """The labels with the highest joint density among those from several numbers of seeds.

    They are numbered by the sizes of the clusters: if several starts find the same partition, rounding errors choose
    one of them, and the fit should not depend on that.
    """
    smaller = [n for n in _FEWER_CLUSTERS if n < n_clusters]
    with Workers(1) as workers:
        starts = [_labels_after_passes(clusters, n, key, workers) for n in (n_clusters, *smaller)]
    return compact_labels(max(starts, key=lambda start: start[1])[0]).astype(np.int32)


def _labels_after_passes(
    clusters: Clusters, n_clusters: int, key: np.uint64, workers: Workers
) -> tuple[np.ndarray, float]:
    """Labels after a few passes from seeds and greedy merges, and their log joint density."""
    labels = clusters.seed_labels(n_clusters, subkey(key, Purpose.CENTRES, n_clusters))
    options: Any = {"init": labels, "batch_size": None, "workers": workers}
    model = DPModel(clusters, _CONCENTRATION, (1.0, 1.0), **options)
    sampler: Any = Slice(n_split_merge=0)
    state = sampler.init(model, subkey(key, Purpose.WARM_UP, n_clusters))
    for _ in range(_N_PASSES):
        state = sampler.step(model, state)
    merged = merge_greedily(clusters, state.latents, state.statistics, _CONCENTRATION, key)
    return merged, model.log_joint(model.count(merged), _CONCENTRATION)


def _statistics_of(clusters: Clusters, labels: np.ndarray) -> Any:
    """Statistics of the labels, the largest cluster first."""
    statistics = clusters.no_statistics(int(labels.max()) + 1)
    with Workers(1) as workers:
        clusters.count(labels, statistics, workers)
    return selected(statistics, by_size(statistics))
