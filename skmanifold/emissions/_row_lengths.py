"""Numbers of tokens of rows: their distribution in the fitted rows, from which those of new rows are drawn."""

from __future__ import annotations

import numpy as np

from ..random._keys import fold_in_each
from ..utils._conditions import Array

LENGTHS = Array("int64 int32", "n_lengths", low=0)
LEVELS = Array("float64", "n_lengths", above=0, high=1)


def distinct_lengths(lengths: np.ndarray, row_weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers of tokens of rows, and the running sums of their shares of the rows.

    Parameters
    ----------
    lengths : ndarray of shape (n_rows,)
        Number of tokens of each row.
    row_weights : ndarray of shape (n_rows,), optional
        Weights of the rows; None: all are equal.

    Returns
    -------
    lengths : ndarray of shape (n_lengths,)
        Sorted.
    levels : ndarray of shape (n_lengths,)
        The last one is 1.
    """
    distinct, of_row = np.unique(lengths, return_inverse=True)
    levels = np.cumsum(np.bincount(of_row, row_weights))
    return distinct, levels / levels[-1]


def draw_lengths(lengths: np.ndarray, levels: np.ndarray, n_samples: int, key: np.uint64) -> np.ndarray:
    """Draw the numbers of tokens of new rows.

    Parameters
    ----------
    lengths, levels : ndarray of shape (n_lengths,)
        What `distinct_lengths` returned.
    n_samples : int
        Number of new rows.
    key : uint64
        Key of the random numbers.

    Returns
    -------
    lengths : ndarray of shape (n_samples,), int64
    """
    uniforms = fold_in_each(key, np.arange(n_samples)) * 2.0**-64
    return lengths[np.searchsorted(levels[:-1], uniforms, side="right")].astype(np.int64)
