"""Kernels that count rows by their labels, for any family."""

from __future__ import annotations

import numpy as np

from ...utils._njit import njit
from ..kernels import count_row


@njit(cache=True, nogil=True)
def move_rows(data, rows, new_labels, first, stop, labels, statistics):
    """Move rows to their new labels in the statistics of the labels `first` to `stop`; `labels` do not change."""
    for i in range(len(rows)):
        row = rows[i]
        old, new = np.int64(labels[row]), np.int64(new_labels[i])  # `count_row` is compiled for one type
        if old == new:
            continue
        if first <= old < stop:
            count_row(data, statistics, row, old, -1)
        if first <= new < stop:
            count_row(data, statistics, row, new, 1)


@njit(cache=True, nogil=True)
def count_rows(data, labels, first, stop, statistics):
    """Add all rows to the statistics of their labels, of those from `first` to `stop`."""
    for row in range(len(labels)):
        label = np.int64(labels[row])
        if first <= label < stop:
            count_row(data, statistics, row, label, 1)


@njit(cache=True, nogil=True)
def count_some_rows(data, rows, sign, labels, first, stop, statistics):
    """Add some rows to the statistics of their labels, of those from `first` to `stop`, or subtract them."""
    for row in rows:
        label = np.int64(labels[row])
        if first <= label < stop:
            count_row(data, statistics, row, label, sign)
