"""Initial clusters of many rows: seeds chosen among a random part of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ....random._keys import subkey
from ....random._variates import sample_rows
from ....utils._threads import split_range

_MIN_ROWS, _ROWS_PER_CLUSTER = 1000, 20  # among which seeds are chosen
_ROWS_AT_ONCE = 1 << 14  # whose log densities are stored
_SUBSET, _SEEDS = 0, 1  # uses of the key


def seed_labels(family: Any, rows: Any, n_clusters: int, key: np.uint64) -> np.ndarray:
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
