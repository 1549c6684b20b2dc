"""Labels that a mixture of an exponential family begins with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...random._keys import fold_in_each
from ...utils._labels import read_labels


def checked_labels(init: Any, n_rows: int, n_components: int) -> np.ndarray:
    """A user's labels to begin with."""
    return read_labels(init, n_rows, n_components, "init must be a name, or").astype(np.int32)


def start_labels(family: Any, rows: Any, init: str, key: np.uint64) -> np.ndarray:
    """Labels to begin with, (n_rows,) int32.

    "random" draws them independently. "k-means++" asks the family, a `HasSeeds`, for labels from seeds that are spread
    over the rows.
    """
    K = family.n_components
    if K == 1:
        return np.zeros(rows.n_rows, np.int32)
    if init == "random":
        return (fold_in_each(key, np.arange(rows.n_rows)) % np.uint64(K)).astype(np.int32)
    return family.seed_labels(rows, key)
