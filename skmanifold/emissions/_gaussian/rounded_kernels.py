"""Draws of numbers within the cells to which they were rounded, given the components of their rows.

In finite mixtures labels and numbers are drawn from their joint distribution given the parameters, by rejection. With
the precision L and the mean m of a component, and the slopes g = -L (c - m) at a point c of the cell,

    log N(c + u) = log N(c) + g'u - u'Lu / 2 <= log N(c) + g'u - u'Du / 2

for each diagonal D with L - D positive semi-definite. The integral of the bound over the cell is a product of integrals
over the columns. Labels are drawn in proportion to it, and u given the label from independent truncated normal
distributions. Both are accepted with probability exp(-u'(L - D)u / 2); columns that are independent have L = D.

1 / D_aa is s_a sum_b |C_ab| / s_b, for the covariance C and the standard deviations s: 1 / D - C is diagonally dominant
in units of s. L is the precision of the observed cells; their C is a part of that of all.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx

from ...random._keys import fold_in
from ...random._variates import truncated_normal
from ...utils._njit import njit, njit_part
from .missing_kernels import HALF_LOG_2PI, LEAST_PIVOT

_N_ROUNDS = 3  # in which the points of cells are found, one column after the other
_LEAST_FALL = 1e-5  # of the logarithm of a function, below which its integral is a series


@njit_part
def _within(key, low, high, mean, precision):
    root = math.sqrt(precision)
    x = mean + truncated_normal(key, (low - mean) * root, (high - mean) * root) / root
    return min(max(x, low), high)


@njit(cache=True, nogil=True)
def draw_in_cells(first, stop, lows, highs, labels, means, precisions, keys, values):
    """Draw the numbers of cells of positive width in the rows `first` to `stop` of `values`, which are independent.

    `lows` and `highs` are the bounds of cells, with NaN where a cell is missing; `means` and `precisions`, (K, d).
    Each row has a key.
    """
    for row in range(first, stop):
        k = labels[row]
        for a in range(values.shape[1]):
            if lows[row, a] < highs[row, a]:
                of_cell = fold_in(keys[row], a)
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


@njit(cache=True, nogil=True)
def fill_tangents(lows, highs, labels, means, precisions, points, slopes, heights):
    """Fill points of the cells of rows, and the slopes, (n, d), and heights, (n,), of log densities of labels there.

    Heights are relative to the log density of all columns at the mean. A point is near the mean of the numbers in the
    cell, where the bound is lowest: the mean if they were normal instead of uniform within the cell, moved into it.
    `precisions`, (G, d, d), are those of each component or of all.
    """
    d, gaps = means.shape[1], np.empty(means.shape[1])
    for i in range(len(labels)):
        mean, slope, whole = means[labels[i]], slopes[i], precisions[min(labels[i], len(precisions) - 1)]
        precision, heights[i] = whole.copy(), 0.0
        for a in range(d):
            gaps[a] = slope[a] = 0.0
            if np.isnan(lows[i, a]):  # the precision of the others is a Schur complement
                pivot = max(precision[a, a], LEAST_PIVOT * whole[a, a])
                share = precision[a] / pivot
                for b in range(d):
                    precision[b] -= precision[b, a] * share
                heights[i] += HALF_LOG_2PI - 0.5 * math.log(pivot)
        for j in range(_N_ROUNDS * d):
            a = j % d
            low, high = lows[i, a] - mean[a], highs[i, a] - mean[a]
            if low <= high:
                variance = (high - low) ** 2 / 12.0
                change = 0.5 * (low + high) - gaps[a] + variance * slope[a]
                new = gaps[a] + change / (1.0 + variance * precision[a, a])
                step = min(max(new, low), high) - gaps[a]
                gaps[a] += step
                for b in range(d):
                    slope[b] -= step * precision[a, b]
        for a in range(d):
            points[i, a] = mean[a] + gaps[a]
            heights[i] += 0.5 * gaps[a] * slope[a]


def log_means(lows, highs, slopes, precisions):
    """Logs of the means of ``exp(slope u - precision u^2 / 2)`` from low to high, or of the value if both are equal.

    The function falls from its highest value, which may be at an end, to both sides.
    """
    tops = np.clip(slopes / precisions, lows, highs)
    steep, roots, totals = np.abs(slopes - precisions * tops), np.sqrt(0.5 * precisions), 0.0
    starts = 0.5 * steep / roots
    for widths in (tops - lows, highs - tops):
        falls = widths * (steep + 0.5 * precisions * widths)
        exact = erfcx(starts) - np.exp(-falls) * erfcx(starts + roots * widths)
        series = widths * (1.0 - 0.5 * steep * widths - precisions * widths**2 / 6.0)
        totals = totals + np.where(falls < _LEAST_FALL, series, math.sqrt(0.5 * math.pi) * exact / np.sqrt(precisions))
    widths = highs - lows
    means = np.divide(totals, widths, out=np.ones(widths.shape), where=widths != 0.0)
    return tops * (slopes - 0.5 * precisions * tops) + np.log(means)
