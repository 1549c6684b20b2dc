"""Draws of numbers within the cells to which they were rounded, given the components of their rows."""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import fold_in
from ...random._variates import truncated_normal
from ...utils._njit import njit, njit_part


@njit_part
def _within(key, low, high, mean, precision):
    root = math.sqrt(precision)
    x = mean + truncated_normal(key, (low - mean) * root, (high - mean) * root) / root
    return min(max(x, low), high)


@njit(cache=True, nogil=True)
def draw_in_cells(first, stop, lows, highs, labels, means, precisions, key, values):
    """Draw the numbers of cells of positive width in the rows `first` to `stop` of `values`, which are independent.

    `lows` and `highs` are the bounds of cells, with NaN where a cell is missing; `means` and `precisions`, (K, d).
    """
    for row in range(first, stop):
        k, of_row = labels[row], fold_in(key, row)
        for a in range(values.shape[1]):
            if lows[row, a] < highs[row, a]:
                of_cell = fold_in(of_row, a)
                values[row, a] = _within(of_cell, lows[row, a], highs[row, a], means[k, a], precisions[k, a])


@njit(cache=True, nogil=True)
def draw_in_dependent_cells(first, stop, lows, highs, labels, means, precisions, origin, key, place, values, completed):
    """As `draw_in_cells` for precision matrices, (G, d, d): one cell after the other, given the others of its row.

    Rows with missing cells are at `place` in `completed`, and condition on these values. `means` are relative to the
    origin.
    """
    d = values.shape[1]
    gaps = np.empty(d)
    for row in range(first, stop):
        k, of_row = labels[row], fold_in(key, row)
        precision = precisions[min(k, len(precisions) - 1)]
        x = values[row] if place[row] < 0 else completed[place[row]]
        for a in range(d):
            gaps[a] = (x[a] - origin[a]) - means[k, a]
        for a in range(d):
            low, high = lows[row, a], highs[row, a]
            if not low < high:
                continue
            total = 0.0
            for b in range(d):
                total += precision[a, b] * gaps[b]
            total -= precision[a, a] * gaps[a]
            centre = origin[a] + means[k, a]
            mean = centre - total / precision[a, a]
            x[a] = values[row, a] = _within(fold_in(of_row, a), low, high, mean, precision[a, a])
            gaps[a] = x[a] - centre
