"""Initial labels of a mixture of an exponential family."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._labels import random_labels, read_labels


def checked_labels(init: Any, n_rows: int, n_components: int) -> np.ndarray:
    """Initial labels given by the user, validated."""
    return read_labels(init, n_rows, n_components, "init must be a name, or").astype(np.int32)


def start_labels(
    family: Any, rows: Any, init: str, key: np.uint64, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """Initial labels, (n_rows,) int32.

    "random" draws them independently. "k-means++" uses seeds that are spread over the rows, which needs a family with
    `HasSeeds`, or with `HasWeightedSeeds` if rows have weights.
    """
    K = family.n_components
    if K == 1:
        return np.zeros(rows.n_rows, np.int32)
    if init == "random":
        return random_labels(key, rows.n_rows, K)
    if row_weights is None:
        return family.seed_labels(rows, key)
    return family.seed_weighted_labels(rows, key, row_weights)
