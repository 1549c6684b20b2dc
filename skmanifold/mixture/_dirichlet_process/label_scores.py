"""Scores of the labels of rows, given the clusters of a partition, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...emissions._family import Family
from ...utils._threads import Workers, split_range

_CELLS_AT_ONCE = 1 << 20


def label_scores(clusters: Family, statistics: Any, workers: Workers) -> Iterator[tuple[slice, np.ndarray]]:
    """Log of size times predictive density of each row given each cluster, (n_rows of a block, K), block by block.

    Parameters
    ----------
    clusters : Family
        The rows.
    statistics : NamedTuple
        Statistics of K clusters, which have rows.
    workers : Workers

    Yields
    ------
    rows : slice
        A block of rows.
    scores : ndarray of shape (n_rows of the block, K)
    """
    log_sizes = np.log(statistics.sizes)
    for start, stop in split_range(clusters.n_rows, max(1, _CELLS_AT_ONCE // len(log_sizes))):
        scores = np.repeat(log_sizes[np.newaxis], stop - start, axis=0)
        clusters.part(start, stop).add_log_predictive(statistics, scores, workers)
        yield slice(start, stop), scores
