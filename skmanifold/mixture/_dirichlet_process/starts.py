"""Initial labels of a Dirichlet process mixture."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from ...emissions._clusters.base import Clusters
from ...metrics._partitions import compact_labels
from .._labels import read_labels
from .model import Start

_AUTO_CLUSTERS = 100


def spread_start(init: Any, clusters: Clusters) -> Start:
    """Labels from seeds that are spread over the rows, or the labels that the user passed, renumbered without gaps."""
    n_rows = clusters.n_rows
    if isinstance(init, str | Integral):
        n_clusters = min(_AUTO_CLUSTERS if isinstance(init, str) else int(init), n_rows)
        return np.zeros(n_rows, np.int32) if n_clusters == 1 else partial(clusters.seed_labels, n_clusters)
    return compact_labels(read_labels(init, n_rows, None, "init must be 'auto', a number of clusters, or"))
