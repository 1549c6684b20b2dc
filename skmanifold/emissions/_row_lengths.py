"""Numbers of tokens of rows: their distribution in the fitted rows, from which those of new rows are drawn."""

from __future__ import annotations

import numpy as np

from ..random._keys import fold_in_each
from ..utils._conditions import Array

LENGTHS = Array("int64 int32", "n_lengths", low=0)
LEVELS = Array("float64", "n_lengths", above=0, high=1)


def distinct_lengths(lengths: np.ndarray, row_weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers of tokens of rows, sorted, and the running sums of their (weighted) shares, up to 1."""
    distinct, of_row = np.unique(lengths, return_inverse=True)
    levels = np.cumsum(np.bincount(of_row, row_weights))
    return distinct, levels / levels[-1]


def draw_lengths(lengths: np.ndarray, levels: np.ndarray, n_samples: int, key: np.uint64) -> np.ndarray:
    """Draw the numbers of tokens of new rows, (n_samples,) int64, from `distinct_lengths`."""
    uniforms = fold_in_each(key, np.arange(n_samples)) * 2.0**-64
    return lengths[np.searchsorted(levels[:-1], uniforms, side="right")].astype(np.int64)
